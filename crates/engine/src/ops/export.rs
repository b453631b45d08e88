//! `export`: writes the result of a lane beside its origin.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::monitor::Monitor;
use crate::view::LaneView;

/// What to write where.
#[derive(Debug, Clone, Default)]
pub struct ExportRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// The target; `../<project>-<lane>` where not given.
    pub target: Option<PathBuf>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportAnswer {
    /// The lane.
    pub lane: LaneView,
    /// The new directory.
    pub target: PathBuf,
    /// Files written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out, each with the reason.
    pub left_out: Vec<(tree::TreePath, String)>,
}

/// Writes base and changes of a lane into a new directory.
pub fn export(_engine: &Engine, _request: &ExportRequest, _monitor: &mut dyn Monitor) -> Result<ExportAnswer> {
    Err(EngineError::NotBuilt("export"))
}
