//! What the view asks for and what it is told: the seam between the pure state (`app`) and the engine (`worker`).

use engine::keeping::KeptView;
use engine::ops::compare::Met;
use engine::ops::diff::{FileDiff, FileView};
use engine::ops::discard::DiscardAnswer;
use engine::ops::export::ExportAnswer;
use engine::ops::keep::{Conflicts, KeepView};
use engine::ops::list::ListedLane;
use engine::ops::undo_keep::UndoKeepView;
use engine::selection::{Digest, Selection};
use engine::view::LaneView;
use tree::TreePath;

use super::ticks::Ticks;

/// Something that only the engine or the terminal can do. At most one at a time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Leave; nothing happens to any lane.
    Quit,
    /// Stop, as Ctrl-Z does.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Read the list of lanes.
    Rows,
    /// Read what a lane changed.
    Open(String),
    /// Compare the content of a file of the open lane.
    Content(usize),
    /// Compare a file of two lanes.
    Across(Box<Across>),
    /// Find every path that either of two lanes changed.
    Meet([String; 2]),
    /// Plan a keep of these ticks, in one go with those in further lanes.
    Plan(Box<Selection>, Vec<Selection>, Conflicts),
    /// Carry out the plan that was shown.
    Keep,
    /// Read which keeps can be taken back.
    Keeps,
    /// Plan taking back the keep with this id.
    PlanBack(String),
    /// Take back the keep with this id.
    TakeBack(String),
    /// Write a lane's state beside the original.
    Export(String),
    /// Find out what a lane holds that exists nowhere else.
    WouldLose(String),
    /// Put a lane into the trash.
    Discard(String),
}

/// Work that can wait until nobody presses a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Want {
    /// A lane's sums.
    Sums(String),
    /// Count the lines of a file of the open lane.
    Count(usize),
    /// Colours for lines that are shown.
    Colours,
}

/// What a lane changed.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    /// The lane.
    pub(crate) lane: LaneView,
    /// Its changes.
    pub(crate) files: Vec<FileView>,
    /// What can be ticked of them, by the same numbers.
    pub(crate) ticks: Ticks,
    /// Changes below `.git`.
    pub(crate) git_internal: u64,
    /// What could not be compared: root, path and reason in one line each.
    pub(crate) gaps: Vec<String>,
}

/// A path of two lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Across {
    /// The lanes.
    pub(crate) lanes: [String; 2],
    /// Number of the root in the first one.
    pub(crate) root: usize,
    /// Where.
    pub(crate) path: TreePath,
    /// Its number in the list that it stands in.
    pub(crate) number: usize,
    /// That is the list of what either lane changed, and not that of the open lane.
    pub(crate) met: bool,
}

/// What two lanes changed.
#[derive(Debug, Clone)]
pub(crate) struct Meet {
    /// Their names.
    pub(crate) lanes: [String; 2],
    /// Every path that either changed.
    pub(crate) files: Vec<Met>,
}

/// A file in two lanes.
#[derive(Debug, Clone)]
pub(crate) struct TwoSides {
    /// What was compared.
    pub(crate) across: Across,
    /// From the first lane's file to the second one's.
    pub(crate) diff: FileDiff,
    /// What either has there, in words.
    pub(crate) have: [String; 2],
}

/// Something that has happened.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// The lanes as the ledger has them.
    Rows(Vec<ListedLane>),
    /// A lane with its sums; `None` where it is gone.
    Sums(String, Option<Box<ListedLane>>),
    /// A lane cannot be read; why, in words.
    Unreadable(String, String),
    /// What a lane changed.
    Opened(Box<Changes>),
    /// The content of a file was compared; what it was right before.
    Content(usize, Box<FileDiff>, Digest),
    /// Lines added and removed in a file; `None` where there are no lines to count. What it was right before, where it
    /// could be read.
    Counted(usize, Option<(u64, u64)>, Option<Digest>),
    /// A file of two lanes was compared.
    Compared(Box<TwoSides>),
    /// Two lanes were compared.
    Met(Box<Meet>),
    /// A keep was planned; what was said meanwhile.
    Planned(Box<KeepView>, Vec<String>),
    /// A keep was made; what was said meanwhile.
    Kept(Box<KeepView>, Vec<String>),
    /// The keeps of the project, the newest first.
    Keeps(Vec<KeptView>),
    /// What taking a keep back would do.
    BackPlanned(Box<UndoKeepView>),
    /// A keep was taken back.
    TakenBack(Box<UndoKeepView>),
    /// A lane was written beside the original.
    Exported(Box<ExportAnswer>),
    /// What exists only in a lane, in words.
    WouldLose(String, Vec<String>),
    /// A lane was put into the trash.
    Discarded(Box<DiscardAnswer>),
    /// What was asked for was not done; why, in words.
    Failed(Vec<String>),
    /// A lane could not be opened; why, in words.
    NotOpened(Vec<String>),
    /// Nothing.
    Nothing,
}
