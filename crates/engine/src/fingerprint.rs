//! [`Fingerprint`]: what a lane holds, as one value that is cheap to take again: whether a verdict still speaks of the lane
//! is told by it.
//!
//! It is made of what differs from the base, by the stats of each entry: paths, types, modes, sizes and times, never
//! content. Git's own files and the home are no part of it: neither is ever kept.
//!
//! Invariant: two states of a lane that differ in anything that could be kept have two fingerprints. The reverse does not
//! hold: what was written anew with the same content counts as another state.

use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use store::{ObjectId, ObjectKind};
use tree::{ChangeKind, Entry, Time, TreePath};

use crate::clock;
use crate::error::Result;
use crate::lane::{OpenLane, RootDelta};

/// What a lane holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

/// How coarse the times of a filesystem may be: what is written within it after a look has the time of what was seen.
const TICK: Duration = Duration::from_millis(20);
/// How often a lane at work is looked at before its newest time is taken as it is.
const LOOKS: usize = 5;

impl Fingerprint {
    /// As the ledger keeps it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of what was found.
    pub fn of(deltas: &[RootDelta]) -> Fingerprint {
        look(deltas).0
    }

    /// Of a lane, taken so that whatever is written from here on gives another one.
    pub fn settled(lane: &OpenLane) -> Result<Fingerprint> {
        for _ in 1..LOOKS {
            let (print, newest) = look(&lane.changes()?);
            let now = clock::now();
            let age = (now.sec - newest.sec)
                .saturating_mul(1_000_000_000)
                .saturating_add(i64::from(now.nsec) - i64::from(newest.nsec));
            // A time in the future says nothing about when it was written.
            if !(0..i64::try_from(TICK.as_nanos()).unwrap_or(i64::MAX)).contains(&age) {
                return Ok(print);
            }
            std::thread::sleep(TICK);
        }
        Ok(look(&lane.changes()?).0)
    }
}

/// The fingerprint, and the newest time of a change among all entries.
fn look(deltas: &[RootDelta]) -> (Fingerprint, Time) {
    let mut bytes = Vec::new();
    let mut newest = Time::default();
    let field = |bytes: &mut Vec<u8>, value: &[u8]| {
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    };
    for delta in deltas {
        field(&mut bytes, b"root");
        field(&mut bytes, delta.root.as_os_str().as_bytes());
        // Renames are found by rules of their own; the paths that come and go are what counts.
        let mut sides: Vec<(&TreePath, Option<&Entry>)> = Vec::with_capacity(delta.set.changes.len());
        for change in &delta.set.changes {
            if let ChangeKind::Rename { from, .. } = &change.kind {
                sides.push((from, None));
            }
            sides.push((&change.path, change.new.as_ref()));
        }
        sides.sort_by(|a, b| a.0.cmp(b.0).then(a.1.is_some().cmp(&b.1.is_some())));
        for (path, entry) in sides {
            field(&mut bytes, path.as_bytes());
            let Some(entry) = entry else {
                field(&mut bytes, b"gone");
                continue;
            };
            field(&mut bytes, format!("{:?}", entry.kind).as_bytes());
            field(&mut bytes, &entry.mode.to_le_bytes());
            field(&mut bytes, &entry.uid.to_le_bytes());
            field(&mut bytes, &entry.gid.to_le_bytes());
            if entry.is_dir() {
                // Its times change with what is in it, which is told by itself.
                continue;
            }
            newest = newest.max(entry.ctime);
            for time in [entry.mtime, entry.ctime] {
                field(&mut bytes, &time.sec.to_le_bytes());
                field(&mut bytes, &time.nsec.to_le_bytes());
            }
            field(&mut bytes, &entry.size.to_le_bytes());
            field(&mut bytes, &entry.rdev.to_le_bytes());
            field(&mut bytes, &entry.target);
        }
        for (path, _) in &delta.set.gaps {
            field(&mut bytes, path.as_bytes());
            field(&mut bytes, b"gap");
        }
    }
    (Fingerprint(ObjectId::of(ObjectKind::Blob, &bytes).to_string()), newest)
}
