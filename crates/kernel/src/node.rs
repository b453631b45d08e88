//! Making and removing names: directories, links, FIFOs, whiteouts. One call each, by directory descriptor.
//!
//! Invariant: nothing here replaces an existing name.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Mode};

use crate::error::{Asked, Result};
use crate::open::retry;

/// Makes a directory; `mode` is subject to the umask.
pub fn mkdir_at(dir: impl AsFd, name: &[u8], mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))).asked("mkdirat", name)
}

/// Makes a symbolic link `name` that says `target`.
pub fn symlink_at(target: &[u8], dir: impl AsFd, name: &[u8]) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::symlinkat(target, dir, name)).asked("symlinkat", name)
}

/// Gives the file `old` in `old_dir` a further name. A link is linked itself, not followed.
pub fn link_at(old_dir: impl AsFd, old: &[u8], dir: impl AsFd, name: &[u8]) -> Result<()> {
    let (old_dir, dir) = (old_dir.as_fd(), dir.as_fd());
    retry(|| rustix::fs::linkat(old_dir, old, dir, name, AtFlags::empty())).asked("linkat", name)
}

/// Makes a FIFO; `mode` is subject to the umask.
pub fn mkfifo_at(dir: impl AsFd, name: &[u8], mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::mknodat(dir, name, FileType::Fifo, Mode::from_raw_mode(mode), 0))
        .asked("mknodat", name)
}

/// Makes the name of a unix socket that nobody listens on; `mode` is subject to the umask.
pub fn mksock_at(dir: impl AsFd, name: &[u8], mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::mknodat(dir, name, FileType::Socket, Mode::from_raw_mode(mode), 0))
        .asked("mknodat", name)
}

/// Makes a whiteout (character device 0:0), which needs no privilege since Linux 5.8.
pub fn whiteout_at(dir: impl AsFd, name: &[u8]) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0))
        .asked("mknodat", name)
}

/// True where `name` in `dir` is a whiteout.
pub fn is_whiteout_at(dir: impl AsFd, name: &[u8]) -> Result<bool> {
    Ok(crate::meta::stat_at_if_there(dir, name)?.is_some_and(|stat| stat.is_whiteout()))
}

/// Removes a name that is no directory.
pub fn unlink_at(dir: impl AsFd, name: &[u8]) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::unlinkat(dir, name, AtFlags::empty())).asked("unlinkat", name)
}

/// Removes an empty directory.
pub fn rmdir_at(dir: impl AsFd, name: &[u8]) -> Result<()> {
    let dir = dir.as_fd();
    retry(|| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)).asked("rmdir", name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::stat_at;

    #[test]
    fn nodes_are_made_and_removed_and_never_replace_a_name() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = crate::open::root_dir(dir.path()).expect("open");
        mkdir_at(&fd, b"d", 0o700).expect("mkdir");
        symlink_at(b"../\xff", &fd, b"l").expect("symlink");
        mkfifo_at(&fd, b"p", 0o600).expect("mkfifo");
        mksock_at(&fd, b"s", 0o600).expect("mknod");
        link_at(&fd, b"l", &fd, b"l2").expect("link");
        assert_eq!(
            stat_at(&fd, b"l").expect("stat").identity(),
            stat_at(&fd, b"l2").expect("stat").identity()
        );
        for name in [b"d", b"l", b"p", b"s"] {
            assert!(mkdir_at(&fd, name, 0o700).is_err());
            assert!(symlink_at(b"x", &fd, name).is_err());
            assert!(link_at(&fd, b"l2", &fd, name).is_err());
        }
        assert!(unlink_at(&fd, b"d").is_err());
        rmdir_at(&fd, b"d").expect("rmdir");
        for name in [b"l" as &[u8], b"l2", b"p", b"s"] {
            unlink_at(&fd, name).expect("unlink");
        }
        assert!(crate::dir::entries(&fd).expect("list").is_empty());
    }

    #[test]
    fn a_whiteout_is_told_from_other_names() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = crate::open::root_dir(dir.path()).expect("open");
        whiteout_at(&fd, b"w").expect("mknod");
        mkfifo_at(&fd, b"p", 0o600).expect("mkfifo");
        assert!(is_whiteout_at(&fd, b"w").expect("stat"));
        assert!(!is_whiteout_at(&fd, b"p").expect("stat"));
        assert!(!is_whiteout_at(&fd, b"none").expect("stat"));
    }
}
