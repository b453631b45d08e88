//! `undo --keep`: takes a keep back, in all roots that it wrote to.
//!
//! Invariant: refused as a whole where anything that the keep wrote was edited since; `review` looks again right before each
//! step. Afterwards the lane shows its changes as before the keep.

use std::path::PathBuf;

use kernel::lock::Lock;
use review::apply::{self, KeptRoot, NoFaults, UndoWhat};
use serde_json::json;
use tree::TreePath;
use tree::dir::DirTree;

use crate::engine::{Engine, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::keeping::{self, KeptView};
use crate::lane;
use crate::monitor::Monitor;

/// Which keep.
#[derive(Debug, Clone, Default)]
pub struct UndoKeepRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// Its id, or the front of it; `None` for the last one.
    pub id: Option<String>,
}

/// What undoing does at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoKeepStep {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// `remove`, `put-back`, `mode`, `move-back`.
    pub what: &'static str,
}

/// What undoing a keep would do, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoKeepView {
    /// The keep.
    pub keep: KeptView,
    /// The steps.
    pub steps: Vec<UndoKeepStep>,
    /// What was edited since the keep, by root: where there is any, it is refused.
    pub edited: Vec<(PathBuf, TreePath)>,
}

/// A plan that can be carried out once.
#[derive(Debug)]
pub struct PreparedUndo {
    /// What it would do.
    pub view: UndoKeepView,
    roots: Vec<(PathBuf, PathBuf, DirTree)>,
    /// The lanes that are still there, each held where nothing runs in it.
    lanes: Vec<(lane::OpenLane, Option<Lock>)>,
}

/// The keeps of a project of which there are records, the newest first.
pub fn list(engine: &Engine, dir: &std::path::Path, monitor: &mut dyn Monitor) -> Result<Vec<KeptView>> {
    let project = engine.project(dir)?;
    keeping::repair(engine, &project.top, monitor)?;
    keeping::kept(engine, &project.top)
}

/// Makes the plan; writes nothing (but what was interrupted is put right first).
pub fn prepare(
    engine: &Engine,
    request: &UndoKeepRequest,
    monitor: &mut dyn Monitor,
) -> Result<PreparedUndo> {
    let project = engine.project(&request.dir)?;
    let keeps = list(engine, &request.dir, monitor)?;
    let keep = choose(keeps, request.id.as_deref(), || project.top.clone())?;
    if keep.is_undone {
        return Err(EngineError::KeepUndone { id: keep.id });
    }
    let unknown = || EngineError::NoSuchKeep { id: keep.id.clone(), project: project.top.clone() };
    let (journal, kept) = keeping::record(engine, &project.top, &keep.id)?.ok_or_else(unknown)?;
    let mut roots = Vec::new();
    for (journal, path) in keeping::roots(&kept, &journal, &project.top) {
        keeping::repair(engine, &path, monitor)?;
        let origin = DirTree::open(&path).doing(|| format!("open {}", path.display()))?;
        roots.push((journal, path, origin));
    }
    let mut rows = Vec::new();
    for (id, _) in &keep.lanes {
        rows.extend(engine.ledger()?.lane(id)?.filter(|row| row.state != ledger::LaneState::Discarded));
    }
    // In the order in which a keep holds several.
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    let mut lanes = Vec::with_capacity(rows.len());
    for row in rows {
        let is_live = row.state == ledger::LaneState::Live;
        // A lane that cannot be opened any more keeps nobody from undoing what was kept of it.
        let Ok(lane) = lane::open(engine, row) else { continue };
        let lock = if is_live { None } else { Some(lane.lock()?) };
        lanes.push((lane, lock));
    }
    let plan = apply::plan_undo(&keep.id, &kept_roots(&roots))?;
    let place = |root: usize| roots.get(root).map_or_else(PathBuf::new, |(_, path, _)| path.clone());
    let steps = plan.steps.into_iter().map(|step| UndoKeepStep {
        root: place(step.root),
        path: step.path,
        what: word(step.what),
    });
    let edited = plan.edited.into_iter().map(|at| (place(at.root), at.path)).collect();
    let view = UndoKeepView { keep, steps: steps.collect(), edited };
    Ok(PreparedUndo { view, roots, lanes })
}

fn choose(mut keeps: Vec<KeptView>, asked: Option<&str>, project: impl Fn() -> PathBuf) -> Result<KeptView> {
    let Some(asked) = asked else {
        return match keeps.is_empty() {
            true => Err(EngineError::NoKeep { project: project() }),
            false => Ok(keeps.remove(0)),
        };
    };
    keeps.retain(|keep| keep.id.starts_with(asked));
    match keeps.len() {
        1 => Ok(keeps.remove(0)),
        _ => Err(EngineError::NoSuchKeep { id: asked.to_owned(), project: project() }),
    }
}

fn kept_roots(roots: &[(PathBuf, PathBuf, DirTree)]) -> Vec<KeptRoot<'_>> {
    roots.iter().map(|(journal, _, origin)| KeptRoot { origin: origin.fd(), journal }).collect()
}

fn word(what: UndoWhat) -> &'static str {
    match what {
        UndoWhat::Remove => "remove",
        UndoWhat::PutBack => "put-back",
        UndoWhat::Mode => "mode",
        UndoWhat::MoveBack => "move-back",
    }
}

impl PreparedUndo {
    /// Carries it out: all of it or nothing.
    pub fn execute(self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<UndoKeepView> {
        let id = &self.view.keep.id;
        if let Some((root, path)) = self.view.edited.first() {
            return Err(EngineError::EditedSinceKeep {
                id: id.clone(),
                path: root.join(path.as_path()),
                others: self.view.edited.len() - 1,
            });
        }
        let mut touched = Vec::new();
        for (journal, _, _) in &self.roots {
            let kept = apply::kept(journal)?.into_iter().find(|kept| kept.id == *id);
            touched.push(kept.map(|kept| kept.paths).unwrap_or_default());
        }
        for (lane, lock) in &self.lanes {
            if lock.is_some() {
                lane.home.forget_links()?;
            }
            for ((_, path, _), touched) in self.roots.iter().zip(&touched) {
                let Some(root) = lane.roots.iter().find(|root| root.view.path == *path) else { continue };
                if !root.workspace.stand_alone(touched, lock.is_some())? {
                    return Err(EngineError::RestsOnMoved { name: lane.row.name.clone() });
                }
            }
        }
        let operation = |outcome: String| ledger::NewOperation {
            outcome,
            ..done("undo-keep", &self.view.keep.lane_id, json!({ "keep": id }))
        };
        let mut follow = |settled: &apply::Settled| keeping::base::follow(engine, settled, monitor);
        if let Err(error) = apply::undo(id, &kept_roots(&self.roots), &NoFaults, &mut follow) {
            engine.ledger()?.insert_op(&operation(error.to_string()))?;
            return Err(error.into());
        }
        engine.ledger()?.insert_op(&operation("done".to_owned()))?;
        Ok(self.view)
    }
}
