//! Answers of the verbs that do something.

use engine::only_here::OnlyHere;
use engine::ops::discard::DiscardAnswer;
use engine::ops::export::ExportAnswer;
use engine::ops::keep::{Clash, ConflictView, Conflicts, KeepView, LeftOut, MergedView, StepView};
use engine::ops::run::RunAnswer;
use engine::ops::stop::StopAnswer;
use engine::policy::CheckView;
use engine::view::{LaneView, PlanView};
use serde::Serialize;

use super::lane::{Cost, Ended, Lane, RootCounts, Wall, Word};
use super::ledger::Refused;
use super::{Drift, Gap, path, text};
use crate::render::report;

/// The answer of `run` and `exec`.
#[derive(Debug, Serialize)]
pub(crate) struct Ran {
    lane: Lane,
    removed: bool,
    exit: Ended,
    exit_code: u8,
    cost: Option<Cost>,
    changes: Vec<RootCounts>,
    home_changes: u64,
    drift: Vec<Drift>,
    refused: Vec<Refused>,
    reads: Option<Reads>,
    handed: Option<Handed>,
    next: Vec<String>,
}

/// What was handed out.
#[derive(Debug, Serialize)]
struct Handed {
    at: String,
    files: u64,
    bytes: u64,
    left_out: Vec<NotHanded>,
}

#[derive(Debug, Serialize)]
struct NotHanded {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    why: String,
}

impl Handed {
    fn new(handed: &engine::artifacts::Handed) -> Handed {
        let left_out = handed.left_out.iter().map(|(path, why)| {
            let (path, path_bytes) = super::text(path.as_bytes());
            NotHanded { path, path_bytes, why: why.clone() }
        });
        let (at, files, bytes) = (path(&handed.at).0, handed.files, handed.bytes);
        Handed { at, files, bytes, left_out: left_out.collect() }
    }
}

/// What tracing files amounted to.
#[derive(Debug, Serialize)]
struct Reads {
    calls: u64,
    files: u64,
    waited_us: u64,
}

impl Ran {
    pub(crate) fn new(answer: &RunAnswer) -> Ran {
        Ran {
            lane: Lane::new(&answer.lane),
            removed: answer.removed,
            exit: Ended::new(answer.exit),
            exit_code: crate::exit_code::of(answer.exit),
            cost: answer.cost.map(Cost::new),
            changes: answer.changes.iter().map(RootCounts::new).collect(),
            home_changes: answer.home_changes,
            drift: answer.drift.iter().map(Drift::new).collect(),
            refused: answer.refused.iter().map(Refused::new).collect(),
            reads: answer.reads.map(|reads| Reads {
                calls: reads.calls,
                files: reads.files,
                waited_us: reads.waited_us,
            }),
            handed: answer.handed.as_ref().map(Handed::new),
            next: answer.next.iter().map(report::command).collect(),
        }
    }
}

/// The answer of `run --show-plan`.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    lane: Option<String>,
    strategy: String,
    why: String,
    rejected: Vec<Rejected>,
    net: String,
    argv: Vec<Word>,
    mounts: Vec<Mount>,
    hidden: Vec<Hidden>,
    walls: Vec<Wall>,
    env: Vec<Word>,
}

#[derive(Debug, Serialize)]
struct Rejected {
    strategy: String,
    why: String,
}

#[derive(Debug, Serialize)]
struct Mount {
    target: String,
    kind: String,
    source: Option<String>,
    read_only: bool,
    why: String,
}

#[derive(Debug, Serialize)]
struct Hidden {
    path: String,
    why: String,
}

impl Plan {
    pub(crate) fn new(plan: &PlanView) -> Plan {
        Plan {
            lane: plan.lane.clone(),
            strategy: plan.strategy.clone(),
            why: plan.why.clone(),
            rejected: plan
                .rejected
                .iter()
                .map(|(strategy, why)| Rejected { strategy: strategy.clone(), why: why.clone() })
                .collect(),
            net: plan.net.text(),
            argv: plan.argv.iter().map(|word| Word::new(word)).collect(),
            mounts: plan
                .mounts
                .iter()
                .map(|mount| Mount {
                    target: path(&mount.target).0,
                    kind: mount.kind.clone(),
                    source: mount.source.as_deref().map(|at| path(at).0),
                    read_only: mount.read_only,
                    why: mount.why.clone(),
                })
                .collect(),
            hidden: plan
                .hidden
                .iter()
                .map(|(at, why)| Hidden { path: path(at).0, why: why.clone() })
                .collect(),
            walls: plan.walls.iter().map(Wall::new).collect(),
            env: plan.env.iter().map(|word| Word::new(word)).collect(),
        }
    }
}

/// The answer of `keep`, done or planned.
#[derive(Debug, Serialize)]
pub(crate) struct Keep {
    lane: String,
    lane_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    with: Vec<With>,
    /// By which it can be undone.
    id: Option<String>,
    dry_run: bool,
    /// True where nothing was left out.
    complete: bool,
    kept: Vec<Step>,
    left_out: Vec<Left>,
    set_id_dropped: Vec<Gap>,
    git_internal: u64,
    bytes: u64,
    checks: Vec<Check>,
    merged: Vec<Merged>,
    conflicts: Vec<Conflict>,
}

/// A further lane of a keep.
#[derive(Debug, Serialize)]
pub(super) struct With {
    lane: String,
    lane_id: String,
}

impl With {
    pub(super) fn all(lanes: &[LaneView]) -> Vec<With> {
        lanes.iter().map(|lane| With::new(&lane.name, &lane.id)).collect()
    }

    pub(super) fn new(name: &str, id: &str) -> With {
        With { lane: name.to_owned(), lane_id: id.to_owned() }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Merged {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    /// Where the lane has it, if elsewhere.
    lane_path: Option<String>,
    content: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Conflict {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: &'static str,
    lane: Option<&'static str>,
    original: Option<&'static str>,
    regions: Vec<Region>,
    settled: Option<&'static str>,
    /// Of which lane it is, where several are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    /// The lanes on the other side.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    with: Vec<String>,
    /// The branch on the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
}

/// Lines from 1: first and number, in the base, the original, the lane.
#[derive(Debug, Serialize)]
struct Region {
    base: [u32; 2],
    original: [u32; 2],
    lane: [u32; 2],
}

/// A check that a rule asks for.
#[derive(Debug, Serialize)]
struct Check {
    command: String,
    file: String,
    line: usize,
    holds: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Step {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    part: bool,
    guarded: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lanes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Left {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    why: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
}

impl Keep {
    pub(crate) fn new(view: &KeepView, dry_run: bool) -> Keep {
        Keep {
            lane: view.lane.name.clone(),
            lane_id: view.lane.id.clone(),
            with: With::all(&view.with),
            id: view.id.clone(),
            dry_run,
            complete: view.is_complete(),
            kept: view.steps.iter().map(Step::new).collect(),
            left_out: view.left_out.iter().map(Left::new).collect(),
            set_id_dropped: view
                .set_id_dropped
                .iter()
                .map(|(root, at)| Gap::new(root, at, "kept without its set-id bit"))
                .collect(),
            git_internal: view.git_internal,
            bytes: view.bytes,
            checks: view.checks.iter().map(Check::new).collect(),
            merged: view.merged.iter().map(Merged::new).collect(),
            conflicts: view.conflicts.iter().map(Conflict::new).collect(),
        }
    }
}

impl Merged {
    pub(super) fn new(merged: &MergedView) -> Merged {
        let (inner, path_bytes) = text(merged.path.as_bytes());
        let lane_path = merged.lane_path.as_ref().map(|at| text(at.as_bytes()).0);
        Merged { root: path(&merged.root).0, path: inner, path_bytes, lane_path, content: merged.content }
    }
}

impl Conflict {
    pub(super) fn new(conflict: &ConflictView) -> Conflict {
        let (inner, path_bytes) = text(conflict.path.as_bytes());
        let (lane, original) = match &conflict.clash {
            Clash::Did { lane, original } => (Some(lane.word()), Some(original.word())),
            _ => (None, None),
        };
        let regions = match &conflict.clash {
            Clash::Lines(regions) => regions.as_slice(),
            _ => &[],
        };
        let pair = |(first, len): (u32, u32)| [first, len];
        Conflict {
            root: path(&conflict.root).0,
            path: inner,
            path_bytes,
            what: conflict.clash.word(),
            lane,
            original,
            regions: regions
                .iter()
                .map(|at| Region { base: pair(at.base), original: pair(at.ours), lane: pair(at.theirs) })
                .collect(),
            settled: conflict.settled.map(Conflicts::word),
            of: conflict.lane.clone(),
            with: conflict.with.clone(),
            branch: conflict.branch.clone(),
        }
    }
}

impl Check {
    fn new(check: &CheckView) -> Check {
        Check {
            command: check.command.clone(),
            file: path(&check.file).0,
            line: check.line,
            holds: check.holds,
        }
    }
}

impl Step {
    pub(super) fn new(step: &StepView) -> Step {
        let (inner, path_bytes) = text(step.path.as_bytes());
        let from = step.from.as_ref().map(|from| text(from.as_bytes()).0);
        Step {
            root: path(&step.root).0,
            path: inner,
            path_bytes,
            what: step.what,
            from,
            part: step.part,
            guarded: step.guarded.clone(),
            lanes: step.lanes.clone(),
        }
    }
}

impl Left {
    pub(super) fn new(left: &LeftOut) -> Left {
        let (inner, path_bytes) = text(left.path.as_bytes());
        let detail = left.detail.clone();
        let lane = left.lane.clone();
        Left { root: path(&left.root).0, path: inner, path_bytes, why: left.why.word(), detail, lane }
    }
}

/// The answer of `export`.
#[derive(Debug, Serialize)]
pub(crate) struct Exported {
    lane: String,
    lane_id: String,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
    further: Vec<String>,
    files: u64,
    bytes: u64,
    left_out: Vec<Gap>,
    guarded: Vec<Gap>,
}

impl Exported {
    pub(crate) fn new(answer: &ExportAnswer) -> Exported {
        let (target, target_bytes) = path(&answer.target);
        Exported {
            lane: answer.lane.name.clone(),
            lane_id: answer.lane.id.clone(),
            target,
            target_bytes,
            further: answer.further.iter().map(|at| path(at).0).collect(),
            files: answer.files,
            bytes: answer.bytes,
            left_out: answer
                .left_out
                .iter()
                .map(|(at, why)| Gap::new(&answer.lane.origin, at, why))
                .collect(),
            guarded: answer.guarded.iter().map(|at| Gap::new(&at.root, &at.path, &at.why)).collect(),
        }
    }
}

/// An element of `discard`.
#[derive(Debug, Serialize)]
pub(crate) struct Discarded {
    name: String,
    id: String,
    recoverable: bool,
    only_here: Option<Lost>,
    left: Vec<Hidden>,
}

/// What exists nowhere else.
#[derive(Debug, Serialize)]
struct Lost {
    changes: u64,
    first: Vec<LostPath>,
    commits: Vec<LostCommit>,
    home: u64,
    snapshots: u64,
}

#[derive(Debug, Serialize)]
struct LostPath {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

#[derive(Debug, Serialize)]
struct LostCommit {
    #[serde(rename = "ref")]
    name: String,
    id: String,
}

impl Lost {
    fn new(lost: &OnlyHere) -> Lost {
        let first = lost.first.iter().map(|(root, at)| {
            let (inner, path_bytes) = text(at.as_bytes());
            LostPath { root: path(root).0, path: inner, path_bytes }
        });
        let commits = lost.commits.iter().map(|(name, id)| LostCommit { name: name.clone(), id: id.clone() });
        Lost {
            changes: lost.changes,
            first: first.collect(),
            commits: commits.collect(),
            home: lost.home,
            snapshots: lost.snapshots,
        }
    }
}

impl Discarded {
    pub(crate) fn new(answer: &DiscardAnswer, now: bool) -> Discarded {
        Discarded {
            name: answer.lane.name.clone(),
            id: answer.lane.id.clone(),
            recoverable: !now,
            only_here: answer.only_here.as_ref().map(Lost::new),
            left: answer.left.iter().map(|(at, why)| Hidden { path: path(at).0, why: why.clone() }).collect(),
        }
    }
}

/// The answer of `stop`.
#[derive(Debug, Serialize)]
pub(crate) struct Stopped {
    lane: Lane,
    was_live: bool,
}

impl Stopped {
    pub(crate) fn new(answer: &StopAnswer) -> Stopped {
        Stopped { lane: Lane::new(&answer.lane), was_live: answer.was_live }
    }
}

/// The answer of `doctor`.
#[derive(Debug, Serialize)]
pub(crate) struct Doctor {
    pub(crate) ready: bool,
    pub(crate) checks: Vec<Probe>,
}

/// One probe.
#[derive(Debug, Serialize)]
pub(crate) struct Probe {
    pub(crate) id: &'static str,
    pub(crate) verdict: &'static str,
    pub(crate) found: String,
    pub(crate) remedy: Option<String>,
}
