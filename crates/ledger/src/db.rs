//! Opening the file, and [`Act`]: one transaction in which everything is recorded or nothing.
//!
//! Cost: opening an up-to-date ledger reads one PRAGMA and writes nothing. The write-ahead log is not
//! folded back when the last process closes (that would sync the disk on every command); it is folded
//! back and emptied when it has grown past [`FOLD_BYTES`], or by [`Ledger::fold`].
//!
//! Durability: `synchronous = NORMAL` in WAL mode. A killed process loses nothing that was committed;
//! after a power loss the newest acts may be missing, but the file is whole.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{Error, Result};
use crate::migrate;

/// How long a writer waits for another process before it gives up.
const BUSY: Duration = Duration::from_secs(10);
/// Bytes of the write-ahead log at which a commit folds it back. The first opener after a quiet time
/// reads the whole log, so that this bounds the cost of opening too.
const FOLD_BYTES: u64 = 400 << 10;

/// An open ledger.
#[derive(Debug)]
pub struct Ledger {
    db: Connection,
    path: PathBuf,
}

impl Ledger {
    /// Opens the ledger at `path`, and makes it (mode 0600) where there is none. The directory must be there.
    pub fn open(path: &Path) -> Result<Ledger> {
        let wrong = |doing| move |error: rusqlite::Error| Error::from_sql(path, doing, &error);
        let mut db = connect(path)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(wrong("configure"))?;
        db.busy_timeout(BUSY).map_err(wrong("configure"))?;
        let found = migrate::version(&db).map_err(wrong("read schema number"))?;
        if !(0..=migrate::NEWEST).contains(&found) {
            return Err(Error::Newer { path: path.to_path_buf(), found, known: migrate::NEWEST });
        }
        if found < migrate::NEWEST {
            if migrate::is_foreign(&db).map_err(wrong("read tables"))? {
                let detail = "it has tables, but none that a ledger made".to_owned();
                return Err(Error::Damaged { path: path.to_path_buf(), detail });
            }
            write_ahead(&db).map_err(wrong("switch to write-ahead logging"))?;
            migrate::raise(&mut db).map_err(wrong("migrate"))?;
        }
        db.execute_batch("PRAGMA synchronous = NORMAL").map_err(wrong("configure"))?;
        // The library's own way folds back, but never empties the log that a process before has left: how much of it is
        // folded is known in memory alone.
        db.pragma_update(None, "wal_autocheckpoint", 0).map_err(wrong("configure"))?;
        let ledger = Ledger { db, path: path.to_path_buf() };
        ledger.take_slips()?;
        Ok(ledger)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does `body` in one transaction: what it records is there wholly, or not at all when it fails.
    /// The write lock is taken at the start (`BEGIN IMMEDIATE`), so that reads inside cannot go stale.
    pub fn act<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&Act<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let begun = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate);
        let act = Act { db: begun.map_err(|error| self.wrong("begin", &error))?, path: &self.path };
        let answer = body(&act)?;
        act.db.commit().map_err(|error| self.wrong("commit", &error))?;
        self.fold_when_long();
        Ok(answer)
    }

    /// Empties a log that has grown long, unless somebody reads it at this moment: then the next commit does.
    fn fold_when_long(&self) {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        if std::fs::metadata(&log).is_ok_and(|meta| meta.len() > FOLD_BYTES)
            && self.db.busy_timeout(Duration::ZERO).is_ok()
        {
            let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            let _ = self.db.busy_timeout(BUSY);
        }
    }

    /// Folds the write-ahead log back into the file and syncs it. Not needed for safety.
    pub fn fold(&self) -> Result<()> {
        self.db
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| self.wrong("fold the log", &error))
    }

    /// Reads every page and reports the first contradiction as [`Error::Damaged`].
    pub fn check(&self) -> Result<()> {
        let verdict: String = self
            .db
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
            .map_err(|error| self.wrong("check", &error))?;
        if verdict == "ok" {
            return Ok(());
        }
        Err(Error::Damaged { path: self.path.clone(), detail: verdict })
    }

    pub(crate) fn db(&self) -> &Connection {
        &self.db
    }

    pub(crate) fn wrong(&self, doing: &'static str, error: &rusqlite::Error) -> Error {
        Error::from_sql(&self.path, doing, error)
    }
}

/// One act under way. Its methods record; nothing is visible to others before the act is whole.
#[derive(Debug)]
pub struct Act<'l> {
    db: Transaction<'l>,
    path: &'l Path,
}

impl Act<'_> {
    pub(crate) fn db(&self) -> &Connection {
        &self.db
    }

    pub(crate) fn wrong(&self, doing: &'static str, error: &rusqlite::Error) -> Error {
        Error::from_sql(self.path, doing, error)
    }

    /// An update that must have met exactly one row.
    pub(crate) fn met_one(&self, rows: usize, what: &'static str, id: impl ToString) -> Result<()> {
        if rows == 1 {
            return Ok(());
        }
        Err(Error::Missing { path: self.path.to_path_buf(), what, id: id.to_string() })
    }
}

/// Opens the file without making it; where there is none, makes an empty one with mode 0600 first
/// (SQLite would make it readable by all).
fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let wrong = |error: rusqlite::Error| Error::from_sql(path, "open", &error);
    match Connection::open_with_flags(path, flags) {
        Err(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::CannotOpen => {
            let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
            made.map_err(|error| Error::Storage {
                path: path.to_path_buf(),
                doing: "create",
                detail: error.to_string(),
            })?;
            Connection::open_with_flags(path, flags).map_err(wrong)
        }
        other => other.map_err(wrong),
    }
}

/// Switches the file to write-ahead logging. SQLite does not wait here while another process does the
/// same, so the waiting is ours.
fn write_ahead(db: &Connection) -> rusqlite::Result<()> {
    let until = Instant::now() + BUSY;
    loop {
        match db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            Err(rusqlite::Error::SqliteFailure(failure, _))
                if failure.code == ErrorCode::DatabaseBusy && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}
