//! `snap`: records the state of a lane.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::channel;
use serde_json::json;
use store::SnapshotKind;

use crate::engine::{Engine, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::find;
use crate::history::{LaneHistory, Wish};
use crate::lane;
use crate::ops::log::{SnapshotView, view_of};

/// Which lane, and under which name.
#[derive(Debug, Clone, Default)]
pub struct SnapRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// The snapshot's name, which is a reference to it and keeps it from being thinned out.
    pub message: Option<String>,
}

/// The snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapAnswer {
    /// Name of the lane.
    pub lane: String,
    /// Id of the lane.
    pub lane_id: String,
    /// The snapshot.
    pub snapshot: SnapshotView,
}

/// How long a snapshot of a live lane may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A live lane's snapshots are taken by its watch, which knows how to make it stand. `None` where nobody watches.
fn ask_the_watch(
    lane: &lane::OpenLane,
    history: &LaneHistory,
    wish: &Wish,
) -> Result<Option<Option<store::Snapshot>>> {
    let text = [wish.kind.word().as_bytes(), b"\n", &wish.message].concat();
    let dir = lane.home.dir().fd.as_fd();
    let answer = channel::ask(dir, channel::OUTSIDE, &text, PATIENCE)
        .doing(|| format!("ask for a snapshot of {}", lane.row.name))?;
    let Some(answer) = answer else { return Ok(None) };
    if answer == crate::watch::UNCHANGED {
        return Ok(Some(None));
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    match text.strip_prefix('+').and_then(store::SnapshotId::from_hex) {
        Some(id) => {
            let record = history.record(&history.read()?, id)?.clone();
            Ok(Some(Some(store::Snapshot { id, record })))
        }
        None => Err(EngineError::NotTaken {
            name: lane.row.name.clone(),
            why: text.trim_start_matches('-').to_owned(),
        }),
    }
}

/// Takes a snapshot of a lane at work.
pub(crate) fn of_live(
    lane: &lane::OpenLane,
    history: &LaneHistory,
    wish: &Wish,
) -> Result<Option<store::Snapshot>> {
    match ask_the_watch(lane, history, wish)? {
        Some(taken) => Ok(taken),
        // Nobody watches: the command of another, older run, or one that is just ending.
        None => history.take_live(lane, wish, None),
    }
}

/// Names that mean something else where a reference is asked for.
const RESERVED: [&str; 3] = ["base", "now", "origin"];

/// Takes a snapshot. When this returns it is durable.
pub fn snap(engine: &Engine, request: &SnapRequest) -> Result<SnapAnswer> {
    let message = request.message.clone().unwrap_or_default();
    if RESERVED.contains(&message.as_str()) {
        return Err(EngineError::BadReference { reference: message });
    }
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let lane = lane::open(engine, row)?;
    let kind = if message.is_empty() { SnapshotKind::Asked } else { SnapshotKind::Named };
    let wish = Wish { kind, message: message.into_bytes(), only_if_changed: false };
    let history = LaneHistory::open(engine, &lane)?;
    crate::watch::await_last(&lane.home);
    let taken = match lane.home.try_lock()? {
        Some(_lock) => history.take_at_rest(&lane, &wish)?,
        None => of_live(&lane, &history, &wish)?,
    };
    let taken = taken.ok_or_else(|| EngineError::NoSuchSnapshot {
        lane: lane.row.name.clone(),
        reference: "now".into(),
    })?;
    let plan = json!({ "id": taken.id.to_string(), "kind": taken.record.kind.word() });
    engine.ledger()?.insert_op(&done("snap", &lane.row.id, plan))?;
    Ok(SnapAnswer {
        lane: lane.row.name.clone(),
        lane_id: lane.row.id.clone(),
        snapshot: view_of(taken.id, &taken.record, Some(taken.id)),
    })
}
