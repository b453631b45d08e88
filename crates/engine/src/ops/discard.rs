//! `discard`: drops lanes, into the trash or for good.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::view::LaneView;

/// Which lane to drop.
#[derive(Debug, Clone, Default)]
pub struct DiscardRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Delete at once instead of keeping it in the trash.
    pub now: bool,
    /// End its processes first where it is live.
    pub stop: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscardAnswer {
    /// The lane.
    pub lane: LaneView,
    /// What could not be deleted, each with the reason (`--now` only).
    pub left: Vec<(PathBuf, String)>,
}

/// Drops a lane.
pub fn discard(_engine: &Engine, _request: &DiscardRequest) -> Result<DiscardAnswer> {
    Err(EngineError::NotBuilt("discard"))
}
