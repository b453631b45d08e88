//! The errors of this crate: what could not be read, planned or put into the origin, by path.
//! Fragments only; advice is the work of the command line.

use std::path::PathBuf;

use tree::TreePath;

use crate::splice::Missing;

/// Result of a review function.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be done. Where it comes from [`crate::apply::execute`], the origin is as
/// it was before, except for [`Error::NotRolledBack`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tree could not be read.
    #[error("{side}: {path:?}: {source}")]
    Read {
        /// `base`, `lane` or `origin`.
        side: &'static str,
        /// The entry.
        path: TreePath,
        /// The call that failed.
        source: kernel::Error,
    },
    /// What is recorded of the base could not be read.
    #[error("base: {path:?}: {why}")]
    Base {
        /// The entry.
        path: TreePath,
        /// Why.
        why: String,
    },
    /// A step in the origin or in the staging directory failed.
    #[error("{step}: {path:?}: {source}")]
    Step {
        /// What was being done.
        step: &'static str,
        /// The entry.
        path: TreePath,
        /// The call that failed.
        source: kernel::Error,
    },
    /// The output of a patch could not be written.
    #[error("cannot write the patch: {0}")]
    Output(String),
    /// A path of the origin leads through a symbolic link or another thing that is no directory.
    #[error("{path:?}: a directory on the way is a symbolic link or no directory")]
    NotBeneath {
        /// The path that was to be reached.
        path: TreePath,
    },
    /// The origin is no longer what the plan was made from.
    #[error("changed in the original since the plan was made: {}", list(.paths))]
    OriginMoved {
        /// What is different.
        paths: Vec<TreePath>,
    },
    /// The lane is no longer what the plan was made from.
    #[error("changed in the lane since the plan was made: {path:?}")]
    LaneMoved {
        /// What is different.
        path: TreePath,
    },
    /// Not enough room beside the origin.
    #[error("{what} missing on the file system of {place:?}: {missing} ({needed} needed, {free} free)")]
    NoRoom {
        /// `bytes` or `inodes`.
        what: &'static str,
        /// The staging directory.
        place: PathBuf,
        /// Needed in all.
        needed: u64,
        /// Free for this user.
        free: u64,
        /// The difference.
        missing: u64,
    },
    /// Part of the origin is on another file system than the staging directory.
    #[error("{path:?} is on another file system than the staging directory")]
    OtherFilesystem {
        /// The directory in the origin.
        path: TreePath,
    },
    /// An earlier keep was interrupted: its journal must be recovered first.
    #[error("an interrupted keep is recorded in {place:?}")]
    JournalOpen {
        /// The journal directory.
        place: PathBuf,
    },
    /// Another process is keeping or recovering with the same journal directory.
    #[error("another keep is running (journal {place:?})")]
    Busy {
        /// The journal directory.
        place: PathBuf,
    },
    /// The journal cannot be read; it was set aside under `moved_to`.
    #[error("the journal is damaged: {reason} (set aside as {moved_to:?})")]
    JournalDamaged {
        /// What is wrong with it.
        reason: String,
        /// Where it is now.
        moved_to: PathBuf,
    },
    /// The journal speaks of another directory than the one that was given.
    #[error("the journal in {place:?} belongs to another directory")]
    OtherOrigin {
        /// The journal directory.
        place: PathBuf,
    },
    /// The keep failed and part of it could not be taken back; the journal stays open.
    #[error("{cause}; and it could not be taken back: {undo}")]
    NotRolledBack {
        /// What went wrong first.
        cause: Box<Error>,
        /// What went wrong then.
        undo: Box<Error>,
    },
    /// The keep failed and was taken back, except for entries that somebody else changed meanwhile.
    #[error("{cause}; taken back, except {} that changed meanwhile", .left.len())]
    LeftAlone {
        /// What went wrong.
        cause: Box<Error>,
        /// What was left as it is.
        left: Vec<crate::apply::LeftAlone>,
    },
    /// There is no record of such a keep.
    #[error("no keep {id}")]
    NoSuchKeep {
        /// Its id.
        id: String,
    },
    /// The keep was undone already.
    #[error("keep {id} was undone already")]
    AlreadyUndone {
        /// Its id.
        id: String,
    },
    /// The record of a keep cannot be used.
    #[error("the record of keep {id} cannot be used: {reason}")]
    RecordDamaged {
        /// Its id.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What a keep wrote was edited since, so it is not undone.
    #[error("edited since the keep: {}", list(&.paths.iter().map(|at| at.path.clone()).collect::<Vec<_>>()))]
    EditedSince {
        /// Where.
        paths: Vec<crate::apply::RootPath>,
    },
    /// No root was given.
    #[error("nothing to do")]
    NothingToDo,
    /// Nothing may be overwritten, and the target exists.
    #[error("{0:?} exists")]
    Exists(PathBuf),
    /// A choice names a path at which nothing changed.
    #[error("{path:?} is not among the changes")]
    NotAChange {
        /// The path.
        path: TreePath,
    },
    /// A choice names a hunk or a line that the diff does not have.
    #[error("{path:?}: {}", words(.missing))]
    NotInDiff {
        /// The file.
        path: TreePath,
        /// What is missing.
        missing: Missing,
    },
    /// Part of a change was asked for that has no parts: it is no text, or no file.
    #[error("{path:?} can only be taken whole")]
    WholeOnly {
        /// The path.
        path: TreePath,
    },
    /// Part of a renamed file was asked for without the rename, and another change stands at its old place.
    #[error("{path:?} can only be taken with its rename: {at:?} is another entry now")]
    PlaceTaken {
        /// The renamed file.
        path: TreePath,
        /// Its old place.
        at: TreePath,
    },
    /// The guard's own data file is wrong (a bug).
    #[error("guard data: {0}")]
    GuardData(String),
}

fn words(missing: &Missing) -> String {
    match missing {
        Missing::Hunk(id) => format!("no hunk {}", id.escape_default()),
        Missing::Twice(id) => format!("hunk {} is there twice", id.escape_default()),
        Missing::Line(id, number) => format!("hunk {} has no line {number}", id.escape_default()),
    }
}

fn list(paths: &[TreePath]) -> String {
    let mut text: Vec<String> = paths.iter().take(5).map(|path| format!("{path:?}")).collect();
    if paths.len() > 5 {
        text.push(format!("and {} more", paths.len() - 5));
    }
    text.join(", ")
}

/// Attaches a side and a path to a kernel error.
pub(crate) trait Reading<T> {
    fn reading(self, side: &'static str, path: &TreePath) -> Result<T>;
}

impl<T> Reading<T> for kernel::Result<T> {
    fn reading(self, side: &'static str, path: &TreePath) -> Result<T> {
        self.map_err(|source| Error::Read { side, path: path.clone(), source })
    }
}

/// Attaches a step and a path to a kernel error.
pub(crate) trait Stepping<T> {
    fn stepping(self, step: &'static str, path: &TreePath) -> Result<T>;
}

impl<T> Stepping<T> for kernel::Result<T> {
    fn stepping(self, step: &'static str, path: &TreePath) -> Result<T> {
        self.map_err(|source| Error::Step { step, path: path.clone(), source })
    }
}
