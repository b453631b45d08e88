//! [`Reader`]: one entry of a layer becomes an item.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Errno, meta, open, xattr};
use tree::compare::not_portable;
use tree::dir::{entry_at, xattrs_at};
use tree::layer::{self, Format};
use tree::source::Xattr;
use tree::{Entry, Kind, TreePath};

use crate::error::{Error, Result};
use crate::manifest::item::{Item, ItemKind};
use crate::writer::Writer;

/// The bits that let an owner read a file, and list and enter a directory.
const READ: u32 = 0o400;
const LIST: u32 = 0o500;
/// Most bytes of attributes of one entry.
const XATTRS: usize = 8 << 20;

/// An entry, read.
pub(super) struct Read {
    pub(super) item: Item,
    /// What it was when it was read.
    pub(super) entry: Entry,
    pub(super) steady: bool,
    /// The entry's times say that this is its content.
    pub(super) dated: bool,
}

/// Reads entries of one layer into a writer.
pub(super) struct Reader<'w, 's> {
    pub(super) writer: &'w mut Writer<'s>,
    pub(super) format: Format,
    pub(super) open_closed: bool,
    /// The same for directories.
    pub(super) open_dirs: bool,
    /// Directories that were opened up, with the mode that they had.
    pub(super) closed: Vec<(TreePath, u32)>,
}

impl Reader<'_, '_> {
    /// Reads one entry; `None` where it is gone. What cannot be read is [`Error::Unreadable`], what cannot be
    /// stored [`Error::Malformed`].
    pub(super) fn read(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        path: &TreePath,
        entry: &Entry,
    ) -> Result<Option<Read>> {
        if entry.is_whiteout() {
            return Ok(Some(Read {
                item: Item::whiteout(),
                entry: entry.clone(),
                steady: true,
                dated: true,
            }));
        }
        if !entry.is_portable() {
            return Err(Error::malformed(
                path.as_bytes().escape_ascii().to_string(),
                not_portable(entry.kind),
            ));
        }
        let read = match entry.kind {
            Kind::File => self.file(dir, name, entry),
            Kind::Dir => self.dir(dir, name, path, entry),
            Kind::Symlink => Ok(Some(plain(ItemKind::Symlink(entry.target.clone()), entry))),
            _ => Ok(Some(plain(ItemKind::Fifo, entry))),
        };
        match read {
            Err(Error::Unreadable(error)) if error.is_not_found() => Ok(None),
            answer => answer,
        }
    }

    fn file(&mut self, dir: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<Option<Read>> {
        match open::name_in(dir, name) {
            Ok(fd) => self.opened(&fd, entry).map(Some),
            Err(error) if error.errno == Errno::ACCESS && self.may_open(entry) => {
                self.closed_file(dir, name, entry).map(Some)
            }
            Err(error) => Err(Error::Unreadable(error)),
        }
    }

    fn opened(&mut self, fd: &OwnedFd, entry: &Entry) -> Result<Read> {
        let taken = self.writer.file(fd.as_fd(), entry)?;
        if !taken.entry.is_file() || taken.entry.ino != entry.ino {
            return Err(Error::malformed("file", "another entry took its place while it was read"));
        }
        let names = xattr::list(fd).map_err(Error::Unreadable)?;
        let mut item = item(ItemKind::File(taken.content), &taken.entry);
        if !names.is_empty() {
            if names.contains(&self.format.mark(b"metacopy")) {
                return Err(Error::malformed("file", "its content is not in this layer (metacopy)"));
            }
            item.xattrs = bounded(xattrs_at(fd, b"").map_err(Error::Unreadable)?)?;
        }
        Ok(Read { item, entry: taken.entry, steady: taken.steady, dated: taken.dated })
    }

    /// Reads a file that refuses its owner, and leaves it as it was.
    fn closed_file(&mut self, dir: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<Read> {
        let path = open::path_beneath(dir, name).map_err(Error::Unreadable)?;
        let there = entry_at(&path, b"").map_err(Error::Unreadable)?;
        if there.is_none_or(|there| there.ino != entry.ino || !there.is_file()) {
            return Err(Error::malformed("file", "another entry took its place while it was read"));
        }
        meta::set_mode_path_fd(&path, entry.mode | READ).map_err(Error::Unreadable)?;
        let read = open::name_in(dir, name).map_err(Error::Unreadable).and_then(|fd| {
            let now = entry_at(&fd, b"").map_err(Error::Unreadable)?;
            self.opened(&fd, &now.unwrap_or_else(|| entry.clone()))
        });
        meta::set_mode_path_fd(&path, entry.mode).map_err(Error::Unreadable)?;
        let mut read = read?;
        read.item.mode = entry.mode;
        // Its status time has just changed once more: it is read again the next time.
        read.entry.ino = 0;
        Ok(read)
    }

    fn dir(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        path: &TreePath,
        entry: &Entry,
    ) -> Result<Option<Read>> {
        let marks = layer::dir_marks(dir, name, self.format).map_err(Error::Unreadable)?;
        let kind = ItemKind::Dir { opaque: marks.opaque, redirect: marks.redirect };
        let mut item = item(kind, entry);
        item.xattrs = bounded(xattrs_at(dir, name).map_err(Error::Unreadable)?)?;
        let mut entry = entry.clone();
        if entry.mode & LIST != LIST && self.open_dirs && self.may_open(&entry) && !path.is_root() {
            meta::set_mode_at(dir, name, entry.mode | LIST).map_err(Error::Unreadable)?;
            self.closed.push((path.clone(), entry.mode));
            // Its status time is about to change once more: it is read again the next time.
            entry.ino = 0;
        }
        Ok(Some(Read { item, entry, steady: true, dated: true }))
    }

    /// Root is refused nothing, and others may change only what is theirs.
    fn may_open(&self, entry: &Entry) -> bool {
        let me = rustix::process::geteuid();
        self.open_closed && !me.is_root() && entry.uid == me.as_raw()
    }

    /// Takes back what was given to read directories, the deepest first.
    pub(super) fn close_again(&mut self, layer: BorrowedFd<'_>) {
        while let Some((path, mode)) = self.closed.pop() {
            let closed =
                open::path_beneath(layer, path.as_bytes()).and_then(|fd| meta::set_mode_path_fd(&fd, mode));
            // Where this fails somebody else has taken it away: there is nothing left to close.
            drop(closed);
        }
    }
}

/// Attributes, unless they are more than a node of a manifest should hold.
fn bounded(xattrs: Vec<Xattr>) -> Result<Vec<Xattr>> {
    let size: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > XATTRS { Err(Error::malformed("entry", "its attributes are too large")) } else { Ok(xattrs) }
}

fn plain(kind: ItemKind, entry: &Entry) -> Read {
    Read { item: item(kind, entry), entry: entry.clone(), steady: true, dated: true }
}

pub(super) fn item(kind: ItemKind, entry: &Entry) -> Item {
    // The permission bits of a link mean nothing.
    let mode = if matches!(kind, ItemKind::Symlink(_)) { 0 } else { entry.mode };
    let (uid, gid, mtime) = (entry.uid, entry.gid, entry.mtime);
    Item { kind, mode, uid, gid, mtime, xattrs: Vec::new(), group: None }
}
