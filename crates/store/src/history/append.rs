//! Appending to a log: the step that makes a snapshot true.
//!
//! Invariant: whole frames are never written over; `Ok` means synced; and after an error nothing is there that a reader
//! could take for an answer that was given.

use std::os::fd::OwnedFd;
use std::time::Duration;

use kernel::{bytes, lock, meta, open, publish};

use super::frame::{Event, frame, frame_at};
use super::{History, LaneKey};
use crate::error::{Error, Result, Stepping as _};
use crate::steps::Step;
use crate::store::Store;

/// How long an append waits for another one to the same log.
const WAIT: Duration = Duration::from_secs(60);

/// Appends one event, made from the history as it is, and syncs it. A lane without a history gets one only where it
/// `may_begin`.
pub(crate) fn append<T>(
    store: &Store,
    lane: &LaneKey,
    may_begin: bool,
    make: impl FnOnce(&History) -> (T, Event),
) -> Result<(T, Event)> {
    append_after(store, lane, may_begin, &History::default(), make)
}

/// As [`append`], by somebody who has read the history: it is read again only where something was added since.
pub(crate) fn append_after<T>(
    store: &Store,
    lane: &LaneKey,
    may_begin: bool,
    known: &History,
    make: impl FnOnce(&History) -> (T, Event),
) -> Result<(T, Event)> {
    let name = lane.file_name();
    let fd = if may_begin {
        open::log_in(&store.history, name.as_bytes(), 0o600).stepping("open", &name)?
    } else {
        match open::log_there(&store.history, name.as_bytes()) {
            Err(error) if error.is_not_found() => return Err(Error::Forgotten(name)),
            other => other.stepping("open", &name)?,
        }
    };
    match lock::hold_file(&fd, WAIT) {
        Err(error) if error.errno == kernel::Errno::TIMEDOUT => return Err(Error::Busy),
        answer => answer.stepping("lock", &name)?,
    }
    let now = meta::stat_fd(&fd).stepping("stat", &name)?;
    let anew;
    // What was appended is never written again: a log that has not grown is the one that was read.
    let (history, len) = if known.log == Some(now.identity()) && known.end == now.size {
        (known, now.size)
    } else {
        let log = bytes::read_all(&fd).stepping("read", &name)?;
        anew = History::parse(&log);
        (&anew, log.len() as u64)
    };
    let (answer, event) = make(history);
    let frame = frame(&event)?;
    // Nobody is told of what could not be read again.
    if frame_at(&frame, 0).is_none_or(|((read, _), _)| read != event) {
        return Err(Error::malformed("history record", "it would not be read as it was written"));
    }
    let written = write(store, &fd, &frame, history.end, len, &name);
    if written.is_err() {
        // Whether it reached the disk is not known: nobody was told of it, so it goes. If even this fails, the
        // next one to append finds it whole, and it stays as a snapshot that nobody asked for by id.
        let _ = bytes::set_len(&fd, history.end);
    }
    written.map(|()| (answer, event))
}

fn write(store: &Store, fd: &OwnedFd, frame: &[u8], end: u64, len: u64, name: &str) -> Result<()> {
    if len > end {
        bytes::set_len(fd, end).stepping("cut off", name)?;
    }
    store.steps.at(Step::HistoryAppend).stepping("append to", name)?;
    bytes::write_all_at(fd, frame, end).stepping("append to", name)?;
    store.steps.at(Step::HistorySync).stepping("sync", name)?;
    publish::sync_data(fd).stepping("sync", name)?;
    if end == 0 {
        publish::sync_dir(&store.history).stepping("sync", b"history")?;
    }
    let there = meta::stat_at_if_there(&store.history, name.as_bytes()).stepping("stat", name)?;
    if there.map(|stat| stat.identity()) != Some(meta::stat_fd(fd).stepping("stat", name)?.identity()) {
        return Err(Error::Forgotten(name.to_owned()));
    }
    store.steps.at(Step::HistoryDone).stepping("append to", name)
}
