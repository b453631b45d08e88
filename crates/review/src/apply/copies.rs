//! Copies of what a keep displaces, for a project on whose file system no directory of ours can stand: its staging directory
//! is in the origin, where nothing of ours may stay.
//!
//! Invariant: the copies are whole and on disk before the first name of the origin changes. They stand under the
//! names of the slots, each with content, mode, owner, attributes and time.

use std::os::fd::{AsFd as _, OwnedFd};

use kernel::bytes::Mover;
use kernel::{Errno, meta, node, open, publish, xattr};
use rustix::fs::{Mode, OFlags};
use tree::copy::{CopyOptions, copy_tree};
use tree::{Kind, TreePath};

use super::acts::{Acts, is_lifted};
use super::closing::remove;
use super::journal::{Op, Seen};
use super::site::{Site, Spot};
use super::undo::carried_xattrs;
use crate::error::{Error, Result, Stepping as _};

/// Copies what `acts` are going to displace into the new directory `name` in `place`.
pub(crate) fn save(site: &Site<'_>, place: &OwnedFd, name: &[u8], acts: &Acts) -> Result<()> {
    let top = TreePath::root();
    room(place, &acts.ops)?;
    // One that a kill left.
    remove(place, name, "remove old copies")?;
    node::mkdir_at(place, name, 0o700).stepping("make the directory of copies", &top)?;
    let copies = open::dir_beneath(place, name).stepping("open the directory of copies", &top)?;
    for op in &acts.ops {
        let (Op::Take { path, slot, old } | Op::Swap { path, slot, old, .. }) = op else { continue };
        if is_lifted(old) {
            continue;
        }
        site.fault("copy", path)?;
        let from = site.spot(&acts.before(path))?;
        copy(
            &from,
            &Spot { dir: duplicate(&copies)?, name: slot.as_bytes().to_vec(), entry: None },
            old,
            path,
        )?;
    }
    publish::sync_filesystem(&copies).stepping("syncfs", &top)?;
    publish::sync_dir(place).stepping("fsync", &top)
}

/// Copies everything back into the staging directory, for the acts that put it in place.
pub(crate) fn bring_back(site: &Site<'_>, place: &OwnedFd, name: &[u8], ops: &[Op]) -> Result<()> {
    let top = TreePath::root();
    let Some(stage) = site.stage else { return Ok(()) };
    let copies = open::dir_beneath(place, name).stepping("open the directory of copies", &top)?;
    let from = Site { origin: site.origin, stage: Some(copies.as_fd()), faults: site.faults };
    for op in ops {
        let (Op::Put { path, slot, new } | Op::Swap { path, slot, new, .. }) = op else { continue };
        if is_lifted(new) {
            continue;
        }
        site.fault("stage", path)?;
        copy(&from.need_slot(slot)?, &site.need_slot(slot)?, new, path)?;
    }
    publish::sync_filesystem(stage).stepping("syncfs", &top)
}

/// Says how much is missing, where the copies have no room.
fn room(place: &OwnedFd, ops: &[Op]) -> Result<()> {
    let olds = ops.iter().flat_map(|op| match op {
        Op::Take { old, .. } | Op::Swap { old, .. } if !is_lifted(old) => old.as_slice(),
        _ => &[],
    });
    let needed: u64 =
        olds.filter(|old| old.kind == Kind::File).map(|old| old.size.next_multiple_of(4096)).sum();
    let free = meta::room(place).stepping("ask for room", &TreePath::root())?.free;
    if needed <= free {
        return Ok(());
    }
    let place = std::path::PathBuf::from("the state directory");
    Err(Error::NoRoom { what: "bytes", place, needed, free, missing: needed - free })
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd> {
    fd.try_clone()
        .map_err(|error| kernel::Error::from_io("dup", b"", &error))
        .stepping("open the directory of copies", &TreePath::root())
}

/// Copies one object with everything below it. `list` says what belongs to it.
fn copy(from: &Spot, to: &Spot, list: &[Seen], path: &TreePath) -> Result<()> {
    let moved = || Error::OriginMoved { paths: vec![path.clone()] };
    let Some(entry) = &from.entry else { return Err(moved()) };
    match entry.kind {
        Kind::Dir => {
            node::mkdir_at(&to.dir, &to.name, 0o700).stepping("mkdir", path)?;
            let (source, target) = (
                open::dir_beneath(&from.dir, &from.name).stepping("open", path)?,
                open::dir_beneath(&to.dir, &to.name).stepping("open", path)?,
            );
            let copied = copy_tree(source.as_fd(), target.as_fd(), &CopyOptions::default(), &mut |_| {})
                .stepping("copy", path)?;
            if let Some((below, why)) = copied.skipped.into_iter().next() {
                let source = kernel::Error::new("copy", why.as_bytes(), Errno::NOTSUP);
                return Err(Error::Step { step: "copy what goes", path: path.join_path(&below), source });
            }
        }
        Kind::File => {
            let source = open::file_beneath(&from.dir, &from.name).stepping("open", path)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let target = open::open_beneath(&to.dir, &to.name, flags, Mode::RUSR | Mode::WUSR)
                .stepping("create", path)?;
            let sparse = entry.allocated < entry.size;
            let (_, size) = Mover::new()
                .move_content(source.as_fd(), target.as_fd(), entry.size, sparse)
                .stepping("copy", path)?;
            if size != entry.size {
                return Err(moved());
            }
        }
        Kind::Symlink => {
            node::symlink_at(&entry.target, &to.dir, &to.name).stepping("symlink", path)?;
        }
        Kind::Fifo => node::mkfifo_at(&to.dir, &to.name, 0o600).stepping("mkfifo", path)?,
        Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
            let source = kernel::Error::new("copy", path.as_bytes(), Errno::NOTSUP);
            return Err(Error::Step { step: "copy what goes", path: path.clone(), source });
        }
    }
    if entry.kind != Kind::Dir {
        for (key, value) in carried_xattrs(&from.dir, &from.name, path)? {
            xattr::set_at(&to.dir, &to.name, &key, &value).stepping("setxattr", path)?;
        }
        if entry.kind != Kind::Symlink {
            meta::set_mode_at(&to.dir, &to.name, entry.mode).stepping("chmod", path)?;
        }
        let mtime = (entry.mtime.sec, entry.mtime.nsec);
        meta::set_times_at(&to.dir, &to.name, mtime).stepping("utimensat", path)?;
    }
    owners(to, list, path)
}

/// Owners, which only root can give away. Must not undo the set-id bits that a change of owner clears.
fn owners(to: &Spot, list: &[Seen], path: &TreePath) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for seen in list {
        let at = if seen.path.is_root() {
            Some((duplicate(&to.dir)?, to.name.clone()))
        } else {
            let below = TreePath::root().join(&to.name).join_path(&seen.path);
            Some(open::parent_beneath(&to.dir, below.as_bytes()).stepping("open", path)?)
        };
        let Some((dir, name)) = at else { continue };
        let is = meta::stat_at(&dir, &name).stepping("stat", path)?;
        if (is.uid, is.gid) != seen.owner {
            meta::set_owner_at(&dir, &name, seen.owner.0, seen.owner.1).stepping("chown", path)?;
            if seen.kind != Kind::Symlink {
                meta::set_mode_at(&dir, &name, seen.mode).stepping("chmod", path)?;
            }
        }
    }
    Ok(())
}
