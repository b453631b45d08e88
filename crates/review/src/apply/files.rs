//! The files in a journal's directory: the lock, the journal, the records of keeps that can be undone; and the names of
//! staging directories.
//!
//! Invariant: a journal that cannot be read is set aside whole and never guessed at.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use kernel::error::Asked as _;
use kernel::{Errno, lock, meta, open, publish};
use tree::TreePath;

use super::journal::{self, Journal, State, Task};
use crate::error::{Error, Result, Stepping as _};

pub(crate) fn take_lock(dir: &OwnedFd, place: &Path) -> Result<lock::Lock> {
    match lock::exclusive_blocking(dir, journal::LOCK, Duration::from_secs(2)) {
        Err(error) if error.errno == Errno::TIMEDOUT => Err(Error::Busy { place: place.to_owned() }),
        answer => answer.stepping("lock the journal", &TreePath::root()),
    }
}

/// The journal; `None` where nothing is under way. A damaged one is set aside.
pub(crate) fn read_journal(dir: &OwnedFd, place: &Path) -> Result<Option<Journal>> {
    match read(dir, journal::NAME)? {
        None => Ok(None),
        Some(Ok(journal)) => Ok(Some(journal)),
        Some(Err(reason)) => {
            let aside = (0..)
                .map(|count: u32| format!("keep.journal.damaged-{count}"))
                .find(|name| publish::rename_noreplace(dir, journal::NAME, dir, name.as_bytes()).is_ok());
            let moved_to = place.join(aside.unwrap_or_default());
            Err(Error::JournalDamaged { reason: reason.to_owned(), moved_to })
        }
    }
}

/// The record of a keep that can be undone.
pub(crate) fn read_record(dir: &OwnedFd, id: &str) -> Result<Journal> {
    let unknown = || Error::NoSuchKeep { id: id.to_owned() };
    let damaged = |reason: &str| Error::RecordDamaged { id: id.to_owned(), reason: reason.to_owned() };
    if !journal::is_id(id.as_bytes()) {
        return Err(unknown());
    }
    let name = [journal::RECORD, id.as_bytes()].concat();
    let record = read(dir, &name)?.ok_or_else(unknown)?.map_err(damaged)?;
    match (record.state, record.task) {
        _ if record.id != id.as_bytes() => Err(damaged("it speaks of another keep")),
        (State::Undone, _) => Err(Error::AlreadyUndone { id: id.to_owned() }),
        (State::Committed, Task::Keep) => Ok(record),
        _ => Err(damaged("it is no record of a keep")),
    }
}

/// Reads a journal or record; `None` where there is none, the reason where it is damaged.
pub(crate) fn read(dir: &OwnedFd, name: &[u8]) -> Result<Option<std::result::Result<Journal, &'static str>>> {
    use std::io::Read as _;
    let top = TreePath::root();
    let file = match open::file_beneath(dir, name) {
        Err(error) if error.is_not_found() => return Ok(None),
        answer => answer.stepping("open the journal", &top)?,
    };
    let mut bytes = Vec::new();
    std::fs::File::from(file)
        .read_to_end(&mut bytes)
        .asked("read", name)
        .stepping("read the journal", &top)?;
    Ok(Some(Journal::decode(&bytes)))
}

/// The directory that holds the staging directory.
pub(crate) fn stage_parent(origin: BorrowedFd<'_>, staging: Option<&Path>) -> Result<OwnedFd> {
    let opened = match staging {
        Some(path) => open::root_dir(path),
        None => open::dir_beneath(origin, b""),
    };
    opened.stepping("open the place for the staging directory", &TreePath::root())
}

/// A name for a staging directory that nobody has.
pub(crate) fn free_name(parent: impl AsFd, front: &[u8]) -> Result<Vec<u8>> {
    let (parent, pid) = (parent.as_fd(), std::process::id());
    for count in 0..1000u32 {
        let name = [front, format!("-{pid:x}-{count}").as_bytes()].concat();
        if meta::stat_at_if_there(parent, &name).stepping("stat", &TreePath::root())?.is_none() {
            return Ok(name);
        }
    }
    let source = kernel::Error::new("mkdirat", front, Errno::EXIST);
    Err(Error::Step { step: "make the staging directory", path: TreePath::root(), source })
}
