//! Sockets on which the watch of a lane is asked for snapshots: one for the host, one that the lane's view carries.
//!
//! Who is inside can send text and hears one word: nothing that is sent there can be taken for another request, because
//! no other is understood. Invariant: a peer never blocks the watch. Each says one thing and hears one answer; who is
//! slow, and who comes when too many wait, is dropped.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use kernel::{Errno, fdpass};
use rustix::fs::AtFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{Result, Stage, Step as _};

/// The host's socket, in the lane's directory.
pub const OUTSIDE: &str = "w";
/// The lane's socket, in the lane's directory.
pub const INSIDE: &str = "c";
/// Where the view shows it.
pub const INSIDE_AT: &str = "/run/lane/checkpoint";
/// The longest text.
pub const LONGEST: usize = 4096;
/// How many may wait to be heard.
const MOST: usize = 32;
/// How long a peer may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(2);

fn address(dir: BorrowedFd<'_>, name: &str) -> kernel::Result<SocketAddrUnix> {
    let path = format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
    SocketAddrUnix::new(&path).map_err(|errno| kernel::Error::new("bind", path, errno))
}

/// Listens under a name in the lane's directory; what a killed watch left is replaced.
pub fn listen(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    let listening: kernel::Result<OwnedFd> = (|| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|errno| kernel::Error::new("socket", "AF_UNIX", errno))?;
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        rustix::net::bind(&socket, &address(dir, name)?)
            .map_err(|errno| kernel::Error::new("bind", name, errno))?;
        rustix::net::listen(&socket, 16).map_err(|errno| kernel::Error::new("listen", name, errno))?;
        Ok(socket)
    })();
    listening.step(Stage::Supervise, "listen for snapshots that are asked for")
}

/// A listening socket with those who wait to be heard.
#[derive(Debug)]
pub struct Channel {
    listening: OwnedFd,
    waiting: Vec<(OwnedFd, Instant)>,
}

/// Somebody who has said something and waits for the answer.
#[derive(Debug)]
pub struct Asked {
    peer: OwnedFd,
    /// What was said.
    pub text: Vec<u8>,
}

impl Asked {
    /// Answers; a peer that is gone or does not listen hears nothing.
    pub fn answer(self, text: &[u8]) {
        let _ = rustix::net::send(
            &self.peer,
            text,
            rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL,
        );
    }
}

impl Channel {
    /// Takes over a listening socket.
    pub fn new(listening: OwnedFd) -> Channel {
        Channel { listening, waiting: Vec::new() }
    }

    /// What to poll for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listening.as_fd()).chain(self.waiting.iter().map(|(fd, _)| fd.as_fd()))
    }

    /// Hears whoever has something to say now.
    pub fn hear(&mut self) -> Vec<Asked> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // As many as there may be waiting: what is beyond is for the next round.
        for _ in 0..MOST {
            let Ok(peer) = rustix::net::accept_with(&self.listening, flags) else { break };
            let own = rustix::process::geteuid().as_raw();
            if self.waiting.len() < MOST && fdpass::peer_uid(&peer).is_ok_and(|uid| uid == own) {
                self.waiting.push((peer, Instant::now()));
            }
        }
        let mut asked = Vec::new();
        let mut still = Vec::new();
        for (peer, since) in self.waiting.drain(..) {
            let mut buffer = [0u8; LONGEST + 1];
            match rustix::net::recv(&peer, &mut buffer, rustix::net::RecvFlags::DONTWAIT) {
                Ok((n, _)) if n > 0 && n <= LONGEST => {
                    asked.push(Asked { peer, text: buffer[..n].to_vec() });
                }
                Err(Errno::AGAIN) if since.elapsed() < PATIENCE => still.push((peer, since)),
                // Too long, closed, broken, or too slow.
                _ => {}
            }
        }
        self.waiting = still;
        asked
    }
}

/// Asks the watch of a lane, through the socket of that name in its directory; `None` where nobody listens.
pub fn ask(
    dir: BorrowedFd<'_>,
    name: &str,
    text: &[u8],
    patience: Duration,
) -> kernel::Result<Option<Vec<u8>>> {
    ask_at(&address(dir, name)?, text, patience)
}

/// Says something to the watch of a lane and does not wait for an answer. Nobody there is fine.
pub fn tell(dir: BorrowedFd<'_>, name: &str, text: &[u8]) {
    let say = || -> kernel::Result<()> {
        let address = address(dir, name)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|errno| kernel::Error::new("socket", "AF_UNIX", errno))?;
        rustix::net::connect(&socket, &address)
            .map_err(|errno| kernel::Error::new("connect", "the lane's watch", errno))?;
        fdpass::send(&socket, text, &[])
    };
    let _ = say();
}

/// The same from inside a lane.
pub fn ask_inside(text: &[u8], patience: Duration) -> kernel::Result<Option<Vec<u8>>> {
    let path = Path::new(INSIDE_AT);
    let address =
        SocketAddrUnix::new(path).map_err(|errno| kernel::Error::new("connect", INSIDE_AT, errno))?;
    ask_at(&address, text, patience)
}

fn ask_at(address: &SocketAddrUnix, text: &[u8], patience: Duration) -> kernel::Result<Option<Vec<u8>>> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|errno| kernel::Error::new("socket", "AF_UNIX", errno))?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(errno) => return Err(kernel::Error::new("connect", "the lane's watch", errno)),
    }
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(patience))
        .map_err(|errno| kernel::Error::new("setsockopt", "SO_RCVTIMEO", errno))?;
    fdpass::send(&socket, text, &[])?;
    let mut buffer = [0u8; LONGEST + 1];
    loop {
        match rustix::net::recv(&socket, &mut buffer, rustix::net::RecvFlags::empty()) {
            Ok((n, _)) if n > 0 => return Ok(Some(buffer[..n].to_vec())),
            Ok(_) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(kernel::Error::new("recv", "the lane's watch", errno)),
        }
    }
}
