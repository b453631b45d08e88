//! [`Chosen`]: a choice carried over to a change set and a tree, so that a plan of them does what was ticked and no
//! more. It owns what "a part of a change" means; content that no tree has is made below a directory of the caller.
//!
//! Invariant: changes that were not ticked stand in the set as they were, and the selection does not cover them. Of a
//! ticked part, the set's change and the tree's entry, content and attributes say the same. Every hunk of a file with
//! its mode and rename is the change itself, and nothing is made up for it.

use std::os::fd::BorrowedFd;

use tree::{Change, ChangeKind, ChangeSet, Entry, Kind, Source, TreePath};

use crate::choice::{Choice, Part, Take};
use crate::composed::{Composed, Made};
use crate::error::{Error, Reading as _, Result};
use crate::flat::{self, Pair};
use crate::read::{self, TEXT_LIMIT};
use crate::select::{Exact, Selection};
use crate::splice::{self, Extent};
use crate::stat::pair_diff_in;

/// What a choice comes to.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// The changes, the ticked ones as far as they were ticked.
    pub set: ChangeSet,
    /// Which of them were ticked.
    pub selection: Selection,
    /// The lane's tree, showing the ticked parts.
    pub tree: Composed<'a>,
}

/// True where parts of a change can be taken: the content of regular files, or their mode or place alone.
pub fn has_parts(change: &Change) -> bool {
    let is_file = |entry: &Option<Entry>| entry.as_ref().is_none_or(Entry::is_file);
    is_file(&change.old) && is_file(&change.new) && change.kind != ChangeKind::Retype
}

/// A change with its two sides.
pub fn pair_of(change: &Change) -> Pair {
    Pair {
        old: change.old.clone().map(|old| (change.old_path().clone(), old)),
        new: change.new.clone().map(|new| (change.path.clone(), new)),
        content_differs: !matches!(
            change.kind,
            ChangeKind::Mode | ChangeKind::Rename { modified: false, .. }
        ),
    }
}

/// Carries out a choice. `tree` shows the lane over `base`; content is made on the file system of `place`.
pub fn choose<'a>(
    set: &ChangeSet,
    base: &dyn Source,
    tree: Composed<'a>,
    choice: &Choice,
    place: BorrowedFd<'_>,
) -> Result<Chosen<'a>> {
    let mut exact = Exact { named: choice.named.clone(), ..Exact::default() };
    for (from, to) in flat::dir_renames(set) {
        if matches!(choice.files.get(to), Some(Take::Whole)) {
            exact.moved.push((from.clone(), to.clone()));
        }
    }
    for change in set.changes.iter().filter(|change| !only_goes_along(change, &exact.moved)) {
        exact.own.insert(change.path.clone());
        exact.own.insert(change.old_path().clone());
    }
    let mut work = Work { set: set.clone(), root: &choice.root, base, tree, place, exact };
    for (path, take) in &choice.files {
        // Sorted by path, as every set is.
        let at = set.changes.binary_search_by(|change| change.path.cmp(path));
        let at = at.map_err(|_| Error::NotAChange { path: path.clone() })?;
        let change = &set.changes[at];
        match take {
            Take::Whole => work.whole(change),
            Take::Part(part) => work.part(at, change, part)?,
        }
    }
    work.set.sort();
    Ok(Chosen { set: work.set, selection: Selection::Exact(work.exact), tree: work.tree })
}

/// True where a path of the base would stand at `to` once the directories of `moved` have been moved.
fn is_along(moved: &[(TreePath, TreePath)], from: &TreePath, to: &TreePath) -> bool {
    moved.iter().any(|(dir, at)| from.strip_prefix(dir).is_some_and(|rest| at.join_path(&rest) == *to))
}

/// True for a directory inside a renamed one that differs in nothing else.
fn only_goes_along(change: &Change, moved: &[(TreePath, TreePath)]) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let inner = !moved.iter().any(|(_, to)| *to == change.path);
    new.is_dir() && old.mode == new.mode && inner && is_along(moved, change.old_path(), &change.path)
}

struct Work<'w, 'a> {
    set: ChangeSet,
    root: &'w [u8],
    base: &'w dyn Source,
    tree: Composed<'a>,
    place: BorrowedFd<'w>,
    exact: Exact,
}

impl Work<'_, '_> {
    fn whole(&mut self, change: &Change) {
        self.exact.paths.insert(change.path.clone());
    }

    /// The change is this one from now on, and it is ticked.
    fn becomes(&mut self, at: usize, now: Change) {
        self.exact.paths.insert(now.path.clone());
        self.exact.own.insert(now.path.clone());
        self.set.changes[at] = now;
    }

    fn part(&mut self, at: usize, change: &Change, part: &Part) -> Result<()> {
        let path = &change.path;
        if *part == Part::default() {
            return Ok(());
        }
        if !has_parts(change) {
            return Err(Error::WholeOnly { path: path.clone() });
        }
        let pair = pair_of(change);
        let diff = pair_diff_in(self.root, &pair, self.base, &self.tree)?;
        if diff.binary && !part.hunks.is_empty() {
            return Err(Error::WholeOnly { path: path.clone() });
        }
        let taken = splice::extent(&diff, &part.hunks)
            .map_err(|missing| Error::NotInDiff { path: path.clone(), missing })?;
        let text = |tree: &dyn Source, side, at: &Option<(TreePath, Entry)>| -> Result<Vec<u8>> {
            let Some((path, entry)) = at else { return Ok(Vec::new()) };
            let bytes = read::content(tree, side, path, entry, TEXT_LIMIT)?;
            bytes.ok_or_else(|| Error::WholeOnly { path: path.clone() })
        };
        let splice = |base: &dyn Source| -> Result<Vec<u8>> {
            Ok(splice::splice(&text(base, "base", &pair.old)?, &diff, &part.hunks))
        };
        match (&change.old, &change.new) {
            (_, None) | (None, _) if taken == Extent::None => Ok(()),
            (_, None) | (None, _) if taken == Extent::All => {
                self.whole(change);
                Ok(())
            }
            (None, None) => Ok(()),
            (None, Some(new)) => {
                let content = splice(self.base)?;
                let entry = self.make(path, path, &content, new, false)?;
                self.becomes(at, Change { new: Some(entry), ..change.clone() });
                Ok(())
            }
            (Some(old), None) => {
                // The file stays with what is left of it.
                let content = splice(self.base)?;
                let entry = self.make(path, path, &content, old, true)?;
                self.becomes(at, Change { kind: ChangeKind::Modify, new: Some(entry), ..change.clone() });
                Ok(())
            }
            (Some(old), Some(new)) => self.changed((at, change), (old, new), part, taken, &splice),
        }
    }

    /// A part of what became of a file that is on both sides.
    fn changed(
        &mut self,
        (index, change): (usize, &Change),
        (old, new): (&Entry, &Entry),
        part: &Part,
        taken: Extent,
        splice: &dyn Fn(&dyn Source) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let (from, path) = (change.old_path(), &change.path);
        let renamed = from != path;
        // A file in a directory that moves goes along; where it stands then, it was not renamed.
        let renames = renamed && (part.rename || is_along(&self.exact.moved, from, path));
        let dress_differs = old.mode != new.mode
            || self.base.xattrs(from).reading("base", from)?
                != self.tree.xattrs(path).reading("lane", path)?;
        let dresses = part.mode || !dress_differs;
        let has_content = change.kind != ChangeKind::Mode
            && !matches!(change.kind, ChangeKind::Rename { modified: false, .. });
        let all = taken == Extent::All || !has_content;
        if all && dresses && renames == renamed {
            self.whole(change);
            return Ok(());
        }
        if taken == Extent::None && !(part.mode && dress_differs) && !renames {
            return Ok(());
        }
        let at = if renames || !renamed { path } else { from };
        if at != path && self.exact.own_other(&self.set, change, at) {
            return Err(Error::PlaceTaken { path: path.clone(), at: at.clone() });
        }
        let content_differs = has_content && taken != Extent::None;
        let like = if dresses { new } else { old };
        let entry = match taken {
            Extent::None => {
                let dress = dresses.then_some(path);
                self.tree.show_base(at, from, dress).reading("base", from)?
            }
            Extent::All if at == path => self.tree.undress(path, from).reading("lane", path)?,
            _ => Some(self.make_dressed(at, (path, from), &splice(self.base)?, like, dresses)?),
        };
        let kind = match (renames, content_differs) {
            (true, modified) => ChangeKind::Rename { from: from.clone(), modified },
            (false, true) => ChangeKind::Modify,
            (false, false) => ChangeKind::Mode,
        };
        self.becomes(index, Change { path: at.clone(), kind, old: Some(old.clone()), new: entry });
        Ok(())
    }

    fn make(
        &mut self,
        at: &TreePath,
        dress: &TreePath,
        content: &[u8],
        like: &Entry,
        old: bool,
    ) -> Result<Entry> {
        self.make_dressed(at, (dress, dress), content, like, !old)
    }

    /// Content at `at`, with the attributes of the lane's path or the base's.
    fn make_dressed(
        &mut self,
        at: &TreePath,
        (lane, base): (&TreePath, &TreePath),
        content: &[u8],
        like: &Entry,
        of_lane: bool,
    ) -> Result<Entry> {
        debug_assert!(like.kind == Kind::File);
        let xattrs = match of_lane {
            true => self.tree.xattrs(lane).reading("lane", lane)?,
            false => self.base.xattrs(base).reading("base", base)?,
        };
        let stepping = |source| Error::Step { step: "make content", path: at.clone(), source };
        let made = Made::write(self.place, content).map_err(stepping)?;
        self.tree.put(at, made, like, xattrs).map_err(stepping)
    }
}
