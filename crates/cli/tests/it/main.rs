//! The one end-to-end binary: every verb through the built program, in worlds of their own.
//!
//! A lane's layers are written by hand here, so that what a verb makes of them is tested without
//! depending on a running sandbox; `run`, `exec` and `stop` have modules that do run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod also;
mod bench;
mod branch;
mod checkpoints;
mod commit;
mod commit_hooks;
mod commit_refused;
mod completions;
mod crash;
mod diff;
mod discard;
mod docs;
mod export;
mod guarded;
mod keep;
mod ledger;
mod lost;
mod ls;
mod new;
mod overlap;
mod patch;
mod picks;
mod policy;
mod races;
mod recover;
mod review;
mod review_terminal;
mod run;
mod shapes;
mod show;
mod terminal;
mod traps;
mod undo_keep;
mod verify;
mod world;
