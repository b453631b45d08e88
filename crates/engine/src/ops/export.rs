//! `export`: writes the result of a lane beside its origin.
//!
//! What may be kept says the policy; an export is held to nothing, since it writes nothing that is there. It says what in it
//! runs by itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use review::export::ExportOptions;
use serde_json::json;
use tree::TreePath;

use crate::describe;
use crate::engine::{Engine, done};
use crate::error::{EngineError, Result};
use crate::find;
use crate::guarding::{self, GuardedView};
use crate::lane::{self, OpenLane, RootDelta};
use crate::project;
use crate::view::LaneView;

/// What to write where.
#[derive(Debug, Clone, Default)]
pub struct ExportRequest {
    /// A directory of the project; the target is relative to it.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// The target; `../<project>-<lane>` where not given.
    pub target: Option<PathBuf>,
    /// Take git's own files along, as the lane has them.
    pub git: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportAnswer {
    /// The lane.
    pub lane: LaneView,
    /// The new directory.
    pub target: PathBuf,
    /// The new directories of further roots that the lane changed.
    pub further: Vec<PathBuf>,
    /// Files written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out, each with the reason.
    pub left_out: Vec<(TreePath, String)>,
    /// What the lane changed that runs by itself later, and is in it.
    pub guarded: Vec<GuardedView>,
}

/// The directories that an export would make, the origin's first. Fails where it would.
pub fn plan(engine: &Engine, request: &ExportRequest) -> Result<Vec<PathBuf>> {
    let (lane, view) = open(engine, request)?;
    let deltas = lane.changes()?;
    Ok(targets(engine, request, &lane, &view, &deltas)?.into_iter().map(|(_, target)| target).collect())
}

fn open(engine: &Engine, request: &ExportRequest) -> Result<(OpenLane, LaneView)> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let view = describe::lane(engine, &row)?;
    Ok((lane::open(engine, row)?, view))
}

/// Which root goes where.
fn targets(
    engine: &Engine,
    request: &ExportRequest,
    lane: &OpenLane,
    view: &LaneView,
    deltas: &[RootDelta],
) -> Result<Vec<(usize, PathBuf)>> {
    let project = engine.project(&request.dir)?;
    let target = match &request.target {
        Some(target) => lane::lexical(&project.asked, target),
        None => beside(&lane.roots[0].view.path, &view.name),
    };
    let mut targets = vec![(0, target)];
    for delta in deltas.iter().skip(1).filter(|delta| !delta.set.changes.is_empty()) {
        let name = beside(&delta.root, &view.name);
        let parent = targets[0].1.parent().unwrap_or(Path::new("/"));
        targets.push((delta.index, parent.join(name.file_name().unwrap_or_default())));
    }
    for (_, target) in &targets {
        check(engine, lane, target)?;
    }
    Ok(targets)
}

/// Writes base and changes of a lane into new directories: one for the origin, and one beside it for each
/// further root that the lane changed.
pub fn export(engine: &Engine, request: &ExportRequest) -> Result<ExportAnswer> {
    let (lane, view) = open(engine, request)?;
    let deltas = lane.changes()?;
    let targets = targets(engine, request, &lane, &view, &deltas)?;
    let guarded = guarding::of_lane(&lane, &deltas)?;
    crate::leaks::check_all(&lane)?;
    let mut answer = ExportAnswer {
        lane: view,
        target: PathBuf::new(),
        further: Vec::new(),
        files: 0,
        bytes: 0,
        left_out: Vec::new(),
        guarded,
    };
    let mut further = Vec::new();
    for (index, target) in targets {
        let inside = lane.roots[index].workspace.lane_tree()?;
        let report = review::export::export(&*inside, &target, ExportOptions { git: request.git })?;
        answer.files += report.files;
        answer.bytes += report.bytes;
        // Git's own files are left out on purpose, not by accident.
        let wanted = |(path, _): &(TreePath, String)| request.git || !review::guard::git_internal(path);
        answer.left_out.extend(report.not_carried.into_iter().filter(wanted));
        if index == 0 {
            answer.target = target;
        } else {
            further.push(json!({ "root": index, "path": describe::value_of(&target) }));
            answer.further.push(target);
        }
    }
    let summary =
        json!({ "name": answer.lane.name, "target": describe::value_of(&answer.target), "further": further });
    engine.ledger()?.insert_op(&done("export", &answer.lane.id, summary))?;
    Ok(answer)
}

/// `../<project>-<lane>`.
fn beside(root: &Path, lane: &str) -> PathBuf {
    let mut name = OsString::from(project::short_name(root));
    name.push("-");
    name.push(lane);
    root.with_file_name(name)
}

fn check(engine: &Engine, lane: &OpenLane, target: &Path) -> Result<()> {
    if target.symlink_metadata().is_ok() {
        return Err(EngineError::TargetExists { path: target.to_owned() });
    }
    // The directory that it comes to stand in, wherever its links lead.
    let parent = target.parent().unwrap_or(Path::new("/"));
    let real = std::fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
    let ours = [engine.state().path().to_owned()];
    for root in lane.roots.iter().map(|root| &root.view.path).chain(&ours) {
        if real.starts_with(root) {
            return Err(EngineError::TargetInside { path: target.to_owned(), root: root.clone() });
        }
    }
    Ok(())
}
