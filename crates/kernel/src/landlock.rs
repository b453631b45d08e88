//! Landlock: a fence around what a process and its descendants may do with files, and a cut from abstract unix sockets
//! and signals of everybody else.
//!
//! Rests on landlock(7): a domain is taken on for good and inherited. Invariants: one domain handles every right that
//! this file knows of the kernel's ABI, renames between directories (REFER) among them, so that nothing is left open or
//! shut by being left out; a rule only adds, so what is to be taken away below a granted directory is taken away by a
//! mount; after it no mount can be made, so it comes last.

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::error::{Error, Result, path_bytes};
use crate::process::last;

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 2;
/// The first ABI with scopes [6.12].
const WITH_SCOPES: u32 = 6;

/// Rights on files by bit: the name, and the ABI that brought it.
const RIGHTS: [(&str, u32); 16] = [
    ("execute", 1),
    ("write_file", 1),
    ("read_file", 1),
    ("read_dir", 1),
    ("remove_dir", 1),
    ("remove_file", 1),
    ("make_char", 1),
    ("make_dir", 1),
    ("make_reg", 1),
    ("make_sock", 1),
    ("make_fifo", 1),
    ("make_block", 1),
    ("make_sym", 1),
    ("refer", 2),
    ("truncate", 3),
    ("ioctl_dev", 5),
];
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Those that make sense for what is no directory.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// What a rule grants beneath a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading, listing and executing.
    Read,
    /// The same, and writing to files that are there (of /proc, for instance).
    Touch,
    /// The same, and commands to devices.
    Devices,
    /// Reading, and adding files and directories and writing to them; nothing can be removed, renamed or cut short.
    Add,
    /// Everything.
    Write,
}

impl Access {
    fn bits(self) -> u64 {
        let read = EXECUTE | READ_FILE | READ_DIR;
        match self {
            Access::Read => read,
            Access::Touch => read | WRITE_FILE | TRUNCATE,
            Access::Devices => read | WRITE_FILE | TRUNCATE | IOCTL_DEV,
            Access::Add => read | WRITE_FILE | MAKE_REG | MAKE_DIR,
            Access::Write => u64::MAX,
        }
    }
}

/// What a process takes on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domain {
    /// Rights on files are handled: what no rule grants is refused.
    pub files: bool,
    /// Abstract unix sockets of others are out of reach.
    pub abstract_sockets: bool,
    /// So are signals to others.
    pub signals: bool,
    /// What is granted, and where.
    pub rules: Vec<(PathBuf, Access)>,
}

/// `struct landlock_ruleset_attr`: what a domain handles, as bits.
#[repr(C)]
struct Ruleset {
    access_fs: u64,
    access_net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version that this kernel has; 0 where it has none, or does not let us.
pub fn abi() -> u32 {
    // SAFETY: with the version flag the call takes no attributes (null, size 0) and touches no memory.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// True where a kernel with this ABI can shut abstract sockets and signals.
pub fn has_scopes(abi: u32) -> bool {
    abi >= WITH_SCOPES
}

/// The rights on files that a domain handles under this ABI, by name.
pub fn handled(abi: u32) -> Vec<&'static str> {
    RIGHTS.iter().filter(|(_, since)| *since <= abi).map(|(name, _)| *name).collect()
}

fn handled_bits(abi: u32) -> u64 {
    RIGHTS.iter().enumerate().filter(|(_, (_, since))| *since <= abi).fold(0, |all, (bit, _)| all | 1 << bit)
}

impl Domain {
    /// True where it would change nothing.
    pub fn is_empty(&self) -> bool {
        !self.files && !self.abstract_sockets && !self.signals
    }

    /// Takes the domain on, for this process and what it starts. Needs no_new_privs. A place that is not there is
    /// granted nothing; scopes that the kernel has not are an error.
    pub fn enforce(&self) -> Result<()> {
        let abi = abi();
        let files = if self.files { handled_bits(abi) } else { 0 };
        let scoped = if self.abstract_sockets { SCOPE_ABSTRACT_UNIX_SOCKET } else { 0 }
            | if self.signals { SCOPE_SIGNAL } else { 0 };
        let ruleset = Ruleset { access_fs: files, access_net: 0, scoped };
        // A kernel without scopes knows a shorter structure, and takes a longer one whose rest is zero.
        // SAFETY: `ruleset` outlives the call and has the size that is passed; the kernel only reads it.
        let fd = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size_of::<Ruleset>(), 0u32)
        };
        if fd < 0 {
            return Err(last("landlock_create_ruleset", ""));
        }
        // SAFETY: the kernel returned a new descriptor (close-on-exec) that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        if self.files {
            for (path, access) in &self.rules {
                grant(&fd, path, access.bits() & files)?;
            }
        }
        // SAFETY: landlock_restrict_self takes a descriptor and flags by value.
        let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0u32) };
        if answer == 0 { Ok(()) } else { Err(last("landlock_restrict_self", "")) }
    }
}

fn grant(ruleset: &OwnedFd, path: &Path, access: u64) -> Result<()> {
    let root = crate::mount::place("/")?;
    let below = path.strip_prefix("/").unwrap_or(path);
    // Without following a link: what a rule stands on is what was mounted there.
    let place = match crate::mount::place_beneath(&root, below) {
        Ok(place) => place,
        // What is not there is granted nothing.
        Err(error)
            if matches!(error.errno, crate::Errno::NOENT | crate::Errno::LOOP | crate::Errno::NOTDIR) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let stat = rustix::fs::fstat(&place).map_err(|errno| Error::new("fstat", path_bytes(path), errno))?;
    let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
    let allowed_access = if is_dir { access } else { access & OF_FILES };
    let rule = PathBeneath { allowed_access, parent_fd: place.as_fd().as_raw_fd() };
    // SAFETY: `rule` outlives the call and has the layout that the rule's type says; the kernel only reads it.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0u32,
        )
    };
    if answer == 0 { Ok(()) } else { Err(last("landlock_add_rule", path_bytes(path))) }
}

#[cfg(test)]
mod tests {
    use super::{Access, handled, handled_bits};

    #[test]
    fn an_abi_handles_what_it_knows_and_nothing_else() {
        assert_eq!(handled_bits(0), 0);
        assert_eq!(handled_bits(1), 0x1fff);
        assert_eq!(handled_bits(2), 0x3fff);
        assert_eq!(handled_bits(7), 0xffff);
        assert_eq!(handled_bits(99), 0xffff);
        assert_eq!(handled(7).len(), 16);
    }

    #[test]
    fn every_access_contains_the_one_before() {
        let all = [Access::Read, Access::Touch, Access::Devices, Access::Write];
        assert!(all.windows(2).all(|two| two[0].bits() & !two[1].bits() == 0));
    }
}
