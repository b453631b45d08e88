//! Putting things under their final names: the only renames of the project.
//!
//! Invariant: a reader of the final name sees the old content or the new, whole, never a piece; after
//! `Ok` both the bytes and the name are on disk (but for what says that it is not synced). Rests on rename(2), fsync(2).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::{Asked, Error, Result};
use crate::open::retry;

/// Front of every temporary name that this module makes, so that leftovers of a crash can be known.
pub const TEMP_PREFIX: &[u8] = b".lk-tmp-";

/// Writes `bytes` to a temporary name, syncs, renames it over `name` and syncs the directory.
/// `mode` holds exactly, whatever the umask says.
pub fn write_file(dir: impl AsFd, name: &[u8], bytes: &[u8], mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    let temp = write_temp(dir, bytes, mode)?;
    rename_replace(dir, &temp, dir, name).inspect_err(|_| forget(dir, &temp))?;
    sync_dir(dir)
}

/// As [`write_file`], but refuses with `EEXIST` where `name` is taken.
pub fn write_new_file(dir: impl AsFd, name: &[u8], bytes: &[u8], mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    let temp = write_temp(dir, bytes, mode)?;
    rename_noreplace(dir, &temp, dir, name).inspect_err(|_| forget(dir, &temp))?;
    sync_dir(dir)
}

/// Makes `name` a symbolic link that says `target`, in the place of whatever link stood there: a reader sees one or the
/// other. Not synced; a link's target never comes to disk later than its name.
pub fn write_link(dir: impl AsFd, name: &[u8], target: &[u8]) -> Result<()> {
    let dir = dir.as_fd();
    let temp = temp_name();
    crate::node::symlink_at(target, dir, &temp)?;
    rename_replace(dir, &temp, dir, name).inspect_err(|_| forget(dir, &temp))
}

/// As [`write_file`] without waiting for the disk: after a power failure it may be gone, old, or hold anything. For
/// what can be made anew and is checked when it is read.
pub fn write_passing_file(dir: impl AsFd, name: &[u8], bytes: &[u8], mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    let (fd, temp) = temp_file(dir, mode)?;
    crate::bytes::write_all_at(&fd, bytes, 0)
        .and_then(|()| rename_replace(dir, &temp, dir, name))
        .inspect_err(|_| forget(dir, &temp))
}

/// Makes an empty file under a fresh temporary name in `dir`, for reading and writing. Whoever asks
/// renames or removes it.
pub fn temp_file(dir: impl AsFd, mode: u32) -> Result<(OwnedFd, Vec<u8>)> {
    let dir = dir.as_fd();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..128 {
        let name = temp_name();
        match retry(|| rustix::fs::openat(dir, name.as_slice(), flags, Mode::from_raw_mode(mode & 0o777))) {
            Ok(fd) => return Ok((fd, name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).asked("openat", &name),
        }
    }
    Err(Error::new("openat", TEMP_PREFIX, Errno::EXIST))
}

/// A file that is written before it has a name, so that a kill at any point leaves nothing behind. Where the
/// filesystem has no unnamed files, it stands under a temporary name that is removed when this is dropped.
#[derive(Debug)]
pub struct Draft {
    /// Where the temporary name stands, if there is one.
    dir: OwnedFd,
    fd: OwnedFd,
    temp: Option<Vec<u8>>,
}

impl Draft {
    /// An empty file for reading and writing on the filesystem of `dir`. `mode` is subject to the umask.
    pub fn begin(dir: impl AsFd, mode: u32) -> Result<Draft> {
        let dir = crate::open::path_beneath(dir, b"")?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match retry(|| rustix::fs::openat(&dir, c".", flags, Mode::from_raw_mode(mode & 0o777))) {
            Ok(fd) => Ok(Draft { dir, fd, temp: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                let (fd, temp) = temp_file(&dir, mode)?;
                Ok(Draft { dir, fd, temp: Some(temp) })
            }
            Err(errno) => Err(errno).asked("openat", b"O_TMPFILE"),
        }
    }

    /// Gives the file its name in `dir` and syncs that directory; false where the name is taken, which leaves what
    /// stands there. The content must have been synced before.
    pub fn publish(mut self, dir: impl AsFd, name: &[u8]) -> Result<bool> {
        let dir = dir.as_fd();
        let answer = match &self.temp {
            Some(temp) => rename_noreplace(&self.dir, temp, dir, name),
            None => {
                let path = crate::meta::proc_path(self.fd.as_fd());
                let (cwd, flags) = (rustix::fs::CWD, AtFlags::SYMLINK_FOLLOW);
                retry(|| rustix::fs::linkat(cwd, path.as_slice(), dir, name, flags)).asked("linkat", name)
            }
        };
        let published = match answer {
            Ok(()) => {
                self.temp = None;
                true
            }
            Err(error) if error.errno == Errno::EXIST => false,
            Err(error) => return Err(error),
        };
        sync_dir(dir)?;
        Ok(published)
    }
}

impl Draft {
    /// The file without a name: it goes with the last descriptor.
    pub fn into_unnamed(self) -> Result<OwnedFd> {
        self.fd.try_clone().map_err(|error| Error::from_io("dup", b"", &error))
    }
}

impl AsFd for Draft {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temp) = &self.temp {
            forget(self.dir.as_fd(), temp);
        }
    }
}

/// A name that nobody else in this boot uses.
pub fn temp_name() -> Vec<u8> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let pid = rustix::process::getpid().as_raw_nonzero();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let mut name = TEMP_PREFIX.to_vec();
    name.extend_from_slice(format!("{pid:x}-{count:x}-{:x}", now.tv_nsec).as_bytes());
    name
}

/// Renames, replacing what stands at the new name.
pub fn rename_replace(from_dir: impl AsFd, from: &[u8], to_dir: impl AsFd, to: &[u8]) -> Result<()> {
    let (from_dir, to_dir) = (from_dir.as_fd(), to_dir.as_fd());
    retry(|| rustix::fs::renameat(from_dir, from, to_dir, to)).asked("renameat", to)
}

/// Renames; `EEXIST` where the new name is taken.
pub fn rename_noreplace(from_dir: impl AsFd, from: &[u8], to_dir: impl AsFd, to: &[u8]) -> Result<()> {
    let (from_dir, to_dir) = (from_dir.as_fd(), to_dir.as_fd());
    match retry(|| rustix::fs::renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE)) {
        // Some filesystems know no flags. A hard link refuses a taken name as well.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let stat = crate::meta::stat_at(from_dir, from)?;
            if stat.file_type() == FileType::Directory {
                return Err(Error::new("renameat2", to, Errno::INVAL));
            }
            retry(|| rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())).asked("linkat", to)?;
            crate::node::unlink_at(from_dir, from)
        }
        answer => answer.asked("renameat2", to),
    }
}

/// Exchanges two names in one step; both must exist.
pub fn rename_exchange(a_dir: impl AsFd, a: &[u8], b_dir: impl AsFd, b: &[u8]) -> Result<()> {
    let (a_dir, b_dir) = (a_dir.as_fd(), b_dir.as_fd());
    retry(|| rustix::fs::renameat_with(a_dir, a, b_dir, b, RenameFlags::EXCHANGE)).asked("renameat2", b)
}

/// Puts the names of a directory on disk. Takes an `O_PATH` descriptor too.
pub fn sync_dir(dir: impl AsFd) -> Result<()> {
    let dir = dir.as_fd();
    match retry(|| rustix::fs::fsync(dir)) {
        Err(Errno::BADF) => {
            let again = crate::open::dir_beneath(dir, b"")?;
            retry(|| rustix::fs::fsync(&again)).asked("fsync", b"")
        }
        // A filesystem that cannot sync a directory has nothing to sync.
        Err(Errno::INVAL | Errno::ROFS) => Ok(()),
        answer => answer.asked("fsync", b""),
    }
}

/// Puts the content of a file on disk.
pub fn sync_file(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    retry(|| rustix::fs::fsync(file)).asked("fsync", b"")
}

/// Puts the content of a file on disk, and of its metadata what is needed to read it again.
pub fn sync_data(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    retry(|| rustix::fs::fdatasync(file)).asked("fdatasync", b"")
}

/// Puts everything of the filesystem that `fd` is on on disk, in one call.
pub fn sync_filesystem(fd: impl AsFd) -> Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::syncfs(fd)).asked("syncfs", b"")
}

fn write_temp(dir: std::os::fd::BorrowedFd<'_>, bytes: &[u8], mode: u32) -> Result<Vec<u8>> {
    let (fd, temp) = temp_file(dir, 0o600)?;
    let filled = crate::bytes::write_all_at(&fd, bytes, 0)
        .and_then(|()| crate::meta::set_mode_fd(&fd, mode))
        .and_then(|()| sync_file(&fd));
    match filled {
        Ok(()) => Ok(temp),
        Err(error) => {
            forget(dir, &temp);
            Err(error)
        }
    }
}

/// Removes a temporary name; the error that led here says more than a failure of this would.
fn forget(dir: std::os::fd::BorrowedFd<'_>, temp: &[u8]) {
    let _ = crate::node::unlink_at(dir, temp);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::dir::entries;

    fn dir() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = crate::open::root_dir(dir.path()).expect("open");
        (dir, fd)
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_exact_mode_and_nothing_is_left() {
        let (keep, fd) = dir();
        write_file(&fd, b"f", b"one", 0o666).expect("write");
        write_file(&fd, b"f", b"two", 0o666).expect("write");
        assert_eq!(std::fs::read(keep.path().join("f")).expect("read"), b"two");
        assert_eq!(
            std::fs::metadata(keep.path().join("f")).expect("stat").permissions().mode() & 0o7777,
            0o666
        );
        assert_eq!(entries(&fd).expect("list").len(), 1);
    }

    #[test]
    fn a_passing_file_is_replaced_whole_and_nothing_is_left() {
        let (keep, fd) = dir();
        write_passing_file(&fd, b"f", b"one", 0o600).expect("write");
        write_passing_file(&fd, b"f", b"two", 0o600).expect("write");
        assert_eq!(std::fs::read(keep.path().join("f")).expect("read"), b"two");
        std::fs::create_dir(keep.path().join("d")).expect("mkdir");
        assert!(write_passing_file(&fd, b"d", b"x", 0o600).is_err());
        assert_eq!(entries(&fd).expect("list").len(), 2);
    }

    #[test]
    fn a_taken_name_is_refused_and_the_temporary_is_gone() {
        let (keep, fd) = dir();
        std::fs::create_dir(keep.path().join("d")).expect("mkdir");
        assert_eq!(write_new_file(&fd, b"d", b"x", 0o600).expect_err("taken").errno, Errno::EXIST);
        assert!(write_file(&fd, b"d", b"x", 0o600).is_err());
        assert_eq!(entries(&fd).expect("list").len(), 1);
    }

    #[test]
    fn names_are_exchanged_and_never_silently_replaced() {
        let (keep, fd) = dir();
        std::fs::write(keep.path().join("a"), b"A").expect("write");
        std::fs::create_dir(keep.path().join("b")).expect("mkdir");
        rename_exchange(&fd, b"a", &fd, b"b").expect("exchange");
        assert!(keep.path().join("a").is_dir());
        assert_eq!(std::fs::read(keep.path().join("b")).expect("read"), b"A");
        assert_eq!(rename_noreplace(&fd, b"b", &fd, b"a").expect_err("taken").errno, Errno::EXIST);
        rename_noreplace(&fd, b"b", &fd, b"c").expect("rename");
        assert!(keep.path().join("c").is_file());
    }

    #[test]
    fn a_link_is_replaced_whole_and_nothing_is_left() {
        let (_keep, fd) = dir();
        for target in [b"one".as_slice(), b"a longer one", b"two"] {
            write_link(&fd, b"l", target).expect("write");
            assert_eq!(crate::meta::read_link_at(&fd, b"l").expect("read"), target);
        }
        assert_eq!(entries(&fd).expect("list").len(), 1);
    }

    #[test]
    fn a_draft_has_no_name_before_it_is_published_and_replaces_nothing() {
        let (keep, fd) = dir();
        let draft = Draft::begin(&fd, 0o400).expect("begin");
        crate::bytes::write_all_at(&draft, b"one", 0).expect("write");
        sync_data(&draft).expect("sync");
        assert!(entries(&fd).expect("list").is_empty());
        assert!(draft.publish(&fd, b"f").expect("publish"));
        assert_eq!(std::fs::read(keep.path().join("f")).expect("read"), b"one");
        assert!(!Draft::begin(&fd, 0o600).expect("begin").publish(&fd, b"f").expect("taken"));
        assert_eq!(std::fs::read(keep.path().join("f")).expect("read"), b"one");
        drop(Draft::begin(&fd, 0o600).expect("begin"));
        assert_eq!(entries(&fd).expect("list").len(), 1);
    }

    #[test]
    fn a_directory_is_synced_through_a_path_descriptor_too() {
        let (_keep, fd) = dir();
        let path = crate::open::path_beneath(&fd, b"").expect("open");
        sync_dir(&path).expect("sync");
        write_file(&path, b"f", b"x", 0o600).expect("write");
    }
}
