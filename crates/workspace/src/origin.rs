//! [`OriginFacts`]: what matters about a directory before a lane is made of it.
//!
//! Invariant: the cost does not depend on the size of the tree. The top level and git's own directories
//! are looked at here; the rest of the owners is the background walk's work (see [`crate::manifest`]),
//! whose findings are merged with [`ForeignOwners::merge`].
//!
//! Why owners matter: in a user namespace of one id every other owner is unmapped, and the kernel
//! refuses to copy such a file up (EOVERFLOW) or to create anything in such a directory. As root the
//! mount has no such limit (the owners are noted all the same, the picker ignores them); but root inside a lane holds no capabilities, so that it can neither give
//! files away nor write files of other owners that their mode protects.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kernel::error::{Asked as _, path_bytes};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};

use crate::error::{Doing as _, Error, Result};
use crate::git::{self, DotGit, GitFacts};
use crate::mountinfo::MountTable;

/// How many names of the top level are looked at before the rest is left to the background walk.
const LOOKED_AT: usize = 200;
/// The same for each of git's directories, some of which have hundreds of names.
const LOOKED_AT_IN_GIT: usize = 24;
/// `FS_CASEFOLD_FL`, set on directories whose names are compared without regard to case.
const CASEFOLD_FLAG: u32 = 0x4000_0000;
/// How many examples of foreign files are kept.
const EXAMPLES: usize = 5;

/// Facts about one origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginFacts {
    /// The directory: absolute, without links.
    pub path: PathBuf,
    /// Type of its filesystem.
    pub fs_type: String,
    /// Its device, as `major << 32 | minor`.
    pub dev: u64,
    /// Its inode: a directory of the same name with another one is another origin.
    pub ino: u64,
    /// Identity of the filesystem that outlives a restart where the filesystem has one.
    pub fs_id: String,
    /// Where that filesystem is mounted.
    pub mount_point: PathBuf,
    /// The mount's id, to compare with other paths' in this process's lifetime.
    pub mount_id: u64,
    /// What is mounted below the directory.
    pub submounts: Vec<PathBuf>,
    /// Files of owners other than the caller, as far as looked.
    pub foreign: ForeignOwners,
    /// Git metadata.
    pub git: GitFacts,
    /// Whether files can be cloned on this filesystem; `None` where nobody has tried.
    pub reflinks: Option<bool>,
    /// The directory is itself on an overlay (one more level works, two do not).
    pub on_overlay: bool,
    /// The filesystem or the mount is read-only.
    pub read_only: bool,
    /// Names are compared without regard to case.
    pub casefold: bool,
}

/// Owners found that are not the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignOwners {
    /// The pairs of uid and gid, each once.
    pub owners: Vec<(u32, u32)>,
    /// Some paths.
    pub examples: Vec<PathBuf>,
    /// How many entries were found.
    pub count: u64,
    /// True where every entry of the tree was looked at.
    pub checked_fully: bool,
}

impl ForeignOwners {
    /// True where there is at least one.
    pub fn found(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Notes one entry with its owner if it is foreign to `(uid, gid)`.
    pub fn note(&mut self, caller: (u32, u32), owner: (u32, u32), path: impl FnOnce() -> PathBuf) {
        if owner == caller {
            return;
        }
        self.count += 1;
        if !self.owners.contains(&owner) {
            self.owners.push(owner);
        }
        if self.examples.len() < EXAMPLES {
            self.examples.push(path());
        }
    }

    /// Takes over what a full walk found.
    pub fn merge(&mut self, walked: ForeignOwners) {
        *self = walked;
    }
}

/// Effective uid and gid of this process.
pub fn caller() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

impl OriginFacts {
    /// Gathers the facts of `path` (absolute, without links) against a table of mounts.
    pub fn gather(path: &Path, mounts: &MountTable) -> Result<OriginFacts> {
        let dir = open_dir(path)?;
        let flags = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let stat = rustix::fs::statx(&dir, c"", AtFlags::EMPTY_PATH, flags)
            .asked("statx", path_bytes(path))
            .doing("look at the project", path)?;
        // Kernels before 5.8 do not tell the mount id; the path then has to do.
        let mount = mounts.by_id(stat.stx_mnt_id).or_else(|| mounts.mount_of(path));
        let mut facts = OriginFacts {
            path: path.to_path_buf(),
            dev: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
            ino: stat.stx_ino,
            submounts: mounts.below(path),
            git: git::facts(path),
            ..OriginFacts::default()
        };
        if let Some(mount) = mount {
            facts.fs_type.clone_from(&mount.fs_type);
            facts.mount_point.clone_from(&mount.mount_point);
            facts.mount_id = mount.id;
            facts.on_overlay = mount.fs_type == "overlay";
            facts.read_only = mount.read_only;
            facts.casefold = mount.is_casefold() && is_casefold_dir(&dir);
        }
        facts.fs_id = fs_id(dir.as_fd(), &facts.fs_type);
        facts.foreign = foreign_at_the_top(&dir, path, (stat.stx_uid, stat.stx_gid), &facts.git);
        Ok(facts)
    }
}

/// A key for what was found by trying on the filesystem of `dir`.
fn fs_id(dir: BorrowedFd<'_>, fs_type: &str) -> String {
    let id = rustix::fs::fstatvfs(dir).map(|stat| stat.f_fsid).unwrap_or_default();
    let clean: String = fs_type.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    format!("{clean}-{id:x}")
}

fn is_casefold_dir(dir: &OwnedFd) -> bool {
    rustix::fs::ioctl_getflags(dir).is_ok_and(|flags| flags.bits() & CASEFOLD_FLAG != 0)
}

fn foreign_at_the_top(dir: &OwnedFd, path: &Path, top: (u32, u32), git: &GitFacts) -> ForeignOwners {
    let mut found = ForeignOwners::default();
    let caller = caller();
    found.note(caller, top, || path.to_path_buf());
    look_at(dir.as_fd(), path, caller, LOOKED_AT, &mut found);
    if git.dot_git == DotGit::Dir && git.top.as_deref() == Some(path) {
        // A commit writes in these; one of them left behind by a privileged git is the usual trap.
        for name in [".git", ".git/refs", ".git/refs/heads", ".git/objects", ".git/objects/pack", ".git/logs"]
        {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(inner) = rustix::fs::openat(dir, name, flags, Mode::empty()) {
                look_at(inner.as_fd(), &path.join(name), caller, LOOKED_AT_IN_GIT, &mut found);
            }
        }
    }
    found
}

/// Looks at the owners of the names in one directory, up to a limit. What cannot be read is left out:
/// the background walk names it.
fn look_at(dir: BorrowedFd<'_>, path: &Path, caller: (u32, u32), limit: usize, found: &mut ForeignOwners) {
    let mut buffer = Vec::with_capacity(16 << 10);
    let mut names = RawDir::new(dir, buffer.spare_capacity_mut());
    let mut looked = 0;
    while let Some(Ok(name)) = names.next() {
        if matches!(name.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        looked += 1;
        if looked > limit {
            return;
        }
        let Ok(stat) = rustix::fs::statat(dir, name.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        // Nobody writes through a device or socket node; its owner does not matter.
        if matches!(FileType::from_raw_mode(stat.st_mode), FileType::Socket | FileType::CharacterDevice) {
            continue;
        }
        let name = name.file_name().to_bytes();
        found.note(caller, (stat.st_uid, stat.st_gid), || path.join(std::ffi::OsStr::from_bytes(name)));
    }
}

/// The user's own directory: links on the way are followed, since the user named the path.
pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(dir) => Ok(dir),
        Err(rustix::io::Errno::NOTDIR) => Err(Error::NotADirectory { path: path.to_path_buf() }),
        Err(errno) => Err(errno).asked("open", path_bytes(path)).doing("open directory", path),
    }
}

#[cfg(test)]
mod tests;
