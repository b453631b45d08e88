//! Bytes that a tree of ours takes on disk. Each inode counts once, however many names it has (every
//! whiteout of a layer is a name of one inode).

use std::collections::HashSet;
use std::os::fd::BorrowedFd;

use tree::walk::{Visit, walk};
use tree::{Entry, TreePath};

/// Bytes allocated below `root`, of the entries that `counts` says yes to.
pub(crate) fn allocated_below(
    root: BorrowedFd<'_>,
    counts: &mut dyn FnMut(&TreePath, &Entry) -> bool,
) -> u64 {
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut sum = 0;
    // What cannot be read takes space that cannot be counted; the caller learns of gaps by the delta.
    let _gaps = walk(root, &mut |path, entry| {
        let is_new = entry.is_dir() || entry.nlink < 2 || seen.insert((entry.dev, entry.ino));
        if is_new && counts(path, entry) {
            sum += entry.allocated;
        }
        Visit::Enter
    });
    sum
}
