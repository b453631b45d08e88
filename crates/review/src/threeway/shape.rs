//! What must be true of the tree as a whole: nothing goes with what somebody still has something in, and nothing comes
//! to where there is no directory.
//!
//! Invariant: only looks and stops; what has been decided about one entry is not decided anew.

use std::collections::{BTreeMap, BTreeSet};

use tree::{Change, ChangeKind, Entry, Source, TreePath};

use super::{Clash, Conflict, Conflicts, Given, Resolved};
use crate::error::{Reading as _, Result};
use crate::flat;
use crate::plan::{Drifted, Why};

/// Stops what would take a directory away in which the original has something that stays.
pub(super) fn hold(
    given: &Given<'_>,
    changes: &BTreeMap<TreePath, Change>,
    out: &mut Resolved,
) -> Result<()> {
    let stopped: BTreeSet<TreePath> = out.stopped.iter().map(|at| at.path.clone()).collect();
    let leaves = |change: &&Change| match &change.kind {
        ChangeKind::Delete | ChangeKind::Retype | ChangeKind::Rename { .. } => {
            !stopped.contains(&change.path) && !stopped.contains(change.old_path())
        }
        _ => false,
    };
    let going: BTreeSet<&TreePath> = changes.values().filter(leaves).map(Change::old_path).collect();
    let mut held = Vec::new();
    for change in changes.values().filter(leaves) {
        let dir = change.old_path();
        let is_dir = change.old.as_ref().is_some_and(Entry::is_dir);
        let stays_one = matches!(change.kind, ChangeKind::Rename { .. });
        let drifted = || given.drift.iter().any(|at| at.path.starts_with(dir));
        if !is_dir || stays_one || !drifted() {
            continue;
        }
        let mut stays = None;
        flat::walk(given.origin, "origin", dir, &mut |path, _| {
            if path != dir && stays.is_none() && !going.contains(path) {
                stays = Some(path.clone());
            }
        })?;
        held.extend(stays.map(|path| (change.path.clone(), path)));
    }
    for (dir, inside) in held {
        out.stopped.push(Drifted { path: dir, why: Why::Holds(inside) });
    }
    Ok(())
}

/// Makes sure that what comes has a directory to come to: one that the original has, or one that the lane brings.
pub(super) fn stand(
    given: &Given<'_>,
    lane: &dyn Source,
    changes: &mut BTreeMap<TreePath, Change>,
    out: &mut Resolved,
) -> Result<()> {
    let stopped: BTreeSet<TreePath> = out.stopped.iter().map(|at| at.path.clone()).collect();
    let comes = |change: &&Change| {
        change.new.is_some()
            && !stopped.contains(&change.path)
            && (change.old.is_none() || change.old_path() != &change.path)
    };
    let places: Vec<TreePath> = changes.values().filter(comes).map(|change| change.path.clone()).collect();
    for place in places {
        let mut missing = Vec::new();
        let mut above = place.parent();
        let mut wall = None;
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            let made = changes.get(&dir).filter(|change| !stopped.contains(&change.path));
            if made.is_some_and(|change| change.new.as_ref().is_some_and(Entry::is_dir)) {
                break;
            }
            // Below a renamed directory everything is where it will be.
            let entry = given.origin.entry(&dir);
            match entry {
                Err(error) if matches!(error.errno, kernel::Errno::NOTDIR | kernel::Errno::LOOP) => {
                    wall = Some(dir);
                    break;
                }
                other => match other.reading("origin", &dir)? {
                    Some(entry) if entry.is_dir() => break,
                    Some(_) => {
                        wall = Some(dir);
                        break;
                    }
                    None => missing.push(dir.clone()),
                },
            }
            above = dir.parent();
        }
        if let Some(wall) = wall {
            wall_off(given, changes, out, &place, wall);
            continue;
        }
        for dir in missing {
            if let Some(entry) = lane.entry(&dir).reading("lane", &dir)?.filter(Entry::is_dir) {
                let change = Change { path: dir.clone(), kind: ChangeKind::Add, old: None, new: Some(entry) };
                out.settled.remove(&dir);
                changes.entry(dir).or_insert(change);
            }
        }
    }
    Ok(())
}

/// The original has no directory where the lane's entry belongs.
fn wall_off(
    given: &Given<'_>,
    changes: &mut BTreeMap<TreePath, Change>,
    out: &mut Resolved,
    place: &TreePath,
    wall: TreePath,
) {
    let about = vec![wall.clone()];
    let clash = Clash::NotInDirectory(wall);
    if given.how == Conflicts::Ours {
        changes.remove(place);
        out.settled.insert(place.clone());
        out.conflicts.push(Conflict { path: place.clone(), clash, settled: Some(given.how), about });
        return;
    }
    if out.conflicts.iter().any(|at| at.path == *place && at.settled.is_none()) {
        return;
    }
    out.stopped.push(Drifted { path: place.clone(), why: Why::Conflict(clash.clone()) });
    out.conflicts.retain(|at| at.path != *place);
    out.conflicts.push(Conflict { path: place.clone(), clash, settled: None, about });
}
