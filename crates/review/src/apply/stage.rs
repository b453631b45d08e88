//! Making the new objects in the staging directory, complete with content, owner, mode, attributes
//! and times. The origin is not touched here.
//!
//! Invariant: what is staged is what the plan said: a lane that changed since is noticed by size and
//! time before and after its content was read.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::bytes::{How, Mover};
use kernel::{Errno, meta, node, open, publish, xattr};
use rustix::fs::{Mode, OFlags};
use tree::{Kind, Source, TreePath};

use super::journal::{Digest, Seen};
use super::units::Fresh;
use super::{KeepReport, Options, digest};
use crate::error::{Error, Reading as _, Result, Stepping as _};

/// Fewer new objects than this are synced one by one; more are synced with their file system.
const SYNC_ONE_BY_ONE: usize = 48;

/// A directory that is put in place must be writable by its owner while it moves (rename(2) changes
/// its `..`), and while it can still be taken back.
pub(crate) fn movable(mode: u32) -> u32 {
    if mode & 0o700 == 0o700 { mode } else { mode | 0o700 }
}

pub(crate) struct Stage<'a> {
    pub(crate) dir: BorrowedFd<'a>,
    pub(crate) lane: &'a dyn Source,
    pub(crate) options: &'a Options,
    pub(crate) report: &'a mut KeepReport,
    /// By slot; `None` where nobody will ask for them.
    pub(crate) digests: Option<Digests>,
}

/// The digests of staged files, by slot.
pub(crate) type Digests = BTreeMap<TreePath, Digest>;

impl Stage<'_> {
    /// Makes everything, calling `before` ahead of each object, and puts it on disk.
    pub(crate) fn make(&mut self, fresh: &[Fresh], before: &dyn Fn(&TreePath) -> Result<()>) -> Result<()> {
        let few = fresh.len() < SYNC_ONE_BY_ONE;
        let mut mover = Mover::new();
        let mut links: BTreeMap<(u64, u64), TreePath> = BTreeMap::new();
        let mut files: Vec<(TreePath, OwnedFd)> = Vec::new();
        for object in fresh {
            before(&object.path)?;
            self.check_lane(object)?;
            let (dir, name) = self.parent(&object.slot)?;
            match object.entry.kind {
                Kind::File => {
                    let group = (object.entry.dev, object.entry.ino);
                    if let Some(first) = links.get(&group).filter(|_| object.entry.nlink > 1) {
                        let (first_dir, first_name) = self.parent(first)?;
                        node::link_at(&first_dir, &first_name, &dir, &name).stepping("link", &object.path)?;
                        if let Some(digests) = &mut self.digests
                            && let Some(digest) = digests.get(first).copied()
                        {
                            digests.insert(object.slot.clone(), digest);
                        }
                        continue;
                    }
                    links.insert(group, object.slot.clone());
                    let file = self.file(object, &dir, &name, &mut mover)?;
                    if few {
                        files.push((object.path.clone(), file));
                    }
                }
                Kind::Dir => node::mkdir_at(&dir, &name, 0o700).stepping("mkdir", &object.path)?,
                Kind::Symlink => {
                    node::symlink_at(&object.entry.target, &dir, &name).stepping("symlink", &object.path)?;
                    self.owner(object, &dir, &name)?;
                    self.attributes(object, &dir, &name)?;
                    self.times(object, &dir, &name)?;
                }
                Kind::Fifo => {
                    node::mkfifo_at(&dir, &name, 0o600).stepping("mkfifo", &object.path)?;
                    self.owner(object, &dir, &name)?;
                    self.attributes(object, &dir, &name)?;
                    meta::set_mode_at(&dir, &name, object.entry.mode).stepping("chmod", &object.path)?;
                    self.times(object, &dir, &name)?;
                }
                Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                    self.report.not_carried.push((object.path.clone(), "a socket or device".to_owned()));
                }
            }
        }
        for (path, file) in &files {
            publish::sync_file(file).stepping("fsync", path)?;
        }
        if !few {
            publish::sync_filesystem(self.dir).stepping("syncfs", &TreePath::root())?;
        }
        Ok(())
    }

    /// Gives the new directories their final mode and time, children first. Whatever is to be moved
    /// into them must be there by now.
    pub(crate) fn close_dirs(&mut self, fresh: &[Fresh]) -> Result<()> {
        for object in fresh.iter().rev().filter(|object| object.entry.is_dir()) {
            let (dir, name) = self.parent(&object.slot)?;
            self.owner(object, &dir, &name)?;
            let nested = object.slot.components().count() > 1;
            let mode = if nested { object.entry.mode } else { movable(object.entry.mode) };
            self.attributes(object, &dir, &name)?;
            if fresh.len() < SYNC_ONE_BY_ONE {
                let inside = open::dir_beneath(&dir, &name).stepping("open", &object.path)?;
                publish::sync_dir(&inside).stepping("fsync", &object.path)?;
            }
            meta::set_mode_at(&dir, &name, mode).stepping("chmod", &object.path)?;
            self.times(object, &dir, &name)?;
        }
        Ok(())
    }

    fn parent(&self, slot: &TreePath) -> Result<(OwnedFd, Vec<u8>)> {
        open::parent_beneath(self.dir, slot.as_bytes()).stepping("open the staging directory", slot)
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

    fn file(&mut self, object: &Fresh, dir: &OwnedFd, name: &[u8], mover: &mut Mover) -> Result<OwnedFd> {
        let path = &object.path;
        let from = self.lane.open(path).reading("lane", path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let to = open::open_beneath(dir, name, flags, Mode::RUSR | Mode::WUSR).stepping("create", path)?;
        let size = object.entry.size;
        let sparse = object.entry.allocated < size;
        let (how, moved) =
            mover.move_content(from.as_fd(), to.as_fd(), size, sparse).stepping("copy", path)?;
        let after = meta::stat_fd(&from).reading("lane", path)?;
        let written = meta::stat_fd(&to).stepping("stat", path)?.size;
        let mtime = (object.entry.mtime.sec, object.entry.mtime.nsec);
        if after.size != size || after.mtime != mtime || moved != size || written != size {
            return Err(Error::LaneMoved { path: path.clone() });
        }
        self.owner(object, dir, name)?;
        // Before the mode: only who may write may set attributes, and an ACL's mask is the mode's
        // group bits, which the mode then sets to the same.
        self.attributes(object, dir, name)?;
        meta::set_mode_fd(&to, object.entry.mode).stepping("chmod", path)?;
        self.times(object, dir, name)?;
        if let Some(digests) = &mut self.digests
            && let Some(digest) = digest::of(&to, dir, name, path)?
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
    /// everybody but root. Must come before the mode: chown(2) clears set-id bits.
    fn owner(&mut self, object: &Fresh, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        let wanted = object.old.as_ref().filter(|old| old.kind == object.entry.kind).unwrap_or(&object.entry);
        let is = meta::stat_at(dir, name).stepping("stat", &object.path)?;
        if (is.uid, is.gid) == (wanted.uid, wanted.gid) {
            return Ok(());
        }
        match meta::set_owner_at(dir, name, wanted.uid, wanted.gid) {
            Err(error) if matches!(error.errno, Errno::PERM | Errno::INVAL) => {
                let text = format!("owner {}:{} (is {}:{})", wanted.uid, wanted.gid, is.uid, is.gid);
                self.report.not_carried.push((object.path.clone(), text));
                Ok(())
            }
            answer => answer.stepping("chown", &object.path),
        }
    }

    fn attributes(&mut self, object: &Fresh, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        for (key, value) in self.lane.xattrs(&object.path).reading("lane", &object.path)? {
            if !is_carried(&key) {
                self.report
                    .not_carried
                    .push((object.path.clone(), format!("attribute {}", key.escape_ascii())));
                continue;
            }
            match xattr::set_at(dir, name, &key, &value) {
                Err(error) if matches!(error.errno, Errno::OPNOTSUPP | Errno::PERM) => {
                    self.report
                        .not_carried
                        .push((object.path.clone(), format!("attribute {}", key.escape_ascii())));
                }
                answer => answer.stepping("setxattr", &object.path)?,
            }
        }
        Ok(())
    }

    fn times(&self, object: &Fresh, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        let mtime = match &object.old {
            _ if self.options.keep_times => object.entry.mtime,
            Some(old) if object.keeps_time => old.mtime,
            _ => return Ok(()),
        };
        let mtime = (mtime.sec, mtime.nsec);
        meta::set_times_at(dir, name, mtime).stepping("utimensat", &object.path)
    }
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
    survey_into(dir, slot, &TreePath::root(), &mut list)?;
    Ok(list)
}

fn survey_into(dir: BorrowedFd<'_>, slot: &TreePath, below: &TreePath, list: &mut Vec<Seen>) -> Result<()> {
    let at = slot.join_path(below);
    let (parent, name) =
        open::parent_beneath(dir, at.as_bytes()).stepping("open the staging directory", &at)?;
    let entry = tree::dir::entry_at(&parent, &name).stepping("stat", &at)?;
    let Some(entry) = entry else { return Err(Error::LaneMoved { path: at }) };
    list.push(Seen::of(below.clone(), &entry, true));
    if entry.is_dir() {
        let inside = open::dir_beneath(&parent, &name).stepping("open the staging directory", &at)?;
        for child in kernel::dir::entries(&inside).stepping("list", &at)? {
            survey_into(dir, slot, &below.join(&child.name), list)?;
        }
    }
    Ok(())
}
