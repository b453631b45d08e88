//! The notifier: a process of ours that answers the calls which a lane's filter reports.
//!
//! It stands in the lane's user and mount namespaces, so that paths mean what they mean to the caller, but
//! not in its pid namespace: nothing inside can see it, signal it or trace it. It is started when the first
//! call arrives and holds one capability, CAP_SYS_PTRACE in the lane's own user namespace, to look at callers.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::process::{self, Child, Forked, Namespaces};
use kernel::seccomp::{self, Reply};
use kernel::{Errno, fdpass};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};

use crate::error::{Result, Stage, Step as _};
use crate::rename::{self, Carried, Journal};
use crate::spawn::Handles;

/// The notifier, seen from the supervisor.
#[derive(Debug)]
pub struct Notifier {
    process: Child,
    socket: OwnedFd,
}

impl Notifier {
    /// Starts the notifier of a lane. `journal_dir` is a directory outside the lane.
    pub fn start(handles: &Handles, journal_dir: &OwnedFd, listeners: &[OwnedFd]) -> Result<Notifier> {
        let (ours, theirs) = fdpass::pair().step(Stage::Supervise, "make the notifier's channel")?;
        match process::fork().step(Stage::Supervise, "fork the notifier")? {
            Forked::Parent(process) => Ok(Notifier { process, socket: ours }),
            Forked::Child => {
                drop(ours);
                let _ = run(handles, journal_dir, listeners, &theirs);
                process::exit_now(0)
            }
        }
    }

    /// Hands it one more listener.
    pub fn add(&self, listener: &OwnedFd) -> Result<()> {
        fdpass::send(&self.socket, b"L", &[listener.as_fd()]).step(Stage::Supervise, "hand a listener over")
    }

    /// Readable when it has something to tell or is gone.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What it tells: a rename that it carried out. `None` when it is gone.
    pub fn hear(&self) -> Option<Carried> {
        let mut buffer = vec![0u8; 16 << 10];
        let (n, _) = fdpass::receive(&self.socket, &mut buffer).ok()??;
        decode(&buffer[..n])
    }

    /// Ends it and waits for its end.
    pub fn end(self) {
        let _ = process::kill_pidfd(&self.process.pidfd, rustix::process::Signal::KILL);
        let _ = process::wait(process::Which::Pidfd(self.process.pidfd.as_fd()), true, false);
    }

    /// Waits for its end, after its socket closed.
    pub fn reap(&self) {
        let _ = process::wait(process::Which::Pidfd(self.process.pidfd.as_fd()), true, false);
    }
}

fn encode(carried: &Carried) -> Vec<u8> {
    let mut bytes = carried.entries.to_le_bytes().to_vec();
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
    Some(Carried { from: bytes.get(20..20 + len)?.to_vec(), to: bytes.get(20 + len..)?.to_vec(), entries, millis })
}

fn run(handles: &Handles, journal_dir: &OwnedFd, listeners: &[OwnedFd], socket: &OwnedFd) -> Result<()> {
    process::die_with_parent().step(Stage::Supervise, "die with the supervisor")?;
    let journal = enter(handles, journal_dir)?;
    let mut keep: Vec<BorrowedFd<'_>> = listeners.iter().map(|fd| fd.as_fd()).collect();
    let journal_fds = journal.fds();
    keep.extend(journal_fds);
    keep.push(socket.as_fd());
    process::close_others(&keep).step(Stage::Supervise, "close what the supervisor holds")?;
    let mut own = Vec::new();
    for listener in listeners {
        own.push(listener.try_clone().map_err(|e| kernel::Error::from_io("dup", "", &e)).step(Stage::Supervise, "keep a listener")?);
    }
    // A notifier that was killed half-way left its journal: finish, and answer the call if it still waits.
    if let Some((id, answer)) = rename::recover(&journal).step(Stage::Supervise, "recover a rename")? {
        let reply = answer.map_or_else(Reply::Fail, |()| Reply::Done(0));
        for listener in &own {
            let _ = seccomp::reply(listener, id, reply);
        }
    }
    serve(&journal, own, socket)
}

/// Enters the lane and keeps only what is needed to look at callers.
fn enter(handles: &Handles, journal_dir: &OwnedFd) -> Result<Journal> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |errno| kernel::Error::new("open", "/proc", errno);
    let proc = rustix::fs::open("/proc", flags, Mode::empty()).map_err(open).step(Stage::Supervise, "open /proc")?;
    let dir = journal_dir
        .try_clone()
        .map_err(|error| kernel::Error::from_io("dup", "", &error))
        .step(Stage::Supervise, "keep the journal's directory")?;
    for (kind, fd) in &handles.fds {
        if *kind == Namespaces::USER || *kind == Namespaces::MOUNT {
            process::join_namespace(fd, *kind).step(Stage::Supervise, "enter the lane's view")?;
        }
    }
    kernel::privilege::keep_only(rustix::thread::CapabilitySet::empty()).step(Stage::Supervise, "drop capabilities")?;
    kernel::privilege::not_dumpable().step(Stage::Supervise, "shut the notifier to tracing")?;
    process::die_with_parent().step(Stage::Supervise, "die with the supervisor")?;
    rustix::process::umask(Mode::empty());
    Ok(Journal::new(dir, proc))
}

fn serve(journal: &Journal, mut listeners: Vec<OwnedFd>, socket: &OwnedFd) -> Result<()> {
    loop {
        let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
        fds.extend(listeners.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(kernel::Error::new("poll", "", errno)).step(Stage::Supervise, "wait for calls"),
        }
        let said: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        if !said[0].is_empty() {
            let mut buffer = [0u8; 8];
            match fdpass::receive(socket, &mut buffer) {
                Ok(Some((_, fds))) => listeners.extend(fds),
                _ => return Ok(()),
            }
            continue;
        }
        let mut gone = Vec::new();
        for (index, said) in said[1..].iter().enumerate() {
            if said.contains(PollFlags::IN) {
                if let Ok(Some(call)) = seccomp::receive(&listeners[index]) {
                    let (reply, carried) = rename::answer(&listeners[index], &call, journal.proc(), journal);
                    let _ = seccomp::reply(&listeners[index], call.id, reply);
                    if let Some(carried) = carried {
                        let _ = fdpass::send(socket, &encode(&carried), &[]);
                    }
                }
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

/// Finishes or rolls back a rename that was in flight when a lane was killed. `root` is the lane's view,
/// mounted again; runs inside the lane's namespaces.
pub fn recover_renames(handles: &Handles, journal_dir: &OwnedFd) -> Result<()> {
    let empty: [OwnedFd; 0] = [];
    let notifier = Notifier::start(handles, journal_dir, &empty)?;
    // It recovers before it serves: when it hears the end of the channel, that is done.
    let Notifier { process, socket } = notifier;
    drop(socket);
    let _ = process::wait(process::Which::Pidfd(process.pidfd.as_fd()), true, false);
    Ok(())
}

/// True where a rename was in flight when the lane was last killed.
pub fn has_journal(journal_dir: &OwnedFd) -> bool {
    rustix::fs::accessat(journal_dir, "rename", rustix::fs::Access::EXISTS, rustix::fs::AtFlags::empty()).is_ok()
}
