//! `ls`: lanes and their present state.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::view::{Counts, LaneView};

/// Which lanes to list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// Lanes of every project.
    pub all: bool,
    /// Lanes in the trash instead.
    pub discarded: bool,
}

/// One lane with its sums.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedLane {
    /// The lane.
    pub lane: LaneView,
    /// Its changes over all roots; `None` where they could not be read, with the reason in `problem`.
    pub counts: Option<Counts>,
    /// Bytes on disk that only this lane holds.
    pub exclusive: Option<u64>,
    /// Why something above is missing.
    pub problem: Option<String>,
}

/// Lists lanes, newest first.
pub fn list(_engine: &Engine, _request: &ListRequest) -> Result<Vec<ListedLane>> {
    Err(EngineError::NotBuilt("ls"))
}

/// The names of a project's lanes that are not discarded.
pub fn names(_engine: &Engine, _dir: &std::path::Path) -> Result<Vec<String>> {
    Err(EngineError::NotBuilt("ls"))
}

/// True where a lane of the project has that name or id.
pub fn exists(_engine: &Engine, _dir: &std::path::Path, _name: &str) -> Result<bool> {
    Err(EngineError::NotBuilt("ls"))
}
