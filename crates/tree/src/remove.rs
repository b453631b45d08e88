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
    if TreePath::new(name).is_ok_and(|path| path.is_root()) || name.contains(&b'/') || name == b"." || name == b".." {
        return Err(Error::new("unlinkat", name, Errno::INVAL));
    }
    let mut removal = Removal { removed: Removed::default(), levels: Vec::new(), descent: None };
    // The parent is not part of the tree and is not repaired.
    match try_name(parent, None, name, None) {
        Attempt::Gone => removal.removed.entries += 1,
        Attempt::Left(why) => removal.leave_behind(name, why),
        Attempt::Enter(fd) => {
            removal.enter(fd, name, 0)?;
            removal.run(parent)?;
        }
    }
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
                Attempt::Enter(fd) => self.enter(fd, &next.name, 0)?,
                Attempt::Left(why) => self.leave_behind(&next.name, why),
            }
        }
        Ok(())
    }

    fn enter(&mut self, fd: OwnedFd, name: &[u8], refills: u32) -> Result<()> {
        let rest = match dir::unread_entries(&fd) {
            Ok(rest) => rest,
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
            Err(error) if error.errno == Errno::NOENT => self.removed.entries += 1,
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
fn try_name(dir: BorrowedFd<'_>, mut repaired: Option<&mut bool>, name: &[u8], kind: Option<FileType>) -> Attempt {
    let mut is_dir = kind == Some(FileType::Directory);
    // Each turn either ends or changes something that cannot change twice.
    for _ in 0..4 {
        let answer = if is_dir { node::rmdir_at(dir, name) } else { node::unlink_at(dir, name) };
        let error = match answer {
            Ok(()) => return Attempt::Gone,
            Err(error) => error,
        };
        match error.errno {
            Errno::NOENT => return Attempt::Gone,
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
