//! A name in a directory of the lane, and how a caller's path becomes one.

use std::os::fd::{AsFd, OwnedFd};

use kernel::{Errno, Error, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

/// What a relative path starts from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Base {
    Cwd,
    Fd(i32),
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: OwnedFd,
    pub(super) name: Vec<u8>,
    /// The caller wrote slashes behind the name: it must be a directory.
    pub(super) slashes: bool,
}

impl Place {
    /// The name as the caller wrote it.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut name = self.name.clone();
        if self.slashes {
            name.push(b'/');
        }
        name
    }

    /// Device and inode of what stands there; zeros where nothing does.
    pub(super) fn inode(&self) -> (u64, u64) {
        stat(&self.parent, &self.name).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino))
    }
}

/// The caller's path as one that this process can use: absolute ones as they are (same root), relative
/// ones through the caller's /proc entry.
pub(crate) fn reach(tid: u32, base: Base, path: &[u8]) -> (bool, Vec<u8>) {
    if path.starts_with(b"/") {
        return (false, path.to_vec());
    }
    let mut through = match base {
        Base::Cwd => format!("{tid}/cwd/"),
        Base::Fd(fd) => format!("{tid}/fd/{fd}/"),
    }
    .into_bytes();
    through.extend_from_slice(path);
    (true, through)
}

/// What the caller's path names, a link itself; `None` where nothing is seen.
pub(super) fn look(proc: &OwnedFd, tid: u32, base: Base, path: &[u8]) -> Option<Stat> {
    let (relative, path) = reach(tid, base, path);
    let start = if relative { proc.as_fd() } else { rustix::fs::CWD };
    rustix::fs::statat(start, &*path, AtFlags::SYMLINK_NOFOLLOW).ok()
}

pub(super) fn is_dir(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

/// True where both may be names of one file, whatever inode number each of them shows: an overlay as a user
/// numbers the names of a link one by one.
pub(super) fn may_be_one_file(one: &Stat, other: &Stat) -> bool {
    let state = |stat: &Stat| {
        let changed = (stat.st_ctime, stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec);
        (stat.st_mode, stat.st_uid, stat.st_gid, stat.st_size, changed)
    };
    !is_dir(one) && one.st_nlink > 1 && other.st_nlink > 1 && state(one) == state(other)
}

/// The directory and the last name of a path; `None` where the last name is no plain name.
pub(super) fn place(proc: &OwnedFd, tid: u32, base: Base, path: &[u8]) -> Result<Option<Place>> {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |last| last + 1);
    let slashes = end < path.len();
    let path = &path[..end];
    let cut = path.iter().rposition(|b| *b == b'/');
    let name = &path[cut.map_or(0, |cut| cut + 1)..];
    if name.is_empty() || name == b"." || name == b".." {
        return Ok(None);
    }
    let parent = match cut {
        None => b"." as &[u8],
        Some(0) => b"/",
        Some(cut) => &path[..cut],
    };
    let (relative, parent) = reach(tid, base, parent);
    let start = if relative { proc.as_fd() } else { rustix::fs::CWD };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat(start, &*parent, flags, Mode::empty())
        .map_err(|errno| Error::new("openat", &parent, errno))?;
    // An O_PATH descriptor of /proc/TID/cwd names the magic link's target, as wanted.
    Ok(Some(Place { parent, name: name.to_vec(), slashes }))
}

/// The directory `name` in `dir`, for reading.
pub(super) fn open_dir(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|errno| asked("openat", name, errno))
}

/// The directory at an absolute path in the lane.
pub(super) fn open_abs(path: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| asked("open", path, errno))
}

/// A second descriptor of the same directory.
pub(super) fn same(dir: &OwnedFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(dir, 3).map_err(|errno| asked("fcntl", b"F_DUPFD_CLOEXEC", errno))
}

/// What stands at `name`, a link itself.
pub(super) fn stat(dir: impl AsFd, name: &[u8]) -> Result<Stat> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| asked("fstatat", name, errno))
}

pub(super) fn asked(call: &'static str, name: &[u8], errno: Errno) -> Error {
    Error::new(call, name, errno)
}
