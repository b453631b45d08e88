//! What became of an automatic snapshot that could not be taken: a note in the lane's directory, so that whoever looks at the
//! lane learns of it. The next one that is taken removes it.
//!
//! Invariant: the note is a courtesy. Losing it loses nothing, and nobody fails for it.

use workspace::LaneHome;

use crate::clock;
use crate::error::EngineError;

const NOTE: &[u8] = b"missed";
const TITLE: &str = "missed 1";

/// A snapshot that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// Why not.
    pub why: String,
}

/// Notes that one was not taken.
pub(crate) fn note(home: &LaneHome, error: &EngineError) {
    let why = error.with_causes().replace('\n', " ");
    let text = format!("{TITLE}\n{}\n{why}\n", clock::now_ms());
    let _ = kernel::publish::write_file(&home.dir().fd, NOTE, text.as_bytes(), 0o600);
}

/// One was taken.
pub(crate) fn clear(home: &LaneHome) {
    let _ = kernel::node::unlink_at(&home.dir().fd, NOTE);
}

/// The last one that was not taken, where none was since.
pub fn read(home: &LaneHome) -> Option<Missed> {
    let file = kernel::open::file_beneath(&home.dir().fd, NOTE).ok()?;
    let text = String::from_utf8(kernel::bytes::read_all(&file).ok()?).ok()?;
    let mut lines = text.lines();
    if lines.next()? != TITLE {
        return None;
    }
    Some(Missed { at: lines.next()?.parse().ok()?, why: lines.next()?.to_owned() })
}
