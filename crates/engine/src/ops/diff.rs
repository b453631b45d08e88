//! `diff`: what a lane changed against its base, for every root, narrowed to paths where asked.

use std::io::Write;
use std::path::PathBuf;

pub use review::diff::{FileDiff, Hunk, Line, LineKind};
use tree::{Change, TreePath};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::view::{DriftKind, DriftView, LaneView};

/// Which lane, and what of it.
#[derive(Debug, Clone, Default)]
pub struct DiffRequest {
    /// A directory of the project; paths are relative to it.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Only these paths and what is below them; empty for everything.
    pub paths: Vec<PathBuf>,
    /// Look for drift in the whole origin, not only where the lane changed something.
    pub all_drift: bool,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Number of the root, the origin being 0.
    pub root_index: usize,
    /// The change.
    pub change: Change,
    /// Why a blanket `keep` leaves it out: it runs by itself later.
    pub guarded: Option<String>,
    /// What happened to it in the origin since the base.
    pub drifted: Option<DriftKind>,
}

/// What a patch cannot say, each with the reason.
pub type CannotCarry = Vec<(TreePath, String)>;

/// The delta of a lane.
#[derive(Debug)]
pub struct DiffAnswer {
    /// The lane.
    pub lane: LaneView,
    /// The changes, sorted by root and path, without those below `.git`.
    pub files: Vec<FileView>,
    /// Changes below `.git`.
    pub git_internal: u64,
    /// What could not be compared: root, path, reason.
    pub gaps: Vec<(PathBuf, TreePath, String)>,
    /// Drift of the origin.
    pub drift: Vec<DriftView>,
}

impl DiffAnswer {
    /// The line diff of one file; without hunks where it has no content or is binary.
    pub fn content(&self, _file: &FileView) -> Result<FileDiff> {
        Err(EngineError::NotBuilt("diff"))
    }

    /// Writes a patch that git can apply; says what a patch cannot carry.
    pub fn patch(&self, _out: &mut dyn Write) -> Result<CannotCarry> {
        Err(EngineError::NotBuilt("diff"))
    }
}

/// Compares a lane with its base.
pub fn diff(_engine: &Engine, _request: &DiffRequest) -> Result<DiffAnswer> {
    Err(EngineError::NotBuilt("diff"))
}
