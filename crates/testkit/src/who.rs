//! [`Who`] runs a command: root, or an ordinary user. As root, the tests do both.
//!
//! The ordinary user is a bare number without a line in /etc/passwd, as in many containers.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::require::say;

/// Number of the ordinary user (and of its group) that root drops to.
pub const USER: u32 = 61001;

/// As whom a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Uid 0.
    Root,
    /// An ordinary user: [`USER`] when the tests run as root, else whoever runs them.
    User,
}

impl Who {
    /// Everybody that this process can be: both as root; an ordinary user alone otherwise, which is
    /// said in the test's output.
    pub fn all() -> Vec<Who> {
        if is_root() {
            return vec![Who::Root, Who::User];
        }
        say("not root: only the ordinary user's half of this test runs");
        vec![Who::User]
    }

    /// The uid that files of this person have.
    pub fn uid(self) -> u32 {
        match self {
            Who::Root => 0,
            Who::User if is_root() => USER,
            Who::User => rustix::process::geteuid().as_raw(),
        }
    }

    /// The gid that files of this person have.
    pub fn gid(self) -> u32 {
        match self {
            Who::Root => 0,
            Who::User if is_root() => USER,
            Who::User => rustix::process::getegid().as_raw(),
        }
    }

    /// Lets `command` run as this person, without supplementary groups when it drops from root.
    pub fn apply(self, command: &mut Command) {
        assert!(self == Who::User || is_root(), "only root can run a command as root");
        if self == Who::User && is_root() {
            // With a uid and no groups named, the standard library clears the groups too.
            command.gid(USER).uid(USER);
        }
    }

    /// Gives this person one entry (never what a link points to).
    pub fn own(self, path: &Path) {
        if is_root() {
            lchown(path, Some(self.uid()), Some(self.gid()))
                .unwrap_or_else(|error| panic!("chown {}: {error}", path.display()));
        }
    }

    /// Gives this person everything from `top` down.
    pub fn own_all(self, top: &Path) {
        if !is_root() {
            return;
        }
        self.own(top);
        if fs::symlink_metadata(top).is_ok_and(|meta| meta.is_dir()) {
            for entry in fs::read_dir(top).expect("a readable directory") {
                self.own_all(&entry.expect("an entry").path());
            }
        }
    }

    /// True where this person can reach and execute `file`: every directory above is open to others.
    pub(crate) fn reaches(self, file: &Path) -> io::Result<bool> {
        if self == Who::Root || !is_root() {
            return Ok(true);
        }
        for step in file.canonicalize()?.ancestors() {
            if fs::metadata(step)?.mode() & 0o001 == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// True where this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
