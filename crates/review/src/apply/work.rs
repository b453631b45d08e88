//! [`Work`]: one root of a keep, or of the undoing of one, phase by phase. Whoever drives several does each phase for all
//! of them before the next one.
//!
//! Invariant: until the journal says that all is done, whatever was done can be taken back; from then on it is only closed.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::{lock, meta, node, open, publish};
use tree::{Source, TreePath};

use super::acts::Acts;
use super::closing::clean;
use super::journal::{self, DirTime, Journal, Op, State, Task};
use super::record::{Settle, Settled};
use super::site::Site;
use super::undo::LeftAlone;
use super::units::Units;
use super::{Faults, KeepReport, Options, Root, copies, files, look, reverse, stage, undo};
use crate::error::{Error, Result, Stepping as _};

/// Fewer directories and acts than this are synced one by one; more are synced with their file system.
const SYNC_ONE_BY_ONE: usize = 64;

pub(crate) struct Work<'a> {
    origin: BorrowedFd<'a>,
    faults: &'a dyn Faults,
    journal_dir: OwnedFd,
    _lock: lock::Lock,
    /// Where the staging directory is, or is made.
    parent: OwnedFd,
    pub(crate) journal: Journal,
    /// The journal is on disk, or may be.
    begun: bool,
    job: Job<'a>,
    acts: Acts,
    pub(crate) report: KeepReport,
}

enum Job<'a> {
    Keep { units: Units, lane: &'a dyn Source, options: &'a Options },
    Undo { back: Vec<DirTime> },
}

impl<'a> Work<'a> {
    /// A keep of which nothing is done yet, but for the look ahead.
    pub(crate) fn keep(root: &Root<'a>, options: &'a Options, faults: &'a dyn Faults) -> Result<Work<'a>> {
        let (top, places) = (TreePath::root(), root.places);
        let parent = files::stage_parent(root.origin, places.staging)?;
        look::room(root.plan, &parent, places.staging)?;
        let (journal_dir, lock) = lock_journal(places.journal)?;
        let units = Units::of(&root.plan.steps);
        look::ahead(&units, root.origin, &parent)?;
        let stat = meta::stat_fd(root.origin).stepping("stat", &top)?;
        let journal = Journal {
            state: State::Staging,
            task: Task::Keep,
            id: Vec::new(),
            about: Vec::new(),
            origin: stat.ino,
            parent: places.staging.map(Path::to_path_buf),
            stage: Vec::new(),
            peers: Vec::new(),
            ops: Vec::new(),
            dirs: vec![DirTime {
                path: top,
                ino: stat.ino,
                mtime: tree::Time { sec: stat.mtime.0, nsec: stat.mtime.1 },
                names_change: false,
                after: None,
            }],
        };
        Ok(Work {
            origin: root.origin,
            faults,
            journal_dir,
            _lock: lock,
            parent,
            journal,
            begun: false,
            job: Job::Keep { units, lane: root.lane, options },
            acts: Acts::default(),
            report: KeepReport { steps: root.plan.steps.len(), ..KeepReport::default() },
        })
    }

    /// The undoing of the keep `id`, of which nothing is done yet. Answers also what was edited since: then it must not
    /// be done.
    pub(crate) fn undo(
        place: &Path,
        origin: BorrowedFd<'a>,
        id: &str,
        faults: &'a dyn Faults,
    ) -> Result<(Work<'a>, Vec<TreePath>)> {
        let top = TreePath::root();
        let (journal_dir, lock) = lock_journal(place)?;
        let record = files::read_record(&journal_dir, id)?;
        let stat = meta::stat_fd(origin).stepping("stat", &top)?;
        if stat.ino != record.origin {
            return Err(Error::OtherOrigin { place: place.to_owned() });
        }
        let damaged = |reason: &str| Error::RecordDamaged { id: id.to_owned(), reason: reason.to_owned() };
        let parent = match files::stage_parent(origin, record.parent.as_deref()) {
            Err(Error::Step { source, .. }) if source.is_not_found() => {
                return Err(damaged("the place of what it displaced is gone"));
            }
            answer => answer?,
        };
        let held = match record.copies() {
            Some(copies) => open::dir_beneath(&journal_dir, &copies),
            None => open::dir_beneath(&parent, &record.stage),
        };
        let held = match held {
            Err(error) if error.is_not_found() => return Err(damaged("what it displaced is gone")),
            answer => answer.stepping("open what was displaced", &top)?,
        };
        let site = Site { origin, stage: Some(held.as_fd()), faults };
        let looked = reverse::look(&site, &record).map_err(|error| match error {
            Error::RecordDamaged { reason, .. } => damaged(&reason),
            other => other,
        })?;
        let mut journal =
            Journal { state: State::Staging, task: Task::Undo, ops: Vec::new(), dirs: looked.dirs, ..record };
        if journal.parent.is_none() {
            journal.stage = files::free_name(&parent, b".lane-stage")?;
        }
        let work = Work {
            origin,
            faults,
            journal_dir,
            _lock: lock,
            parent,
            journal,
            begun: false,
            job: Job::Undo { back: looked.back },
            acts: Acts::backwards(looked.ops),
            report: KeepReport::default(),
        };
        Ok((work, looked.edited))
    }

    /// Names the keep, so that a record of it stays.
    pub(crate) fn record(&mut self, id: &str, about: &[u8]) {
        (self.journal.id, self.journal.about) = (id.as_bytes().to_vec(), about.to_vec());
    }

    /// What is going to be done, in order, where that is known already.
    pub(crate) fn ops(&self) -> &[Op] {
        &self.acts.ops
    }

    fn site<'s>(&'s self, stage: Option<&'s OwnedFd>) -> Site<'s> {
        Site { origin: self.origin, stage: stage.map(AsFd::as_fd), faults: self.faults }
    }

    fn stage(&self) -> Result<OwnedFd> {
        open::dir_beneath(&self.parent, &self.journal.stage)
            .stepping("open the staging directory", &TreePath::root())
    }

    fn publish(&self) -> Result<()> {
        self.journal.publish(&self.journal_dir).stepping("publish the journal", &TreePath::root())
    }

    /// True where there is nothing to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.acts.ops.is_empty() && matches!(&self.job, Job::Keep { .. } if self.report.steps == 0)
    }

    /// Makes everything that is to be put in place, and has it on disk.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let top = TreePath::root();
        if self.journal.task == Task::Undo && self.journal.parent.is_some() {
            // Everything is there.
            let (stage, ops) = (self.stage()?, std::mem::take(&mut self.acts.ops));
            self.acts.ops = reverse::freshen(&self.site(Some(&stage)), ops)?;
            return Ok(());
        }
        if self.journal.task == Task::Keep {
            let front = match (self.journal.is_recorded(), self.journal.parent.is_some()) {
                (true, true) => [b"kept-", self.journal.id.as_slice()].concat(),
                _ => b".lane-stage".to_vec(),
            };
            self.journal.stage = files::free_name(&self.parent, &front)?;
        }
        self.begun = true;
        self.publish()?;
        node::mkdir_at(&self.parent, &self.journal.stage, 0o700)
            .stepping("make the staging directory", &top)?;
        let stage = self.stage()?;
        self.site(None).fault("staging", &top)?;
        match &self.job {
            Job::Keep { .. } => self.prepare_keep(&stage),
            Job::Undo { .. } => {
                let copies = self.journal.copies().unwrap_or_default();
                let site = self.site(Some(&stage));
                copies::bring_back(&site, &self.journal_dir, &copies, &self.acts.ops)?;
                site.fault("staged", &top)?;
                let ops = std::mem::take(&mut self.acts.ops);
                self.acts.ops = reverse::freshen(&self.site(Some(&stage)), ops)?;
                Ok(())
            }
        }
    }

    fn prepare_keep(&mut self, stage: &OwnedFd) -> Result<()> {
        let site = Site { origin: self.origin, stage: Some(stage.as_fd()), faults: self.faults };
        let Job::Keep { units, lane, options } = &self.job else { return Ok(()) };
        let recorded = self.journal.is_recorded();
        let mut staging = stage::Stage::new(stage.as_fd(), *lane, options, &mut self.report, recorded);
        staging.make(&units.fresh, &|path| site.fault("stage", path))?;
        let digests = staging.take_digests();
        self.acts = Acts::of(units, &site, *lane, &digests)?;
        // What is moved into a new directory needs it open until it is there.
        if !units.waits() {
            staging.close_dirs(&units.fresh)?;
        }
        staging.settle()?;
        site.fault("staged", &TreePath::root())?;
        for dir in self.acts.dirs.drain(..) {
            match self.journal.dirs.iter_mut().find(|other| other.path == dir.path) {
                Some(other) => other.names_change |= dir.names_change,
                None => self.journal.dirs.push(dir),
            }
        }
        if let Some(name) = self.journal.copies() {
            copies::save(&site, &self.journal_dir, &name, &self.acts)?;
            site.fault("copied", &TreePath::root())?;
        }
        Ok(())
    }

    /// Says on disk what is about to be done.
    pub(crate) fn announce(&mut self) -> Result<()> {
        self.begun = true;
        self.journal.state = State::Moving;
        self.journal.ops.clone_from(&self.acts.ops);
        self.publish()?;
        self.site(None).fault("journal", &TreePath::root())
    }

    /// Does it, and looks at it once more.
    pub(crate) fn perform(&mut self) -> Result<()> {
        let stage = self.stage()?;
        let site = Site { origin: self.origin, stage: Some(stage.as_fd()), faults: self.faults };
        let (mut waits, lifts) =
            (matches!(&self.job, Job::Keep { units, .. } if units.waits()), self.acts.lifts);
        for at in 0..self.acts.ops.len() {
            if waits && at == lifts {
                self.close_dirs(&stage)?;
                waits = false;
            }
            self.acts.perform(&site, at)?;
        }
        site.fault("moved", &TreePath::root())
    }

    fn close_dirs(&mut self, stage: &OwnedFd) -> Result<()> {
        let Job::Keep { units, lane, options } = &self.job else { return Ok(()) };
        stage::Stage::new(stage.as_fd(), *lane, options, &mut self.report, false).close_dirs(&units.fresh)
    }

    /// Looks at what was displaced once more, gives directories their times, and has all of it on disk.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let stage = self.stage()?;
        let site = Site { origin: self.origin, stage: Some(stage.as_fd()), faults: self.faults };
        self.acts.look_again(&site)?;
        let dirs = match &self.job {
            Job::Keep { .. } => {
                let kept = self.journal.dirs.iter().filter(|dir| !dir.names_change);
                kept.map(|dir| DirTime { path: self.acts.now(&dir.path), ..dir.clone() }).collect()
            }
            Job::Undo { back } => back.clone(),
        };
        undo::restore_times(&site, &dirs, |_| true)?;
        if self.journal.task == Task::Keep && self.journal.is_recorded() {
            self.acts.settle(&site)?;
        }
        for dir in &mut self.journal.dirs {
            let path = self.acts.now(&dir.path);
            let there = site.spot_if_reachable(&path)?.and_then(|spot| spot.entry);
            dir.after = there.filter(|entry| entry.ino == dir.ino).map(|entry| entry.mtime);
        }
        self.sync_touched(&site)?;
        site.fault("commit", &TreePath::root())
    }

    /// Puts the directories that were renamed in on disk, so that the closing record never outruns them.
    fn sync_touched(&self, site: &Site<'_>) -> Result<()> {
        if self.acts.ops.len() > SYNC_ONE_BY_ONE || self.journal.dirs.len() > SYNC_ONE_BY_ONE {
            return publish::sync_filesystem(site.origin).stepping("syncfs", &TreePath::root());
        }
        if let Some(stage) = site.stage {
            publish::sync_dir(stage).stepping("fsync", &TreePath::root())?;
        }
        let mut synced = BTreeSet::new();
        let dirs = self.journal.dirs.iter().map(|dir| self.acts.now(&dir.path));
        for path in dirs.chain(self.acts.ops.iter().filter_map(|op| op.path().parent())) {
            if !synced.insert(path.clone()) {
                continue;
            }
            if let Ok(dir) = open::dir_beneath(site.origin, path.as_bytes()) {
                publish::sync_dir(&dir).stepping("fsync", &path)?;
            }
        }
        Ok(())
    }

    /// Says once more what was done, with all that was learnt meanwhile: from here on another root's word is enough.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.journal.ops.clone_from(&self.acts.ops);
        self.publish()
    }

    /// Says that all is done.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let is_record = self.journal.task == Task::Keep && self.journal.is_recorded();
        let ops = if is_record { self.acts.ops.clone() } else { Vec::new() };
        let committed = Journal { state: State::Committed, ops, ..self.journal.clone() };
        match committed.publish(&self.journal_dir).stepping("publish the journal", &TreePath::root()) {
            Ok(()) => {
                self.journal = committed;
                Ok(())
            }
            Err(cause) => {
                // It may be there all the same, and must not be when things are taken back.
                match self.publish() {
                    Ok(()) => Err(cause),
                    Err(undo) => Err(Error::NotRolledBack { cause: Box::new(cause), undo: Box::new(undo) }),
                }
            }
        }
    }

    /// Tells what became of it; false where the journal has to stay, so that it is told again.
    fn tell(&self, settle: Settle<'_>, is_done: bool) -> bool {
        (self.journal.ops.is_empty() && !is_done)
            || settle(&Settled::of(&self.journal, &self.journal_dir, is_done))
    }

    /// Throws away what nobody needs any more. Everything stands and is recorded as done: what cannot be thrown away now
    /// is refuse, not a failure.
    pub(crate) fn close(&mut self, settle: Settle<'_>) {
        if !self.tell(settle, true) {
            self.report.leftover = Some(self.journal.stage_path());
            return;
        }
        let closed = || -> Result<()> {
            let stage = self.stage()?;
            let site = self.site(Some(&stage));
            site.fault("committed", &TreePath::root())?;
            clean(&site, &self.journal, Some(&self.parent), &self.journal_dir, Vec::new(), true).map(drop)
        };
        if closed().is_err() {
            self.report.leftover = Some(self.journal.stage_path());
        }
    }

    /// Takes back whatever was done; answers what somebody else changed meanwhile.
    pub(crate) fn take_back(&self, settle: Settle<'_>) -> Result<Vec<LeftAlone>> {
        if !self.begun {
            return Ok(Vec::new());
        }
        let stage = match open::dir_beneath(&self.parent, &self.journal.stage) {
            Err(error) if error.is_not_found() => None,
            answer => Some(answer.stepping("open the staging directory", &TreePath::root())?),
        };
        let site = self.site(stage.as_ref());
        let left = undo::undo(&site, &self.journal)?;
        if !self.tell(settle, false) {
            return Ok(left);
        }
        clean(&site, &self.journal, Some(&self.parent), &self.journal_dir, left, false)
    }
}

/// Opens and locks a journal's directory in which nothing is under way.
fn lock_journal(place: &Path) -> Result<(OwnedFd, lock::Lock)> {
    let top = TreePath::root();
    let dir = open::root_dir(place).stepping("open the journal directory", &top)?;
    let lock = files::take_lock(&dir, place)?;
    if meta::stat_at_if_there(&dir, journal::NAME).stepping("stat the journal", &top)?.is_some() {
        return Err(Error::JournalOpen { place: place.to_owned() });
    }
    Ok((dir, lock))
}
