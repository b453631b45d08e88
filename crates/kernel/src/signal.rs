//! Signals as data: block them, read them from a descriptor.
//!
//! Rests on signalfd(2). Invariant: what was blocked for the supervisor is unblocked for a program
//! before it is executed ([`unblock_all`]), with every handler back at its default.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::process::last;

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain data; sigemptyset and sigaddset write only to it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks `signals` in this thread and returns a descriptor that reads them (non-blocking).
pub fn block_and_watch(signals: &[i32]) -> Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: `set` is initialised and outlives both calls; the old mask is not asked for.
    let fd = unsafe {
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(last("sigprocmask", ""));
        }
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(last("signalfd", ""));
    }
    // SAFETY: signalfd returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Which signals this thread blocked at one moment; dropped, it blocks those again and no others.
#[derive(Debug)]
pub struct Mask(libc::sigset_t);

/// The present mask, to come back to.
pub fn mask() -> Result<Mask> {
    // SAFETY: sigset_t is plain data; without a new set the call only writes the old one, which outlives it.
    unsafe {
        let mut now: libc::sigset_t = std::mem::zeroed();
        match libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now) {
            0 => Ok(Mask(now)),
            _ => Err(last("sigprocmask", "")),
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the kernel; the old mask is not asked for. It cannot fail with these.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Blocks every signal that can be blocked.
pub fn block_all() -> Result<()> {
    // SAFETY: sigset_t is plain data, filled by sigfillset; the old mask is not asked for.
    let answer = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(last("sigprocmask", "")) }
}

/// The next waiting signal, and the id of its sender (0 where the kernel sent it); `None` where there is none.
pub fn next(watch: &OwnedFd) -> Result<Option<(i32, u32)>> {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(watch, &mut buffer) {
        Ok(n) if n == buffer.len() => {
            // SAFETY: the kernel wrote one whole signalfd_siginfo, which is plain data; the buffer has
            // its size and read_unaligned needs no alignment.
            let info: libc::signalfd_siginfo = unsafe { std::ptr::read_unaligned(buffer.as_ptr().cast()) };
            Ok(Some((info.ssi_signo as i32, info.ssi_pid)))
        }
        Ok(_) => Ok(None),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(Error::new("read", format!("signalfd {}", watch.as_raw_fd()), errno)),
    }
}

/// Unblocks every signal and puts the handlers that Rust's runtime changed back to their default.
pub fn unblock_all() -> Result<()> {
    let set = set_of(&[]);
    // SAFETY: `set` is initialised; SIG_DFL is a valid disposition for every signal named here.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(last("sigprocmask", ""));
        }
    }
    Ok(())
}

/// Sends SIGTSTP to this process (to its whole process group with `group`) and lets it act, though it is blocked.
/// Returns when the process goes on: at once where the kernel does not stop it, because nobody of its session
/// could continue it.
pub fn suspend(group: bool) -> Result<()> {
    let set = set_of(&[libc::SIGTSTP]);
    let whom = if group { 0 } else { std::process::id() as i32 };
    // SAFETY: `set` is initialised and outlives the calls, which read it; kill takes numbers by value. Nothing of
    // ours runs in a handler: the disposition of SIGTSTP is the default or to ignore it.
    unsafe {
        if libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(last("sigprocmask", ""));
        }
        let sent = libc::kill(whom, libc::SIGTSTP);
        let told = if sent == 0 { Ok(()) } else { Err(last("kill", "SIGTSTP")) };
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(last("sigprocmask", ""));
        }
        told
    }
}

/// Ignores a signal from now on.
pub fn ignore(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition; no handler of ours is replaced.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Puts a signal back to its default disposition.
pub fn default(signal: i32) {
    // SAFETY: SIG_DFL is a valid disposition for every signal that can be caught.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
