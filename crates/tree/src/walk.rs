//! Walking a directory tree by descriptors, in the one order of the project.

use std::os::fd::BorrowedFd;

use crate::entry::Entry;
use crate::path::TreePath;

/// What to do after an entry was visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Go on; enter it if it is a directory.
    Enter,
    /// Go on, but not below this entry.
    SkipBelow,
    /// End the walk.
    Stop,
}

/// Whether a walk enters other mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// Their roots are visited and listed as gaps, not entered.
    Stay,
    /// They are part of the tree.
    Cross,
}

/// Visits everything below `root` (not `root` itself), sorted, without crossing mounts. What cannot be read is
/// returned with its reason; the walk goes on.
pub fn walk(root: BorrowedFd<'_>, visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit) -> Vec<(TreePath, String)> {
    walk_mounts(root, Mounts::Stay, visit)
}

/// As [`walk`], with a word on mounts.
pub fn walk_mounts(
    _root: BorrowedFd<'_>,
    _mounts: Mounts,
    _visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit,
) -> Vec<(TreePath, String)> {
    todo!()
}
