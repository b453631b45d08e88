//! Lanes, runs and sums on the wire.

use engine::ops::list::ListedLane;
use engine::ops::show::{HistoryView, ShowAnswer};
use engine::ops::verify::VerifyAnswer;
use engine::view::{Counts, Exit, LaneView, RootChanges, RunView, VerdictView};
use serde::Serialize;

use super::history::NotTaken;
use super::{Drift, Gap, path, text, time};
use crate::render::report;

/// A lane.
#[derive(Debug, Serialize)]
pub(crate) struct Lane {
    name: String,
    id: String,
    state: &'static str,
    strategy: &'static str,
    why: String,
    origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_bytes: Option<String>,
    created_at: String,
    discarded_at: Option<String>,
    base: Base,
    roots: Vec<Root>,
    forked_from: Option<String>,
    cost: Cost,
    dir: String,
}

#[derive(Debug, Serialize)]
struct Base {
    time_sec: i64,
    time_nsec: u32,
    git_head: Option<String>,
    other_boot: bool,
}

#[derive(Debug, Serialize)]
struct Root {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    strategy: &'static str,
}

/// What making a lane cost.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    ms: f64,
    allocated_bytes: u64,
    files_copied: u64,
}

impl Cost {
    pub(crate) fn new(cost: engine::view::Cost) -> Cost {
        let ms = (cost.millis * 1000.0).round() / 1000.0;
        Cost { ms, allocated_bytes: cost.allocated, files_copied: cost.files }
    }
}

impl Lane {
    pub(crate) fn new(lane: &LaneView) -> Lane {
        let (origin, origin_bytes) = path(&lane.origin);
        Lane {
            name: lane.name.clone(),
            id: lane.id.clone(),
            state: lane.state.word(),
            strategy: lane.strategy.word(),
            why: lane.why.clone(),
            origin,
            origin_bytes,
            created_at: time(lane.created_at),
            discarded_at: lane.discarded_at.map(time),
            base: Base {
                time_sec: lane.base.sec,
                time_nsec: lane.base.nsec,
                git_head: lane.base.git_head.clone(),
                other_boot: lane.base.other_boot,
            },
            roots: lane.roots.iter().map(Root::new).collect(),
            forked_from: lane.forked_from.clone(),
            cost: Cost::new(lane.cost),
            dir: path(&lane.dir).0,
        }
    }
}

impl Root {
    fn new(root: &engine::view::RootView) -> Root {
        let (path, path_bytes) = path(&root.path);
        Root { path, path_bytes, strategy: root.strategy.word() }
    }
}

/// Sums over changes.
#[derive(Debug, Serialize)]
pub(crate) struct Sums {
    total: u64,
    added: u64,
    modified: u64,
    deleted: u64,
    renamed: u64,
    mode: u64,
    retyped: u64,
    git_internal: u64,
    gaps: u64,
}

impl Sums {
    fn new(counts: &Counts) -> Sums {
        Sums {
            total: counts.total(),
            added: counts.added,
            modified: counts.modified,
            deleted: counts.deleted,
            renamed: counts.renamed,
            mode: counts.mode,
            retyped: counts.retyped,
            git_internal: counts.git_internal,
            gaps: counts.gaps,
        }
    }
}

/// Sums for one root.
#[derive(Debug, Serialize)]
pub(crate) struct RootCounts {
    root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    root_bytes: Option<String>,
    changes: Sums,
}

impl RootCounts {
    pub(crate) fn new(changes: &RootChanges) -> RootCounts {
        let (root, root_bytes) = path(&changes.root);
        RootCounts { root, root_bytes, changes: Sums::new(&changes.counts) }
    }
}

/// An element of `ls`.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    name: String,
    id: String,
    state: &'static str,
    strategy: &'static str,
    origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_bytes: Option<String>,
    created_at: String,
    discarded_at: Option<String>,
    other_boot: bool,
    changes: Option<Sums>,
    exclusive_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    snapshots: Option<u64>,
    last_run: Option<Run>,
    verdict: Option<Verdict>,
    problem: Option<String>,
}

impl Listed {
    pub(crate) fn new(listed: &ListedLane) -> Listed {
        let lane = &listed.lane;
        let (origin, origin_bytes) = path(&lane.origin);
        Listed {
            name: lane.name.clone(),
            id: lane.id.clone(),
            state: lane.state.word(),
            strategy: lane.strategy.word(),
            origin,
            origin_bytes,
            created_at: time(lane.created_at),
            discarded_at: lane.discarded_at.map(time),
            other_boot: lane.base.other_boot,
            changes: listed.counts.as_ref().map(Sums::new),
            exclusive_bytes: listed.exclusive,
            memory_bytes: listed.memory,
            snapshots: listed.snapshots,
            last_run: lane.last_run.as_ref().map(Run::new),
            verdict: listed.verdict.as_ref().map(Verdict::new),
            problem: listed.problem.clone(),
        }
    }
}

/// How a command ended: one of the fields is set.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    detached: bool,
    lost: bool,
}

impl Ended {
    pub(crate) fn new(exit: Exit) -> Ended {
        match exit {
            Exit::Code(code) => Ended { code: Some(code), ..Ended::default() },
            Exit::Signal(signal) => Ended { signal: Some(signal), ..Ended::default() },
            Exit::TimedOut => Ended { timed_out: true, ..Ended::default() },
            Exit::Detached => Ended { detached: true, ..Ended::default() },
            Exit::Lost => Ended { lost: true, ..Ended::default() },
        }
    }
}

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    id: i64,
    argv: Vec<Word>,
    cwd: String,
    started_at: String,
    ended_at: Option<String>,
    exit: Option<Ended>,
    pid: Option<i32>,
    walls: Vec<Wall>,
    transcript: Option<String>,
}

/// A word of a command or a variable.
#[derive(Debug, Serialize)]
pub(crate) struct Word {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
}

impl Word {
    pub(crate) fn new(raw: &[u8]) -> Word {
        let (text, bytes) = text(raw);
        Word { text, bytes }
    }
}

/// A wall, with what became of it.
#[derive(Debug, Serialize)]
pub(crate) struct Wall {
    name: String,
    status: String,
    detail: String,
}

impl Wall {
    pub(crate) fn new(wall: &engine::view::WallView) -> Wall {
        Wall { name: wall.name.clone(), status: wall.status.clone(), detail: wall.detail.clone() }
    }
}

impl Run {
    pub(crate) fn new(run: &RunView) -> Run {
        Run {
            id: run.id,
            argv: run.argv.iter().map(|word| Word::new(word)).collect(),
            cwd: path(&run.cwd).0,
            started_at: time(run.started_at),
            ended_at: run.ended_at.map(time),
            exit: run.exit.map(Ended::new),
            pid: run.pid,
            walls: run.walls.iter().map(Wall::new).collect(),
            transcript: run.transcript.as_deref().map(|at| path(at).0),
        }
    }
}

/// What a check said.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    id: i64,
    verdict: &'static str,
    fresh: bool,
    argv: Vec<Word>,
    exit: Option<Ended>,
    started_at: String,
    ended_at: String,
    duration_ms: i64,
    snapshot: Option<String>,
    transcript: Option<String>,
}

impl Verdict {
    pub(crate) fn new(verdict: &VerdictView) -> Verdict {
        Verdict {
            id: verdict.id,
            verdict: verdict.word,
            fresh: verdict.fresh,
            argv: verdict.argv.iter().map(|word| Word::new(word)).collect(),
            exit: verdict.exit.map(Ended::new),
            started_at: time(verdict.started_at),
            ended_at: time(verdict.ended_at),
            duration_ms: verdict.ended_at - verdict.started_at,
            snapshot: verdict.snapshot.clone(),
            transcript: verdict.transcript.as_deref().map(|at| path(at).0),
        }
    }
}

/// The answer of `verify`.
#[derive(Debug, Serialize)]
pub(crate) struct Verified {
    lane: String,
    lane_id: String,
    verdict: Verdict,
}

impl Verified {
    pub(crate) fn new(answer: &VerifyAnswer) -> Verified {
        Verified {
            lane: answer.lane.name.clone(),
            lane_id: answer.lane.id.clone(),
            verdict: Verdict::new(&answer.verdict),
        }
    }
}

/// The answer of `show`.
#[derive(Debug, Serialize)]
pub(crate) struct Show {
    lane: Lane,
    changes: Vec<RootCounts>,
    home_changes: u64,
    exclusive_bytes: u64,
    drift: Vec<Drift>,
    history: Option<History>,
    missed: Option<NotTaken>,
    guarded: Vec<Gap>,
    verdict: Option<Verdict>,
    runs: Vec<Run>,
    next: Vec<String>,
}

/// A lane's history at a glance.
#[derive(Debug, Serialize)]
struct History {
    snapshots: u64,
    position: Option<String>,
    store_bytes: u64,
    store_lanes: u64,
}

impl History {
    fn new(view: &HistoryView) -> History {
        History {
            snapshots: view.snapshots,
            position: view.position.map(|id| id.to_string()),
            store_bytes: view.store_bytes,
            store_lanes: view.store_lanes,
        }
    }
}

impl Show {
    pub(crate) fn new(answer: &ShowAnswer) -> Show {
        Show {
            lane: Lane::new(&answer.lane),
            changes: answer.changes.iter().map(RootCounts::new).collect(),
            home_changes: answer.home_changes,
            exclusive_bytes: answer.exclusive,
            drift: answer.drift.iter().map(Drift::new).collect(),
            history: answer.history.as_ref().map(History::new),
            missed: answer.missed.as_ref().map(NotTaken::new),
            guarded: answer.guarded.iter().map(|at| Gap::new(&at.root, &at.path, &at.why)).collect(),
            verdict: answer.verdict.as_ref().map(Verdict::new),
            runs: answer.runs.iter().map(Run::new).collect(),
            next: answer.next.iter().map(report::command).collect(),
        }
    }
}
