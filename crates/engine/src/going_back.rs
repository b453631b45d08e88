//! Going back: the layers of a lane at rest are put to what a snapshot says.
//!
//! Invariants: the state that is left is a snapshot before anything is touched. While the layers are between two snapshots
//! a note in the lane's directory says so; whoever finds it finishes what was begun or, where that cannot be done, takes it
//! back. Nobody works with layers that are between two states.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use store::restore::Plan;
use store::{Event as Happened, History, ManifestId, Record, SnapshotId, SnapshotKind};
use tree::TreePath;
use workspace::LaneHome;

use crate::clock;
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::history::{LaneHistory, Wish, only_one};
use crate::lane::{OpenLane, OpenRoot};
use crate::monitor::{Event, Monitor};

/// Says that the layers are between two snapshots.
const NOTE: &[u8] = b"restoring";

/// Where a restore stands that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What the layers were.
    pub from: SnapshotId,
    /// What they are to be.
    pub to: SnapshotId,
    /// The verb's word.
    why: String,
    /// Where in the history its last event was.
    after: Option<u64>,
    /// It went through the view of a lane at work ([`crate::going_back_live`]).
    live: bool,
}

impl Step {
    /// A step through the view of a lane at work, which stands at the end of `history`.
    pub(crate) fn live(history: &History, from: SnapshotId, to: SnapshotId, why: &str) -> Step {
        let after = history.events.last().map(|logged| logged.offset);
        Step { from, to, why: why.to_owned(), after, live: true }
    }

    /// True for one through the view of a lane at work.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// The verb's word.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    fn text(&self) -> String {
        let after = self.after.map(|after| format!("after {after}\n")).unwrap_or_default();
        let live = if self.live { "live\n" } else { "" };
        format!("restoring 1\nfrom {}\nto {}\nwhy {}\n{after}{live}", self.from, self.to, self.why)
    }

    fn read(text: &[u8]) -> Option<Step> {
        let mut lines = std::str::from_utf8(text).ok()?.lines();
        if lines.next()? != "restoring 1" {
            return None;
        }
        let from = SnapshotId::from_hex(lines.next()?.strip_prefix("from ")?)?;
        let to = SnapshotId::from_hex(lines.next()?.strip_prefix("to ")?)?;
        let why = lines.next()?.strip_prefix("why ")?.to_owned();
        // Notes of earlier versions end here.
        let (mut after, mut live) = (None, false);
        for line in lines {
            match line.strip_prefix("after ") {
                Some(offset) => after = offset.parse().ok(),
                None => live |= line == "live",
            }
        }
        Some(Step { from, to, why, after, live })
    }

    /// True where the restore had come to its end: after a power failure a note may be back that was removed. The history is
    /// synced before that, and a collection leaves both snapshots alone until then.
    pub fn is_over(&self, history: &History) -> bool {
        history.events.iter().any(|logged| match &logged.event {
            Happened::Moved { to, why, .. } => {
                self.after.is_some_and(|after| logged.offset > after)
                    && *to == self.to
                    && *why == self.why.as_bytes()
            }
            Happened::Removed { ids, .. } => ids.contains(&self.from) || ids.contains(&self.to),
            Happened::Snapshot(_) | Happened::Sealed { .. } => false,
        })
    }

    /// The step of a lane that is in the middle of one.
    pub(crate) fn of(home: &LaneHome, name: &str) -> Result<Option<Step>> {
        let doing = || format!("look at the restore of {name}");
        let file = match kernel::open::file_beneath(&home.dir().fd, NOTE) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other.doing(doing)?,
        };
        match Step::read(&kernel::bytes::read_all(&file).doing(doing)?) {
            Some(step) => Ok(Some(step)),
            None => Err(EngineError::Damaged {
                name: name.to_owned(),
                dir: home.path().to_owned(),
                why: "the note of an interrupted restore cannot be read".into(),
            }),
        }
    }

    pub(crate) fn note(&self, lane: &OpenLane) -> Result<()> {
        kernel::publish::write_file(&lane.home.dir().fd, NOTE, self.text().as_bytes(), 0o600)
            .doing(|| format!("note the restore of {}", lane.row.name))
    }
}

/// The layers are at one snapshot again.
pub(crate) fn arrived(lane: &OpenLane) -> Result<()> {
    match kernel::node::unlink_at(&lane.home.dir().fd, NOTE) {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.doing(|| format!("end the restore of {}", lane.row.name)),
    }
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Entries that went.
    pub removed: u64,
    /// Entries that came or changed.
    pub changed: u64,
    /// What is not as the snapshot says: root, path, reason.
    pub left: Vec<(PathBuf, TreePath, String)>,
}

/// What is to be done with one root.
#[derive(Debug)]
pub(crate) struct Planned {
    /// With everything that the lane has written in it.
    pub(crate) whole: Plan,
    /// With its own layer, where that stands on former ones and is enough.
    pub(crate) own: Option<Plan>,
}

/// What became of an interrupted restore.
#[derive(Debug)]
pub(crate) enum Settled {
    /// There was none.
    Nothing,
    /// It is finished.
    Finished,
    /// It could not be finished; the lane is as it was before.
    TakenBack(EngineError),
    /// Neither could be done: what is needed for it is damaged. The lane is between the two, and any snapshot that is whole
    /// can be gone to from here.
    Left(EngineError),
}

impl LaneHistory {
    /// What a restore would remove, and out of how many entries.
    pub fn would_remove(&self, from: SnapshotId, to: SnapshotId) -> Result<(u64, u64)> {
        let history = self.read()?;
        let (from, to) = (self.record(&history, from)?, self.record(&history, to)?);
        let removed = (0..from.roots.len()).map(|number| Ok(self.plan(from, to, number)?.removed));
        let removed = removed.collect::<Result<Vec<u64>>>()?.into_iter().sum();
        Ok((removed, from.roots.iter().map(|root| root.entries).sum()))
    }

    /// Puts a lane at rest, which stands at `from` as it is, back to `to`. Where that fails, the lane is as it was, or, where
    /// not even that can be, the next command with it goes on.
    pub fn restore(&self, lane: &OpenLane, from: SnapshotId, to: SnapshotId, why: &str) -> Result<Restored> {
        let _alone = only_one(lane)?;
        self.settle(lane)?;
        let _held = self.store.hold()?;
        let history = self.read()?;
        // What cannot be planned is not begun.
        let (here, there) = (self.record(&history, from)?, self.record(&history, to)?);
        let plans = self.plans(lane, here, there)?;
        let after = history.events.last().map(|logged| logged.offset);
        let step = Step { from, to, why: why.to_owned(), after, live: false };
        step.note(lane)?;
        match self.go(lane, &step, &plans) {
            Ok(restored) => Ok(restored),
            Err(error) => {
                // The first error is the one that is told.
                let _ = self.take_back(lane, here, there);
                Err(error)
            }
        }
    }

    /// Finishes a restore that was interrupted, or takes it back. The caller holds the lane's lock and [`only_one`].
    pub(crate) fn settle(&self, lane: &OpenLane) -> Result<Settled> {
        let Some(step) = Step::of(&lane.home, &lane.row.name)? else { return Ok(Settled::Nothing) };
        let _held = self.store.hold()?;
        let history = self.read()?;
        if step.is_over(&history) {
            arrived(lane)?;
            return Ok(Settled::Nothing);
        }
        if step.live {
            return self.settle_after_live(lane, step);
        }
        let (from, to) = (self.record(&history, step.from)?, self.record(&history, step.to)?);
        let Err(error) = self.plans(lane, from, to).and_then(|plans| self.go(lane, &step, &plans)) else {
            return Ok(Settled::Finished);
        };
        match self.take_back(lane, from, to) {
            Ok(()) => Ok(Settled::TakenBack(error)),
            Err(second) if is_damage(&second) => {
                arrived(lane)?;
                Ok(Settled::Left(error))
            }
            Err(_) => Err(error),
        }
    }

    /// Finishes at rest what was begun in the view of a live lane. What the layers hold meanwhile no snapshot says.
    fn settle_after_live(&self, lane: &OpenLane, step: Step) -> Result<Settled> {
        for root in &lane.roots {
            let layer = root.workspace.layer()?;
            tree::remove::remove_tree(layer.fd.as_fd(), tree::equal::STAGE)
                .doing(|| format!("end the restore of {}", lane.row.name))?;
        }
        self.take_held(lane, &Wish::automatic(SnapshotKind::Rescue))?;
        let history = self.read()?;
        let here = history.position().unwrap_or(step.from);
        let step = Step { from: here, live: false, ..step };
        step.note(lane)?;
        let (from, to) = (self.record(&history, step.from)?, self.record(&history, step.to)?);
        self.go(lane, &step, &self.plans(lane, from, to)?)?;
        Ok(Settled::Finished)
    }

    fn plan(&self, from: &Record, to: &Record, number: usize) -> Result<Plan> {
        from.roots.get(number).map_or(Ok(Plan::default()), |now| self.plan_from(now.top, to, number))
    }

    /// What turns a root that stands at `now` into what a record says of it.
    pub(crate) fn plan_from(&self, now: ManifestId, to: &Record, number: usize) -> Result<Plan> {
        let Some(then) = to.roots.get(number) else { return Ok(Plan::default()) };
        let gaps: Vec<TreePath> =
            to.gaps.iter().filter(|gap| gap.root as usize == number).map(|gap| gap.path.clone()).collect();
        let (now, then) = (self.store.manifest(now), self.store.manifest(then.top));
        Ok(store::restore::plan(&now, &then, &gaps)?)
    }

    fn plans(&self, lane: &OpenLane, from: &Record, to: &Record) -> Result<Vec<Planned>> {
        let plan = |(number, root): (usize, &OpenRoot)| {
            let whole = self.plan(from, to, number)?;
            let own = if whole.is_empty() { None } else { self.plan_above(root, to, number)? };
            Ok(Planned { whole, own })
        };
        lane.roots.iter().enumerate().map(plan).collect()
    }

    /// Carries out what was planned and noted, and says so in the history.
    fn go(&self, lane: &OpenLane, step: &Step, plans: &[Planned]) -> Result<Restored> {
        lane.home.forget_links()?;
        let restored = self.carry(lane, plans)?;
        self.store.record_move(&self.key, step.to, clock::now_ms(), step.why.as_bytes())?;
        arrived(lane)?;
        Ok(restored)
    }

    /// Puts what is half at `to` to `from` again, which the lane's history says that it stands at.
    fn take_back(&self, lane: &OpenLane, from: &Record, to: &Record) -> Result<()> {
        self.carry(lane, &self.plans(lane, to, from)?)?;
        arrived(lane)?;
        // No history says that this is over.
        kernel::publish::sync_dir(&lane.home.dir().fd)
            .doing(|| format!("end the restore of {}", lane.row.name))
    }

    pub(crate) fn carry(&self, lane: &OpenLane, plans: &[Planned]) -> Result<Restored> {
        let mut restored = Restored::default();
        for (root, planned) in lane.roots.iter().zip(plans) {
            restored.removed += planned.whole.removed;
            restored.changed += planned.whole.changed;
            if !planned.whole.is_empty() {
                let left = self.carry_one(root, planned)?;
                let root = &root.view.path;
                restored.left.extend(left.into_iter().map(|(path, why)| (root.clone(), path, why)));
            }
        }
        Ok(restored)
    }

    fn carry_one(&self, root: &OpenRoot, planned: &Planned) -> Result<Vec<(TreePath, String)>> {
        let plan = match &planned.own {
            Some(own) => own,
            // Former uppers are not written: what is put back stands in the lane's own layer, with all the rest.
            None => {
                root.workspace.unite(&mut |_| {})?;
                &planned.whole
            }
        };
        let layer = root.workspace.layer()?;
        let stage = Stage::open(&layer)?;
        let (at, staged) = (layer.fd.as_fd(), stage.fd.as_fd());
        let report = store::restore::execute(&self.store, at, staged, layer.format, plan)?;
        stage.remove(&layer)?;
        Ok(report.left)
    }
}

pub(crate) fn is_damage(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(error) if error.is_damage())
}

/// Finishes a restore that was interrupted, if there is one, or takes it back. The caller holds the lane's lock.
pub fn settle(engine: &Engine, lane: &OpenLane, monitor: &mut dyn Monitor) -> Result<()> {
    if !is_pending(lane) {
        return Ok(());
    }
    let _alone = only_one(lane)?;
    let name = &lane.row.name;
    match LaneHistory::open(engine, lane)?.settle(lane)? {
        Settled::Nothing => {}
        Settled::Finished => monitor.event(Event::Repaired("a restore was interrupted", name)),
        Settled::TakenBack(error) => {
            let what = format!("an interrupted restore was taken back: {}", error.with_causes());
            monitor.event(Event::Repaired(&what, name));
        }
        Settled::Left(error) => {
            let what = format!(
                "an interrupted restore can be neither finished nor taken back, parts of it stand: {}",
                error.with_causes()
            );
            monitor.event(Event::Repaired(&what, name));
        }
    }
    Ok(())
}

/// True where a restore was begun and not ended.
pub fn is_pending(lane: &OpenLane) -> bool {
    kernel::meta::stat_at_if_there(&lane.home.dir().fd, NOTE).is_ok_and(|found| found.is_some())
}

/// The restore that was begun in a lane and not ended.
pub fn begun(home: &LaneHome) -> Result<Option<Step>> {
    Step::of(home, home.id())
}

/// The directory beside a layer in which a restore makes what it puts there.
struct Stage {
    fd: OwnedFd,
    name: Vec<u8>,
}

impl Stage {
    fn open(layer: &workspace::LayerAt) -> Result<Stage> {
        let name = format!("{}.r", layer.stem).into_bytes();
        let doing = || "make a place for what is restored".to_owned();
        match kernel::node::mkdir_at(&layer.dir, &name, 0o700) {
            Err(error) if error.errno != kernel::Errno::EXIST => return Err(error).doing(doing),
            _ => {}
        }
        Ok(Stage { fd: kernel::open::dir_beneath(&layer.dir, &name).doing(doing)?, name })
    }

    fn remove(self, layer: &workspace::LayerAt) -> Result<()> {
        let doing = || "remove the place for what is restored".to_owned();
        tree::remove::remove_tree(layer.dir.as_fd(), &self.name).doing(doing).map(drop)
    }
}
