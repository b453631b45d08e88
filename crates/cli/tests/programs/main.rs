//! Everyday programs in a lane: version control, builds, package managers, servers, the agents' own programs and
//! what a person does on a terminal. The built `lane`, real programs, real projects; as root and as an ordinary
//! user.
//!
//! What a test needs of the machine is asked for through testkit: missing, the test is red. The projects that
//! `scripts/corpora` makes are used where they lie and never written.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod agents;
mod build;
mod fullscreen;
mod git;
mod ground;
mod node;
mod presets;
mod python;
mod recording;
mod servers;
mod shell;
mod toolchain;
