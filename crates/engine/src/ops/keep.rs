//! `keep`: plan what of a lane goes into the origin, and do it.

use std::path::PathBuf;

use tree::TreePath;

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::monitor::Monitor;
use crate::view::LaneView;

/// Which lane, and what of it.
#[derive(Debug, Clone, Default)]
pub struct KeepRequest {
    /// A directory of the project; paths are relative to it.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Only these paths and what is below them; empty for everything.
    pub paths: Vec<PathBuf>,
}

/// Why a change stays in the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutWhy {
    /// It runs by itself later and was not named.
    Guarded,
    /// The origin's own state there is newer than the base.
    Drifted,
    /// It meets something else in the origin.
    Conflict,
    /// Its kind cannot be kept (sockets, devices).
    CannotCarry,
    /// Its base or its content cannot be trusted after a restart of the machine.
    Suspect,
}

impl LeftOutWhy {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            LeftOutWhy::Guarded => "guarded",
            LeftOutWhy::Drifted => "drifted",
            LeftOutWhy::Conflict => "conflict",
            LeftOutWhy::CannotCarry => "cannot-carry",
            LeftOutWhy::Suspect => "suspect",
        }
    }
}

/// A change that stays in the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// Why.
    pub why: LeftOutWhy,
    /// More about it; may be empty.
    pub detail: String,
}

/// One step into the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// `add`, `modify`, `delete`, `mode`, `retype`, `rename`.
    pub what: &'static str,
    /// Where it stood before, for a rename.
    pub from: Option<TreePath>,
}

/// What a keep would do.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepView {
    /// The lane.
    pub lane: LaneView,
    /// The steps.
    pub steps: Vec<StepView>,
    /// What stays in the lane.
    pub left_out: Vec<LeftOut>,
    /// Changes below `.git`, which are never kept.
    pub git_internal: u64,
    /// Bytes that the origin's filesystem needs.
    pub bytes: u64,
}

/// A plan that can be carried out once.
#[derive(Debug)]
pub struct PreparedKeep {
    /// What it would do.
    pub view: KeepView,
}

/// Makes the plan; writes nothing.
pub fn prepare(_engine: &Engine, _request: &KeepRequest) -> Result<PreparedKeep> {
    Err(EngineError::NotBuilt("keep"))
}

impl PreparedKeep {
    /// Carries it out: all of its steps or none.
    pub fn execute(self, _engine: &Engine, _monitor: &mut dyn Monitor) -> Result<KeepView> {
        Err(EngineError::NotBuilt("keep"))
    }
}
