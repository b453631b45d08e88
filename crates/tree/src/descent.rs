//! [`Descent`]: the chain of open directories of a walk, with a bound on descriptors.
//!
//! Invariant: at most [`HELD`] descriptors are open however deep the tree is, and the directory that one comes
//! back to is the one that was left: a parent that was let go is opened again as `..` and must have the
//! same device and inode.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Errno, Error, Result, meta, open};
use rustix::fs::{Mode, OFlags};

/// Descriptors held at once. Small against the usual limit of 1024, deeper than nearly every tree.
const HELD: usize = 48;

enum Held {
    Open(OwnedFd),
    LetGo { dev: u64, ino: u64 },
}

/// A stack of directories, the deepest of which are open.
pub(crate) struct Descent {
    chain: Vec<Held>,
}

impl Descent {
    pub(crate) fn new(root: OwnedFd) -> Descent {
        Descent { chain: vec![Held::Open(root)] }
    }

    /// The deepest directory.
    pub(crate) fn here(&self) -> Result<BorrowedFd<'_>> {
        match self.chain.last() {
            Some(Held::Open(fd)) => Ok(fd.as_fd()),
            _ => Err(Error::new("walk", b"", Errno::BADF)),
        }
    }

    /// Goes one down.
    pub(crate) fn enter(&mut self, dir: OwnedFd) -> Result<()> {
        if let Some(far) = self.chain.len().checked_sub(HELD)
            && let Some(Held::Open(fd)) = self.chain.get(far)
        {
            let stat = meta::stat_fd(fd)?;
            self.chain[far] = Held::LetGo { dev: stat.dev, ino: stat.ino };
        }
        self.chain.push(Held::Open(dir));
        Ok(())
    }

    /// Goes one up; false where that was the root. The directory that is left is handed back.
    pub(crate) fn leave(&mut self) -> Result<Option<OwnedFd>> {
        let Some(Held::Open(left)) = self.chain.pop() else { return Ok(None) };
        if let Some(Held::LetGo { dev, ino }) = self.chain.last() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let parent = rustix::fs::openat(&left, "..", flags, Mode::empty())
                .map_err(|errno| Error::new("openat", b"..", errno))?;
            if meta::stat_fd(&parent)?.identity() != (*dev, *ino) {
                // Somebody moved the directory while we were below it.
                return Err(Error::new("openat", b"..", Errno::STALE));
            }
            let last = self.chain.len() - 1;
            self.chain[last] = Held::Open(parent);
        }
        Ok(Some(left))
    }
}

/// The directory `name` in `dir`, for reading; `EXDEV` where it is the root of another mount and `cross` is not set.
pub(crate) fn open_child(dir: BorrowedFd<'_>, name: &[u8], cross: bool) -> Result<OwnedFd> {
    if cross { open::dir_beneath(dir, name) } else { open::dir_beneath_same_mount(dir, name) }
}
