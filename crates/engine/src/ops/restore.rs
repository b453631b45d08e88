//! `restore`, `undo` and `redo`: a lane is put back to a snapshot. What it leaves is a snapshot first.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox::freeze::Mapped;
use serde_json::json;
use store::{History, SnapshotId, SnapshotKind};
use tree::TreePath;

use crate::engine::{Engine, done};
use crate::error::{EngineError, Result};
use crate::find;
use crate::going_back::{Restored, is_damage};
use crate::going_back_live::{Reached, landed_from};
use crate::history::{LaneHistory, Wish, only_one, short};
use crate::lane::{self, OpenLane};
use crate::ops::log::{SnapshotView, view_of};

/// Where to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Target {
    /// A snapshot's id, the front of one, or its name; `base` is the state without changes.
    Reference(String),
    /// One step back.
    #[default]
    Back,
    /// To where the last step back was taken from.
    Forth,
}

/// Which lane, and where to.
#[derive(Debug, Clone, Default)]
pub struct RestoreRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Where to.
    pub target: Target,
    /// Go on although most of what the lane holds is removed.
    pub yes: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreAnswer {
    /// Name of the lane.
    pub lane: String,
    /// Id of the lane.
    pub lane_id: String,
    /// Where the lane stands now.
    pub to: SnapshotView,
    /// The state that was left.
    pub from: SnapshotView,
    /// True where that state had to be recorded first, because nothing had.
    pub rescued: bool,
    /// What it took.
    pub restored: Restored,
}

/// Words of moves in a history.
const RESTORE: &str = "restore";
const UNDO: &str = "undo";
const REDO: &str = "redo";

/// A restore that removes more than this share of a lane's entries, and more than [`FEW`], is asked about.
const MOST: u64 = 2;
const FEW: u64 = 50;

/// How long a restore waits for a lane that is just beginning or ending.
const PATIENCE: Duration = Duration::from_secs(15);

/// Puts a lane back.
pub fn restore(engine: &Engine, request: &RestoreRequest) -> Result<RestoreAnswer> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let lane = lane::open(engine, row)?;
    let deadline = Instant::now() + PATIENCE;
    let lock = loop {
        crate::watch::await_last(&lane.home);
        if let Some(lock) = lane.home.try_lock()? {
            break lock;
        }
        if let Some(reached) = Reached::of(&lane)? {
            return restore_live(engine, &lane, request, reached);
        }
        // Nobody answers for it: it is just beginning or ending, or the last snapshot is being taken.
        if Instant::now() >= deadline {
            let pid = lane.home.holder().ok().flatten();
            return Err(EngineError::Live { name: lane.row.name.clone(), pid });
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    crate::launch::settle_renames(engine, &lane, &lock)?;
    crate::going_back::settle(engine, &lane, &mut crate::engine::Noting(engine))?;
    let snapshots = LaneHistory::open(engine, &lane)?;
    go(engine, &lane, &snapshots, request, &Standing::AtRest)
}

/// The same in a lane at work, whose processes stand still meanwhile.
fn restore_live(
    engine: &Engine,
    lane: &OpenLane,
    request: &RestoreRequest,
    mut reached: Reached,
) -> Result<RestoreAnswer> {
    let snapshots = LaneHistory::open(engine, lane)?;
    // What takes long is read before they stand.
    let before = crate::ops::snap::of_live(lane, &snapshots, &Wish::automatic(SnapshotKind::Rescue))?;
    let _alone = only_one(lane)?;
    let (mut answer, stood) = reached.still(lane, |mapped, tops| {
        go(engine, lane, &snapshots, request, &Standing::Still { mapped, tops, rescued: before.is_some() })
    })?;
    if !stood {
        let why = "processes of the lane went on before it was put back".to_owned();
        answer.restored.left.push((lane.roots[0].view.path.clone(), TreePath::root(), why));
    }
    Ok(answer)
}

/// How the lane is kept from others.
enum Standing<'s> {
    /// The caller holds its lock.
    AtRest,
    /// Its processes stand still, and the caller holds [`only_one`].
    Still { mapped: &'s Mapped, tops: &'s [OwnedFd], rescued: bool },
}

fn go(
    engine: &Engine,
    lane: &OpenLane,
    snapshots: &LaneHistory,
    request: &RestoreRequest,
    standing: &Standing<'_>,
) -> Result<RestoreAnswer> {
    let name = lane.row.name.clone();
    // Where to is settled before anything is recorded: what follows moves the names of steps.
    let asked = match &request.target {
        Target::Reference(reference) => Some(snapshots.resolve(&snapshots.read()?, reference)?),
        Target::Back | Target::Forth => None,
    };
    let wish = Wish::automatic(SnapshotKind::Rescue);
    let rescue = match standing {
        Standing::AtRest => snapshots.take_at_rest(lane, &wish)?,
        Standing::Still { mapped, .. } => snapshots.take_still(lane, &wish, mapped)?,
    };
    let rescued = rescue.is_some() || matches!(standing, Standing::Still { rescued: true, .. });
    let history = snapshots.read()?;
    let nowhere = || EngineError::NothingBack { name: name.clone() };
    let from = history.position().ok_or_else(nowhere)?;
    let (to, why) = match &request.target {
        Target::Reference(_) => (asked.ok_or_else(nowhere)?, RESTORE),
        Target::Back => (step_back(&history, landed_from(&history, from)).ok_or_else(nowhere)?, UNDO),
        Target::Forth => (
            left_last(&history, from, rescued).ok_or(EngineError::NothingForth { name: name.clone() })?,
            REDO,
        ),
    };
    let (removes, of) = match (snapshots.would_remove(from, to), standing) {
        (Err(error), Standing::AtRest) if is_damage(&error) => {
            // Perhaps it is what the lane stands at, which the lane itself still has.
            snapshots.store_again(lane)?;
            snapshots.would_remove(from, to)?
        }
        (other, _) => other?,
    };
    if !request.yes && removes > FEW && removes * MOST > of {
        return Err(EngineError::RemovesMuch { name, to: short(to), removes, of });
    }
    let restored = match standing {
        Standing::AtRest => snapshots.restore(lane, from, to, why)?,
        Standing::Still { mapped, tops, .. } => {
            snapshots.restore_live(lane, (from, to), why, mapped, tops)?
        }
    };
    let history = snapshots.read()?;
    let position = history.position();
    let plan = json!({ "from": from.to_string(), "to": to.to_string() });
    let operation = ledger::NewOperation {
        undo: Some(json!({ "restore": from.to_string() })),
        ..done(why, &lane.row.id, plan)
    };
    engine.ledger()?.insert_op(&operation)?;
    Ok(RestoreAnswer {
        lane: name,
        lane_id: lane.row.id.clone(),
        to: view_of(to, snapshots.record(&history, to)?, position),
        from: view_of(from, snapshots.record(&history, from)?, position),
        rescued,
        restored,
    })
}

/// The nearest state before this one that differs from it.
fn step_back(history: &History, from: SnapshotId) -> Option<SnapshotId> {
    let here = history.get(from)?;
    let same = |record: &store::Record| {
        record.roots.len() == here.roots.len()
            && record.roots.iter().zip(&here.roots).all(|(a, b)| a.top == b.top && a.layers == b.layers)
    };
    let mut at = history.before(from);
    while let Some(id) = at {
        let record = history.get(id)?;
        if !same(record) {
            return Some(id);
        }
        at = history.before(id);
    }
    None
}

/// Where the steps back that led here were taken from, the last of them that was not taken forth again.
fn left_last(history: &History, here: SnapshotId, rescued: bool) -> Option<SnapshotId> {
    if rescued {
        // Something was done since: there is no way forth from here.
        return None;
    }
    let mut back: Vec<SnapshotId> = Vec::new();
    let mut position: Option<SnapshotId> = None;
    for logged in &history.events {
        match &logged.event {
            store::Event::Snapshot(record) => {
                // A rescue before a step back is part of that step.
                if record.kind != SnapshotKind::Rescue {
                    back.clear();
                }
                position = Some(record.id());
            }
            store::Event::Moved { to, why, .. } => {
                match why.as_slice() {
                    b"undo" => back.extend(position),
                    b"redo" => drop(back.pop()),
                    _ => back.clear(),
                }
                position = Some(*to);
            }
            store::Event::Removed { .. } | store::Event::Sealed { .. } => {}
        }
    }
    if position != Some(here) { None } else { back.pop() }
}
