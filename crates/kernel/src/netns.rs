//! A network namespace that is made beside other work.
//!
//! Making one takes the kernel about as long as a dozen mounts, most of it spent waiting for its own locks. A second
//! process makes it, on this process's memory, and is gone as soon as it has opened it.
//!
//! Rests on clone(2), unshare(2), setns(2), namespaces(7).

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Asked as _, Error, Result};
use crate::netif;
use crate::process::{self, Namespaces, last};

const STACK: usize = 64 << 10;
/// No answer yet.
const NONE: i32 = i32::MIN;

/// A namespace in the making.
#[derive(Debug)]
pub struct Making {
    pid: libc::pid_t,
    stack: *mut libc::c_void,
    /// The descriptor, or the negated errno; written by the other process.
    answer: Box<AtomicI32>,
}

/// Begins to make a network namespace with its loopback interface up. The caller must have the right to, and may go
/// on meanwhile, but has to call [`Making::join`] before it waits for children of any kind.
pub fn begin() -> Result<Making> {
    extern "C" fn make(answer: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `answer` is the pointer made below, to an atomic that lives until `join` has seen this process
        // end.
        let answer = unsafe { &*answer.cast::<AtomicI32>() };
        answer.store(made(), Ordering::Release);
        0
    }
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing of ours.
    let stack = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        libc::mmap(std::ptr::null_mut(), STACK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if stack == libc::MAP_FAILED {
        return Err(last("mmap", "a stack"));
    }
    let answer = Box::new(AtomicI32::new(NONE));
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: the stack is used by the child alone until `join` unmaps it after its end, and its end is aligned to a
    // page; `answer` stays where it is. The child shares this memory while we go on: it runs `made`, which only
    // makes system calls by rustix (no C library, so neither errno nor the allocator is touched) on its own stack.
    let pid = unsafe {
        let answer = std::ptr::from_ref::<AtomicI32>(&answer).cast_mut().cast();
        libc::clone(make, stack.byte_add(STACK), flags, answer)
    };
    if pid < 0 {
        let error = last("clone", format!("flags {flags:#x}"));
        // SAFETY: nobody uses the mapping.
        unsafe { libc::munmap(stack, STACK) };
        return Err(error);
    }
    Ok(Making { pid, stack, answer })
}

/// What the other process does: the descriptor, or the negated errno. Allocates nothing.
fn made() -> i32 {
    // SAFETY: this process has one thread, and takes only itself out of a namespace.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
    let open = || {
        rustix::fs::open(c"/proc/self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map(rustix::fd::IntoRawFd::into_raw_fd)
    };
    match unshared.and_then(|()| netif::raise_loopback()).and_then(|()| open()) {
        Ok(fd) => fd,
        Err(errno) => -errno.raw_os_error(),
    }
}

impl Making {
    /// Waits until it is made and moves this process into it.
    pub fn join(self) -> Result<()> {
        let mut status = 0;
        // SAFETY: waitpid writes one int that outlives the call.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0 {
            let error = last("waitpid", "");
            if error.errno != Errno::INTR {
                // It may still run: its stack and its answer stay.
                std::mem::forget(self);
                return Err(error);
            }
        }
        // SAFETY: the process that used the mapping has ended.
        unsafe { libc::munmap(self.stack, STACK) };
        match self.answer.load(Ordering::Acquire) {
            NONE => Err(Error::new("unshare", "CLONE_NEWNET", Errno::SRCH)),
            negated if negated < 0 => {
                Err(Errno::from_raw_os_error(-negated)).asked("unshare", "CLONE_NEWNET, lo")
            }
            fd => {
                // SAFETY: the other process opened it in our common table and left it to us.
                let namespace = unsafe { OwnedFd::from_raw_fd(fd) };
                process::join_namespace(&namespace, Namespaces::NET)
            }
        }
    }
}
