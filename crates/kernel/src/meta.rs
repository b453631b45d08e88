//! Metadata in and out, by descriptor and by name in a directory. Never follows a symbolic link.
//!
//! Rests on statx(2), utimensat(2) and, for modes of what may be a link, on fchmod through
//! `/proc/self/fd`, which every kernel since 2.6.39 understands.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Statx, StatxAttributes, StatxFlags, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::error::{Asked, Error, Result};
use crate::open::retry;

/// How much of a filesystem is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the caller may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The room on the filesystem of an open file or directory, by statvfs(3).
pub fn room(fd: impl AsFd) -> Result<Room> {
    let stat = retry(|| rustix::fs::fstatvfs(fd.as_fd())).asked("fstatvfs", b"")?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Room { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
}

/// True for a filesystem in memory (tmpfs, ramfs). There a store through a shared mapping changes no time, ever.
pub fn is_in_memory(fd: impl AsFd) -> Result<bool> {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    let stat = retry(|| rustix::fs::fstatfs(fd.as_fd())).asked("fstatfs", b"")?;
    // The magic number is 32 bits; the field is wider, and signed on some machines.
    Ok(matches!(stat.f_type as u32, TMPFS | RAMFS))
}

/// What statx says about one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawStat {
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Inode number.
    pub ino: u64,
    /// Hard links.
    pub nlink: u64,
    /// Device, `major << 32 | minor`.
    pub dev: u64,
    /// The device that a device node names, `major << 32 | minor`.
    pub rdev: u64,
    /// Modification time: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Status change time: seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// Whether this is the root of a mount; `None` on kernels that do not say (before 5.8).
    pub mount_root: Option<bool>,
}

impl RawStat {
    /// The type.
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// The permission bits, set-id and sticky included.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// True for a character device 0:0, the kernel's whiteout.
    pub fn is_whiteout(&self) -> bool {
        self.file_type() == FileType::CharacterDevice && self.rdev == 0
    }

    /// Device and inode: which file this is.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

fn device(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

fn raw(stat: &Statx) -> RawStat {
    let says_root = stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    RawStat {
        mode: u32::from(stat.stx_mode),
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        ino: stat.stx_ino,
        nlink: u64::from(stat.stx_nlink),
        dev: device(stat.stx_dev_major, stat.stx_dev_minor),
        rdev: device(stat.stx_rdev_major, stat.stx_rdev_minor),
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        mount_root: says_root.then(|| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
    }
}

/// Stats `name` in `dir` without following it and without triggering an automount. The empty name is `dir` itself.
pub fn stat_at(dir: impl AsFd, name: &[u8]) -> Result<RawStat> {
    let dir = dir.as_fd();
    let mut flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if name.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    let stat = retry(|| rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)).asked("statx", name)?;
    Ok(raw(&stat))
}

/// When the inode `name` in `dir` was made; `None` where the filesystem does not say. A number of an inode is given out
/// again once it is gone, and this tells the two apart.
pub fn birth_at(dir: impl AsFd, name: &[u8]) -> Result<Option<(i64, u32)>> {
    let dir = dir.as_fd();
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = retry(|| rustix::fs::statx(dir, name, flags, StatxFlags::BTIME)).asked("statx", name)?;
    let is_told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    Ok(is_told.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)))
}

/// As [`stat_at`]; `None` where there is no such name.
pub fn stat_at_if_there(dir: impl AsFd, name: &[u8]) -> Result<Option<RawStat>> {
    match stat_at(dir, name) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stats what `fd` refers to (`O_PATH` is enough).
pub fn stat_fd(fd: impl AsFd) -> Result<RawStat> {
    stat_at(fd, b"")
}

/// The target of the symbolic link `name` in `dir`; with the empty name, of the link that `dir` (an `O_PATH` descriptor) is.
pub fn read_link_at(dir: impl AsFd, name: &[u8]) -> Result<Vec<u8>> {
    let dir = dir.as_fd();
    let target = retry(|| rustix::fs::readlinkat(dir, name, Vec::new())).asked("readlinkat", name)?;
    Ok(target.into_bytes())
}

fn timestamps(mtime: (i64, u32)) -> Timestamps {
    let time = Timespec { tv_sec: mtime.0, tv_nsec: mtime.1.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Sets access and modification time of `name` in `dir` (a link: of the link) to `mtime`.
pub fn set_times_at(dir: impl AsFd, name: &[u8], mtime: (i64, u32)) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::utimensat(dir, name, &timestamps(mtime), AtFlags::SYMLINK_NOFOLLOW))
        .asked("utimensat", name)
}

/// Gives `name` in `dir` (a link: the link) the time of now, as a write would.
pub fn touch_at(dir: impl AsFd, name: &[u8]) -> Result<()> {
    let (dir, now) = (dir.as_fd(), Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW });
    let times = Timestamps { last_access: now, last_modification: now };
    retry(|| rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)).asked("utimensat", name)
}

/// Sets access and modification time of an open file or directory to `mtime`.
pub fn set_times_fd(fd: impl AsFd, mtime: (i64, u32)) -> Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::futimens(fd, &timestamps(mtime))).asked("futimens", b"")
}

/// Sets the permission bits (`07777`) of an open file or directory (not `O_PATH`).
pub fn set_mode_fd(fd: impl AsFd, mode: u32) -> Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o7777))).asked("fchmod", b"")
}

/// Sets the permission bits of what an `O_PATH` descriptor refers to; a link is refused with `EOPNOTSUPP`.
pub fn set_mode_path_fd(fd: impl AsFd, mode: u32) -> Result<()> {
    let path = proc_path(fd.as_fd());
    let mode = Mode::from_raw_mode(mode & 0o7777);
    retry(|| rustix::fs::chmodat(rustix::fs::CWD, path.as_slice(), mode, AtFlags::empty()))
        .asked("chmod", &path)
}

/// Sets the permission bits of `name` in `dir`. A symbolic link has none: `EOPNOTSUPP`.
pub fn set_mode_at(dir: impl AsFd, name: &[u8], mode: u32) -> Result<()> {
    let fd = crate::open::path_beneath(dir, name)?;
    if stat_fd(&fd)?.file_type() == FileType::Symlink {
        return Err(Error::new("fchmodat", name, Errno::OPNOTSUPP));
    }
    set_mode_path_fd(&fd, mode)
}

/// Sets owner and group of `name` in `dir` (a link: of the link).
pub fn set_owner_at(dir: impl AsFd, name: &[u8], uid: u32, gid: u32) -> Result<()> {
    let dir = dir.as_fd();
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    retry(|| rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)).asked("fchownat", name)
}

/// Sets owner and group of an open file or directory.
pub fn set_owner_fd(fd: impl AsFd, uid: u32, gid: u32) -> Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))).asked("fchown", b"")
}

/// The path under which this process sees one of its own descriptors.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> Vec<u8> {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn times_of_a_link_are_set_on_the_link_to_the_nanosecond() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("f"), b"x").expect("write");
        symlink("f", dir.path().join("l")).expect("symlink");
        let fd = crate::open::root_dir(dir.path()).expect("open");
        let before = stat_at(&fd, b"f").expect("stat").mtime;
        set_times_at(&fd, b"l", (-7, 123_456_789)).expect("times");
        assert_eq!(stat_at(&fd, b"l").expect("stat").mtime, (-7, 123_456_789));
        assert_eq!(stat_at(&fd, b"f").expect("stat").mtime, before);
        assert_eq!(read_link_at(&fd, b"l").expect("link"), b"f");
    }

    #[test]
    fn a_mode_is_set_by_name_but_never_through_a_link() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("f"), b"x").expect("write");
        symlink("f", dir.path().join("l")).expect("symlink");
        let fd = crate::open::root_dir(dir.path()).expect("open");
        set_mode_at(&fd, b"f", 0o4711).expect("chmod");
        assert_eq!(stat_at(&fd, b"f").expect("stat").permissions(), 0o4711);
        assert_eq!(set_mode_at(&fd, b"l", 0o600).expect_err("a link has no mode").errno, Errno::OPNOTSUPP);
        assert_eq!(stat_at(&fd, b"f").expect("stat").permissions(), 0o4711);
    }

    #[test]
    fn a_filesystem_in_memory_is_told_from_one_on_disk() {
        let at = |path: &str| is_in_memory(crate::open::root_dir(std::path::Path::new(path)).expect("open"));
        assert!(at("/dev/shm").expect("tmpfs"));
        assert!(!at("/proc").expect("proc"));
    }

    #[test]
    fn the_root_of_a_mount_is_known_as_one() {
        let proc = crate::open::root_dir(std::path::Path::new("/")).expect("open");
        assert_eq!(stat_at(&proc, b"proc").expect("stat").mount_root, Some(true));
        assert_eq!(stat_at(&proc, b"usr").expect("stat").mount_root, Some(false));
        assert_eq!(stat_at_if_there(&proc, b"no such name").expect("stat"), None);
    }
}
