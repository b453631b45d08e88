//! [`OnlyHere`]: what would be lost with a lane, because it exists nowhere else: not in the origin, not in an export that is
//! still there, not in a commit of the origin.
//!
//! Invariant: what cannot be told counts as only here. Nothing of the lane is run or obeyed; refs and objects are read as
//! data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use review::blob::blob_name;
use tree::{Change, ChangeKind, DirTree, Entry, Kind, Source, TreePath};
use workspace::git_objects::Objects;

use crate::describe;
use crate::engine::Engine;
use crate::error::Result;
use crate::history::LaneHistory;
use crate::lane::{OpenLane, OpenRoot};

/// Paths that are named; the rest is counted.
const NAMED: usize = 5;
/// Larger files are not looked for in git, and after so many bytes nothing is: a discard is not to follow what a build left.
const HASHED: u64 = 64 << 20;
const HASHED_IN_ALL: u64 = 256 << 20;
/// Refs of a lane that are looked at.
const REFS: usize = 10_000;
/// Newest exports of a lane that are looked at.
const EXPORTS: u32 = 1000;

/// What exists nowhere else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnlyHere {
    /// Changes.
    pub changes: u64,
    /// The first of them: root and path.
    pub first: Vec<(PathBuf, TreePath)>,
    /// Commits that refs of the lane name: ref and id.
    pub commits: Vec<(String, String)>,
    /// Files that the lane wrote below `$HOME`.
    pub home: u64,
    /// Snapshots: earlier states.
    pub snapshots: u64,
}

impl OnlyHere {
    /// True where nothing would be lost but earlier states.
    pub fn is_nothing(&self) -> bool {
        self.changes == 0 && self.commits.is_empty() && self.home == 0
    }

    /// Looks at a lane. Unless it is to be `exact`, what an earlier sum read of content is not read again.
    pub fn of(engine: &Engine, lane: &OpenLane, exact: bool) -> Result<OnlyHere> {
        let mut found = OnlyHere { home: lane.home_changes(), ..OnlyHere::default() };
        let exports = exports(engine, lane)?;
        let deltas = if exact { lane.changes()? } else { lane.summed()? };
        let mut budget = HASHED_IN_ALL;
        for (root, delta) in lane.roots.iter().zip(deltas) {
            if delta.set.changes.is_empty() && delta.git_internal == 0 && !root.view.git {
                continue;
            }
            let objects = objects(root);
            let inside = root.workspace.lane_tree()?;
            let none = Vec::new();
            let copies = exports.get(&root.index).unwrap_or(&none);
            for change in delta.set.changes.iter().filter(|change| counts(change)) {
                let is_elsewhere = copies.iter().any(|copy| is_in(copy, change, &*inside))
                    || is_in_git(&objects, change, &*inside, &mut budget);
                if !is_elsewhere {
                    found.changes += 1;
                    if found.first.len() < NAMED {
                        found.first.push((delta.root.clone(), change.path.clone()));
                    }
                }
            }
            found.commits.extend(commits(root, &*inside, &objects));
        }
        if let Some(history) = LaneHistory::find(engine, lane).ok().flatten() {
            found.snapshots = history.read().map_or(0, |read| read.snapshots().count() as u64);
        }
        Ok(found)
    }
}

/// A directory that is new, or is gone, stands for what is or was in it.
fn counts(change: &Change) -> bool {
    let is_dir = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_dir);
    match change.kind {
        ChangeKind::Add => !is_dir(&change.new),
        ChangeKind::Delete => !is_dir(&change.old),
        _ => true,
    }
}

/// The exports of a lane that are still there, by root.
fn exports(engine: &Engine, lane: &OpenLane) -> Result<BTreeMap<usize, Vec<DirTree>>> {
    let mut found: BTreeMap<usize, Vec<DirTree>> = BTreeMap::new();
    let operations = engine.ledger()?.ops(Some(&lane.row.id), EXPORTS)?;
    for operation in operations.iter().filter(|operation| operation.act.verb == "export") {
        let plan = &operation.act.plan;
        let first = std::iter::once((0, describe::path_of(&plan["target"])));
        let further = plan["further"].as_array().into_iter().flatten();
        let further = further.map(|target| {
            let index = target["root"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
            (index, describe::path_of(&target["path"]))
        });
        for (index, path) in first.chain(further) {
            if let Some(copy) = path.and_then(|path| DirTree::open(&path).ok()) {
                found.entry(index).or_default().push(copy);
            }
        }
    }
    Ok(found)
}

/// True where an export shows at the path what the lane shows there.
fn is_in(copy: &DirTree, change: &Change, lane: &dyn Source) -> bool {
    let is_gone = |path: &TreePath| copy.entry(path).is_ok_and(|entry| entry.is_none());
    if let ChangeKind::Rename { from, .. } = &change.kind
        && !is_gone(from)
    {
        return false;
    }
    let Some(new) = &change.new else { return is_gone(&change.path) };
    let Ok(Some(there)) = copy.entry(&change.path) else { return false };
    if there.kind != new.kind || new.kind != Kind::Symlink && there.mode & 0o777 != new.mode & 0o777 {
        return false;
    }
    match new.kind {
        Kind::Symlink => there.target == new.target,
        // A renamed directory has what is in it, and what differs inside is a change of its own.
        Kind::Dir | Kind::Fifo => true,
        Kind::File => {
            there.size == new.size
                && match (copy.open(&change.path), lane.open(&change.path)) {
                    (Ok(a), Ok(b)) => kernel::bytes::same_content(&a, &b).unwrap_or(false),
                    _ => false,
                }
        }
        _ => false,
    }
}

/// True where the origin's repository has the content that a change brings.
fn is_in_git(objects: &Objects, change: &Change, lane: &dyn Source, budget: &mut u64) -> bool {
    if objects.is_empty() {
        return false;
    }
    let brings = match change.kind {
        ChangeKind::Add | ChangeKind::Modify | ChangeKind::Retype => true,
        ChangeKind::Rename { modified, .. } => modified,
        ChangeKind::Delete | ChangeKind::Mode => false,
    };
    let most = HASHED.min(*budget);
    let Some(new) = change.new.as_ref().filter(|new| brings && new.size <= most) else { return false };
    *budget -= new.size;
    matches!(blob_name(lane, &change.path, new), Ok(Some(name)) if objects.has(&name))
}

/// The objects of the repository that a root of the origin has, or is.
fn objects(root: &OpenRoot) -> Objects {
    if root.view.git {
        return Objects::open(&root.view.path);
    }
    let facts = workspace::git::facts(&root.view.path);
    let own = facts.top.as_ref().map(|top| top.join(".git"));
    let common = facts.common_dir.or(own).unwrap_or_else(|| root.view.path.join(".git"));
    Objects::open(&common)
}

/// Commits that refs of the lane name and the origin's repository does not have, each once.
fn commits(root: &OpenRoot, lane: &dyn Source, objects: &Objects) -> Vec<(String, String)> {
    let git = if root.view.git { Some(TreePath::root()) } else { TreePath::new(".git").ok() };
    let Some(git) = git else { return Vec::new() };
    let mut refs: BTreeMap<String, String> = BTreeMap::new();
    if let Some(packed) = small(lane, &git.join(b"packed-refs")) {
        for line in packed.split(|b| *b == b'\n').filter(|line| line.len() > 41 && line[0] != b'#') {
            let (id, name) = (&line[..40], &line[41..]);
            refs.insert(name.escape_ascii().to_string(), id.escape_ascii().to_string());
        }
    }
    let mut open = vec![git.join(b"refs")];
    while let Some(dir) = open.pop() {
        for (name, entry) in lane.list_entries(&dir).unwrap_or_default() {
            let path = dir.join(&name);
            if refs.len() > REFS {
                break;
            }
            if entry.is_dir() {
                open.push(path);
            } else if let Some(id) = small(lane, &path) {
                let name = path.strip_prefix(&git).unwrap_or(path);
                refs.insert(
                    name.as_bytes().escape_ascii().to_string(),
                    id.trim_ascii().escape_ascii().to_string(),
                );
            }
        }
    }
    if let Some(head) = small(lane, &git.join(b"HEAD")) {
        refs.insert("HEAD".to_owned(), head.trim_ascii().escape_ascii().to_string());
    }
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, id) in refs {
        let Some(bytes) = bytes_of(&id) else { continue };
        if !objects.has(&bytes) && !found.iter().any(|(_, known)| *known == id) {
            found.push((name, id));
        }
    }
    found
}

/// A small file of the lane.
fn small(lane: &dyn Source, path: &TreePath) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let entry = lane.entry(path).ok()??;
    if !entry.is_file() || entry.size > 8 << 20 {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::from(lane.open(path).ok()?).take(8 << 20).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A SHA-1 name in hexadecimal.
fn bytes_of(text: &str) -> Option<[u8; 20]> {
    if text.len() != 40 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 20];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// The lane's own words for where it is: the path below the project, or the whole one of a further root.
pub fn shown(origin: &Path, root: &Path, path: &TreePath) -> PathBuf {
    if root == origin { path.as_path().to_owned() } else { root.join(path.as_path()) }
}
