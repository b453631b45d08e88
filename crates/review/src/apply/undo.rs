//! Taking a keep back: after a failure, and after a kill in a later process. One code for both, since
//! it looks at what stands where instead of remembering what was done.
//!
//! Invariant: what is put back is the user's own inode. An entry that is neither what stood there nor
//! what we put there is somebody's later work: it is left alone and told, and what it displaced stays in
//! the staging directory. Doing it twice does no more than doing it once.

use std::collections::BTreeSet;

use kernel::{Errno, meta, open, publish, xattr};
use tree::{Kind, TreePath};

use super::journal::{DirTime, Journal, Meta, Op, ino};
use super::site::{Site, Spot, untouched};
use crate::error::{Result, Stepping as _};

/// An entry that was not put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// Where, in the origin.
    pub path: TreePath,
    /// Why.
    pub why: &'static str,
    /// The staging directory, which still holds what stood there before.
    pub rescue: Option<std::path::PathBuf>,
}

const TAKEN: &str = "something else stands there now";
const EDITED: &str = "was changed after it was put there";
const LOST: &str = "is neither there nor in the staging directory";
const NO_DIR: &str = "its directory is gone";

/// Set for a moment while attributes are set.
const WRITABLE: u32 = 0o200;

/// Takes everything back that was done of `journal`, last act first.
pub(crate) fn undo(site: &Site<'_>, journal: &Journal) -> Result<Vec<LeftAlone>> {
    let mut left = Vec::new();
    let moves = moves(journal);
    for op in journal.ops.iter().rev() {
        let (path, old, why) = match op {
            Op::Take { path, slot, old } => (path, ino(old), untake(site, path, slot, ino(old))?),
            Op::Put { path, slot, new } => (path, None, unput(site, path, slot, new)?),
            Op::Swap { path, slot, old, new } => (path, ino(old), unswap(site, path, slot, ino(old), new)?),
            Op::Meta { path, ino, old, new } => (path, None, unmeta(site, path, *ino, old, new)?),
        };
        if let Some(why) = why
            && !rests(site, &moves, path, old)?
        {
            left.push(LeftAlone { path: path.clone(), why, rescue: None });
        }
        site.fault("undone", path)?;
    }
    let busy: BTreeSet<TreePath> = left.iter().filter_map(|left| left.path.parent()).collect();
    restore_times(site, &journal.dirs, |dir| !busy.contains(&dir.path))?;
    left.reverse();
    Ok(left)
}

/// Something that the journal moves from one place of the origin to another.
struct Move<'a> {
    from: &'a TreePath,
    slot: &'a TreePath,
    to: TreePath,
}

/// What is taken into a slot comes out where that slot is put, or where the new directory is put that the
/// slot lies in.
fn moves(journal: &Journal) -> Vec<Move<'_>> {
    let put = |wanted: &TreePath| {
        journal.ops.iter().find_map(|op| match op {
            Op::Put { path, slot, .. } => wanted.strip_prefix(slot).map(|rest| path.join_path(&rest)),
            _ => None,
        })
    };
    let taken = journal.ops.iter().filter_map(|op| match op {
        Op::Take { path, slot, .. } => Some(Move { from: path, slot, to: put(slot)? }),
        _ => None,
    });
    taken.collect()
}

/// Where what stood at `path` before stands once all of the journal is done.
pub(crate) fn places_after(journal: &Journal, path: &TreePath) -> TreePath {
    let moved = moves(journal)
        .into_iter()
        .find_map(|moved| path.strip_prefix(moved.from).map(|rest| moved.to.join_path(&rest)));
    moved.unwrap_or_else(|| path.clone())
}

/// True where an entry of a moved directory is still, or again, in it, but the directory is not where
/// the act would have found it: then nothing was done, or it is undone already.
fn rests(site: &Site<'_>, moves: &[Move<'_>], path: &TreePath, ino: Option<u64>) -> Result<bool> {
    let found = moves.iter().find_map(|moved| {
        path.strip_prefix(&moved.to).filter(|rest| !rest.is_root()).map(|rest| (moved, rest))
    });
    let (Some((moved, rest)), Some(ino)) = (found, ino) else { return Ok(false) };
    let before = site.spot_if_reachable(&moved.from.join_path(&rest))?;
    let between = site.slot(&moved.slot.join_path(&rest))?;
    Ok([before, between].into_iter().flatten().any(|spot| spot.ino() == Some(ino)))
}

/// Puts the modification times of directories back.
pub(crate) fn restore_times(
    site: &Site<'_>,
    dirs: &[DirTime],
    wanted: impl Fn(&DirTime) -> bool,
) -> Result<()> {
    for dir in dirs.iter().filter(|dir| wanted(dir)) {
        let Some(spot) = site.spot_if_reachable(&dir.path)? else { continue };
        let Some(entry) = spot.entry.as_ref().filter(|entry| entry.ino == dir.ino && entry.is_dir()) else {
            continue;
        };
        if entry.mtime != dir.mtime {
            let mtime = (dir.mtime.sec, dir.mtime.nsec);
            match spot.name.as_slice() {
                b"" => meta::set_times_fd(&spot.dir, mtime),
                name => meta::set_times_at(&spot.dir, name, mtime),
            }
            .stepping("utimensat", &dir.path)?;
        }
    }
    Ok(())
}

fn untake(
    site: &Site<'_>,
    path: &TreePath,
    slot: &TreePath,
    ino: Option<u64>,
) -> Result<Option<&'static str>> {
    let here = site.spot_if_reachable(path)?;
    let held = site.slot(slot)?.filter(|held| held.ino() == ino);
    let Some(held) = held else {
        return Ok((here.as_ref().and_then(Spot::ino) != ino).then_some(LOST));
    };
    let Some(here) = here else { return Ok(Some(NO_DIR)) };
    if here.entry.is_some() {
        return Ok(Some(TAKEN));
    }
    let back = || publish::rename_noreplace(&held.dir, &held.name, &here.dir, &here.name);
    let answer = match back() {
        // The new directory that it was moved into has its final, tighter mode by now.
        Err(error) if error.errno == Errno::ACCESS && slot.parent().is_some_and(|dir| !dir.is_root()) => {
            let mode = meta::stat_fd(&held.dir).stepping("stat", path)?.permissions();
            meta::set_mode_path_fd(&held.dir, mode | 0o700).stepping("chmod", path)?;
            back()
        }
        answer => answer,
    };
    match answer {
        Err(error) if error.errno == Errno::EXIST => Ok(Some(TAKEN)),
        answer => answer.map(|()| None).stepping("put back", path),
    }
}

fn unput(
    site: &Site<'_>,
    path: &TreePath,
    slot: &TreePath,
    new: &[super::journal::Seen],
) -> Result<Option<&'static str>> {
    let ours = new.first().map(|seen| seen.ino);
    let Some(here) = site.spot_if_reachable(path)? else { return Ok(None) };
    if here.entry.is_none() || site.slot(slot)?.is_some_and(|held| held.ino() == ours) {
        return Ok(None);
    }
    if here.ino() != ours {
        return Ok(Some(TAKEN));
    }
    if !untouched(&here, new)? {
        return Ok(Some(EDITED));
    }
    let Some(held) = site.slot(slot)? else { return Ok(Some(LOST)) };
    publish::rename_noreplace(&here.dir, &here.name, &held.dir, &held.name).stepping("take back", path)?;
    Ok(None)
}

fn unswap(
    site: &Site<'_>,
    path: &TreePath,
    slot: &TreePath,
    old: Option<u64>,
    new: &[super::journal::Seen],
) -> Result<Option<&'static str>> {
    let ours = new.first().map(|seen| seen.ino);
    let held = site.slot(slot)?;
    if held.as_ref().is_some_and(|held| held.ino() == ours) {
        return Ok(None);
    }
    let Some(here) = site.spot_if_reachable(path)? else { return Ok(Some(NO_DIR)) };
    if here.ino() == old {
        return Ok(None);
    }
    if here.entry.is_none() || here.ino() != ours {
        return Ok(Some(TAKEN));
    }
    if !untouched(&here, new)? {
        return Ok(Some(EDITED));
    }
    let Some(held) = held.filter(|held| held.entry.is_some()) else { return Ok(Some(LOST)) };
    publish::rename_exchange(&here.dir, &here.name, &held.dir, &held.name).stepping("exchange back", path)?;
    Ok(None)
}

fn unmeta(
    site: &Site<'_>,
    path: &TreePath,
    ino: u64,
    old: &Meta,
    new: &Meta,
) -> Result<Option<&'static str>> {
    let Some(spot) = site.spot_if_reachable(path)? else { return Ok(None) };
    let Some(entry) = spot.entry.as_ref().filter(|entry| entry.ino == ino) else { return Ok(None) };
    // The attributes of an ACL change group bits on the way, so those alone are no edit.
    let known = |mode: u32| (entry.mode ^ mode) & !(WRITABLE | 0o070) == 0;
    if !(known(old.mode) || known(new.mode)) {
        return Ok(Some(EDITED));
    }
    set_meta(&spot, path, old)?;
    Ok(None)
}

/// Gives what stands at `spot` this mode and these attributes. Nothing is written where nothing differs.
pub(crate) fn set_meta(spot: &Spot, path: &TreePath, wanted: &Meta) -> Result<()> {
    let Some(entry) = &spot.entry else { return Ok(()) };
    let fd = open::path_beneath(&spot.dir, &spot.name).stepping("open", path)?;
    let same = meta::stat_fd(&fd).stepping("stat", path)?.ino == entry.ino;
    if !same {
        return Err(crate::Error::OriginMoved { paths: vec![path.clone()] });
    }
    let set_mode = |mode| match entry.kind {
        Kind::Symlink => Ok(()),
        _ => meta::set_mode_path_fd(&fd, mode).stepping("chmod", path),
    };
    let mut mode = entry.mode;
    if let Some(wanted) = &wanted.xattrs {
        let present = carried_xattrs(&spot.dir, &spot.name, path)?;
        if present != *wanted && mode & WRITABLE == 0 {
            // Only who may write may set attributes.
            mode |= WRITABLE;
            set_mode(mode)?;
        }
        for (name, _) in present.iter().filter(|(name, _)| wanted.iter().all(|(other, _)| other != name)) {
            xattr::remove_at(&spot.dir, &spot.name, name).stepping("removexattr", path)?;
        }
        for (name, value) in wanted.iter().filter(|pair| !present.contains(pair)) {
            xattr::set_at(&spot.dir, &spot.name, name, value).stepping("setxattr", path)?;
        }
        mode = meta::stat_fd(&fd).stepping("stat", path)?.permissions();
    }
    if mode != wanted.mode { set_mode(wanted.mode) } else { Ok(()) }
}

/// The attributes that a keep carries, as they are on disk.
pub(crate) fn carried_xattrs(
    dir: impl std::os::fd::AsFd,
    name: &[u8],
    path: &TreePath,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let dir = dir.as_fd();
    let names = xattr::list_at(dir, name).stepping("listxattr", path)?;
    carried(names, |key| xattr::get_at(dir, name, key).stepping("getxattr", path))
}

/// The same of an open file.
pub(crate) fn carried_xattrs_of(
    file: impl std::os::fd::AsFd,
    path: &TreePath,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let file = file.as_fd();
    let names = xattr::list(file).stepping("listxattr", path)?;
    carried(names, |key| xattr::get(file, key).stepping("getxattr", path))
}

fn carried(
    names: Vec<Vec<u8>>,
    value: impl Fn(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    for key in names {
        if super::stage::is_carried(&key)
            && let Some(value) = value(&key)?
        {
            found.push((key, value));
        }
    }
    Ok(found)
}
