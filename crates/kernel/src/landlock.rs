//! Landlock: cutting a process and its descendants off from abstract unix sockets of everybody else.
//!
//! Rests on landlock(7): a domain is taken on for good and inherited; its scopes are there from ABI 6 [6.12].
//! An abstract socket has no place in the view, only in the network namespace, so no mount hides it.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::error::Result;
use crate::process::last;

/// The first ABI with scopes.
const WITH_SCOPES: i64 = 6;
const CREATE_RULESET_VERSION: u32 = 1;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;

/// `struct landlock_ruleset_attr`: what a domain handles, as bits.
#[repr(C)]
struct Ruleset {
    access_fs: u64,
    access_net: u64,
    scoped: u64,
}

/// True where this kernel can shut abstract sockets.
pub fn can_shut_abstract_sockets() -> bool {
    // SAFETY: with the version flag the call takes no attributes (null, size 0) and touches no memory.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    abi >= WITH_SCOPES
}

/// From now on, this process and what it starts connect only to abstract unix sockets of their own making.
/// Needs no_new_privs.
pub fn shut_abstract_sockets() -> Result<()> {
    let ruleset = Ruleset { access_fs: 0, access_net: 0, scoped: SCOPE_ABSTRACT_UNIX_SOCKET };
    // SAFETY: `ruleset` outlives the call and has the size that is passed; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size_of::<Ruleset>(), 0u32)
    };
    if fd < 0 {
        return Err(last("landlock_create_ruleset", "scoped"));
    }
    // SAFETY: the kernel returned a new descriptor (close-on-exec) that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    // SAFETY: landlock_restrict_self takes a descriptor and flags by value.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0u32) };
    if answer == 0 { Ok(()) } else { Err(last("landlock_restrict_self", "")) }
}
