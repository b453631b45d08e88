//! The frames of a log: an event as bytes, and back.
//!
//! ```text
//! frame  48  "LKHR", kind (u8), zeros (3), length (u32), zero (u32), hash of the payload; then the payload
//! ```
//!
//! Invariant: a frame is whole or it is none; the frame of a snapshot carries the snapshot's id as its hash.

use crate::encode::{Decoded, Malformed, Put, Take, hash_at, u32_at};
use crate::error::{Error, Result};
use crate::id::{ManifestId, SnapshotId};
use crate::record::Record;

pub(super) const MAGIC: &[u8; 4] = b"LKHR";
const HEAD: usize = 48;
const CONTEXT: &str = "lanekeeper store v1 history";
/// Longest record.
const MAX: usize = 64 << 20;

/// One entry of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A snapshot was taken; the lane stands at it.
    Snapshot(Box<Record>),
    /// The lane was put to the state of a snapshot.
    Moved {
        /// Which.
        to: SnapshotId,
        /// Milliseconds since 1970 UTC.
        time_ms: i64,
        /// The verb that did it.
        why: Vec<u8>,
    },
    /// A collection thinned out these: they resolve no more.
    Removed {
        /// Which.
        ids: Vec<SnapshotId>,
        /// Milliseconds since 1970 UTC.
        time_ms: i64,
    },
    /// The content of a sealed layer, which snapshots named by its id alone, has reached the store.
    Sealed {
        /// The layer's name.
        layer: Vec<u8>,
        /// Its content.
        manifest: ManifestId,
        /// Milliseconds since 1970 UTC.
        time_ms: i64,
    },
}

impl Event {
    fn kind(&self) -> u8 {
        match self {
            Event::Snapshot(_) => 1,
            Event::Moved { .. } => 2,
            Event::Removed { .. } => 3,
            Event::Sealed { .. } => 4,
        }
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Event::Snapshot(record) => return record.encode(),
            Event::Moved { to, time_ms, why } => {
                out.raw(&to.0);
                out.signed(*time_ms);
                out.bytes(why);
            }
            Event::Removed { ids, time_ms } => {
                out.signed(*time_ms);
                out.number(ids.len() as u64);
                ids.iter().for_each(|id| out.raw(&id.0));
            }
            Event::Sealed { layer, manifest, time_ms } => {
                out.bytes(layer);
                out.raw(&manifest.0);
                out.signed(*time_ms);
            }
        }
        out
    }

    fn decode(kind: u8, payload: &[u8]) -> Decoded<Event> {
        let mut take = Take(payload);
        let event = match kind {
            1 => {
                let record =
                    Record::decode(payload).map_err(|_| Malformed("a snapshot record is malformed"))?;
                return Ok(Event::Snapshot(Box::new(record)));
            }
            2 => {
                let (to, time_ms) = (SnapshotId(take.hash()?), take.signed()?);
                Event::Moved { to, time_ms, why: take.bytes()?.to_vec() }
            }
            3 => {
                let time_ms = take.signed()?;
                let count = take.count()?;
                let ids = (0..count).map(|_| take.hash().map(SnapshotId)).collect::<Decoded<_>>()?;
                Event::Removed { ids, time_ms }
            }
            4 => {
                let layer = take.bytes()?.to_vec();
                Event::Sealed { layer, manifest: ManifestId(take.hash()?), time_ms: take.signed()? }
            }
            _ => return Err(Malformed("a record of an unknown kind")),
        };
        take.end()?;
        Ok(event)
    }
}

fn hash(kind: u8, payload: &[u8]) -> [u8; 32] {
    if kind == 1 {
        // A snapshot's frame carries its id.
        return SnapshotId::of(payload).0;
    }
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&[kind]).update(payload);
    *hasher.finalize().as_bytes()
}

/// An event as a frame.
pub(super) fn frame(event: &Event) -> Result<Vec<u8>> {
    let payload = event.payload();
    if payload.len() > MAX {
        let size = payload.len() as u64;
        return Err(Error::TooLarge { what: "history record", size, limit: MAX as u64 });
    }
    let mut out = vec![0; HEAD];
    out[..4].copy_from_slice(MAGIC);
    out[4] = event.kind();
    out[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    out[16..48].copy_from_slice(&hash(event.kind(), &payload));
    out.extend_from_slice(&payload);
    Ok(out)
}

/// The whole frame at `at`: its event with its hash, and its length.
pub(super) fn frame_at(log: &[u8], at: usize) -> Option<((Event, SnapshotId), usize)> {
    let head = log.get(at..at + HEAD)?;
    if head[..4] != *MAGIC || head[5..8] != [0; 3] || head[12..16] != [0; 4] {
        return None;
    }
    let len = u32_at(head, 8) as usize;
    let payload = log.get(at + HEAD..(at + HEAD).checked_add(len)?)?;
    let claimed = hash_at(head, 16);
    if hash(head[4], payload) != claimed {
        return None;
    }
    let event = Event::decode(head[4], payload).ok()?;
    Some(((event, SnapshotId(claimed)), HEAD + len))
}

/// True where these last bytes of a log are an append that did not end: cut off, or not filled in.
pub(super) fn is_unfinished(rest: &[u8]) -> bool {
    if rest.iter().all(|byte| *byte == 0) {
        return true;
    }
    if !rest.starts_with(&MAGIC[..rest.len().min(4)]) {
        return false;
    }
    if rest.len() < HEAD {
        return true;
    }
    let whole = HEAD + u32_at(rest, 8) as usize;
    rest.len() < whole || rest[rest.len() - 8..].iter().all(|byte| *byte == 0)
}
