//! Seccomp: a table of system calls becomes a filter; calls that need a decision become notifications.
//!
//! Rests on seccomp(2) and seccomp_unotify(2). Invariants: another architecture or the x32 numbers never
//! reach the table; an answer other than CONTINUE is the only one a policy may rest on, because the
//! arguments behind pointers can change after they were read.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::process::last;

/// What the kernel does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It goes on.
    Allow,
    /// It fails with this errno.
    Errno(u16),
    /// The listener decides.
    Notify,
}

/// A condition on one argument (its low 32 bits, as the masks and commands tested here are).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// Some bit of `mask` is set in argument `arg`.
    AnyBit {
        /// Index of the argument, 0 to 5.
        arg: u8,
        /// Bits.
        mask: u32,
    },
    /// Argument `arg` equals `value`.
    Equals {
        /// Index of the argument, 0 to 5.
        arg: u8,
        /// Value.
        value: u32,
    },
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Number of the system call.
    pub call: i64,
    /// Condition on its arguments.
    pub when: When,
    /// Answer where the condition holds.
    pub answer: Answer,
}

const LD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JEQ: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JGE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JSET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RET: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64

fn op(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn ret(answer: Answer) -> libc::sock_filter {
    let k = match answer {
        Answer::Allow => libc::SECCOMP_RET_ALLOW,
        Answer::Errno(errno) => libc::SECCOMP_RET_ERRNO | u32::from(errno),
        Answer::Notify => libc::SECCOMP_RET_USER_NOTIF,
    };
    op(RET, k, 0, 0)
}

/// A filter program, ready to be installed.
#[derive(Clone)]
pub struct Filter(Vec<libc::sock_filter>);

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} instructions)", self.0.len())
    }
}

impl Filter {
    /// Compiles the table. Calls without a line are allowed, numbers of `unknown_from` and above get ENOSYS,
    /// calls of another architecture or of the x32 table get ENOSYS.
    pub fn compile(rules: &[Rule], unknown_from: u32) -> Filter {
        let enosys = Answer::Errno(libc::ENOSYS as u16);
        let mut program = vec![
            op(LD, 4, 0, 0), // seccomp_data.arch
            op(JEQ, NATIVE, 1, 0),
            ret(enosys),
            op(LD, 0, 0, 0), // seccomp_data.nr
            op(JGE, unknown_from, 0, 1), // x32 numbers start at 0x40000000: above every known one
            ret(enosys),
        ];
        for rule in rules {
            let number = rule.call as u32;
            let arg = |index: u8| 16 + 8 * u32::from(index); // low half of args[index], little endian
            match rule.when {
                When::Always => {
                    program.push(op(JEQ, number, 0, 1));
                    program.push(ret(rule.answer));
                }
                When::AnyBit { arg: index, mask } => {
                    program.push(op(JEQ, number, 0, 4));
                    program.push(op(LD, arg(index), 0, 0));
                    program.push(op(JSET, mask, 0, 1));
                    program.push(ret(rule.answer));
                    program.push(op(LD, 0, 0, 0));
                }
                When::Equals { arg: index, value } => {
                    program.push(op(JEQ, number, 0, 4));
                    program.push(op(LD, arg(index), 0, 0));
                    program.push(op(JEQ, value, 0, 1));
                    program.push(ret(rule.answer));
                    program.push(op(LD, 0, 0, 0));
                }
            }
        }
        program.push(ret(Answer::Allow));
        Filter(program)
    }

    /// Installs the filter on this thread. With `listen`, returns the descriptor that receives the
    /// notifications. Needs no_new_privs.
    pub fn install(&self, listen: bool) -> Result<Option<OwnedFd>> {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        let mut flags = 0;
        if listen {
            flags |= libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        }
        // SAFETY: the program and its instructions outlive the call; the kernel copies and checks them.
        let answer = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        match answer {
            -1 => Err(last("seccomp", "SECCOMP_SET_MODE_FILTER")),
            // SAFETY: with NEW_LISTENER the kernel returned a new descriptor that nobody else owns.
            fd if listen => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) })),
            _ => Ok(None),
        }
    }
}

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Notification {
    /// Identifies the call.
    pub id: u64,
    /// Thread id of the caller, in the pid namespace of whoever received this; 0 where not visible.
    pub tid: u32,
    /// Number of the system call.
    pub call: i64,
    /// Arguments as the caller passed them.
    pub args: [u64; 6],
}

/// Receives the next notification; `None` where the caller is gone already.
pub fn receive(listener: impl AsFd) -> Result<Option<Notification>> {
    // SAFETY: seccomp_notif is plain data and must be zeroed for SECCOMP_IOCTL_NOTIF_RECV.
    let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `raw` outlives the call and has the size that the request number encodes.
    let answer = unsafe {
        libc::ioctl(listener.as_fd().as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as libc::c_ulong, &raw mut raw)
    };
    if answer != 0 {
        let error = last("ioctl", "SECCOMP_IOCTL_NOTIF_RECV");
        return if matches!(error.errno, Errno::INTR | Errno::NOENT) { Ok(None) } else { Err(error) };
    }
    Ok(Some(Notification { id: raw.id, tid: raw.pid, call: i64::from(raw.data.nr), args: raw.data.args }))
}

/// True while the call behind `id` still waits: only then does what was read of the caller belong to it.
pub fn still_waits(listener: impl AsFd, id: u64) -> bool {
    // SAFETY: the ioctl reads one u64 that outlives the call.
    unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID as libc::c_ulong,
            &raw const id,
        ) == 0
    }
}

/// What to tell the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The kernel carries the call out itself.
    Continue,
    /// It was done for the caller, with this result.
    Done(i64),
    /// It fails.
    Fail(Errno),
}

/// Answers a notification. A caller that is gone is no error.
pub fn reply(listener: impl AsFd, id: u64, reply: Reply) -> Result<()> {
    let (val, error, flags) = match reply {
        Reply::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        Reply::Done(value) => (value, 0, 0),
        Reply::Fail(errno) => (0, -errno.raw_os_error(), 0),
    };
    let mut raw = libc::seccomp_notif_resp { id, val, error, flags };
    // SAFETY: `raw` outlives the call and has the size that the request number encodes.
    let answer = unsafe {
        libc::ioctl(listener.as_fd().as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as libc::c_ulong, &raw mut raw)
    };
    if answer != 0 {
        let error = last("ioctl", "SECCOMP_IOCTL_NOTIF_SEND");
        return if error.errno == Errno::NOENT { Ok(()) } else { Err(error) };
    }
    Ok(())
}

/// Reads a NUL-terminated string of at most 4096 bytes from another process's memory.
/// Never reads past the page that holds the end (process_vm_readv(2) fails on the first bad page).
pub fn read_path(tid: u32, address: u64) -> Result<Vec<u8>> {
    let mut path = Vec::with_capacity(256);
    let mut at = address;
    let mut buffer = [0u8; 4096];
    while path.len() < libc::PATH_MAX as usize {
        let to_page_end = 4096 - (at as usize & 4095);
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: to_page_end };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: to_page_end };
        // SAFETY: `local` names a live buffer of at least that length; `remote` is only an address in
        // another process, checked by the kernel.
        let n = unsafe { libc::process_vm_readv(tid as i32, &raw const local, 1, &raw const remote, 1, 0) };
        if n <= 0 {
            return Err(last("process_vm_readv", format!("{tid}")));
        }
        let got = &buffer[..n as usize];
        if let Some(end) = got.iter().position(|b| *b == 0) {
            path.extend_from_slice(&got[..end]);
            return Ok(path);
        }
        path.extend_from_slice(got);
        at += n as u64;
    }
    Err(Error::new("process_vm_readv", "path", Errno::NAMETOOLONG))
}
