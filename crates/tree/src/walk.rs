//! Walking a directory tree by descriptors, in the one order of the project.
//!
//! Invariant: an error never ends the walk; it becomes a gap with its path. Nothing but directories is opened.

use std::os::fd::{AsFd as _, BorrowedFd};

use kernel::{Errno, dir, open};

use crate::descent::{Descent, open_child};
use crate::dir::entry_at;
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

/// Why a directory was not entered.
pub(crate) const OTHER_MOUNT: &str = "another filesystem is mounted here";

/// Visits everything below `root` (not `root` itself), sorted, without crossing mounts. What cannot be read is
/// returned with its reason; the walk goes on.
pub fn walk(root: BorrowedFd<'_>, visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit) -> Vec<(TreePath, String)> {
    walk_mounts(root, Mounts::Stay, visit)
}

/// As [`walk`], with a word on mounts.
pub fn walk_mounts(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit,
) -> Vec<(TreePath, String)> {
    let mut gaps = Vec::new();
    if let Err(error) = levels(root, mounts, visit, &mut gaps) {
        // The walk lost its way back (a directory was moved under it): the rest is not known.
        gaps.push((TreePath::root(), error.to_string()));
    }
    gaps
}

/// A directory on the way: its path and the names that are still to be visited, the next one last.
struct Level {
    path: TreePath,
    rest: Vec<Vec<u8>>,
}

fn read_level(fd: BorrowedFd<'_>, path: TreePath) -> kernel::Result<Level> {
    let mut rest: Vec<Vec<u8>> = dir::unread_entries(fd)?.into_iter().map(|name| name.name).collect();
    rest.reverse();
    Ok(Level { path, rest })
}

fn levels(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit,
    gaps: &mut Vec<(TreePath, String)>,
) -> kernel::Result<()> {
    let mut descent = Descent::new(open::dir_beneath(root, b"")?);
    let mut stack = vec![read_level(descent.here()?, TreePath::root())?];
    while let Some(level) = stack.last_mut() {
        let Some(name) = level.rest.pop() else {
            stack.pop();
            descent.leave()?;
            continue;
        };
        let path = level.path.join(&name);
        let entry = match entry_at(descent.here()?, &name) {
            Ok(Some(entry)) => entry,
            // Gone since the directory was read.
            Ok(None) => continue,
            Err(error) => {
                gaps.push((path, error.to_string()));
                continue;
            }
        };
        match visit(&path, &entry) {
            Visit::Stop => return Ok(()),
            Visit::Enter if entry.is_dir() => {}
            _ => continue,
        }
        let child = open_child(descent.here()?, &name, mounts == Mounts::Cross)
            .and_then(|fd| read_level(fd.as_fd(), path.clone()).map(|level| (fd, level)));
        match child {
            Ok((fd, level)) => {
                descent.enter(fd)?;
                stack.push(level);
            }
            Err(error) if error.errno == Errno::XDEV => gaps.push((path, OTHER_MOUNT.to_owned())),
            Err(error) if error.is_not_found() => {}
            Err(error) => gaps.push((path, error.to_string())),
        }
    }
    Ok(())
}
