//! Renames, followed: which of the lane's changes are one, what goes along with a renamed directory, and where the original
//! has a directory now.
//!
//! Invariant: a rename of the lane is claimed after bytes were compared; whatever is not one stays a deletion and an
//! addition.

use std::collections::{BTreeMap, BTreeSet};

use tree::{Change, ChangeKind, ChangeSet, Entry, Source as _, TreePath};

use super::{Base, Joined, Unit, Work};
use crate::composed::Tree;
use crate::error::{Reading as _, Result};
use crate::flat;

impl Work<'_, '_, '_> {
    /// Where an entry at `path` belongs, because the original renamed a directory above it.
    pub(super) fn follow_dir(&self, path: &TreePath) -> Result<Option<TreePath>> {
        let mut above = path.parent();
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            if self.original(&dir)?.is_some() {
                return Ok(None);
            }
            if let Base::Has(was) = self.given.bases.base(&dir)?
                && was.is_dir()
                && let Some(now) = self.given.bases.moved(&dir, &was)?
            {
                let rest = path.strip_prefix(&dir).unwrap_or_default();
                return Ok(Some(now.join_path(&rest)));
            }
            above = dir.parent();
        }
        Ok(None)
    }

    /// A deletion and an addition that are one rename of the lane: the same content that the base had.
    pub(super) fn pair_renames(&mut self, units: &mut Vec<Unit>) -> Result<()> {
        let is_delete = |unit: &&Unit| unit.change.as_ref().is_some_and(|c| c.kind == ChangeKind::Delete);
        let gone: Vec<TreePath> = units.iter().filter(is_delete).map(|unit| unit.from.clone()).collect();
        for from in gone {
            let Base::Has(was) = self.given.bases.base(&from)? else { continue };
            if !was.is_file() || was.size == 0 {
                continue;
            }
            if let Some(to) = self.renamed_to(&from, &was, units)? {
                // What the deletion is about now speaks for both.
                self.changes.remove(&to);
                units.retain(|unit| unit.at != to);
                if let Some(unit) = units.iter_mut().find(|unit| unit.from == from) {
                    (unit.at, unit.change) = (to, None);
                }
            }
        }
        Ok(())
    }

    /// The addition that holds what the base had at `from`.
    fn renamed_to(&self, from: &TreePath, was: &Entry, units: &[Unit]) -> Result<Option<TreePath>> {
        let is_new = |change: &&Change| {
            change.kind == ChangeKind::Add
                && change.new.as_ref().is_some_and(|new| new.is_file() && new.size == was.size)
        };
        let met = units.iter().filter_map(|unit| unit.change.as_ref());
        let mut places: Vec<&TreePath> =
            self.changes.values().chain(met).filter(is_new).map(|change| &change.path).collect();
        // The likeliest first: of the same name, then of the same directory.
        places.sort_by_key(|to| (to.name() != from.name(), to.parent() != from.parent()));
        for to in places {
            let Some(content) = self.given.bases.content(from, was)? else { return Ok(None) };
            let Ok(there) = self.lane.open(to) else { continue };
            if kernel::bytes::same_content(&content, &there).reading("lane", to)? {
                return Ok(Some(to.clone()));
            }
        }
        Ok(None)
    }

    /// What the original has new in a directory that the lane renamed goes with it.
    pub(super) fn bring_along(
        &mut self,
        from: &TreePath,
        to: &TreePath,
        changes: &mut Vec<Change>,
    ) -> Result<()> {
        // A lane that took the whole directory away is said to have deleted what it never had.
        let is_delete = |change: &&Change| change.kind == ChangeKind::Delete;
        let named: BTreeSet<TreePath> = changes
            .iter()
            .filter(|change| !is_delete(change))
            .map(|change| change.old_path().clone())
            .collect();
        let mut new = Vec::new();
        flat::walk(self.given.origin, "origin", from, &mut |path, entry| {
            if path != from && !named.contains(path) {
                new.push((path.clone(), entry.clone()));
            }
        })?;
        for (path, entry) in new {
            let Some(rest) = path.strip_prefix(from) else { continue };
            let place = to.join_path(&rest);
            let is_free = self.original(&place)?.is_none()
                && self.lane.entry(&place).reading("lane", &place)?.is_none();
            if !is_free || !matches!(self.given.bases.base(&path)?, Base::Nothing) {
                continue;
            }
            changes.retain(|change| change.path != path);
            let shown = self.lane.show_as(&place, Tree::Base, &path, None).reading("origin", &path)?;
            if entry.is_dir() {
                let made = Change { path: place.clone(), kind: ChangeKind::Add, old: None, new: shown };
                let gone =
                    Change { path: path.clone(), kind: ChangeKind::Delete, old: Some(entry), new: None };
                self.changes.insert(place.clone(), made);
                self.changes.insert(path, gone);
                self.out.joined.push(Joined { path: place, lane_path: None, content: false });
                continue;
            }
            let kind = ChangeKind::Rename { from: path, modified: false };
            let change = Change { path: place.clone(), kind, old: Some(entry), new: shown };
            self.changes.insert(place.clone(), change);
            self.out.joined.push(Joined { path: place, lane_path: None, content: false });
        }
        Ok(())
    }
}

/// Directories that the lane renamed: those that the set names, and those that went while everything that was renamed out
/// of them came to one new directory.
pub(super) fn moved_dirs(set: &ChangeSet, changes: &[Change]) -> BTreeMap<TreePath, TreePath> {
    let mut moved: BTreeMap<TreePath, TreePath> =
        flat::dir_renames(set).into_iter().map(|(from, to)| (from.clone(), to.clone())).collect();
    let is_dir = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_dir);
    let gone: BTreeSet<&TreePath> = changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Delete && is_dir(&change.old))
        .map(|change| &change.path)
        .collect();
    let made: BTreeSet<&TreePath> = changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Add && is_dir(&change.new))
        .map(|change| &change.path)
        .collect();
    let mut apart = BTreeSet::new();
    for change in changes {
        let ChangeKind::Rename { from, .. } = &change.kind else { continue };
        let (Some(from), Some(to)) = (from.parent(), change.path.parent()) else { continue };
        if !gone.contains(&from) || !made.contains(&to) {
            continue;
        }
        if *moved.entry(from.clone()).or_insert_with(|| to.clone()) != to {
            apart.insert(from);
        }
    }
    moved.retain(|from, _| !apart.contains(from));
    moved
}
