//! Three-way: the changes of a lane, made for the base, become changes of the original as it is now.
//!
//! For each path that both sides may have changed, [`crate::table`] says what becomes of it. A side's rename is
//! followed: what the other side did to the file is done under its new name. What cannot be settled is a [`Conflict`]:
//! its change stays in the set, and its path is stopped, so that a plan leaves it out and says so.
//!
//! Invariant: in the set that comes out, a change that is not stopped has as its old side what the original has now, and
//! as its new side what the composed tree shows; nothing that only the original changed is taken back by it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use tree::source::Xattr;
use tree::{Change, ChangeKind, ChangeSet, Entry, Source, TreePath};

use crate::composed::{Composed, Made};
use crate::error::{Error, Reading as _, Result};
use crate::flat::{self, Pair};
use crate::merge::Region;
use crate::plan::{Drifted, Why};
use crate::table::Did;

mod renames;
mod shape;
mod weigh;

use renames::moved_dirs;
use weigh::{Put, Three, Verdict, weigh};

/// What the base had at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// It cannot be known any more.
    Unknown,
    /// Nothing.
    Nothing,
    /// This. What a state that equals it in every time and number holds is the base's own content.
    Has(Box<Entry>),
}

/// What is known of the base.
pub trait Bases {
    /// What it had at `path`.
    fn base(&self, path: &TreePath) -> Result<Base>;

    /// The content of a file that it had there; `None` where it is not known.
    fn content(&self, path: &TreePath, entry: &Entry) -> Result<Option<OwnedFd>>;

    /// The attributes of what it had there; `None` where they are not known.
    fn xattrs(&self, path: &TreePath, entry: &Entry) -> Result<Option<Vec<Xattr>>>;

    /// Where the original has it now, where it was moved and is not at `path` any more.
    fn moved(&self, path: &TreePath, entry: &Entry) -> Result<Option<TreePath>>;

    /// What an earlier keep brought into the original from this path of the lane was this very state of it.
    fn is_kept(&self, path: &TreePath, now: &Entry) -> bool;

    /// Where another lane, whose changes count as the original's here, has what stood at `path`. With a lane that put it
    /// to a third place both names are not simply there afterwards: it is a conflict.
    fn moved_by_lane(&self, _: &TreePath) -> Option<TreePath> {
        None
    }
}

/// What is done about conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conflicts {
    /// The entry stays in the lane, and the original as it is.
    #[default]
    Stop,
    /// Lines that conflict arrive between markers; anything else stops.
    Markers,
    /// The original's side wins.
    Ours,
    /// The lane's side wins.
    Theirs,
}

impl Conflicts {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Conflicts::Stop => "stop",
            Conflicts::Markers => "markers",
            Conflicts::Ours => "ours",
            Conflicts::Theirs => "theirs",
        }
    }
}

/// Why two sides do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clash {
    /// What both started from cannot be known any more.
    BaseUnknown,
    /// The same lines: where.
    Lines(Vec<Region>),
    /// Both changed a content that has no lines.
    Binary,
    /// Both changed its mode.
    Mode,
    /// Both changed its attributes, or they differ and the base's are not known.
    Attributes,
    /// What each side did.
    Did {
        /// In the lane.
        lane: Did,
        /// In the original.
        original: Did,
    },
    /// The original has it under another name, and the lane did something else with it than to change it.
    Renamed(TreePath),
    /// The lane renamed it; what the original did.
    RenamedInLane(Did),
    /// Something else stands at its new place.
    PlaceTaken,
    /// A directory above it is none in the original any more.
    NotInDirectory(TreePath),
}

impl Clash {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Clash::BaseUnknown => "base-unknown",
            Clash::Lines(_) => "lines",
            Clash::Binary => "binary",
            Clash::Mode => "mode",
            Clash::Attributes => "attributes",
            Clash::Did { original: Did::Delete, .. } => "deleted-in-original",
            Clash::Did { lane: Did::Delete, .. } => "deleted-in-lane",
            Clash::Did { lane: Did::Add, .. } => "added-in-both",
            Clash::Did { .. } => "type",
            Clash::Renamed(_) => "renamed-in-original",
            Clash::RenamedInLane(_) => "type",
            Clash::PlaceTaken => "place-taken",
            Clash::NotInDirectory(_) => "not-in-directory",
        }
    }
}

/// A path on which the two sides do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Where, in the lane (of a deletion: in the base).
    pub path: TreePath,
    /// Why.
    pub clash: Clash,
    /// How it was settled by the caller's wish; `None` where it was not.
    pub settled: Option<Conflicts>,
    /// The paths of the original that it is about, besides.
    pub about: Vec<TreePath>,
}

/// A path on which the changes of both sides were put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Where, in the original.
    pub path: TreePath,
    /// In the lane, where that is another path.
    pub lane_path: Option<TreePath>,
    /// The content is neither side's own.
    pub content: bool,
}

/// The changes for the original as it is now.
#[derive(Debug, Clone, Default)]
pub struct Resolved {
    /// The changes.
    pub set: ChangeSet,
    /// Paths that must not be touched, for [`crate::plan::Wish::drift`].
    pub stopped: Vec<Drifted>,
    /// What does not go together, stopped or settled.
    pub conflicts: Vec<Conflict>,
    /// What went together.
    pub joined: Vec<Joined>,
    /// Paths of the lane at which nothing is left to be done.
    pub settled: BTreeSet<TreePath>,
    /// Where the original has what the lane has elsewhere: by the lane's path.
    pub followed: BTreeMap<TreePath, TreePath>,
}

/// What is to be resolved.
#[expect(missing_debug_implementations, reason = "trees have none")]
pub struct Given<'a> {
    /// The lane's changes.
    pub set: &'a ChangeSet,
    /// Paths of the original that are not what they were at the base.
    pub drift: &'a [Drifted],
    /// The base.
    pub bases: &'a dyn Bases,
    /// The tree that the changes were found against.
    pub compared: &'a dyn Source,
    /// The original as it is now.
    pub origin: &'a dyn Source,
    /// What is done about conflicts.
    pub how: Conflicts,
    /// What stands behind markers, at a path of the original.
    pub names: &'a dyn Fn(&TreePath) -> crate::merge::Names,
}

/// Resolves. What the changes are to bring is put into `lane`, whose second tree must be the original.
pub fn resolve(given: &Given<'_>, lane: &mut Composed<'_>) -> Result<Resolved> {
    let mut work = Work { given, lane, out: Resolved::default(), changes: BTreeMap::new() };
    if given.drift.is_empty() && work.fits()? {
        return Ok(Resolved { set: given.set.clone(), ..Resolved::default() });
    }
    work.run()?;
    Ok(work.finish())
}

/// A change of the lane, by what it is about.
struct Unit {
    /// In the base.
    from: TreePath,
    /// In the lane.
    at: TreePath,
    /// As the set has it; `None` where the set says nothing of it.
    change: Option<Change>,
}

struct Work<'g, 'c, 'l> {
    given: &'g Given<'g>,
    lane: &'c mut Composed<'l>,
    out: Resolved,
    /// What becomes of the set, by path.
    changes: BTreeMap<TreePath, Change>,
}

impl Work<'_, '_, '_> {
    fn run(&mut self) -> Result<()> {
        let drift: BTreeSet<&TreePath> = self.given.drift.iter().map(|at| &at.path).collect();
        let mut units = Vec::new();
        let mut changes = self.plain()?;
        for (from, to) in moved_dirs(self.given.set, &changes) {
            if self.given.drift.iter().any(|at| at.path != from && at.path.starts_with(&from)) {
                self.bring_along(&from, &to, &mut changes)?;
            }
        }
        for change in changes {
            let meets = drift.contains(&change.path) || drift.contains(change.old_path());
            if meets || self.lost_its_directory(&change)? {
                units.push(Unit {
                    from: change.old_path().clone(),
                    at: change.path.clone(),
                    change: Some(change),
                });
            } else if change.kind == ChangeKind::Delete && self.original(&change.path)?.is_none() {
                // Both sides deleted it.
                self.out.settled.insert(change.path);
            } else {
                self.changes.insert(change.path.clone(), change);
            }
        }
        self.pair_renames(&mut units)?;
        for unit in units {
            self.unit(unit)?;
        }
        shape::hold(self.given, &self.changes, &mut self.out)?;
        shape::stand(self.given, &*self.lane, &mut self.changes, &mut self.out)
    }

    fn finish(mut self) -> Resolved {
        let gaps = self.given.set.gaps.clone();
        let linked = self.given.set.linked;
        self.out.set = ChangeSet { changes: self.changes.into_values().collect(), gaps, linked };
        self.out.set.sort();
        self.out.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        self.out.joined.sort_by(|a, b| a.path.cmp(&b.path));
        self.out
    }

    /// The changes, with renamed directories taken apart where the original changed something in one.
    fn plain(&self) -> Result<Vec<Change>> {
        let set = self.given.set;
        let renames = flat::dir_renames(set);
        let touched = |dir: &TreePath| {
            self.given.drift.iter().any(|at| at.path.starts_with(dir) || dir.starts_with(&at.path))
        };
        if !renames.iter().any(|(from, to)| touched(from) || touched(to)) {
            return Ok(set.changes.clone());
        }
        let pairs = flat::flatten(set, self.given.compared, &*self.lane, &BTreeSet::new())?;
        Ok(pairs.into_iter().flat_map(changes_of).collect())
    }

    /// An addition whose directory the original has elsewhere now.
    fn lost_its_directory(&self, change: &Change) -> Result<bool> {
        if change.kind != ChangeKind::Add {
            return Ok(false);
        }
        Ok(self.follow_dir(&change.path)?.is_some())
    }

    /// True where everything new comes to a directory that the original has, or that comes itself, and everything that
    /// goes is there.
    fn fits(&self) -> Result<bool> {
        let mut seen = BTreeSet::new();
        let mut made = BTreeSet::new();
        // Sorted by path, so that a directory is seen before what is in it.
        for change in &self.given.set.changes {
            let is_dir = change.new.as_ref().is_some_and(Entry::is_dir);
            let comes = change.new.is_some() && (change.old.is_none() || change.old_path() != &change.path);
            if is_dir && (comes || change.kind == ChangeKind::Retype) {
                made.insert(&change.path);
            }
            if change.kind == ChangeKind::Delete && self.original(&change.path)?.is_none() {
                return Ok(false);
            }
            let Some(parent) = change.path.parent().filter(|_| comes) else { continue };
            let below_made =
                std::iter::successors(Some(parent.clone()), TreePath::parent).any(|dir| made.contains(&dir));
            if below_made || !seen.insert(parent.clone()) {
                continue;
            }
            if !self.original(&parent)?.is_some_and(|entry| entry.is_dir()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn original(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.given.origin.entry(path).reading("origin", path)
    }

    fn unit(&mut self, unit: Unit) -> Result<()> {
        let Unit { from, at, change } = unit;
        let mut lane = self.lane.entry(&at).reading("lane", &at)?;
        let renamed = from != at;
        let base = self.given.bases.base(&from)?;
        // What the lane has as it was when it was kept is no change any more, whatever the original became.
        if lane.as_ref().is_some_and(|now| self.given.bases.is_kept(&at, now)) {
            self.leave(&from, &at);
            return Ok(());
        }
        let mut original = match self.given.origin.entry(&from) {
            // A directory that is closed to us: nothing can be said, and nothing is written.
            Err(error) if error.errno == kernel::Errno::ACCESS => {
                return self.clash(&from, &at, change, Clash::BaseUnknown);
            }
            other => other.reading("origin", &from)?,
        };
        let mut place = at.clone();
        let mut standing = from.clone();
        if let (Base::Has(was), None) = (&base, &original)
            && let Some(moved) = self.given.bases.moved(&from, was)?
            && (!renamed || moved == at)
        {
            if !renamed && self.lane_has(&moved)? {
                return self.clash_at(&from, &at, change, Clash::PlaceTaken, &[&moved]);
            }
            original = self.original(&moved)?;
            place.clone_from(&moved);
            standing = moved;
        } else if let (false, None, Some(_)) = (renamed, &original, &lane)
            && let Some(moved) = self.follow_dir(&at)?
        {
            // In a directory that the original has elsewhere the same name is the same file.
            if self.lane_has(&moved)? {
                return self.clash_at(&from, &at, change, Clash::PlaceTaken, &[&moved]);
            }
            original = self.original(&moved)?;
            place.clone_from(&moved);
            standing = moved;
        }
        if place != standing && self.original(&place)?.is_some() {
            return self.clash_at(&from, &at, change, Clash::PlaceTaken, &[&place]);
        }
        if let (true, Base::Has(was)) = (renamed, &base) {
            match (&original, lane) {
                // Gone, or under a third name: what the lane has under its own name is new there, and takes nothing away.
                (None, Some(new)) => {
                    if let Some(other) = self.given.bases.moved_by_lane(&from).filter(|other| *other != at) {
                        return self.clash(&from, &at, change, Clash::Renamed(other));
                    }
                    if self.original(&at)?.is_some() {
                        return self.clash(&from, &at, change, Clash::PlaceTaken);
                    }
                    let kind = ChangeKind::Add;
                    self.changes.insert(at.clone(), Change { path: at, kind, old: None, new: Some(new) });
                    self.out.settled.insert(from);
                    return Ok(());
                }
                (Some(now), _) if now.kind != was.kind => {
                    return self.clash(&from, &at, change, Clash::RenamedInLane(Did::Retype));
                }
                (_, entry) => lane = entry,
            }
        }
        let same_kind = |now: &Entry| original.as_ref().is_none_or(|original| original.kind == now.kind);
        if standing != from && original.is_some() && !lane.as_ref().is_some_and(same_kind) {
            // A rename says that somebody still wants it.
            return self.clash(&from, &at, change, Clash::Renamed(standing));
        }
        let three = Three {
            bases: self.given.bases,
            base_path: &from,
            base: &base,
            lane: &*self.lane,
            lane_path: &at,
            lane_entry: lane.as_ref(),
            origin: self.given.origin,
            origin_path: &standing,
            origin_entry: original.as_ref(),
        };
        let verdict = match weigh(&three, self.given.how, &(self.given.names)(&standing)) {
            // What nobody lets us read is not put together with anything.
            Err(Error::Read { source, .. }) if source.errno == kernel::Errno::ACCESS => {
                Verdict::Clash(Clash::BaseUnknown)
            }
            other => other?,
        };
        let moves = place != standing;
        match verdict {
            Verdict::Leave if moves => self.put(&at, &place, &standing, original, &Put::original()),
            Verdict::Leave => {
                self.leave(&from, &at);
                Ok(())
            }
            Verdict::Delete(settled) => {
                self.settled(&at, &[&from, &standing, &place], settled);
                let change =
                    Change { path: from.clone(), kind: ChangeKind::Delete, old: original, new: None };
                self.changes.insert(from, change);
                Ok(())
            }
            Verdict::Put(put, settled) => {
                self.settled(&at, &[&from, &standing, &place], settled);
                self.put(&at, &place, &standing, original, &put)
            }
            Verdict::LeaveFor(clash) => {
                self.settled(&at, &[&from, &standing, &place], Some(clash));
                self.leave(&from, &at);
                Ok(())
            }
            Verdict::Clash(clash) => self.clash_at(&from, &at, change, clash, &[&standing, &place]),
        }
    }

    /// The lane has something of its own there.
    fn lane_has(&self, path: &TreePath) -> Result<bool> {
        let named = |change: &Change| change.path == *path && change.new.is_some();
        Ok(self.given.set.changes.iter().any(named))
    }

    fn settled(&mut self, path: &TreePath, about: &[&TreePath], clash: Option<Clash>) {
        let settled = Some(self.given.how);
        let about = about.iter().map(|path| (*path).clone()).collect();
        self.out.conflicts.extend(clash.map(|clash| Conflict { path: path.clone(), clash, settled, about }));
    }

    fn leave(&mut self, from: &TreePath, at: &TreePath) {
        self.out.settled.insert(from.clone());
        self.out.settled.insert(at.clone());
    }

    /// Stops it: the change stays where a plan finds it, and is not done.
    fn clash(&mut self, from: &TreePath, at: &TreePath, change: Option<Change>, clash: Clash) -> Result<()> {
        self.clash_at(from, at, change, clash, &[])
    }

    /// As [`Work::clash`], where further paths of the original are concerned.
    fn clash_at(
        &mut self,
        from: &TreePath,
        at: &TreePath,
        change: Option<Change>,
        clash: Clash,
        also: &[&TreePath],
    ) -> Result<()> {
        let other = match &clash {
            Clash::Renamed(other) => Some(other),
            _ => None,
        };
        let about: Vec<TreePath> =
            std::iter::once(from).chain(other).chain(also.iter().copied()).cloned().collect();
        if self.given.how == Conflicts::Ours {
            self.settled(at, &about.iter().collect::<Vec<_>>(), Some(clash));
            self.leave(from, at);
            return Ok(());
        }
        let change = match change {
            Some(change) => change,
            None => {
                let old = self.given.compared.entry(from).reading("origin", from)?;
                let new = self.lane.entry(at).reading("lane", at)?;
                let kind = match (&old, &new) {
                    (Some(_), Some(_)) if from != at => {
                        ChangeKind::Rename { from: from.clone(), modified: true }
                    }
                    (Some(_), Some(_)) => ChangeKind::Modify,
                    (None, _) => ChangeKind::Add,
                    (_, None) => ChangeKind::Delete,
                };
                let path = if kind == ChangeKind::Delete { from.clone() } else { at.clone() };
                Change { path, kind, old, new }
            }
        };
        for path in BTreeSet::from([from, at]) {
            let why = Why::Conflict(clash.clone());
            self.out.stopped.push(Drifted { path: path.clone(), why });
        }
        self.out.conflicts.push(Conflict { path: at.clone(), clash, settled: None, about });
        self.changes.insert(change.path.clone(), change);
        Ok(())
    }

    fn put(
        &mut self,
        at: &TreePath,
        place: &TreePath,
        standing: &TreePath,
        original: Option<Entry>,
        put: &Put,
    ) -> Result<()> {
        let missing = || kernel::Error::new("statx", place.as_bytes(), kernel::Errno::NOENT);
        let shown = put.shape(original.as_ref(), &mut *self.lane, at, place, standing)?;
        let new = shown.ok_or_else(missing).reading("lane", place)?;
        let kind = match &original {
            None => ChangeKind::Add,
            Some(_) if place != standing => {
                ChangeKind::Rename { from: standing.clone(), modified: !put.is_originals() }
            }
            Some(old) if old.kind != new.kind => ChangeKind::Retype,
            Some(_) if put.is_originals() || new.is_dir() => ChangeKind::Mode,
            Some(_) => ChangeKind::Modify,
        };
        let path = place.clone();
        self.changes.insert(path.clone(), Change { path, kind, old: original, new: Some(new) });
        if place != at {
            self.out.followed.insert(at.clone(), place.clone());
        }
        if put.is_joined() || place != standing && put.is_originals() || place != at {
            let lane_path = (place != at).then(|| at.clone());
            let content = put.is_made();
            self.out.joined.push(Joined { path: place.clone(), lane_path, content });
        }
        Ok(())
    }
}

/// A pair as changes: a directory that was renamed is made and removed.
pub(crate) fn changes_of(pair: Pair) -> Vec<Change> {
    let Pair { old, new, content_differs } = pair;
    match (old, new) {
        (Some((from, old)), Some((to, new))) if from != to && old.is_dir() => vec![
            Change { path: to, kind: ChangeKind::Add, old: None, new: Some(new) },
            Change { path: from, kind: ChangeKind::Delete, old: Some(old), new: None },
        ],
        (Some((from, old)), Some((to, new))) => {
            let kind = if from != to {
                ChangeKind::Rename { from, modified: content_differs }
            } else if old.kind != new.kind {
                ChangeKind::Retype
            } else if content_differs && !new.is_dir() {
                ChangeKind::Modify
            } else {
                ChangeKind::Mode
            };
            vec![Change { path: to, kind, old: Some(old), new: Some(new) }]
        }
        (None, Some((path, new))) => {
            vec![Change { path, kind: ChangeKind::Add, old: None, new: Some(new) }]
        }
        (Some((path, old)), None) => {
            vec![Change { path, kind: ChangeKind::Delete, old: Some(old), new: None }]
        }
        (None, None) => Vec::new(),
    }
}

/// Content of ours, in memory where it is small.
fn made(content: &[u8], path: &TreePath) -> Result<Made> {
    Made::in_memory(content).reading("lane", path)
}
