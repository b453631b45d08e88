//! The ledger's errors, each with the file it speaks of. No prose and no advice.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Result of a ledger call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the ledger could not answer or record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a database, or its pages or rows contradict themselves.
    #[error("ledger {} is damaged: {detail}", path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The file was written by a newer version than this one knows.
    #[error("ledger {} has schema {found}, newest known is {known}", path.display())]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Its schema number.
        found: i64,
        /// The highest number that this program knows.
        known: i64,
    },
    /// Another process held the write lock for the whole waiting time.
    #[error("ledger {} is locked by another process ({doing})", path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
        /// What was to be done.
        doing: &'static str,
    },
    /// An undiscarded lane of this origin has the name already.
    #[error("a lane named {name:?} already stands on {}", origin.escape_ascii())]
    NameTaken {
        /// The name.
        name: String,
        /// The origin, as bytes.
        origin: Vec<u8>,
    },
    /// The row that was to be changed is not there.
    #[error("ledger {} has no {what} {id}", path.display())]
    Missing {
        /// The database file.
        path: PathBuf,
        /// `lane` or `run`.
        what: &'static str,
        /// The id asked for.
        id: String,
    },
    /// There is no room for what was to be written.
    #[error("ledger {} ({doing}): the disk is full", path.display())]
    Full {
        /// The database file.
        path: PathBuf,
        /// What was to be done.
        doing: &'static str,
    },
    /// The file could not be opened, read or written (permission, read-only filesystem…).
    #[error("ledger {} ({doing}): {detail}", path.display())]
    Storage {
        /// The database file.
        path: PathBuf,
        /// What was to be done.
        doing: &'static str,
        /// SQLite's or the kernel's words.
        detail: String,
    },
}

impl Error {
    /// Sorts an SQLite error by what the caller can do about it.
    pub(crate) fn from_sql(path: &Path, doing: &'static str, error: &rusqlite::Error) -> Error {
        let path = path.to_path_buf();
        match error {
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => {
                    Error::Damaged { path, detail: error.to_string() }
                }
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy { path, doing },
                ErrorCode::DiskFull => Error::Full { path, doing },
                // SQLITE_ERROR from SQL of our own means that a table or column is not as we made it.
                ErrorCode::Unknown if failure.extended_code == rusqlite::ffi::SQLITE_ERROR => {
                    Error::Damaged { path, detail: error.to_string() }
                }
                _ => Error::Storage { path, doing, detail: error.to_string() },
            },
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::SqlInputError { .. } => Error::Damaged { path, detail: error.to_string() },
            _ => Error::Storage { path, doing, detail: error.to_string() },
        }
    }
}

/// True where a UNIQUE constraint refused a row.
pub(crate) fn is_unique_violation(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE)
}
