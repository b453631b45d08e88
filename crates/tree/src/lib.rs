//! Floor 1: the nouns that everybody shares. A tree is a set of entries under relative byte paths;
//! a lane's delta is a sorted list of changes between two trees.
//!
//! Reading order: [`path`] → [`entry`] → [`change`] → [`source`] → the rest.

pub mod change;
pub mod entry;
pub mod path;
pub mod source;

pub use change::{Change, ChangeKind, ChangeSet};
pub use entry::{Entry, Kind, Time};
pub use path::TreePath;
pub use source::Source;
