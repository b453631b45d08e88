//! Going back in a lane at work: its processes stand still, and the view that they look at is put to what a snapshot says,
//! file by file through the kernel, which alone may touch the layers of a mounted view.
//!
//! Invariants: those of [`crate::going_back`], whose note is used. The view is equal to the snapshot afterwards; the layers
//! may say the same in other words (a file of the base that had been changed is there as a copy), so the state where the
//! lane lands is a snapshot too, [`LANDED`], from which a step back counts as one from where it was to go.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use kernel::process::Namespaces;
use sandbox::control;
use sandbox::freeze::{Freezer, Mapped};
use store::{History, SnapshotId, SnapshotKind};

use crate::clock;
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::going_back::{Restored, Step, arrived};
use crate::history::{LaneHistory, Wish, try_only_one};
use crate::lane::OpenLane;
use crate::sides::{Ground, Side};

/// The text of the snapshot of where a live restore has landed.
pub(crate) const LANDED: &[u8] = b"restored";

/// How long everybody may take until they stand: somebody has asked, and waits.
const LIMIT: Duration = Duration::from_secs(2);
/// How long a lane stands at most while it is put back.
const HOLD: Duration = Duration::from_secs(600);

/// A live lane as who stands outside reaches it.
pub(crate) struct Reached {
    freezer: Freezer,
    /// The tops of its roots as its processes see them.
    tops: Vec<OwnedFd>,
    /// The lane does not end while somebody stands in it.
    _connection: control::Joined,
}

impl Reached {
    /// `None` where nobody answers for the lane.
    pub(crate) fn of(lane: &OpenLane) -> Result<Option<Reached>> {
        let dir = &lane.home.dir().fd;
        let Some(joined) = control::join(dir.as_fd()).map_err(EngineError::Sandbox)? else { return Ok(None) };
        let doing = || format!("reach the view of {}", lane.row.name);
        let paths: Vec<&Path> = lane.roots.iter().map(|root| root.view.path.as_path()).collect();
        let tops = sandbox::reach::dirs(&joined.handles, &paths).map_err(EngineError::Sandbox)?;
        let pids = joined.handles.fds.iter().find(|(kind, _)| *kind == Namespaces::PID);
        let copy = |fd: &OwnedFd| {
            fd.try_clone().map_err(|error| kernel::Error::from_io("dup", "", &error)).doing(doing)
        };
        let Some((_, pids)) = pids else { return Ok(None) };
        let freezer = Freezer::new(copy(dir)?, copy(pids)?);
        Ok(Some(Reached { freezer, tops, _connection: joined }))
    }

    /// Does `body` while the lane stands still.
    pub(crate) fn still<T>(
        &mut self,
        lane: &OpenLane,
        body: impl FnOnce(&Mapped, &[OwnedFd]) -> Result<T>,
    ) -> Result<(T, bool)> {
        // Who was killed at it may have left a guard that is just letting go.
        sandbox::freeze::lift(&lane.home.dir().fd, LIMIT);
        let frozen = self.freezer.freeze(LIMIT, HOLD).map_err(EngineError::Sandbox)?;
        let Some(frozen) = frozen else { return Err(EngineError::NotStill { name: lane.row.name.clone() }) };
        let done = body(frozen.mapped(), &self.tops)?;
        Ok((done, frozen.thaw()))
    }
}

impl LaneHistory {
    /// Puts the view of a lane that stands still, and at `from`, to `to`. The caller holds
    /// [`only_one`](crate::history::only_one).
    pub(crate) fn restore_live(
        &self,
        lane: &OpenLane,
        (from, to): (SnapshotId, SnapshotId),
        why: &str,
        mapped: &Mapped,
        tops: &[OwnedFd],
    ) -> Result<Restored> {
        let history = self.read()?;
        let step = Step::live(&history, from, to, why);
        step.note(lane)?;
        match self.carry_live(lane, &history, from, to, tops) {
            Ok(restored) => {
                self.land(lane, &step, mapped)?;
                Ok(restored)
            }
            Err(error) => {
                // The first error is the one that is told. Where this fails too, the next command goes on.
                if self.carry_live(lane, &history, to, from, tops).is_ok() {
                    let _ = arrived(lane);
                }
                Err(error)
            }
        }
    }

    fn carry_live(
        &self,
        lane: &OpenLane,
        history: &History,
        from: SnapshotId,
        to: SnapshotId,
        tops: &[OwnedFd],
    ) -> Result<Restored> {
        let mut restored = Restored::default();
        for (root, top) in lane.roots.iter().zip(tops) {
            let ground = Ground { lane, root, snapshots: Some(self), history };
            let done = ground.make_equal(&Side::Snapshot(from), &Side::Snapshot(to), top.as_fd())?;
            restored.removed += done.removed;
            restored.changed += done.changed;
            let at = &root.view.path;
            restored.left.extend(done.left.into_iter().map(|(path, why)| (at.clone(), path, why)));
        }
        Ok(restored)
    }

    /// Says in the history where the lane is now.
    fn land(&self, lane: &OpenLane, step: &Step, mapped: &Mapped) -> Result<()> {
        self.store.record_move(&self.key, step.to, clock::now_ms(), step.why().as_bytes())?;
        let wish = Wish { kind: SnapshotKind::Rescue, message: LANDED.to_vec(), only_if_changed: true };
        self.take_still(lane, &wish, mapped)?;
        arrived(lane)
    }
}

/// Where a step back from `from` starts.
pub(crate) fn landed_from(history: &History, from: SnapshotId) -> SnapshotId {
    let landed = |record: &store::Record| record.kind == SnapshotKind::Rescue && record.message == LANDED;
    match history.get(from) {
        Some(record) if landed(record) => history.before(from).unwrap_or(from),
        _ => from,
    }
}

/// Finishes what was begun in a lane at work by somebody who is gone. Nothing where somebody is at it.
pub(crate) fn settle(engine: &Engine, lane: &OpenLane) -> Result<()> {
    let Some(_alone) = try_only_one(lane)? else { return Ok(()) };
    let step = Step::of(&lane.home, &lane.row.name)?.filter(Step::is_live);
    let Some(step) = step else { return Ok(()) };
    let snapshots = LaneHistory::open(engine, lane)?;
    let history = snapshots.read()?;
    if step.is_over(&history) {
        return arrived(lane);
    }
    let Some(mut reached) = Reached::of(lane)? else { return Ok(()) };
    reached.still(lane, |mapped, tops| {
        snapshots.carry_live(lane, &history, step.from, step.to, tops)?;
        snapshots.land(lane, &step, mapped)
    })?;
    Ok(())
}
