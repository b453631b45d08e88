//! Two manifests → what is to be done, as data.
//!
//! Invariant: what goes is gone before anything comes, the deepest first; what comes stands in a directory that is
//! there; metadata of directories comes last, the deepest first, because everything else changes their times.

use std::collections::BTreeSet;

use tree::TreePath;

use crate::error::Result;
use crate::manifest::item::{Item, ItemKind};
use crate::manifest::read::Manifest;

/// One step of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Takes an entry away; a directory is empty by then.
    Remove {
        /// Which.
        path: TreePath,
        /// True for a directory.
        dir: bool,
    },
    /// Makes a directory.
    MakeDir {
        /// Where.
        path: TreePath,
    },
    /// Puts a file, link, FIFO or whiteout, complete, in place of what is there.
    Put {
        /// Where.
        path: TreePath,
        /// What.
        item: Item,
    },
    /// Makes an entry another name of a file.
    Link {
        /// Where.
        path: TreePath,
        /// The first name of the file.
        first: TreePath,
    },
    /// Sets owner, mode, attributes and time of what is there already; of a directory its marks too.
    Dress {
        /// Which.
        path: TreePath,
        /// As it should be.
        item: Item,
    },
}

impl Act {
    /// The path that it is about.
    pub fn path(&self) -> &TreePath {
        match self {
            Act::Remove { path, .. }
            | Act::MakeDir { path }
            | Act::Put { path, .. }
            | Act::Link { path, .. }
            | Act::Dress { path, .. } => path,
        }
    }
}

/// What a restore does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// In this order.
    pub acts: Vec<Act>,
    /// Entries that are there now and that the target could not tell of: they stay as they are.
    pub left_alone: Vec<TreePath>,
    /// Entries that go.
    pub removed: u64,
    /// Entries that come or change.
    pub changed: u64,
}

impl Plan {
    /// True where nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }
}

/// What turns the layer that `current` describes into `target`. `gaps` are the paths that the target's snapshot could not
/// take: what stands there now stays, since its absence from the snapshot says nothing.
pub fn plan(current: &Manifest<'_>, target: &Manifest<'_>, gaps: &[TreePath]) -> Result<Plan> {
    let mut plan = Plan::default();
    let mut removes = Vec::new();
    let mut comes = Vec::new();
    let mut dirs: BTreeSet<TreePath> = BTreeSet::new();
    for difference in current.diff(target)? {
        let (path, old, new) = difference?;
        let Some(new) = new else {
            if gaps.iter().any(|gap| path.starts_with(gap)) {
                plan.left_alone.push(path);
                continue;
            }
            plan.removed += 1;
            dirs.extend(path.parent());
            removes.push(Act::Remove { path, dir: old.is_some_and(|old| old.is_dir()) });
            continue;
        };
        plan.changed += 1;
        let was_dir = old.as_ref().is_some_and(Item::is_dir);
        if old.is_some() && was_dir != new.is_dir() {
            removes.push(Act::Remove { path: path.clone(), dir: was_dir });
        }
        if new.is_dir() {
            if !was_dir {
                dirs.extend(path.parent());
                comes.push(Act::MakeDir { path: path.clone() });
            }
            if was_dir && old.is_some_and(|old| old.kind != new.kind) {
                // Marks below may have said nothing, and so be missing in one of the two, and say something now.
                for entry in target.below(&path)? {
                    let (at, item) = entry?;
                    if item.is_dir() {
                        dirs.insert(at);
                    }
                }
            }
            dirs.insert(path);
            continue;
        }
        let act = come(&path, old.filter(|old| !old.is_dir()).as_ref(), new);
        if !matches!(act, Act::Dress { .. }) {
            dirs.extend(path.parent());
        }
        comes.push(act);
    }
    removes.reverse();
    plan.acts = removes;
    plan.acts.append(&mut comes);
    dirs.extend(closed_above(target, &plan.acts)?);
    for path in dirs.into_iter().rev() {
        // A directory that goes itself has no metadata to set.
        if let Some(item) = target.get(&path)?.filter(Item::is_dir) {
            plan.acts.push(Act::Dress { path, item });
        }
    }
    Ok(plan)
}

/// Directories above what is done that refuse their owner: they are opened up for it, and dressed when it is done, also by
/// who finds them open because the one before was killed.
fn closed_above(target: &Manifest<'_>, acts: &[Act]) -> Result<Vec<TreePath>> {
    let mut asked = BTreeSet::new();
    let mut closed = Vec::new();
    for act in acts {
        let mut above = act.path().parent();
        while let Some(path) = above.filter(|path| !path.is_root() && !asked.contains(path)) {
            let item = target.get(&path)?;
            if item.is_some_and(|item| item.is_dir() && item.mode & 0o700 != 0o700) {
                closed.push(path.clone());
            }
            above = path.parent();
            asked.insert(path);
        }
    }
    Ok(closed)
}

/// How an entry that is no directory comes to be what it should be.
fn come(path: &TreePath, old: Option<&Item>, new: Item) -> Act {
    // The same file under the same names needs new metadata at most.
    if old.is_some_and(|old| same_body(&old.kind, &new.kind) && old.group == new.group) {
        return Act::Dress { path: path.clone(), item: new };
    }
    match &new.group {
        Some(first) if first != path => Act::Link { path: path.clone(), first: first.clone() },
        _ => Act::Put { path: path.clone(), item: new },
    }
}

/// True where two entries differ in metadata at most.
fn same_body(old: &ItemKind, new: &ItemKind) -> bool {
    match (old, new) {
        (ItemKind::Dir { .. }, ItemKind::Dir { .. }) => true,
        _ => old == new,
    }
}
