//! Histories of lanes, end to end: the built program, real mounts, real kills, real damage, real full disks. As root and as
//! an ordinary user, over every strategy.
//!
//! What a lane holds is judged from inside, by a program of the system that lists all that can be seen; and by a naive
//! model. A test is named after its case, where it has one, and its fact.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod alive;
mod credentials;
mod damage;
mod databases;
mod exact;
mod fork;
mod fork_kills;
mod fork_random;
mod keep_kills;
mod kills;
mod power;
mod random;
mod repositories;
mod room;
mod still;
mod still_groups;
mod still_kills;
mod still_load;
mod still_terminal;
mod view;
mod world;
