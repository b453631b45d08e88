//! Putting a layer at rest back to the state of a manifest: a plan of what differs, and its execution.
//!
//! Invariant: only what differs is touched, and what no manifest speaks of is left alone and listed. Every act can be
//! done again: a restore that was killed at any point is finished by doing all of it once more, or by planning again from
//! what is there.

mod above;
mod dress;
mod execute;
mod plan;

pub use above::{Entries, above};
pub use execute::{Report, execute};
pub use plan::{Act, Plan, plan};
