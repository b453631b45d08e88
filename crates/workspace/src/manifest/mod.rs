//! The base manifest: what every entry of a root was, recorded by a walk, so that drift can be told
//! later without reading content. `format` holds the bytes, `record` the walk.
//!
//! Invariant: a manifest is whole or absent (published by rename), its entries are sorted in the order
//! of [`TreePath`], and an entry that had changed before the walk reached it says so instead of posing
//! as the base.

mod format;
mod pages;
mod record;
mod retreat;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use tree::dir::{DirTree, Neighbours};
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

/// What of the origin becomes the base.
#[derive(Debug, Clone, Copy, Default)]
pub struct Advance<'a> {
    /// What was kept. Of a directory that went one path is enough.
    pub paths: &'a [TreePath],
    /// Directories among them that came with all that is in them: everything below becomes the base too.
    pub whole: &'a [TreePath],
    /// Other names of files ([`Manifest::other_names`], asked for beforehand); taken without the directories above.
    pub also: &'a [TreePath],
    /// What is none: there the origin holds more than the lane.
    pub except: &'a [TreePath],
}

/// A manifest on disk. Opening reads its head; entries are read and decoded when they are asked for, so that neither
/// time nor memory follows its size. Any question may find it damaged.
pub struct Manifest {
    pages: pages::Pages,
    header: format::Header,
    unread: Vec<Vec<u8>>,
    /// Where the last path was, or would be: those that are asked for one after the other mostly stand together.
    last: Cell<usize>,
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
        let file = match kernel::open::file_beneath(&home.fd, name.as_bytes()) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other.doing("open manifest", &path)?,
        };
        let damaged = || Error::Damaged { what: "manifest", path: path.clone() };
        let read = |len: usize, at: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; len];
            let got = kernel::bytes::read_full_at(&file, &mut bytes, at as u64);
            if got.doing("read manifest", &path)? < len { Err(damaged()) } else { Ok(bytes) }
        };
        let size = kernel::meta::stat_fd(&file).doing("look at manifest", &path)?.size;
        let head = read(format::HEADER, 0)?;
        let head: &[u8; format::HEADER] = head.first_chunk().ok_or_else(damaged)?;
        let header = format::Header::read(head).ok_or_else(damaged)?;
        if header.file_len() as u64 != size {
            return Err(damaged());
        }
        let end = format::HEADER + header.body_len();
        let sums = read(header.file_len() - end, end)?;
        if !format::Header::is_sum(head, &sums) {
            return Err(damaged());
        }
        let sums = format::decode_sums(&sums);
        let pages = pages::Pages::new(file, path, header.body_len(), sums);
        let mut gaps = Vec::new();
        pages.read(header.body_len() - header.gaps_len, header.gaps_len, &mut gaps)?;
        Ok(Some(Manifest { pages, header, unread: format::decode_gaps(&gaps), last: Cell::new(0) }))
    }

    /// Reads the whole of it once, so that no later question finds it damaged.
    pub fn check(&self) -> Result<()> {
        (0..self.pages.count()).try_for_each(|number| self.pages.check(number))
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
    pub fn get(&self, path: &TreePath) -> Result<Option<Recorded>> {
        self.find(path)?.map(|at| self.recorded(at)).transpose()
    }

    /// Everything recorded strictly below the directory at `path`, in order.
    pub fn below(&self, path: &TreePath) -> Result<impl Iterator<Item = Result<(TreePath, Recorded)>> + '_> {
        let (from, to) = match self.find(path)? {
            Some(at) => (at + 1, self.end_of(at)?),
            None => (0, 0),
        };
        Ok((from..to).map(|at| self.told(at)))
    }

    /// True where every file of the tree shared its bytes with another when it was recorded.
    pub fn is_all_cloned(&self) -> bool {
        self.header.all_cloned
    }

    /// The names that were in the directory at `path`.
    pub fn names_in(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        let prefix_len = if path.is_root() { 0 } else { path.as_bytes().len() + 1 };
        let Some(dir) = self.find(path)? else { return Ok(Vec::new()) };
        let mut at = dir + 1;
        let (mut names, mut child) = (Vec::new(), Vec::new());
        while at < self.len() {
            self.path_at(at, &mut child)?;
            if !is_below(&child, path.as_bytes()) {
                break;
            }
            names.push(child[prefix_len..].to_vec());
            self.record(at, &mut child)?;
            at = if format::is_dir(&child) { self.end_of(at)? } else { at + 1 };
        }
        Ok(names)
    }

    /// Every recorded path with what is said of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<(TreePath, Recorded)>> + '_ {
        (0..self.len()).map(|at| self.told(at))
    }

    /// Recorded names beside `paths` of the files that `paths` name, where the origin has them as they are
    /// recorded. What happens to a file under one name changes its state under all of them.
    pub fn other_names(&self, paths: &[TreePath], origin: &DirTree) -> Result<Vec<TreePath>> {
        let mut inodes = BTreeSet::new();
        for path in paths {
            let linked = |file: &Recorded| file.entry.nlink > 1 && !file.entry.is_dir();
            inodes.extend(self.get(path)?.filter(linked).map(|file| file.entry.ino));
        }
        let mut found = Vec::new();
        if inodes.is_empty() {
            return Ok(found);
        }
        let named: BTreeSet<&TreePath> = paths.iter().collect();
        let mut record = Vec::new();
        for at in 0..self.len() {
            self.record(at, &mut record)?;
            if !inodes.contains(&format::ino(&record)) {
                continue;
            }
            let (path, was) = self.told(at)?;
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
    pub fn foreign_owners(&self, root: &std::path::Path) -> Result<ForeignOwners> {
        let caller = crate::origin::caller();
        let mut found = ForeignOwners { checked_fully: self.unread.is_empty(), ..ForeignOwners::default() };
        let (mut record, mut path) = (Vec::new(), Vec::new());
        for at in 0..self.len() {
            self.record(at, &mut record)?;
            self.path_at(at, &mut path)?;
            found.note(caller, format::owner(&record), || root.join(path_of(&path)));
        }
        Ok(found)
    }

    /// Publishes, as the manifest of root `index`, this one with what `advance` names (and the parent directories) as the
    /// origin has it now: what was just kept is the base from here on.
    pub fn advance(
        &self,
        advance: &Advance<'_>,
        origin: &DirTree,
        home: &HomeDir,
        index: usize,
    ) -> Result<()> {
        let Advance { paths, whole, also, except } = *advance;
        let mut touched: BTreeMap<TreePath, Option<(Entry, bool)>> = BTreeMap::new();
        let (mut gone, mut came): (Vec<TreePath>, Vec<TreePath>) = (Vec::new(), Vec::new());
        let named: BTreeSet<&TreePath> = paths.iter().collect();
        let except: BTreeSet<&TreePath> = except.iter().collect();
        let whole: BTreeSet<&TreePath> = whole.iter().collect();
        let mut entries = Neighbours::new(origin);
        let paths = paths.iter().filter(|path| !except.contains(path));
        for path in paths.flat_map(|path| std::iter::successors(Some(path.clone()), TreePath::parent)) {
            if touched.contains_key(&path) {
                continue;
            }
            let now = entries.entry(&path).doing("look at", path_of(path.as_bytes()))?;
            // A directory that held unknown names still does.
            let was = self.get(&path)?;
            let keeps = was.as_ref().is_some_and(|was| was.is_later);
            let now = now.map(|mut entry| {
                let is_later = entry.is_dir() && keeps;
                let had =
                    was.as_ref().filter(|was| was.entry.is_dir() && entry.is_dir() && !named.contains(&path));
                // The mode that a person gave a directory above is no more the lane's than it was.
                entry.mode = had.map_or(entry.mode, |was| was.entry.mode);
                (entry, is_later)
            });
            let was_dir = was.is_some_and(|was| was.entry.is_dir());
            match (was_dir, now.as_ref().is_some_and(|(entry, _)| entry.is_dir())) {
                (true, false) => gone.push(path.clone()),
                // What a person put into any other directory is no base of the lane's.
                (false, true) if whole.contains(&path) => came.push(path.clone()),
                _ => {}
            }
            touched.insert(path, now);
        }
        for path in also {
            let now = tree::Source::entry(origin, path).doing("look at", path_of(path.as_bytes()))?;
            touched.entry(path.clone()).or_insert(now.map(|entry| (entry, false)));
        }
        for dir in came {
            add_below(origin, &dir, &except, &mut touched)?;
        }
        let mut draft = Draft::begin(home)?;
        let mut touched = touched.into_iter().peekable();
        for told in self.iter() {
            let (path, recorded) = told?;
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

    fn record(&self, at: usize, record: &mut Vec<u8>) -> Result<()> {
        self.pages.read(at * format::RECORD, format::RECORD, record)
    }

    fn blob(&self, (at, len): (usize, usize), out: &mut Vec<u8>) -> Result<()> {
        if at.checked_add(len).is_none_or(|end| end > self.header.blob_len) {
            return Err(self.pages.damaged());
        }
        self.pages.read(self.header.count * format::RECORD + at, len, out)
    }

    fn path_at(&self, at: usize, path: &mut Vec<u8>) -> Result<()> {
        self.record(at, path)?;
        let place = format::path_place(path);
        self.blob(place, path)
    }

    fn told(&self, at: usize) -> Result<(TreePath, Recorded)> {
        let mut path = Vec::new();
        self.path_at(at, &mut path)?;
        let path = TreePath::new(path).map_err(|_| self.pages.damaged())?;
        Ok((path, self.recorded(at)?))
    }

    fn recorded(&self, at: usize) -> Result<Recorded> {
        let (mut record, mut bytes) = (Vec::new(), Vec::new());
        self.record(at, &mut record)?;
        self.blob(format::target_place(&record), &mut bytes)?;
        let mut recorded = format::decode(&record, bytes).ok_or_else(|| self.pages.damaged())?;
        if !self.unread.is_empty() {
            let mut path = Vec::new();
            self.blob(format::path_place(&record), &mut path)?;
            recorded.is_unread = self.unread.contains(&path);
        }
        Ok(recorded)
    }

    fn find(&self, path: &TreePath) -> Result<Option<usize>> {
        let (path, mut there) = (path.as_bytes(), Vec::new());
        let mut is_before = |at: usize| -> Result<bool> {
            self.path_at(at, &mut there)?;
            Ok(compare(&there, path).is_lt())
        };
        // In steps that double away from the last place, then by halves between the last two steps.
        let last = self.last.get();
        let mut step = 1;
        let (low, high) = if last < self.len() && is_before(last)? {
            let mut low = last + 1;
            while low + step < self.len() && is_before(low + step)? {
                low += step + 1;
                step *= 2;
            }
            (low, self.len().min(low + step))
        } else {
            let mut high = last;
            while step < high && !is_before(high - step)? {
                high -= step;
                step *= 2;
            }
            (high.saturating_sub(step), high)
        };
        let at = partition(low, high, is_before)?;
        self.last.set(at);
        if at == self.len() {
            return Ok(None);
        }
        self.path_at(at, &mut there)?;
        Ok((there == path).then_some(at))
    }

    /// Index after the entry at `at` and everything below it.
    fn end_of(&self, at: usize) -> Result<usize> {
        let (mut path, mut other) = (Vec::new(), Vec::new());
        self.path_at(at, &mut path)?;
        partition(at + 1, self.len(), |at| {
            self.path_at(at, &mut other)?;
            Ok(is_below(&other, &path))
        })
    }
}

/// The first index of a range that does not hold, or its end; those before it hold.
fn partition(mut low: usize, mut high: usize, mut holds: impl FnMut(usize) -> Result<bool>) -> Result<usize> {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Notes everything below a directory that is not noted yet.
fn add_below(
    origin: &DirTree,
    dir: &TreePath,
    except: &BTreeSet<&TreePath>,
    touched: &mut BTreeMap<TreePath, Option<(Entry, bool)>>,
) -> Result<()> {
    let below = tree::Source::list_entries(origin, dir).doing("look at", path_of(dir.as_bytes()))?;
    for (name, entry) in below {
        let path = dir.join(name);
        if except.contains(&path) {
            continue;
        }
        let is_dir = entry.is_dir();
        touched.entry(path.clone()).or_insert(Some((entry, false)));
        if is_dir {
            add_below(origin, &path, except, touched)?;
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
    // What they begin with in common, whole words at a time.
    let words = a.chunks_exact(16).zip(b.chunks_exact(16));
    let common = 16 * words.take_while(|(one, two)| one == two).count();
    a[common..].iter().map(key).cmp(b[common..].iter().map(key))
}

fn is_below(path: &[u8], dir: &[u8]) -> bool {
    (dir.is_empty() && !path.is_empty()) || (path.starts_with(dir) && path.get(dir.len()) == Some(&b'/'))
}

fn path_of(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt as _;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
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
