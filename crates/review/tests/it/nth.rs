//! A fault at one step of many: [`Nth`], for tests that try every step.

use std::cell::Cell;

use kernel::Errno;
use review::apply::Faults;
use tree::TreePath;

/// Every staging place: beside the origin, and in it.
pub(crate) const PLACES: [bool; 2] = [true, false];

/// A refusal here is no failure: it goes on without RENAME_EXCHANGE.
pub(crate) const NO_EXCHANGE: &str = "exchange at all";

/// Does `act` at the step number `at`, counted from 0.
pub(crate) struct Nth<F: Fn() -> Result<(), Errno>> {
    at: usize,
    seen: Cell<usize>,
    act: F,
}

impl<F: Fn() -> Result<(), Errno>> Nth<F> {
    pub(crate) fn new(at: usize, act: F) -> Nth<F> {
        Nth { at, seen: Cell::new(0), act }
    }

    pub(crate) fn reached(&self) -> bool {
        self.seen.get() > self.at
    }
}

impl<F: Fn() -> Result<(), Errno>> Faults for Nth<F> {
    fn at(&self, step: &'static str, _: &TreePath) -> Result<(), Errno> {
        if step == NO_EXCHANGE {
            return Ok(());
        }
        let now = self.seen.replace(self.seen.get() + 1);
        if now == self.at { (self.act)() } else { Ok(()) }
    }
}

pub(crate) fn kill_me() -> Result<(), Errno> {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
}
