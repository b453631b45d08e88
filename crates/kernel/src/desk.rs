//! The desk: memory in which notified calls are received, so that they outlive whoever received them.
//!
//! A call that was received is not received again, and only its id answers it. The kernel writes each call
//! straight into memory that a parent shares with the processes it forks (`MAP_SHARED`, mmap(2)): a receiver that
//! is killed at any moment either has not taken a call or has left it here. Invariant: a place whose id is 0 holds no
//! call; it is emptied before the kernel is asked for the next one, as SECCOMP_IOCTL_NOTIF_RECV wants it
//! (seccomp_unotify(2)).

use std::os::fd::{AsFd, AsRawFd as _};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::process::last;
use crate::seccomp::{Notification, received};
use rustix::io::Errno;

/// Words of 8 bytes of one place: what the kernel writes, then what its receiver adds.
const WORDS: usize = 16;
const SIZE: usize = WORDS * 8;
/// Where the receiver's own words begin.
const OWN: usize = size_of::<libc::seccomp_notif>() / 8;
const _: () = assert!(OWN + 2 <= WORDS && align_of::<libc::seccomp_notif>() <= 8);

/// Places for calls, shared with every process that is forked from now on.
#[derive(Debug)]
pub struct Desk {
    start: NonNull<AtomicU64>,
    places: u32,
}

/// What lies on the desk in one place.
#[derive(Debug, Clone, Copy)]
pub struct Noted {
    /// The call.
    pub call: Notification,
    /// The two words that its receiver added, where it did.
    pub mark: Option<(u64, u64)>,
}

impl Desk {
    /// An empty desk. Places cost memory when they are used.
    pub fn new(places: u32) -> Result<Desk> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let length = places as usize * SIZE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        match NonNull::new(start.cast::<AtomicU64>()) {
            Some(at) if start != libc::MAP_FAILED => Ok(Desk { start: at, places }),
            _ => Err(last("mmap", "a desk of calls")),
        }
    }

    /// How many places there are.
    pub fn places(&self) -> u32 {
        self.places
    }

    fn words(&self, place: u32) -> Result<&[AtomicU64]> {
        if place >= self.places {
            return Err(Error::new("desk", format!("place {place}"), Errno::RANGE));
        }
        // SAFETY: the mapping is live as long as `self` and holds `places` times WORDS words, each of them
        // aligned and valid in any state; every access of ours is atomic, as other processes share it.
        Ok(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(place as usize * WORDS), WORDS) })
    }

    /// Takes away what lies there.
    pub fn clear(&self, place: u32) -> Result<()> {
        for word in self.words(place)? {
            word.store(0, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Receives the next call of `listener` into a place; `None` where the caller is gone already.
    pub fn receive(&self, place: u32, listener: impl AsFd) -> Result<Option<Notification>> {
        self.clear(place)?;
        let words = self.words(place)?;
        let raw = words.as_ptr().cast_mut().cast::<libc::seccomp_notif>();
        // SAFETY: `raw` lies in the mapping, is aligned, zeroed, and followed by at least the size that the
        // request number encodes; the words are atomics, so the kernel may write them.
        let answer = unsafe {
            libc::ioctl(listener.as_fd().as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as libc::c_ulong, raw)
        };
        if answer != 0 {
            let error = last("ioctl", "SECCOMP_IOCTL_NOTIF_RECV");
            return if matches!(error.errno, Errno::INTR | Errno::NOENT) { Ok(None) } else { Err(error) };
        }
        Ok(self.read(place)?.map(|noted| noted.call))
    }

    /// Adds two words, of which the second is not 0, to the call that lies there.
    pub fn mark(&self, place: u32, mark: (u64, u64)) -> Result<()> {
        let words = self.words(place)?;
        words[OWN].store(mark.0, Ordering::SeqCst);
        // The second one is what a reader goes by.
        words[OWN + 1].store(mark.1, Ordering::SeqCst);
        Ok(())
    }

    /// What lies there; `None` where no call was received since it was cleared.
    pub fn read(&self, place: u32) -> Result<Option<Noted>> {
        let words = self.words(place)?;
        let mut copy = [0u64; WORDS];
        for (to, from) in copy.iter_mut().zip(words) {
            *to = from.load(Ordering::SeqCst);
        }
        if copy[0] == 0 {
            return Ok(None);
        }
        // SAFETY: the copy is longer than a seccomp_notif and aligned for it, which is plain data.
        let raw = unsafe { copy.as_ptr().cast::<libc::seccomp_notif>().read() };
        let mark = (copy[OWN + 1] != 0).then_some((copy[OWN], copy[OWN + 1]));
        Ok(Some(Noted { call: received(&raw), mark }))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.places as usize * SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::Desk;
    use crate::privilege;
    use crate::seccomp::{Answer, Filter, Reply, Rule, When, reply, still_waits};

    #[test]
    fn a_call_lies_where_it_was_received_until_the_next_one_or_the_end() {
        let desk = Desk::new(4).expect("a desk");
        assert!(desk.read(2).expect("a place").is_none());
        let (tell, hear) = mpsc::channel();
        // A filter stands on the thread that installs it, and ends with it.
        let caller = std::thread::spawn(move || {
            privilege::no_new_privs().expect("no new privileges");
            let rule = Rule { call: libc::SYS_getpgid, when: When::Always, answer: Answer::Notify };
            let listener = Filter::compile(&[rule], Answer::Allow).install(true).expect("a filter");
            tell.send(listener.expect("a listener")).expect("heard");
            [7, 8].map(|pid| {
                rustix::process::getpgid(rustix::process::Pid::from_raw(pid))
                    .map(|group| group.as_raw_nonzero().get())
            })
        });
        let listener = hear.recv().expect("a listener");
        let call = desk.receive(2, &listener).expect("received").expect("a call");
        desk.mark(2, (5, 6)).expect("marked");
        let noted = desk.read(2).expect("a place").expect("a call");
        assert_eq!((noted.call.id, noted.call.tid, noted.mark), (call.id, call.tid, Some((5, 6))));
        assert_eq!((noted.call.call, noted.call.args[0]), (libc::SYS_getpgid, 7));
        assert!(still_waits(&listener, call.id));
        reply(&listener, call.id, Reply::Done(77)).expect("answered");
        let next = desk.receive(2, &listener).expect("received").expect("a call");
        let noted = desk.read(2).expect("a place").expect("a call");
        assert_eq!((next.args[0], noted.call.id, noted.mark), (8, next.id, None));
        reply(&listener, next.id, Reply::Done(78)).expect("answered");
        assert_eq!(caller.join().expect("it ended"), [Ok(77), Ok(78)]);
        desk.clear(2).expect("a place");
        assert!(desk.read(2).expect("a place").is_none());
        assert!(desk.read(4).is_err() && desk.read(0).expect("a place").is_none());
    }
}
