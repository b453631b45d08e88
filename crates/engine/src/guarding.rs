//! What of a lane's changes runs by itself later, each with the reason: for every face that shows changes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use review::guard::Guard;
use tree::{ChangeSet, Source, TreePath};

use crate::error::Result;
use crate::lane::{OpenLane, RootDelta};

/// A change that a blanket keep leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardedView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// Why.
    pub why: String,
}

/// The reasons of one root, by the path in the lane.
pub(crate) fn reasons(
    set: &ChangeSet,
    base: &dyn Source,
    lane: &dyn Source,
) -> Result<BTreeMap<TreePath, String>> {
    let guard = Guard::new(base)?;
    let mut found = BTreeMap::new();
    for change in &set.changes {
        match guard.check(change, lane, base) {
            Ok(Some(reason)) => {
                found.insert(change.path.clone(), reason.text);
            }
            Ok(None) => {}
            // A lane at work: it is gone since it was listed. Who keeps judges again.
            Err(review::Error::Read { side: "lane", source, .. }) if source.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Everything of a lane that runs by itself.
pub(crate) fn of_lane(lane: &OpenLane, deltas: &[RootDelta]) -> Result<Vec<GuardedView>> {
    let mut found = Vec::new();
    for (root, delta) in lane.roots.iter().zip(deltas) {
        if delta.set.changes.is_empty() {
            continue;
        }
        let (base, inside) = (root.workspace.base_tree()?, root.workspace.lane_tree()?);
        let reasons = reasons(&delta.set, &*base, &*inside)?;
        found.extend(reasons.into_iter().map(|(path, why)| GuardedView {
            root: delta.root.clone(),
            path,
            why,
        }));
    }
    Ok(found)
}
