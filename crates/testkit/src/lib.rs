//! What tests need to try the real thing: the built `lane` in a closed environment, as root and as an
//! ordinary user, on real filesystems, with real kills and a real terminal.
//!
//! Rules of the kit: a missing program or power turns a test red and names the command that installs
//! it; nothing is skipped in silence; only processes that a test started are signalled; what a test
//! mounted is unmounted even when it panics.
//!
//! Reading order: [`who`] → [`env`] → [`project`] → [`listing`] → [`running`] → [`pty`] → [`browser`] → [`loopfs`].

pub mod browser;
pub mod corpora;
pub mod dice;
pub mod env;
pub mod listing;
pub mod loopfs;
pub mod procs;
pub mod project;
pub mod pty;
pub mod require;
pub mod running;
pub mod who;

pub use browser::Browser;
pub use dice::Dice;
pub use env::TestEnv;
pub use listing::{Listing, Plain};
pub use loopfs::{FsKind, LoopFs};
pub use pty::Pty;
pub use running::{Ran, Running, until};
pub use who::Who;
