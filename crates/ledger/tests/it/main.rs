//! The ledger's tests against the real SQLite file, in one binary.

mod acts;
mod chain;
mod damage;
mod museum;
mod opening;
mod processes;
mod questions;
mod sample;
