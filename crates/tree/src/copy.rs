//! Copying a tree.

use std::os::fd::BorrowedFd;

use kernel::Result;

use crate::path::TreePath;

/// What to copy and what not.
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// Paths (with everything below) that are not copied and not listed.
    pub skip: Vec<TreePath>,
    /// Enter other mounts too.
    pub cross_mounts: bool,
}

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Entries made.
    pub entries: u64,
    /// Bytes of content moved.
    pub bytes: u64,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// Regular files made (further names of a hard link not counted).
    pub files: u64,
    /// Directories made.
    pub dirs: u64,
    /// Links, FIFOs and further hard link names made.
    pub others: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes newly allocated: the source's allocation of every file that was not reflinked.
    pub allocated: u64,
    /// Files by how their content was moved.
    pub reflinked: u64,
    /// Files that the kernel copied.
    pub ranged: u64,
    /// Files that were read and written.
    pub read_written: u64,
    /// What was not copied, with the reason.
    pub skipped: Vec<(TreePath, String)>,
}

/// Copies everything in `from` into the empty directory `to`, which also takes `from`'s mode and times.
/// What cannot be read is listed in the answer; what cannot be written is an error.
pub fn copy_tree(
    _from: BorrowedFd<'_>,
    _to: BorrowedFd<'_>,
    _options: &CopyOptions,
    _progress: &mut dyn FnMut(Progress),
) -> Result<Copied> {
    todo!()
}
