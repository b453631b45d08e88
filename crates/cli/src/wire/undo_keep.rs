//! Answers of `undo --keep`.

use engine::keeping::KeptView;
use engine::ops::undo_keep::UndoKeepView;
use serde::Serialize;

use super::work::With;
use super::{path, text, time};

/// A keep of which there is a record.
#[derive(Debug, Serialize)]
pub(crate) struct Kept {
    id: String,
    at: Option<String>,
    lane: String,
    lane_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    with: Vec<With>,
    paths: u64,
    roots: Vec<String>,
    undone: bool,
    bytes: u64,
    problem: Option<String>,
}

impl Kept {
    fn new(kept: &KeptView) -> Kept {
        Kept {
            id: kept.id.clone(),
            at: kept.at.map(time),
            lane: kept.lane.clone(),
            lane_id: kept.lane_id.clone(),
            with: kept.lanes.iter().skip(1).map(|(id, name)| With::new(name, id)).collect(),
            paths: kept.steps,
            roots: kept.roots.iter().map(|root| path(root).0).collect(),
            undone: kept.is_undone,
            bytes: kept.bytes,
            problem: kept.problem.clone(),
        }
    }
}

/// The answer of `undo --keep --list`.
#[derive(Debug, Serialize)]
pub(crate) struct Keeps {
    keeps: Vec<Kept>,
}

impl Keeps {
    pub(crate) fn new(keeps: &[KeptView]) -> Keeps {
        Keeps { keeps: keeps.iter().map(Kept::new).collect() }
    }
}

/// The answer of `undo --keep`, done, planned or refused.
#[derive(Debug, Serialize)]
pub(crate) struct KeepUndone {
    keep: Kept,
    dry_run: bool,
    /// True where it is undone now.
    done: bool,
    steps: Vec<Step>,
    edited: Vec<At>,
}

#[derive(Debug, Serialize)]
struct Step {
    #[serde(flatten)]
    at: At,
    what: &'static str,
}

#[derive(Debug, Serialize)]
struct At {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl At {
    fn new(root: &std::path::Path, at: &tree::TreePath) -> At {
        let (text, bytes) = text(at.as_bytes());
        At { root: path(root).0, path: text, path_bytes: bytes }
    }
}

impl KeepUndone {
    pub(crate) fn new(view: &UndoKeepView, dry_run: bool) -> KeepUndone {
        let steps =
            view.steps.iter().map(|step| Step { at: At::new(&step.root, &step.path), what: step.what });
        KeepUndone {
            keep: Kept::new(&view.keep),
            dry_run,
            done: !dry_run && view.edited.is_empty(),
            steps: steps.collect(),
            edited: view.edited.iter().map(|(root, path)| At::new(root, path)).collect(),
        }
    }
}
