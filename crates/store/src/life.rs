//! The life of a store: who is in it, what it takes, how much room is left to the others, and its end.
//!
//! Invariant: a store ends only while nobody is in it, alone, and first of all stops to be one (its file `format`
//! goes); who came in is in a store that is there as long as he stays.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use kernel::{Errno, dir, meta, node, open};

use crate::error::{Error, Result, Stepping as _};
use crate::format;
use crate::gc::large_files;
use crate::history::LaneKey;
use crate::store::{DIRS, LOCK, Store};

/// What a store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Packs.
    pub packs: u64,
    /// Their bytes, with those of large files.
    pub bytes: u64,
}

impl Store {
    /// What it takes now. One look at each pack, none into it.
    pub fn size(&self) -> Result<Size> {
        let mut size = Size::default();
        for item in dir::entries(&self.packs).stepping("list", b"packs")? {
            if let Some(stat) =
                meta::stat_at_if_there(&self.packs, &item.name).stepping("stat", &item.name)?
            {
                size.packs += 1;
                size.bytes += stat.size;
            }
        }
        size.bytes += large_files(self)?.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
        Ok(size)
    }

    /// True where a lane has a history here, if only a beginning.
    pub fn knows(&self, lane: &LaneKey) -> Result<bool> {
        self.has(&lane.file_name())
    }

    /// Brings a lane in before its first snapshot is taken, so that the store does not end meanwhile; `false` where it has
    /// ended already and is to be made anew.
    pub fn enter(&self, lane: &LaneKey) -> Result<bool> {
        let name = lane.file_name();
        let entered = || -> Result<bool> {
            if self.is_whole()? && self.has(&name)? {
                return Ok(true);
            }
            let _held = self.hold()?;
            if !self.is_whole()? {
                return Ok(false);
            }
            open::log_in(&self.history, name.as_bytes(), 0o600).stepping("open", &name)?;
            Ok(true)
        };
        match entered() {
            // A directory that was removed takes no new names.
            Err(Error::Kernel { source, .. }) if source.is_not_found() => Ok(false),
            other => other,
        }
    }

    /// A name in the directory of histories.
    fn has(&self, name: &str) -> Result<bool> {
        let there = meta::stat_at_if_there(&self.history, name.as_bytes()).stepping("stat", name)?;
        Ok(there.is_some())
    }

    /// True where the directories that are open here are those of a store that is there.
    fn is_whole(&self) -> Result<bool> {
        let there = |name: &[u8]| meta::stat_at_if_there(&self.dir, name).stepping("stat", name);
        if there(format::NAME)?.is_none() {
            return Ok(false);
        }
        let open = [&self.packs, &self.large, &self.index_dir, &self.history, &self.stamps];
        for (name, fd) in DIRS.into_iter().zip(open) {
            let ours = meta::stat_fd(fd).stepping("stat", name)?.identity();
            if there(name)?.is_none_or(|stat| stat.identity() != ours) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the store, which is `name` in `above`, where no lane is in it; answers whether it did. Waits up to `wait` for
    /// those who are at work.
    pub fn end_if_empty(self, above: BorrowedFd<'_>, name: &[u8], wait: Duration) -> Result<bool> {
        self.require_writable()?;
        if !self.lanes()?.is_empty() {
            return Ok(false);
        }
        let _alone = match self.hold_alone(wait) {
            Err(Error::Busy) => return Ok(false),
            other => other?,
        };
        if !self.lanes()?.is_empty() {
            return Ok(false);
        }
        remove(above, &self.dir, name)
    }
}

/// Removes what is left of a store that ended half: a directory that is none any more. Answers whether it is gone.
pub fn clear_remains(above: BorrowedFd<'_>, name: &[u8]) -> Result<bool> {
    let dir = match open::dir_beneath(above, name) {
        Err(error) if error.is_not_found() => return Ok(true),
        other => other.stepping("open", name)?,
    };
    let Some(_alone) = kernel::lock::try_exclusive(&dir, LOCK).stepping("lock", LOCK)? else {
        return Ok(false);
    };
    if meta::stat_at_if_there(&dir, format::NAME).stepping("stat", format::NAME)?.is_some() {
        return Ok(false);
    }
    remove(above, &dir, name)
}

/// The caller is alone until the lock's file goes, which is the last: who takes it after that finds the directories that he has
/// open gone, or is in a store that others have made again, which then stays.
fn remove(above: BorrowedFd<'_>, dir: impl AsFd, name: &[u8]) -> Result<bool> {
    let dir = dir.as_fd();
    unlink(dir, format::NAME)?;
    for item in dir::entries(dir).stepping("list", name)? {
        if item.name != LOCK {
            let removed = tree::remove::remove_tree(dir, &item.name).stepping("remove", &item.name)?;
            if !removed.is_complete() {
                return Ok(false);
            }
        }
    }
    unlink(dir, LOCK)?;
    match node::rmdir_at(above, name) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno, Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error).stepping("remove", name),
    }
}

fn unlink(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    match node::unlink_at(dir, name) {
        Err(error) if !error.is_not_found() => Err(error).stepping("remove", name),
        _ => Ok(()),
    }
}
