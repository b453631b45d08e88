//! Floor 1: the nouns that everybody shares. A tree is a set of entries under relative byte paths;
//! a lane's delta is a sorted list of changes between two trees.
//!
//! Reading order: [`path`] → [`entry`] → [`change`] → [`source`] → [`dir`] and [`union`] (the sources) →
//! [`layer`] and [`links`] → [`compare`] and [`delta`] (sources to changes) → [`rename`] → [`walk`], [`copy`], [`remove`].

pub mod path;
pub mod entry;
pub mod change;
pub mod source;
pub mod dir;
pub mod layer;
pub mod links;
pub mod union;
pub mod compare;
pub mod delta;
pub mod rename;
mod rename_dirs;
pub mod walk;
pub mod copy;
pub mod remove;
mod descent;

pub use change::{Change, ChangeKind, ChangeSet};
pub use entry::{Entry, Kind, Time};
pub use dir::DirTree;
pub use links::LinkIndex;
pub use path::TreePath;
pub use source::Source;
pub use union::Union;
