//! [`Acts`]: the acts on the origin in their order, each with what must be true right before and right
//! after it, and the doing of one.
//!
//! Invariant: an act that finds something else than it expects has changed nothing when it returns.
//! `// CASE(new, origin)` marks name the matrix of what the lane holds and what stands in the origin.

use std::collections::{BTreeMap, BTreeSet};

use kernel::{Errno, node, publish};
use tree::{Entry, Kind, Source, TreePath};

use super::journal::{DirTime, Meta, Op, Seen};
use super::site::{Closely, Site, Spot, differences};
use super::stage::{Digests, is_carried, movable, survey};
use super::undo::{carried_xattrs, set_meta};
use super::units::{Fresh, Units};
use crate::error::{Error, Reading as _, Result, Stepping as _};

#[derive(Default)]
pub(crate) struct Acts {
    pub(crate) ops: Vec<Op>,
    /// How many acts, from the first, bring things of the origin into the staging directory.
    pub(crate) lifts: usize,
    pub(crate) dirs: Vec<DirTime>,
    moved: Vec<(TreePath, TreePath)>,
    /// What goes was made by us.
    made: bool,
    touched: BTreeSet<u64>,
    /// Inodes whose mode has been set: another name of one finds it done.
    set: BTreeSet<u64>,
}

/// Collects acts and remembers what they need of directories.
struct Builder<'a, 'b> {
    site: &'a Site<'b>,
    moved: &'a [(TreePath, TreePath)],
    digests: &'a Digests,
    ops: Vec<Op>,
    dirs: BTreeMap<TreePath, DirTime>,
    /// Modes to set at the end, by final path.
    closing: BTreeMap<TreePath, (u64, Meta, Meta)>,
    /// Directories made writable for the time of the keep, by their path before it.
    loosened: BTreeSet<TreePath>,
    going: BTreeSet<TreePath>,
    /// The new directories by their slot.
    made: BTreeMap<&'a TreePath, &'a Fresh>,
    is_root: bool,
}

impl Acts {
    /// The acts of `units`, whose new objects are staged.
    pub(crate) fn of(units: &Units, site: &Site<'_>, lane: &dyn Source, digests: &Digests) -> Result<Acts> {
        let Some(stage) = site.stage else { return Err(gone(&TreePath::root())) };
        let going = units
            .units
            .iter()
            .flat_map(|unit| unit.old.iter().map(|old| unit.path.join_path(&old.path)))
            .collect();
        let mut builder = Builder {
            site,
            moved: &units.moved,
            digests,
            ops: Vec::new(),
            dirs: BTreeMap::new(),
            closing: BTreeMap::new(),
            loosened: BTreeSet::new(),
            going,
            made: units
                .fresh
                .iter()
                .filter(|object| object.entry.is_dir())
                .map(|object| (&object.slot, object))
                .collect(),
            is_root: rustix::process::geteuid().is_root(),
        };
        for lift in &units.lifts {
            builder.dir_of(&lift.from, true)?;
            let old = Seen::of(TreePath::root(), &lift.old, false);
            builder.move_self(&lift.from, &old, true);
            builder.ops.push(Op::Take { path: lift.from.clone(), slot: lift.slot.clone(), old: vec![old] });
        }
        let lifts = builder.ops.len();
        let exchange =
            units.units.iter().all(|unit| !unit.puts || unit.old.is_empty()) || can_exchange(site, stage);
        for unit in &units.units {
            let swaps = unit.puts && !unit.old.is_empty();
            builder.dir_of(&unit.path, !swaps)?;
            if let Some(old) = unit.old.first() {
                builder.move_self(&unit.path, old, false);
            }
            let (path, slot) = (unit.path.clone(), unit.slot.clone());
            let old = unit.old.clone();
            if !unit.puts {
                builder.ops.push(Op::Take { path, slot, old });
                continue;
            }
            let new = builder.staged(units, unit.slot.clone())?;
            builder.finish_mode(&unit.slot, &path, &new);
            if !swaps {
                // CASE(object, nothing there)
                builder.ops.push(Op::Put { path, slot, new });
            } else if exchange {
                // CASE(object, another object of any type)
                builder.ops.push(Op::Swap { path, slot, old, new });
            } else {
                // CASE(object, another object; a file system without RENAME_EXCHANGE)
                let aside = TreePath::root().join([b"x", unit.slot.as_bytes()].concat());
                builder.ops.push(Op::Take { path: path.clone(), slot: aside, old });
                builder.ops.push(Op::Put { path, slot, new });
            }
        }
        for (path, old, new) in &units.metas {
            builder.meta(units, path, old, new, lane)?;
        }
        // Deepest first: a directory that loses its search bit must not hide what is below it.
        let closing = std::mem::take(&mut builder.closing);
        for (path, (ino, old, new)) in closing.into_iter().rev() {
            builder.ops.push(Op::Meta { path, ino, old, new });
        }
        let dirs = builder.dirs.into_values().collect();
        Ok(Acts {
            ops: builder.ops,
            lifts,
            dirs,
            moved: units.moved.clone(),
            made: false,
            touched: BTreeSet::new(),
            set: BTreeSet::new(),
        })
    }

    /// The acts that undo a keep: `ops` take away what we made.
    pub(crate) fn backwards(ops: Vec<Op>) -> Acts {
        Acts {
            ops,
            lifts: 0,
            dirs: Vec::new(),
            moved: Vec::new(),
            made: true,
            touched: BTreeSet::new(),
            set: BTreeSet::new(),
        }
    }

    /// Where a path of before stands when all is done.
    pub(crate) fn now(&self, path: &TreePath) -> TreePath {
        now(&self.moved, path)
    }

    /// Where what an act displaces stands before anything moves.
    pub(crate) fn before(&self, path: &TreePath) -> TreePath {
        let inside = |to: &TreePath| path.strip_prefix(to).filter(|rest| !rest.is_root());
        let found = self.moved.iter().find_map(|(from, to)| inside(to).map(|rest| from.join_path(&rest)));
        found.unwrap_or_else(|| path.clone())
    }

    /// Does the act number `at`.
    pub(crate) fn perform(&mut self, site: &Site<'_>, at: usize) -> Result<()> {
        let op = &self.ops[at];
        match op {
            Op::Take { path, slot, old } => {
                site.fault("take", path)?;
                self.take(site, path, slot, old)?;
                site.fault("took", path)?;
            }
            Op::Put { path, slot, .. } => {
                site.fault("put", path)?;
                let (here, held) = (self.spot(site, path)?, site.need_slot(slot)?);
                match publish::rename_noreplace(&held.dir, &held.name, &here.dir, &here.name) {
                    Err(error) if error.errno == Errno::EXIST => {
                        return Err(Error::OriginMoved { paths: vec![path.clone()] });
                    }
                    answer => answer.stepping("put in place", path)?,
                }
                site.fault("done", path)?;
            }
            Op::Swap { path, slot, old, .. } => {
                site.fault("swap", path)?;
                self.swap(site, path, slot, old)?;
                site.fault("swapped", path)?;
            }
            Op::Meta { path, ino, old, new } => {
                site.fault("meta", path)?;
                let spot = self.spot(site, path)?;
                let known = |mode| mode == old.mode || (self.set.contains(ino) && mode == new.mode);
                let same = spot.entry.as_ref().is_some_and(|found| {
                    found.ino == *ino && (found.kind == Kind::Symlink || known(found.mode))
                });
                if !same {
                    return Err(Error::OriginMoved { paths: vec![path.clone()] });
                }
                set_meta(&spot, path, new)?;
                self.set.insert(*ino);
                site.fault("set", path)?;
            }
        }
        if let Op::Take { old, .. } | Op::Swap { old, .. } = &self.ops[at] {
            self.touched.extend(old.iter().map(|old| old.ino));
        }
        Ok(())
    }

    /// Looks at everything that was displaced once more: a program that had it open may have written
    /// to it after it was moved.
    pub(crate) fn look_again(&self, site: &Site<'_>) -> Result<()> {
        let mut moved = Vec::new();
        for op in &self.ops {
            let (Op::Take { path, slot, old } | Op::Swap { path, slot, old, .. }) = op else { continue };
            if is_lifted(old) {
                continue;
            }
            let held = site.need_slot(slot)?;
            // What was in it and goes elsewhere is there by now.
            let (stays, lifted): (Vec<&Seen>, Vec<&Seen>) = old.iter().partition(|seen| seen.ours);
            let lifted: BTreeSet<TreePath> = lifted.iter().map(|seen| seen.path.clone()).collect();
            let different = differences(&held, stays, &lifted, self.closely(true))?;
            moved.extend(different.iter().map(|below| path.join_path(below)));
        }
        if moved.is_empty() { Ok(()) } else { Err(Error::OriginMoved { paths: moved }) }
    }

    /// Once all is done: notes what tells later whether somebody edited what we put there.
    pub(crate) fn settle(&mut self, site: &Site<'_>) -> Result<()> {
        for op in &mut self.ops {
            let (Op::Put { path, new, .. } | Op::Swap { path, new, .. }) = op else { continue };
            let Some(top) = new.first_mut().filter(|top| !top.is_dir()) else { continue };
            if let Some(found) = site.spot_if_reachable(path)?.and_then(|spot| spot.entry)
                && found.ino == top.ino
            {
                top.ctime = found.ctime;
            }
        }
        Ok(())
    }

    fn closely(&self, moved: bool) -> Closely<'_> {
        Closely { touched: &self.touched, moved, made: self.made }
    }

    /// As [`Site::spot`]; a directory that somebody took away meanwhile is no failure of ours.
    fn spot(&self, site: &Site<'_>, path: &TreePath) -> Result<Spot> {
        site.spot_if_reachable(path)?.ok_or_else(|| match self.made {
            true => Error::OriginMoved { paths: vec![path.clone()] },
            false => Error::NotBeneath { path: path.clone() },
        })
    }

    /// Origin → staging directory, verified before and after.
    fn take(&self, site: &Site<'_>, path: &TreePath, slot: &TreePath, old: &[Seen]) -> Result<()> {
        let (here, held) = (self.spot(site, path)?, site.need_slot(slot)?);
        check(&here, old, path, self.closely(false))?;
        publish::rename_noreplace(&here.dir, &here.name, &held.dir, &held.name)
            .stepping("take away", path)?;
        site.fault("taken, not verified", path)?;
        let held = site.need_slot(slot)?;
        if let Err(error) = check(&held, old, path, self.closely(true)) {
            // Somebody was faster: what we took is not what was to go, so it goes back at once.
            publish::rename_noreplace(&held.dir, &held.name, &here.dir, &here.name)
                .stepping("put back", path)?;
            return Err(error);
        }
        Ok(())
    }

    fn swap(&self, site: &Site<'_>, path: &TreePath, slot: &TreePath, old: &[Seen]) -> Result<()> {
        let (here, held) = (self.spot(site, path)?, site.need_slot(slot)?);
        check(&here, old, path, self.closely(false))?;
        site.fault("swap, checked", path)?;
        publish::rename_exchange(&held.dir, &held.name, &here.dir, &here.name).stepping("exchange", path)?;
        site.fault("swapped, not verified", path)?;
        let displaced = site.need_slot(slot)?;
        if let Err(error) = check(&displaced, old, path, self.closely(true)) {
            publish::rename_exchange(&held.dir, &held.name, &here.dir, &here.name)
                .stepping("exchange back", path)?;
            return Err(error);
        }
        Ok(())
    }
}

/// True for what goes to another place, not away: what is below it is none of our business.
pub(crate) fn is_lifted(old: &[Seen]) -> bool {
    old.first().is_some_and(|old| !old.ours)
}

fn check(spot: &Spot, old: &[Seen], path: &TreePath, closely: Closely<'_>) -> Result<()> {
    let different = differences(spot, old, &BTreeSet::new(), closely)?;
    if different.is_empty() {
        return Ok(());
    }
    Err(Error::OriginMoved { paths: different.iter().map(|below| path.join_path(below)).collect() })
}

fn now(moved: &[(TreePath, TreePath)], path: &TreePath) -> TreePath {
    moved
        .iter()
        .find_map(|(from, to)| path.strip_prefix(from).map(|rest| to.join_path(&rest)))
        .unwrap_or_else(|| path.clone())
}

fn gone(slot: &TreePath) -> Error {
    let source = kernel::Error::new("openat2", slot.as_bytes(), Errno::NOENT);
    Error::Step { step: "staging directory", path: slot.clone(), source }
}

/// Whether names can be exchanged here: tried on two files of our own.
fn can_exchange(site: &Site<'_>, stage: std::os::fd::BorrowedFd<'_>) -> bool {
    if site.fault("exchange at all", &TreePath::root()).is_err() {
        return false;
    }
    let try_it = || -> kernel::Result<()> {
        let (_, a) = publish::temp_file(stage, 0o600)?;
        let (_, b) = publish::temp_file(stage, 0o600)?;
        let answer = publish::rename_exchange(stage, &a, stage, &b);
        node::unlink_at(stage, &a)?;
        node::unlink_at(stage, &b)?;
        answer
    };
    try_it().is_ok()
}

impl Builder<'_, '_> {
    /// The path that `path` has before anything moves.
    fn before(&self, path: &TreePath) -> TreePath {
        let found =
            self.moved.iter().find_map(|(from, to)| path.strip_prefix(to).map(|rest| from.join_path(&rest)));
        found.unwrap_or_else(|| path.clone())
    }

    /// Notes the directory of `path`, and makes it writable where its owner may not write.
    fn dir_of(&mut self, path: &TreePath, names_change: bool) -> Result<()> {
        let at = path.parent().unwrap_or_default();
        let before = self.before(&at);
        let spot = self.site.spot(&before)?;
        let Some(entry) = spot.entry.filter(Entry::is_dir) else {
            return Err(Error::NotBeneath { path: path.clone() });
        };
        let mtime = entry.mtime;
        self.dirs
            .entry(before.clone())
            .and_modify(|dir| dir.names_change |= names_change)
            .or_insert(DirTime { path: before.clone(), ino: entry.ino, mtime, names_change, after: None });
        if !self.is_root && entry.mode & 0o300 != 0o300 {
            self.loosen(&at, &before, entry.ino, entry.mode);
        }
        Ok(())
    }

    /// A directory that gets another parent must be writable itself (rename(2), its `..` changes), and
    /// some file systems (xfs) count that as a change of its content.
    fn move_self(&mut self, at: &TreePath, old: &Seen, lifted: bool) {
        if !old.is_dir() {
            return;
        }
        let before = if lifted { at.clone() } else { self.before(at) };
        self.dirs.entry(before.clone()).and_modify(|dir| dir.names_change |= !lifted).or_insert(DirTime {
            path: before.clone(),
            ino: old.ino,
            mtime: old.mtime,
            names_change: !lifted,
            after: None,
        });
        if !self.is_root && old.mode & 0o300 != 0o300 {
            self.loosen(at, &before, old.ino, old.mode);
        }
    }

    fn loosen(&mut self, at: &TreePath, before: &TreePath, ino: u64, mode: u32) {
        if !self.loosened.insert(before.clone()) {
            return;
        }
        let meta = |mode| Meta { mode, xattrs: None };
        let (tight, open) = (meta(mode), meta(mode | 0o700));
        self.ops.push(Op::Meta { path: at.clone(), ino, old: tight.clone(), new: open.clone() });
        if !self.going.contains(at) {
            self.closing.insert(now(self.moved, before), (ino, open, tight));
        }
    }

    /// What stands at a slot, with what will have been moved into it by then.
    fn staged(&self, units: &Units, slot: TreePath) -> Result<Vec<Seen>> {
        let Some(stage) = self.site.stage else { return Err(gone(&slot)) };
        if let Some(lift) = units.lifts.iter().find(|lift| lift.slot == slot) {
            return Ok(vec![Seen::of(TreePath::root(), &lift.old, false)]);
        }
        let mut list = survey(stage, &slot)?;
        for seen in &mut list {
            seen.digest = self.digests.get(&slot.join_path(&seen.path)).copied();
        }
        for lift in &units.lifts {
            if let Some(below) = lift.slot.strip_prefix(&slot) {
                list.push(Seen::of(below, &lift.old, false));
            }
        }
        Ok(list)
    }

    /// A new directory is put in place writable; its final mode comes at the end.
    fn finish_mode(&mut self, slot: &TreePath, path: &TreePath, new: &[Seen]) {
        if !new.first().is_some_and(Seen::is_dir) {
            return;
        }
        let Some(object) = self.made.get(slot) else { return };
        let (open, tight) = (movable(object.entry.mode), object.entry.mode);
        if let Some(root) = new.first().filter(|_| open != tight) {
            let meta = |mode| Meta { mode, xattrs: None };
            self.closing.insert(path.clone(), (root.ino, meta(open), meta(tight)));
        }
    }

    fn meta(
        &mut self,
        units: &Units,
        path: &TreePath,
        old: &Entry,
        new: &Entry,
        lane: &dyn Source,
    ) -> Result<()> {
        let lift = units.lifts.iter().find(|lift| lift.to == *path);
        let before = lift.map_or_else(|| self.before(path), |lift| lift.from.clone());
        let spot = self.site.spot(&before)?;
        let present = carried_xattrs(&spot.dir, &spot.name, &before)?;
        let wanted: Vec<_> = lane
            .xattrs(path)
            .reading("lane", path)?
            .into_iter()
            .filter(|(name, _)| is_carried(name))
            .collect();
        let differ = present != wanted;
        let open = self.closing.get(path).map_or(old.mode, |(_, open, _)| open.mode);
        let was = Meta { mode: open, xattrs: differ.then_some(present) };
        let will = Meta { mode: new.mode, xattrs: differ.then_some(wanted) };
        self.closing.insert(path.clone(), (old.ino, was, will));
        Ok(())
    }
}
