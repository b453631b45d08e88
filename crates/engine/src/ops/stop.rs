//! `stop`: ends every process of a lane.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::view::LaneView;

/// Which lane to stop.
#[derive(Debug, Clone, Default)]
pub struct StopRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one is live.
    pub lane: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct StopAnswer {
    /// The lane, as it is now.
    pub lane: LaneView,
    /// False where nothing ran.
    pub was_live: bool,
}

/// Ends the processes of a lane and waits until they are gone.
pub fn stop(_engine: &Engine, _request: &StopRequest) -> Result<StopAnswer> {
    Err(EngineError::NotBuilt("stop"))
}
