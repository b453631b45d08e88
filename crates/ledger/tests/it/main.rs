//! The ledger's tests against the real SQLite file, in one binary.

mod acts;
mod damage;
mod opening;
mod processes;
mod sample;
