//! Public failure cases of tools like ours, and the promises of a lane, end to end: the built program, real
//! mounts, real kills. As root and as an ordinary user, over every strategy that a case concerns.
//!
//! A test is named after its case and its fact. What it needs of the machine is asked for through testkit:
//! missing, the test is red.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod apply;
mod artifacts;
mod attacks;
mod branches;
mod drift;
mod environment;
mod files;
mod filesystems;
mod git;
mod home;
mod kills;
mod listings;
mod live;
mod names;
mod refusals;
mod secrets;
mod several;
mod streams;
mod supervision;
mod three_way;
mod three_way_table;
mod view;
mod walls;
mod world;
