//! The outer half: makes the namespaces with a fork, hears from the inside, joins a live lane.
//!
//! Invariant: either the inside said that everything stands, or [`Error`] names the step and nothing was
//! executed. The process that forks has one thread.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::fdpass;
use kernel::process::{self, Child, Forked, Namespaces, Status, Which};

use crate::error::{Error, Result, Stage, Step as _};
use crate::freeze::Group;
use crate::init::{self, Birth, HANDED_OUT};
use crate::leader::{self, Streams};
use crate::message::{FromInside, ToInside};
use crate::order::{self, Order};
use crate::plan::{Command, Mode, Op, Plan, Walls};

/// The namespaces of a live lane, ready to be joined.
#[derive(Debug)]
pub struct Handles {
    /// Each with its kind, in the order in which they are joined.
    pub fds: Vec<(Namespaces, OwnedFd)>,
    /// What pid 1 opened on the lane's own loopback, with the ports.
    pub doors: Vec<(u16, OwnedFd)>,
}

/// A leader with its channel: pid 1 of a lane, or the leader of a command that joined one.
#[derive(Debug)]
pub struct Inside {
    /// The leader process.
    pub leader: Child,
    /// The channel to it.
    pub channel: OwnedFd,
}

impl Inside {
    /// Says something to the leader; one that is gone hears nothing.
    pub fn tell(&self, message: ToInside) {
        let _ = fdpass::send(&self.channel, &message.encode(), &[]);
    }

    /// Has the first part of a plan built, its ground.
    pub fn build(&self, ground: &[Op]) -> Result<()> {
        let file = order::ops_to_file(ground)?;
        self.send(ToInside::Build, &[file.as_fd()])
    }

    /// Orders the rest of a plan whose ground pid 1 was told to build; then [`Inside::ready`] waits for the view.
    /// Pid 1 holds `hold` (the lane's lock) until it ends, so that nobody mounts the layers while they are
    /// still mounted. Where pid 1 is gone, [`Inside::ready`] tells why.
    pub fn order(&self, plan: &Plan, command: Option<&Command>, hold: &[BorrowedFd<'_>]) -> Result<()> {
        let ops = plan.ops[plan.ground..].to_vec();
        let (walls, doors) = (plan.walls.clone(), plan.doors.clone());
        let file = Order { ops, walls, doors, command: command.cloned() }.to_file()?;
        let mut fds = vec![file.as_fd()];
        fds.extend_from_slice(hold);
        self.send(ToInside::Order, &fds)
    }

    /// Sends what must arrive, unless pid 1 is gone: then whoever waits for it is told why.
    fn send(&self, message: ToInside, fds: &[BorrowedFd<'_>]) -> Result<()> {
        match fdpass::send(&self.channel, &message.encode(), fds) {
            Err(error) if error.errno != kernel::Errno::PIPE && error.errno != kernel::Errno::CONNRESET => {
                Err(error).step(Stage::Mounts, "send the order to pid 1")
            }
            _ => Ok(()),
        }
    }

    /// The next message; `None` when the leader is gone.
    pub fn hear(&self) -> Result<Option<(FromInside, Vec<OwnedFd>)>> {
        let mut buffer = vec![0u8; 8192];
        let Some((n, fds)) =
            fdpass::receive(&self.channel, &mut buffer).step(Stage::Supervise, "hear from the inside")?
        else {
            return Ok(None);
        };
        match FromInside::decode(&buffer[..n]) {
            Some(message) => Ok(Some((message, fds))),
            None => Err(Error::Vanished(format!("it said {}", buffer[..n.min(64)].escape_ascii()))),
        }
    }

    /// Waits until the view stands.
    pub fn ready(&self, plan: &Plan) -> Result<Handles> {
        let mut doors = Vec::new();
        let mut heard = self.hear()?;
        while let Some((FromInside::Doors(ports), fds)) = heard {
            doors.extend(ports.into_iter().zip(fds));
            heard = self.hear()?;
        }
        match heard {
            Some((FromInside::Ready, fds)) => {
                let kinds =
                    HANDED_OUT.iter().map(|(kind, _)| *kind).filter(|kind| plan.namespaces.has(*kind));
                Ok(Handles { fds: kinds.zip(fds).collect(), doors })
            }
            Some((FromInside::Failed { stage, errno, step, cause }, _)) => {
                self.reap();
                Err(Error::Step { stage, step, cause, errno })
            }
            Some((other, _)) => Err(Error::Vanished(format!("it said {other:?} first"))),
            None => Err(Error::Vanished(format!("{:?}", self.reap()))),
        }
    }

    /// Waits for the leader itself to end.
    pub fn reap(&self) -> Option<Status> {
        process::wait(Which::Pidfd(self.leader.pidfd.as_fd()), true, false)
            .ok()
            .flatten()
            .map(|(_, status)| status)
    }
}

/// Forks pid 1 of a new lane, which makes the namespaces, builds what it is told to ([`Inside::build`]) and waits for
/// the order ([`Inside::order`]). The caller goes on at once. The lane goes on until it is told to end or its
/// supervisor is gone.
pub fn begin(mode: Mode, namespaces: Namespaces, group: Option<&Group>, streams: Streams) -> Result<Inside> {
    let (ours, theirs) = fdpass::pair().step(Stage::Namespaces, "make the channel")?;
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // Those that the first process of a lane must be born in; it makes the others itself, while we go on.
    let born = namespaces.only(Namespaces::USER.with(Namespaces::PID));
    let forked = match group {
        Some(group) => process::fork_into_group(born, group.group()),
        None => process::fork_into(born),
    };
    match forked.step(Stage::Namespaces, "make the namespaces")? {
        Forked::Parent(leader) => Ok(Inside { leader, channel: ours }),
        Forked::Child => {
            drop(ours);
            let birth = Birth { mode, namespaces, streams: &streams, ids };
            if namespaces == Namespaces::default() {
                crate::bare::main(&theirs, &birth)
            }
            init::main(&theirs, &birth)
        }
    }
}

/// Forks pid 1 of a new lane whose plan is known.
pub fn spawn(
    plan: &Plan,
    command: Option<&Command>,
    streams: Streams,
    hold: &[BorrowedFd<'_>],
) -> Result<Inside> {
    let inside = begin(plan.mode, plan.namespaces, None, streams)?;
    inside.build(&plan.ops[..plan.ground])?;
    inside.order(plan, command, hold)?;
    Ok(inside)
}

/// Forks a leader that joins a live lane and starts `command` there. `lane`: its directory on the host.
pub fn join(
    lane: BorrowedFd<'_>,
    handles: &Handles,
    command: &Command,
    streams: Streams,
    walls: &Walls,
) -> Result<Inside> {
    let (ours, theirs) = fdpass::pair().step(Stage::Namespaces, "make the channel")?;
    // A leader that the group does not take is stopped by himself, and so is his command.
    let forked = match crate::freeze::group::of(lane) {
        Some(group) => process::fork_into_group(Namespaces::default(), &group),
        None => process::fork(),
    };
    match forked.step(Stage::Namespaces, "fork the leader")? {
        Forked::Parent(leader) => Ok(Inside { leader, channel: ours }),
        Forked::Child => {
            drop(ours);
            let channel = theirs;
            let started = crate::limits::enter(lane)
                .and_then(|()| enter(handles))
                .and_then(|()| leader::start(&channel, command, &streams, walls, true));
            drop(streams);
            match started {
                Ok(started) => stand_by(&channel, started.pid),
                Err(error) => {
                    let _ = fdpass::send(&channel, &FromInside::failed(&error).encode(), &[]);
                    process::exit_now(125)
                }
            }
        }
    }
}

fn enter(handles: &Handles) -> Result<()> {
    process::die_with_parent().step(Stage::Namespaces, "die with the client")?;
    // By this name it is known to belong to the command inside.
    rustix::thread::set_name(crate::freeze::LEADER)
        .map_err(|errno| kernel::Error::new("prctl", "PR_SET_NAME", errno))
        .step(Stage::Namespaces, "take a name")?;
    process::close_on_exec_from(3).step(Stage::Namespaces, "close what the caller left open")?;
    for (kind, fd) in &handles.fds {
        process::join_namespace(fd, *kind).step(Stage::Namespaces, "join the lane's namespaces")?;
    }
    // Joining the mount namespace has put root and working directory at the lane's root.
    kernel::privilege::own_keyring();
    kernel::privilege::not_dumpable().step(Stage::Walls, "shut the leader to tracing")?;
    kernel::privilege::no_new_privs().step(Stage::Walls, "no_new_privs")?;
    kernel::privilege::lock_down_root().step(Stage::Walls, "empty the bounding set")?;
    kernel::privilege::drop_capabilities().step(Stage::Walls, "drop capabilities")?;
    process::die_with_parent().step(Stage::Walls, "die with the client")
}

/// The leader of a joined command: passes signals on and tells of its end.
fn stand_by(channel: &OwnedFd, command: i32) -> ! {
    use rustix::event::{PollFd, PollFlags};
    let Ok(children) = kernel::signal::block_and_watch(&[rustix::process::Signal::CHILD.as_raw()]) else {
        process::exit_now(125)
    };
    loop {
        while let Ok(Some((pid, status))) = process::wait(Which::Any, false, true) {
            if pid == command {
                let _ = fdpass::send(channel, &FromInside::Changed(status).encode(), &[]);
                if matches!(status, Status::Exited(_) | Status::Killed(_)) {
                    process::exit_now(0)
                }
            }
        }
        let mut fds = [PollFd::new(channel, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, None);
        let said = fds[0].revents();
        while let Ok(Some(_)) = kernel::signal::next(&children) {}
        let mut buffer = [0u8; 64];
        if said.contains(PollFlags::IN)
            && let Ok(Some((n, _))) = fdpass::receive(channel, &mut buffer)
        {
            let signal = match ToInside::decode(&buffer[..n]) {
                Some(ToInside::Signal(signal)) => signal,
                Some(ToInside::Terminate) => rustix::process::Signal::TERM.as_raw(),
                _ => rustix::process::Signal::KILL.as_raw(),
            };
            let _ = process::kill(-command, signal);
        } else if said.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            let _ = process::kill(-command, rustix::process::Signal::KILL.as_raw());
            process::exit_now(0)
        }
    }
}
