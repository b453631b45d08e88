//! [`Pair`]: a change set without its shorthand. A renamed directory is taken apart into one pair
//! for each entry below it, so that every consumer sees plain old and new sides.
//!
//! Invariant: each path of the base stands on the old side of at most one pair, each path of the
//! lane on the new side of at most one; pairs are sorted by new path, deletions by their old one.

use std::collections::{BTreeMap, BTreeSet};

use tree::{ChangeKind, ChangeSet, Entry, Source, TreePath};

use crate::error::{Reading as _, Result};

/// One side of a pair.
pub type Side = (TreePath, Entry);

/// What stood where in the base, and what stands where in the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The base; `None` for an addition.
    pub old: Option<Side>,
    /// The lane; `None` for a deletion.
    pub new: Option<Side>,
    /// False only where the set vouches for equal content on both sides.
    pub content_differs: bool,
}

impl Pair {
    /// The path that a list shows: the lane's, for a deletion the base's.
    pub fn path(&self) -> &TreePath {
        static ROOT: std::sync::LazyLock<TreePath> = std::sync::LazyLock::new(TreePath::root);
        self.new.as_ref().or(self.old.as_ref()).map_or(&ROOT, |side| &side.0)
    }

    /// True where the entry stands under another path than in the base.
    pub fn is_rename(&self) -> bool {
        matches!((&self.old, &self.new), (Some(old), Some(new)) if old.0 != new.0)
    }
}

/// Takes a change set apart. Directory renames at a path of `whole` are left out: their consumer moves
/// the directory itself, and changes inside have the old side where it stands once that is done.
pub fn flatten(
    set: &ChangeSet,
    base: &dyn Source,
    lane: &dyn Source,
    whole: &BTreeSet<TreePath>,
) -> Result<Vec<Pair>> {
    let (moved, split): (Vec<_>, Vec<_>) =
        dir_renames(set).into_iter().partition(|(_, to)| whole.contains(*to));
    let mut old: BTreeMap<TreePath, Entry> = BTreeMap::new();
    let mut new: BTreeMap<TreePath, (Entry, Option<TreePath>, bool)> = BTreeMap::new();
    for (from, to) in &split {
        walk(base, "base", from, &mut |path, entry| {
            old.insert(path.clone(), entry.clone());
        })?;
        walk(lane, "lane", to, &mut |path, entry| {
            let rest = path.strip_prefix(to).unwrap_or_default();
            new.insert(path.clone(), (entry.clone(), Some(from.join_path(&rest)), false));
        })?;
    }
    for change in &set.changes {
        if moved.iter().chain(&split).any(|(_, to)| **to == change.path) {
            continue;
        }
        let from = moved_path(&moved, change.old_path());
        let differs = match &change.kind {
            ChangeKind::Mode => false,
            ChangeKind::Rename { modified, .. } => *modified,
            _ => true,
        };
        if let Some(entry) = &change.old {
            old.insert(from.clone(), entry.clone());
        }
        if let Some(entry) = &change.new {
            new.insert(change.path.clone(), (entry.clone(), change.old.is_some().then_some(from), differs));
        }
    }

    let mut pairs = Vec::with_capacity(new.len() + old.len());
    let mut used: BTreeSet<TreePath> = BTreeSet::new();
    // An entry that stayed in its place claims its old side before a rename does.
    for same_place in [true, false] {
        for (path, (entry, from, differs)) in &new {
            let in_place = from.as_ref().is_none_or(|from| from == path);
            if in_place != same_place {
                continue;
            }
            let source = if in_place { path } else { from.as_ref().unwrap_or(path) };
            let partner = old.get(source).filter(|partner| {
                !used.contains(source)
                    && (in_place || (partner.kind == entry.kind && !new.contains_key(source)))
            });
            let old = partner.map(|partner| (source.clone(), partner.clone()));
            if old.is_some() {
                used.insert(source.clone());
            }
            let content_differs = *differs || old.is_none();
            pairs.push(Pair { old, new: Some((path.clone(), entry.clone())), content_differs });
        }
    }
    for (path, entry) in old {
        if !used.contains(&path) {
            pairs.push(Pair { old: Some((path, entry)), new: None, content_differs: true });
        }
    }
    pairs.sort_by(|a, b| a.path().cmp(b.path()).then(a.new.is_none().cmp(&b.new.is_none())));
    Ok(pairs)
}

/// The renamed directories of a set: from, to. One that only goes along with another is none.
pub(crate) fn dir_renames(set: &ChangeSet) -> Vec<(&TreePath, &TreePath)> {
    let mut found: Vec<(&TreePath, &TreePath)> = Vec::new();
    // Sorted by the new path, so the directory that others go along with comes first.
    for change in &set.changes {
        let ChangeKind::Rename { from, .. } = &change.kind else { continue };
        let along = found
            .iter()
            .any(|(f, t)| change.path.strip_prefix(t).is_some_and(|rest| f.join_path(&rest) == *from));
        if change.new.as_ref().is_some_and(Entry::is_dir) && !along {
            found.push((from, &change.path));
        }
    }
    found
}

/// Where a path of the base stands once the directories of `moved` have been moved.
pub(crate) fn moved_path(moved: &[(&TreePath, &TreePath)], path: &TreePath) -> TreePath {
    moved
        .iter()
        .find_map(|(from, to)| path.strip_prefix(from).map(|rest| to.join_path(&rest)))
        .unwrap_or_else(|| path.clone())
}

/// Visits `path` and everything below it, parents first.
pub(crate) fn walk(
    source: &dyn Source,
    side: &'static str,
    path: &TreePath,
    visit: &mut dyn FnMut(&TreePath, &Entry),
) -> Result<()> {
    let Some(entry) = source.entry(path).reading(side, path)? else { return Ok(()) };
    visit(path, &entry);
    if entry.is_dir() {
        for name in source.list(path).reading(side, path)? {
            walk(source, side, &path.join(&name), visit)?;
        }
    }
    Ok(())
}
