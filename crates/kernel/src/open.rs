//! Opening below a directory descriptor. Owns the promise that no component is a symbolic link and
//! that the result lies beneath the directory.
//!
//! Invariant: nothing here blocks (`O_NONBLOCK` wherever a FIFO could stand), leaks into a child
//! (`O_CLOEXEC`) or leaves the directory. Rests on openat2(2); where the kernel or a filter refuses
//! it, components are walked one by one, which gives the same answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Asked, Error, Result, path_bytes};
use crate::meta::RawStat;

/// Longest piece of a path given to one call; `PATH_MAX` counts the closing NUL.
const PIECE: usize = 4000;

/// Set once the kernel has said that it has no openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// A directory by the user's own path (links are followed), for reading.
pub fn root_dir(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(rustix::fs::CWD, path, flags, Mode::empty())).asked("open", path_bytes(path))
}

/// Opens `/dev/null` for reading and writing.
pub fn null() -> Result<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).asked("open", "/dev/null")
}

/// The regular file behind a descriptor, opened anew for reading: with a position of its own, whatever became of its name.
pub fn again(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = crate::meta::proc_path(file);
    rustix::fs::open(path.as_slice(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).asked("open", &path)
}

/// Opens `path` beneath `dir`. No component may be a symbolic link, except that the last one may be
/// one where `flags` holds `O_PATH`. `b""` and `b"."` open `dir` itself anew.
///
/// `..` and absolute paths are refused with `EXDEV`, a link on the way with `ELOOP`.
pub fn open_beneath(dir: impl AsFd, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    if path.first() == Some(&b'/') || path.split(|b| *b == b'/').any(|name| name == b"..") {
        return Err(Error::new("openat2", path, Errno::XDEV));
    }
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    // A path that is longer than the kernel takes goes in pieces, each from where the last one ended.
    let mut rest = path;
    let mut at: Option<OwnedFd> = None;
    loop {
        let from = at.as_ref().map_or(dir, AsFd::as_fd);
        let (piece, left) = front(rest);
        if left.is_empty() {
            return piece_beneath(from, piece, flags, mode).asked("openat2", path);
        }
        let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = Some(piece_beneath(from, piece, on_the_way, Mode::empty()).asked("openat2", path)?);
        rest = left;
    }
}

/// The directory at `path` beneath `dir`, for reading.
pub fn dir_beneath(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd> {
    open_beneath(dir, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// The directory at `path` beneath `dir`, unless the way to it or it itself is the root of another
/// mount: then `EXDEV`. On kernels without openat2 the last component alone is checked.
pub fn dir_beneath_same_mount(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if !NO_OPENAT2.load(Ordering::Relaxed) && path.len() <= PIECE {
        let resolve = strict() | ResolveFlags::NO_XDEV;
        match retry(|| rustix::fs::openat2(dir, dot(path), flags, Mode::empty(), resolve)) {
            Err(Errno::NOSYS) => NO_OPENAT2.store(true, Ordering::Relaxed),
            Err(Errno::PERM) => {}
            answer => return answer.asked("openat2", path),
        }
    }
    let fd = dir_beneath(dir, path)?;
    let stat = crate::meta::stat_fd(&fd)?;
    let crossed = match stat.mount_root {
        Some(root) => root && !path.is_empty(),
        None => stat.dev != crate::meta::stat_fd(dir)?.dev,
    };
    if crossed { Err(Error::new("openat2", path, Errno::XDEV)) } else { Ok(fd) }
}

/// The regular file at `path` beneath `dir`, for reading. Anything else is refused: a directory with
/// `EISDIR`, a link with `ELOOP`, other types with `EINVAL`.
pub fn file_beneath(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd> {
    file_seen_beneath(dir, path).map(|(file, _)| file)
}

/// As [`file_beneath`], with what the open file is.
pub fn file_seen_beneath(dir: impl AsFd, path: &[u8]) -> Result<(OwnedFd, RawStat)> {
    let fd = open_beneath(dir, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?;
    // The name may have been swapped since the caller looked: what counts is what was opened.
    let stat = crate::meta::stat_fd(&fd)?;
    match stat.file_type() {
        FileType::RegularFile => Ok((fd, stat)),
        FileType::Directory => Err(Error::new("openat2", path, Errno::ISDIR)),
        _ => Err(Error::new("openat2", path, Errno::INVAL)),
    }
}

/// What stands under the single name `name` in `dir`, for reading: not followed, never blocking, and without
/// moving its access time where we own it. The caller looks at what was opened.
pub fn name_in(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    if name.contains(&b'/') || name == b".." {
        return Err(Error::new("openat", name, Errno::XDEV));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match retry(|| rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty())) {
        Err(Errno::PERM) => retry(|| rustix::fs::openat(dir, name, flags, Mode::empty())),
        answer => answer,
    }
    .asked("openat", name)
}

/// The regular file `name` in `dir` for reading and writing, made with `mode` where it is missing.
pub fn log_in(dir: impl AsFd, name: &[u8], mode: u32) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode & 0o777))).asked("openat", name)
}

/// As [`log_in`], where the file has to be there.
pub fn log_there(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat(dir, name, flags, Mode::empty())).asked("openat", name)
}

/// An `O_PATH` descriptor of whatever stands at `path` beneath `dir`, the link itself where it is one.
pub fn path_beneath(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd> {
    open_beneath(dir, path, OFlags::PATH, Mode::empty())
}

/// The directory that holds `path` (opened as `O_PATH`), and the last name. The empty path has no parent: `EINVAL`.
pub fn parent_beneath(dir: impl AsFd, path: &[u8]) -> Result<(OwnedFd, Vec<u8>)> {
    let (parent, name) = match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Error::new("openat2", path, Errno::INVAL));
    }
    let fd = open_beneath(dir, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    Ok((fd, name.to_vec()))
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

fn strict() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

fn dot(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// The longest front of `path` that ends at a slash and fits into one call, and what is left.
fn front(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= PIECE {
        return (path, b"");
    }
    match path[..PIECE].iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (path, b""),
    }
}

fn piece_beneath(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    if !NO_OPENAT2.load(Ordering::Relaxed) {
        match retry(|| rustix::fs::openat2(dir, dot(path), flags, mode, strict())) {
            Err(Errno::NOSYS) => NO_OPENAT2.store(true, Ordering::Relaxed),
            // Filters of older container runtimes answer EPERM; a real EPERM comes back from the walk.
            Err(Errno::PERM) => {}
            answer => return answer,
        }
    }
    checked_walk(dir, path, flags, mode)
}

/// One component after the other, each without following a link.
fn checked_walk(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let names: Vec<&[u8]> =
        path.split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    let Some((last, parents)) = names.split_last() else {
        return retry(|| rustix::fs::openat(dir, b"." as &[u8], flags, mode));
    };
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: Option<OwnedFd> = None;
    for name in parents {
        let from = at.as_ref().map_or(dir, AsFd::as_fd);
        let next = retry(|| rustix::fs::openat(from, *name, step, Mode::empty()));
        at = Some(next.map_err(|errno| link_says_loop(from, name, errno))?);
    }
    let from = at.as_ref().map_or(dir, AsFd::as_fd);
    retry(|| rustix::fs::openat(from, *last, flags, mode)).map_err(|errno| link_says_loop(from, last, errno))
}

/// `O_DIRECTORY|O_NOFOLLOW` on a link answers ENOTDIR where openat2 answers ELOOP.
fn link_says_loop(dir: BorrowedFd<'_>, name: &[u8], errno: Errno) -> Errno {
    if errno != Errno::NOTDIR {
        return errno;
    }
    match rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Errno::LOOP,
        _ => errno,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir_all(dir.path().join("a/b")).expect("mkdir");
        std::fs::write(dir.path().join("a/b/f"), b"one").expect("write");
        symlink("a", dir.path().join("link")).expect("symlink");
        symlink("f", dir.path().join("a/b/l")).expect("symlink");
        let fd = root_dir(dir.path()).expect("open");
        (dir, fd)
    }

    /// Both ways of opening must give the same answer.
    fn both(dir: &OwnedFd, path: &[u8], flags: OFlags) -> std::result::Result<(), Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let walked = checked_walk(dir.as_fd(), path, flags, Mode::empty()).map(drop);
        let asked = open_beneath(dir, path, flags, Mode::empty()).map(drop).map_err(|e| e.errno);
        assert_eq!(walked, asked, "{}", path.escape_ascii());
        asked
    }

    #[test]
    fn the_checked_walk_answers_like_openat2() {
        let (_keep, dir) = tree();
        assert_eq!(both(&dir, b"a/b/f", OFlags::RDONLY), Ok(()));
        assert_eq!(both(&dir, b"", OFlags::RDONLY | OFlags::DIRECTORY), Ok(()));
        assert_eq!(both(&dir, b".", OFlags::RDONLY | OFlags::DIRECTORY), Ok(()));
        assert_eq!(both(&dir, b"link/b/f", OFlags::RDONLY), Err(Errno::LOOP));
        assert_eq!(both(&dir, b"a/b/l", OFlags::RDONLY), Err(Errno::LOOP));
        assert_eq!(both(&dir, b"a/b/l", OFlags::PATH), Ok(()));
        assert_eq!(both(&dir, b"a/b/f/x", OFlags::RDONLY), Err(Errno::NOTDIR));
        assert_eq!(both(&dir, b"a/none", OFlags::RDONLY), Err(Errno::NOENT));
    }

    #[test]
    fn leaving_the_directory_is_refused() {
        let (_keep, dir) = tree();
        for path in [b"../x" as &[u8], b"a/../../x", b"/etc", b"a/.."] {
            let error = open_beneath(&dir, path, OFlags::PATH, Mode::empty()).expect_err("refused");
            assert_eq!(error.errno, Errno::XDEV);
        }
    }

    #[test]
    fn a_fifo_is_refused_without_blocking() {
        let (keep, dir) = tree();
        rustix::fs::mkfifoat(&dir, "p", Mode::RUSR | Mode::WUSR).expect("mkfifo");
        assert_eq!(file_beneath(&dir, b"p").expect_err("refused").errno, Errno::INVAL);
        assert_eq!(file_beneath(&dir, b"a").expect_err("refused").errno, Errno::ISDIR);
        drop(keep);
    }

    #[test]
    fn a_path_longer_than_the_kernel_takes_is_opened_in_pieces() {
        let (_keep, dir) = tree();
        let name = vec![b'n'; 200];
        let mut path = Vec::new();
        let mut at = rustix::io::fcntl_dupfd_cloexec(&dir, 0).expect("dup");
        for _ in 0..60 {
            rustix::fs::mkdirat(&at, name.as_slice(), Mode::RWXU).expect("mkdir");
            at = dir_beneath(&at, &name).expect("open");
            path.extend_from_slice(&name);
            path.push(b'/');
        }
        path.pop();
        let far = dir_beneath(&dir, &path).expect("open");
        let (parent, last) = parent_beneath(&dir, &path).expect("parent");
        assert_eq!(last, name);
        let one = rustix::fs::fstat(&far).expect("fstat").st_ino;
        let two = rustix::fs::statat(&parent, last.as_slice(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .expect("stat")
            .st_ino;
        assert_eq!(one, two);
    }
}
