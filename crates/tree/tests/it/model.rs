//! A tree as a plain map, read by `std::fs` alone, and change sets taken at their word on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use tree::change::{ChangeKind, ChangeSet};
use tree::entry::{Entry, Kind};
use tree::layer::DirMarks;
use tree::{Layer, Source, TreePath};

/// What an entry is, without times and numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thing {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    /// Content of a file, target of a link.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Model(BTreeMap<TreePath, Thing>);

impl Model {
    /// A directory on disk.
    pub(crate) fn read(root: &Path) -> Model {
        let mut model = Model::default();
        model.read_below(root, &TreePath::root());
        model
    }

    fn read_below(&mut self, root: &Path, at: &TreePath) {
        for item in fs::read_dir(root.join(OsStr::from_bytes(at.as_bytes()))).expect("read_dir") {
            let item = item.expect("item");
            let path = at.join(item.file_name().as_bytes());
            let meta = fs::symlink_metadata(item.path()).expect("stat");
            let kind = match meta.file_type() {
                kind if kind.is_dir() => Kind::Dir,
                kind if kind.is_symlink() => Kind::Symlink,
                kind if kind.is_fifo() => Kind::Fifo,
                kind if kind.is_socket() => Kind::Socket,
                _ => Kind::File,
            };
            let bytes = match kind {
                Kind::File => fs::read(item.path()).expect("read"),
                Kind::Symlink => {
                    fs::read_link(item.path()).expect("readlink").as_os_str().as_bytes().to_vec()
                }
                _ => Vec::new(),
            };
            let mode = if kind == Kind::Symlink { 0 } else { meta.mode() & 0o7777 };
            self.0.insert(path.clone(), Thing { kind, mode, owner: (meta.uid(), meta.gid()), bytes });
            if kind == Kind::Dir {
                self.read_below(root, &path);
            }
        }
    }

    /// Any tree of the crate, by single questions and by listing with entries, which must agree.
    pub(crate) fn of_source(source: &dyn Source) -> Model {
        let mut model = Model::default();
        let mut open = vec![TreePath::root()];
        while let Some(dir) = open.pop() {
            let listed = source.list_entries(&dir).expect("list");
            let names: Vec<Vec<u8>> = listed.iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(source.list(&dir).expect("list"), names);
            for (name, entry) in listed {
                let path = dir.join(&name);
                assert_eq!(source.entry(&path).expect("entry"), Some(entry.clone()), "{path:?}");
                model.0.insert(path.clone(), thing(source, &path, &entry));
                if entry.is_dir() {
                    open.push(path);
                }
            }
        }
        model
    }

    /// What a layer holds, in times and attributes too, whiteouts and marks included: a line for each entry.
    pub(crate) fn of_layer(layer: &dyn Layer) -> Vec<String> {
        let mut lines = Vec::new();
        let mut open = vec![TreePath::root()];
        while let Some(dir) = open.pop() {
            // Below what merges with nothing, a mark says nothing.
            let marks = if dir.is_root() { DirMarks::default() } else { layer.marks(&dir).expect("marks") };
            for (name, entry) in layer.names(&dir, true).expect("names") {
                let (path, entry) = (dir.join(&name), entry.expect("looked at"));
                let at = path.as_bytes().escape_ascii();
                if entry.is_whiteout() {
                    // Whether it hides anything is the lower tree's to say.
                    continue;
                }
                let xattrs = layer.xattrs(&path).expect("xattrs");
                let (mode, times) = (entry.mode, (entry.mtime.sec, entry.mtime.nsec));
                let bytes = if entry.is_file() {
                    kernel::bytes::read_all(layer.open(&path).expect("open")).expect("read")
                } else {
                    entry.target.clone()
                };
                let bytes = bytes.escape_ascii();
                lines
                    .push(format!("{at} {:?} {mode:o} {times:?} {xattrs:?} {bytes} {:?}", entry.kind, marks));
                if entry.is_dir() {
                    open.push(path);
                }
            }
        }
        lines.sort();
        lines
    }

    /// What is left when a change set is taken at its word: the meaning that `tree::change` writes down.
    pub(crate) fn after(&self, set: &ChangeSet, lane: &dyn Source) -> Model {
        let named: BTreeSet<&TreePath> =
            set.changes.iter().filter(|c| c.kind != ChangeKind::Add).map(|c| c.old_path()).collect();
        let mut result = Model::default();
        for (path, thing) in &self.0 {
            if !named.contains(path) {
                let there = carried(set, path);
                assert!(result.0.insert(there, thing.clone()).is_none(), "two entries at one path");
            }
        }
        for change in &set.changes {
            let Some(new) = &change.new else { continue };
            let mut now = thing(lane, &change.path, new);
            match &change.kind {
                ChangeKind::Mode | ChangeKind::Rename { modified: false, .. } => {
                    now.bytes.clone_from(&self.0[change.old_path()].bytes);
                }
                _ => {}
            }
            assert!(result.0.insert(change.path.clone(), now).is_none(), "two entries at {:?}", change.path);
        }
        result
    }

    /// Changes that change nothing.
    pub(crate) fn noise(&self, set: &ChangeSet, shown: &Model) -> Vec<String> {
        let mut noise = Vec::new();
        for change in &set.changes {
            let (old, new) = (self.0.get(change.old_path()), shown.0.get(&change.path));
            let said = match &change.kind {
                ChangeKind::Add => new.is_some(),
                ChangeKind::Delete => old.is_some() && new.is_none(),
                ChangeKind::Modify => {
                    matches!((old, new), (Some(a), Some(b)) if a.kind == b.kind && a.bytes != b.bytes)
                }
                ChangeKind::Mode => matches!((old, new), (Some(a), Some(b)) if a != b && a.bytes == b.bytes),
                ChangeKind::Retype => matches!((old, new), (Some(a), Some(b)) if a.kind != b.kind),
                ChangeKind::Rename { from, modified } => {
                    let along = carried_by_others(set, from, &change.path) == change.path;
                    *from != change.path
                        && matches!((old, new), (Some(a), Some(b))
                            if a.kind == b.kind && (a.bytes != b.bytes) == *modified && (!along || a != b))
                }
            };
            if !said {
                noise.push(format!("{change:?}"));
            }
        }
        noise
    }

    /// Where two trees differ.
    pub(crate) fn difference(&self, other: &Model) -> Vec<String> {
        let paths: BTreeSet<&TreePath> = self.0.keys().chain(other.0.keys()).collect();
        paths
            .into_iter()
            .filter(|path| self.0.get(path) != other.0.get(path))
            .map(|path| format!("{path:?}: {:?} but should be {:?}", self.0.get(path), other.0.get(path)))
            .collect()
    }
}

/// Where a base entry that no change names stands: below the innermost renamed directory above it.
fn carried(set: &ChangeSet, path: &TreePath) -> TreePath {
    carried_by_others(set, path, &TreePath::root())
}

fn carried_by_others(set: &ChangeSet, path: &TreePath, but: &TreePath) -> TreePath {
    let mut best: Option<(&TreePath, &TreePath)> = None;
    for change in &set.changes {
        if let ChangeKind::Rename { from, .. } = &change.kind
            && change.new.as_ref().is_some_and(Entry::is_dir)
            && change.path != *but
            && path.starts_with(from)
            && best.is_none_or(|(longest, _)| from.as_bytes().len() > longest.as_bytes().len())
        {
            best = Some((from, &change.path));
        }
    }
    match best {
        Some((from, to)) => to.join_path(&path.strip_prefix(from).expect("prefix")),
        None => path.clone(),
    }
}

fn thing(source: &dyn Source, path: &TreePath, entry: &Entry) -> Thing {
    let bytes = match entry.kind {
        Kind::File => kernel::bytes::read_all(source.open(path).expect("open")).expect("read"),
        Kind::Symlink => entry.target.clone(),
        _ => Vec::new(),
    };
    let mode = if entry.kind == Kind::Symlink { 0 } else { entry.mode };
    Thing { kind: entry.kind, mode, owner: (entry.uid, entry.gid), bytes }
}

/// The changes between two trees, renames not looked for, as lines.
pub(crate) fn naive_changes(base: &Model, lane: &Model) -> Vec<String> {
    let paths: BTreeSet<&TreePath> = base.0.keys().chain(lane.0.keys()).collect();
    let mut lines = Vec::new();
    for path in paths {
        let what = match (base.0.get(path), lane.0.get(path)) {
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) if a.kind != b.kind => "retype",
            (Some(a), Some(b)) if a.bytes != b.bytes => "modify",
            (Some(_), Some(_)) => "mode",
            (Some(_), None) => "delete",
            _ => "add",
        };
        lines.push(format!("{what} {}", path.as_bytes().escape_ascii()));
    }
    lines
}
