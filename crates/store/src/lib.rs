//! Floor 2: the content-addressed store of snapshots. Objects are written once, into packs, under the hash of their
//! bytes; a snapshot is a record in a lane's history that names manifests, which name content.
//!
//! Reading order: [`id`] → [`store`] and [`pack`] → [`content`] and [`large`] → [`manifest`] → [`record`] and
//! [`history`] → [`writer`] → [`capture`] → [`restore`]. `docs/format/store.md` says what is on disk.

mod capture;
mod content;
mod encode;
mod error;
mod format;
pub mod fsck;
pub mod gc;
mod history;
mod id;
mod index;
mod large;
mod layer;
mod life;
mod manifest;
mod pack;
mod reach;
mod record;
pub mod restore;
mod steps;
mod store;
mod usage;
mod writer;

pub use capture::base::BaseContents;
pub use capture::{Capture, Captured, Pass};
pub use content::{Content, INLINE, LARGE};
pub use error::{Damage, Error, FormatProblem, Result};
pub use history::{Event, History, LaneKey, Logged, Stray};
pub use id::{ManifestId, ObjectId, ObjectKind, SnapshotId};
pub use layer::{DEVICE, ManifestLayer};
pub use life::{Size, clear_remains};
pub use manifest::diff::{Diff, Difference};
pub use manifest::item::{Item, ItemKind};
pub use manifest::read::{Entries, Manifest};
pub use pack::{MAX_OBJECT, PackId};
pub use record::{Gap, LayerRef, NewSnapshot, Quiescence, Record, Root, SnapshotKind};
pub use steps::{Step, StepHook};
pub use store::{Held, Store};
pub use usage::{Share, Usage};
pub use writer::{Added, Snapshot, Taken, Writer};
