//! The gate: the process that answers for a lane's network, seen from the supervisor.
//!
//! What it does is not this crate's business: it is handed in as a [`Gatekeeper`]. It stands in the lane's user namespace
//! and in the host's network, outside the lane's pids, and is started when the first door is knocked at or the first call
//! comes. Invariant: when it is gone, nothing leaves the lane any more, and whoever still waits for it gets an error.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::process::{self, Child, Forked, Namespaces};
use kernel::{fdpass, line};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Result, Stage, Step as _};
use crate::spawn::Handles;

/// The port of names.
pub const NAMES: u16 = 53;
/// The port for clients that were told to use a proxy.
pub const PROXY: u16 = 3128;

/// What a lane's own network has of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doors {
    /// Ports of this machine's loopback that the lane reaches under the same number.
    pub host_ports: Vec<u16>,
}

/// What the process works with.
#[derive(Debug)]
pub struct Gate {
    /// Listening sockets of the lane's loopback with their ports: names by datagram, names by connection, the proxy, then
    /// ports of the host, some of them twice.
    pub doors: Vec<(u16, OwnedFd)>,
    /// The lane's network.
    pub network: OwnedFd,
    /// On which calls come.
    pub calls: OwnedFd,
    /// On which it tells what happens; each message goes to the hook as it is.
    pub report: OwnedFd,
}

/// Answers for a lane's network.
pub trait Gatekeeper: std::fmt::Debug {
    /// Descriptors that it holds; somebody who comes to one of them is a reason to start.
    fn holds(&self) -> Vec<BorrowedFd<'_>>;
    /// Answers until nobody is left, or tells why it cannot. Runs in a process of its own, which ends with it.
    fn serve(&self, gate: Gate) -> Option<String>;
}

/// The process.
#[derive(Debug)]
pub(crate) struct Keeper {
    process: Child,
    line: OwnedFd,
    report: OwnedFd,
}

/// Before the one message that is for the supervisor: why nobody answers any more.
const TROUBLE: char = '!';

/// What is heard of it.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something for the hook.
    Told(Vec<u8>),
    /// Its last word.
    Trouble(String),
}

/// The longest message.
const LONGEST: usize = 64 << 10;

/// Opens the doors in this network namespace, by pid 1 while it may.
pub(crate) fn open_doors(doors: &Doors) -> kernel::Result<Vec<(u16, OwnedFd)>> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    let open = |address: IpAddr, port: u16, kind: SocketType| -> kernel::Result<OwnedFd> {
        let at = SocketAddr::new(address, port);
        let asked = |call| move |errno| kernel::Error::new(call, format!("{at}"), errno);
        let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let socket =
            rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
                .map_err(asked("socket"))?;
        if at.is_ipv6() {
            rustix::net::sockopt::set_ipv6_v6only(&socket, true).map_err(asked("setsockopt"))?;
        }
        rustix::net::bind(&socket, &at).map_err(asked("bind"))?;
        if kind == SocketType::STREAM {
            rustix::net::listen(&socket, 4096).map_err(asked("listen"))?;
        }
        Ok(socket)
    };
    let four = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mut opened = vec![
        (NAMES, open(four, NAMES, SocketType::DGRAM)?),
        (NAMES, open(four, NAMES, SocketType::STREAM)?),
        (PROXY, open(four, PROXY, SocketType::STREAM)?),
    ];
    for port in &doors.host_ports {
        opened.push((*port, open(four, *port, SocketType::STREAM)?));
        // A kernel without IPv6 has lanes without it.
        if let Ok(socket) = open(Ipv6Addr::LOCALHOST.into(), *port, SocketType::STREAM) {
            opened.push((*port, socket));
        }
    }
    Ok(opened)
}

impl Keeper {
    /// Starts the process.
    pub(crate) fn start(handles: &Handles, gatekeeper: &dyn Gatekeeper) -> Result<Keeper> {
        let (line, calls) = fdpass::pair().step(Stage::Supervise, "make the line of calls")?;
        let (report, told) = fdpass::pair().step(Stage::Supervise, "make the gate's channel")?;
        match process::fork().step(Stage::Supervise, "fork the gate")? {
            Forked::Parent(process) => Ok(Keeper { process, line, report }),
            Forked::Child => {
                drop((line, report));
                let Ok(last_word) = told.try_clone() else { process::exit_now(0) };
                let trouble = match enter(handles, gatekeeper, (calls, told, &last_word)) {
                    Ok(gate) => gatekeeper.serve(gate),
                    Err(error) => Some(error.to_string()),
                };
                if let Some(mut trouble) = trouble {
                    trouble.truncate(1000);
                    let _ = fdpass::send(&last_word, format!("{TROUBLE}{trouble}").as_bytes(), &[]);
                }
                process::exit_now(0)
            }
        }
    }

    /// Where calls go.
    pub(crate) fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Readable when it has something to tell or is gone.
    pub(crate) fn report(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }

    /// True where there is something to hear now.
    pub(crate) fn has_more(&self) -> bool {
        let mut fds = [PollFd::new(&self.report, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)) == Ok(1)
    }

    /// What it tells; `None` when it is gone.
    pub(crate) fn hear(&self) -> Option<Heard> {
        let mut buffer = vec![0u8; LONGEST];
        let (n, _) = fdpass::receive(&self.report, &mut buffer).ok()??;
        buffer.truncate(n);
        match String::from_utf8(buffer) {
            Ok(text) if text.starts_with(TROUBLE) => Some(Heard::Trouble(text[1..].to_owned())),
            Ok(text) => Some(Heard::Told(text.into_bytes())),
            Err(error) => Some(Heard::Told(error.into_bytes())),
        }
    }

    /// Tells it of a listener.
    pub(crate) fn tell(&self, slot: u32, listener: &OwnedFd) {
        // One that is gone is heard of on its channel.
        let _ = line::say_listener(&self.line, slot, listener);
    }

    /// Ends it, and hears what it has still to tell.
    pub(crate) fn end(self, mut told: impl FnMut(&[u8])) {
        let Keeper { process, line, report } = self;
        drop(line);
        let mut buffer = vec![0u8; LONGEST];
        loop {
            let mut fds = [PollFd::new(&report, PollFlags::IN)];
            let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
            match rustix::event::poll(&mut fds, Some(&patience)) {
                Err(kernel::Errno::INTR) => continue,
                Ok(n) if n > 0 => {}
                _ => {
                    let _ = process::kill_pidfd(&process.pidfd, rustix::process::Signal::KILL);
                    break;
                }
            }
            match fdpass::receive(&report, &mut buffer) {
                Ok(Some((n, _))) => told(&buffer[..n]),
                _ => break,
            }
        }
        let _ = process::wait(process::Which::Pidfd(process.pidfd.as_fd()), true, false);
    }

    /// Waits for its end, after its channel closed.
    pub(crate) fn reap(&self) {
        let _ = process::wait(process::Which::Pidfd(self.process.pidfd.as_fd()), true, false);
    }
}

/// Enters the lane's user namespace and keeps what the gatekeeper works with.
fn enter(
    handles: &Handles,
    gatekeeper: &dyn Gatekeeper,
    (calls, report, last_word): (OwnedFd, OwnedFd, &OwnedFd),
) -> Result<Gate> {
    process::die_with_parent().step(Stage::Supervise, "die with the supervisor")?;
    let duplicate = |fd: &OwnedFd| {
        fd.try_clone()
            .map_err(|error| kernel::Error::from_io("dup", "", &error))
            .step(Stage::Supervise, "keep a door")
    };
    let mut doors = Vec::new();
    for (port, fd) in &handles.doors {
        doors.push((*port, duplicate(fd)?));
    }
    let network = handles.fds.iter().find(|(kind, _)| *kind == Namespaces::NET).map(|(_, fd)| fd);
    let network = network
        .map(duplicate)
        .transpose()?
        .ok_or_else(|| crate::error::Error::Vanished("the lane has no network of its own".into()))?;
    for (kind, fd) in &handles.fds {
        if *kind == Namespaces::USER {
            process::join_namespace(fd, *kind).step(Stage::Supervise, "enter the lane's user namespace")?;
        }
    }
    let mut keep = gatekeeper.holds();
    keep.extend(doors.iter().map(|(_, fd)| fd.as_fd()));
    keep.extend([network.as_fd(), calls.as_fd(), report.as_fd(), last_word.as_fd()]);
    process::close_others(&keep).step(Stage::Supervise, "close what the supervisor holds")?;
    kernel::privilege::not_dumpable().step(Stage::Supervise, "shut the gate to tracing")?;
    process::die_with_parent().step(Stage::Supervise, "die with the supervisor")?;
    Ok(Gate { doors, network, calls, report })
}
