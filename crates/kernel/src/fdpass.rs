//! Messages with descriptors over unix sockets (SCM_RIGHTS, unix(7)).
//!
//! Invariant: a received descriptor is owned and close-on-exec; a message longer than the buffer is
//! an error and never cut silently.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::error::{Asked as _, Error, Result};

/// The most descriptors in one message.
pub const MOST_FDS: usize = 8;

/// A connected pair that keeps message borders and is closed on exec.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .asked("socketpair", "AF_UNIX, SOCK_SEQPACKET")
}

/// Sends one message with up to [`MOST_FDS`] descriptors. A closed other end is `EPIPE`, not a signal.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::new("sendmsg", "too many descriptors", Errno::INVAL));
    }
    loop {
        match rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("sendmsg", "", errno)),
        }
    }
}

/// Receives one message into `buffer`; `None` at the end of the stream.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut slices = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message,
            // A peer that left with something unread says so once; what it had sent is still there.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(errno) => return Err(Error::new("recvmsg", "", errno)),
        }
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Error::new("recvmsg", "message too long", Errno::MSGSIZE));
    }
    if message.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    Ok(Some((message.bytes, fds)))
}

/// The user id of the process at the other end of a connected unix socket (SO_PEERCRED).
pub fn peer_uid(socket: impl AsFd) -> Result<u32> {
    let peer = rustix::net::sockopt::socket_peercred(socket).asked("getsockopt", "SO_PEERCRED")?;
    Ok(peer.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::{pair, receive, send};

    #[test]
    fn what_was_sent_is_heard_though_the_sender_left_with_something_unread() {
        let (ours, theirs) = pair().expect("a pair");
        send(&theirs, b"last word", &[]).expect("sent");
        send(&ours, b"never read", &[]).expect("sent");
        drop(theirs);
        let mut buffer = [0; 16];
        let heard = receive(&ours, &mut buffer).expect("heard").map(|(n, _)| buffer[..n].to_vec());
        assert_eq!(heard.as_deref(), Some(&b"last word"[..]));
        assert!(receive(&ours, &mut buffer).expect("the end").is_none());
    }
}
