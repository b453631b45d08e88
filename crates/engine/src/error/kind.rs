//! Whose move it is after an error. Pure.

use super::{EngineError, ErrorKind};

impl EngineError {
    /// Whose move it is.
    pub fn kind(&self) -> ErrorKind {
        use EngineError as E;
        match self {
            E::NoSuchLane { .. }
            | E::NoLane { .. }
            | E::NoSuchPreset { .. }
            | E::PortTaken { .. }
            | E::NoSuchKind { .. }
            | E::NoSuchDoor { .. }
            | E::DoorLeadsNowhere { .. }
            | E::NestAsRoot
            | E::Level { .. }
            | E::LimitAbove { .. }
            | E::NoLimit { .. }
            | E::LaneIsMade { .. }
            | E::LaneIsLive { .. }
            | E::NoSuchPath { .. }
            | E::WhichLane { .. }
            | E::NameTaken { .. }
            | E::NotInTrash { .. }
            | E::TrashEmpty { .. }
            | E::BadName { .. }
            | E::BadOrigin { .. }
            | E::PathOutside { .. }
            | E::NothingThere { .. }
            | E::GitInternal { .. }
            | E::NoSuchHunk { .. }
            | E::HunkTwice { .. }
            | E::LaneTwice { .. }
            | E::OtherProject { .. }
            | E::BadSelection { .. }
            | E::NotSelectable { .. }
            | E::NoSuchSnapshot { .. }
            | E::WhichSnapshot { .. }
            | E::BadReference { .. }
            | E::NothingBack { .. }
            | E::NotInside
            | E::NothingForth { .. }
            | E::NoCheck { .. }
            | E::PolicyFile { .. }
            | E::NotChecked { .. }
            | E::PolicyRefuses(_)
            | E::NoSecret { .. }
            | E::NotGranted { .. }
            | E::Leaks { .. }
            | E::Unsearched { .. }
            | E::RemovesMuch { .. }
            | E::NoKeep { .. }
            | E::NoSuchKeep { .. }
            | E::KeepUndone { .. }
            | E::TargetExists { .. }
            | E::NoRepository { .. }
            | E::Detached { .. }
            | E::BadBranch { .. }
            | E::NoSuchBranch { .. }
            | E::BranchTaken { .. }
            | E::CheckedOut { .. }
            | E::GuardedCommits { .. }
            | E::HookRefused { .. }
            | E::TargetInside { .. } => ErrorKind::User,
            E::Live { .. }
            | E::NotStill { .. }
            | E::Busy { .. }
            | E::MovedOn { .. }
            | E::EditedSinceKeep { .. }
            | E::HalfDone { .. }
            | E::IndexLocked { .. }
            | E::BranchMoved { .. }
            | E::RestsOnMoved { .. } => ErrorKind::Conflict,
            E::OriginGone { .. }
            | E::HiddenMoved { .. }
            | E::Refused { .. }
            | E::StateDir { .. }
            | E::NoStateDir
            | E::Kernel { .. }
            | E::Ledger(_)
            | E::Workspace(_)
            | E::Review(_)
            | E::Store(_)
            | E::NoRoom { .. }
            | E::OverBudget { .. }
            | E::NotTaken { .. }
            | E::NoVerdict { .. }
            | E::Sandbox(_) => ErrorKind::Environment,
            E::Damaged { .. } | E::NotBuilt(_) => ErrorKind::Internal,
        }
    }
}
