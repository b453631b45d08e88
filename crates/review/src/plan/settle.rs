//! Which of the asked changes can be done together. Pure, over the items of one plan.
//!
//! Invariant: when [`settle`] is done, every chosen item has what it needs among the chosen ones.

use std::collections::BTreeMap;

use tree::{Entry, TreePath};

use super::Why;
use crate::flat::Pair;

pub(super) struct Item {
    pub(super) pair: Pair,
    /// A directory that moves whole.
    pub(super) whole: bool,
    pub(super) asked: bool,
    pub(super) chosen: bool,
    /// Must not be done, whatever needs it.
    pub(super) blocked: Option<Why>,
    /// Not done for the asking, but may be done for what is inside (a plain new directory).
    pub(super) soft: bool,
    /// Why it runs by itself later, where it does.
    pub(super) guarded: Option<String>,
}

impl Item {
    pub(super) fn old_side(&self) -> Option<&(TreePath, Entry)> {
        self.pair.old.as_ref()
    }

    pub(super) fn new_side(&self) -> Option<&(TreePath, Entry)> {
        self.pair.new.as_ref()
    }

    /// The directory that is no longer one (or not there) afterwards.
    pub(super) fn removes_dir(&self) -> Option<&TreePath> {
        let (path, old) = self.old_side()?;
        let stays = self.whole || self.new_side().is_some_and(|(to, new)| to == path && new.is_dir());
        (old.is_dir() && !stays).then_some(path)
    }

    /// The directory that was not one before.
    pub(super) fn makes_dir(&self) -> Option<&TreePath> {
        let (path, new) = self.new_side()?;
        let was = self.old_side().is_some_and(|(from, old)| from == path && old.is_dir());
        (new.is_dir() && !was).then_some(path)
    }
}

/// The items by their paths.
struct Index {
    by_old: BTreeMap<TreePath, usize>,
    by_new: BTreeMap<TreePath, usize>,
    /// Directories that move whole, by their new path.
    moved: BTreeMap<TreePath, usize>,
    /// Directories that are none afterwards.
    removed: BTreeMap<TreePath, usize>,
}

impl Index {
    fn of(items: &[Item]) -> Index {
        let mut index = Index {
            by_old: BTreeMap::new(),
            by_new: BTreeMap::new(),
            moved: BTreeMap::new(),
            removed: BTreeMap::new(),
        };
        for (at, item) in items.iter().enumerate() {
            if let Some((path, _)) = item.old_side() {
                index.by_old.insert(path.clone(), at);
            }
            if let Some((path, _)) = item.new_side() {
                index.by_new.insert(path.clone(), at);
                if item.whole {
                    index.moved.insert(path.clone(), at);
                }
            }
            if let Some(path) = item.removes_dir() {
                index.removed.insert(path.clone(), at);
            }
        }
        index
    }
}

/// Pulls in what chosen items need and drops those that cannot have it, until nothing changes.
pub(super) fn settle(items: &mut [Item]) {
    let index = Index::of(items);
    loop {
        let mut changed = false;
        for at in 0..items.len() {
            if !items[at].chosen {
                continue;
            }
            match needs(items, at, &index) {
                Need::Nothing => {}
                Need::Also(other) => {
                    items[other].chosen = true;
                    items[other].soft = false;
                    changed = true;
                }
                Need::Impossible(why) => {
                    items[at].chosen = false;
                    items[at].asked = true;
                    items[at].blocked = Some(why);
                    changed = true;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

enum Need {
    Nothing,
    Also(usize),
    Impossible(Why),
}

/// The directories above a path, from the nearest up.
fn above(path: &TreePath) -> impl Iterator<Item = TreePath> {
    std::iter::successors(path.parent(), TreePath::parent)
}

fn needs(items: &[Item], at: usize, index: &Index) -> Need {
    let item = &items[at];
    if let Some((path, _)) = item.new_side() {
        // CASE(new entry, its directory is new too): the directory comes first.
        for dir in above(path) {
            let maker = index.by_new.get(&dir).filter(|other| items[**other].makes_dir().is_some());
            if let Some(&other) = maker.filter(|other| !items[**other].chosen) {
                let may = items[other].blocked.is_none() || items[other].soft;
                return if may { Need::Also(other) } else { Need::Impossible(Why::NeedsParent(dir)) };
            }
        }
    }
    if let Some((path, _)) = item.old_side() {
        for dir in above(path) {
            // CASE(entry inside a moved directory, the move is left out): it is not at that place.
            let moved = index.moved.get(&dir).is_some_and(|other| !items[*other].chosen);
            // CASE(entry of a directory that becomes something else, which is left out): it stays whole.
            let kept = index.removed.get(&dir).map(|other| &items[*other]).is_some_and(|other| {
                other.new_side().is_some() && !other.chosen && (other.asked || other.blocked.is_some())
            });
            // A file that stays as it is, but for some lines, needs no more than its directory.
            let stays = item.new_side().is_some_and(|(to, _)| to == path);
            if moved || (kept && !stays) {
                return Need::Impossible(Why::NeedsParent(dir));
            }
        }
    }
    // CASE(directory goes, an entry in it stays): the directory stays.
    if let Some(dir) = item.removes_dir() {
        let mut below = index.by_old.range(dir.clone()..).take_while(|(path, _)| path.starts_with(dir));
        let stays = |path: &TreePath, other: &Item| {
            // CASE(a part of a deleted file's lines): the file stays with the rest.
            !other.chosen || other.new_side().is_some_and(|(to, _)| to == path)
        };
        if let Some((path, &other)) = below.find(|(path, other)| *path != dir && stays(path, &items[**other]))
        {
            if item.new_side().is_some() && items[other].blocked.is_none() && !items[other].chosen {
                // What the directory becomes was asked for: its old content goes with it.
                return Need::Also(other);
            }
            return Need::Impossible(Why::Holds(path.clone()));
        }
    }
    Need::Nothing
}

/// A new directory that was made only for things that are left out is left out as well.
pub(super) fn drop_empty_dirs(items: &mut [Item]) {
    let index = Index::of(items);
    // Deepest first, so that a directory of left-out directories goes too.
    for (dir, &at) in index.by_new.iter().rev() {
        let item = &items[at];
        if !item.chosen || item.pair.old.is_some() || item.makes_dir().is_none() {
            continue;
        }
        let mut inside = index
            .by_new
            .range(dir.clone()..)
            .skip(1)
            .take_while(|(path, _)| path.starts_with(dir))
            .peekable();
        if inside.peek().is_some() && inside.all(|(_, other)| !items[*other].chosen) {
            items[at].chosen = false;
            items[at].blocked = Some(Why::NothingInside);
        }
    }
}
