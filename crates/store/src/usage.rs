//! What a store takes, and what of it each snapshot alone is the reason for.
//!
//! Invariant: every object is counted once. What two snapshots need is nobody's alone.

use std::collections::HashMap;

use crate::error::Result;
use crate::gc::large_files;
use crate::history::{History, LaneKey};
use crate::id::{ObjectId, SnapshotId};
use crate::life::Size;
use crate::reach::Reach;
use crate::store::Store;

/// Bytes of one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// What no other snapshot needs: so much goes with it.
    pub alone: u64,
    /// What it was the first to need: so much it added when it was made.
    pub added: u64,
}

/// Bytes of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// All of it. Blocks that large files share with files elsewhere are counted in full.
    pub size: Size,
    /// By snapshot.
    pub snapshots: HashMap<SnapshotId, Share>,
}

impl Store {
    /// What each snapshot of these histories takes. Reads every manifest that they do not have in common.
    pub fn usage(&self, histories: &[(LaneKey, History)]) -> Result<Usage> {
        let _held = self.hold()?;
        let size = self.size()?;
        let index = self.refresh()?;
        let mut sizes: HashMap<ObjectId, u64> = self
            .tables(&index)?
            .iter()
            .flat_map(|table| table.iter())
            .map(|placed| (placed.id, placed.len.into()))
            .collect();
        for (_, id, bytes) in large_files(self)? {
            *sizes.entry(id).or_default() += bytes;
        }
        let mut all: Vec<_> = histories.iter().flat_map(|(_, history)| history.snapshots()).collect();
        all.sort_by_key(|(_, record)| (record.time_ms, record.sequence));
        let mut owners = Reach::new(self, histories).owning();
        for (number, (_, record)) in all.iter().enumerate() {
            owners.snapshot(number, record)?;
        }
        let mut shares = vec![Share::default(); all.len()];
        for (id, owner) in owners.owners {
            let bytes = sizes.get(&id).copied().unwrap_or(0);
            shares[owner.first].added += bytes;
            shares[owner.first].alone += if owner.shared { 0 } else { bytes };
        }
        let snapshots = all.iter().map(|(id, _)| *id).zip(shares).collect();
        Ok(Usage { size, snapshots })
    }
}
