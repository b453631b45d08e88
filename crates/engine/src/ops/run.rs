//! `run`: a command in a lane, which is made where it is new.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::monitor::Monitor;
use crate::view::{Cost, DriftView, Exit, LaneView, Net, Next, PlanView, RootChanges, Strategy};

/// What to run, in which lane, behind which walls.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane's name; generated where there is none.
    pub name: Option<String>,
    /// The command; empty for the user's shell.
    pub argv: Vec<OsString>,
    /// Discard the lane at the end.
    pub rm: bool,
    /// Further paths that are readable inside.
    pub ro: Vec<PathBuf>,
    /// Paths that are written through to the original.
    pub bind: Vec<PathBuf>,
    /// Paths that are absent inside.
    pub hide: Vec<PathBuf>,
    /// Variables: a value, or the caller's own.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// End the run after this long.
    pub timeout: Option<Duration>,
    /// Keep the lane's writes in memory.
    pub upper_tmpfs: bool,
    /// The network.
    pub net: Net,
    /// Leave the lane live.
    pub detach: bool,
    /// Further roots, each with its own layer.
    pub also: Vec<PathBuf>,
    /// The strategy asked for.
    pub strategy: Option<Strategy>,
    /// Agents whose own data is shared; empty finds them by the command's name.
    pub presets: Vec<String>,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct RunAnswer {
    /// The lane, as it is now.
    pub lane: LaneView,
    /// True where the lane was discarded at the end (`--rm`).
    pub removed: bool,
    /// What making it cost; `None` where it was there already.
    pub cost: Option<Cost>,
    /// How the command ended.
    pub exit: Exit,
    /// Sums for each root, the origin first.
    pub changes: Vec<RootChanges>,
    /// Changes below `$HOME`, which are never kept.
    pub home_changes: u64,
    /// What changed in the origin meanwhile.
    pub drift: Vec<DriftView>,
    /// The most useful next commands, best first.
    pub next: Vec<Next>,
}

/// Runs a command in a lane.
pub fn run(_engine: &Engine, _request: &RunRequest, _monitor: &mut dyn Monitor) -> Result<RunAnswer> {
    Err(EngineError::NotBuilt("run"))
}

/// What [`run`] would do, without doing anything.
pub fn plan(_engine: &Engine, _request: &RunRequest) -> Result<PlanView> {
    Err(EngineError::NotBuilt("run --show-plan"))
}
