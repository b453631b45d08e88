//! Processes: fork and clone3, exec, waiting, signals by pidfd. Owns the rule that a process forks
//! only while it has one thread: what a forked child may do is then not restricted.
//!
//! Rests on clone(2), pidfd_open(2), waitid(2), prctl(2).

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::error::{Asked as _, Error, Result};

/// Of linux/sched.h; the constant of libc is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Namespaces to create or join, as clone flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(pub i32);

impl Namespaces {
    /// User namespace.
    pub const USER: Namespaces = Namespaces(libc::CLONE_NEWUSER);
    /// Mount namespace.
    pub const MOUNT: Namespaces = Namespaces(libc::CLONE_NEWNS);
    /// Process ids.
    pub const PID: Namespaces = Namespaces(libc::CLONE_NEWPID);
    /// System V IPC and POSIX queues.
    pub const IPC: Namespaces = Namespaces(libc::CLONE_NEWIPC);
    /// Host name.
    pub const UTS: Namespaces = Namespaces(libc::CLONE_NEWUTS);
    /// Root of the control group tree.
    pub const CGROUP: Namespaces = Namespaces(libc::CLONE_NEWCGROUP);
    /// Network.
    pub const NET: Namespaces = Namespaces(libc::CLONE_NEWNET);

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 | other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn only(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 & other.0)
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub const fn without(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 & !other.0)
    }

    /// True where all of `other` is in this set.
    pub const fn has(self, other: Namespaces) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    /// The old process; the child's id and a descriptor of it.
    Parent(Child),
    /// The new process.
    Child,
}

/// A child process of ours.
#[derive(Debug)]
pub struct Child {
    /// Its id in our pid namespace.
    pub pid: Pid,
    /// A descriptor that stays right even when the id is used again.
    pub pidfd: OwnedFd,
}

/// How a child ended or changed its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It called exit with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// This signal stopped it.
    Stopped(i32),
    /// It goes on.
    Continued,
}

/// Set in a child of [`fork_into`]: it began with one thread.
static BORN_ALONE: AtomicBool = AtomicBool::new(false);

/// True where this process has exactly one thread.
pub fn is_single_threaded() -> bool {
    // /proc/self/task has one subdirectory a thread; its link count is 2 + threads (proc(5)). In another
    // pid namespace's /proc there is no entry for us: then only a child of ours knows how it began.
    match rustix::fs::stat("/proc/self/task") {
        Ok(stat) => stat.st_nlink == 3,
        Err(_) => BORN_ALONE.load(Ordering::Relaxed),
    }
}

/// Forks, with new namespaces for the child. Refused (`EBUSY`) while a second thread runs.
pub fn fork_into(namespaces: Namespaces) -> Result<Forked> {
    fork_there(namespaces, None)
}

/// As [`fork_into`], with the child born in a control group: moving it there later takes the kernel ten milliseconds.
/// Where the group does not take it, it is born in ours.
pub fn fork_into_group(namespaces: Namespaces, group: &crate::cgroup::Cgroup) -> Result<Forked> {
    match fork_there(namespaces, Some(group)) {
        Err(error) if error.errno != Errno::BUSY || is_single_threaded() => fork_there(namespaces, None),
        forked => forked,
    }
}

fn fork_there(namespaces: Namespaces, group: Option<&crate::cgroup::Cgroup>) -> Result<Forked> {
    if !is_single_threaded() {
        return Err(Error::new("clone3", "a second thread is running", Errno::BUSY));
    }
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain data for which all-zero is valid (clone(2): unused fields are 0).
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (namespaces.0 as u32 as u64) | libc::CLONE_PIDFD as u64;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(group) = group {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = group.as_fd().as_raw_fd() as u64;
    }
    // SAFETY: `args` outlives the call and has its true size; no stack and no CLONE_VM, so the child
    // runs on a copy of this stack as after fork(2); the process has one thread (checked above), so no
    // lock is held by a thread that the child lacks.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        0 => {
            BORN_ALONE.store(true, Ordering::Relaxed);
            Ok(Forked::Child)
        }
        pid if pid > 0 => {
            // SAFETY: CLONE_PIDFD made the kernel store a new descriptor that nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = Pid::from_raw(pid as i32).ok_or_else(|| Error::new("clone3", "", Errno::SRCH))?;
            Ok(Forked::Parent(Child { pid, pidfd }))
        }
        _ => Err(last("clone3", format!("flags {:#x}", namespaces.0))),
    }
}

/// Forks without new namespaces.
pub fn fork() -> Result<Forked> {
    fork_into(Namespaces::default())
}

/// Starts a child that borrows this process's memory and stands in for it: the caller sleeps until the child has
/// executed a program or ended (vfork(2)), so nothing is copied. `body` gives the exit code where it does not
/// execute. What it allocates and does not free stays with the caller.
pub fn fork_until_exec(body: &mut dyn FnMut() -> i32) -> Result<Pid> {
    extern "C" fn begin(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `body` is the pointer made below, to a reference that lives until the clone call returns,
        // and the caller sleeps as long as this runs.
        let body = unsafe { &mut *body.cast::<&mut dyn FnMut() -> i32>() };
        body()
    }
    const STACK: usize = 256 << 10;
    if !is_single_threaded() {
        return Err(Error::new("clone", "a second thread is running", Errno::BUSY));
    }
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing of ours; it grows
    // into no neighbour, because its lowest page is shut right after.
    let stack = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        libc::mmap(std::ptr::null_mut(), STACK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if stack == libc::MAP_FAILED {
        return Err(last("mmap", "a stack"));
    }
    let mut body = body;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is ours alone, its end is aligned to a page and its first page is a guard; `body`
    // outlives the child's use of this memory, since CLONE_VFORK suspends this (only) thread until the child
    // has called execve or _exit (clone(2)); the mapping is removed only after that.
    let (pid, failed) = unsafe {
        libc::mprotect(stack, 4096, libc::PROT_NONE);
        let pid = libc::clone(begin, stack.byte_add(STACK), flags, (&raw mut body).cast());
        // Only a failure leaves an errno to be read.
        let failed = (pid < 0).then(|| last("clone", format!("flags {flags:#x}")));
        libc::munmap(stack, STACK);
        (pid, failed)
    };
    match (failed, Pid::from_raw(pid)) {
        (None, Some(pid)) => Ok(pid),
        (Some(error), _) => Err(error),
        (None, None) => Err(Error::new("clone", "", Errno::SRCH)),
    }
}

/// Joins the namespace behind `fd`, which must be of kind `namespace`.
pub fn join_namespace(fd: impl AsFd, namespace: Namespaces) -> Result<()> {
    // SAFETY: setns(2) takes a descriptor and flags by value and touches no memory.
    let answer = unsafe { libc::setns(fd.as_fd().as_raw_fd(), namespace.0) };
    if answer == 0 { Ok(()) } else { Err(last("setns", format!("{:#x}", namespace.0))) }
}

/// Puts this process into new namespaces (not the user's threads: one thread only).
pub fn unshare(namespaces: Namespaces) -> Result<()> {
    if !is_single_threaded() {
        return Err(Error::new("unshare", "a second thread is running", Errno::BUSY));
    }
    // SAFETY: unshare(2) takes flags by value; with one thread no other thread's view is split off.
    let answer = unsafe { libc::unshare(namespaces.0) };
    if answer == 0 { Ok(()) } else { Err(last("unshare", format!("{:#x}", namespaces.0))) }
}

/// Replaces this program. Returns only on failure. `path` is used as it is, without a search.
pub fn exec(path: &CString, argv: &[CString], envp: &[CString]) -> Error {
    let pointers = |list: &[CString]| {
        list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<*const libc::c_char>>()
    };
    let (argv, envp) = (pointers(argv), pointers(envp));
    // SAFETY: path and every pointer name NUL-terminated strings that live until after the call; both
    // arrays end with a null pointer (execve(2)).
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    last("execve", path.as_bytes())
}

/// Ends this process at once: no destructors, no exit handlers. For children after a fork.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit(2) takes a value and does not return.
    unsafe { libc::_exit(code) }
}

/// Which children to ask about.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Any child.
    Any,
    /// The child behind a pidfd.
    Pidfd(rustix::fd::BorrowedFd<'a>),
}

/// Waits for a change of a child's state; `None` where `block` is false and nothing has changed.
/// With `stops`, stopping and going on are reported too. `ECHILD` where there is no child.
pub fn wait(which: Which<'_>, block: bool, stops: bool) -> Result<Option<(i32, Status)>> {
    let (kind, id) = match which {
        Which::Any => (libc::P_ALL, 0),
        Which::Pidfd(fd) => (libc::P_PIDFD, fd.as_raw_fd() as u32),
    };
    let mut options = libc::WEXITED;
    if !block {
        options |= libc::WNOHANG;
    }
    if stops {
        options |= libc::WSTOPPED | libc::WCONTINUED;
    }
    // SAFETY: siginfo_t is plain data; all-zero is the documented start value for WNOHANG (waitid(2)).
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` outlives the call and is written only by the kernel.
    while unsafe { libc::waitid(kind, id, &raw mut info, options) } != 0 {
        let error = last("waitid", "");
        if error.errno != Errno::INTR {
            return Err(error);
        }
    }
    // SAFETY: the kernel filled the SIGCHLD fields, or left all zero where nothing had changed.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    let status = match info.si_code {
        libc::CLD_EXITED => Status::Exited(status),
        libc::CLD_STOPPED | libc::CLD_TRAPPED => Status::Stopped(status),
        libc::CLD_CONTINUED => Status::Continued,
        _ => Status::Killed(status),
    };
    Ok(Some((pid, status)))
}

/// Sends a signal (by number) to one process (`pid` > 0), a group (`pid` < -1) or everyone one may signal (-1).
pub fn kill(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: kill(2) takes two values.
    let answer = unsafe { libc::kill(pid, signal) };
    if answer == 0 { Ok(()) } else { Err(last("kill", format!("{pid}, {signal}"))) }
}

/// Sends a signal to the process behind a pidfd.
pub fn kill_pidfd(pidfd: impl AsFd, signal: Signal) -> Result<()> {
    rustix::process::pidfd_send_signal(pidfd, signal).asked("pidfd_send_signal", "")
}

/// Asks for SIGKILL when the parent ends (prctl(2), PR_SET_PDEATHSIG).
pub fn die_with_parent() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).asked("prctl", "PR_SET_PDEATHSIG")
}

/// The error in `errno`, as this thread's last call left it.
pub(crate) fn last(call: &'static str, args: impl AsRef<[u8]>) -> Error {
    Error::from_io(call, args, &std::io::Error::last_os_error())
}

/// Lets go of the caller in a child that goes on by itself: a session of its own, no directory that anybody
/// wants to unmount, and none of the caller's streams.
pub fn go_alone() {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    if let Ok(null) = crate::open::null() {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Marks every descriptor from `first` up close-on-exec: nothing that our caller left open gets further.
pub fn close_on_exec_from(first: u32) -> Result<()> {
    // SAFETY: close_range(2) takes three values; CLOSE_RANGE_CLOEXEC closes nothing in this process.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if answer == 0 { Ok(()) } else { Err(last("close_range", format!("{first}"))) }
}

/// Closes every descriptor from 3 up but those in `keep`. For a child after a fork that holds no
/// other owned descriptor it still means to use.
pub fn close_others(keep: &[std::os::fd::BorrowedFd<'_>]) -> Result<()> {
    let mut keep: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).filter(|fd| *fd > 2).collect();
    keep.sort_unstable();
    let mut from = 3u32;
    for fd in keep.into_iter().chain([u32::MAX]) {
        if fd > from {
            let to = if fd == u32::MAX { u32::MAX } else { fd - 1 };
            // SAFETY: close_range(2) takes three values. The caller promises that it uses no other
            // descriptor from here on (a process that only goes on to its own loop).
            let answer = unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
            if answer != 0 {
                return Err(last("close_range", format!("{from}, {to}")));
            }
        }
        from = fd.saturating_add(1);
    }
    Ok(())
}
