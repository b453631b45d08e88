//! Renamed files → renamed directories.
//!
//! Invariant: what [`crate::change`] says of a renamed directory holds for every one that is made here: nothing stood
//! at its path, its source is gone, and each base entry below the source is either unchanged at the same
//! place below the new path or named by a change of its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::change::{Change, ChangeKind};
use crate::compare::{Differs, Side, differs, same_meta};
use crate::entry::Entry;
use crate::path::TreePath;
use crate::recall::Recall;
use crate::source::Source;

/// Turns `pairs` (addition → deletion, as indices into `changes`) into renames and collapses directories.
pub(crate) fn collapse(
    changes: Vec<Change>,
    pairs: &BTreeMap<usize, usize>,
    gaps: &[(TreePath, String)],
    base: &dyn Source,
    lane: &dyn Source,
    recall: Option<&Recall>,
) -> Vec<Change> {
    let mut kept = Kept {
        base,
        lane,
        recall,
        gone: HashMap::new(),
        new: HashMap::new(),
        renames: HashMap::new(),
        made: Vec::new(),
    };
    let mut order = Vec::new();
    let paired: HashSet<usize> = pairs.values().copied().collect();
    for (index, change) in changes.iter().enumerate() {
        match (&change.kind, &change.old, &change.new) {
            (ChangeKind::Delete, Some(old), _) => {
                if old.is_dir() {
                    order.push(index);
                }
                if !paired.contains(&index) {
                    kept.gone.insert(change.path.clone(), old.clone());
                }
            }
            (ChangeKind::Add, _, Some(new)) if !pairs.contains_key(&index) => {
                kept.new.insert(change.path.clone(), new.clone());
            }
            _ => {}
        }
    }
    for (new, gone) in pairs {
        if let (Some(old), Some(entry)) = (&changes[*gone].old, &changes[*new].new) {
            let moved = Moved { to: changes[*new].path.clone(), old: old.clone(), new: entry.clone() };
            kept.renames.insert(changes[*gone].path.clone(), moved);
        }
    }
    // Sorted, so a directory comes before those in it, and everything below it follows it directly.
    for index in order {
        let dir = &changes[index].path;
        if gaps.iter().any(|(path, _)| path.starts_with(dir)) {
            // What is below is not fully known.
            continue;
        }
        let below = changes[index + 1..].iter().take_while(|change| change.path.starts_with(dir));
        let below: Vec<(&TreePath, bool)> =
            below.filter_map(|change| change.old.as_ref().map(|old| (&change.path, old.is_dir()))).collect();
        if let Some(to) = kept.destination(dir, &below) {
            kept.rename_dir(dir, &to, &below);
        }
    }
    kept.into_changes(changes)
}

/// A file that stands elsewhere, with equal content.
struct Moved {
    to: TreePath,
    old: Entry,
    new: Entry,
}

/// What is still told one by one.
struct Kept<'a> {
    base: &'a dyn Source,
    lane: &'a dyn Source,
    recall: Option<&'a Recall>,
    /// Deletions that are part of no rename.
    gone: HashMap<TreePath, Entry>,
    /// Additions that are part of no rename.
    new: HashMap<TreePath, Entry>,
    /// Renames of files, by their path in the base.
    renames: HashMap<TreePath, Moved>,
    made: Vec<Change>,
}

impl Kept<'_> {
    /// Where a removed directory went: the new directory that has at least half of its files at their places.
    fn destination(&self, dir: &TreePath, below: &[(&TreePath, bool)]) -> Option<TreePath> {
        if !self.gone.contains_key(dir) {
            return None;
        }
        let mut files = 0usize;
        let mut votes: BTreeMap<TreePath, usize> = BTreeMap::new();
        for (path, is_dir) in below {
            if *is_dir {
                continue;
            }
            files += 1;
            let Some(moved) = self.renames.get(*path) else { continue };
            let Some(tail) = path.strip_prefix(dir) else { continue };
            if let Some(to) = without_tail(&moved.to, &tail) {
                *votes.entry(to).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let (to, _) = votes.into_iter().find(|(_, count)| *count == most)?;
        let fits = most * 2 >= files && self.new.get(&to).is_some_and(Entry::is_dir);
        fits.then_some(to)
    }

    fn rename_dir(&mut self, dir: &TreePath, to: &TreePath, below: &[(&TreePath, bool)]) {
        let (Some(old), Some(new)) = (self.gone.remove(dir), self.new.remove(to)) else { return };
        self.make(dir, to, old, new, false);
        for (path, _) in below {
            let Some(tail) = path.strip_prefix(dir) else { continue };
            let there = to.join_path(&tail);
            if let Some(moved) = self.renames.get(*path) {
                if moved.to == there && self.along(path, &moved.old, &there, &moved.new, true) == Differs::Not
                {
                    self.renames.remove(*path);
                }
                continue;
            }
            let (Some(old), Some(new)) = (self.gone.get(*path), self.new.get(&there)) else { continue };
            if old.kind != new.kind {
                continue;
            }
            let answer = self.along(path, old, &there, new, false);
            if let (Some(old), Some(new)) = (self.gone.remove(*path), self.new.remove(&there))
                && answer != Differs::Not
            {
                let modified = answer == Differs::Content && !old.is_dir();
                self.make(path, &there, old, new, modified);
            }
        }
    }

    /// How an entry that moved along differs. With `equal`, its content is known to be the same. What cannot be read
    /// counts as changed.
    fn along(&self, from: &TreePath, old: &Entry, to: &TreePath, new: &Entry, equal: bool) -> Differs {
        let old = Side { source: self.base, path: from, entry: old };
        let new = Side { source: self.lane, path: to, entry: new };
        let answer = if equal {
            let same = same_meta(old, new, false, self.recall);
            same.map(|same| if same { Differs::Not } else { Differs::Meta })
        } else {
            differs(old, new, false, self.recall)
        };
        answer.unwrap_or(Differs::Content)
    }

    fn make(&mut self, from: &TreePath, to: &TreePath, old: Entry, new: Entry, modified: bool) {
        let kind = ChangeKind::Rename { from: from.clone(), modified };
        self.made.push(Change { path: to.clone(), kind, old: Some(old), new: Some(new) });
    }

    fn into_changes(mut self, changes: Vec<Change>) -> Vec<Change> {
        let renames = std::mem::take(&mut self.renames);
        for (from, moved) in renames {
            self.make(&from, &moved.to, moved.old, moved.new, false);
        }
        let Kept { gone, new, mut made, .. } = self;
        made.extend(changes.into_iter().filter(|change| match change.kind {
            ChangeKind::Delete => gone.contains_key(&change.path),
            ChangeKind::Add => new.contains_key(&change.path),
            _ => true,
        }));
        made
    }
}

/// `path` without `tail` at its end.
fn without_tail(path: &TreePath, tail: &TreePath) -> Option<TreePath> {
    let cut = path.as_bytes().strip_suffix(tail.as_bytes())?;
    let cut = cut.strip_suffix(b"/")?;
    TreePath::new(cut).ok().filter(|dir| !dir.is_root())
}
