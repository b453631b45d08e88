//! Extended attributes, by descriptor and by name in a directory.
//!
//! Invariant: never follows a symbolic link and never opens the file: a name is reached through
//! `/proc/self/fd/<dir>/<name>` with the `l` calls, so that links, FIFOs and unreadable files work too.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::error::{Asked, Result};
use crate::meta::proc_path;

/// Names as the kernel lists them, sorted. Empty on filesystems without attributes.
pub fn list(fd: impl AsFd) -> Result<Vec<Vec<u8>>> {
    let fd = fd.as_fd();
    let names = grow(|buffer| match rustix::fs::flistxattr(fd, &mut *buffer) {
        // An O_PATH descriptor is not good enough for the f-calls.
        Err(Errno::BADF) => rustix::fs::listxattr(proc_path(fd).as_slice(), buffer),
        answer => answer,
    });
    split(names).asked("flistxattr", b"")
}

/// The value of `name`, or `None` where there is no such attribute.
pub fn get(fd: impl AsFd, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let fd = fd.as_fd();
    let value = grow(|buffer| match rustix::fs::fgetxattr(fd, name, &mut *buffer) {
        Err(Errno::BADF) => rustix::fs::getxattr(proc_path(fd).as_slice(), name, buffer),
        answer => answer,
    });
    absent_is_none(value).asked("fgetxattr", name)
}

/// Sets `name` to `value`, whether it was there or not.
pub fn set(fd: impl AsFd, name: &[u8], value: &[u8]) -> Result<()> {
    let fd = fd.as_fd();
    let answer = match rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()) {
        Err(Errno::BADF) => rustix::fs::setxattr(proc_path(fd).as_slice(), name, value, XattrFlags::empty()),
        answer => answer,
    };
    answer.asked("fsetxattr", name)
}

/// Removes `name`; false where it was not there.
pub fn remove(fd: impl AsFd, name: &[u8]) -> Result<bool> {
    let fd = fd.as_fd();
    let answer = match rustix::fs::fremovexattr(fd, name) {
        Err(Errno::BADF) => rustix::fs::removexattr(proc_path(fd).as_slice(), name),
        answer => answer,
    };
    match answer {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(errno) => Err(errno).asked("fremovexattr", name),
    }
}

/// Names of the attributes of `file` in `dir` (the empty name: of `dir` itself), sorted.
pub fn list_at(dir: impl AsFd, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    if file.is_empty() {
        return list(dir);
    }
    let path = path_of(dir.as_fd(), file);
    split(grow(|buffer| rustix::fs::llistxattr(path.as_slice(), buffer))).asked("llistxattr", file)
}

/// The value of attribute `name` of `file` in `dir` (the empty name: of `dir` itself).
pub fn get_at(dir: impl AsFd, file: &[u8], name: &[u8]) -> Result<Option<Vec<u8>>> {
    if file.is_empty() {
        return get(dir, name);
    }
    let path = path_of(dir.as_fd(), file);
    absent_is_none(grow(|buffer| rustix::fs::lgetxattr(path.as_slice(), name, buffer)))
        .asked("lgetxattr", file)
}

/// Sets attribute `name` of `file` in `dir`.
pub fn set_at(dir: impl AsFd, file: &[u8], name: &[u8], value: &[u8]) -> Result<()> {
    let path = path_of(dir.as_fd(), file);
    rustix::fs::lsetxattr(path.as_slice(), name, value, XattrFlags::empty()).asked("lsetxattr", file)
}

/// Removes attribute `name` of `file` in `dir`; false where it was not there.
pub fn remove_at(dir: impl AsFd, file: &[u8], name: &[u8]) -> Result<bool> {
    let path = path_of(dir.as_fd(), file);
    match rustix::fs::lremovexattr(path.as_slice(), name) {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(errno) => Err(errno).asked("lremovexattr", file),
    }
}

fn path_of(dir: BorrowedFd<'_>, file: &[u8]) -> Vec<u8> {
    let mut path = proc_path(dir);
    path.push(b'/');
    path.extend_from_slice(file);
    path
}

/// Asks with a buffer on the stack first, which is enough nearly always, then with the size that the kernel names.
fn grow(mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut small = [0u8; 512];
    match ask(&mut small) {
        Ok(len) => return Ok(small[..len].to_vec()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    // 64 KiB is the kernel's limit for one value and for one list (XATTR_SIZE_MAX, XATTR_LIST_MAX).
    let mut large = vec![0u8; 64 * 1024];
    let len = ask(&mut large)?;
    large.truncate(len);
    Ok(large)
}

fn split(names: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Vec<Vec<u8>>> {
    match names {
        Ok(bytes) => {
            let mut names: Vec<Vec<u8>> =
                bytes.split(|b| *b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect();
            names.sort_unstable();
            Ok(names)
        }
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(errno) => Err(errno),
    }
}

fn absent_is_none(value: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Option<Vec<u8>>> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;

    #[test]
    fn attributes_are_read_and_written_by_descriptor_path_descriptor_and_name() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("f"), b"x").expect("write");
        let fd = open::root_dir(dir.path()).expect("open");
        let file = open::file_beneath(&fd, b"f").expect("open");
        let path = open::path_beneath(&fd, b"f").expect("open");
        let big = vec![b'v'; 2000];
        set(&file, b"user.one", b"1").expect("set");
        set(&path, b"user.two", b"").expect("set");
        set_at(&fd, b"f", b"user.three", &big).expect("set");
        for names in [list(&file), list(&path), list_at(&fd, b"f")] {
            assert_eq!(
                names.expect("list"),
                [b"user.one".to_vec(), b"user.three".to_vec(), b"user.two".to_vec()]
            );
        }
        assert_eq!(get(&file, b"user.three").expect("get"), Some(big.clone()));
        assert_eq!(get(&path, b"user.two").expect("get"), Some(Vec::new()));
        assert_eq!(get_at(&fd, b"f", b"user.none").expect("get"), None);
        assert!(remove(&file, b"user.one").expect("remove"));
        assert!(!remove_at(&fd, b"f", b"user.one").expect("remove"));
        assert!(remove(&path, b"user.two").expect("remove"));
    }

    #[test]
    fn a_fifo_and_a_link_are_never_opened() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = open::root_dir(dir.path()).expect("open");
        crate::node::mkfifo_at(&fd, b"p", 0o600).expect("mkfifo");
        crate::node::symlink_at(b"p", &fd, b"l").expect("symlink");
        assert!(list_at(&fd, b"p").expect("list").is_empty());
        assert!(list_at(&fd, b"l").expect("list").is_empty());
        let path = open::path_beneath(&fd, b"l").expect("open");
        assert!(list(&path).expect("list").is_empty());
    }
}
