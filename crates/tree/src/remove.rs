//! Removing a tree whose owner may have made it unreadable.
//!
//! Invariant: never follows a link, never enters another mount, and tells exactly what is left. A directory
//! that refuses its own owner (mode 0000 as overlayfs leaves in a work directory, 0555 as module caches
//! have) gets mode 0700 through its descriptor and is tried again; only directories inside the tree are
//! touched so. The usual case costs one call for a file or an empty directory.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Errno, Error, Result, dir, meta, node, open};
use rustix::fs::FileType;

use crate::descent::{Descent, open_child};
use crate::path::TreePath;
use crate::walk::OTHER_MOUNT;

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Names removed.
    pub entries: u64,
    /// What is still there, relative to the parent, with the reason; empty where all is gone. Directories
    /// that stay only because of something in them are not listed.
    pub left: Vec<(TreePath, String)>,
}

impl Removed {
    /// True where nothing is left.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty()
    }
}

/// Removes `name` in `parent` with everything below it. A name that is not there is removed already.
pub fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Removed> {
    if TreePath::new(name).is_ok_and(|path| path.is_root())
        || name.contains(&b'/')
        || name == b"."
        || name == b".."
    {
        return Err(Error::new("unlinkat", name, Errno::INVAL));
    }
    let mut removal = Removal { removed: Removed::default(), levels: Vec::new(), descent: None };
    // The parent is not part of the tree and is not repaired.
    match try_name(parent, None, name, None) {
        Attempt::Gone => removal.removed.entries += 1,
        Attempt::Absent => {}
        Attempt::Left(why) => removal.leave_behind(name, why),
        Attempt::Enter(fd) => {
            removal.enter(fd, name, 0)?;
            removal.run(parent)?;
        }
    }
    removal.removed.left.sort_unstable();
    Ok(removal.removed)
}

/// Times that a directory is read again because somebody filled it meanwhile.
const REFILLS: u32 = 3;

/// A directory that is being emptied.
struct Level {
    name: Vec<u8>,
    rest: Vec<dir::DirName>,
    /// Something in it could not be removed.
    kept: bool,
    /// It was given mode 0700 already.
    repaired: bool,
    refills: u32,
}

enum Attempt {
    Gone,
    /// It was not there.
    Absent,
    Enter(OwnedFd),
    Left(Error),
}

struct Removal {
    removed: Removed,
    levels: Vec<Level>,
    descent: Option<Descent>,
}

impl Removal {
    fn run(&mut self, parent: BorrowedFd<'_>) -> Result<()> {
        while let Some(level) = self.levels.last_mut() {
            let Some(next) = level.rest.pop() else {
                self.finish_level(parent)?;
                continue;
            };
            let Some(descent) = &self.descent else { break };
            match try_name(descent.here()?, Some(&mut level.repaired), &next.name, next.kind) {
                Attempt::Gone => self.removed.entries += 1,
                Attempt::Absent => {}
                Attempt::Enter(fd) => self.enter(fd, &next.name, 0)?,
                Attempt::Left(why) => self.leave_behind(&next.name, why),
            }
        }
        Ok(())
    }

    fn enter(&mut self, fd: OwnedFd, name: &[u8], refills: u32) -> Result<()> {
        let rest = match dir::unread_entries(&fd) {
            Ok(mut rest) => {
                // In the order of inodes a disk has less to seek and a journal less to write.
                rest.sort_unstable_by_key(|item| std::cmp::Reverse(item.ino));
                rest
            }
            Err(error) => {
                self.leave_behind(name, error);
                return Ok(());
            }
        };
        match &mut self.descent {
            Some(descent) => descent.enter(fd)?,
            none => *none = Some(Descent::new(fd)),
        }
        self.levels.push(Level { name: name.to_vec(), rest, kept: false, repaired: false, refills });
        Ok(())
    }

    /// Removes the directory that is empty now.
    fn finish_level(&mut self, parent: BorrowedFd<'_>) -> Result<()> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        let Some(descent) = &mut self.descent else { return Ok(()) };
        let fd = descent.leave()?;
        if level.kept {
            if let Some(above) = self.levels.last_mut() {
                above.kept = true;
            }
            return Ok(());
        }
        let mut above_repaired = self.levels.last().is_some_and(|above| above.repaired);
        let above = if self.levels.is_empty() { parent } else { descent.here()? };
        let mut answer = node::rmdir_at(above, &level.name);
        if is_refused(&answer) && !self.levels.is_empty() && !above_repaired {
            above_repaired = true;
            if meta::set_mode_fd(above, 0o700).is_ok() {
                answer = node::rmdir_at(above, &level.name);
            }
        }
        if self.levels.is_empty() {
            self.descent = None;
        } else if let Some(above) = self.levels.last_mut() {
            above.repaired = above_repaired;
        }
        match answer {
            Ok(()) => self.removed.entries += 1,
            Err(error) if error.errno == Errno::NOENT => {}
            // Somebody still writes here.
            Err(error) if is_full(error.errno) && level.refills < REFILLS && fd.is_some() => {
                if let Some(fd) = fd {
                    rewind(&fd)?;
                    self.enter(fd, &level.name, level.refills + 1)?;
                }
            }
            Err(error) => self.leave_behind(&level.name, error),
        }
        Ok(())
    }

    fn leave_behind(&mut self, name: &[u8], why: Error) {
        let mut bytes = Vec::new();
        for level in &self.levels {
            bytes.extend_from_slice(&level.name);
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        let why = if why.errno == Errno::XDEV { OTHER_MOUNT.to_owned() } else { why.to_string() };
        self.removed.left.push((TreePath::new(bytes).unwrap_or_default(), why));
        if let Some(level) = self.levels.last_mut() {
            level.kept = true;
        }
    }
}

/// Removes one name, or opens it where it is a directory with something in it.
fn try_name(
    dir: BorrowedFd<'_>,
    mut repaired: Option<&mut bool>,
    name: &[u8],
    kind: Option<FileType>,
) -> Attempt {
    let mut is_dir = kind == Some(FileType::Directory);
    // Each turn either ends or changes something that cannot change twice.
    for _ in 0..4 {
        let answer = if is_dir { node::rmdir_at(dir, name) } else { node::unlink_at(dir, name) };
        let error = match answer {
            Ok(()) => return Attempt::Gone,
            Err(error) => error,
        };
        match error.errno {
            Errno::NOENT => return Attempt::Absent,
            Errno::ISDIR if !is_dir => is_dir = true,
            // POSIX wants EPERM for unlinking a directory, and some filesystems obey.
            Errno::PERM if !is_dir && kind.is_none() && is_directory(dir, name) => is_dir = true,
            Errno::NOTDIR if is_dir => is_dir = false,
            Errno::NOTEMPTY | Errno::EXIST if is_dir => return enter(dir, name),
            Errno::ACCESS => match &mut repaired {
                Some(done) if !**done => {
                    **done = true;
                    if meta::set_mode_fd(dir, 0o700).is_err() {
                        return Attempt::Left(error);
                    }
                }
                _ => return Attempt::Left(error),
            },
            _ => return Attempt::Left(error),
        }
    }
    Attempt::Left(Error::new("unlinkat", name, Errno::AGAIN))
}

fn enter(dir: BorrowedFd<'_>, name: &[u8]) -> Attempt {
    let error = match open_child(dir, name, false) {
        // It may still lack the search or write bit: that shows at the first name and is repaired there.
        Ok(fd) => return Attempt::Enter(fd),
        Err(error) => error,
    };
    if error.errno != Errno::ACCESS {
        return Attempt::Left(error);
    }
    let repaired = open::path_beneath(dir, name).and_then(|path| {
        // What is reached through an O_PATH descriptor is the directory itself, never what a link names.
        let stat = meta::stat_fd(&path)?;
        if stat.file_type() != FileType::Directory || stat.mount_root == Some(true) {
            return Err(Error::new("fchmodat", name, Errno::XDEV));
        }
        meta::set_mode_path_fd(&path, 0o700)
    });
    match repaired.and_then(|()| open_child(dir, name, false)) {
        Ok(fd) => Attempt::Enter(fd),
        // The first refusal says more, except where a mount stands in the way.
        Err(later) => Attempt::Left(if later.errno == Errno::XDEV { later } else { error }),
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    meta::stat_at(dir, name).is_ok_and(|stat| stat.file_type() == FileType::Directory)
}

fn is_refused(answer: &Result<()>) -> bool {
    matches!(answer, Err(error) if error.errno == Errno::ACCESS)
}

fn is_full(errno: Errno) -> bool {
    errno == Errno::NOTEMPTY || errno == Errno::EXIST
}

fn rewind(fd: &OwnedFd) -> Result<()> {
    rustix::fs::seek(fd.as_fd(), rustix::fs::SeekFrom::Start(0))
        .map(drop)
        .map_err(|errno| Error::new("lseek", b"", errno))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn remove(dir: &Path, name: &str) -> Removed {
        let fd = open::root_dir(dir).expect("open");
        remove_tree(fd.as_fd(), name.as_bytes()).expect("remove")
    }

    #[test]
    fn a_tree_goes_whole_and_what_links_point_to_stays() {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::write(dir.path().join("kept"), b"x").expect("write");
        fs::create_dir_all(dir.path().join("t/a/b")).expect("mkdir");
        fs::create_dir(dir.path().join("keptdir")).expect("mkdir");
        fs::write(dir.path().join("keptdir/f"), b"x").expect("write");
        symlink("../kept", dir.path().join("t/l")).expect("symlink");
        symlink("../../keptdir", dir.path().join("t/a/l")).expect("symlink");
        let fd = open::root_dir(&dir.path().join("t")).expect("open");
        node::mkfifo_at(&fd, b"p", 0).expect("mkfifo");
        node::whiteout_at(&fd, b"w").expect("mknod");
        let removed = remove(dir.path(), "t");
        assert_eq!(removed, Removed { entries: 7, left: Vec::new() });
        assert!(dir.path().join("keptdir/f").exists() && dir.path().join("kept").exists());
        symlink("keptdir", dir.path().join("l")).expect("symlink");
        assert_eq!(remove(dir.path(), "l").entries, 1);
        assert!(dir.path().join("keptdir/f").exists());
        assert_eq!(remove(dir.path(), "never was"), Removed::default());
    }

    #[test]
    fn names_that_are_no_names_are_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = open::root_dir(dir.path()).expect("open");
        for name in [b"" as &[u8], b".", b"..", b"a/b"] {
            assert_eq!(remove_tree(fd.as_fd(), name).expect_err("refused").errno, Errno::INVAL);
        }
    }

    /// Modes stop nobody who is root, so this runs as an ordinary user in a process of its own.
    #[test]
    fn directories_that_refuse_their_owner_are_repaired() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let tree = dir.path().join("t");
        for below in ["work/work/incompat", "cache/mod/sub", "noread/in", "noexec/in", "empty"] {
            fs::create_dir_all(tree.join(below)).expect("mkdir");
            fs::write(tree.join(below).join("f"), b"x").expect("write");
        }
        let root = rustix::process::geteuid().is_root();
        if root {
            chown_all(dir.path(), 1001);
        }
        let modes = [
            ("cache/mod/sub/f", 0o444),
            ("cache/mod/sub", 0o555),
            ("cache/mod", 0o555),
            ("cache", 0o555),
            ("noread", 0o300),
            ("noexec", 0o600),
            ("work/work/incompat", 0),
            ("work/work", 0),
            ("empty/f", 0),
            ("empty", 0),
        ];
        for (path, mode) in modes {
            fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).expect("chmod");
        }
        let removed = if root { as_user(dir.path()) } else { remove(dir.path(), "t").is_complete() };
        assert!(removed);
        assert!(!tree.exists());
    }

    /// Removes `t` in `dir` in a copy of this test program that is the ordinary user 1001.
    fn as_user(dir: &Path) -> bool {
        let program = dir.join("program");
        fs::copy(std::env::current_exe().expect("own path"), &program).expect("copy");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
        let status = Command::new("setpriv")
            .args(["--reuid=1001", "--regid=1001", "--clear-groups"])
            .arg(&program)
            .args(["--exact", "remove::tests::the_tree_that_the_environment_names_is_removed"])
            .env("REMOVE_IN", dir)
            .current_dir(dir)
            .status()
            .expect("start");
        status.success()
    }

    #[test]
    fn the_tree_that_the_environment_names_is_removed() {
        let given = std::env::var_os("REMOVE_IN").map(std::path::PathBuf::from);
        let own = tempfile::tempdir().expect("temporary directory");
        let dir = given.as_deref().unwrap_or(own.path());
        let removed = remove(dir, "t");
        assert!(removed.is_complete(), "{removed:?}");
        assert!(!dir.join("t").exists());
    }

    fn chown_all(dir: &Path, id: u32) {
        chown(dir, Some(id), Some(id)).expect("chown");
        for item in fs::read_dir(dir).expect("read_dir") {
            let item = item.expect("item");
            if item.file_type().expect("type").is_dir() {
                chown_all(&item.path(), id);
            } else {
                chown(item.path(), Some(id), Some(id)).expect("chown");
            }
        }
    }
}
