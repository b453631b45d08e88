//! Floor 1: the nouns that everybody shares. A tree is a set of entries under relative byte paths;
//! a lane's delta is a sorted list of changes between two trees.
//!
//! Reading order: [`path`] → [`entry`] → [`change`] → [`source`] → [`dir`] and [`union`] (the sources) →
//! [`layer`], [`upper`], [`stack`] and [`links`] → [`compare`] and [`delta`] (sources to changes) → [`rename`] and
//! [`recall`] → [`walk`], [`copy`], [`layer_copy`], [`flatten`], [`remove`].

pub mod change;
pub mod compare;
pub mod copy;
pub mod delta;
mod descent;
mod digest;
pub mod dir;
pub mod entry;
pub mod equal;
pub mod flatten;
pub mod layer;
pub mod layer_copy;
mod link_groups;
pub mod links;
pub mod path;
pub mod recall;
pub mod remove;
pub mod rename;
mod rename_dirs;
mod scout;
pub mod source;
pub mod stack;
pub mod union;
pub mod upper;
pub mod walk;

pub use change::{Change, ChangeKind, ChangeSet};
pub use dir::DirTree;
pub use entry::{Entry, Kind, Time};
pub use link_groups::LinkGroups;
pub use links::LinkIndex;
pub use path::TreePath;
pub use recall::Recall;
pub use source::Source;
pub use stack::Stack;
pub use union::Union;
pub use upper::Layer;
