//! Answers of the verbs that deal with snapshots.

use engine::missed::Missed;
use engine::ops::fork::{ForkAnswer, WhyCopied};
use engine::ops::log::{LogAnswer, SnapshotView};
use engine::ops::restore::RestoreAnswer;
use engine::ops::snap::SnapAnswer;
use engine::view::RunView;
use serde::Serialize;

use super::lane::{Lane, Run};
use super::{Gap, path, text, time};

/// One snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    id: String,
    parent: Option<String>,
    at: String,
    kind: &'static str,
    quiescence: &'static str,
    message: String,
    message_bytes: Option<String>,
    entries: u64,
    bytes: u64,
    position: bool,
    added_bytes: Option<u64>,
    exclusive_bytes: Option<u64>,
    gaps: Vec<Missing>,
    credentials: Vec<Missing>,
}

/// A path that is not in a snapshot, or should perhaps not be.
#[derive(Debug, Serialize)]
struct Missing {
    root: u32,
    path: String,
    path_bytes: Option<String>,
    why: Option<String>,
}

impl Missing {
    fn new(root: u32, path: &tree::TreePath, why: Option<&str>) -> Missing {
        let (path, path_bytes) = text(path.as_bytes());
        Missing { root, path, path_bytes, why: why.map(str::to_owned) }
    }
}

impl Snapshot {
    pub(crate) fn new(view: &SnapshotView) -> Snapshot {
        let (message, message_bytes) = text(&view.message);
        Snapshot {
            id: view.id.to_string(),
            parent: view.parent.map(|parent| parent.to_string()),
            at: time(view.at),
            kind: view.kind,
            quiescence: view.quiescence,
            message,
            message_bytes,
            entries: view.entries,
            bytes: view.bytes,
            position: view.is_position,
            added_bytes: view.share.map(|share| share.added),
            exclusive_bytes: view.share.map(|share| share.alone),
            gaps: view.gaps.iter().map(|(root, path, why)| Missing::new(*root, path, Some(why))).collect(),
            credentials: view
                .credentials
                .iter()
                .map(|(root, path)| Missing::new(*root, path, None))
                .collect(),
        }
    }
}

/// The answer of `checkpoint`.
#[derive(Debug, Serialize)]
pub(crate) struct Checkpointed {
    id: String,
}

impl Checkpointed {
    pub(crate) fn new(id: &str) -> Checkpointed {
        Checkpointed { id: id.to_owned() }
    }
}

/// The answer of `snap`: the snapshot's own fields, with the lane.
#[derive(Debug, Serialize)]
pub(crate) struct Snapped {
    lane: String,
    lane_id: String,
    #[serde(flatten)]
    snapshot: Snapshot,
}

impl Snapped {
    pub(crate) fn new(answer: &SnapAnswer) -> Snapped {
        Snapped {
            lane: answer.lane.clone(),
            lane_id: answer.lane_id.clone(),
            snapshot: Snapshot::new(&answer.snapshot),
        }
    }
}

/// An automatic snapshot that could not be taken.
#[derive(Debug, Serialize)]
pub(crate) struct NotTaken {
    at: String,
    why: String,
}

impl NotTaken {
    pub(crate) fn new(missed: &Missed) -> NotTaken {
        NotTaken { at: time(missed.at), why: missed.why.clone() }
    }
}

/// The answer of `log`: snapshots and runs, the newest first.
#[derive(Debug, Serialize)]
pub(crate) struct Log {
    lane: String,
    lane_id: String,
    position: Option<String>,
    snapshots: Vec<Snapshot>,
    elsewhere: u64,
    damaged: Vec<String>,
    missed: Option<NotTaken>,
    runs: Vec<Run>,
}

impl Log {
    pub(crate) fn new(answer: &LogAnswer, runs: &[RunView]) -> Log {
        Log {
            lane: answer.lane.clone(),
            lane_id: answer.lane_id.clone(),
            position: answer.position.map(|id| id.to_string()),
            snapshots: answer.snapshots.iter().map(Snapshot::new).collect(),
            elsewhere: answer.elsewhere,
            damaged: answer.damaged.clone(),
            missed: answer.missed.as_ref().map(NotTaken::new),
            runs: runs.iter().map(Run::new).collect(),
        }
    }
}

/// The answer of `restore`, `undo` and `redo`.
#[derive(Debug, Serialize)]
pub(crate) struct Restored {
    lane: String,
    lane_id: String,
    to: Snapshot,
    from: Snapshot,
    rescued: bool,
    changed: u64,
    removed: u64,
    left: Vec<Gap>,
}

impl Restored {
    pub(crate) fn new(answer: &RestoreAnswer) -> Restored {
        Restored {
            lane: answer.lane.clone(),
            lane_id: answer.lane_id.clone(),
            to: Snapshot::new(&answer.to),
            from: Snapshot::new(&answer.from),
            rescued: answer.rescued,
            changed: answer.restored.changed,
            removed: answer.restored.removed,
            left: answer.restored.left.iter().map(|(root, path, why)| Gap::new(root, path, why)).collect(),
        }
    }
}

/// The answer of `fork`.
#[derive(Debug, Serialize)]
pub(crate) struct Forked {
    lane: Lane,
    parent: String,
    parent_id: String,
    snapshot: Option<Snapshot>,
    roots: Vec<ForkedRoot>,
    left: Vec<Gap>,
}

/// One root of a fork.
#[derive(Debug, Serialize)]
struct ForkedRoot {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    shared: bool,
    copied: Option<&'static str>,
    squashed: usize,
}

impl Forked {
    pub(crate) fn new(answer: &ForkAnswer) -> Forked {
        let roots = answer.roots.iter().map(|root| {
            let (path, path_bytes) = path(&root.path);
            let copied = root.why_copied.map(|why| match why {
                WhyCopied::HardLinks => "hard-links",
                WhyCopied::Inside => "inside",
                WhyCopied::NotMovable => "not-movable",
                WhyCopied::IsCopy => "copy",
            });
            ForkedRoot { path, path_bytes, shared: root.shared, copied, squashed: root.squashed }
        });
        Forked {
            lane: Lane::new(&answer.lane),
            parent: answer.parent.clone(),
            parent_id: answer.parent_id.clone(),
            snapshot: answer.from.as_ref().map(Snapshot::new),
            roots: roots.collect(),
            left: answer.left.iter().map(|(root, path, why)| Gap::new(root, path, why)).collect(),
        }
    }
}
