//! Exclusive and shared locks on lock files, by flock(2).
//!
//! Invariant: who holds a [`Lock`] holds the file that the name means now: a file that was unlinked or
//! replaced between opening and locking does not count. The lock ends with the descriptor, so also with
//! the process; the descriptor is not inherited over exec.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Asked, Error, Result};
use crate::meta;
use crate::open::retry;

/// A held lock; dropping it lets go. The file stays.
#[derive(Debug)]
pub struct Lock {
    fd: OwnedFd,
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Takes the lock file `name` in `dir` (made with mode 0600 where it is missing), or `None` where
/// somebody else holds it. Writes our pid into it.
pub fn try_exclusive(dir: impl AsFd, name: &[u8]) -> Result<Option<Lock>> {
    let lock = try_lock(dir.as_fd(), name, FlockOperation::NonBlockingLockExclusive)?;
    if let Some(lock) = &lock {
        write_pid(&lock.fd)?;
    }
    Ok(lock)
}

/// As [`try_exclusive`], but shared: any number may hold it so, and none while somebody holds it exclusively.
pub fn try_shared(dir: impl AsFd, name: &[u8]) -> Result<Option<Lock>> {
    try_lock(dir.as_fd(), name, FlockOperation::NonBlockingLockShared)
}

/// Waits for the lock in common with others, at most for `deadline`; then `ETIMEDOUT`.
pub fn shared_blocking(dir: impl AsFd, name: &[u8], deadline: Duration) -> Result<Lock> {
    let dir = dir.as_fd();
    waiting(name, deadline, || try_shared(dir, name))
}

/// Takes the whole of an open file for this descriptor, waiting for whoever has it, at most for `deadline`.
/// The lock ends with the last copy of the descriptor.
pub fn hold_file(fd: impl AsFd, deadline: Duration) -> Result<()> {
    let fd = fd.as_fd();
    waiting(b"", deadline, || {
        match retry(|| rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(Some(())),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno).asked("flock", b""),
        }
    })
}

fn try_lock(dir: BorrowedFd<'_>, name: &[u8], operation: FlockOperation) -> Result<Option<Lock>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    loop {
        let fd =
            retry(|| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)).asked("openat", name)?;
        match retry(|| rustix::fs::flock(&fd, operation)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno).asked("flock", name),
        }
        // The holder before us may have removed the file after we opened it: then we hold a lock on nothing.
        let ours = meta::stat_fd(&fd)?.identity();
        match meta::stat_at_if_there(dir, name)? {
            Some(stat) if stat.identity() == ours => return Ok(Some(Lock { fd })),
            _ => {}
        }
    }
}

/// Waits for the lock, at most for `deadline`; then `ETIMEDOUT`.
pub fn exclusive_blocking(dir: impl AsFd, name: &[u8], deadline: Duration) -> Result<Lock> {
    let dir = dir.as_fd();
    waiting(name, deadline, || try_exclusive(dir, name))
}

fn waiting<T>(name: &[u8], deadline: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(got) = ask()? {
            return Ok(got);
        }
        let Some(left) = deadline.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
            return Err(Error::new("flock", name, Errno::TIMEDOUT));
        };
        // flock(2) has no deadline of its own, so we ask again at growing distances.
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The pid of the last holder as written in the lock file; it is the present holder only while
/// [`try_exclusive`] answers `None`.
pub fn holder_pid(dir: impl AsFd, name: &[u8]) -> Result<Option<i32>> {
    let fd = match crate::open::file_beneath(dir, name) {
        Ok(fd) => fd,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; 16];
    let len = crate::bytes::read_full_at(&fd, &mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..len]).unwrap_or_default();
    Ok(text.trim().parse().ok())
}

fn write_pid(fd: &OwnedFd) -> Result<()> {
    // Fixed width, so that a shorter pid needs no truncation and a reader never sees two mixed.
    let pid = rustix::process::getpid().as_raw_nonzero();
    crate::bytes::write_all_at(fd, format!("{pid:<11}\n").as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = crate::open::root_dir(dir.path()).expect("open");
        (dir, fd)
    }

    #[test]
    fn a_held_lock_is_refused_until_it_is_dropped_and_names_its_holder() {
        let (_keep, fd) = dir();
        assert_eq!(holder_pid(&fd, b"lock").expect("read"), None);
        let lock = try_exclusive(&fd, b"lock").expect("lock").expect("free");
        assert!(try_exclusive(&fd, b"lock").expect("lock").is_none());
        assert_eq!(holder_pid(&fd, b"lock").expect("read"), Some(std::process::id() as i32));
        drop(lock);
        assert!(try_exclusive(&fd, b"lock").expect("lock").is_some());
    }

    #[test]
    fn a_lock_on_an_unlinked_file_does_not_hold_the_name() {
        let (keep, fd) = dir();
        let old = try_exclusive(&fd, b"lock").expect("lock").expect("free");
        std::fs::remove_file(keep.path().join("lock")).expect("unlink");
        let new = try_exclusive(&fd, b"lock").expect("lock").expect("free under this name");
        drop(old);
        assert!(try_exclusive(&fd, b"lock").expect("lock").is_none());
        drop(new);
    }

    #[test]
    fn waiting_ends_at_the_deadline_or_when_the_holder_lets_go() {
        let (_keep, fd) = dir();
        let held = try_exclusive(&fd, b"lock").expect("lock").expect("free");
        let error = exclusive_blocking(&fd, b"lock", Duration::from_millis(5)).expect_err("held");
        assert_eq!(error.errno, Errno::TIMEDOUT);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| exclusive_blocking(&fd, b"lock", Duration::from_secs(20)).map(drop));
            drop(held);
            waiting.join().expect("thread").expect("lock");
        });
    }

    #[test]
    fn many_hold_a_shared_lock_and_nobody_an_exclusive_one_beside_them() {
        let (_keep, fd) = dir();
        let one = try_shared(&fd, b"lock").expect("lock").expect("free");
        let two = shared_blocking(&fd, b"lock", Duration::from_secs(20)).expect("free");
        assert!(try_exclusive(&fd, b"lock").expect("lock").is_none());
        drop((one, two));
        let alone = try_exclusive(&fd, b"lock").expect("lock").expect("free");
        assert!(try_shared(&fd, b"lock").expect("lock").is_none());
        hold_file(&alone, Duration::ZERO).expect("a holder may ask again");
    }

    #[test]
    fn a_link_or_fifo_in_place_of_the_lock_file_is_refused() {
        let (_keep, fd) = dir();
        crate::node::symlink_at(b"elsewhere", &fd, b"lock").expect("symlink");
        assert_eq!(try_exclusive(&fd, b"lock").expect_err("refused").errno, Errno::LOOP);
    }
}
