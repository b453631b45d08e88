//! The base manifest: what every entry of a root was, recorded by a walk, so that drift can be told
//! later without reading content. `format` holds the bytes, `record` the walk.
//!
//! Invariant: a manifest is whole or absent (published by rename), its entries are sorted in the order
//! of [`TreePath`], and an entry that had changed before the walk reached it says so instead of posing
//! as the base.

mod format;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kernel::error::Asked as _;
use tree::dir::DirTree;
use tree::{Entry, Kind, Time, TreePath};

pub use record::{Draft, RecordOptions, Recording, record};

use crate::error::{Doing as _, Error, Result};
use crate::home::HomeDir;
use crate::origin::ForeignOwners;

/// What a manifest says of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The entry as the walk found it (its device is not recorded).
    pub entry: Entry,
    /// It had changed after the base time when the walk found it: what it was then is not known. Of a
    /// directory it also says that names may have come and gone in it.
    pub is_later: bool,
    /// A directory that could not be read: nothing is known of what is below it.
    pub is_unread: bool,
}

/// A loaded manifest. Loading is one read; entries are decoded when they are asked for.
#[derive(Clone)]
pub struct Manifest {
    bytes: Vec<u8>,
    header: format::Header,
    unread: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Manifest({} entries)", self.header.count)
    }
}

/// Name of the manifest of root `index` in a lane's directory.
pub fn file_name(index: usize) -> String {
    format!("manifest.{index}")
}

impl Manifest {
    /// The manifest of root `index` of a lane; `None` while there is none.
    pub fn load(home: &HomeDir, index: usize) -> Result<Option<Manifest>> {
        Manifest::load_named(home, &file_name(index))
    }

    pub(crate) fn load_named(home: &HomeDir, name: &str) -> Result<Option<Manifest>> {
        let path = home.path.join(name);
        let Some(bytes) = read_whole(home, name).doing("read manifest", &path)? else { return Ok(None) };
        Manifest::from_bytes(bytes, path).map(Some)
    }

    /// Checks bytes and takes them as a manifest; `path` names them in an error.
    pub fn from_bytes(bytes: Vec<u8>, path: impl Into<PathBuf>) -> Result<Manifest> {
        let header = format::Header::read(&bytes)
            .ok_or_else(|| Error::Damaged { what: "manifest", path: path.into() })?;
        let unread = format::decode_gaps(&bytes[bytes.len() - header.gaps_len..]);
        Ok(Manifest { bytes, header, unread })
    }

    /// How many entries it has, the root included.
    pub fn len(&self) -> usize {
        self.header.count
    }

    /// True where nothing is recorded, not even the root.
    pub fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    /// What it says of `path`.
    pub fn get(&self, path: &TreePath) -> Option<Recorded> {
        self.find(path).map(|at| self.recorded(at))
    }

    /// Everything recorded strictly below the directory at `path`, in order.
    pub fn below(&self, path: &TreePath) -> impl Iterator<Item = (TreePath, Recorded)> + '_ {
        let (from, to) = self.find(path).map_or((0, 0), |at| (at + 1, self.end_of(at)));
        (from..to).filter_map(|at| Some((TreePath::new(self.path_at(at)).ok()?, self.recorded(at))))
    }

    /// True where every file of the tree shared its bytes with another when it was recorded.
    pub fn is_all_cloned(&self) -> bool {
        self.header.all_cloned
    }

    /// The names that were in the directory at `path`.
    pub fn names_in(&self, path: &TreePath) -> Vec<Vec<u8>> {
        let prefix_len = if path.is_root() { 0 } else { path.as_bytes().len() + 1 };
        let Some(dir) = self.find(path) else { return Vec::new() };
        let mut at = dir + 1;
        let mut names = Vec::new();
        while at < self.len() {
            let child = self.path_at(at);
            if !is_below(child, path.as_bytes()) {
                break;
            }
            names.push(child[prefix_len..].to_vec());
            at = self.end_of(at);
        }
        names
    }

    /// Every recorded path with what is said of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (TreePath, Recorded)> + '_ {
        (0..self.len()).filter_map(|at| Some((TreePath::new(self.path_at(at)).ok()?, self.recorded(at))))
    }

    /// Recorded names beside `paths` of the files that `paths` name, where the origin has them as they are
    /// recorded. What happens to a file under one name changes its state under all of them.
    pub fn other_names(&self, paths: &[TreePath], origin: &DirTree) -> Result<Vec<TreePath>> {
        let linked = |file: &Recorded| file.entry.nlink > 1 && !file.entry.is_dir();
        let files = paths.iter().filter_map(|path| self.get(path).filter(linked));
        let inodes: BTreeSet<u64> = files.map(|file| file.entry.ino).collect();
        let mut found = Vec::new();
        if inodes.is_empty() {
            return Ok(found);
        }
        let named: BTreeSet<&TreePath> = paths.iter().collect();
        for at in (0..self.len()).filter(|at| inodes.contains(&format::ino(self.record(*at)))) {
            let Ok(path) = TreePath::new(self.path_at(at)) else { continue };
            let was = self.recorded(at);
            if named.contains(&path) || was.is_later || was.entry.is_dir() {
                continue;
            }
            let now = tree::Source::entry(origin, &path).doing("look at", path_of(path.as_bytes()))?;
            if now.is_some_and(|now| is_same_state(&was.entry, &now)) {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Paths that could not be read when the walk was there.
    pub fn unread(&self) -> impl Iterator<Item = TreePath> + '_ {
        self.unread.iter().filter_map(|path| TreePath::new(path).ok())
    }

    /// Owners other than the caller, from a full walk.
    pub fn foreign_owners(&self, root: &std::path::Path) -> ForeignOwners {
        let caller = crate::origin::caller();
        let mut found = ForeignOwners { checked_fully: self.unread.is_empty(), ..ForeignOwners::default() };
        for at in 0..self.len() {
            let owner = format::owner(self.record(at));
            found.note(caller, owner, || root.join(path_of(self.path_at(at))));
        }
        found
    }

    /// Publishes, as the manifest of root `index`, this one with `paths` (and their parent directories) as
    /// the origin has them now: what was just kept is the base from here on. Of a directory that went, or that
    /// came with what is in it, one path is enough. `also` ([`Manifest::other_names`], asked for beforehand) is
    /// taken without the directories above.
    pub fn advance(
        &self,
        paths: &[TreePath],
        also: &[TreePath],
        origin: &DirTree,
        home: &HomeDir,
        index: usize,
    ) -> Result<()> {
        let mut touched: BTreeMap<TreePath, Option<(Entry, bool)>> = BTreeMap::new();
        for path in paths.iter().flat_map(|path| std::iter::successors(Some(path.clone()), TreePath::parent))
        {
            if touched.contains_key(&path) {
                continue;
            }
            let now = tree::Source::entry(origin, &path).doing("look at", path_of(path.as_bytes()))?;
            // A directory that held unknown names still does.
            let keeps = self.get(&path).is_some_and(|was| was.is_later);
            let now = now.map(|entry| {
                let is_later = entry.is_dir() && keeps;
                (entry, is_later)
            });
            touched.insert(path, now);
        }
        for path in also {
            let now = tree::Source::entry(origin, path).doing("look at", path_of(path.as_bytes()))?;
            touched.entry(path.clone()).or_insert(now.map(|entry| (entry, false)));
        }
        let was_dir = |path: &TreePath| self.get(path).is_some_and(|was| was.entry.is_dir());
        let is_dir = |now: &Option<(Entry, bool)>| now.as_ref().is_some_and(|(entry, _)| entry.is_dir());
        let gone: Vec<TreePath> = touched
            .iter()
            .filter(|(path, now)| was_dir(path) && !is_dir(now))
            .map(|(path, _)| path.clone())
            .collect();
        let came: Vec<TreePath> = touched
            .iter()
            .filter(|(path, now)| !was_dir(path) && is_dir(now))
            .map(|(path, _)| path.clone())
            .collect();
        for dir in came {
            add_below(origin, &dir, &mut touched)?;
        }
        let mut draft = Draft::begin(home)?;
        let mut touched = touched.into_iter().peekable();
        for (path, recorded) in self.iter() {
            while let Some((new_path, new)) = touched.next_if(|(new, _)| *new < path) {
                push_if_there(&mut draft, &new_path, new)?;
            }
            match touched.next_if(|(new, _)| *new == path) {
                Some((_, new)) => push_if_there(&mut draft, &path, new)?,
                None if gone.iter().any(|dir| path.starts_with(dir)) => {}
                None => draft.push(&path, &recorded.entry, recorded.is_later)?,
            }
        }
        for (path, new) in touched {
            push_if_there(&mut draft, &path, new)?;
        }
        for gap in self.unread() {
            draft.push_unread(&gap);
        }
        draft.publish(&file_name(index))
    }

    fn record(&self, at: usize) -> &[u8] {
        let start = format::HEADER + at * format::RECORD;
        &self.bytes[start..start + format::RECORD]
    }

    fn path_at(&self, at: usize) -> &[u8] {
        format::path(self.record(at), self.blob())
    }

    fn blob(&self) -> &[u8] {
        let start = format::HEADER + self.header.count * format::RECORD;
        &self.bytes[start..start + self.header.blob_len]
    }

    fn recorded(&self, at: usize) -> Recorded {
        let mut recorded = format::decode(self.record(at), self.blob());
        recorded.is_unread = self.unread.iter().any(|path| path == self.path_at(at));
        recorded
    }

    fn find(&self, path: &TreePath) -> Option<usize> {
        let at = self.lower_bound(path.as_bytes());
        (at < self.len() && self.path_at(at) == path.as_bytes()).then_some(at)
    }

    /// Index of the first entry that is not before `path`.
    fn lower_bound(&self, path: &[u8]) -> usize {
        self.partition(0, |other| compare(other, path).is_lt())
    }

    /// Index after the entry at `at` and everything below it.
    fn end_of(&self, at: usize) -> usize {
        let path = self.path_at(at);
        self.partition(at + 1, |other| is_below(other, path))
    }

    fn partition(&self, from: usize, holds: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self.path_at(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Notes everything below a directory that is not noted yet.
fn add_below(
    origin: &DirTree,
    dir: &TreePath,
    touched: &mut BTreeMap<TreePath, Option<(Entry, bool)>>,
) -> Result<()> {
    let below = tree::Source::list_entries(origin, dir).doing("look at", path_of(dir.as_bytes()))?;
    for (name, entry) in below {
        let path = dir.join(name);
        let is_dir = entry.is_dir();
        touched.entry(path.clone()).or_insert(Some((entry, false)));
        if is_dir {
            add_below(origin, &path, touched)?;
        }
    }
    Ok(())
}

fn push_if_there(draft: &mut Draft, path: &TreePath, entry: Option<(Entry, bool)>) -> Result<()> {
    match entry {
        Some((entry, is_later)) => draft.push(path, &entry, is_later),
        None => Ok(()),
    }
}

/// The order of [`TreePath`] on bare bytes.
fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let key = |b: &u8| if *b == b'/' { 0 } else { *b };
    a.iter().map(key).cmp(b.iter().map(key))
}

fn is_below(path: &[u8], dir: &[u8]) -> bool {
    (dir.is_empty() && !path.is_empty()) || (path.starts_with(dir) && path.get(dir.len()) == Some(&b'/'))
}

fn path_of(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt as _;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
}

fn read_whole(home: &HomeDir, name: &str) -> kernel::Result<Option<Vec<u8>>> {
    use std::io::Read as _;
    let file = match kernel::open::file_beneath(&home.fd, name.as_bytes()) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let mut file = std::fs::File::from(file);
    let size = file.metadata().asked("fstat", name)?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.read_to_end(&mut bytes).asked("read", name)?;
    Ok(Some(bytes))
}

/// True where two entries are the same inode in the same state: nothing wrote to it in between.
pub fn is_same_state(a: &Entry, b: &Entry) -> bool {
    let key = |e: &Entry| -> (Kind, u64, u64, Time, Time, u32) {
        (e.kind, e.ino, e.size, e.mtime, e.ctime, e.mode)
    };
    key(a) == key(b)
}

#[cfg(test)]
mod tests;
