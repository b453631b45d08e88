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
    /// Argument `arg` is not null: all its bits count.
    NotNull {
        /// Index of the argument, 0 to 5.
        arg: u8,
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
const JA: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
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
    /// Compiles the table into a search by halves: the kernel runs a new filter once for every call it has,
    /// to learn which it always allows, and then for every call of the program. Calls without a line get `otherwise`;
    /// calls of another architecture get ENOSYS. (Those of the x32 table have numbers of their own, from 0x40000000.)
    pub fn compile(rules: &[Rule], otherwise: Answer) -> Filter {
        let enosys = Answer::Errno(libc::ENOSYS as u16);
        let mut program = vec![
            op(LD, 4, 0, 0), // seccomp_data.arch
            op(JEQ, NATIVE, 1, 0),
            ret(enosys),
            op(LD, 0, 0, 0), // seccomp_data.nr
        ];
        program.extend(branch(&stretches(rules, otherwise)));
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

/// What is decided for the numbers from here to the next stretch.
struct Stretch {
    from: u32,
    program: Vec<libc::sock_filter>,
}

fn same(one: &[libc::sock_filter], other: &[libc::sock_filter]) -> bool {
    let plain = |op: &libc::sock_filter| (op.code, op.jt, op.jf, op.k);
    one.iter().map(plain).eq(other.iter().map(plain))
}

/// All numbers, in stretches of equal answers; the first begins with 0. Rules of one call keep their order.
fn stretches(rules: &[Rule], otherwise: Answer) -> Vec<Stretch> {
    let mut rules: Vec<Rule> = rules.iter().filter(|rule| rule.call >= 0).copied().collect();
    rules.sort_by_key(|rule| rule.call);
    let mut all: Vec<Stretch> = Vec::with_capacity(64);
    let mut next = 0;
    let mut add = |from: u32, program: Vec<libc::sock_filter>| {
        if all.last().is_none_or(|last| !same(&last.program, &program)) {
            all.push(Stretch { from, program });
        }
    };
    for of_call in rules.chunk_by(|one, other| one.call == other.call) {
        let number = of_call[0].call as u32;
        if number > next {
            add(next, vec![ret(otherwise)]);
        }
        add(number, decide(of_call, otherwise));
        next = number + 1;
    }
    add(next, vec![ret(otherwise)]);
    all
}

/// Instructions that decide about the numbers of these stretches. The number of the call is loaded; the last
/// instruction of every way is a return.
fn branch(stretches: &[Stretch]) -> Vec<libc::sock_filter> {
    match stretches {
        [] => Vec::new(),
        [one] => one.program.clone(),
        _ => {
            let (below, from) = stretches.split_at(stretches.len() / 2);
            let (number, from) = (from[0].from, branch(from));
            let mut program = otherwise_skip(JGE, number, from.len());
            program.extend(from);
            program.extend(branch(below));
            program
        }
    }
}

/// Goes on where the comparison holds, and else `length` instructions further.
fn otherwise_skip(comparison: u16, number: u32, length: usize) -> Vec<libc::sock_filter> {
    match u8::try_from(length) {
        Ok(short) => vec![op(comparison, number, 0, short)],
        Err(_) => vec![op(comparison, number, 1, 0), op(JA, length as u32, 0, 0)],
    }
}

/// The rules of one call: the first that holds answers, and where none does, `otherwise`.
fn decide(rules: &[Rule], otherwise: Answer) -> Vec<libc::sock_filter> {
    let arg = |index: u8| 16 + 8 * u32::from(index); // low half of args[index], little endian
    let mut program = Vec::with_capacity(3 * rules.len());
    for rule in rules {
        match rule.when {
            When::Always => {
                program.push(ret(rule.answer));
                return program;
            }
            When::AnyBit { arg: index, mask } => {
                program.extend([op(LD, arg(index), 0, 0), op(JSET, mask, 0, 1), ret(rule.answer)]);
            }
            When::NotNull { arg: index } => program.extend([
                op(LD, arg(index), 0, 0),
                op(JEQ, 0, 0, 2),
                op(LD, arg(index) + 4, 0, 0),
                op(JEQ, 0, 1, 0),
                ret(rule.answer),
            ]),
            When::Equals { arg: index, value } => {
                program.extend([op(LD, arg(index), 0, 0), op(JEQ, value, 0, 1), ret(rule.answer)]);
            }
        }
    }
    program.push(ret(otherwise));
    program
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

impl Notification {
    /// As bytes, for a message to another process of ours.
    pub fn to_bytes(self) -> Vec<u8> {
        let words = [self.id, u64::from(self.tid), self.call as u64].into_iter().chain(self.args);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// From bytes; `None` where they are something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Notification> {
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or([0; 8])));
        if bytes.len() != 72 {
            return None;
        }
        let (id, tid, call) = (words.next()?, words.next()?, words.next()?);
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = words.next()?;
        }
        Some(Notification { id, tid: tid as u32, call: call as i64, args })
    }
}

/// What the kernel wrote for a call.
pub(crate) fn received(raw: &libc::seccomp_notif) -> Notification {
    Notification { id: raw.id, tid: raw.pid, call: i64::from(raw.data.nr), args: raw.data.args }
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
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND as libc::c_ulong,
            &raw mut raw,
        )
    };
    if answer != 0 {
        let error = last("ioctl", "SECCOMP_IOCTL_NOTIF_SEND");
        return if error.errno == Errno::NOENT { Ok(()) } else { Err(error) };
    }
    Ok(())
}

/// Reads a list of addresses that a zero ends, at most `most` of them; and whether the end was reached.
/// Such as the argument list of execve(2).
pub fn read_addresses(tid: u32, address: u64, most: usize) -> Result<(Vec<u64>, bool)> {
    let mut found: Vec<u64> = Vec::new();
    if address == 0 {
        return Ok((found, true));
    }
    let mut at = address;
    let mut buffer = [0u64; 512];
    while found.len() < most {
        // Never past the page that holds the end, but at least one address.
        let to_page_end = (4096 - (at as usize & 4095)).max(8) / 8 * 8;
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: to_page_end };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: to_page_end };
        // SAFETY: `local` names a live buffer of at least that length; `remote` is only an address in
        // another process, checked by the kernel.
        let n = unsafe { libc::process_vm_readv(tid as i32, &raw const local, 1, &raw const remote, 1, 0) };
        if n < 8 {
            return Err(last("process_vm_readv", format!("{tid}")));
        }
        let got = &buffer[..n as usize / 8];
        match got.iter().position(|word| *word == 0) {
            Some(end) => {
                found.extend_from_slice(&got[..end]);
                let whole = found.len() <= most;
                found.truncate(most);
                return Ok((found, whole));
            }
            None => found.extend_from_slice(got),
        }
        at += got.len() as u64 * 8;
    }
    found.truncate(most);
    Ok((found, false))
}

/// Reads up to `buffer.len()` bytes of another process's memory; how many there were.
pub fn read_memory(tid: u32, address: u64, buffer: &mut [u8]) -> Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: `local` names a live buffer of that length; `remote` is only an address in another process,
    // checked by the kernel.
    let n = unsafe { libc::process_vm_readv(tid as i32, &raw const local, 1, &raw const remote, 1, 0) };
    if n < 0 { Err(last("process_vm_readv", format!("{tid}"))) } else { Ok(n as usize) }
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

#[cfg(test)]
mod tests {
    use super::{Answer, Filter, JA, JEQ, JGE, JSET, LD, NATIVE, RET, Rule, When, ret};

    const OTHERWISE: Answer = Answer::Errno(38);

    /// What the program answers, by carrying it out as the kernel does.
    fn run(filter: &Filter, arch: u32, number: u32, args: [u32; 6]) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let op = filter.0[at];
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { op.jt } else { op.jf });
            match op.code {
                LD => {
                    loaded = match op.k {
                        0 => number,
                        4 => arch,
                        // The tests' arguments fit into 32 bits.
                        offset if offset % 8 == 4 => 0,
                        offset => args[(offset as usize - 16) / 8],
                    }
                }
                JEQ => jump(loaded == op.k),
                JGE => jump(loaded >= op.k),
                JSET => jump(loaded & op.k != 0),
                JA => at += op.k as usize,
                RET => return op.k,
                other => panic!("no such instruction: {other:#x}"),
            }
        }
    }

    /// What the table says, read from top to bottom.
    fn table(rules: &[Rule], number: u32, args: [u32; 6]) -> Answer {
        let holds = |rule: &&Rule| {
            rule.call == i64::from(number)
                && match rule.when {
                    When::Always => true,
                    When::AnyBit { arg, mask } => args[usize::from(arg)] & mask != 0,
                    When::NotNull { arg } => args[usize::from(arg)] != 0,
                    When::Equals { arg, value } => args[usize::from(arg)] == value,
                }
        };
        rules.iter().find(holds).map_or(OTHERWISE, |rule| rule.answer)
    }

    fn check(rules: &[Rule]) {
        let filter = Filter::compile(rules, OTHERWISE);
        for number in 0..470 {
            for args in [[0; 6], [1; 6], [0x5412; 6], [2, 0x5412, 0, 0, 0, 0], [u32::MAX; 6]] {
                let said = run(&filter, NATIVE, number, args);
                assert_eq!(said, ret(table(rules, number, args)).k, "call {number} with {args:?}");
            }
        }
        let enosys = ret(OTHERWISE).k;
        for (arch, number) in [(NATIVE, 470), (NATIVE, 0x4000_0000), (NATIVE, u32::MAX), (NATIVE ^ 1, 0)] {
            assert_eq!(run(&filter, arch, number, [0; 6]), enosys);
        }
    }

    #[test]
    fn the_program_answers_every_call_as_the_table_does() {
        let always = |call, answer| Rule { call, when: When::Always, answer };
        check(&[]);
        check(&[always(0, Answer::Errno(1))]);
        let refused = Answer::Errno(1);
        check(&[
            always(300, refused),
            always(7, Answer::Notify),
            Rule { call: 16, when: When::Equals { arg: 1, value: 0x5412 }, answer: refused },
            Rule { call: 16, when: When::AnyBit { arg: 0, mask: 2 }, answer: Answer::Errno(38) },
            always(469, refused),
            // The first line of a call wins.
            always(7, refused),
            Rule { call: 300, when: When::AnyBit { arg: 0, mask: 1 }, answer: Answer::Notify },
            Rule { call: 44, when: When::NotNull { arg: 1 }, answer: Answer::Notify },
        ]);
        // So many that half of them are out of reach of a short jump.
        let many: Vec<Rule> =
            (0..400).map(|call| always(call, Answer::Errno((call % 90 + 1) as u16))).collect();
        check(&many);
        // As a table of a whole kernel is: nearly all allowed, gaps between.
        let whole: Vec<Rule> =
            (0..460).filter(|call| call % 50 != 7).map(|call| always(call, Answer::Allow)).collect();
        check(&whole);
    }
}
