//! The error of this crate: which step on which path, and the kernel's answer. No advice.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a workspace could not be made, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{step} {}: {source}", path.display())]
    Kernel {
        /// What was being done, e.g. `make layer directory`.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// The call and the answer.
        source: kernel::Error,
    },
    /// A lane of this id exists already.
    #[error("lane directory {} exists", path.display())]
    Exists {
        /// Its directory.
        path: PathBuf,
    },
    /// There is no such lane directory, or it was never finished.
    #[error("no lane directory at {}", path.display())]
    Missing {
        /// Its directory.
        path: PathBuf,
    },
    /// A lane's layers are gone (a filesystem that is not mounted, or memory lost in a restart).
    #[error("layers of the lane are gone: {}", path.display())]
    LayersGone {
        /// Where they were.
        path: PathBuf,
    },
    /// The origin is not a directory.
    #[error("not a directory: {}", path.display())]
    NotADirectory {
        /// What was named.
        path: PathBuf,
    },
    /// A file of ours does not read as what it should be.
    #[error("{what} is damaged: {}", path.display())]
    Damaged {
        /// Which kind of file.
        what: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// `/proc/self/mountinfo` has a line that cannot be read.
    #[error("mountinfo line {line} is not understood")]
    MountInfo {
        /// Counted from 1.
        line: usize,
    },
    /// No git program is in `PATH`.
    #[error("git is not installed")]
    NoGit,
    /// The git program did not do what it was asked for.
    #[error("git did not {doing}: {said}")]
    Git {
        /// What it was asked for.
        doing: &'static str,
        /// What it said.
        said: String,
    },
    /// A repository's files are not what git would read.
    #[error("{why}: {}", path.display())]
    Repository {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The background walk was told to stop.
    #[error("stopped before the end")]
    Stopped,
    /// Something is left after a removal.
    #[error("{} entries are left below {}", count, path.display())]
    NotRemoved {
        /// Where.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}

impl Error {
    /// True where the thing asked for is not there.
    pub fn is_not_found(&self) -> bool {
        match self {
            Error::Kernel { source, .. } => source.is_not_found(),
            Error::Missing { .. } | Error::LayersGone { .. } => true,
            _ => false,
        }
    }
}

/// Attaches step and path to a kernel error.
pub(crate) trait Doing<T> {
    /// `step` was done on `path`.
    fn doing(self, step: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> Doing<T> for kernel::Result<T> {
    fn doing(self, step: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::Kernel { step, path: path.into(), source })
    }
}
