//! `show`: one lane in full.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::view::{DriftView, LaneView, Next, RootChanges, RunView};

/// Which lane to show.
#[derive(Debug, Clone, Default)]
pub struct ShowRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
}

/// One lane in full.
#[derive(Debug, Clone, PartialEq)]
pub struct ShowAnswer {
    /// The lane.
    pub lane: LaneView,
    /// Sums for each root, the origin first.
    pub changes: Vec<RootChanges>,
    /// Changes below `$HOME`, which are never kept.
    pub home_changes: u64,
    /// Bytes on disk that only this lane holds.
    pub exclusive: u64,
    /// What changed in the origin since the base, as far as it meets the lane's changes.
    pub drift: Vec<DriftView>,
    /// Its runs, newest first.
    pub runs: Vec<RunView>,
    /// The most useful next commands, best first.
    pub next: Vec<Next>,
}

/// Shows a lane.
pub fn show(_engine: &Engine, _request: &ShowRequest) -> Result<ShowAnswer> {
    Err(EngineError::NotBuilt("show"))
}
