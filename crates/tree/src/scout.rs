//! [`Scout`]: a second thread that goes ahead of a walk in the same order, lists the directories and asks what stands in
//! them, so that the walk finds the answers there.
//!
//! Invariant: what it finds is taken for a directory only where the walk has opened that very directory, and a
//! directory that it could not enter is the walk's own to look at. It opens nothing but directories, and ends with
//! the walk.

use std::cmp::Ordering;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use kernel::{Result, dir, meta, open};

use crate::descent::{Descent, open_child};
use crate::dir::entry_at;
use crate::entry::Entry;
use crate::path::TreePath;

/// Directories that it may be ahead.
const AHEAD: usize = 64;

/// What stands in a directory, sorted.
pub(crate) type Names = Vec<(Vec<u8>, Entry)>;

struct Found {
    path: TreePath,
    identity: (u64, u64),
    names: Names,
}

/// What was found ahead.
pub(crate) struct Scout {
    found: Receiver<Found>,
    /// Found for a directory that the walk has not come to.
    next: Option<Found>,
}

impl Scout {
    /// Sends a thread ahead into `root`. Where there can be no thread, nothing is found.
    pub(crate) fn send<'scope>(
        scope: &'scope Scope<'scope, '_>,
        root: BorrowedFd<'scope>,
        cross: bool,
    ) -> Scout {
        let (sender, found) = sync_channel(AHEAD);
        let go = move || {
            // Whatever stops it, the walk looks for itself.
            let _ = go_ahead(root, cross, &sender);
        };
        let _ = std::thread::Builder::new().name("lane-scout".to_owned()).spawn_scoped(scope, go);
        Scout { found, next: None }
    }

    /// What stands in the directory `dir`, which the walk has come to at `path`; `None` where it was not found ahead.
    pub(crate) fn names(&mut self, path: &TreePath, dir: BorrowedFd<'_>) -> Option<Names> {
        loop {
            let found = match self.next.take() {
                Some(found) => found,
                None => self.found.recv().ok()?,
            };
            match found.path.cmp(path) {
                // The walk has passed it by.
                Ordering::Less => {}
                Ordering::Greater => {
                    self.next = Some(found);
                    return None;
                }
                Ordering::Equal => {
                    let there = meta::stat_fd(dir).ok()?;
                    return (there.identity() == found.identity).then_some(found.names);
                }
            }
        }
    }
}

/// A directory on the way: its path and the directories in it that are still to be entered, the next one last.
struct Level {
    path: TreePath,
    rest: Vec<Vec<u8>>,
}

/// Looks into everything below `root`. Ends where nobody listens any more, and where the way back is lost.
fn go_ahead(root: BorrowedFd<'_>, cross: bool, to: &SyncSender<Found>) -> Result<()> {
    let mut descent = Descent::new(open::dir_beneath(root, b"")?);
    let Some(level) = look(descent.here()?, TreePath::root(), to)? else { return Ok(()) };
    let mut stack = vec![level];
    while let Some(level) = stack.last_mut() {
        let Some(name) = level.rest.pop() else {
            stack.pop();
            descent.leave()?;
            continue;
        };
        let path = level.path.join(&name);
        let Ok(fd) = open_child(descent.here()?, &name, cross) else { continue };
        match look(fd.as_fd(), path, to) {
            Ok(Some(level)) => {
                descent.enter(fd)?;
                stack.push(level);
            }
            Ok(None) => return Ok(()),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Tells what stands in one directory; `None` where nobody listens any more.
fn look(fd: BorrowedFd<'_>, path: TreePath, to: &SyncSender<Found>) -> Result<Option<Level>> {
    let mut names = Names::new();
    let mut rest = Vec::new();
    for name in dir::unread_entries(fd)? {
        // What is gone since is not there; of what cannot be told the walk asks itself.
        if let Some(entry) = entry_at(fd, &name.name)? {
            if entry.is_dir() {
                rest.push(name.name.clone());
            }
            names.push((name.name, entry));
        }
    }
    rest.reverse();
    let found = Found { path: path.clone(), identity: meta::stat_fd(fd)?.identity(), names };
    Ok(to.send(found).is_ok().then_some(Level { path, rest }))
}
