//! Checking a store: every object, every file, every record and everything that they lead to. Goes on past damage.
//!
//! Invariant: what is found names the object, its pack and offset, and the snapshots and paths that need it. Nothing is
//! written; [`Store::rebuild_index`] repairs what is derived.

mod check;

use std::os::fd::AsFd as _;

use tree::TreePath;

pub use check::check;

use crate::error::{Damage, Result, Stepping as _};
use crate::history::{LaneKey, Stray};
use crate::id::SnapshotId;
use crate::pack::PackId;
use crate::store::Store;

/// Who needs an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The lane.
    pub lane: LaneKey,
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Which of its roots.
    pub root: u32,
    /// The path whose content it is; of a manifest node, the first path below it.
    pub path: TreePath,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// An object is damaged or gone.
    Object {
        /// Which, where, and how.
        damage: Damage,
        /// Another copy is whole, so that nobody misses it.
        spare: bool,
        /// Who needs it: the first of them.
        needed_by: Vec<Need>,
        /// How many need it.
        needs: u64,
    },
    /// The own index of a pack is damaged; its objects were found by their heads.
    Pack {
        /// Which.
        pack: PackId,
        /// What is wrong.
        why: &'static str,
    },
    /// A file of the index is damaged. It can be made again.
    Index {
        /// Its name.
        name: Vec<u8>,
    },
    /// Bytes of a history are no record. Where they are no unfinished append, a snapshot is lost.
    History {
        /// The lane.
        lane: LaneKey,
        /// Where.
        stray: Stray,
    },
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Packs read.
    pub packs: u64,
    /// Objects whose hash was taken.
    pub objects: u64,
    /// Their bytes, and those of large files.
    pub bytes: u64,
    /// Large files read.
    pub large: u64,
    /// Snapshots followed to their last object.
    pub snapshots: u64,
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// True where nothing is wrong. An append that was interrupted at the end of a history is not wrong.
    pub fn is_clean(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| matches!(finding, Finding::History { stray, .. } if stray.unfinished))
    }
}

impl Store {
    /// Makes the index anew from the packs, which alone are the truth.
    pub fn rebuild_index(&self) -> Result<()> {
        self.require_writable()?;
        let _held = self.hold()?;
        let index = self.refresh()?;
        for name in index.damaged_segments().stepping("read", b"index")? {
            crate::index::forget(self.index_dir.as_fd(), &name).stepping("remove", &name)?;
        }
        let index = self.refresh()?;
        index.rebuild(self.index_dir.as_fd(), &self.steps).stepping("write", b"index")?;
        self.refresh().map(drop)
    }
}
