//! [`Aside`]: the sums of a lane, read by a thread of its own while the view goes on taking keys.
//!
//! Invariant: there is at most one such thread, with an engine of its own, and none once [`Aside::finish`] is back: what may
//! start a process comes after that.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use engine::ops::list;
use engine::{Engine, EngineError, EngineOptions};

use super::fact::Fact;

/// What a crash had left and was put right.
type Repaired = Vec<(String, String)>;

/// Reads sums.
#[derive(Debug)]
pub(crate) struct Aside {
    options: EngineOptions,
    dir: PathBuf,
    under_way: Option<Reading>,
    repaired: Repaired,
}

#[derive(Debug)]
struct Reading {
    thread: JoinHandle<(Fact, Repaired)>,
    /// At its end once the thread is.
    bell: OwnedFd,
}

impl Aside {
    /// Nothing is read yet.
    pub(crate) fn new(options: &EngineOptions, dir: &Path) -> Aside {
        Aside { options: options.clone(), dir: dir.to_owned(), under_way: None, repaired: Vec::new() }
    }

    /// Begins to read the sums of a lane, unless others are being read. Where there is no thread to be had they are read
    /// at once.
    pub(crate) fn begin(&mut self, name: String) -> Option<Fact> {
        if self.under_way.is_some() {
            return None;
        }
        let (options, dir, lane) = (self.options.clone(), self.dir.clone(), name.clone());
        let begun = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(std::io::Error::from);
        let begun = begun.and_then(|(bell, rope)| {
            let thread = std::thread::Builder::new().name("lane-sums".to_owned());
            let thread = thread.spawn(move || {
                let _rope = rope;
                sums(&options, &dir, lane)
            })?;
            Ok(Reading { thread, bell })
        });
        match begun {
            Ok(reading) => {
                self.under_way = Some(reading);
                None
            }
            Err(_) => Some(self.take(sums(&self.options, &self.dir, name))),
        }
    }

    /// What becomes readable when sums are there; `None` while none are being read.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.under_way.as_ref().map(|reading| reading.bell.as_fd())
    }

    /// The sums, where they are there by now.
    pub(crate) fn ended(&mut self) -> Option<Fact> {
        if self.under_way.as_ref()?.thread.is_finished() { self.finish() } else { None }
    }

    /// Waits for what is being read.
    pub(crate) fn finish(&mut self) -> Option<Fact> {
        let reading = self.under_way.take()?;
        // One that panicked has told it.
        let found = reading.thread.join().ok()?;
        Some(self.take(found))
    }

    /// What was put right on the way.
    pub(crate) fn take_repaired(&mut self) -> Repaired {
        std::mem::take(&mut self.repaired)
    }

    fn take(&mut self, (fact, repaired): (Fact, Repaired)) -> Fact {
        self.repaired.extend(repaired);
        fact
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Whatever it is just writing down is to be whole.
        let _ = self.finish();
    }
}

fn sums(options: &EngineOptions, dir: &Path, name: String) -> (Fact, Repaired) {
    let mut repaired = Vec::new();
    let filled = Engine::open(options).and_then(|engine| {
        let filled = list::fill(&engine, dir, &name);
        repaired = engine.take_repaired();
        filled
    });
    let fact = match filled {
        Ok(filled) => Fact::Sums(name, Some(Box::new(filled))),
        Err(EngineError::NoSuchLane { .. }) => Fact::Sums(name, None),
        Err(error) => Fact::Unreadable(name, error.with_causes()),
    };
    (fact, repaired)
}
