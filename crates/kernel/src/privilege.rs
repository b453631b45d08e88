//! Giving up privilege: no_new_privs, capabilities, securebits, dumpable, resource limits.
//!
//! Rests on capabilities(7) and prctl(2). Everything here only takes away.

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::error::{Asked as _, Result};

/// From now on, no program started from here gains privilege by being executed.
pub fn no_new_privs() -> Result<()> {
    rustix::thread::set_no_new_privs(true).asked("prctl", "PR_SET_NO_NEW_PRIVS")
}

/// Empties the bounding and ambient sets and locks securebits, so that uid 0 gains nothing at exec.
/// Needs CAP_SETPCAP; call before [`drop_capabilities`].
pub fn lock_down_root() -> Result<()> {
    rustix::thread::clear_ambient_capability_set().asked("prctl", "PR_CAP_AMBIENT_CLEAR_ALL")?;
    for bit in 0..64u64 {
        let Some(capability) = CapabilitySet::from_bits(1 << bit) else { continue };
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break, // past the last capability that this kernel knows
            refused => refused.asked("prctl", "PR_CAPBSET_DROP")?,
        }
    }
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).asked("prctl", "PR_SET_SECUREBITS")
}

/// Drops every effective, permitted and inheritable capability of this thread.
pub fn drop_capabilities() -> Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).asked("capset", "none")
}

/// Keeps only CAP_SYS_PTRACE (to look at the processes of a lane); what `later` names can be raised for a
/// while with [`raise`].
pub fn keep_only(later: CapabilitySet) -> Result<()> {
    let effective = CapabilitySet::SYS_PTRACE;
    let sets =
        CapabilitySets { effective, permitted: effective | later, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).asked("capset", "CAP_SYS_PTRACE")
}

/// Capabilities that are effective as long as this lives.
#[derive(Debug)]
#[must_use = "they are lowered when this is dropped"]
pub struct Raised(CapabilitySets);

/// Makes permitted capabilities effective, until the answer is dropped.
pub fn raise(more: CapabilitySet) -> Result<Raised> {
    let before = rustix::thread::capabilities(None).asked("capget", "")?;
    let raised = CapabilitySets { effective: before.effective | (more & before.permitted), ..before };
    rustix::thread::set_capabilities(None, raised).asked("capset", "raise")?;
    Ok(Raised(before))
}

impl Drop for Raised {
    fn drop(&mut self) {
        // Lowering is always allowed.
        let _ = rustix::thread::set_capabilities(None, self.0);
    }
}

/// Shuts ptrace and /proc/PID/{mem,fd,cwd,…} of this process to others of the same user.
pub fn not_dumpable() -> Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).asked("prctl", "PR_SET_DUMPABLE 0")
}

/// From now on, no more than this many processes and threads of this user in this user namespace. Root of the machine is
/// not held to it.
pub fn limit_processes(most: u64) -> Result<()> {
    limit(Resource::Nproc, most, "RLIMIT_NPROC")
}

/// No file is written beyond this many bytes.
pub fn limit_file_size(most: u64) -> Result<()> {
    limit(Resource::Fsize, most, "RLIMIT_FSIZE")
}

/// Lowers both ends of a limit; one that is lower already stays.
fn limit(resource: Resource, most: u64, name: &'static str) -> Result<()> {
    let now = rustix::process::getrlimit(resource);
    let lower = |was: Option<u64>| Some(was.map_or(most, |was| was.min(most)));
    let limits = Rlimit { current: lower(now.current), maximum: lower(now.maximum) };
    rustix::process::setrlimit(resource, limits).asked("setrlimit", name)
}

/// From now on, this thread and what it starts run on at most this many of the processors that it may run on now. Which
/// ones is drawn by `dice`, so that several lanes spread.
pub fn limit_processors(most: u64, dice: u64) -> Result<()> {
    let now = rustix::thread::sched_getaffinity(None).asked("sched_getaffinity", "")?;
    let have: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| now.is_set(*cpu)).collect();
    let mut less = rustix::thread::CpuSet::new();
    let first = dice as usize % have.len().max(1);
    let chosen = have.iter().cycle().skip(first).take(have.len().min(most.max(1) as usize));
    chosen.for_each(|cpu| less.set(*cpu));
    rustix::thread::sched_setaffinity(None, &less).asked("sched_setaffinity", "")
}

/// Leaves the caller's session keyring for a new, empty one; what was in it is out of reach. Nothing happens on a kernel
/// without keys, nor where the user's keys are used up: then the filter of a command alone keeps it from them.
pub fn own_keyring() {
    // SAFETY: the call takes a number and a null name, and touches no memory of ours.
    unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>())
    };
}

/// The number of the initial user namespace (PROC_USER_INIT_INO in the kernel's proc_ns.h).
const INITIAL: u64 = 0xefff_fffd;

/// True where the effective user is root of this machine: uid 0 in a user namespace (a rootless container) is
/// an ordinary user under another name, to whom the kernel refuses what it refuses to users.
pub fn is_root() -> bool {
    use std::sync::OnceLock;
    static INITIAL_NAMESPACE: OnceLock<bool> = OnceLock::new();
    let is_initial = || rustix::fs::stat("/proc/self/ns/user").map_or(true, |stat| stat.st_ino == INITIAL);
    rustix::process::geteuid().is_root() && *INITIAL_NAMESPACE.get_or_init(is_initial)
}
