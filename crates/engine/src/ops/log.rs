//! `log`: the snapshots of a lane as a tree, with the place where it stands.

use std::collections::HashMap;
use std::path::PathBuf;

use store::{Record, Share, SnapshotId};
use tree::TreePath;

use crate::describe;
use crate::engine::Engine;
use crate::error::Result;
use crate::find;
use crate::history::LaneHistory;
use crate::lane;
use crate::missed::{self, Missed};
use crate::view::RunView;

/// Which lane.
#[derive(Debug, Clone, Default)]
pub struct LogRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Every branch of the history, not only the one that leads to the present position.
    pub all: bool,
    /// Find out what each snapshot takes; that reads all of the store's manifests.
    pub usage: bool,
}

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotView {
    /// Its id.
    pub id: SnapshotId,
    /// The one before.
    pub parent: Option<SnapshotId>,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// Why it was taken: `named`, `asked`, `quiet`, `ceiling`, `exit`, `exec`, `rescue`, `fork`, `start`, `last`.
    pub kind: &'static str,
    /// What the lane was doing: `at-rest`, `frozen`, `running`.
    pub quiescence: &'static str,
    /// Its name or text; bytes of the lane's, perhaps.
    pub message: Vec<u8>,
    /// Entries of its layers.
    pub entries: u64,
    /// Bytes of content of its layers.
    pub bytes: u64,
    /// What is not in it: root, path, reason.
    pub gaps: Vec<(u32, TreePath, String)>,
    /// Files in it that look like credentials.
    pub credentials: Vec<(u32, TreePath)>,
    /// The lane stands here.
    pub is_position: bool,
    /// What it takes in the store, where that was asked for.
    pub share: Option<Share>,
}

/// The history of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogAnswer {
    /// Name of the lane.
    pub lane: String,
    /// Id of the lane.
    pub lane_id: String,
    /// Snapshots, the newest first.
    pub snapshots: Vec<SnapshotView>,
    /// Where the lane stands.
    pub position: Option<SnapshotId>,
    /// Snapshots on other branches, which were not listed.
    pub elsewhere: u64,
    /// Parts of the log that cannot be read, with the reason.
    pub damaged: Vec<String>,
    /// The last automatic snapshot could not be taken.
    pub missed: Option<Missed>,
}

/// A record as it is shown.
pub(crate) fn view_of(id: SnapshotId, record: &Record, position: Option<SnapshotId>) -> SnapshotView {
    SnapshotView {
        id,
        parent: record.parent,
        at: record.time_ms,
        kind: record.kind.word(),
        quiescence: record.quiescence.word(),
        message: record.message.clone(),
        entries: record.roots.iter().map(|root| root.entries).sum(),
        bytes: record.roots.iter().map(|root| root.bytes).sum(),
        gaps: record.gaps.iter().map(|gap| (gap.root, gap.path.clone(), gap.reason.clone())).collect(),
        credentials: record.credentials.clone(),
        is_position: position == Some(id),
        share: None,
    }
}

/// What ran in a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Runs {
    /// Name of the lane.
    pub lane: String,
    /// Id of the lane.
    pub lane_id: String,
    /// Its runs, the newest first.
    pub runs: Vec<RunView>,
}

/// Lists what ran in a lane. Nothing that it holds is looked at.
pub fn runs(engine: &Engine, request: &LogRequest) -> Result<Runs> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let mut runs: Vec<RunView> = engine.ledger()?.runs(&row.id)?.iter().map(describe::run).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.id));
    Ok(Runs { lane: row.name, lane_id: row.id, runs })
}

/// Lists the snapshots of a lane.
pub fn log(engine: &Engine, request: &LogRequest) -> Result<LogAnswer> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let lane = lane::open(engine, row)?;
    crate::watch::await_last(&lane.home);
    let snapshots = LaneHistory::find(engine, &lane)?;
    let history = match &snapshots {
        Some(snapshots) => snapshots.read()?,
        None => store::History::default(),
    };
    let shares = match &snapshots {
        Some(snapshots) if request.usage => snapshots.usage()?,
        _ => HashMap::new(),
    };
    let position = history.position();
    let view = |(id, record)| {
        // What was thinned out between the two is not looked for by anybody.
        let share = shares.get(&id).copied();
        SnapshotView { parent: history.before(id), share, ..view_of(id, record, position) }
    };
    let mut all: Vec<SnapshotView> = history.snapshots().map(view).collect();
    all.reverse();
    let total = all.len();
    if !request.all {
        // Each parent comes after its children here.
        let mut wanted = position;
        all.retain(|snapshot| {
            let is_wanted = wanted == Some(snapshot.id);
            if is_wanted {
                wanted = snapshot.parent;
            }
            is_wanted
        });
    }
    Ok(LogAnswer {
        lane: lane.row.name.clone(),
        lane_id: lane.row.id.clone(),
        elsewhere: (total - all.len()) as u64,
        snapshots: all,
        position,
        damaged: history.strays.iter().map(|stray| format!("{stray:?}")).collect(),
        missed: missed::read(&lane.home),
    })
}
