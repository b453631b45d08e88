//! What a keep would do, or did, as plain data for every face.
//!
//! Invariant: what was asked for is a step, or is left out with the reason.

use std::path::PathBuf;

use tree::TreePath;

use crate::merging::{ConflictView, MergedView};
use crate::policy::CheckView;
use crate::view::LaneView;

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
    /// A new directory of which everything inside stays in the lane.
    NothingInside,
    /// Its base or its content cannot be trusted after a restart of the machine.
    Suspect,
    /// Git's rules for ignored files cover it, and it was not named (for a commit).
    Ignored,
    /// It was changed after the last commit of the lane (for the lane's own commits).
    Uncommitted,
}

impl LeftOutWhy {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            LeftOutWhy::Guarded => "guarded",
            LeftOutWhy::Drifted => "drifted",
            LeftOutWhy::Conflict => "conflict",
            LeftOutWhy::CannotCarry => "cannot-carry",
            LeftOutWhy::NothingInside => "nothing-inside",
            LeftOutWhy::Suspect => "suspect",
            LeftOutWhy::Ignored => "ignored",
            LeftOutWhy::Uncommitted => "uncommitted",
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
    /// The lane in which it stays; `None` where one lane is kept.
    pub lane: Option<String>,
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
    /// Only a part of the change: some hunks, lines, the mode or the new place.
    pub part: bool,
    /// Why it runs by itself later, where it does: its path was named.
    pub guarded: Option<String>,
    /// The lanes that have a part in it; none where one lane is kept.
    pub lanes: Vec<String>,
}

/// What a keep would do.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepView {
    /// The lane; of several the first.
    pub lane: LaneView,
    /// The others that are kept with it, in their order.
    pub with: Vec<LaneView>,
    /// By which the keep can be undone; `None` until it is done.
    pub id: Option<String>,
    /// The steps.
    pub steps: Vec<StepView>,
    /// What stays in the lane.
    pub left_out: Vec<LeftOut>,
    /// Changes below `.git`, which are never kept.
    pub git_internal: u64,
    /// Bytes that the origin's filesystem needs.
    pub bytes: u64,
    /// Files that are kept without their set-id bits.
    pub set_id_dropped: Vec<(PathBuf, TreePath)>,
    /// What the lane, or what several come to together, has to pass first.
    pub checks: Vec<CheckView>,
    /// What does not go together with the original as it is now.
    pub conflicts: Vec<ConflictView>,
    /// What was put together of both sides.
    pub merged: Vec<MergedView>,
}

impl KeepView {
    /// True where all that was asked for is done, and nothing is left to a person.
    pub fn is_complete(&self) -> bool {
        self.left_out.is_empty() && !self.conflicts.iter().any(ConflictView::is_open)
    }
}
