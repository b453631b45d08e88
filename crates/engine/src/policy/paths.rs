//! Which paths a plan touches, and which of them patterns allow. A directory that is only made to hold what may be kept
//! may be made, and so is one removed that held such.

use std::collections::BTreeMap;

use review::plan::{KeepPlan, Step};
use tree::{Source, TreePath};

use super::file::Patterns;
use crate::error::{Doing as _, Result};

/// Every path of the origin that a plan touches, with whether it is a directory there.
pub(super) type Touched = BTreeMap<TreePath, bool>;

/// The paths that a plan touches. Whatever is in a directory that moves is touched at both places.
pub(super) fn touched(plan: &KeepPlan, origin: &dyn Source) -> Result<Touched> {
    let mut found = Touched::new();
    for step in &plan.steps {
        match step {
            Step::MoveDir { from, to, .. } => {
                let mut open = vec![TreePath::root()];
                while let Some(below) = open.pop() {
                    found.insert(from.join_path(&below), true);
                    found.insert(to.join_path(&below), true);
                    let dir = from.join_path(&below);
                    let doing = || format!("look at {}", dir.as_path().display());
                    for (name, entry) in origin.list_entries(&dir).doing(doing)? {
                        let inner = below.join(&name);
                        if entry.is_dir() {
                            open.push(inner);
                        } else {
                            found.insert(from.join_path(&inner), false);
                            found.insert(to.join_path(&inner), false);
                        }
                    }
                }
            }
            Step::Move { from, to, .. } => {
                found.insert(from.clone(), false);
                found.insert(to.clone(), false);
            }
            Step::Put { path, new, .. } | Step::Meta { path, new, .. } => {
                found.insert(path.clone(), new.is_dir());
            }
            Step::Delete { path, old } => {
                found.entry(path.clone()).or_insert(old.is_dir());
            }
        }
    }
    Ok(found)
}

/// How many of them are files, links or pipes.
pub(super) fn count(touched: &Touched) -> u64 {
    touched.values().filter(|is_dir| !**is_dir).count() as u64
}

/// Bytes of content that a plan puts in place.
pub(super) fn bytes(plan: &KeepPlan) -> u64 {
    let put = |step: &Step| match step {
        Step::Put { new, same_content: false, .. } if !new.is_dir() => new.size,
        _ => 0,
    };
    plan.steps.iter().map(put).sum()
}

/// Those that `only` does not allow.
pub(super) fn outside(touched: &Touched, only: &Patterns) -> Vec<TreePath> {
    let is_meant = |path: &TreePath| only.matches(path.as_path());
    let holds_meant = |dir: &TreePath| {
        let below = touched.range(dir.clone()..).take_while(|(path, _)| path.starts_with(dir));
        below.filter(|(path, _)| *path != dir).any(|(path, _)| is_meant(path))
    };
    let is_allowed = |path: &TreePath, is_dir: bool| is_meant(path) || is_dir && holds_meant(path);
    touched
        .iter()
        .filter(|(path, is_dir)| !is_allowed(path, **is_dir))
        .map(|(path, _)| path.clone())
        .collect()
}

/// Those that `deny` forbids.
pub(super) fn denied(touched: &Touched, deny: &Patterns) -> Vec<TreePath> {
    touched.keys().filter(|path| deny.matches(path.as_path())).cloned().collect()
}
