//! A desk: a process with one thread that has each request answered by a child of its own. For a face that has several
//! threads, which may not fork, while many operations do.
//!
//! Invariants: the desk is forked while its owner has one thread. A request is answered from its beginning to its end
//! by one process, so that a fault in one takes nothing from the others; what was begun is carried to its end even
//! where the owner is gone, and nothing new is begun then. Neither the owner's streams nor its descriptors but the
//! desk's own reach a child, and signals of the owner's terminal do not either.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use kernel::process::{self, Child, Forked, Which};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::error::{Doing as _, Result};

/// The longest request.
const LONGEST: u64 = 64 << 20;

/// How often a waiting desk looks after children that have ended.
const ROUND: Duration = Duration::from_secs(1);

/// An answer: a status for the owner, and bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What it means is between the owner and who answers.
    pub status: u16,
    /// The answer itself.
    pub body: Vec<u8>,
}

/// A desk that stands.
#[derive(Debug)]
pub struct Desk {
    socket: OwnedFd,
    child: Child,
}

/// Starts a desk whose children answer with `answer`.
pub fn open(answer: &dyn Fn(&[u8]) -> Answer) -> Result<Desk> {
    let doing = || "start the desk".to_owned();
    let (ours, theirs) = kernel::fdpass::pair().doing(doing)?;
    match process::fork().doing(doing)? {
        Forked::Parent(child) => Ok(Desk { socket: ours, child }),
        Forked::Child => {
            process::go_alone();
            let _ = rustix::thread::set_name(c"lane-desk");
            // A write to a request whose owner has gone is an error, and no reason to stop half-way.
            kernel::signal::ignore(rustix::process::Signal::PIPE.as_raw());
            if process::close_others(&[theirs.as_fd()]).is_ok() {
                serve(&theirs, answer);
            }
            process::exit_now(0)
        }
    }
}

impl Desk {
    /// Hands one end of a new connection to the desk; the request goes through the other one (see [`frame`]).
    pub fn connect(&self) -> Result<UnixStream> {
        let doing = || "hand a request to the desk".to_owned();
        let (ours, theirs) = UnixStream::pair()
            .map_err(|error| kernel::Error::from_io("socketpair", "", &error))
            .doing(doing)?;
        kernel::fdpass::send(&self.socket, b"r", &[theirs.as_fd()]).doing(doing)?;
        Ok(ours)
    }

    /// Takes no more requests and waits for those that are being answered, but not longer than `patience`; true where
    /// all were done. Those that are not go on by themselves.
    pub fn close(self, patience: Duration) -> bool {
        drop(self.socket);
        let timeout = Timespec {
            tv_sec: patience.as_secs().cast_signed(),
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.child.pidfd, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        matches!(process::wait(Which::Pidfd(self.child.pidfd.as_fd()), false, false), Ok(Some(_)))
    }
}

/// A request as it goes over a connection: its length, then its bytes.
pub fn frame(request: &[u8]) -> Vec<u8> {
    let mut framed = (request.len() as u64).to_be_bytes().to_vec();
    framed.extend_from_slice(request);
    framed
}

/// The status and the length of the body, from the first ten bytes of an answer.
pub fn head(bytes: [u8; 10]) -> (u16, u64) {
    let [a, b, length @ ..] = bytes;
    (u16::from_be_bytes([a, b]), u64::from_be_bytes(length))
}

fn serve(socket: &OwnedFd, answer: &dyn Fn(&[u8]) -> Answer) {
    loop {
        while matches!(process::wait(Which::Any, false, false), Ok(Some(_))) {}
        let timeout = Timespec { tv_sec: ROUND.as_secs().cast_signed(), tv_nsec: 0 };
        let ready = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout));
        if !matches!(ready, Ok(1)) {
            continue;
        }
        let Ok(Some((_, fds))) = kernel::fdpass::receive(socket, &mut [0; 8]) else { break };
        for fd in fds {
            // Where there is no room for a child, the owner sees the connection end without an answer.
            if let Ok(Forked::Child) = process::fork() {
                if process::close_others(&[fd.as_fd()]).is_ok() {
                    let _ = reply(UnixStream::from(fd), answer);
                }
                process::exit_now(0);
            }
        }
    }
    // No more requests: what was begun is carried to its end.
    while process::wait(Which::Any, true, false).is_ok() {}
}

fn reply(mut connection: UnixStream, answer: &dyn Fn(&[u8]) -> Answer) -> std::io::Result<()> {
    let mut length = [0; 8];
    connection.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    if length > LONGEST {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut request = vec![0; usize::try_from(length).map_err(|_| std::io::ErrorKind::InvalidData)?];
    connection.read_exact(&mut request)?;
    let answer = answer(&request);
    let mut head = answer.status.to_be_bytes().to_vec();
    head.extend((answer.body.len() as u64).to_be_bytes());
    connection.write_all(&head)?;
    connection.write_all(&answer.body)
}
