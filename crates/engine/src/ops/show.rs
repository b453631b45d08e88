//! `show`: one lane in full.

use std::path::PathBuf;

use crate::describe;
use crate::engine::Engine;
use crate::error::Result;
use crate::find;
use crate::lane;
use crate::view::{DriftView, LaneState, LaneView, Next, RootChanges, RunView};

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
    /// Its runs, newest first.
    pub runs: Vec<RunView>,
    /// The most useful next commands, best first.
    pub next: Vec<Next>,
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
