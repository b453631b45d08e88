//! What is waited for: descriptors under keys, by epoll(7), told of once for each change.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kernel::{Errno, Error};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Descriptors that are waited for.
#[derive(Debug)]
pub(crate) struct Reactor {
    epoll: OwnedFd,
    next: u64,
}

impl Reactor {
    pub(crate) fn new() -> kernel::Result<Reactor> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::new("epoll_create1", "", errno))?;
        Ok(Reactor { epoll, next: 1 })
    }

    /// A key that nobody has.
    pub(crate) fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Waits for a descriptor as long as there is something to be read.
    pub(crate) fn watch_level(&self, key: u64, fd: impl AsFd) -> kernel::Result<()> {
        self.add(key, fd, EventFlags::IN)
    }

    /// Waits for each change of a descriptor. What is closed is forgotten by itself.
    pub(crate) fn watch(&self, key: u64, fd: impl AsFd) -> kernel::Result<()> {
        self.add(key, fd, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET)
    }

    fn add(&self, key: u64, fd: impl AsFd, flags: EventFlags) -> kernel::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key), flags)
            .map_err(|errno| Error::new("epoll_ctl", "EPOLL_CTL_ADD", errno))
    }

    /// Gives a descriptor another key, and waits for each change of it.
    pub(crate) fn rekey(&self, key: u64, fd: impl AsFd) -> kernel::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::modify(&self.epoll, fd, EventData::new_u64(key), flags)
            .map_err(|errno| Error::new("epoll_ctl", "EPOLL_CTL_MOD", errno))
    }

    /// Forgets a descriptor that goes on elsewhere.
    pub(crate) fn forget(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// The keys of what has changed, after `patience` at the latest.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> kernel::Result<Vec<u64>> {
        let mut space = [const { MaybeUninit::uninit() }; 256];
        let patience = patience
            .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        match epoll::wait(&self.epoll, &mut space, patience.as_ref()) {
            Ok((found, _)) => Ok(found.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(errno) => Err(Error::new("epoll_wait", "", errno)),
        }
    }
}
