//! A lane's history: an append-only log of snapshots, moves of the position, and removals by a collection.
//!
//! Invariant: what was appended and synced is never written again. A frame that a kill or a full disk left unfinished at
//! the end counts as not there; damage in the middle costs the frames that it touches and no other.

mod append;
mod frame;

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd as _;

use kernel::publish::{self, TEMP_PREFIX};
use kernel::{bytes, dir, meta, open};

pub(crate) use append::{append, append_after};
pub use frame::Event;
use frame::{MAGIC, frame_at, is_unfinished};

use crate::error::{Error, Result, Stepping as _};
use crate::id::{ManifestId, SnapshotId};
use crate::record::{Record, SnapshotKind};
use crate::store::Store;

const SUFFIX: &str = ".log";
/// Shortest part of an id that stands for it.
const PREFIX: usize = 4;

/// A lane's name in the store: `A-Z a-z 0-9 _ -`, at most 100 of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey(String);

impl LaneKey {
    /// Checks a name.
    pub fn new(text: &str) -> Result<LaneKey> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.is_empty() || text.len() > 100 || !text.chars().all(fits) {
            return Err(Error::NotALaneId(text.escape_debug().to_string()));
        }
        Ok(LaneKey(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}{SUFFIX}", self.0)
    }
}

/// An event with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Where its frame begins.
    pub offset: u64,
    /// What it says.
    pub event: Event,
}

/// Bytes of a log that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// True for what an interrupted append leaves at the end: nothing that anybody was told of.
    pub unfinished: bool,
}

/// A lane's history, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// All events, the oldest first.
    pub events: Vec<Logged>,
    /// What is no event.
    pub strays: Vec<Stray>,
    ids: Vec<(SnapshotId, usize)>,
    numbers: HashMap<SnapshotId, usize>,
    removed: HashSet<SnapshotId>,
    position: Option<SnapshotId>,
    layers: HashMap<Vec<u8>, ManifestId>,
    /// Where the next frame goes.
    end: u64,
    /// Device and inode of the log that it was read from.
    log: Option<(u64, u64)>,
}

impl History {
    /// Reads the bytes of a log. Any bytes are a history.
    pub(crate) fn parse(log: &[u8]) -> History {
        let mut history = History::default();
        let mut at = 0;
        while at < log.len() {
            if let Some((event, len)) = frame_at(log, at) {
                history.take(at as u64, event);
                at += len;
                history.end = at as u64;
                continue;
            }
            // The next frame that is whole; what lies before it is lost.
            let next = (at + 1..log.len())
                .find(|next| log[*next..].starts_with(MAGIC) && frame_at(log, *next).is_some());
            let end = next.unwrap_or(log.len());
            let unfinished = next.is_none() && is_unfinished(&log[at..]);
            history.strays.push(Stray { offset: at as u64, len: (end - at) as u64, unfinished });
            if !unfinished {
                history.end = end as u64;
            }
            at = end;
        }
        history
    }

    fn take(&mut self, offset: u64, event: (Event, SnapshotId)) {
        let (event, id) = event;
        match &event {
            Event::Snapshot(_) => {
                self.ids.push((id, self.events.len()));
                self.numbers.insert(id, self.events.len());
                self.position = Some(id);
            }
            Event::Moved { to, .. } => self.position = Some(*to),
            Event::Removed { ids, .. } => self.removed.extend(ids),
            Event::Sealed { layer, manifest, .. } => {
                self.layers.insert(layer.clone(), *manifest);
            }
        }
        self.events.push(Logged { offset, event });
    }

    /// The snapshot that the lane stands at.
    pub fn position(&self) -> Option<SnapshotId> {
        self.position
    }

    /// The content of sealed layers that reached the store after they were named.
    pub fn layers(&self) -> &HashMap<Vec<u8>, ManifestId> {
        &self.layers
    }

    /// All snapshots that were not thinned out, the oldest first.
    pub fn snapshots(&self) -> impl DoubleEndedIterator<Item = (SnapshotId, &Record)> {
        self.ids.iter().filter(|(id, _)| !self.removed.contains(id)).filter_map(|(id, number)| {
            match &self.events[*number].event {
                Event::Snapshot(record) => Some((*id, &**record)),
                _ => None,
            }
        })
    }

    /// The snapshot of this id.
    pub fn get(&self, id: SnapshotId) -> Option<&Record> {
        self.any(id).filter(|_| !self.removed.contains(&id))
    }

    /// The one before a snapshot, or before those that were thinned out between the two. It is `None` only where there is none: a
    /// snapshot of another lane, from which this one was forked, is named.
    pub fn before(&self, id: SnapshotId) -> Option<SnapshotId> {
        let mut parent = self.any(id)?.parent;
        while let Some(gone) = parent.filter(|parent| self.removed.contains(parent)) {
            parent = self.any(gone).and_then(|record| record.parent);
        }
        parent
    }

    /// The snapshot of this id, thinned out or not.
    fn any(&self, id: SnapshotId) -> Option<&Record> {
        match &self.events[*self.numbers.get(&id)?].event {
            Event::Snapshot(record) => Some(record),
            _ => None,
        }
    }

    /// Sequence of the newest snapshot, thinned out or not; 0 where there is none.
    pub fn last_sequence(&self) -> u64 {
        let last = self.ids.iter().rev().find_map(|(_, number)| match &self.events[*number].event {
            Event::Snapshot(record) => Some(record.sequence),
            _ => None,
        });
        last.unwrap_or(0)
    }

    /// The snapshots that a reference means: the name of a named one, or the front of an id.
    pub fn candidates(&self, reference: &str) -> Vec<SnapshotId> {
        let digits = reference.len() >= PREFIX && reference.bytes().all(|b| b.is_ascii_hexdigit());
        let prefix = reference.to_ascii_lowercase();
        self.snapshots()
            .filter(|(id, record)| {
                let named = record.kind == SnapshotKind::Named && record.message == reference.as_bytes();
                named || digits && id.to_string().starts_with(&prefix)
            })
            .map(|(id, _)| id)
            .collect()
    }

    /// The one snapshot that a reference means.
    pub fn resolve(&self, reference: &str) -> Result<SnapshotId> {
        let found = self.candidates(reference);
        match found[..] {
            [id] => Ok(id),
            [] => Err(Error::NoSuchSnapshot(reference.escape_debug().to_string())),
            _ => Err(Error::Ambiguous { reference: reference.to_owned(), found }),
        }
    }
}

impl Store {
    /// The history of a lane; empty where it has none.
    pub fn history(&self, lane: &LaneKey) -> Result<History> {
        let name = lane.file_name();
        let fd = match open::file_beneath(&self.history, name.as_bytes()) {
            Ok(fd) => fd,
            Err(error) if error.is_not_found() => return Ok(History::default()),
            Err(error) => return Err(error).stepping("open", name),
        };
        let log = Some(meta::stat_fd(&fd).stepping("stat", &name)?.identity());
        Ok(History { log, ..History::parse(&bytes::read_all(&fd).stepping("read", name)?) })
    }

    /// All lanes that have a history, sorted.
    pub fn lanes(&self) -> Result<Vec<LaneKey>> {
        let names = dir::entries(&self.history).stepping("list", b"history")?;
        Ok(names
            .into_iter()
            .filter(|item| !item.name.starts_with(TEMP_PREFIX))
            .filter_map(|item| {
                let text = String::from_utf8(item.name).ok()?;
                LaneKey::new(text.strip_suffix(SUFFIX)?).ok()
            })
            .collect())
    }

    /// Says that a lane now stands at a snapshot, of its own history or another's.
    pub fn record_move(&self, lane: &LaneKey, to: SnapshotId, time_ms: i64, why: &[u8]) -> Result<()> {
        self.require_writable()?;
        let _held = self.hold()?;
        append(self, lane, false, |_| ((), Event::Moved { to, time_ms, why: why.to_vec() })).map(drop)
    }

    /// Forgets a lane's history and stamps for good. What it stored goes with the next collection.
    pub fn forget_lane(&self, lane: &LaneKey) -> Result<()> {
        self.require_writable()?;
        let name = lane.file_name();
        crate::index::forget(self.history.as_fd(), name.as_bytes()).stepping("remove", &name)?;
        publish::sync_dir(&self.history).stepping("sync", b"history")?;
        crate::capture::stamps::forget(self, lane)
    }
}

#[cfg(test)]
mod tests {
    use super::frame::frame;
    use super::*;

    fn log() -> (Vec<u8>, Vec<usize>) {
        let to = SnapshotId([7; 32]);
        let events = [
            Event::Moved { to, time_ms: 5, why: b"undo".to_vec() },
            Event::Removed { ids: vec![to, SnapshotId([8; 32])], time_ms: 6 },
            Event::Moved { to: SnapshotId([9; 32]), time_ms: 7, why: b"x".to_vec() },
            Event::Sealed { layer: b"l1".to_vec(), manifest: ManifestId([5; 32]), time_ms: 77 },
        ];
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for event in &events {
            bytes.extend_from_slice(&frame(event).expect("small"));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_log_that_is_cut_anywhere_has_all_whole_frames_and_a_tail_that_does_not_count() {
        let (bytes, ends) = log();
        for len in 0..=bytes.len() {
            let history = History::parse(&bytes[..len]);
            let whole = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(history.events.len(), whole, "{len}");
            assert_eq!(history.end, if whole == 0 { 0 } else { ends[whole - 1] as u64 });
            assert!(history.strays.iter().all(|stray| stray.unfinished));
            let mut zeros = bytes[..len].to_vec();
            zeros.resize(bytes.len() + 40, 0);
            assert_eq!(History::parse(&zeros).events.len(), whole);
        }
        assert_eq!(History::parse(&bytes).position(), Some(SnapshotId([9; 32])));
    }

    #[test]
    fn a_changed_byte_costs_one_frame_and_the_others_are_read() {
        let (bytes, ends) = log();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            let history = History::parse(&damaged);
            assert_eq!(history.events.len(), ends.len() - 1, "{at}");
            // What is in the middle is kept, and so is a last frame that only looks damaged.
            assert_eq!(history.strays.len(), 1);
            if at < ends[1] {
                assert!(!history.strays[0].unfinished);
                assert_eq!(history.end, bytes.len() as u64);
            }
        }
    }

    #[test]
    fn lanes_have_plain_names() {
        assert!(LaneKey::new("01H-x_Y").is_ok());
        for bad in ["", "a/b", "..", "a.b", "ä", &"x".repeat(101)] {
            assert!(LaneKey::new(bad).is_err(), "{bad}");
        }
    }
}
