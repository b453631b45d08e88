//! [`Scout`]: a second thread that lists the directories of a walk from the other end and asks what stands in them, until
//! the two meet. From there on the walk finds its answers here.
//!
//! Invariant: what it finds is taken for a directory only where the walk has opened that very directory, and a
//! directory that it could not enter is the walk's own to look at. It opens nothing but directories, and ends with
//! the walk.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use kernel::{Result, dir, meta, open};

use crate::descent::{Descent, open_child};
use crate::dir::entry_at;
use crate::entry::Entry;
use crate::path::TreePath;

/// Entries that it finds at most: they are held in memory until the walk comes to them.
const MOST: usize = 50_000;

/// What stands in a directory, sorted.
pub(crate) type Names = Vec<(Vec<u8>, Entry)>;

struct Found {
    identity: (u64, u64),
    names: Names,
}

/// What the two know of each other.
#[derive(Default)]
struct Between {
    found: Mutex<(HashMap<TreePath, Found>, TreePath)>,
    over: AtomicBool,
}

impl Between {
    /// What was found, and the directory that the walk has come to.
    fn lock(&self) -> MutexGuard<'_, (HashMap<TreePath, Found>, TreePath)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found from the other end.
pub(crate) struct Scout(Arc<Between>);

impl Scout {
    /// Sends a thread to the other end of `root`. Where there can be no thread, nothing is found.
    pub(crate) fn send<'scope>(
        scope: &'scope Scope<'scope, '_>,
        root: BorrowedFd<'scope>,
        cross: bool,
    ) -> Scout {
        let between = Arc::new(Between::default());
        let its = Arc::clone(&between);
        let go = move || {
            // Whatever stops it, the walk looks for itself.
            let _ = come_back(root, cross, &its);
        };
        let _ = std::thread::Builder::new().name("lane-scout".to_owned()).spawn_scoped(scope, go);
        Scout(between)
    }

    /// What stands in the directory `dir`, to which the walk has come at `path`; `None` where it was not looked at.
    pub(crate) fn names(&mut self, path: &TreePath, dir: BorrowedFd<'_>) -> Option<Names> {
        let found = {
            let mut between = self.0.lock();
            between.1.clone_from(path);
            between.0.remove(path)?
        };
        (meta::stat_fd(dir).ok()?.identity() == found.identity).then_some(found.names)
    }
}

impl Drop for Scout {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// A directory on the way: its path and the directories in it that are still to be entered, the next one last.
struct Level {
    path: TreePath,
    rest: Vec<Vec<u8>>,
}

/// Looks into everything below `root`, the last directory first, until the walk is met.
fn come_back(root: BorrowedFd<'_>, cross: bool, between: &Between) -> Result<()> {
    let mut descent = Descent::new(open::dir_beneath(root, b"")?);
    let mut held = 0;
    let Some(level) = look(descent.here()?, TreePath::root(), between, &mut held)? else { return Ok(()) };
    let mut stack = vec![level];
    while let Some(level) = stack.last_mut() {
        let Some(name) = level.rest.pop() else {
            stack.pop();
            descent.leave()?;
            continue;
        };
        let path = level.path.join(&name);
        if held > MOST || path <= between.lock().1 {
            return Ok(());
        }
        let Ok(fd) = open_child(descent.here()?, &name, cross) else { continue };
        match look(fd.as_fd(), path, between, &mut held) {
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

/// Tells what stands in one directory; `None` where the walk is over.
fn look(fd: BorrowedFd<'_>, path: TreePath, between: &Between, held: &mut usize) -> Result<Option<Level>> {
    let mut names = Names::new();
    let mut rest = Vec::new();
    for name in dir::unread_entries(fd)? {
        if between.over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // What is gone since is not there; of what cannot be told the walk asks itself.
        if let Some(entry) = entry_at(fd, &name.name)? {
            if entry.is_dir() {
                rest.push(name.name.clone());
            }
            names.push((name.name, entry));
        }
    }
    *held += names.len();
    let found = Found { identity: meta::stat_fd(fd)?.identity(), names };
    between.lock().0.insert(path.clone(), found);
    Ok(Some(Level { path, rest }))
}
