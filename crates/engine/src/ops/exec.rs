//! `exec`: joins a lane, starting it where it is not live.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::monitor::Monitor;
use crate::ops::run::RunAnswer;

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

/// Runs a command in a lane that is live, or starts it first.
pub fn exec(_engine: &Engine, _request: &ExecRequest, _monitor: &mut dyn Monitor) -> Result<RunAnswer> {
    Err(EngineError::NotBuilt("exec"))
}
