//! Signals for a face that owns the terminal: told through a descriptor, so that nothing is cut off half-way.
//!
//! Invariant: what is watched is blocked, and is never lost between two looks. Commands of lanes get every signal back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Signal;

use crate::error::{Doing as _, Result};

/// Signals that this process is told of from now on, instead of being ended or stopped by them.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Begins to watch. The calling thread must be the only one.
    pub fn watch(signals: &[Signal]) -> Result<Signals> {
        let numbers: Vec<i32> = signals.iter().map(|signal| signal.as_raw()).collect();
        Ok(Signals(kernel::signal::block_and_watch(&numbers).doing(|| "watch for signals".to_owned())?))
    }

    /// The next one that came; `None` where none did.
    pub fn next(&self) -> Result<Option<Signal>> {
        loop {
            let Some((number, _)) = kernel::signal::next(&self.0).doing(|| "read signals".to_owned())? else {
                return Ok(None);
            };
            if let Some(signal) = Signal::from_named_raw(number) {
                return Ok(Some(signal));
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stops this process and those of its group, as Ctrl-Z does, and returns when it goes on. SIGTSTP has to be among
/// the watched signals.
pub fn suspend() -> Result<()> {
    kernel::signal::suspend(true).doing(|| "stop".to_owned())
}
