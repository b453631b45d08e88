//! `exec`: joins a lane, starting it where it is not live.

use std::ffi::OsString;
use std::path::PathBuf;

use ledger::Lane;

use crate::describe;
use crate::engine::Engine;
use crate::error::Result;
use crate::find;
use crate::keeping;
use crate::lane;
use crate::live;
use crate::monitor::Monitor;
use crate::ops::run::{self, RunAnswer, RunRequest};
use crate::recover;

/// What to run in which lane.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// The command; empty for the user's shell.
    pub argv: Vec<OsString>,
    /// Variables: a value, or the caller's own.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// [`RunRequest::on_record`].
    pub on_record: bool,
}

/// Runs a command in a lane that is live, or starts it for the command.
pub fn exec(engine: &Engine, request: &ExecRequest, monitor: &mut dyn Monitor) -> Result<RunAnswer> {
    if let Some(answer) = in_live(engine, request, monitor)? {
        return Ok(answer);
    }
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let run = run_in(&row, request);
    run::in_lane(engine, lane::open(engine, row)?, &run, monitor)
}

/// The short way into a lane that is live by that name; `None` where the ledger has to be asked.
fn in_live(engine: &Engine, request: &ExecRequest, monitor: &mut dyn Monitor) -> Result<Option<RunAnswer>> {
    let Some(name) = &request.lane else { return Ok(None) };
    let project = engine.project(&request.dir)?.top;
    // What is between two states is put right first.
    let found = live::find(engine, &project, name).filter(|row| !recover::is_between(engine, row));
    let Some(row) = found else { return Ok(None) };
    let run = run_in(&row, request);
    let Ok(lane) = lane::open(engine, row) else { return Ok(None) };
    keeping::repair(engine, &project, monitor)?;
    let driven = run::join(engine, &lane, &run, monitor)?;
    Ok(driven.map(|driven| run::joined(engine, &lane, &driven, &run, monitor)))
}

fn run_in(row: &Lane, request: &ExecRequest) -> RunRequest {
    // The lane's own project is where its command starts, wherever the caller stands.
    let origin = describe::path(&row.origin);
    let dir =
        std::fs::canonicalize(&request.dir).ok().filter(|dir| dir.starts_with(&origin)).unwrap_or(origin);
    RunRequest {
        dir,
        name: Some(row.name.clone()),
        argv: request.argv.clone(),
        env: request.env.clone(),
        on_record: request.on_record,
        ..RunRequest::default()
    }
}
