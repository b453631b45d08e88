//! Making a directory equal to a tree, by what may differ, through the directory itself: for a view that is in use, whose
//! layers nobody but the kernel may touch.
//!
//! Invariant: what is equal is not touched, so that nothing is copied up for it and build tools see no change. Each step
//! compares what stands there with what is wanted, so that an interrupted run is finished by another one. A file
//! is there as it was or as it is wanted, never half.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::bytes::{Mover, same_content};
use kernel::{Errno, Error, Result, meta, node, open, publish, xattr};
use rustix::fs::{Mode, OFlags};

use crate::dir::{entry_at, is_absent, xattrs_at};
use crate::entry::{Entry, Kind};
use crate::layer::stored_xattr;
use crate::path::TreePath;
use crate::remove::remove_tree;
use crate::source::{Source, Xattr};

/// The directory at the top in which files are made before they get their names.
pub const STAGE: &[u8] = b".lane-restore";

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Equalled {
    /// Entries that went.
    pub removed: u64,
    /// Entries that came or changed.
    pub changed: u64,
    /// What is not as it is wanted, with the reason.
    pub left: Vec<(TreePath, String)>,
}

/// Makes `top` equal to `want` wherever `want` or `have` has a name; both may show but a part of a tree, and what neither
/// shows is left alone. `have` is what stood there before.
pub fn make_equal(top: BorrowedFd<'_>, want: &dyn Source, have: &dyn Source) -> Result<Equalled> {
    let mut equal = Equal {
        top,
        want,
        have,
        mover: Mover::new(),
        stage: None,
        links: HashMap::new(),
        done: Equalled::default(),
    };
    if let Some((path, _)) = remove_tree(top, STAGE)?.left.first() {
        return Err(refusal(top, path));
    }
    let root = TreePath::root();
    let here = open::dir_beneath(top, b"")?;
    equal.open_up(here.as_fd())?;
    equal.level(here.as_fd(), &root)?;
    if equal.stage.take().is_some() {
        node::rmdir_at(top, STAGE)?;
    }
    if let Some(entry) = want.entry(&root)? {
        equal.dress_dir(here.as_fd(), &root, &entry)?;
    }
    Ok(equal.done)
}

struct Equal<'a> {
    top: BorrowedFd<'a>,
    want: &'a dyn Source,
    have: &'a dyn Source,
    mover: Mover,
    stage: Option<OwnedFd>,
    /// First name of each group of links that was met.
    links: HashMap<u64, TreePath>,
    done: Equalled,
}

impl Equal<'_> {
    fn level(&mut self, here: BorrowedFd<'_>, path: &TreePath) -> Result<()> {
        let absent = |error: &Error| is_absent(error) || error.errno == Errno::NOTDIR;
        let wanted = match self.want.list_entries(path) {
            Err(error) if absent(&error) => Vec::new(),
            other => other?,
        };
        let mut names = match self.have.list(path) {
            Err(error) if absent(&error) => Vec::new(),
            other => other?,
        };
        names.retain(|name| wanted.binary_search_by(|(wanted, _)| wanted.cmp(name)).is_err());
        for name in names {
            self.remove(here, &name)?;
        }
        for (name, entry) in wanted {
            self.one(here, &name, &path.join(&name), &entry)?;
        }
        Ok(())
    }

    fn remove(&mut self, here: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let removed = remove_tree(here, name)?;
        self.done.removed += removed.entries;
        match removed.left.first() {
            None => Ok(()),
            Some((path, _)) => Err(refusal(here, path)),
        }
    }

    fn one(&mut self, here: BorrowedFd<'_>, name: &[u8], path: &TreePath, want: &Entry) -> Result<()> {
        if !want.is_portable() {
            let why = crate::compare::not_portable(want.kind).to_owned();
            self.done.left.push((path.clone(), why));
            return Ok(());
        }
        let mut now = entry_at(here, name)?;
        if now.as_ref().is_some_and(|now| now.kind != want.kind) {
            self.remove(here, name)?;
            now = None;
        }
        match want.kind {
            Kind::Dir => self.dir(here, name, path, want, now.as_ref()),
            Kind::File => self.file(here, name, path, want, now.as_ref()),
            _ => self.node(here, name, path, want, now.as_ref()),
        }
    }

    fn dir(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        path: &TreePath,
        want: &Entry,
        now: Option<&Entry>,
    ) -> Result<()> {
        match now {
            None => {
                node::mkdir_at(here, name, 0o700)?;
                self.done.changed += 1;
            }
            Some(now) if now.mode & 0o700 != 0o700 => meta::set_mode_at(here, name, now.mode | 0o700)?,
            Some(_) => {}
        }
        let inner = open::dir_beneath(here, name)?;
        self.level(inner.as_fd(), path)?;
        self.dress_dir(inner.as_fd(), path, want)
    }

    /// A directory that refuses its owner is opened for what is done in it.
    fn open_up(&self, here: BorrowedFd<'_>) -> Result<()> {
        let mode = meta::stat_fd(here)?.permissions();
        if mode & 0o700 == 0o700 { Ok(()) } else { meta::set_mode_fd(here, mode | 0o700) }
    }

    fn dress_dir(&mut self, here: BorrowedFd<'_>, path: &TreePath, want: &Entry) -> Result<()> {
        let wanted = self.want.xattrs(path)?;
        if xattrs_at(here, b"")? != wanted {
            dress(here, &wanted)?;
            self.done.changed += 1;
        }
        let now = meta::stat_fd(here)?;
        if now.permissions() != want.mode {
            meta::set_mode_fd(here, want.mode)?;
        }
        if now.mtime != (want.mtime.sec, want.mtime.nsec) {
            meta::set_times_fd(here, (want.mtime.sec, want.mtime.nsec))?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        path: &TreePath,
        want: &Entry,
        now: Option<&Entry>,
    ) -> Result<()> {
        if want.nlink > 1 {
            if let Some(first) = self.links.get(&want.ino).cloned() {
                return self.link(here, name, &first, now);
            }
            self.links.insert(want.ino, path.clone());
        }
        let wanted = self.want.xattrs(path)?;
        if let Some(now) = now
            && now.size == want.size
            // One name of several has a content of its own from here on, unless all are wanted.
            && now.nlink.max(1) == want.nlink.max(1)
            && let Ok(file) = open::file_beneath(here, name)
            && same_content(&file, self.want.open(path)?)?
            && xattrs_at(here, name)? == wanted
        {
            if now.mode != want.mode {
                meta::set_mode_at(here, name, want.mode)?;
                self.done.changed += 1;
            }
            if now.mtime != want.mtime {
                meta::set_times_at(here, name, (want.mtime.sec, want.mtime.nsec))?;
                self.done.changed += 1;
            }
            return Ok(());
        }
        let temp = publish::temp_name();
        let stage = self.stage()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open::open_beneath(stage, &temp, flags, Mode::from_raw_mode(0o600))?;
        let sparse = want.allocated < want.size;
        let from = self.want.open(path)?;
        let (_, moved) = self.mover.move_content(from.as_fd(), file.as_fd(), want.size, sparse)?;
        if moved < want.size {
            kernel::bytes::set_len(&file, want.size)?;
        }
        dress(file.as_fd(), &wanted)?;
        meta::set_mode_fd(&file, want.mode)?;
        meta::set_times_fd(&file, (want.mtime.sec, want.mtime.nsec))?;
        drop(file);
        self.put(&temp, here, name)
    }

    /// Gives what was made in the stage its name.
    fn put(&mut self, temp: &[u8], here: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        publish::rename_replace(self.stage()?, temp, here, name)?;
        self.done.changed += 1;
        Ok(())
    }

    fn link(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        first: &TreePath,
        now: Option<&Entry>,
    ) -> Result<()> {
        let (above, first_name) = open::parent_beneath(self.top, first.as_bytes())?;
        let stat = meta::stat_at(&above, &first_name)?;
        if now.is_some_and(|now| (now.ino, now.dev) == (stat.ino, crate::dir::entry_of(&stat).dev)) {
            return Ok(());
        }
        let temp = publish::temp_name();
        node::link_at(&above, &first_name, self.stage()?, &temp)?;
        self.put(&temp, here, name)
    }

    fn node(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        path: &TreePath,
        want: &Entry,
        now: Option<&Entry>,
    ) -> Result<()> {
        let is_link = want.kind == Kind::Symlink;
        let same = |now: &Entry| now.target == want.target && (is_link || now.mode == want.mode);
        match now {
            Some(now) if same(now) && now.mtime == want.mtime => return Ok(()),
            Some(now) if same(now) => self.done.changed += 1,
            _ => {
                let temp = publish::temp_name();
                let stage = self.stage()?;
                if is_link {
                    node::symlink_at(&want.target, stage, &temp)?;
                } else {
                    node::mkfifo_at(stage, &temp, 0o600)?;
                    meta::set_mode_at(stage, &temp, want.mode)?;
                }
                self.put(&temp, here, name)?;
            }
        }
        meta::set_times_at(here, name, (want.mtime.sec, want.mtime.nsec))
            .map_err(|error| Error::new(error.call, path.as_bytes(), error.errno))
    }

    fn stage(&mut self) -> Result<BorrowedFd<'_>> {
        let stage = match self.stage.take() {
            Some(stage) => stage,
            None => {
                node::mkdir_at(self.top, STAGE, 0o700)?;
                open::dir_beneath(self.top, STAGE)?
            }
        };
        let stage: &OwnedFd = self.stage.insert(stage);
        Ok(stage.as_fd())
    }
}

/// Why an entry cannot be removed.
fn refusal(here: BorrowedFd<'_>, path: &TreePath) -> Error {
    let again = open::parent_beneath(here, path.as_bytes()).and_then(|(above, name)| {
        match meta::stat_at(&above, &name)?.file_type() {
            rustix::fs::FileType::Directory => node::rmdir_at(&above, &name),
            _ => node::unlink_at(&above, &name),
        }
    });
    // Now it went: the directory above it is still there.
    again.err().unwrap_or_else(|| Error::new("unlinkat", path.as_bytes(), Errno::NOTEMPTY))
}

/// Gives a file or directory these attributes and no others.
fn dress(fd: BorrowedFd<'_>, wanted: &[Xattr]) -> Result<()> {
    for (name, value) in wanted {
        xattr::set(fd, &stored_xattr(name), value)?;
    }
    for (name, _) in xattrs_at(fd, b"")? {
        if !wanted.iter().any(|(wanted, _)| *wanted == name) {
            xattr::remove(fd, &stored_xattr(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
