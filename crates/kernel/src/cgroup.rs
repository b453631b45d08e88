//! Control groups, version 2: one below our own, whose processes can be stopped together and notice nothing.
//!
//! Invariant: no limit is set and no controller touched, so that a group costs nothing and is allowed wherever its parent
//! may be written. Rests on the kernel's cgroup-v2 document.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Asked as _, Error, Result, path_bytes};
use crate::open::retry;

/// A group by its directory.
#[derive(Debug)]
pub struct Cgroup(OwnedFd);

/// The directory of the group that this process is in; `None` where there is none, or it cannot be reached.
pub fn own() -> Option<PathBuf> {
    let groups = std::fs::read("/proc/self/cgroup").ok()?;
    let path = groups.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::/"))?;
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let (root, at) = mounts.split(|byte| *byte == b'\n').find_map(mount_of_groups)?;
    // What is mounted may be a part of the tree.
    let below = Path::new(OsStr::from_bytes(path)).strip_prefix(root.trim_start_matches('/')).ok()?;
    Some(Path::new(&at).join(below))
}

/// Root and place of the mount of version 2, where this line of mountinfo is one that needs no unescaping.
fn mount_of_groups(line: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let (front, back) = line.split_once(" - ")?;
    let mut words = front.split(' ').skip(3);
    let (root, at) = (words.next()?, words.next()?);
    let is_one = back.split(' ').next() == Some("cgroup2") && !front.contains('\\');
    is_one.then(|| (root.to_owned(), at.to_owned()))
}

impl Cgroup {
    /// Makes a group, or takes one of this name in which nobody is.
    pub fn make(path: &Path) -> Result<Cgroup> {
        match rustix::fs::mkdir(path, Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).asked("mkdir", path_bytes(path)),
        }
        let group = Cgroup::open(path)?;
        match group.says("cgroup.events", "populated 0")? {
            true => Ok(group),
            false => Err(Error::new("mkdir", path_bytes(path), Errno::BUSY)),
        }
    }

    /// Opens one that is there.
    pub fn open(path: &Path) -> Result<Cgroup> {
        crate::open::root_dir(path).map(Cgroup)
    }

    /// A process goes into it, with everybody that it will start. 0 is the caller.
    pub fn take(&self, pid: i32) -> Result<()> {
        self.tell("cgroup.procs", &pid.to_string())
    }

    /// Who is in it.
    pub fn processes(&self) -> Result<Vec<i32>> {
        let text = self.read("cgroup.procs")?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Everybody in it is to stop, or to go on. Stopping takes a moment.
    pub fn freeze(&self, stop: bool) -> Result<()> {
        self.tell("cgroup.freeze", if stop { "1" } else { "0" })
    }

    /// True where everybody in it has stopped.
    pub fn is_frozen(&self) -> Result<bool> {
        self.says("cgroup.events", "frozen 1")
    }

    /// Removes one in which nobody is.
    pub fn remove(path: &Path) -> Result<()> {
        rustix::fs::rmdir(path).asked("rmdir", path_bytes(path))
    }

    fn tell(&self, name: &str, word: &str) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = retry(|| rustix::fs::openat(&self.0, name, flags, Mode::empty())).asked("open", name)?;
        retry(|| rustix::io::write(&file, word.as_bytes())).asked("write", name).map(drop)
    }

    fn says(&self, name: &str, line: &str) -> Result<bool> {
        Ok(self.read(name)?.lines().any(|one| one == line))
    }

    fn read(&self, name: &str) -> Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = retry(|| rustix::fs::openat(&self.0, name, flags, Mode::empty())).asked("open", name)?;
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match retry(|| rustix::io::read(&file, &mut piece)).asked("read", name)? {
                0 => return Ok(String::from_utf8_lossy(&all).into_owned()),
                n => all.extend_from_slice(&piece[..n]),
            }
        }
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_a_mount_of_the_second_version_is_one() {
        let line = b"42 32 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(mount_of_groups(line), Some(("/".to_owned(), "/sys/fs/cgroup/unified".to_owned())));
        let first = b"33 32 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        assert_eq!(mount_of_groups(first), None);
        let odd = b"42 32 0:38 / /sys/fs/a\\040b rw - cgroup2 cgroup2 rw";
        assert_eq!(mount_of_groups(odd), None);
        assert_eq!(mount_of_groups(b""), None);
    }

    #[test]
    fn whoever_is_in_it_stops_and_goes_on_without_being_told() {
        let Some(own) = own() else { return };
        let path = own.join(format!("lane-test-{}", std::process::id()));
        let group = match Cgroup::make(&path) {
            Ok(group) => group,
            // An ordinary user, as a rule.
            Err(error) => {
                assert!(matches!(error.errno, Errno::ACCESS | Errno::PERM | Errno::ROFS), "{error}");
                return;
            }
        };
        let mut child = Command::new("sleep").arg("100").spawn().expect("a child");
        group.take(child.id() as i32).expect("moved");
        assert_eq!(group.processes().expect("listed"), [child.id() as i32]);
        assert_eq!(Cgroup::make(&path).expect_err("in use").errno, Errno::BUSY);
        group.freeze(true).expect("asked");
        while !group.is_frozen().expect("read") {
            std::thread::yield_now();
        }
        group.freeze(false).expect("asked");
        assert!(!group.is_frozen().expect("read"));
        child.kill().expect("killed");
        child.wait().expect("gone");
        Cgroup::remove(&path).expect("removed");
    }
}
