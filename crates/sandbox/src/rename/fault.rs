//! A fault that a test asks for: a kill at a chosen step of a rename.
//!
//! A test writes the file `rename-fault` beside the journal, outside the lane, a line for each kill: whom
//! (`notifier`, `supervisor` or `caller`) and before which step, counted from 1. A line is taken out before it
//! strikes. Builds without debug assertions do not look for the file.

use std::os::fd::OwnedFd;

/// Name of the file in the journal's directory.
#[cfg(debug_assertions)]
const NAME: &str = "rename-fault";

/// What still has to pass before the kill.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fault {
    #[cfg(debug_assertions)]
    left: Option<(u64, Victim)>,
}

#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy)]
enum Victim {
    Notifier,
    Supervisor,
    Caller(u32),
}

#[cfg(not(debug_assertions))]
impl Fault {
    pub(super) fn load(_dir: &OwnedFd, _tid: u32) -> Fault {
        Fault {}
    }

    pub(super) fn step(self, _dir: &OwnedFd) -> Fault {
        self
    }
}

#[cfg(debug_assertions)]
impl Fault {
    /// The first line of the file; nothing where there is none. `tid` is the caller's thread.
    pub(super) fn load(dir: &OwnedFd, tid: u32) -> Fault {
        let text = read(dir);
        let mut words = text.lines().next().unwrap_or_default().split(' ');
        let victim = match words.next() {
            Some("notifier") => Victim::Notifier,
            Some("supervisor") => Victim::Supervisor,
            Some("caller") => Victim::Caller(tid),
            _ => return Fault::default(),
        };
        Fault { left: words.next().and_then(|count| count.parse().ok()).map(|count| (count, victim)) }
    }

    /// One step on.
    pub(super) fn step(self, dir: &OwnedFd) -> Fault {
        match self.left {
            Some((count, victim)) if count > 1 => Fault { left: Some((count - 1, victim)) },
            Some((_, victim)) => {
                let text = read(dir);
                let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
                let _ = kernel::publish::write_file(dir, NAME.as_bytes(), rest.as_bytes(), 0o600);
                strike(victim);
                Fault::default()
            }
            None => self,
        }
    }
}

#[cfg(debug_assertions)]
fn strike(victim: Victim) {
    let kill = |pid: i32| {
        let _ = kernel::process::kill(pid, rustix::process::Signal::KILL.as_raw());
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    match victim {
        Victim::Notifier => kill(own),
        Victim::Supervisor => {
            if let Some(parent) = rustix::process::getppid() {
                kill(parent.as_raw_nonzero().get());
            }
            kill(own);
        }
        Victim::Caller(tid) => kill(tid as i32),
    }
}

#[cfg(debug_assertions)]
fn read(dir: &OwnedFd) -> String {
    use rustix::fs::{Mode, OFlags};
    let mut text = String::new();
    if let Ok(file) = rustix::fs::openat(dir, NAME, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = std::io::Read::read_to_string(&mut std::fs::File::from(file), &mut text);
    }
    text
}
