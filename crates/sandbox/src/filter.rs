//! The seccomp filter of a command, made from the table of every system call in `data/syscalls.toml`.
//!
//! Invariant: a number that is not in the table is ENOSYS, so a call that a later kernel brings is none until somebody has
//! thought about it. What policy refuses is EPERM, what this machine is said not to have is ENOSYS (so that programs take
//! their fallback), rare calls that need help are notified. Clone flags are tested, so clone3, whose flags lie behind
//! a pointer, is ENOSYS: the C library falls back to clone.

use kernel::seccomp::{Answer, Filter, Rule, When};

use crate::limits::Means;
use crate::plan::Walls;

const EPERM: Answer = Answer::Errno(1);
const ENOSYS: Answer = Answer::Errno(38);
const EAFNOSUPPORT: Answer = Answer::Errno(97);

/// Every namespace flag of clone(2) and unshare(2) but the mount and file ones that are harmless alone.
const NEW_NAMESPACES: u32 = 0x7e02_0080;

/// Commands of ioctl(2) that type into a terminal: TIOCSTI, TIOCLINUX.
const TYPING: [u32; 2] = [0x5412, 0x541c];

/// Address families that a lane may have: unix, inet, inet6, netlink.
const FAMILIES: [u32; 4] = [1, 2, 10, 16];
/// Refused with EPERM, as what leads out of a virtual machine; any other family is one that this machine has not.
const AF_VSOCK: u32 = 40;

/// What the table says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// It goes on.
    Allowed,
    /// Policy refuses it.
    Refused,
    /// This machine is said not to have it.
    Absent,
    /// Allowed without flags that make a namespace.
    Flags,
    /// Allowed but for commands that type into a terminal.
    Commands,
    /// Allowed for some address families.
    Families,
}

/// One system call of this architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its name, as the kernel's table has it.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
    /// What a command gets.
    pub says: Says,
    /// Simply allowed where sandboxes may nest.
    pub nested: bool,
    /// What kind of call it is.
    pub class: &'static str,
}

/// Every call, by number.
pub const TABLE: &[Call] = include!(concat!(env!("OUT_DIR"), "/syscalls.rs"));

/// The number of a call; -1, which no call has, where this architecture has none of the name.
const fn number(name: &str) -> i64 {
    let mut at = 0;
    while at < TABLE.len() {
        if same(TABLE[at].name, name) {
            return TABLE[at].number as i64;
        }
        at += 1;
    }
    -1
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// rename(2); -1 where the architecture has none.
pub(crate) const RENAME: i64 = number("rename");
/// renameat(2).
pub(crate) const RENAMEAT: i64 = number("renameat");
/// renameat2(2).
pub(crate) const RENAMEAT2: i64 = number("renameat2");

/// connect(2).
pub(crate) const CONNECT: i64 = number("connect");
/// sendto(2).
pub(crate) const SENDTO: i64 = number("sendto");

/// The rename family, notified where directory renames are carried out for the lane.
pub const RENAMES: [i64; 3] = [RENAME, RENAMEAT, RENAMEAT2];

/// The exec family: reported where programs that are started are.
pub const EXECS: [i64; 2] = [number("execve"), number("execveat")];
/// The open family, reported where files that are opened are.
pub const OPENS: [i64; 4] = [number("open"), number("openat"), number("openat2"), number("creat")];

/// The call with this number.
pub fn call(number: i64) -> Option<&'static Call> {
    let number = u32::try_from(number).ok()?;
    TABLE.binary_search_by_key(&number, |call| call.number).ok().map(|at| &TABLE[at])
}

/// The table as rules, by number.
pub fn rules(walls: &Walls) -> Vec<Rule> {
    // What policy refuses is told to whoever listens, who answers with the same EPERM.
    let refused = if walls.trace.refusals { Answer::Notify } else { EPERM };
    let mut rules = Vec::with_capacity(TABLE.len() + 16);
    for known in TABLE {
        let call = i64::from(known.number);
        let mut rule = |when, answer| rules.push(Rule { call, when, answer });
        let is_reported = (walls.emulate_rename && RENAMES.contains(&call))
            || (walls.trace.execs && EXECS.contains(&call))
            || (walls.trace.reads && OPENS.contains(&call));
        if is_reported {
            rule(When::Always, Answer::Notify);
            continue;
        }
        if walls.report_connects && call == CONNECT {
            rule(When::Always, Answer::Notify);
            continue;
        }
        if walls.report_connects && call == SENDTO {
            // A message on a connection names no address.
            rule(When::NotNull { arg: 4 }, Answer::Notify);
        }
        // Which processors it may run on is what holds the limit.
        if known.name == "sched_setaffinity"
            && walls.limits.iter().any(|limit| limit.means == Means::Affinity)
        {
            rule(When::Always, EPERM);
            continue;
        }
        if walls.bare && alone(known.name, &mut rule) {
            continue;
        }
        match known.says {
            _ if known.nested && walls.nest => {}
            Says::Allowed => {}
            Says::Refused => rule(When::Always, refused),
            Says::Absent => rule(When::Always, ENOSYS),
            Says::Flags => rule(When::AnyBit { arg: 0, mask: NEW_NAMESPACES }, refused),
            Says::Commands => {
                TYPING.iter().for_each(|value| rule(When::Equals { arg: 1, value: *value }, refused))
            }
            Says::Families => {
                FAMILIES.iter().for_each(|value| rule(When::Equals { arg: 0, value: *value }, Answer::Allow));
                rule(When::Equals { arg: 0, value: AF_VSOCK }, refused);
                rule(When::Always, EAFNOSUPPORT);
            }
        }
        rule(When::Always, Answer::Allow);
    }
    rules
}

/// Where no namespace stands around a command: what Landlock does not keep from others of the same user. True where it
/// answers for the call.
fn alone(name: &str, rule: &mut dyn FnMut(When, Answer)) -> bool {
    let own = |arg| When::Equals { arg, value: 0 };
    match name {
        // With 0 it means itself.
        "prlimit64" | "sched_setscheduler" | "sched_setparam" | "sched_setattr" | "sched_setaffinity" => {
            rule(own(0), Answer::Allow);
            rule(When::Always, EPERM);
        }
        // All processes of the user, or one that is named.
        "setpriority" | "ioprio_set" => {
            let whole_user = if name == "setpriority" { 2 } else { 3 };
            rule(When::Equals { arg: 0, value: whole_user }, EPERM);
            rule(own(1), Answer::Allow);
            rule(When::Always, EPERM);
        }
        // The host's services listen on paths, which this kernel's Landlock does not shut.
        "socket" => {
            FAMILIES[1..]
                .iter()
                .for_each(|value| rule(When::Equals { arg: 0, value: *value }, Answer::Allow));
            rule(When::Always, EPERM);
        }
        // Segments, queues and semaphores of every program of the user.
        "shmget" | "shmat" | "shmctl" | "semget" | "semop" | "semctl" | "semtimedop" | "msgget"
        | "msgsnd" | "msgrcv" | "msgctl" | "mq_open" | "mq_unlink" => rule(When::Always, EPERM),
        _ => return false,
    }
    true
}

/// The filter of a command.
pub fn compile(walls: &Walls) -> Filter {
    Filter::compile(&rules(walls), ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_flags_are_all_in_the_mask() {
        // NEWTIME 0x80, NEWNS 0x20000, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
        for flag in
            [0x80, 0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]
        {
            assert_ne!(NEW_NAMESPACES & flag, 0, "{flag:#x}");
        }
        for harmless in [0x100, 0x200, 0x400, 0x800, 0x4000, 0x8000, 0x1_0000, 0x8_0000] {
            assert_eq!(NEW_NAMESPACES & harmless, 0, "{harmless:#x}");
        }
    }

    #[test]
    fn the_table_has_every_call_of_its_kernel_once_and_in_order() {
        assert!(TABLE.windows(2).all(|two| two[0].number < two[1].number));
        let last = TABLE.last().expect("calls");
        assert_eq!((last.name, last.number), ("file_setattr", 469));
        if cfg!(target_arch = "x86_64") {
            // 0 to 336, and 424 to 469.
            assert_eq!(TABLE.len(), 337 + 46);
        }
    }
}
