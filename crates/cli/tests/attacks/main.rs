//! Attack programs: what a hostile command would try, each by name, as root and as an ordinary user, at each level, also by
//! `exec` into a live lane; and the table that docs/walls.md is made of.
//!
//! An attack is a few lines that run in a process of their own behind the walls. Its answer is what the kernel told it, and the
//! host is looked at afterwards: an answer alone proves nothing.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod bombs;
mod calls;
mod doors;
mod fence;
mod nest;
mod survivors;
mod table;
mod way_back;
mod world;
