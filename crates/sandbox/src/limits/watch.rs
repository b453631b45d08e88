//! [`Watched`]: limits that no kernel holds, looked at while the lane runs: the memory of its processes, the size of its
//! layers.
//!
//! Invariant: looking costs at most a twentieth of the time, whatever there is to look at.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use kernel::proc::Proc;
use rustix::process::Signal;

use super::{Hit, Limit, Means, What};

/// The shortest time between two looks.
const OFTEN: Duration = Duration::from_millis(100);
/// Looks take at most this part of the time.
const PART: u32 = 20;

/// What is to be watched.
#[derive(Debug)]
pub struct Over {
    /// The lane's pid namespace, where it has one: without it no memory is watched.
    pub pids: Option<OwnedFd>,
    /// Its writable layers on disk.
    pub layers: Vec<OwnedFd>,
    /// Whole trees of its own, of which counts what comes to what was there at first.
    pub whole: Vec<OwnedFd>,
}

/// What a look has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing beyond a limit.
    Within,
    /// A limit was hit, and a process was ended for it.
    Ended(Hit),
    /// A limit was hit: the lane has to end.
    EndLane(Hit),
}

/// A watch over limits.
#[derive(Debug)]
pub struct Watched {
    memory: Option<u64>,
    disk: Option<u64>,
    inodes: Option<u64>,
    over: Over,
    proc: Proc,
    next: Instant,
    /// Bytes and entries of the whole trees at the first look.
    before: Option<(u64, u64)>,
}

impl Watched {
    /// Watches what of these limits has to be; `None` where that is none.
    pub fn new(limits: &[Limit], over: Over) -> Option<Watched> {
        let of = |what, means| {
            limits.iter().find(|limit| limit.what == what && limit.means == means).map(|limit| limit.most)
        };
        let memory = of(What::Memory, Means::WatchedMemory);
        let (disk, inodes) = (of(What::Disk, Means::WatchedLayers), of(What::Inodes, Means::WatchedLayers));
        if memory.is_none() && disk.is_none() && inodes.is_none() {
            return None;
        }
        Some(Watched {
            memory,
            disk,
            inodes,
            over,
            proc: Proc::open().ok()?,
            next: Instant::now(),
            before: None,
        })
    }

    /// When to look next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Looks, where it is time.
    pub fn look(&mut self) -> Found {
        let began = Instant::now();
        if began < self.next {
            return Found::Within;
        }
        let mut found = self.look_at_layers();
        if found == Found::Within {
            found = self.look_at_memory();
        }
        self.next = Instant::now() + OFTEN.max(began.elapsed() * PART);
        found
    }

    fn look_at_memory(&self) -> Found {
        let (Some(most), Some(namespace)) = (self.memory, &self.over.pids) else { return Found::Within };
        let Ok(pids) = self.proc.pids() else { return Found::Within };
        let inside: Vec<i32> = pids
            .into_iter()
            .filter(|pid| matches!(kernel::proc::id_in(namespace, *pid), Ok(Some(_))))
            .collect();
        let in_files = inside.iter().find_map(|pid| self.proc.temporary_files(*pid)).unwrap_or(0);
        // What is resident is never less than the share of it: mostly that is answer enough.
        let resident: u64 = inside.iter().map(|pid| self.proc.resident(*pid)).sum();
        if resident + in_files <= most {
            return Found::Within;
        }
        let is_first = |pid| matches!(kernel::proc::id_in(namespace, pid), Ok(Some(1)));
        let shares: Vec<(i32, u64)> = inside.iter().map(|pid| (*pid, self.proc.share(*pid))).collect();
        let sum = in_files + shares.iter().map(|(_, share)| share).sum::<u64>();
        let largest = shares.iter().filter(|(pid, _)| !is_first(*pid)).max_by_key(|(_, share)| share);
        if sum <= most {
            return Found::Within;
        }
        let hit = |done: String| Hit { what: What::Memory, most, found: Some(sum), done };
        match largest {
            // By a descriptor that is known to be of the lane's: the number may be somebody else's by now.
            Some((pid, share)) if *share * 4 > sum => {
                let Ok(process) = kernel::proc::open_process(*pid) else { return Found::Within };
                if !matches!(kernel::proc::id_in(namespace, *pid), Ok(Some(_))) {
                    return Found::Within;
                }
                let name = self.proc.name(*pid).unwrap_or_default();
                let _ = rustix::process::pidfd_send_signal(&process, Signal::KILL);
                Found::Ended(hit(format!("its largest process, {}, was ended", name.escape_ascii())))
            }
            // Many small ones, or files in memory: ending one helps nobody.
            _ => Found::EndLane(hit("the lane was ended".into())),
        }
    }

    fn look_at_layers(&mut self) -> Found {
        if self.disk.is_none() && self.inodes.is_none() {
            return Found::Within;
        }
        let whole = taken(&self.over.whole);
        let before = *self.before.get_or_insert(whole);
        let (mut bytes, mut entries) = taken(&self.over.layers);
        bytes += whole.0.saturating_sub(before.0);
        entries += whole.1.saturating_sub(before.1);
        let beyond = |what, most: Option<u64>, found: u64| {
            let most = most.filter(|most| found > *most)?;
            Some(Hit { what, most, found: Some(found), done: "the lane was ended".into() })
        };
        match beyond(What::Disk, self.disk, bytes).or_else(|| beyond(What::Inodes, self.inodes, entries)) {
            Some(hit) => Found::EndLane(hit),
            None => Found::Within,
        }
    }
}

/// Bytes on disk and entries below these directories; each inode counts once.
fn taken(dirs: &[OwnedFd]) -> (u64, u64) {
    let (mut bytes, mut entries) = (0, 0);
    let mut seen = HashSet::new();
    for dir in dirs {
        // What cannot be read cannot be counted.
        let _gaps = tree::walk::walk(dir.as_fd(), &mut |_, entry| {
            if entry.is_dir() || entry.nlink < 2 || seen.insert((entry.dev, entry.ino)) {
                bytes += entry.allocated;
                entries += 1;
            }
            tree::walk::Visit::Enter
        });
    }
    (bytes, entries)
}
