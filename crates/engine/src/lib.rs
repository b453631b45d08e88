//! Floor 3: the product without a face. One file per verb below [`ops`]; every answer is plain data
//! ([`view`]), every problem an [`EngineError`], everything said meanwhile goes to a [`Monitor`].
//!
//! Must not print, prompt, or word advice. Reading order: [`engine`] → [`find`] → [`lane`] → [`ops`] → the rest.

mod activity;
pub mod artifacts;
mod bare;
mod bases;
mod beginning;
pub mod clock;
pub mod describe;
pub mod desk;
mod doors;
pub mod drive;
pub mod engine;
pub mod error;
pub mod find;
pub mod fingerprint;
pub mod going_back;
mod going_back_live;
mod going_back_stacked;
mod grants;
pub mod guarding;
pub mod happened;
mod hiding;
pub mod history;
pub mod keeping;
pub mod lane;
pub mod launch;
pub mod leaks;
pub mod limits;
mod live;
pub mod memory;
pub mod merging;
pub mod missed;
pub mod monitor;
pub mod names;
pub mod network;
pub mod only_here;
pub mod ops;
mod passes;
mod picking;
pub mod policy;
pub mod probe;
pub mod project;
pub mod recover;
pub mod redact;
pub mod room;
pub mod secrets;
pub mod selection;
mod shown;
pub mod sides;
pub mod signals;
pub mod state_dir;
pub mod stores;
mod toolchains;
pub mod tools;
pub mod transcript;
pub mod view;
pub mod walk;
pub mod watch;
pub mod why;
mod writes;

pub use engine::{Engine, EngineOptions};
pub use error::{EngineError, ErrorKind, Result};
pub use monitor::{Event, Monitor, Silent};

/// From now on a write past the file size limit fails instead of ending the process (setrlimit(2)). The
/// commands of a lane get the signal back.
pub fn without_size_signal() {
    kernel::signal::ignore(rustix::process::Signal::XFSZ.as_raw());
}
