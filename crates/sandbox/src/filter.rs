//! The seccomp table: which calls a command may not make, and what they answer.
//!
//! Principle: what policy refuses is EPERM, what this machine is said not to have is ENOSYS (so that
//! programs take their fallback), rare calls that need help are notified. Clone flags are tested, so clone3,
//! whose flags lie behind a pointer, is ENOSYS: the C library falls back to clone.

use kernel::seccomp::{Answer, Filter, Rule, When};

const EPERM: Answer = Answer::Errno(1);
const ENOSYS: Answer = Answer::Errno(38);

/// Every namespace flag of clone(2) and unshare(2) but the mount and file ones that are harmless alone.
const NEW_NAMESPACES: u32 = 0x7e02_0080;

/// The first number after the calls that this table was made for (Linux 6.18: `file_setattr`).
const UNKNOWN_FROM: u32 = 470;

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$((libc_number::$name, stringify!($name))),*] };
}

/// Numbers of the calls named here, on this architecture, from the kernel's tables.
#[allow(non_upper_case_globals, reason = "the kernel's own spelling")]
#[cfg(target_arch = "x86_64")]
mod libc_number {
    macro_rules! numbers { ($($name:ident = $n:literal),* $(,)?) => { $(pub(super) const $name: i64 = $n;)* } }
    numbers! {
        mount = 165, umount2 = 166, pivot_root = 155, move_mount = 429, open_tree = 428, fsopen = 430,
        fsconfig = 431, fsmount = 432, fspick = 433, mount_setattr = 442, open_tree_attr = 467,
        setns = 308, chroot = 161, swapon = 167, swapoff = 168, reboot = 169, kexec_load = 246,
        kexec_file_load = 320, init_module = 175, finit_module = 313, delete_module = 176, acct = 163,
        settimeofday = 164, clock_settime = 227, clock_adjtime = 305, syslog = 103,
        iopl = 172, ioperm = 173, vhangup = 153, quotactl = 179, quotactl_fd = 443, bpf = 321,
        perf_event_open = 298, userfaultfd = 323, keyctl = 250, add_key = 248, request_key = 249,
        open_by_handle_at = 304, fanotify_init = 300, io_uring_setup = 425, io_uring_enter = 426,
        io_uring_register = 427, clone3 = 435, clone = 56, unshare = 272, ioctl = 16, socket = 41,
        rename = 82, renameat = 264, renameat2 = 316, sethostname = 170, setdomainname = 171,
        lookup_dcookie = 212, nfsservctl = 180, uselib = 134, ustat = 136, sysfs = 139, _sysctl = 156,
    }
}

#[allow(non_upper_case_globals, reason = "the kernel's own spelling")]
#[cfg(target_arch = "aarch64")]
mod libc_number {
    macro_rules! numbers { ($($name:ident = $n:literal),* $(,)?) => { $(pub(super) const $name: i64 = $n;)* } }
    // -1 never matches: the call does not exist on this architecture.
    numbers! {
        mount = 40, umount2 = 39, pivot_root = 41, move_mount = 429, open_tree = 428, fsopen = 430,
        fsconfig = 431, fsmount = 432, fspick = 433, mount_setattr = 442, open_tree_attr = 467,
        setns = 268, chroot = 51, swapon = 224, swapoff = 225, reboot = 142, kexec_load = 104,
        kexec_file_load = 294, init_module = 105, finit_module = 273, delete_module = 106, acct = 89,
        settimeofday = 170, clock_settime = 112, clock_adjtime = 266, syslog = 116,
        iopl = -1, ioperm = -1, vhangup = 58, quotactl = 60, quotactl_fd = 443, bpf = 280,
        perf_event_open = 241, userfaultfd = 282, keyctl = 219, add_key = 217, request_key = 218,
        open_by_handle_at = 265, fanotify_init = 262, io_uring_setup = 425, io_uring_enter = 426,
        io_uring_register = 427, clone3 = 435, clone = 220, unshare = 97, ioctl = 29, socket = 198,
        rename = -1, renameat = 38, renameat2 = 276, sethostname = 161, setdomainname = 162,
        lookup_dcookie = 18, nfsservctl = 42, uselib = -1, ustat = -1, sysfs = -1, _sysctl = -1,
    }
}

/// rename(2); -1 where the architecture has none.
pub(crate) const RENAME: i64 = libc_number::rename;
/// renameat(2).
pub(crate) const RENAMEAT: i64 = libc_number::renameat;
/// renameat2(2).
pub(crate) const RENAMEAT2: i64 = libc_number::renameat2;

/// Calls that policy refuses.
pub const REFUSED: &[(i64, &str)] = calls![
    mount,
    umount2,
    pivot_root,
    move_mount,
    open_tree,
    fsopen,
    fsconfig,
    fsmount,
    fspick,
    mount_setattr,
    open_tree_attr,
    setns,
    chroot,
    swapon,
    swapoff,
    reboot,
    kexec_load,
    kexec_file_load,
    init_module,
    finit_module,
    delete_module,
    acct,
    settimeofday,
    clock_settime,
    clock_adjtime,
    syslog,
    iopl,
    ioperm,
    vhangup,
    quotactl,
    quotactl_fd,
    bpf,
    perf_event_open,
    keyctl,
    add_key,
    request_key,
    open_by_handle_at,
    fanotify_init,
    sethostname,
    setdomainname,
    lookup_dcookie,
];

/// Calls that a lane is said not to have.
pub const ABSENT: &[(i64, &str)] = calls![
    io_uring_setup,
    io_uring_enter,
    io_uring_register,
    clone3,
    userfaultfd,
    nfsservctl,
    uselib,
    ustat,
    sysfs,
    _sysctl,
];

/// The rename family, notified where directory renames are carried out for the lane.
pub const RENAMES: &[(i64, &str)] = calls![rename, renameat, renameat2];

/// The table as rules.
pub fn rules(emulate_rename: bool) -> Vec<Rule> {
    let mut rules = Vec::new();
    let always = |call, answer| Rule { call, when: When::Always, answer };
    if emulate_rename {
        rules.extend(RENAMES.iter().map(|(call, _)| always(*call, Answer::Notify)));
    }
    rules.extend(REFUSED.iter().map(|(call, _)| always(*call, EPERM)));
    rules.extend(ABSENT.iter().map(|(call, _)| always(*call, ENOSYS)));
    let tiocsti = 0x5412;
    let tioclinux = 0x541c;
    let af_vsock = 40;
    rules.extend([
        Rule { call: libc_number::clone, when: When::AnyBit { arg: 0, mask: NEW_NAMESPACES }, answer: EPERM },
        Rule {
            call: libc_number::unshare,
            when: When::AnyBit { arg: 0, mask: NEW_NAMESPACES },
            answer: EPERM,
        },
        Rule { call: libc_number::ioctl, when: When::Equals { arg: 1, value: tiocsti }, answer: EPERM },
        Rule { call: libc_number::ioctl, when: When::Equals { arg: 1, value: tioclinux }, answer: EPERM },
        Rule { call: libc_number::socket, when: When::Equals { arg: 0, value: af_vsock }, answer: EPERM },
    ]);
    rules.retain(|rule| rule.call >= 0);
    rules
}

/// The filter of a command.
pub fn compile(emulate_rename: bool) -> Filter {
    Filter::compile(&rules(emulate_rename), UNKNOWN_FROM)
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
    fn no_call_stands_in_two_lists() {
        let mut numbers: Vec<i64> = REFUSED
            .iter()
            .chain(ABSENT)
            .chain(RENAMES)
            .map(|(call, _)| *call)
            .filter(|call| *call >= 0)
            .collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}
