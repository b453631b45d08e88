//! Answers to the page's requests, each in a process of its own at the desk, through the engine like a verb.
//!
//! Invariant: everything of a lane's goes into an answer as [`Text`], or as hexadecimal bytes that the page only hands
//! back. A request reaches lanes of the page's own project alone, each by its id. Answers are for this program's own page
//! and change with it; what scripts use is `--json`.

mod acts;
mod changes;
mod compare;
mod history;
mod keep;
mod kept;
mod lanes;
mod output;
mod overlap;
mod screen;
mod shapes;
mod verify;

use std::path::{Path, PathBuf};

use engine::desk::Answer;
use engine::{Engine, EngineError, EngineOptions, find};
use serde_json::{Value, json};

use super::request::{Place, Request, unhex};
use super::text::Text;
use crate::error::{CliError, Result};

/// What every request stands on.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// A directory of the project, absolute.
    pub(crate) dir: PathBuf,
    /// The state directory, where one was named.
    pub(crate) state: Option<PathBuf>,
}

/// Answers one request.
pub(crate) fn answer(ground: &Ground, request: &[u8]) -> Answer {
    let Ok(request) = serde_json::from_slice::<Request>(request) else {
        return Answer { status: 400, body: b"{}".to_vec() };
    };
    let asked = || -> Result<Value> {
        let engine = Engine::open(&EngineOptions { state: ground.state.clone() })?;
        dispatch(&engine, &ground.dir, request)
    };
    let (status, value) = match asked() {
        Ok(value) => (200, value),
        Err(error) => (409, failure(&error)),
    };
    Answer { status, body: value.to_string().into_bytes() }
}

/// A page shows one project: lanes of others, and names instead of ids, are nothing to it.
fn own(engine: &Engine, dir: &Path, request: &Request) -> Result<()> {
    let (lanes, in_trash) = request.lanes();
    for id in lanes {
        let is_own = if in_trash { find::is_own_discarded } else { find::is_own };
        if !is_own(engine, dir, id)? {
            let (name, project) = (id.to_owned(), engine.project(dir)?.top);
            return Err(EngineError::NoSuchLane { name, project, have: Vec::new() }.into());
        }
    }
    Ok(())
}

fn dispatch(engine: &Engine, dir: &Path, request: Request) -> Result<Value> {
    own(engine, dir, &request)?;
    match request {
        Request::Lanes => lanes::all(engine, dir),
        Request::Lane { lane } => lanes::one(engine, dir, lane),
        Request::Changes { lane } => changes::list(engine, dir, &lane),
        Request::Counts { lane, files } => changes::counts(engine, dir, &lane, &files),
        Request::Hunks { lane, file } => changes::hunks(engine, dir, &lane, &file),
        Request::History { lane } => history::history(engine, dir, lane),
        Request::Output { lane, run, from, wait } => output::output(engine, dir, lane, run, from, wait),
        Request::Screen { lane, run } => screen::screen(engine, dir, lane, run),
        Request::PlanKeep { lane, ticks, conflicts, shape, with } => {
            let wish = keep::Wish { dir, lane: &lane, ticks: &ticks, conflicts: &conflicts, with: &with };
            shapes::plan(engine, &wish, &shape)
        }
        Request::Keep { lane, ticks, conflicts, shape, with } => {
            let wish = keep::Wish { dir, lane: &lane, ticks: &ticks, conflicts: &conflicts, with: &with };
            shapes::keep(engine, &wish, &shape)
        }
        Request::Kept => kept::list(engine, dir),
        Request::PlanUndoKeep { keep } => kept::plan(engine, dir, keep),
        Request::UndoKeep { keep } => kept::undo(engine, dir, keep),
        Request::PlanExport { lane } => acts::plan_export(engine, dir, lane),
        Request::Export { lane, target } => acts::export(engine, dir, lane, &target),
        Request::PlanDiscard { lane } => acts::plan_discard(engine, dir, lane),
        Request::Discard { lane, stop } => acts::discard(engine, dir, lane, stop),
        Request::Recover { lane } => acts::recover(engine, dir, lane),
        Request::GoBack { lane, to, yes } => acts::go_back(engine, dir, lane, to, yes),
        Request::Stop { lane } => acts::stop(engine, dir, lane),
        Request::Compare { left, right } => compare::list(engine, dir, [&left, &right]),
        Request::CompareFile { left, right, file } => compare::file(engine, dir, [&left, &right], &file),
        Request::Overlap { lanes } => overlap::overlap(engine, dir, &lanes),
        Request::PlanVerify { lane } => verify::plan(engine, dir, &lane),
        Request::Verify { lane, command } => verify::verify(engine, dir, lane, &command),
    }
}

/// An error as the page shows it.
fn failure(error: &CliError) -> Value {
    let said = error.words();
    json!({ "error": {
        "kind": said.kind,
        "message": Text::content(said.what.as_bytes()),
        "causes": said.causes.iter().map(|cause| Text::content(cause.as_bytes())).collect::<Vec<_>>(),
        "hint": said.hint.map(|hint| Text::content(hint.as_bytes())),
    }})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path in its tree that a place names.
fn tree_path(place: &Place) -> Result<tree::TreePath> {
    unhex(&place.path)
        .and_then(|bytes| tree::TreePath::new(bytes).ok())
        .ok_or_else(|| CliError::Usage("a path of the request is none".to_owned()))
}
