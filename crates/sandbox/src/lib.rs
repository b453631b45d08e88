//! Run one command inside walls: facts → plan → spawn → init → report.
//!
//! Reading order: [`plan`] (what is to be built, as data) → [`view`] (facts of the host become that
//! plan) → [`filter`] (the seccomp table) → [`spawn`] (outer) → `init` (inner) → [`supervise`] (from
//! outside, while it runs) → [`notify`], `rename`, [`gate`] and `trace` (calls carried out for the lane, and calls that are reported) → [`freeze`] (a live lane stands still) →
//! [`reach`] (its view from outside).
//!
//! Invariants: a wall that was asked for and cannot be built ends the start, nothing is executed; nothing
//! is ever mounted in the host's mount namespace; everything dies with pid 1, and pid 1 with its parent.

mod bare;
pub mod channel;
mod connects;
pub mod control;
pub mod credentials;
pub mod door;
pub mod environ;
pub mod error;
pub mod filter;
pub mod freeze;
pub mod gate;
mod init;
pub mod leader;
pub mod limits;
pub mod mask;
pub mod message;
pub mod notify;
mod order;
pub mod plan;
pub mod preset;
pub mod reach;
mod rename;
pub mod report;
mod rootfs;
pub mod secret;
pub mod seen;
pub mod spawn;
pub mod supervise;
mod trace;
pub mod view;

pub use error::{Error, Result};
pub use plan::{Command, Ground, Mode, Op, Plan, Trace, Walls};
