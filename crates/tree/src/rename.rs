//! Finding renames in a change set: files by equal content, then whole directories.
//!
//! Invariant: a rename is only ever claimed after the bytes were compared, and the same set gives the same
//! answer. Sizes are looked at before anything is read; what is read in all is limited, and what is not
//! looked at stays what it was: a deletion and an addition, which is never wrong.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, Hasher as _};

use kernel::{Result, bytes};

use crate::change::{Change, ChangeKind, ChangeSet};
use crate::compare::{Differs, Side, differs};
use crate::entry::{Entry, Kind};
use crate::path::TreePath;
use crate::source::Source;

/// Bytes read at most.
const BYTES: u64 = 512 << 20;
/// Files opened at most.
const FILES: u64 = 60_000;
/// Pairs weighed at most within one class of equal files.
const PAIRS: usize = 250_000;

/// Turns pairs of `Delete` and `Add` with equal content into `Rename`s, then collapses directories: a new directory that
/// holds at least half of the files of a removed one at their old places is that directory renamed. Whatever
/// cannot be read or would cost too much stays as it was.
pub fn find_renames(set: ChangeSet, base: &dyn Source, lane: &dyn Source) -> ChangeSet {
    let mut finder = Finder {
        base,
        lane,
        bytes: BYTES,
        files: FILES,
        pairs: BTreeMap::new(),
        taken: HashSet::new(),
        votes: HashMap::new(),
        changes: set.changes,
    };
    finder.pair_files();
    if finder.pairs.is_empty() {
        return ChangeSet { changes: finder.changes, ..set };
    }
    let changes = crate::rename_dirs::collapse(finder.changes, &finder.pairs, &set.gaps, base, lane);
    let mut set = ChangeSet { changes, ..set };
    set.sort();
    set
}

struct Finder<'a> {
    base: &'a dyn Source,
    lane: &'a dyn Source,
    bytes: u64,
    files: u64,
    changes: Vec<Change>,
    /// Index of an addition → index of the deletion that it is.
    pairs: BTreeMap<usize, usize>,
    /// Deletions that are spoken for.
    taken: HashSet<usize>,
    /// How many files went from below one directory to the same place below another.
    votes: HashMap<(TreePath, TreePath), usize>,
}

/// Deletions and additions that may belong together, as indices.
#[derive(Default)]
struct Group {
    gone: Vec<usize>,
    new: Vec<usize>,
}

impl Group {
    fn is_pair(&self) -> bool {
        self.gone.len() == 1 && self.new.len() == 1
    }

    fn is_open(&self) -> bool {
        !self.gone.is_empty() && !self.new.is_empty()
    }
}

/// What must be equal before content is looked at. Ordered, so that small files are read first.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
enum Key {
    File(u64),
    Symlink(Vec<u8>),
}

fn key(entry: &Entry) -> Option<Key> {
    match entry.kind {
        Kind::File => Some(Key::File(entry.size)),
        Kind::Symlink => Some(Key::Symlink(entry.target.clone())),
        _ => None,
    }
}

impl Finder<'_> {
    fn pair_files(&mut self) {
        let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
        for (index, change) in self.changes.iter().enumerate() {
            match (&change.kind, &change.old, &change.new) {
                (ChangeKind::Delete, Some(old), _) => {
                    if let Some(key) = key(old) {
                        groups.entry(key).or_default().gone.push(index);
                    }
                }
                (ChangeKind::Add, _, Some(new)) => {
                    if let Some(key) = key(new) {
                        groups.entry(key).or_default().new.push(index);
                    }
                }
                _ => {}
            }
        }
        groups.retain(|_, group| group.is_open());
        // What can be told by name comes first: it needs one comparison and teaches where directories went.
        let mut classes = Vec::new();
        for (key, group) in groups {
            match key {
                Key::File(0) => classes.push((true, group)),
                Key::Symlink(_) => classes.push((true, group)),
                Key::File(_) => {
                    let group = self.pair_by_name(group);
                    if group.is_pair() {
                        self.pair_if_equal(group.gone[0], group.new[0]);
                    } else if group.is_open() {
                        classes.extend(self.classes(group).into_iter().map(|class| (false, class)));
                    }
                }
            }
        }
        for (weak, class) in classes {
            self.pair_class(weak, class);
        }
    }

    /// Pairs what is the only file of its name on both sides, and hands back the rest.
    fn pair_by_name(&mut self, group: Group) -> Group {
        let mut by_name: BTreeMap<Vec<u8>, Group> = BTreeMap::new();
        for index in group.gone {
            by_name.entry(self.changes[index].path.name().to_vec()).or_default().gone.push(index);
        }
        for index in group.new {
            by_name.entry(self.changes[index].path.name().to_vec()).or_default().new.push(index);
        }
        let mut rest = Group::default();
        for named in by_name.into_values() {
            if named.is_pair() && self.pair_if_equal(named.gone[0], named.new[0]) {
                continue;
            }
            rest.gone.extend(named.gone);
            rest.new.extend(named.new);
        }
        rest.gone.sort_unstable();
        rest.new.sort_unstable();
        rest
    }

    /// Splits files of one size into classes of equal content, by a keyed hash that nobody outside can aim at.
    fn classes(&mut self, group: Group) -> Vec<Group> {
        let keys = (RandomState::new(), RandomState::new());
        let mut by_hash: HashMap<(u64, u64), Group> = HashMap::new();
        for index in group.gone {
            if let Some(hash) = self.hash(self.base, index, &keys) {
                by_hash.entry(hash).or_default().gone.push(index);
            }
        }
        for index in group.new {
            if let Some(hash) = self.hash(self.lane, index, &keys) {
                by_hash.entry(hash).or_default().new.push(index);
            }
        }
        let mut classes: Vec<Group> = by_hash.into_values().filter(Group::is_open).collect();
        classes.sort_by_key(|class| class.new[0]);
        classes
    }

    /// Pairs equal files so that as many as possible keep their name and their place. Weak content (an empty
    /// file, a link) says nothing by itself, so there the name must agree or the directory must have moved.
    fn pair_class(&mut self, weak: bool, class: Group) {
        if class.gone.len().saturating_mul(class.new.len()) > PAIRS {
            return;
        }
        let mut weighed = Vec::new();
        for new in &class.new {
            for gone in &class.gone {
                let likeness = self.likeness(*gone, *new);
                if !weak || likeness.votes > 0 || (likeness.same_name && self.is_link(*new)) {
                    weighed.push((std::cmp::Reverse(likeness), *new, *gone));
                }
            }
        }
        weighed.sort_unstable();
        for (_, new, gone) in weighed {
            if !self.pairs.contains_key(&new) && !self.taken.contains(&gone) {
                if weak {
                    self.pair(gone, new);
                } else {
                    self.pair_if_equal(gone, new);
                }
            }
        }
    }

    fn is_link(&self, index: usize) -> bool {
        self.changes[index].new.as_ref().is_some_and(|entry| entry.kind == Kind::Symlink)
    }

    fn likeness(&self, gone: usize, new: usize) -> Likeness {
        let (old, new) = (&self.changes[gone].path, &self.changes[new].path);
        let (roots, tail) = split_tail(old, new);
        Likeness {
            votes: self.votes.get(&roots).copied().unwrap_or(0),
            same_name: tail > 0,
            tail,
            same_depth: old.components().count() == new.components().count(),
        }
    }

    fn pair(&mut self, gone: usize, new: usize) {
        let (roots, tail) = split_tail(&self.changes[gone].path, &self.changes[new].path);
        if tail > 0 {
            *self.votes.entry(roots).or_default() += 1;
        }
        self.taken.insert(gone);
        self.pairs.insert(new, gone);
    }

    fn pair_if_equal(&mut self, gone: usize, new: usize) -> bool {
        let (old_path, new_path) = (&self.changes[gone].path, &self.changes[new].path);
        let size = self.changes[new].new.as_ref().map_or(0, |entry| entry.size);
        if !pay(&mut self.bytes, &mut self.files, size.saturating_mul(2), 2) {
            return false;
        }
        let equal =
            || -> Result<bool> { bytes::same_content(self.base.open(old_path)?, self.lane.open(new_path)?) };
        // A file that cannot be read is in no rename; whoever needs it will hear why.
        let equal = equal().unwrap_or(false);
        if equal {
            self.pair(gone, new);
        }
        equal
    }

    fn hash(
        &mut self,
        source: &dyn Source,
        index: usize,
        keys: &(RandomState, RandomState),
    ) -> Option<(u64, u64)> {
        let change = &self.changes[index];
        let size = change.new.as_ref().or(change.old.as_ref()).map_or(0, |entry| entry.size);
        if !pay(&mut self.bytes, &mut self.files, size, 1) {
            return None;
        }
        let file = source.open(&change.path).ok()?;
        let mut hashers = (keys.0.build_hasher(), keys.1.build_hasher());
        let mut buffer = vec![0; usize::try_from(size + 1).unwrap_or(usize::MAX).min(256 * 1024)];
        let mut at = 0;
        loop {
            let got = bytes::read_full_at(&file, &mut buffer, at).ok()?;
            hashers.0.write(&buffer[..got]);
            hashers.1.write(&buffer[..got]);
            if got < buffer.len() {
                return Some((hashers.0.finish(), hashers.1.finish()));
            }
            at += got as u64;
        }
    }
}

/// Takes a cost off what is left to spend; false where it is too much.
fn pay(bytes: &mut u64, files: &mut u64, cost: u64, opened: u64) -> bool {
    match (bytes.checked_sub(cost), files.checked_sub(opened)) {
        (Some(left), Some(unopened)) => {
            (*bytes, *files) = (left, unopened);
            true
        }
        _ => false,
    }
}

/// How well two paths fit each other; the fields in their order of weight.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    votes: usize,
    same_name: bool,
    tail: usize,
    same_depth: bool,
}

/// What is left of two paths without the components that they share at their ends, and how many those are.
fn split_tail(a: &TreePath, b: &TreePath) -> ((TreePath, TreePath), usize) {
    let (mut a, mut b, mut shared) = (a.clone(), b.clone(), 0);
    while !a.is_root() && !b.is_root() && a.name() == b.name() {
        (a, b) = (a.parent().unwrap_or_default(), b.parent().unwrap_or_default());
        shared += 1;
    }
    ((a, b), shared)
}

/// How a base entry that moved along with its directory differs from what it became; unreadable counts as changed.
pub(crate) fn differs_along(
    base: &dyn Source,
    old: (&TreePath, &Entry),
    lane: &dyn Source,
    new: (&TreePath, &Entry),
) -> Differs {
    let old = Side { source: base, path: old.0, entry: old.1 };
    let new = Side { source: lane, path: new.0, entry: new.1 };
    differs(old, new, false).unwrap_or(Differs::Content)
}
