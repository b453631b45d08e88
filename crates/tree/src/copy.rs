//! Copying a tree: the engine of the copy strategy.
//!
//! Invariant: what is in the copy is equal to the source in type, content, holes, mode, mtime to the nanosecond,
//! the user's attributes and hard link groups; what could not be copied is listed. Errors of the source are gaps,
//! errors of the target end the copy. FIFOs are made, never opened; sockets and devices are listed.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::bytes::{How, Mover};
use kernel::meta::RawStat;
use kernel::{Errno, Error, Result, dir, meta, node, open, xattr};
use rustix::fs::{FileType, Mode, OFlags};

use crate::compare::not_portable;
use crate::descent::{Descent, open_child};
use crate::dir::entry_of;
use crate::layer;
use crate::layer_copy::{Marks, copy_marks, stored};
use crate::path::TreePath;
use crate::walk::OTHER_MOUNT;

/// What to copy and what not.
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// Paths (with everything below) that are not copied and not listed.
    pub skip: Vec<TreePath>,
    /// Enter other mounts too.
    pub cross_mounts: bool,
    /// What is copied is a layer: its marks are part of it, and so are sockets.
    pub layer: Option<Marks>,
}

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Entries made.
    pub entries: u64,
    /// Bytes of content moved.
    pub bytes: u64,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// Regular files made (further names of a hard link not counted).
    pub files: u64,
    /// Directories made.
    pub dirs: u64,
    /// Links, FIFOs and further hard link names made.
    pub others: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes newly allocated: the source's allocation of every file that was not reflinked.
    pub allocated: u64,
    /// Files whose blocks are shared with the source.
    pub reflinked: u64,
    /// Files that the kernel copied.
    pub ranged: u64,
    /// Files that were read and written.
    pub read_written: u64,
    /// What was not copied, with the reason.
    pub skipped: Vec<(TreePath, String)>,
}

/// Copies everything in `from` into the empty directory `to`, which also takes `from`'s mode and times.
/// What cannot be read is listed in the answer; what cannot be written is an error.
pub fn copy_tree(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    options: &CopyOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied> {
    let mut copier = Copier::new(to, options, progress);
    copier.run(from, to)?;
    copier.tell(true);
    Ok(copier.copied)
}

/// Entries and bytes between two words of progress.
const TELL_ENTRIES: u64 = 256;
const TELL_BYTES: u64 = 32 << 20;

pub(crate) struct Copier<'a> {
    /// The tree in which first names of hard links stand.
    to: BorrowedFd<'a>,
    options: &'a CopyOptions,
    progress: &'a mut dyn FnMut(Progress),
    mover: Mover,
    pub(crate) copied: Copied,
    /// First name of each hard link group.
    links: HashMap<(u64, u64), TreePath>,
    ids: (u32, u32),
    umask: u32,
    told: Progress,
}

/// A directory on the way: the names still to be copied, the next one last.
struct Level {
    path: TreePath,
    rest: Vec<dir::DirName>,
    stat: RawStat,
}

fn read_level(fd: BorrowedFd<'_>, path: TreePath) -> Result<Level> {
    let stat = meta::stat_fd(fd)?;
    let mut rest = dir::unread_entries(fd)?;
    rest.reverse();
    Ok(Level { path, rest, stat })
}

/// The two directories that a name is copied between.
#[derive(Clone, Copy)]
pub(crate) struct Between<'a> {
    pub(crate) from: BorrowedFd<'a>,
    pub(crate) to: BorrowedFd<'a>,
}

/// An error of the source leaves a gap, one of the target ends the copy.
pub(crate) enum Failed {
    Source(Error),
    Target(Error),
}

fn source<T>(answer: Result<T>) -> std::result::Result<T, Failed> {
    answer.map_err(Failed::Source)
}

fn target<T>(answer: Result<T>) -> std::result::Result<T, Failed> {
    answer.map_err(Failed::Target)
}

impl<'a> Copier<'a> {
    pub(crate) fn new(
        to: BorrowedFd<'a>,
        options: &'a CopyOptions,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Copier<'a> {
        Copier {
            to,
            options,
            progress,
            mover: Mover::new(),
            copied: Copied::default(),
            links: HashMap::new(),
            ids: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
            umask: umask(to),
            told: Progress::default(),
        }
    }

    /// Copies everything below `from` into `to`.
    pub(crate) fn run(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
        let mut from = Descent::new(open::dir_beneath(from, b"")?);
        let mut to = Descent::new(open::dir_beneath(to, b"")?);
        let mut levels = vec![read_level(from.here()?, TreePath::root())?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.rest.pop() else {
                let stat = level.stat;
                levels.pop();
                if let (Some(old), Some(new)) = (from.leave()?, to.leave()?) {
                    self.dress(old.as_fd(), new.as_fd(), &stat, true)?;
                }
                continue;
            };
            let path = level.path.join(&name.name);
            if self.options.skip.contains(&path) {
                continue;
            }
            let between = Between { from: from.here()?, to: to.here()? };
            match self.one(between, &name, &path) {
                Ok(Some((old, new, level))) => {
                    from.enter(old)?;
                    to.enter(new)?;
                    levels.push(level);
                }
                Ok(None) => {}
                Err(Failed::Source(error)) if error.errno == Errno::NOENT => {}
                Err(Failed::Source(error)) if error.errno == Errno::XDEV => self.skip(path, OTHER_MOUNT),
                Err(Failed::Source(error)) => self.skip(path, &error.to_string()),
                Err(Failed::Target(error)) => return Err(error),
            }
            self.tell(false);
        }
        Ok(())
    }

    /// Copies one name that is no directory.
    pub(crate) fn leaf(
        &mut self,
        at: Between<'_>,
        name: dir::DirName,
        path: &TreePath,
    ) -> std::result::Result<(), Failed> {
        self.one(at, &name, path).map(drop)
    }

    /// Copies one name; a directory is made and handed back to be filled.
    fn one(
        &mut self,
        at: Between<'_>,
        name: &dir::DirName,
        path: &TreePath,
    ) -> std::result::Result<Option<(OwnedFd, OwnedFd, Level)>, Failed> {
        let name_bytes = name.name.as_slice();
        let kind = match name.kind {
            Some(kind @ (FileType::RegularFile | FileType::Directory)) => kind,
            _ => source(meta::stat_at(at.from, name_bytes))?.file_type(),
        };
        match kind {
            FileType::Directory => {
                let old = source(open_child(at.from, name_bytes, self.options.cross_mounts))?;
                let level = source(read_level(old.as_fd(), path.clone()))?;
                target(node::mkdir_at(at.to, name_bytes, 0o700))?;
                let new = target(open::dir_beneath(at.to, name_bytes))?;
                self.copied.dirs += 1;
                return Ok(Some((old, new, level)));
            }
            FileType::RegularFile => self.file(at, name_bytes, path)?,
            FileType::Symlink | FileType::Fifo => self.node(at, name_bytes, path)?,
            FileType::Socket if self.options.layer.is_some() => self.node(at, name_bytes, path)?,
            _ => {
                let stat = source(meta::stat_at(at.from, name_bytes))?;
                if self.options.layer.is_some() && stat.is_whiteout() {
                    target(node::whiteout_at(at.to, name_bytes))?;
                    self.copied.others += 1;
                    return Ok(None);
                }
                self.skip(path.clone(), not_portable(entry_of(&stat).kind));
            }
        }
        Ok(None)
    }

    fn file(&mut self, at: Between<'_>, name: &[u8], path: &TreePath) -> std::result::Result<(), Failed> {
        let old = source(open_quietly(at.from, name))?;
        let stat = source(meta::stat_fd(&old))?;
        if stat.file_type() != FileType::RegularFile {
            // The name was swapped since the directory was read; what was opened is not read.
            self.skip(path.clone(), "changed its type while it was copied");
            return Ok(());
        }
        if self.linked(at, name, &stat)? {
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(stat.permissions() & 0o777);
        let new = rustix::fs::openat(at.to, name, flags, mode)
            .map_err(|errno| Failed::Target(Error::new("openat", path.as_bytes(), errno)))?;
        let sparse = stat.blocks * 512 < stat.size;
        let (how, moved) = match self.mover.move_content(old.as_fd(), new.as_fd(), stat.size, sparse) {
            Ok(answer) => answer,
            Err(error) => {
                // Half a file is worse than none, whatever comes of the error.
                target(node::unlink_at(at.to, name))?;
                let of_source = matches!(error.call, "pread" | "lseek");
                let error = Error::new(error.call, path.as_bytes(), error.errno);
                return Err(if of_source { Failed::Source(error) } else { Failed::Target(error) });
            }
        };
        match how {
            How::Reflink => self.copied.reflinked += 1,
            How::CopyRange => self.copied.ranged += 1,
            How::ReadWrite => self.copied.read_written += 1,
        }
        if how != How::Reflink {
            self.copied.allocated += stat.blocks * 512;
        }
        self.copied.files += 1;
        self.copied.bytes += moved;
        target(self.dress(old.as_fd(), new.as_fd(), &stat, false))?;
        self.first_of_group(&stat, path);
        Ok(())
    }

    fn node(&mut self, at: Between<'_>, name: &[u8], path: &TreePath) -> std::result::Result<(), Failed> {
        let stat = source(meta::stat_at(at.from, name))?;
        if self.linked(at, name, &stat)? {
            return Ok(());
        }
        if stat.file_type() == FileType::Symlink {
            let says = source(meta::read_link_at(at.from, name))?;
            target(node::symlink_at(&says, at.to, name))?;
        } else if stat.file_type() == FileType::Fifo {
            target(node::mkfifo_at(at.to, name, stat.permissions() & 0o777))?;
        } else {
            target(node::mksock_at(at.to, name, stat.permissions() & 0o777))?;
        }
        let owner = self.keep_owner(&stat, |uid, gid| meta::set_owner_at(at.to, name, uid, gid));
        target(owner)?;
        if let Some(marks) = self.options.layer {
            target(copy_marks(at, name, marks))?;
        }
        if stat.file_type() != FileType::Symlink && self.wants_mode(&stat) {
            target(meta::set_mode_at(at.to, name, stat.permissions()))?;
        }
        target(meta::set_times_at(at.to, name, stat.mtime))?;
        self.copied.others += 1;
        self.first_of_group(&stat, path);
        Ok(())
    }

    /// A further name of a file that was copied already.
    fn linked(&mut self, at: Between<'_>, name: &[u8], stat: &RawStat) -> std::result::Result<bool, Failed> {
        if stat.nlink < 2 {
            return Ok(false);
        }
        let Some(first) = self.links.get(&stat.identity()) else { return Ok(false) };
        let made = open::parent_beneath(self.to, first.as_bytes())
            .and_then(|(dir, first)| node::link_at(&dir, &first, at.to, name));
        match made {
            Ok(()) => {
                self.copied.others += 1;
                Ok(true)
            }
            // A target that cannot link further, or not here, gets a copy of its own.
            Err(error)
                if matches!(error.errno, Errno::MLINK | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) =>
            {
                Ok(false)
            }
            Err(error) => Err(Failed::Target(error)),
        }
    }

    fn first_of_group(&mut self, stat: &RawStat, path: &TreePath) {
        if stat.nlink > 1 {
            self.links.entry(stat.identity()).or_insert_with(|| path.clone());
        }
    }

    /// Owner, attributes, mode and times of a finished file or directory, in the order in which none undoes another.
    pub(crate) fn dress(
        &self,
        old: BorrowedFd<'_>,
        new: BorrowedFd<'_>,
        stat: &RawStat,
        dir: bool,
    ) -> Result<()> {
        self.keep_owner(stat, |uid, gid| meta::set_owner_fd(new, uid, gid))?;
        let attributes = match self.options.layer {
            Some(marks) => stored(xattr::list(old)?, marks, |name| xattr::get(old, name))?,
            None => xattrs(old),
        };
        // An attribute is written only where its file may be.
        let opened = !attributes.is_empty() && stat.permissions() & 0o200 == 0;
        if opened {
            meta::set_mode_fd(new, stat.permissions() | 0o200)?;
        }
        match self.options.layer {
            Some(_) => attributes.iter().try_for_each(|(name, value)| xattr::set(new, name, value))?,
            None => set_xattrs(new, &attributes)?,
        }
        if dir || opened || self.wants_mode(stat) {
            meta::set_mode_fd(new, stat.permissions())?;
        }
        meta::set_times_fd(new, stat.mtime)
    }

    fn wants_mode(&self, stat: &RawStat) -> bool {
        let bits = stat.permissions();
        // Changing the owner clears set-id bits; those are always set again.
        bits & 0o7000 != 0 || bits & self.umask != 0
    }

    fn keep_owner(&self, stat: &RawStat, set: impl Fn(u32, u32) -> Result<()>) -> Result<()> {
        if (stat.uid, stat.gid) == self.ids {
            return Ok(());
        }
        // An ordinary user can give a file to one of his groups and to nobody else.
        let uid = if self.ids.0 == 0 { stat.uid } else { self.ids.0 };
        match set(uid, stat.gid) {
            Err(error) if matches!(error.errno, Errno::PERM | Errno::INVAL | Errno::OVERFLOW) => Ok(()),
            answer => answer,
        }
    }

    pub(crate) fn skip(&mut self, path: TreePath, why: &str) {
        self.copied.skipped.push((path, why.to_owned()));
    }

    pub(crate) fn tell(&mut self, last: bool) {
        let now = Progress {
            entries: self.copied.files + self.copied.dirs + self.copied.others,
            bytes: self.copied.bytes,
        };
        let due =
            now.entries >= self.told.entries + TELL_ENTRIES || now.bytes >= self.told.bytes + TELL_BYTES;
        if due || last {
            self.told = now;
            (self.progress)(now);
        }
    }
}

/// Opens for reading without touching the access time where that is allowed, without blocking and without following.
fn open_quietly(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let answer = match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM | Errno::INTR) => rustix::fs::openat(dir, name, flags, Mode::empty()),
        answer => answer,
    };
    answer.map_err(|errno| Error::new("openat", name, errno))
}

/// The user's attributes and ACLs, as far as they can be read.
fn xattrs(old: BorrowedFd<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let names = xattr::list(old).unwrap_or_default();
    names
        .into_iter()
        .filter(|name| layer::is_users(name) && !layer::private_xattr(name))
        .filter_map(|name| Some((xattr::get(old, &name).ok()??, name)))
        .map(|(value, name)| (name, value))
        .collect()
}

/// Gives them, as far as the target takes them.
fn set_xattrs(new: BorrowedFd<'_>, attributes: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    for (name, value) in attributes {
        match xattr::set(new, name, value) {
            Err(error) if matches!(error.errno, Errno::NOSPC | Errno::DQUOT | Errno::IO) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The bits that a new file in `to` loses; all of them where that cannot be known.
fn umask(to: BorrowedFd<'_>) -> u32 {
    // A default ACL rules the bits of new files instead.
    if !matches!(xattr::get(to, b"system.posix_acl_default"), Ok(None)) {
        return 0o777;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok())
        .unwrap_or(0o777)
}
