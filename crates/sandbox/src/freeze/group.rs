//! [`Group`]: a control group of the lane's own, where we may have one: root as a rule, and a user in a delegated scope.
//! Whoever is in it can be stopped at once and notices nothing.
//!
//! Invariant: its path stands in the lane's directory before it is made, so that whoever comes after a kill removes it. A
//! lane without one is stopped by signals, and so is a process of a lane that did not get into its group.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::cgroup::{self, Cgroup};
use kernel::{Errno, node, publish};

/// The file with its path.
const NAME: &[u8] = b"group";

/// The group of a lane that is being made live. Dropped, it is removed.
#[derive(Debug)]
pub struct Group {
    lane: OwnedFd,
    group: Cgroup,
}

impl Group {
    /// Makes one below our own; `None` where that is not allowed. The caller holds the lane's lock.
    pub fn make(lane: &OwnedFd, id: &str) -> Option<Group> {
        end(lane);
        let own = cgroup::own()?;
        // Not even an attempt where it would be in vain.
        let writable = rustix::fs::Access::WRITE_OK;
        rustix::fs::accessat(rustix::fs::CWD, &own, writable, rustix::fs::AtFlags::EACCESS).ok()?;
        let path = Some(own.join(format!("lane-{id}"))).filter(|path| is_one(path))?;
        publish::write_passing_file(lane, NAME, path.as_os_str().as_bytes(), 0o600).ok()?;
        let made = Cgroup::make(&path).ok().zip(lane.try_clone().ok());
        let Some((group, lane)) = made else {
            end(lane);
            return None;
        };
        Some(Group { lane, group })
    }

    /// Takes a process in that was not born in it, with everybody that it will start; false where that is refused.
    pub fn has(&self, pid: i32) -> bool {
        let is_in = |pids: Vec<i32>| pids.contains(&pid);
        self.group.processes().is_ok_and(is_in) || self.group.take(pid).is_ok()
    }

    /// The group itself.
    pub(crate) fn group(&self) -> &Cgroup {
        &self.group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        end(&self.lane);
    }
}

/// The group of a lane that is live.
pub(crate) fn of(lane: impl AsFd) -> Option<Cgroup> {
    Cgroup::open(&path(lane)?).ok()
}

/// Removes the group of a lane in which nobody is any more. Costs one look at a name where there is none.
pub fn end(lane: impl AsFd) {
    let lane = lane.as_fd();
    let Some(path) = path(lane) else { return };
    for _ in 0..100 {
        match Cgroup::remove(&path) {
            // Somebody who joined is just ending.
            Err(error) if error.errno == Errno::BUSY => std::thread::sleep(Duration::from_millis(1)),
            Err(error) if error.errno != Errno::NOENT => return,
            _ => {
                let _ = node::unlink_at(lane, NAME);
                return;
            }
        }
    }
}

fn path(lane: impl AsFd) -> Option<PathBuf> {
    let file = kernel::open::file_beneath(lane, NAME).ok()?;
    let text = kernel::bytes::read_all(&file).ok()?;
    // What a power failure left of it is no path of a group.
    Some(PathBuf::from(OsStr::from_bytes(&text))).filter(|path| is_one(path))
}

/// True where a path may be that of a group of ours.
fn is_one(path: &Path) -> bool {
    path.starts_with("/sys/fs/cgroup")
        && path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"lane-"))
}
