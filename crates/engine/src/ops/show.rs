//! `show`: one lane in full.

use std::path::PathBuf;

use store::SnapshotId;

use crate::describe;
use crate::engine::Engine;
use crate::error::Result;
use crate::find;
use crate::fingerprint::Fingerprint;
use crate::guarding::{self, GuardedView};
use crate::history::LaneHistory;
use crate::lane::{self, OpenLane};
use crate::missed::{self, Missed};
use crate::ops::verify;
use crate::view::{DriftView, LaneState, LaneView, Next, RootChanges, RunView, VerdictView};

/// Which lane to show.
#[derive(Debug, Clone, Default)]
pub struct ShowRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
}

/// One lane in full.
#[derive(Debug, Clone, PartialEq)]
pub struct ShowAnswer {
    /// The lane.
    pub lane: LaneView,
    /// Sums for each root, the origin first.
    pub changes: Vec<RootChanges>,
    /// Changes below `$HOME`, which are never kept.
    pub home_changes: u64,
    /// Bytes on disk that only this lane holds.
    pub exclusive: u64,
    /// What changed in the origin since the base, as far as it meets the lane's changes.
    pub drift: Vec<DriftView>,
    /// Its history; `None` where it has none yet.
    pub history: Option<HistoryView>,
    /// The last automatic snapshot could not be taken.
    pub missed: Option<Missed>,
    /// Changes that run by themselves later.
    pub guarded: Vec<GuardedView>,
    /// The newest verdict on it; `None` where it was never checked.
    pub verdict: Option<VerdictView>,
    /// Its runs, newest first.
    pub runs: Vec<RunView>,
    /// The most useful next commands, best first.
    pub next: Vec<Next>,
}

/// A lane's history at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryView {
    /// Snapshots.
    pub snapshots: u64,
    /// The one that the lane stands at.
    pub position: Option<SnapshotId>,
    /// Bytes of the store that it is in.
    pub store_bytes: u64,
    /// Lanes that have a history in that store.
    pub store_lanes: u64,
}

fn history(engine: &Engine, lane: &OpenLane) -> Result<Option<HistoryView>> {
    let Some(found) = LaneHistory::find(engine, lane)? else { return Ok(None) };
    let read = found.read()?;
    Ok(Some(HistoryView {
        snapshots: read.snapshots().count() as u64,
        position: read.position(),
        store_bytes: found.store.size()?.bytes,
        store_lanes: found.store.lanes()?.len() as u64,
    }))
}

/// Shows a lane.
pub fn show(engine: &Engine, request: &ShowRequest) -> Result<ShowAnswer> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let view = describe::lane(engine, &row)?;
    let runs = engine.ledger()?.runs(&row.id)?.iter().map(describe::run).collect();
    let lane = lane::open(engine, row)?;
    let (deltas, drift) = lane.summed_with_drift()?;
    let changes: Vec<RootChanges> =
        deltas.iter().map(|delta| RootChanges { root: delta.root.clone(), counts: delta.counts() }).collect();
    let mut answer = ShowAnswer {
        next: Vec::new(),
        home_changes: lane.home_changes(),
        exclusive: lane.exclusive_bytes(engine)?,
        lane: view,
        changes,
        drift,
        // A store that cannot be read is told of by whoever needs it.
        history: history(engine, &lane).ok().flatten().filter(|history| history.snapshots > 0),
        missed: missed::read(&lane.home),
        guarded: guarding::of_lane(&lane, &deltas)?,
        verdict: verify::newest(engine, &lane.row.id, Some(&Fingerprint::of(&deltas)))?,
        runs,
    };
    answer.runs.sort_by_key(|run: &RunView| std::cmp::Reverse(run.id));
    answer.next = next(&answer.lane, &answer.changes);
    Ok(answer)
}

/// What makes sense now, best first.
pub fn next(lane: &LaneView, changes: &[RootChanges]) -> Vec<Next> {
    let name = || lane.name.clone();
    let has_changes = changes.iter().any(|root| root.counts.total() > 0);
    match (lane.state, has_changes) {
        (LaneState::Live, true) => vec![Next::Diff(name()), Next::Exec(name()), Next::Stop(name())],
        (LaneState::Live, false) => vec![Next::Exec(name()), Next::Stop(name())],
        (LaneState::Discarded, _) => vec![Next::Recover(name())],
        (_, true) => vec![Next::Diff(name()), Next::Keep(name()), Next::Discard(name())],
        (_, false) => vec![Next::Exec(name()), Next::Discard(name())],
    }
}
