//! Pid 1 of a lane: builds the view, gives up privilege, starts the command, reaps, and dies with its parent.
//!
//! Runs in the child after the fork and never returns. Invariants: it cannot be traced or read from inside;
//! it holds no capability once the view stands; when the channel to the supervisor closes, everything
//! inside is killed.

use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use kernel::process::{self, Namespaces, Status, Which};
use kernel::{Errno, fdpass, signal};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode as FsMode, OFlags};
use rustix::process::Signal;

use crate::error::{Result, Stage, Step as _};
use crate::gate;
use crate::leader::{self, Started, Streams};
use crate::limits::Own;
use crate::message::{FromInside, ToInside};
use crate::order::{self, Order};
use crate::plan::Mode;
use crate::rootfs::{self, Rootfs};
use crate::secret::Planted;

/// How long what is left of a lane may take after TERM.
const GRACE: Duration = Duration::from_secs(2);

/// The namespaces whose descriptors are handed out, in this order, with their names in /proc/PID/ns.
pub(crate) const HANDED_OUT: [(Namespaces, &str); 7] = [
    (Namespaces::USER, "user"),
    (Namespaces::MOUNT, "mnt"),
    (Namespaces::PID, "pid_for_children"),
    (Namespaces::IPC, "ipc"),
    (Namespaces::UTS, "uts"),
    (Namespaces::CGROUP, "cgroup"),
    (Namespaces::NET, "net"),
];

/// What pid 1 was born with.
pub(crate) struct Birth<'b> {
    pub(crate) mode: Mode,
    pub(crate) namespaces: Namespaces,
    pub(crate) streams: &'b Streams,
    pub(crate) ids: (u32, u32),
}

/// Becomes pid 1. Never returns.
pub(crate) fn main(channel: &OwnedFd, birth: &Birth<'_>) -> ! {
    match come_up(channel, birth) {
        // What it holds it holds as long as it lives.
        Ok((started, planted, _hold)) => stand_by(channel, started, planted),
        Err(error) => {
            let _ = fdpass::send(channel, &FromInside::failed(&error).encode(), &[]);
            process::exit_now(125)
        }
    }
}

/// The command, its secrets, and what is held.
type Up = (Option<Started>, Option<Planted>, Vec<OwnedFd>);

fn come_up(channel: &OwnedFd, birth: &Birth<'_>) -> Result<Up> {
    process::die_with_parent().step(Stage::Namespaces, "die with the supervisor")?;
    signal::block_all().step(Stage::Namespaces, "block signals")?;
    let mut keep = vec![channel.as_fd()];
    keep.extend(birth.streams.given.iter().flatten().map(|fd| fd.as_fd()));
    process::close_others(&keep).step(Stage::Namespaces, "close what the caller left open")?;
    let namespaces = birth.namespaces;
    if namespaces.has(Namespaces::USER) {
        map_ids(birth.ids).step(Stage::Namespaces, "map the caller's ids")?;
    }
    let network = namespaces.has(Namespaces::NET).then(kernel::netns::begin).transpose();
    let network = network.step(Stage::Namespaces, "make the network namespace")?;
    let made_at_once = namespaces.without(Namespaces::USER.with(Namespaces::PID).with(Namespaces::NET));
    process::unshare(made_at_once).step(Stage::Namespaces, "make the namespaces")?;

    let mut view = rootfs::begin()?;
    let Some((order, hold)) = hear_order(channel, &mut view)? else { process::exit_now(0) };

    view.build(&order.ops)?;

    if let Some(network) = network {
        network.join().step(Stage::Namespaces, "make the network namespace")?;
    }
    let doors = match &order.doors {
        Some(doors) => {
            gate::open_doors(doors).step(Stage::Namespaces, "open the doors of the lane's network")?
        }
        None => Vec::new(),
    };

    let handles = handles(namespaces)?;
    let planted = match &order.command {
        Some(command) => view.plant(&command.secrets)?,
        None => None,
    };
    view.enter()?;

    if birth.mode == Mode::User && !order.walls.nest {
        // A second wall beside the filter: no user namespace below this one.
        write_proc("/proc/sys/user/max_user_namespaces", b"0")
            .step(Stage::Walls, "shut nested user namespaces")?;
    }
    if let Some(most) = Own::of(&order.walls.limits).pid_max {
        write_proc("/proc/sys/kernel/pid_max", most.to_string().as_bytes())
            .step(Stage::Walls, "limit the process ids")?;
    }
    kernel::privilege::own_keyring();
    kernel::privilege::not_dumpable().step(Stage::Walls, "shut pid 1 to tracing")?;
    kernel::privilege::no_new_privs().step(Stage::Walls, "no_new_privs")?;
    kernel::privilege::lock_down_root().step(Stage::Walls, "empty the bounding set")?;
    kernel::privilege::drop_capabilities().step(Stage::Walls, "drop capabilities")?;
    // capset and securebits do not clear the death signal, but an id change would: say it again.
    process::die_with_parent().step(Stage::Walls, "die with the supervisor")?;

    for some in doors.chunks(fdpass::MOST_FDS) {
        let fds: Vec<BorrowedFd<'_>> = some.iter().map(|(_, fd)| fd.as_fd()).collect();
        let ports = some.iter().map(|(port, _)| *port).collect();
        fdpass::send(channel, &FromInside::Doors(ports).encode(), &fds)
            .step(Stage::Walls, "hand the doors out")?;
    }
    drop(doors);
    let handles: Vec<BorrowedFd<'_>> = handles.iter().map(|fd| fd.as_fd()).collect();
    fdpass::send(channel, &FromInside::Ready.encode(), &handles)
        .step(Stage::Walls, "say that the view stands")?;
    let started = match &order.command {
        Some(command) if told_to_go(channel) => {
            Some(leader::start(channel, command, birth.streams, &order.walls, false)?)
        }
        Some(_) => process::exit_now(0),
        None => None,
    };
    Ok((started, planted, hold))
}

/// Descriptors of the namespaces, for those who join.
fn handles(namespaces: Namespaces) -> Result<Vec<OwnedFd>> {
    let mut handles = Vec::new();
    for (namespace, name) in HANDED_OUT {
        if namespaces.has(namespace) {
            // Of pid 1, the namespace of its children is its own.
            let path = format!("/proc/self/ns/{name}");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let handle = rustix::fs::open(&path, flags, FsMode::empty())
                .map_err(|errno| kernel::Error::new("open", &path, errno))
                .step(Stage::Namespaces, "open the namespaces")?;
            handles.push(handle);
        }
    }
    Ok(handles)
}

/// Builds what it is told to, until the order comes, with what is to be held; `None` where the supervisor has another
/// word, or is gone.
fn hear_order(channel: &OwnedFd, view: &mut Rootfs) -> Result<Option<(Order, Vec<OwnedFd>)>> {
    loop {
        let mut buffer = [0u8; 64];
        let heard = fdpass::receive(channel, &mut buffer).step(Stage::Mounts, "hear the order")?;
        let Some((n, mut fds)) = heard else { return Ok(None) };
        if fds.is_empty() {
            return Ok(None);
        }
        let file = fds.remove(0);
        match ToInside::decode(&buffer[..n]) {
            Some(ToInside::Build) => view.build(&order::ops_from_file(&file)?)?,
            Some(ToInside::Order) => return Ok(Some((Order::from_file(&file)?, fds))),
            _ => return Ok(None),
        }
    }
}

/// Waits for the supervisor's word that the run is on record; false where it has another word, or is gone.
fn told_to_go(channel: &OwnedFd) -> bool {
    let mut buffer = [0u8; 64];
    let heard = fdpass::receive(channel, &mut buffer);
    matches!(heard, Ok(Some((n, _))) if ToInside::decode(&buffer[..n]) == Some(ToInside::Go))
}

fn map_ids((uid, gid): (u32, u32)) -> kernel::Result<()> {
    write_proc("/proc/self/setgroups", b"deny")?;
    write_proc("/proc/self/uid_map", format!("{uid} {uid} 1").as_bytes())?;
    write_proc("/proc/self/gid_map", format!("{gid} {gid} 1").as_bytes())
}

fn write_proc(path: &str, bytes: &[u8]) -> kernel::Result<()> {
    let asked = |errno| kernel::Error::new("open", path, errno);
    let fd = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, FsMode::empty()).map_err(asked)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).map_err(|error| kernel::Error::from_io("write", path, &error))
}

/// Waits for the word to end: a command may end before others that joined the lane do.
fn stand_by(channel: &OwnedFd, started: Option<Started>, planted: Option<Planted>) -> ! {
    let Ok(children) = signal::block_and_watch(&[Signal::CHILD.as_raw()]) else { process::exit_now(125) };
    let mut command = started.map(|started| started.pid);
    let mut end: Option<Instant> = None;
    loop {
        reap(channel, &mut command, planted.as_ref());
        if end.is_some_and(|end| alone() || Instant::now() >= end) {
            let _ = process::kill(-1, Signal::KILL.as_raw());
            process::exit_now(0)
        }
        let mut fds = [PollFd::new(channel, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        // While things end, look again often: a process that is not our child tells us nothing.
        let timeout = end.map(|_| rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 });
        if let Err(errno) = rustix::event::poll(&mut fds, timeout.as_ref())
            && errno != Errno::INTR
        {
            process::exit_now(125)
        }
        let said = fds[0].revents();
        while let Ok(Some(_)) = signal::next(&children) {}
        if said.contains(PollFlags::IN) {
            let mut buffer = [0u8; 64];
            match fdpass::receive(channel, &mut buffer) {
                Ok(Some((n, _))) => match ToInside::decode(&buffer[..n]) {
                    Some(ToInside::Signal(number)) => {
                        if let Some(pid) = command {
                            let _ = process::kill(-pid, number);
                        }
                    }
                    Some(ToInside::Terminate) => end = end.or_else(|| Some(terminate())),
                    Some(ToInside::Go | ToInside::Build | ToInside::Order) => {}
                    Some(ToInside::Kill) | None => end = Some(Instant::now()),
                },
                Ok(None) | Err(_) => end = Some(Instant::now()),
            }
        } else if said.intersects(PollFlags::HUP | PollFlags::ERR) {
            end = Some(Instant::now());
        }
    }
}

/// Collects every change of a child's state, and tells of the command's.
fn reap(channel: &OwnedFd, command: &mut Option<i32>, planted: Option<&Planted>) {
    while let Ok(Some((pid, status))) = process::wait(Which::Any, false, true) {
        if Some(pid) != *command {
            continue;
        }
        let ended = matches!(status, Status::Exited(_) | Status::Killed(_));
        if let (true, Some(planted)) = (ended, planted) {
            // Before anybody hears of the end.
            planted.revoke();
        }
        let _ = fdpass::send(channel, &FromInside::Changed(status).encode(), &[]);
        if ended {
            *command = None;
            if alone() {
                let _ = fdpass::send(channel, &FromInside::Alone.encode(), &[]);
            }
        }
    }
}

/// Asks everything inside to end; what is stopped is woken so that it can.
fn terminate() -> Instant {
    if !alone() {
        let _ = process::kill(-1, Signal::TERM.as_raw());
        let _ = process::kill(-1, Signal::CONT.as_raw());
    }
    Instant::now() + GRACE
}

/// True where no process but this one is left inside.
fn alone() -> bool {
    process::kill(-1, 0).is_err_and(|error| error.errno == Errno::SRCH)
}
