//! What a plan makes of the base, as pairs of old and new: the same steps for those who do not write the origin (a patch,
//! a commit). Pure.
//!
//! Invariant: the pairs speak of the base as it is, before any move; no path stands on the old side of two pairs or on
//! the new side of two.

use std::collections::BTreeMap;

use tree::{Source, TreePath};

use crate::error::Result;
use crate::flat::{self, Pair};
use crate::guard::git_internal;
use crate::plan::{KeepPlan, Step};

/// The steps of a plan as pairs, sorted by path.
pub fn pairs(plan: &KeepPlan, base: &dyn Source) -> Result<Vec<Pair>> {
    let mut moved: Vec<(&TreePath, &TreePath)> = Vec::new();
    let mut now: BTreeMap<TreePath, Pair> = BTreeMap::new();
    let mut gone: Vec<Pair> = Vec::new();
    for step in &plan.steps {
        if let Step::MoveDir { from, to, .. } = step {
            moved.push((from, to));
            flat::walk(base, "base", from, &mut |path, entry| {
                let at = to.join_path(&path.strip_prefix(from).unwrap_or_default());
                if !git_internal(path) {
                    let side = |path: TreePath| Some((path, entry.clone()));
                    let pair =
                        Pair { old: side(path.clone()), new: side(at.clone()), content_differs: false };
                    now.insert(at, pair);
                }
            })?;
        }
    }
    // Where a path stood before a directory above it moved.
    let before = |path: &TreePath| {
        let found =
            moved.iter().find_map(|(from, to)| path.strip_prefix(to).map(|rest| from.join_path(&rest)));
        found.unwrap_or_else(|| path.clone())
    };
    for step in &plan.steps {
        match step {
            Step::MoveDir { .. } => {}
            Step::Move { from, to, old } => {
                let (from, to) = ((before(from), old.clone()), (to.clone(), old.clone()));
                let at = to.0.clone();
                now.insert(at, Pair { old: Some(from), new: Some(to), content_differs: false });
            }
            Step::Put { path, old, new, same_content } => {
                let was = now.remove(path).and_then(|pair| pair.old);
                let old = was.or_else(|| old.clone().map(|old| (before(path), old)));
                let new = Some((path.clone(), new.clone()));
                now.insert(path.clone(), Pair { old, new, content_differs: !same_content });
            }
            Step::Meta { path, old, new } => {
                let was = now.remove(path);
                let content_differs = was.as_ref().is_some_and(|pair| pair.content_differs);
                let old = was.and_then(|pair| pair.old).or_else(|| Some((path.clone(), old.clone())));
                let new = Some((path.clone(), new.clone()));
                now.insert(path.clone(), Pair { old, new, content_differs });
            }
            Step::Delete { path, old } => {
                let was = now.remove(path).and_then(|pair| pair.old);
                let old = Some(was.unwrap_or_else(|| (path.clone(), old.clone())));
                gone.push(Pair { old, new: None, content_differs: true });
            }
        }
    }
    let mut pairs: Vec<Pair> = now.into_values().chain(gone).collect();
    pairs.sort_by(|a, b| a.path().cmp(b.path()).then(a.new.is_none().cmp(&b.new.is_none())));
    Ok(pairs)
}
