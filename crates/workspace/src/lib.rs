//! Floor 2: a writable view of a directory without touching it. Facts about the origin, the picker of a
//! strategy, the strategies behind one contract, the base that a lane started from, and drift against it.
//!
//! What is mounted is only described here (`kernel::mountspec`); another crate mounts it. Must not print,
//! read the environment, or write the origin.
//!
//! Reading order: [`origin`] → [`choose`] → [`layer_place`] → [`home`] → [`base`] → [`contract`] →
//! [`overlay`], [`copy`] → [`pool`], [`stack`], [`seal`], [`fork`], [`links`] → [`manifest`] → [`drift`] → [`kept`], [`took`], [`old_contents`] → [`recover`].

pub mod base;
pub mod choose;
pub mod contract;
pub mod copy;
mod detach;
pub mod drift;
pub mod error;
pub mod fork;
pub mod git;
pub mod git_objects;
pub mod home;
pub mod kept;
pub mod layer_place;
pub mod links;
pub mod manifest;
mod measure;
pub mod mountinfo;
pub mod old_contents;
pub mod origin;
pub mod overlay;
pub mod pool;
pub mod recover;
pub mod seal;
mod spare;
mod stack;
pub mod took;

pub use base::{Base, BaseStamp, stamp};
pub use choose::{Abilities, Choice, Reason, Refusal, Remedy, Strategy, choose};
pub use contract::{Cost, LayerAt, Root, Workspace, attached, workspace};
pub use copy::CopyWorkspace;
pub use drift::{Drift, Drifted, drift, drift_all, drift_seen};
pub use error::{Error, Result};
pub use fork::{Forked, Making, Sharing, WhyCopied};
pub use home::{LaneHome, Layers, MountMode};
pub use kept::{Kept, KeptState};
pub use layer_place::{LayerPlace, PlaceWhy, Placed, place};
pub use manifest::{Manifest, RecordOptions, Recording, record};
pub use mountinfo::MountTable;
pub use origin::{ForeignOwners, OriginFacts};
pub use overlay::OverlayWorkspace;
pub use pool::Pool;
pub use seal::Squashed;
pub use took::Took;
