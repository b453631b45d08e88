//! The guard: a process of ours that stops a lane's processes and lets them go on. It has no thread, no ledger and no
//! mount, so that little can hold it up; it is not in the lane's pid namespace, so nobody inside can see it.
//!
//! In the lane's user namespace it keeps one power: to look at its processes. Invariant: when its owner is gone, or
//! holds the lane longer than it said, everybody goes on.

use std::ffi::OsStr;
use std::num::NonZero;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use kernel::proc::Proc;
use kernel::process::{self, Namespaces};
use kernel::{bytes, fdpass};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::CapabilitySet;

use super::standstill::{Ground, Standstill};
use crate::error::{Result, Stage, Step as _};

pub(super) const YES: u8 = b'y';
const NO: u8 = b'n';

/// What the guard is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    List,
    Freeze { limit: Duration, hold: Duration },
    Thaw,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Request::List => b"l".to_vec(),
            Request::Thaw => b"t".to_vec(),
            Request::Freeze { limit, hold } => {
                let micros = |time: &Duration| (time.as_micros() as u64).to_le_bytes();
                [&b"f"[..], &micros(limit), &micros(hold)].concat()
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<Request> {
        let time = |at: usize| {
            let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(Duration::from_micros(u64::from_le_bytes(bytes)))
        };
        match bytes.first()? {
            b'l' => Some(Request::List),
            b't' => Some(Request::Thaw),
            b'f' => Some(Request::Freeze { limit: time(1)?, hold: time(9)? }),
            _ => None,
        }
    }
}

/// Files that are written to by storing: the kernel need not date what changes in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapped {
    /// Their paths inside the lane.
    pub(super) paths: Vec<Vec<u8>>,
    /// Processes that could not be asked.
    pub(super) unseen: u32,
}

impl Mapped {
    /// Their paths inside the lane. One whose name is gone may be among them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// True where every process could be asked.
    pub fn is_whole(&self) -> bool {
        self.unseen == 0
    }

    /// As a file without a name: there may be many.
    fn to_file(&self) -> kernel::Result<OwnedFd> {
        let mut text = self.unseen.to_le_bytes().to_vec();
        for path in &self.paths {
            text.extend_from_slice(path);
            text.push(0);
        }
        let file = bytes::memory_file()?;
        bytes::write_all_at(&file, &text, 0)?;
        Ok(file)
    }

    pub(super) fn read(file: &OwnedFd) -> Result<Mapped> {
        let text = bytes::read_all(file).step(Stage::Supervise, "read what is mapped")?;
        let (unseen, paths) = text
            .split_first_chunk()
            .map_or((u32::MAX, &[][..]), |(unseen, paths)| (u32::from_le_bytes(*unseen), paths));
        let paths = paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec);
        Ok(Mapped { paths: paths.collect(), unseen })
    }
}

/// Serves one owner until it is gone.
pub(super) fn run(dir: &OwnedFd, namespace: &OwnedFd, socket: &OwnedFd) -> Result<()> {
    process::go_alone();
    let _ = rustix::thread::set_name(c"lane-guard");
    process::close_others(&[dir.as_fd(), namespace.as_fd(), socket.as_fd()])
        .step(Stage::Supervise, "close what the watch holds")?;
    let ground = prepare(dir, namespace)?;
    loop {
        let Some(request) = hear(socket) else { return Ok(()) };
        match request {
            Request::List => {
                let file = ground.mapped().and_then(|mapped| mapped.to_file());
                let file = file.step(Stage::Supervise, "look for mappings")?;
                answer(socket, YES, Some(&file));
            }
            Request::Freeze { limit, hold } => stand(&ground, socket, limit, hold),
            // It went on by itself, because it was held for too long.
            Request::Thaw => answer(socket, NO, None),
        }
    }
}

fn prepare(dir: &OwnedFd, namespace: &OwnedFd) -> Result<Ground> {
    let dup = |fd: &OwnedFd| {
        let copy = fd.try_clone().map_err(|error| kernel::Error::from_io("dup", "", &error));
        copy.step(Stage::Supervise, "keep a descriptor")
    };
    let proc = Proc::open().step(Stage::Supervise, "open /proc")?;
    // A descriptor for each process.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: limit.maximum, ..limit },
    );
    // A pause of twenty microseconds is none of seventy.
    let _ = rustix::thread::set_current_timer_slack(NonZero::new(1_000));
    if let Ok(owner) = kernel::proc::owner_of(namespace) {
        // As root it is our own already.
        let _ = process::join_namespace(&owner, Namespaces::USER);
    }
    // Programs that shut themselves to tracing are looked at all the same.
    let _ = kernel::privilege::keep_only(CapabilitySet::empty());
    kernel::privilege::not_dumpable().step(Stage::Supervise, "shut the guard to tracing")?;
    let group = super::group::of(dir);
    Ok(Ground { proc, namespace: dup(namespace)?, group, dir: dup(dir)? })
}

fn stand(ground: &Ground, socket: &OwnedFd, limit: Duration, hold: Duration) {
    let mut standstill = Standstill::new(ground, limit);
    let stands = standstill.bring().unwrap_or(false);
    let file = if stands { standstill.mapped().to_file().ok() } else { None };
    let Some(file) = file else {
        standstill.thaw();
        return answer(socket, NO, None);
    };
    answer(socket, YES, Some(&file));
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let timeout = Timespec { tv_sec: hold.as_secs() as i64, tv_nsec: i64::from(hold.subsec_nanos()) };
    let said = rustix::event::poll(&mut fds, Some(&timeout));
    // Whatever was said, or that nothing was: it is over.
    standstill.thaw();
    if said.is_ok_and(|count| count > 0) && hear(socket) == Some(Request::Thaw) {
        answer(socket, YES, None);
    }
}

/// The next request; `None` where the owner is gone.
fn hear(socket: &OwnedFd) -> Option<Request> {
    let mut buffer = [0u8; 32];
    let (n, _) = fdpass::receive(socket, &mut buffer).ok()??;
    Request::decode(&buffer[..n])
}

fn answer(socket: &OwnedFd, word: u8, file: Option<&OwnedFd>) {
    let fds: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
    let _ = fdpass::send(socket, &[word], &fds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_heard_and_nothing_else() {
        let freeze =
            Request::Freeze { limit: Duration::from_millis(25), hold: Duration::from_micros(500_001) };
        for request in [Request::List, Request::Thaw, freeze] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        assert_eq!(Request::decode(b""), None);
        assert_eq!(Request::decode(b"f123"), None);
        assert_eq!(Request::decode(b"x"), None);
    }

    #[test]
    fn mappings_cross_over_as_they_are() {
        let mapped = Mapped { paths: vec![b"/a b\n".to_vec(), vec![b'/', 0xff]], unseen: 3 };
        assert_eq!(Mapped::read(&mapped.to_file().expect("written")).expect("read"), mapped);
        assert!(Mapped::default().is_whole() && !mapped.is_whole());
    }
}
