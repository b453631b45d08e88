//! From the record of a keep to the acts that undo it: each act turned round, the last one first.
//!
//! Invariant: what is taken away is what the keep put there and nobody edited since; what is put back is the user's own
//! object (or the copy of it, where the object itself could not be held). Looking changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use kernel::{Errno, bytes, meta, open};
use tree::{Entry, Kind, TreePath};

use super::acts::is_lifted;
use super::journal::{DirTime, Journal, Meta, Op, Seen, ino};
use super::site::{Closely, Site, Spot, compare};
use super::stage::survey;
use super::undo::{carried_xattrs, places_after};
use crate::error::{Error, Result, Stepping as _};

/// What a look at the origin gave.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The acts, in order.
    pub(crate) ops: Vec<Op>,
    /// What was edited since the keep.
    pub(crate) edited: Vec<TreePath>,
    /// Directories as they are now, for the case that the undoing is taken back.
    pub(crate) dirs: Vec<DirTime>,
    /// Directories whose times of before come back: nobody changed names in them since.
    pub(crate) back: Vec<DirTime>,
}

/// Looks at everything that `record` speaks of. What was displaced is at `site`'s staging directory.
pub(crate) fn look(site: &Site<'_>, record: &Journal) -> Result<Looked> {
    let mut looked = Looked::default();
    let placed: BTreeMap<&TreePath, u64> = record
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Put { path, new, .. } | Op::Swap { path, new, .. } => Some((path, ino(new)?)),
            _ => None,
        })
        .collect();
    let last = last_metas(record);
    for (at, op) in record.ops.iter().enumerate() {
        let op = match op {
            Op::Take { path, slot, old } => {
                let old = if is_lifted(old) { old.clone() } else { held(site, slot, old)? };
                let there = site.spot_if_reachable(path)?.and_then(|spot| spot.entry);
                if there.is_some_and(|entry| placed.get(path) != Some(&entry.ino)) {
                    looked.edited.push(path.clone());
                }
                Op::Put { path: path.clone(), slot: slot.clone(), new: old }
            }
            Op::Put { path, slot, new } => {
                let old = in_place(site, path, new, &mut looked.edited)?;
                Op::Take { path: path.clone(), slot: slot.clone(), old }
            }
            Op::Swap { path, slot, old, new } => {
                let new = in_place(site, path, new, &mut looked.edited)?;
                let old = held(site, slot, old)?;
                Op::Swap { path: path.clone(), slot: slot.clone(), old: new, new: old }
            }
            Op::Meta { path, ino, old, new } => {
                if last.get(ino) == Some(&at) && !has_meta(site, path, *ino, new)? {
                    looked.edited.push(path.clone());
                }
                Op::Meta { path: path.clone(), ino: *ino, old: new.clone(), new: old.clone() }
            }
        };
        looked.ops.push(op);
    }
    looked.ops.reverse();
    looked.edited.sort();
    looked.edited.dedup();
    for dir in &record.dirs {
        let path = places_after(record, &dir.path);
        let now = site.spot_if_reachable(&path)?.and_then(|spot| spot.entry);
        let now = now.filter(|entry| entry.is_dir() && entry.ino == dir.ino).map(|entry| entry.mtime);
        if let Some(mtime) = now {
            looked.dirs.push(DirTime { path, mtime, names_change: true, after: None, ..dir.clone() });
        }
        if dir.after.is_none() || dir.after == now {
            looked.back.push(dir.clone());
        }
    }
    for op in &record.ops {
        let (Op::Put { path, new, .. } | Op::Swap { path, new, .. }) = op else { continue };
        let inside = new.iter().filter(|seen| !seen.ours && !seen.path.is_root());
        let above = inside.filter_map(|seen| path.join_path(&seen.path).parent());
        let itself = new.first().filter(|top| top.is_dir() && top.ours).map(|_| path.clone());
        for path in above.chain(itself) {
            let now = site.spot_if_reachable(&path)?.and_then(|spot| spot.entry);
            if let Some(now) = now.filter(Entry::is_dir) {
                let (ino, mtime) = (now.ino, now.mtime);
                looked.dirs.push(DirTime { path, ino, mtime, names_change: true, after: None });
            }
        }
    }
    Ok(looked)
}

/// For each inode that stands in the origin, the last act that gave it a mode.
fn last_metas(record: &Journal) -> BTreeMap<u64, usize> {
    let gone: BTreeSet<u64> = record
        .ops
        .iter()
        .flat_map(|op| match op {
            Op::Take { old, .. } | Op::Swap { old, .. } if !is_lifted(old) => old.as_slice(),
            _ => &[],
        })
        .map(|old| old.ino)
        .collect();
    let metas = record.ops.iter().enumerate().filter_map(|(at, op)| match op {
        Op::Meta { ino, .. } if !gone.contains(ino) => Some((*ino, at)),
        _ => None,
    });
    metas.collect()
}

/// What we put at `path`, as it is now.
fn in_place(site: &Site<'_>, path: &TreePath, new: &[Seen], edited: &mut Vec<TreePath>) -> Result<Vec<Seen>> {
    let Some(spot) = site.spot_if_reachable(path)? else {
        edited.push(path.clone());
        return Ok(new.to_vec());
    };
    let (nothing, none) = (BTreeSet::new(), BTreeSet::new());
    let closely = Closely { touched: &nothing, moved: false, made: true };
    let compared = compare(&spot, new, &none, closely)?;
    edited.extend(compared.different.iter().map(|below| path.join_path(below)));
    Ok(compared.now)
}

/// What was displaced, which must be there.
fn held(site: &Site<'_>, slot: &TreePath, old: &[Seen]) -> Result<Vec<Seen>> {
    let there = site.slot(slot)?.and_then(|spot| spot.entry);
    let kind = old.first().map(|old| old.kind);
    match there {
        Some(entry) if Some(entry.kind) == kind => Ok(old.to_vec()),
        _ => Err(Error::RecordDamaged {
            id: String::new(),
            reason: format!("what it displaced is gone ({:?})", slot.as_path()),
        }),
    }
}

fn has_meta(site: &Site<'_>, path: &TreePath, ino: u64, meta: &Meta) -> Result<bool> {
    let Some(spot) = site.spot_if_reachable(path)? else { return Ok(false) };
    let Some(entry) = spot.entry.as_ref().filter(|entry| entry.ino == ino) else { return Ok(false) };
    if entry.kind != Kind::Symlink && entry.mode != meta.mode {
        return Ok(false);
    }
    match &meta.xattrs {
        Some(wanted) => Ok(carried_xattrs(&spot.dir, &spot.name, path)? == *wanted),
        None => Ok(true),
    }
}

/// Gives files that come back the time of writing where their content is not what stands there now, so that build
/// tools see the change, and learns what is going to be put back as it is in the staging directory.
pub(crate) fn freshen(site: &Site<'_>, mut ops: Vec<Op>) -> Result<Vec<Op>> {
    for op in &mut ops {
        let (slot, new, path, swaps) = match op {
            Op::Put { path, slot, new } => (slot, new, path, false),
            Op::Swap { path, slot, new, .. } => (slot, new, path, true),
            _ => continue,
        };
        if is_lifted(new) {
            continue;
        }
        site.fault("freshen", path)?;
        let Some(stage) = site.stage else { continue };
        let top = site.need_slot(slot)?;
        if !(swaps && has_content_of(&top, &site.spot(path)?, path)?) {
            for seen in new.iter().filter(|seen| seen.kind == Kind::File) {
                touch(site, &slot.join_path(&seen.path))?;
            }
        }
        match survey(stage, slot) {
            Ok(list) => *new = list,
            // A directory closed to its own owner: what is in it is as it was.
            Err(Error::Step { source, .. }) if source.errno == Errno::ACCESS => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ops)
}

/// The names that a file has elsewhere share its time, so one that has others keeps it; so does what is not ours.
fn touch(site: &Site<'_>, slot: &TreePath) -> Result<()> {
    let Some(spot) = site.slot(slot)? else { return Ok(()) };
    if !spot.entry.as_ref().is_some_and(|entry| entry.is_file() && entry.nlink == 1) {
        return Ok(());
    }
    match meta::touch_at(&spot.dir, &spot.name) {
        Err(error) if matches!(error.errno, Errno::PERM | Errno::ACCESS) => Ok(()),
        answer => answer.stepping("utimensat", slot),
    }
}

fn has_content_of(held: &Spot, here: &Spot, path: &TreePath) -> Result<bool> {
    let (Some(old), Some(new)) = (&held.entry, &here.entry) else { return Ok(false) };
    let is_file = |entry: &Entry| entry.is_file();
    if !is_file(old) || !is_file(new) || old.size != new.size {
        return Ok(false);
    }
    let opened = (open::file_beneath(&held.dir, &held.name), open::file_beneath(&here.dir, &here.name));
    match opened {
        (Ok(old), Ok(new)) => bytes::same_content(&old, &new).stepping("compare", path),
        _ => Ok(false),
    }
}
