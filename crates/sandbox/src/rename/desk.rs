//! The desk: for each listener the call that was last taken from it, so that a killed notifier's caller is
//! not left waiting for ever.
//!
//! A call that was received is not received again, and only its id answers it. So the notifier writes each
//! call into memory that its supervisor keeps before it looks at it; a later notifier finds it there.
//! What is left uncovered is a kill between the kernel's answer and that write; later ids are tried then.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::seccomp::Notification;
use kernel::{Error, Result};
use rustix::fs::MemfdFlags;

/// Words of one entry: id, thread, number, six arguments, device and inode of a source that was tried.
const WORDS: usize = 11;
const SIZE: usize = WORDS * 8;

/// Memory that outlives a notifier.
#[derive(Debug)]
pub(crate) struct Desk(OwnedFd);

/// What lies on the desk for one listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted {
    /// The call.
    pub(crate) call: Notification,
    /// Device and inode of the source, where the kernel was asked to rename it.
    pub(crate) tried: Option<(u64, u64)>,
}

impl Desk {
    /// An empty desk.
    pub(crate) fn new() -> Result<Desk> {
        let fd = rustix::fs::memfd_create("rename-calls", MemfdFlags::CLOEXEC)
            .map_err(|errno| Error::new("memfd_create", "", errno))?;
        Ok(Desk(fd))
    }

    /// The same memory, through a descriptor of its own.
    pub(crate) fn share(&self) -> Result<Desk> {
        self.0.try_clone().map(Desk).map_err(|error| Error::from_io("dup", "", &error))
    }

    /// Writes down a call as soon as it was received.
    pub(crate) fn note(&self, slot: u32, call: &Notification) {
        self.put(slot, call, (0, 0));
    }

    /// Writes down that the kernel is asked now to rename this inode.
    pub(crate) fn tried(&self, slot: u32, call: &Notification, inode: (u64, u64)) {
        self.put(slot, call, inode);
    }

    fn put(&self, slot: u32, call: &Notification, tried: (u64, u64)) {
        let mut words = [0u64; WORDS];
        words[..3].copy_from_slice(&[call.id, u64::from(call.tid), call.call as u64]);
        words[3..9].copy_from_slice(&call.args);
        words[9..].copy_from_slice(&[tried.0, tried.1]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // Memory: there is nothing to do about a failure, and a caller's call goes on all the same.
        let _ = rustix::io::pwrite(&self.0, &bytes, u64::from(slot) * SIZE as u64);
    }

    /// What lies there; `None` where no call was ever received.
    pub(crate) fn read(&self, slot: u32) -> Option<Noted> {
        let mut bytes = [0u8; SIZE];
        let n = rustix::io::pread(&self.0, &mut bytes, u64::from(slot) * SIZE as u64).ok()?;
        let mut words = [0u64; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = chunk.try_into().map_or(0, u64::from_le_bytes);
        }
        if n < SIZE || words[0] == 0 {
            return None;
        }
        let mut args = [0; 6];
        args.copy_from_slice(&words[3..9]);
        let call = Notification { id: words[0], tid: words[1] as u32, call: words[2] as i64, args };
        let tried = (words[10] != 0).then_some((words[9], words[10]));
        Some(Noted { call, tried })
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_back_through_another_descriptor_and_an_empty_place_is_none() {
        let desk = Desk::new().expect("a desk");
        assert!(desk.read(0).is_none());
        let call = Notification { id: 7, tid: 8, call: 82, args: [1, 2, 3, 4, 5, u64::MAX] };
        desk.note(2, &call);
        let other = desk.share().expect("shared");
        assert!(other.read(0).is_none() && other.read(1).is_none());
        let noted = other.read(2).expect("noted");
        assert_eq!((noted.call.id, noted.call.tid, noted.call.args, noted.tried), (7, 8, call.args, None));
        desk.tried(2, &call, (9, 10));
        assert_eq!(other.read(2).expect("noted").tried, Some((9, 10)));
    }
}
