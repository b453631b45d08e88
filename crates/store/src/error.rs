//! The error of this crate: what was asked of which part of the store, and the kernel's answer. No prose, no advice.

use tree::TreePath;

use crate::id::{ObjectId, ObjectKind, SnapshotId};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call failed while something was done to a file of the store, or to a tree that is captured or restored.
    #[error("{step} {what}: {source}")]
    Kernel {
        /// What was being done, as a verb.
        step: &'static str,
        /// To what (escaped).
        what: String,
        /// The call and the kernel's answer.
        source: kernel::Error,
    },
    /// A file that was to be stored cannot be read.
    #[error("read: {0}")]
    Unreadable(#[source] kernel::Error),
    /// The directory holds no store, or one that this program does not know how to use.
    #[error("store format: {0}")]
    Format(#[from] FormatProblem),
    /// An object is not as its hash says, or is nowhere.
    #[error("{0}")]
    Damaged(Box<Damage>),
    /// Bytes that are whole, but not what they should be.
    #[error("{what} is malformed: {why}")]
    Malformed {
        /// What was read.
        what: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// No snapshot has this id, prefix or name.
    #[error("no snapshot {0}")]
    NoSuchSnapshot(String),
    /// The lane's history is not there any more.
    #[error("the history {0} was removed meanwhile")]
    Forgotten(String),
    /// Several snapshots do.
    #[error("{reference} means {} snapshots", .found.len())]
    Ambiguous {
        /// What was asked for.
        reference: String,
        /// All that it means.
        found: Vec<SnapshotId>,
    },
    /// A lane's name in the store may hold only `A-Z a-z 0-9 _ -`, and at most 100 of them.
    #[error("not a lane id: {0}")]
    NotALaneId(String),
    /// Writing on would leave less room to others than the writer was told to.
    #[error("{free} bytes are free, and {floor} are to stay free")]
    NoRoom {
        /// What is free.
        free: u64,
        /// What is to stay free.
        floor: u64,
    },
    /// Somebody else holds the store, longer than the caller wanted to wait.
    #[error("the store is in use")]
    Busy,
    /// Entries were not handed in in their order.
    #[error("entries out of order at {0:?}")]
    Unsorted(TreePath),
    /// Something larger than the format can hold.
    #[error("{what} of {size} bytes is above the limit of {limit}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The most that is allowed.
        limit: u64,
    },
}

/// Why a directory is no store that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatProblem {
    /// There is no `format` file.
    #[error("no store here")]
    Missing,
    /// The `format` file is not one.
    #[error("the file `format` is not of a store")]
    NotAStore,
    /// A version that this program does not read.
    #[error("version {0}")]
    Version(String),
    /// Features without which nothing can be read.
    #[error("unknown incompatible features: {0}")]
    Incompat(String),
    /// Features without which nothing may be written.
    #[error("unknown features, reading only: {0}")]
    ReadOnly(String),
}

/// An object that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which one.
    pub id: ObjectId,
    /// What it is, as whoever needs it says.
    pub kind: ObjectKind,
    /// Pack (or file below `large`) and offset, where it should be; `None` where no pack claims to have it.
    pub place: Option<(String, u64)>,
    /// What is wrong.
    pub why: &'static str,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.id)?;
        if let Some((pack, offset)) = &self.place {
            write!(f, " in {pack} at {offset}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl Error {
    /// True where the cause is a full disk or a quota.
    pub fn is_full(&self) -> bool {
        use kernel::Errno;
        matches!(self, Error::Kernel { source, .. } if matches!(source.errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
    }

    /// True where the cause is that something stored is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged(_) | Error::Malformed { .. })
    }

    /// The damage that this error tells of.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Error::Damaged(damage) => Some(damage),
            _ => None,
        }
    }

    pub(crate) fn malformed(what: impl Into<String>, why: &'static str) -> Error {
        Error::Malformed { what: what.into(), why }
    }

    pub(crate) fn damaged(
        id: ObjectId,
        kind: ObjectKind,
        place: Option<(String, u64)>,
        why: &'static str,
    ) -> Error {
        Error::Damaged(Box::new(Damage { id, kind, place, why }))
    }
}

/// Attaches a step and its object to a kernel error.
pub(crate) trait Stepping<T> {
    fn stepping(self, step: &'static str, what: impl AsRef<[u8]>) -> Result<T>;
}

impl<T> Stepping<T> for kernel::Result<T> {
    fn stepping(self, step: &'static str, what: impl AsRef<[u8]>) -> Result<T> {
        self.map_err(|source| Error::Kernel { step, what: what.as_ref().escape_ascii().to_string(), source })
    }
}
