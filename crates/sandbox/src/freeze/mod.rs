//! Makes the processes of a live lane stand still for a moment, and has them go on whatever becomes of whom.
//!
//! Where a lane has a control group of its own, that is frozen ([`group`]). An ordinary user has none as a rule; there each
//! process is stopped by a signal, in an order that nobody inside notices: a parent stands before its children are stopped, and they go on before it does, so that no shell hears of a
//! stopped job. What stood already is left as it is. Three stand guard over it: a process of ours stops and lets go, and
//! lets go by itself when whoever asked is gone or takes too long; it writes down whom it stops before it does, so that
//! whoever finds that record without its owner lets go in its place ([`lift`]).
//!
//! Invariants: what is stopped goes on, also after a kill of anybody; a process that we did not stop is not made to go
//! on; [`Frozen::thaw`] says whether everything stood until then. Nothing here holds a mount of the lane.

pub mod group;
mod guard;
mod record;
mod standstill;

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use kernel::process::{self, Child, Forked, Which};
use kernel::{Errno, fdpass};

use crate::error::{Result, Stage, Step as _};
pub use group::Group;
pub use guard::Mapped;
pub use record::{is_at_work, lift};

/// The name of the process that starts a command which joins a lane. Its command is in the lane, it is not.
pub(crate) const LEADER: &std::ffi::CStr = c"lane-leader";

/// How long everybody may take until they stand.
pub const LIMIT: Duration = Duration::from_millis(100);
/// How long they stand at most.
pub const HOLD: Duration = Duration::from_millis(500);
/// How long the guard may take to answer, whatever it does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Freezes one lane, as often as it is asked to.
#[derive(Debug)]
pub struct Freezer {
    /// The lane's directory on the host.
    dir: OwnedFd,
    /// Its pid namespace.
    namespace: OwnedFd,
    guard: Option<Guard>,
}

#[derive(Debug)]
struct Guard {
    process: Child,
    socket: OwnedFd,
}

impl Freezer {
    /// Nothing is started yet.
    pub fn new(dir: OwnedFd, namespace: OwnedFd) -> Freezer {
        Freezer { dir, namespace, guard: None }
    }

    /// Starts the guard, if it is not there: best before this process has grown, since it begins as its copy.
    pub fn prepare(&mut self) -> Result<()> {
        if self.guard.is_none() {
            self.guard = Some(self.start()?);
        }
        Ok(())
    }

    /// The files that processes of the lane write to by storing, at this moment. They go on meanwhile.
    pub fn mapped(&mut self) -> Result<Mapped> {
        let answer = self.ask(&guard::Request::List)?;
        answer.1.map_or_else(|| Ok(Mapped::default()), |file| Mapped::read(&file))
    }

    /// Stops everybody; `None` where somebody does not stand within `limit`: then all go on.
    pub fn freeze(&mut self, limit: Duration, hold: Duration) -> Result<Option<Frozen<'_>>> {
        match self.ask(&guard::Request::Freeze { limit, hold })? {
            (true, Some(file)) => {
                // Dropped where its reading fails: then they go on.
                let mut frozen = Frozen { freezer: self, mapped: Mapped::default(), over: false };
                frozen.mapped = Mapped::read(&file)?;
                Ok(Some(frozen))
            }
            _ => Ok(None),
        }
    }

    fn ask(&mut self, request: &guard::Request) -> Result<(bool, Option<OwnedFd>)> {
        self.prepare()?;
        let answer = self.guard.as_ref().map(|guard| guard.ask(request));
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                self.lost();
                Err(error).step(Stage::Supervise, "ask the guard of the lane's processes")
            }
            None => Ok((false, None)),
        }
    }

    fn start(&self) -> Result<Guard> {
        let (ours, theirs) = fdpass::pair().step(Stage::Supervise, "make the guard's channel")?;
        match process::fork().step(Stage::Supervise, "fork the guard")? {
            Forked::Parent(process) => Ok(Guard { process, socket: ours }),
            Forked::Child => {
                drop(ours);
                let _ = guard::run(&self.dir, &self.namespace, &theirs);
                process::exit_now(0)
            }
        }
    }

    /// The guard is gone, or does not answer: what it stopped goes on.
    fn lost(&mut self) {
        if let Some(guard) = self.guard.take() {
            let _ = process::kill_pidfd(&guard.process.pidfd, rustix::process::Signal::KILL);
            guard.reap();
        }
        lift(&self.dir, Duration::ZERO);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        if let Some(Guard { process, socket }) = self.guard.take() {
            // It hears the end of the channel.
            drop(socket);
            let _ = process::wait(Which::Pidfd(process.pidfd.as_fd()), true, false);
        }
    }
}

impl Guard {
    fn ask(&self, request: &guard::Request) -> kernel::Result<(bool, Option<OwnedFd>)> {
        fdpass::send(&self.socket, &request.encode(), &[])?;
        let mut fds = [rustix::event::PollFd::new(&self.socket, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        if rustix::event::poll(&mut fds, Some(&patience)) == Ok(0) {
            return Err(kernel::Error::new("recv", "guard", Errno::TIMEDOUT));
        }
        let mut buffer = [0u8; 8];
        match fdpass::receive(&self.socket, &mut buffer)? {
            Some((1, mut fds)) => Ok((buffer[0] == guard::YES, fds.pop())),
            _ => Err(kernel::Error::new("recv", "guard", Errno::PIPE)),
        }
    }

    fn reap(&self) {
        let _ = process::wait(Which::Pidfd(self.process.pidfd.as_fd()), true, false);
    }
}

/// A lane that stands still. Dropped, it goes on.
#[derive(Debug)]
#[must_use = "the lane goes on when this is dropped"]
pub struct Frozen<'f> {
    freezer: &'f mut Freezer,
    mapped: Mapped,
    over: bool,
}

impl Frozen<'_> {
    /// The files that its processes write to by storing.
    pub fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// Lets everybody go on; true where all of them stood until now.
    pub fn thaw(mut self) -> bool {
        self.let_go()
    }

    fn let_go(&mut self) -> bool {
        self.over = true;
        self.freezer.ask(&guard::Request::Thaw).is_ok_and(|(stood, _)| stood)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.let_go();
        }
    }
}
