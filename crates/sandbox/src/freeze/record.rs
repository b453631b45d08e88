//! Whom a guard has stopped, written down before it does: a file in the lane's directory.
//!
//! Invariant: the file is locked as long as its guard lives, so a record that can be locked is one that nobody works
//! on. It goes with the thaw. A process is named by id and start, so that another one under the same id is left
//! alone.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kernel::lock::{self, Lock};
use kernel::proc::Proc;
use kernel::{Result, bytes, node, process};
use rustix::process::Signal;

const NAME: &[u8] = b"still";
/// The lock writes the id of its holder here.
const HEAD: u64 = 16;
const ENTRY: usize = 16;

/// A record that is being written.
#[derive(Debug)]
pub(super) struct Record {
    dir: OwnedFd,
    file: Lock,
    end: u64,
}

impl Record {
    /// Begins one; `None` where another guard works on the lane. One that was left is carried out first.
    pub(super) fn begin(dir: &OwnedFd) -> Result<Option<Record>> {
        lift(dir, Duration::ZERO);
        let Some(file) = lock::try_exclusive(dir, NAME)? else { return Ok(None) };
        let dir = dir.try_clone().map_err(|error| kernel::Error::from_io("dup", "", &error))?;
        Ok(Some(Record { dir, file, end: HEAD }))
    }

    /// Writes down that a process is about to be stopped.
    pub(super) fn add(&mut self, pid: i32, start: u64) -> Result<()> {
        let mut entry = [0u8; ENTRY];
        entry[..4].copy_from_slice(&pid.to_le_bytes());
        entry[8..].copy_from_slice(&start.to_le_bytes());
        bytes::write_all_at(&self.file, &entry, self.end)?;
        self.end += ENTRY as u64;
        Ok(())
    }

    /// Everybody goes on.
    pub(super) fn close(self) {
        let _ = node::unlink_at(&self.dir, NAME);
    }
}

/// True while a guard works on a lane, or has left somebody stopped.
pub fn is_at_work(dir: impl AsFd) -> bool {
    kernel::meta::stat_at_if_there(dir, NAME).is_ok_and(|stat| stat.is_some())
}

/// Lets go whom a guard has stopped that was killed itself. A guard that works is waited for, for so long: it lets go by
/// itself. Costs one look at a name where there is nothing.
pub fn lift(dir: impl AsFd, patience: Duration) {
    let dir = dir.as_fd();
    if !is_at_work(dir) {
        return;
    }
    let lock = match patience.is_zero() {
        true => lock::try_exclusive(dir, NAME).ok().flatten(),
        false => lock::exclusive_blocking(dir, NAME, patience).ok(),
    };
    let (Some(file), Ok(proc)) = (lock, Proc::open()) else { return };
    if let Some(group) = super::group::of(dir) {
        let _ = group.freeze(false);
    }
    let mut text = vec![0; 1 << 20];
    let read = bytes::read_full_at(&file, &mut text, HEAD).unwrap_or(0);
    for entry in text[..read].rchunks_exact(ENTRY) {
        let (pid, start) = entry.split_at(8);
        let pid = pid[..4].try_into().map_or(0, i32::from_le_bytes);
        let start = start.try_into().map_or(0, u64::from_le_bytes);
        let Ok(process) = kernel::proc::open_process(pid) else { continue };
        if proc.stat(pid).is_some_and(|stat| stat.start == start) {
            let _ = process::kill_pidfd(&process, Signal::CONT);
        }
    }
    let _ = node::unlink_at(dir, NAME);
}
