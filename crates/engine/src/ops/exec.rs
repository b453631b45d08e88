//! `exec`: joins a lane, starting it where it is not live.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::describe;
use crate::engine::Engine;
use crate::error::Result;
use crate::find;
use crate::lane;
use crate::monitor::Monitor;
use crate::ops::run::{self, RunAnswer, RunRequest};

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
}

/// Runs a command in a lane that is live, or starts it for the command.
pub fn exec(engine: &Engine, request: &ExecRequest, monitor: &mut dyn Monitor) -> Result<RunAnswer> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    // The lane's own project is where its command starts, wherever the caller stands.
    let origin = describe::path(&row.origin);
    let dir =
        std::fs::canonicalize(&request.dir).ok().filter(|dir| dir.starts_with(&origin)).unwrap_or(origin);
    let run = RunRequest {
        dir,
        name: Some(row.name.clone()),
        argv: request.argv.clone(),
        env: request.env.clone(),
        ..RunRequest::default()
    };
    run::in_lane(engine, lane::open(engine, row)?, &run, monitor)
}
