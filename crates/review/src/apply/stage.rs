//! Making the new objects in the staging directory, complete with content, owner, mode, attributes
//! and times. The origin is not touched here.
//!
//! Invariant: what is staged is what the plan said: a lane that changed since is noticed by size and
//! time before and after its content was read.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kernel::bytes::{How, Mover};
use kernel::meta::RawStat;
use kernel::{Errno, bytes, meta, node, open, publish, xattr};
use rustix::fs::{Mode, OFlags};
use tree::source::{Opened, Xattr};
use tree::{Kind, Source, TreePath};

use super::flush::Flush;
use super::journal::{Digest, Seen};
use super::units::Fresh;
use super::writer::{Order, Writer};
use super::{KeepReport, Options, digest};
use crate::error::{Error, Reading as _, Result, Stepping as _};

/// Larger files are left to the kernel to copy.
const SMALL: u64 = 64 << 10;

/// So many new objects are brought to the disk while the next ones are made.
const FLUSHED_AT_ONCE: usize = 1000;

/// Fewer new objects than this are synced one by one; more are synced with their file system.
const SYNC_ONE_BY_ONE: usize = 48;

/// A directory that is put in place must be writable by its owner while it moves (rename(2) changes
/// its `..`), and while it can still be taken back.
pub(crate) fn movable(mode: u32) -> u32 {
    if mode & 0o700 == 0o700 { mode } else { mode | 0o700 }
}

pub(crate) struct Stage<'a> {
    dir: BorrowedFd<'a>,
    lane: &'a dyn Source,
    options: &'a Options,
    report: &'a mut KeepReport,
    /// By slot; `None` where nobody will ask for them.
    digests: Option<Digests>,
    /// The directory of the last slot, which mostly is that of the next one: nobody but us moves anything here.
    near: Option<Near>,
    /// Brings to the disk what is made, where that is much.
    flush: Option<Flush>,
    /// Makes small files, where there are many.
    writer: Option<Writer>,
}

/// A directory that is being filled.
struct Near {
    path: TreePath,
    fd: Arc<OwnedFd>,
    /// What is made in it has no attributes that nobody gave it.
    is_plain: bool,
}

/// The digests of staged files, by slot.
pub(crate) type Digests = BTreeMap<TreePath, Digest>;

impl<'a> Stage<'a> {
    /// Works in the staging directory `dir`. `digests`: somebody will ask for those of what is made.
    pub(crate) fn new(
        dir: BorrowedFd<'a>,
        lane: &'a dyn Source,
        options: &'a Options,
        report: &'a mut KeepReport,
        digests: bool,
    ) -> Stage<'a> {
        let digests = digests.then(Digests::new);
        Stage { dir, lane, options, report, digests, near: None, flush: None, writer: None }
    }

    /// The digests of what was made, where they were asked for.
    pub(crate) fn take_digests(&mut self) -> Digests {
        self.digests.take().unwrap_or_default()
    }

    /// Makes everything, calling `before` ahead of each object, and puts it on disk; where it is much, only
    /// [`Stage::settle`] does.
    pub(crate) fn make(&mut self, fresh: &[Fresh], before: &dyn Fn(&TreePath) -> Result<()>) -> Result<()> {
        let few = fresh.len() < SYNC_ONE_BY_ONE;
        if !few {
            self.flush = Some(Flush::begin(self.dir)?);
            self.writer = Writer::begin();
        }
        let mut mover = Mover::new();
        let mut links: BTreeMap<(u64, u64), TreePath> = BTreeMap::new();
        let mut files: Vec<(TreePath, OwnedFd)> = Vec::new();
        for (count, object) in fresh.iter().enumerate() {
            before(&object.path)?;
            if let Some(flush) =
                self.flush.as_ref().filter(|_| count % FLUSHED_AT_ONCE == FLUSHED_AT_ONCE - 1)
            {
                flush.go_on();
            }
            let (dir, name) = self.parent(&object.slot)?;
            match object.entry.kind {
                Kind::File => {
                    let group = (object.entry.dev, object.entry.ino);
                    if let Some(first) = links.get(&group).filter(|_| object.entry.nlink > 1) {
                        self.check_lane(object)?;
                        let (first_dir, first_name) = self.parent(first)?;
                        node::link_at(&*first_dir, &first_name, &*dir, &name)
                            .stepping("link", &object.path)?;
                        if let Some(digests) = &mut self.digests
                            && let Some(digest) = digests.get(first).copied()
                        {
                            digests.insert(object.slot.clone(), digest);
                        }
                        continue;
                    }
                    if object.entry.nlink > 1 {
                        links.insert(group, object.slot.clone());
                    }
                    if mover.only_copies() && self.is_simple(object) {
                        if self.order(count, object, &dir, &name)? {
                            continue;
                        }
                        // An earlier one failed, which is told below.
                        break;
                    }
                    let file = self.file(object, &dir, &name, &mut mover)?;
                    if few {
                        files.push((object.path.clone(), file));
                    }
                }
                Kind::Dir => {
                    self.check_lane(object)?;
                    node::mkdir_at(&*dir, &name, 0o700).stepping("mkdir", &object.path)?;
                }
                Kind::Symlink => {
                    self.check_lane(object)?;
                    node::symlink_at(&object.entry.target, &*dir, &name).stepping("symlink", &object.path)?;
                    self.named(object, &dir, &name, None)?;
                }
                Kind::Fifo => {
                    self.check_lane(object)?;
                    node::mkfifo_at(&*dir, &name, 0o600).stepping("mkfifo", &object.path)?;
                    self.named(object, &dir, &name, Some(object.entry.mode))?;
                }
                Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                    self.check_lane(object)?;
                    self.report.not_carried.push((object.path.clone(), "a socket or device".to_owned()));
                }
            }
        }
        for (number, stat) in self.writer.take().map(Writer::end).unwrap_or_default() {
            let object = &fresh[number];
            self.made(object, &stat.stepping("copy", &object.path)?)?;
        }
        for (path, file) in &files {
            publish::sync_file(file).stepping("fsync", path)?;
        }
        if let Some(flush) = &self.flush {
            flush.go_on();
        }
        Ok(())
    }

    /// Everything that was made is on disk, the staging directory too.
    pub(crate) fn settle(&mut self) -> Result<()> {
        match self.flush.take() {
            Some(flush) => flush.end(),
            None => publish::sync_dir(self.dir).stepping("fsync", &TreePath::root()),
        }
    }

    /// Gives the new directories their final mode and time, children first. Whatever is to be moved
    /// into them must be there by now.
    pub(crate) fn close_dirs(&mut self, fresh: &[Fresh]) -> Result<()> {
        for object in fresh.iter().rev().filter(|object| object.entry.is_dir()) {
            let (dir, name) = self.parent(&object.slot)?;
            let is = meta::stat_at(&*dir, &name).stepping("stat", &object.path)?;
            self.owner(object, (is.uid, is.gid), &|uid, gid| meta::set_owner_at(&*dir, &name, uid, gid))?;
            let nested = object.slot.components().count() > 1;
            let mode = if nested { object.entry.mode } else { movable(object.entry.mode) };
            let wanted = self.lane.xattrs(&object.path).reading("lane", &object.path)?;
            self.attributes(object, wanted, |key, value| xattr::set_at(&*dir, &name, key, value))?;
            if fresh.len() < SYNC_ONE_BY_ONE {
                let inside = open::dir_beneath(&*dir, &name).stepping("open", &object.path)?;
                publish::sync_dir(&inside).stepping("fsync", &object.path)?;
            }
            meta::set_mode_at(&*dir, &name, mode).stepping("chmod", &object.path)?;
            self.times(object, &|mtime| meta::set_times_at(&*dir, &name, mtime))?;
        }
        Ok(())
    }

    fn parent(&mut self, slot: &TreePath) -> Result<(Arc<OwnedFd>, Vec<u8>)> {
        if let Some(near) = &self.near
            && slot.is_in(&near.path)
        {
            return Ok((Arc::clone(&near.fd), slot.name().to_vec()));
        }
        let (fd, name) =
            open::parent_beneath(self.dir, slot.as_bytes()).stepping("open the staging directory", slot)?;
        let fd = Arc::new(fd);
        let xattrs = xattr::list(&*fd).stepping("listxattr", slot)?;
        let is_plain = !xattrs.iter().any(|name| name == b"system.posix_acl_default");
        self.near = Some(Near { path: slot.parent().unwrap_or_default(), fd: Arc::clone(&fd), is_plain });
        Ok((fd, name))
    }

    fn check_lane(&self, object: &Fresh) -> Result<()> {
        let now = self.lane.entry(&object.path).reading("lane", &object.path)?;
        let same = now.is_some_and(|now| {
            let wanted = &object.entry;
            now.kind == wanted.kind
                && (now.is_dir()
                    || (now.size == wanted.size && now.mtime == wanted.mtime && now.target == wanted.target))
        });
        if same { Ok(()) } else { Err(Error::LaneMoved { path: object.path.clone() }) }
    }

    /// Owner, attributes, mode and time of something that has no descriptor.
    fn named(&mut self, object: &Fresh, dir: &OwnedFd, name: &[u8], mode: Option<u32>) -> Result<()> {
        let path = &object.path;
        let is = meta::stat_at(dir, name).stepping("stat", path)?;
        self.owner(object, (is.uid, is.gid), &|uid, gid| meta::set_owner_at(dir, name, uid, gid))?;
        let wanted = self.lane.xattrs(path).reading("lane", path)?;
        self.attributes(object, wanted, |key, value| xattr::set_at(dir, name, key, value))?;
        if let Some(mode) = mode {
            meta::set_mode_at(dir, name, mode).stepping("chmod", path)?;
        }
        self.times(object, &|mtime| meta::set_times_at(dir, name, mtime))
    }

    /// The lane's file, which must be what the plan saw.
    fn open_lane(&self, object: &Fresh) -> Result<Opened> {
        let (path, wanted) = (&object.path, &object.entry);
        let moved = || Error::LaneMoved { path: path.clone() };
        let from = match self.lane.open_seen(path) {
            // Nothing is there, or something that is no file.
            Err(error)
                if error.is_not_found()
                    || matches!(error.errno, Errno::ISDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO) =>
            {
                return Err(moved());
            }
            answer => answer.reading("lane", path)?,
        };
        let same = from.entry.size == wanted.size && from.entry.mtime == wanted.mtime;
        if same { Ok(from) } else { Err(moved()) }
    }

    /// True for a file of which the writer can make all: small, without holes or further names, with a mode that can be there
    /// from the start and the time of its writing.
    fn is_simple(&self, object: &Fresh) -> bool {
        let entry = &object.entry;
        self.writer.is_some()
            && self.near.as_ref().is_some_and(|near| near.is_plain)
            && entry.size <= SMALL
            && entry.allocated >= entry.size
            && entry.nlink == 1
            && is_plain(entry.mode)
            && !self.options.keep_times
            && !object.keeps_time
    }

    /// Reads a simple file and has it made; false where there is no use in more.
    fn order(&mut self, number: usize, object: &Fresh, dir: &Arc<OwnedFd>, name: &[u8]) -> Result<bool> {
        let (path, size) = (&object.path, object.entry.size);
        let from = self.open_lane(object)?;
        if !from.xattrs.is_empty() {
            return self.file(object, dir, name, &mut Mover::new()).map(|_| true);
        }
        // One byte more than it should be tells that it is all.
        let mut content = vec![0; usize::try_from(size).unwrap_or_default() + 1];
        let got = bytes::read_full_at(&from.file, &mut content, 0).reading("lane", path)?;
        let after = meta::stat_fd(&from.file).reading("lane", path)?;
        let mtime = (object.entry.mtime.sec, object.entry.mtime.nsec);
        if got as u64 != size || after.size != size || after.mtime != mtime {
            return Err(Error::LaneMoved { path: path.clone() });
        }
        content.truncate(got);
        if let Some(digests) = &mut self.digests {
            digests.insert(object.slot.clone(), digest::of_content(wanted_owner(object), &content));
        }
        self.report.files += 1;
        self.report.bytes += size;
        let order =
            Order { number, dir: Arc::clone(dir), name: name.to_vec(), mode: object.entry.mode, content };
        Ok(self.writer.as_ref().is_some_and(|writer| writer.order(order)))
    }

    /// Looks at a file that the writer made, and gives it what it could not have from the start.
    fn made(&mut self, object: &Fresh, stat: &RawStat) -> Result<()> {
        let path = &object.path;
        if stat.size != object.entry.size {
            return Err(Error::LaneMoved { path: path.clone() });
        }
        let is = (stat.uid, stat.gid);
        if is == wanted_owner(object) && stat.permissions() == object.entry.mode {
            return Ok(());
        }
        let (dir, name) = self.parent(&object.slot)?;
        let owner = self.owner(object, is, &|uid, gid| meta::set_owner_at(&*dir, &name, uid, gid))?;
        meta::set_mode_at(&*dir, &name, object.entry.mode).stepping("chmod", path)?;
        if owner != wanted_owner(object)
            && let Some(digests) = &mut self.digests
            && let Some(digest) = digest::at(&dir, &name, path)?
        {
            digests.insert(object.slot.clone(), digest);
        }
        Ok(())
    }

    fn file(&mut self, object: &Fresh, dir: &OwnedFd, name: &[u8], mover: &mut Mover) -> Result<OwnedFd> {
        let path = &object.path;
        let Opened { file: from, xattrs, .. } = self.open_lane(object)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        // Nobody else comes to the staging directory, so a plain mode can be there from the start.
        let wanted = object.entry.mode;
        let first = Mode::from_raw_mode(if is_plain(wanted) { wanted } else { 0o600 });
        let to = open::open_beneath(dir, name, flags, first).stepping("create", path)?;
        let size = object.entry.size;
        let sparse = object.entry.allocated < size;
        let (how, moved) =
            mover.move_content(from.as_fd(), to.as_fd(), size, sparse).stepping("copy", path)?;
        let after = meta::stat_fd(&from).reading("lane", path)?;
        let written = meta::stat_fd(&to).stepping("stat", path)?;
        let mtime = (object.entry.mtime.sec, object.entry.mtime.nsec);
        if after.size != size || after.mtime != mtime || moved != size || written.size != size {
            return Err(Error::LaneMoved { path: path.clone() });
        }
        let is = (written.uid, written.gid);
        let owner = self.owner(object, is, &|uid, gid| meta::set_owner_fd(&to, uid, gid))?;
        // Before the mode: only who may write may set attributes, and an ACL's mask is the mode's
        // group bits, which the mode then sets to the same.
        let dressed = self.attributes(object, xattrs, |key, value| xattr::set(&to, key, value))?;
        if dressed || owner != is || written.permissions() != wanted {
            meta::set_mode_fd(&to, wanted).stepping("chmod", path)?;
        }
        self.times(object, &|mtime| meta::set_times_fd(&to, mtime))?;
        let is_bare = how != How::Reflink && !dressed && self.near.as_ref().is_some_and(|near| near.is_plain);
        if let Some(digests) = &mut self.digests
            && let Some(digest) = digest::of_made(&to, owner, is_bare, mover.held(), path)?
        {
            digests.insert(object.slot.clone(), digest);
        }
        self.report.files += 1;
        self.report.bytes += size;
        if how == How::Reflink {
            self.report.reflinked += 1;
        }
        Ok(to)
    }

    /// A replaced object keeps its owner; a new one gets the lane's, which is the caller's own for
    /// everybody but root. Must come before the mode: chown(2) clears set-id bits. Answers the owner that it has then.
    fn owner(
        &mut self,
        object: &Fresh,
        is: (u32, u32),
        give: &dyn Fn(u32, u32) -> kernel::Result<()>,
    ) -> Result<(u32, u32)> {
        let wanted = wanted_owner(object);
        if is == wanted {
            return Ok(is);
        }
        match give(wanted.0, wanted.1) {
            Err(error) if matches!(error.errno, Errno::PERM | Errno::INVAL) => {
                let text = format!("owner {}:{} (is {}:{})", wanted.0, wanted.1, is.0, is.1);
                self.report.not_carried.push((object.path.clone(), text));
                Ok(is)
            }
            answer => answer.map(|()| wanted).stepping("chown", &object.path),
        }
    }

    /// Sets what is carried of `wanted`; true where anything was.
    fn attributes(
        &mut self,
        object: &Fresh,
        wanted: Vec<Xattr>,
        set: impl Fn(&[u8], &[u8]) -> kernel::Result<()>,
    ) -> Result<bool> {
        let mut any = false;
        for (key, value) in wanted {
            let mut refused = || {
                let text = format!("attribute {}", key.escape_ascii());
                self.report.not_carried.push((object.path.clone(), text));
            };
            if !is_carried(&key) {
                refused();
                continue;
            }
            match set(&key, &value) {
                Err(error) if matches!(error.errno, Errno::OPNOTSUPP | Errno::PERM) => refused(),
                answer => {
                    answer.stepping("setxattr", &object.path)?;
                    any = true;
                }
            }
        }
        Ok(any)
    }

    fn times(&self, object: &Fresh, set: &dyn Fn((i64, u32)) -> kernel::Result<()>) -> Result<()> {
        let mtime = match &object.old {
            _ if self.options.keep_times => object.entry.mtime,
            Some(old) if object.keeps_time => old.mtime,
            _ => return Ok(()),
        };
        set((mtime.sec, mtime.nsec)).stepping("utimensat", &object.path)
    }
}

/// A mode that a file may have while it is written.
fn is_plain(mode: u32) -> bool {
    mode & 0o600 == 0o600 && mode & !0o777 == 0
}

fn wanted_owner(object: &Fresh) -> (u32, u32) {
    let like = object.old.as_ref().filter(|old| old.kind == object.entry.kind).unwrap_or(&object.entry);
    (like.uid, like.gid)
}

/// The user's own attributes and ACLs. Never the layer format's: in the origin, which is the lower of
/// other lanes, they would be read as marks.
pub(crate) fn is_carried(name: &[u8]) -> bool {
    (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
        || name == b"system.posix_acl_access"
        || name == b"system.posix_acl_default"
}

/// Lists what stands at `slot` in `dir`: itself first, then everything below.
pub(crate) fn survey(dir: BorrowedFd<'_>, slot: &TreePath) -> Result<Vec<Seen>> {
    let mut list = Vec::new();
    let (parent, name) =
        open::parent_beneath(dir, slot.as_bytes()).stepping("open the staging directory", slot)?;
    survey_into((&parent, &name), slot, &TreePath::root(), &mut list)?;
    Ok(list)
}

fn survey_into(
    (parent, name): (&OwnedFd, &[u8]),
    slot: &TreePath,
    below: &TreePath,
    list: &mut Vec<Seen>,
) -> Result<()> {
    let at = || slot.join_path(below);
    let entry = match tree::dir::entry_at(parent, name) {
        Err(error) => return Err(error).stepping("stat", &at()),
        Ok(entry) => entry,
    };
    let Some(entry) = entry else { return Err(Error::LaneMoved { path: at() }) };
    list.push(Seen::of(below.clone(), &entry, true));
    if entry.is_dir() {
        let at = at();
        let inside = open::dir_beneath(parent, name).stepping("open the staging directory", &at)?;
        for child in kernel::dir::entries(&inside).stepping("list", &at)? {
            survey_into((&inside, &child.name), slot, &below.join(&child.name), list)?;
        }
    }
    Ok(())
}
