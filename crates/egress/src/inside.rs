//! Sockets of the lane's own network, made by a thread that stands in it.
//!
//! Invariant: that thread makes sockets and nothing else; every other socket of this process is one of the host's
//! network, and none of those ever gets into the lane.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use kernel::process::Namespaces;
use kernel::{Errno, Error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// The way to the lane's own network.
#[derive(Debug)]
pub(crate) struct Inside {
    ask: Sender<bool>,
    hear: Receiver<Result<OwnedFd, Errno>>,
}

/// The sockets to which a lane's own sockets are connected in place of the outside.
#[derive(Debug)]
pub(crate) struct Places {
    /// Takes connections.
    pub(crate) open: OwnedFd,
    /// Where it listens.
    pub(crate) open_at: SocketAddr,
    /// Listens and hears nothing: held so that whoever connects waits.
    _deaf: OwnedFd,
    /// Where that is.
    pub(crate) deaf_at: SocketAddr,
}

fn socket(is_six: bool) -> Result<OwnedFd, Errno> {
    let family = if is_six { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// What the thread has first: both families' places; a kernel without IPv6 has lanes without it.
type Begun = Result<(Places, Option<Places>), Errno>;

impl Inside {
    /// Starts the thread, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN for a moment and then gives up all it has.
    pub(crate) fn enter(network: OwnedFd) -> kernel::Result<(Inside, Places, Option<Places>)> {
        let (ask, asked) = channel::<bool>();
        let (answer, hear) = channel();
        let (tell, begun) = channel::<Begun>();
        let body = move || {
            let entered = kernel::process::join_namespace(&network, Namespaces::NET);
            drop(network);
            let places =
                entered.map_err(|error| error.errno).and_then(|()| Ok((places(false)?, places(true).ok())));
            let dropped = kernel::privilege::drop_capabilities().map_err(|error| error.errno);
            if tell.send(places.and_then(|places| dropped.map(|()| places))).is_err() {
                return;
            }
            while let Ok(is_six) = asked.recv() {
                if answer.send(socket(is_six)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("lane-network".into())
            .stack_size(256 << 10)
            .spawn(body)
            .map_err(|error| Error::from_io("clone", "a thread", &error))?;
        let (four, six) = begun
            .recv()
            .unwrap_or(Err(Errno::PIPE))
            .map_err(|errno| Error::new("listen", "the lane's own network", errno))?;
        Ok((Inside { ask, hear }, four, six))
    }

    /// A socket of the lane's network, which does not block.
    pub(crate) fn socket(&self, is_six: bool) -> Result<OwnedFd, Errno> {
        self.ask.send(is_six).map_err(|_| Errno::PIPE)?;
        self.hear.recv().unwrap_or(Err(Errno::PIPE))
    }

    /// Answers a socket that waits at the deaf place: connects to it from there, as it does to us (the simultaneous
    /// open of RFC 9293, section 3.5).
    pub(crate) fn meet(&self, deaf_at: SocketAddr, peer: SocketAddr) -> Result<OwnedFd, Errno> {
        let socket = self.socket(deaf_at.is_ipv6())?;
        sockopt::set_socket_reuseport(&socket, true)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &deaf_at)?;
        match rustix::net::connect(&socket, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }
}

/// Both places for one family, in the network of this thread.
fn places(is_six: bool) -> Result<Places, Errno> {
    let loopback: IpAddr = if is_six { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let listen = |deaf: bool| -> Result<(OwnedFd, SocketAddr), Errno> {
        let socket = socket(is_six)?;
        if deaf {
            sockopt::set_socket_reuseport(&socket, true)?;
            kernel::deaf::drop_everything(&socket).map_err(|error| error.errno)?;
        }
        rustix::net::bind(&socket, &SocketAddr::new(loopback, 0))?;
        rustix::net::listen(&socket, 4096)?;
        let at = address_of(&socket)?;
        Ok((socket, at))
    };
    let (open, open_at) = listen(false)?;
    let (deaf, deaf_at) = listen(true)?;
    Ok(Places { open, open_at, _deaf: deaf, deaf_at })
}

/// The address of a socket's own end.
pub(crate) fn address_of(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(socket)?).map_err(|_| Errno::AFNOSUPPORT)
}
