//! Removing a tree.

use std::os::fd::BorrowedFd;

use kernel::Result;

use crate::path::TreePath;

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Names removed.
    pub entries: u64,
    /// What is still there, relative to the parent, with the reason; empty where all is gone.
    pub left: Vec<(TreePath, String)>,
}

impl Removed {
    /// True where nothing is left.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty()
    }
}

/// Removes `name` in `parent` with everything below it. A name that is not there is removed already.
pub fn remove_tree(_parent: BorrowedFd<'_>, _name: &[u8]) -> Result<Removed> {
    todo!()
}
