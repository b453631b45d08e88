//! Finding renames in a change set: files by equal content, then whole directories.
//!
//! Invariant: a rename is only ever claimed after the bytes were compared (for sums: their digests), and the same set
//! gives the same answer. Sizes are looked at before anything is read; what is read in all is limited, and what is not
//! looked at stays what it was: a deletion and an addition, which is never wrong.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::change::{Change, ChangeKind, ChangeSet};
use crate::compare::{Side, same_content};
use crate::digest::Digest;
use crate::entry::{Entry, Kind, Time};
use crate::path::TreePath;
use crate::recall::{self, Recall};
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
    find(set, base, lane, None)
}

/// As [`find_renames`], for sums alone: what `recall` remembers is not read again.
pub fn find_renames_recalled(
    set: ChangeSet,
    base: &dyn Source,
    lane: &dyn Source,
    recall: &Recall,
) -> ChangeSet {
    find(set, base, lane, Some(recall))
}

fn find(set: ChangeSet, base: &dyn Source, lane: &dyn Source, recall: Option<&Recall>) -> ChangeSet {
    let mut finder = Finder {
        base,
        lane,
        recall,
        digests: Recall::empty(Time::default()),
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
    let changes = crate::rename_dirs::collapse(finder.changes, &finder.pairs, &set.gaps, base, lane, recall);
    let mut set = ChangeSet { changes, ..set };
    set.sort();
    set
}

struct Finder<'a> {
    base: &'a dyn Source,
    lane: &'a dyn Source,
    recall: Option<&'a Recall>,
    /// Digests of this one search, where nothing is recalled: they say what is worth comparing.
    digests: Recall,
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
                Key::File(size) => {
                    let group = self.pair_by_name(group);
                    if group.is_pair() {
                        self.pair_if_equal(group.gone[0], group.new[0]);
                    } else if group.is_open() {
                        classes.extend(self.classes(group, size).into_iter().map(|class| (false, class)));
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

    /// Splits files of one size into classes of equal content, by a keyed digest that nobody outside can aim at.
    /// What differs early from everything on the other side is not read to its end.
    fn classes(&mut self, group: Group, size: u64) -> Vec<Group> {
        let mut affordable = Group::default();
        for index in group.gone {
            if pay(&mut self.bytes, &mut self.files, size, 1) {
                affordable.gone.push(index);
            }
        }
        for index in group.new {
            if pay(&mut self.bytes, &mut self.files, size, 1) {
                affordable.new.push(index);
            }
        }
        let mut classes = vec![affordable];
        for step in 0..recall::steps(size) {
            classes = classes.into_iter().flat_map(|class| self.split(class, step)).collect();
        }
        classes.sort_by_key(|class| class.new[0]);
        classes
    }

    fn split(&self, class: Group, step: usize) -> Vec<Group> {
        let recall = self.recall.unwrap_or(&self.digests);
        let mut by_digest: HashMap<Digest, Group> = HashMap::new();
        // A file that cannot be read, or has another size by now, is in no rename.
        for index in class.gone {
            if let Some(Ok(Some(digest))) = self.gone_side(index).map(|side| recall.step(side, step)) {
                by_digest.entry(digest).or_default().gone.push(index);
            }
        }
        for index in class.new {
            if let Some(Ok(Some(digest))) = self.new_side(index).map(|side| recall.step(side, step)) {
                by_digest.entry(digest).or_default().new.push(index);
            }
        }
        by_digest.into_values().filter(Group::is_open).collect()
    }

    fn gone_side(&self, gone: usize) -> Option<Side<'_>> {
        let change = &self.changes[gone];
        Some(Side { source: self.base, path: &change.path, entry: change.old.as_ref()? })
    }

    fn new_side(&self, new: usize) -> Option<Side<'_>> {
        let change = &self.changes[new];
        Some(Side { source: self.lane, path: &change.path, entry: change.new.as_ref()? })
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
        let size = self.changes[new].new.as_ref().map_or(0, |entry| entry.size);
        if !pay(&mut self.bytes, &mut self.files, size.saturating_mul(2), 2) {
            return false;
        }
        let sides = self.gone_side(gone).zip(self.new_side(new));
        // A file that cannot be read is in no rename; whoever needs it will hear why.
        let equal = sides.is_some_and(|(old, new)| same_content(old, new, self.recall).unwrap_or(false));
        if equal {
            self.pair(gone, new);
        }
        equal
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
