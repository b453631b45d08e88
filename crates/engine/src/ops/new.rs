//! `new`: makes lanes without running anything.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::monitor::Monitor;
use crate::view::{LaneView, Strategy};

/// Which lane to make.
#[derive(Debug, Clone, Default)]
pub struct NewRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane's name; generated where there is none.
    pub name: Option<String>,
    /// Further roots, each with its own layer.
    pub also: Vec<PathBuf>,
    /// The strategy asked for.
    pub strategy: Option<Strategy>,
}

/// Makes a lane.
pub fn new(_engine: &Engine, _request: &NewRequest, _monitor: &mut dyn Monitor) -> Result<LaneView> {
    Err(EngineError::NotBuilt("new"))
}
