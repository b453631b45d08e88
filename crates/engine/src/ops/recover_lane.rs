//! `recover`: takes a lane out of the trash.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::view::LaneView;

/// Which lane to take out.
#[derive(Debug, Clone, Default)]
pub struct RecoverRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane's name or id; `None` where only one is in the trash.
    pub lane: Option<String>,
    /// A new name for it.
    pub rename: Option<String>,
}

/// Takes a lane out of the trash.
pub fn recover(_engine: &Engine, _request: &RecoverRequest) -> Result<LaneView> {
    Err(EngineError::NotBuilt("recover"))
}
