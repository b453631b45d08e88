//! Collection: which snapshots are thinned out, and what nothing needs any more; a plan first, then its execution.
//!
//! Invariant: nothing that a snapshot needs is removed, whoever writes meanwhile; what is thinned out stops resolving
//! before anything of it goes; and what is half removed by a kill is whole or gone for every reader.

mod execute;
mod plan;
mod thin;

pub use execute::{Collected, execute, execute_but};
pub(crate) use plan::large_files;
pub use plan::{GcPlan, plan};
pub use thin::{Class, KeepRules, thin};
