//! The notifier: a process of ours that answers the calls which a lane's filter reports.
//!
//! It stands in the lane's user and mount namespaces, so that paths mean what they mean to the caller, but
//! not in its pid namespace: nothing inside can see it, signal it or trace it. It is started when the first
//! call arrives and holds one capability, CAP_SYS_PTRACE in the lane's own user namespace, to look at callers;
//! while it moves entries it holds CAP_DAC_OVERRIDE there too, which an owner does not need but for closed
//! directories. When it is killed, the next one finishes its work and answers the call that still waits.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::desk::Desk;
use kernel::process::{self, Child, Forked, Namespaces};
use kernel::seccomp::{self, Notification, Reply};
use kernel::{Errno, fdpass};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};

use crate::connects::Connects;
use crate::error::{Result, Stage, Step as _};
use crate::gate::Keeper;
use crate::rename::{self, Carried, End, Journal, Slot};
use crate::seen::Seen;
use crate::spawn::Handles;
use crate::trace;

/// The notifier, seen from the supervisor.
#[derive(Debug)]
pub struct Notifier {
    process: Child,
    socket: OwnedFd,
}

/// The listeners of a lane with the calls that were taken from them. It lives in the supervisor, so that no call
/// is orphaned while a notifier is started again.
#[derive(Debug)]
pub struct Listeners {
    open: Vec<Listener>,
    desk: Desk,
    /// Notifiers that ended over the same calls.
    deaths: u32,
    /// Those calls: the sum of their ids.
    died_over: u64,
}

/// One listener and its place on the desk.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    pub(crate) slot: u32,
}

/// Listeners that a lane may have at a time.
const MOST_LISTENERS: u32 = 16 << 10;

/// After so many deaths in a row a call is not tried again; after twice as many nobody listens any more.
const MOST_DEATHS: u32 = 4;

impl Listeners {
    /// None yet.
    pub fn new() -> Result<Listeners> {
        let desk = Desk::new(MOST_LISTENERS).step(Stage::Supervise, "make the desk of calls")?;
        Ok(Listeners { open: Vec::new(), desk, deaths: 0, died_over: 0 })
    }

    /// One more; a notifier and a gate that run already get it too.
    pub(crate) fn add(
        &mut self,
        fd: OwnedFd,
        notifier: Option<&Notifier>,
        keeper: Option<&Keeper>,
    ) -> Result<()> {
        let slot = (0..self.desk.places())
            .find(|slot| self.open.iter().all(|listener| listener.slot != *slot))
            .ok_or_else(|| kernel::Error::new("desk", "listeners", Errno::MFILE))
            .step(Stage::Supervise, "find a place for a listener")?;
        self.desk.clear(slot).step(Stage::Supervise, "find a place for a listener")?;
        if let Some(keeper) = keeper {
            keeper.tell(slot, &fd);
        }
        if let Some(notifier) = notifier {
            fdpass::send(&notifier.socket, &slot.to_le_bytes(), &[fd.as_fd()])
                .step(Stage::Supervise, "hand a listener over")?;
        }
        self.open.push(Listener { fd, slot });
        Ok(())
    }

    /// Every listener, to be waited for.
    pub fn fds(&self) -> impl Iterator<Item = &OwnedFd> {
        self.open.iter().map(|listener| &listener.fd)
    }

    /// Tells a gate of all of them.
    pub(crate) fn introduce(&self, keeper: &Keeper) {
        for listener in &self.open {
            keeper.tell(listener.slot, &listener.fd);
        }
    }

    /// Drops those behind which no task is left.
    pub fn sweep(&mut self) {
        self.open.retain(|listener| !is_dead(&listener.fd));
    }

    /// A notifier ended by itself: another one, as long as there is hope and somebody to listen to.
    pub(crate) fn restart(
        &mut self,
        handles: &Handles,
        journal_dir: &OwnedFd,
        keeper: Option<&Keeper>,
    ) -> Result<Option<Notifier>> {
        let calls = self.open.iter().filter_map(|listener| self.desk.read(listener.slot).ok()?);
        let calls = calls.fold(0u64, |sum, noted| sum.wrapping_add(noted.call.id));
        self.deaths = if calls == self.died_over { self.deaths + 1 } else { 1 };
        self.died_over = calls;
        self.sweep();
        if self.deaths > 2 * MOST_DEATHS {
            // Without a listener such a call is ENOSYS, which is better than to wait for ever.
            self.open.clear();
        }
        if self.open.is_empty() {
            Ok(None)
        } else {
            Notifier::start(handles, journal_dir, self, keeper.map(Keeper::line)).map(Some)
        }
    }
}

/// True where no task is left behind a listener.
pub(crate) fn is_dead(listener: &OwnedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).is_ok()
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

impl Notifier {
    /// Starts the notifier of a lane. `journal_dir` is a directory outside the lane; `gate` is where connects go.
    pub fn start(
        handles: &Handles,
        journal_dir: &OwnedFd,
        listeners: &Listeners,
        gate: Option<BorrowedFd<'_>>,
    ) -> Result<Notifier> {
        let (ours, theirs) = fdpass::pair().step(Stage::Supervise, "make the notifier's channel")?;
        match process::fork().step(Stage::Supervise, "fork the notifier")? {
            Forked::Parent(process) => Ok(Notifier { process, socket: ours }),
            Forked::Child => {
                drop(ours);
                let _ = run(handles, journal_dir, listeners, &theirs, gate);
                process::exit_now(0)
            }
        }
    }

    /// Readable when it has something to tell or is gone.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What it tells. `None` when it is gone.
    pub fn hear(&self) -> Option<Told> {
        let mut buffer = [0u8; 16 << 10];
        let (n, _) = fdpass::receive(&self.socket, &mut buffer).ok()??;
        match buffer[..n].split_first()? {
            (b'c', carried) => decode(carried).map(Told::Carried),
            (_, seen) => Seen::decode(seen).map(Told::Seen),
        }
    }

    /// Ends it: a rename in flight is finished first, so that the tree is whole. What it has yet to tell is told.
    pub fn end(self, told: &mut dyn FnMut(Told)) {
        let Notifier { process, socket } = &self;
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        loop {
            let mut fds = [PollFd::new(socket, PollFlags::IN)];
            if rustix::event::poll(&mut fds, Some(&patience)) == Ok(0) {
                // The journal is there for the next command.
                let _ = process::kill_pidfd(&process.pidfd, rustix::process::Signal::KILL);
            }
            match self.hear() {
                Some(last) => told(last),
                None => break,
            }
        }
        let _ = process::wait(process::Which::Pidfd(process.pidfd.as_fd()), true, false);
    }

    /// Waits for its end, after its socket closed.
    pub fn reap(&self) {
        let _ = process::wait(process::Which::Pidfd(self.process.pidfd.as_fd()), true, false);
    }
}

/// What a notifier has to tell.
#[derive(Debug)]
pub enum Told {
    /// A rename that it carried out.
    Carried(Carried),
    /// Something for the record.
    Seen(Seen),
}

fn encode(carried: &Carried) -> Vec<u8> {
    let mut bytes = vec![b'c'];
    bytes.extend_from_slice(&carried.entries.to_le_bytes());
    bytes.extend_from_slice(&carried.millis.to_le_bytes());
    bytes.extend_from_slice(&(carried.from.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&carried.from);
    bytes.extend_from_slice(&carried.to);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Carried> {
    let entries = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let millis = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let len = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?) as usize;
    Some(Carried {
        from: bytes.get(20..20 + len)?.to_vec(),
        to: bytes.get(20 + len..)?.to_vec(),
        entries,
        millis,
    })
}

fn run(
    handles: &Handles,
    journal_dir: &OwnedFd,
    listeners: &Listeners,
    socket: &OwnedFd,
    gate: Option<BorrowedFd<'_>>,
) -> Result<()> {
    process::die_with_parent().step(Stage::Supervise, "die with the supervisor")?;
    // A deep tree needs two descriptors a level.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: limit.maximum, ..limit },
    );
    let journal = enter(handles, journal_dir)?;
    let mut keep: Vec<BorrowedFd<'_>> = listeners.fds().map(|fd| fd.as_fd()).collect();
    let journal_fds = journal.fds();
    keep.extend(journal_fds);
    keep.push(socket.as_fd());
    keep.extend(gate);
    process::close_others(&keep).step(Stage::Supervise, "close what the supervisor holds")?;
    let mut own = Vec::new();
    for Listener { fd, slot } in &listeners.open {
        let cloned = fd.try_clone().map_err(|error| kernel::Error::from_io("dup", "", &error));
        own.push(Listener { fd: cloned.step(Stage::Supervise, "keep a listener")?, slot: *slot });
    }
    let connects = Connects::new(gate);
    let retries = listeners.deaths < MOST_DEATHS;
    let mut hands = Hands { journal, desk: &listeners.desk, socket, retries, connects };
    hands.settle(&own)?;
    hands.serve(own)
}

/// Enters the lane and keeps only what is needed to look at callers.
fn enter(handles: &Handles, journal_dir: &OwnedFd) -> Result<Journal> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |errno| kernel::Error::new("open", "/proc", errno);
    let proc =
        rustix::fs::open("/proc", flags, Mode::empty()).map_err(open).step(Stage::Supervise, "open /proc")?;
    let dir = journal_dir
        .try_clone()
        .map_err(|error| kernel::Error::from_io("dup", "", &error))
        .step(Stage::Supervise, "keep the journal's directory")?;
    for (kind, fd) in &handles.fds {
        if *kind == Namespaces::USER || *kind == Namespaces::MOUNT {
            process::join_namespace(fd, *kind).step(Stage::Supervise, "enter the lane's view")?;
        }
    }
    kernel::privilege::keep_only(rename::POWER).step(Stage::Supervise, "drop capabilities")?;
    kernel::privilege::not_dumpable().step(Stage::Supervise, "shut the notifier to tracing")?;
    process::die_with_parent().step(Stage::Supervise, "die with the supervisor")?;
    rustix::process::umask(Mode::empty());
    Ok(Journal::new(dir, proc))
}

/// What a notifier works with.
struct Hands<'s> {
    journal: Journal,
    desk: &'s Desk,
    socket: &'s OwnedFd,
    /// A call that a killed notifier left is tried again.
    retries: bool,
    connects: Connects<'s>,
}

impl Hands<'_> {
    /// Finishes or rolls back what a killed notifier left, and answers the calls that still wait for it.
    fn settle(&mut self, listeners: &[Listener]) -> Result<()> {
        let recovered = kernel::privilege::raise(rename::POWER)
            .and_then(|_raised| rename::recover(&self.journal))
            .step(Stage::Supervise, "recover a rename");
        let (recovered, trouble) = match recovered {
            Ok(recovered) => (recovered, None),
            Err(error) => (None, Some(error)),
        };
        for Listener { fd, slot } in listeners {
            let Ok(Some(noted)) = self.desk.read(*slot) else { continue };
            let id = noted.call.id;
            if !seccomp::still_waits(fd, id) {
                continue;
            }
            if trace::is_ours(&noted.call) {
                self.report(fd, &noted.call);
                continue;
            }
            if Connects::is_one(&noted.call) {
                self.connects.take(fd, *slot, &noted.call);
                continue;
            }
            match recovered.filter(|(of, _)| *of == id).map(|(_, end)| end) {
                Some(End::Done) => self.reply(fd, id, Reply::Done(0), None),
                Some(End::Failed(errno)) => self.reply(fd, id, Reply::Fail(errno), None),
                _ if trouble.is_some() || !self.retries => self.reply(fd, id, Reply::Fail(Errno::XDEV), None),
                _ => {
                    self.clear();
                    let slot = Slot { desk: self.desk, number: *slot };
                    let (reply, carried) = rename::answer_again(fd, &noted, &slot, &self.journal);
                    self.reply(fd, id, reply, carried);
                }
            }
        }
        self.clear();
        // With a journal that nobody can make sense of, directory renames are EXDEV as in any overlay.
        if listeners.is_empty() { trouble.map_or(Ok(()), Err) } else { Ok(()) }
    }

    fn serve(&mut self, mut listeners: Vec<Listener>) -> Result<()> {
        loop {
            let mut fds = vec![PollFd::new(self.socket, PollFlags::IN)];
            // Nothing is ever heard on the line to the gate but its end.
            fds.extend(self.connects.gate().map(|gate| PollFd::from_borrowed_fd(gate, PollFlags::empty())));
            let before = fds.len();
            fds.extend(listeners.iter().map(|listener| PollFd::new(&listener.fd, PollFlags::IN)));
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(kernel::Error::new("poll", "", errno))
                        .step(Stage::Supervise, "wait for calls");
                }
            }
            let said: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
            drop(fds);
            if !said[0].is_empty() {
                let mut slot = [0u8; 4];
                match fdpass::receive(self.socket, &mut slot) {
                    Ok(Some((4, fds))) => {
                        let slot = u32::from_le_bytes(slot);
                        listeners.extend(fds.into_iter().map(|fd| Listener { fd, slot }));
                    }
                    _ => return Ok(()),
                }
                continue;
            }
            if before == 2 && !said[1].is_empty() {
                self.connects.lose(&listeners);
                continue;
            }
            let mut gone = Vec::new();
            for (index, said) in said[before..].iter().enumerate() {
                if said.contains(PollFlags::IN) {
                    self.take(&listeners[index]);
                } else if said.intersects(PollFlags::HUP | PollFlags::ERR) {
                    // The last task behind this listener has ended.
                    gone.push(index);
                }
            }
            for index in gone.into_iter().rev() {
                listeners.swap_remove(index);
            }
        }
    }

    /// Takes one call and answers it.
    fn take(&mut self, listener: &Listener) {
        let Ok(Some(call)) = self.desk.receive(listener.slot, &listener.fd) else { return };
        if trace::is_ours(&call) {
            return self.report(&listener.fd, &call);
        }
        if Connects::is_one(&call) {
            return self.connects.take(&listener.fd, listener.slot, &call);
        }
        let slot = Slot { desk: self.desk, number: listener.slot };
        let (reply, carried) = rename::answer(&listener.fd, &call, &slot, &self.journal);
        self.reply(&listener.fd, call.id, reply, carried);
    }

    /// Answers a call that is only reported, and tells of it once the caller goes on.
    fn report(&self, listener: &OwnedFd, call: &Notification) {
        let (reply, seen) = trace::answer(self.journal.proc(), call);
        // What was read of the caller is its own only as long as it waits.
        let seen = seen.filter(|_| seccomp::still_waits(listener, call.id));
        let _ = seccomp::reply(listener, call.id, reply);
        if let Some(seen) = seen {
            let _ = fdpass::send(self.socket, &[b"s", seen.encode().as_slice()].concat(), &[]);
        }
    }

    fn reply(&self, listener: &OwnedFd, id: u64, reply: Reply, carried: Option<Carried>) {
        let _ = seccomp::reply(listener, id, reply);
        self.clear();
        if let Some(carried) = carried {
            let _ = fdpass::send(self.socket, &encode(&carried), &[]);
        }
    }

    /// Removes a journal whose call was answered.
    fn clear(&self) {
        let _ = self.journal.clear();
    }
}

/// Finishes or rolls back a rename that was in flight when a lane was killed. The lane's view stands again,
/// without a command; this runs inside its namespaces.
pub fn recover_renames(handles: &Handles, journal_dir: &OwnedFd) -> Result<()> {
    // It recovers before it serves: when it hears the end of the channel, that is done.
    Notifier::start(handles, journal_dir, &Listeners::new()?, None)?.end(&mut |_| {});
    if has_journal(journal_dir) {
        return Err(kernel::Error::new("rename", rename::NAME, Errno::BUSY))
            .step(Stage::Supervise, "recover a rename");
    }
    Ok(())
}

/// True where a rename was in flight when the lane was last killed.
pub fn has_journal(journal_dir: &OwnedFd) -> bool {
    let there = rustix::fs::Access::EXISTS;
    rustix::fs::accessat(journal_dir, rename::NAME, there, rustix::fs::AtFlags::empty()).is_ok()
}
