//! The book of facts: lanes, runs, operations and events in one SQLite file.
//!
//! What is recorded: which lane stands on which origin, what ran in it and how it ended, which acts
//! changed something and how to take them back. What is never recorded: file content and secrets.
//!
//! Invariants: every act is one transaction that is there wholly or not at all; a name is unique
//! among an origin's undiscarded lanes; any number of processes may write at once; a file that is not
//! a sound ledger is refused by name and never overwritten. This is the only crate that speaks SQL.
//!
//! Reading order: [`db`] (open, migrate, [`Ledger::act`]) → [`lane`] → [`run`] → [`operation`] → [`event`] → [`verdict`] → [`slips`] → [`chain`] → [`query`].

pub mod chain;
pub mod db;
pub mod error;
pub mod event;
pub mod lane;
mod migrate;
pub mod operation;
pub mod query;
pub mod run;
pub mod slips;
mod value;
pub mod verdict;

pub use chain::{Broken, Chain, Fault, Head, Summer, digest};
pub use db::{Act, Ledger};
pub use error::{Error, Result};
pub use event::{Event, Happened, NewEvent};
pub use lane::{Lane, LaneFilter, LaneState};
pub use operation::{NewOperation, Operation};
pub use query::{Cursor, Query, Record};
pub use run::{Exit, NewRun, Run};
pub use slips::Slip;
pub use verdict::{NewVerdict, Verdict};
