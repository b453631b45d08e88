//! A connect of the lane's, decided and carried out.
//!
//! The caller's own socket stays what it is and stays in the lane's network: it is connected to us there, and we to the
//! outside. So its options, its flags, its copies and every epoll set that holds it go on as they were, and no program
//! ever holds a socket of the host's network, which it could turn elsewhere. A call that would wait is answered when the
//! outside has answered; one that would not is answered at once, and its socket is connected when the outside is.
//!
//! Invariant: what is judged is what is then connected to; the caller's memory is read once. A call that goes on in the
//! kernel reaches the lane's own network, which has no way out, whatever its arguments have become.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd as _, OwnedFd};

use kernel::borrow::Table;
use kernel::seccomp::{self, Notification, Reply};
use kernel::{Errno, seccomp::reply};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::event::Event;
use crate::inside::{Places, address_of};
use crate::policy::Way;
use crate::serve::{Link, Server, Then};

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) slot: u32,
    pub(crate) id: u64,
}

/// The longest address of a family that we know.
const LONGEST: usize = 28;

/// Reads where a call wants to go; `None` where that is no address of the internet.
fn target(call: &Notification) -> Option<SocketAddr> {
    // connect(fd, address, length); sendto(fd, buffer, length, flags, address, length).
    let (address, length) = match call.call {
        CONNECT => (call.args[1], call.args[2]),
        _ => (call.args[4], call.args[5]),
    };
    let mut bytes = [0u8; LONGEST];
    let length = (length as u32 as usize).min(LONGEST);
    let n = seccomp::read_memory(call.tid, address, &mut bytes[..length]).ok()?;
    parse(&bytes[..n])
}

#[cfg(target_arch = "x86_64")]
const CONNECT: i64 = 42;
#[cfg(target_arch = "aarch64")]
const CONNECT: i64 = 203;

const INET: u16 = AddressFamily::INET.as_raw();
const INET6: u16 = AddressFamily::INET6.as_raw();

/// An address as the kernel reads it (ip(7), ipv6(7)).
fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    if family == INET {
        let four: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
        (bytes.len() >= 16).then(|| SocketAddrV4::new(four.into(), port).into())
    } else if family == INET6 {
        let six: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let scope = bytes.get(24..28).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes);
        Some(SocketAddrV6::new(six.into(), port, 0, scope).into())
    } else {
        None
    }
}

/// True for what the lane's own network answers.
fn stays_inside(address: IpAddr) -> bool {
    let address = crate::address::canonical(address);
    address.is_loopback() || address.is_unspecified()
}

impl Server {
    /// Answers a call, or sees to it that it is answered.
    pub(crate) fn call(&mut self, slot: u32, call: &Notification) {
        let waiting = Waiting { slot, id: call.id };
        match self.decide(waiting, call) {
            Ok(Some(answer)) => self.answer(waiting, answer),
            Ok(None) => {}
            // What we cannot look at the kernel answers, with what the lane's own network has.
            Err(_) => self.answer(waiting, Reply::Continue),
        }
    }

    pub(crate) fn answer(&self, waiting: Waiting, answer: Reply) {
        if let Some(listener) = self.listeners.get(&waiting.slot) {
            let _ = reply(listener, waiting.id, answer);
        }
    }

    /// True while the caller waits.
    pub(crate) fn waits(&self, waiting: Waiting) -> bool {
        self.listeners.get(&waiting.slot).is_some_and(|listener| seccomp::still_waits(listener, waiting.id))
    }

    fn decide(&mut self, waiting: Waiting, call: &Notification) -> kernel::Result<Option<Reply>> {
        let Some(target) = target(call) else { return Ok(Some(Reply::Continue)) };
        let address = crate::address::canonical(target.ip());
        if stays_inside(address) {
            return Ok(Some(Reply::Continue));
        }
        let proc = self.proc.try_clone().map_err(|error| kernel::Error::from_io("dup", "", &error))?;
        let table = Table::of(proc.as_fd(), call.tid)?;
        let socket = table.borrow(call.args[0] as i32)?;
        // Only now is what was read of the caller known to be the caller's.
        if !self.waits(waiting) {
            return Ok(None);
        }
        let kind = sockopt::socket_type(&socket).ok();
        let family = sockopt::socket_domain(&socket).ok();
        let is_inet = matches!(family, Some(AddressFamily::INET | AddressFamily::INET6));
        let way = match kind {
            Some(SocketType::STREAM) if is_inet => Way::Tcp,
            Some(SocketType::DGRAM) if is_inet => Way::Udp,
            _ => return Ok(Some(Reply::Continue)),
        };
        let names = self.memory.names(address).to_vec();
        let port = target.port();
        let verdict = self.policy.judge(way, &names, address, port);
        let mut event = Event::of(&verdict, way, Some(address), port);
        event.pid = call.tid;
        event.program = Some(table.program());
        if way == Way::Udp {
            // Libraries connect a datagram socket to learn how they would reach a host that they have just asked for;
            // nothing is sent by it.
            let as_tcp = self.policy.judge(Way::Tcp, &names, address, port).allowed;
            if call.call != CONNECT || !as_tcp && names.is_empty() {
                self.book.tell(event);
            }
            return Ok(Some(Reply::Continue));
        }
        if call.call != CONNECT {
            return Ok(Some(Reply::Continue));
        }
        self.book.tell(event.clone());
        if !verdict.allowed {
            return Ok(Some(Reply::Fail(Errno::PERM)));
        }
        let looks = self.policy.looks_inside(address, port);
        let link = Link { event, looks, out: Vec::new(), back: Vec::new() };
        let is_six = family == Some(AddressFamily::INET6);
        self.carry_out(waiting, socket, is_six, SocketAddr::new(address, port), link)
    }

    /// The place for a socket, and its address as that socket spells it.
    fn place(&self, is_six: bool, target: SocketAddr) -> Option<(&Places, bool)> {
        // An IPv4 socket knows no other place, and an IPv6 socket reaches an IPv4 address through IPv4.
        match (is_six && target.is_ipv6(), &self.six) {
            (true, Some(six)) => Some((six, false)),
            (true, None) => None,
            (false, _) => Some((&self.four, is_six)),
        }
    }

    fn carry_out(
        &mut self,
        waiting: Waiting,
        socket: OwnedFd,
        is_six: bool,
        target: SocketAddr,
        link: Link,
    ) -> kernel::Result<Option<Reply>> {
        let Some((places, mapped)) = self.place(is_six, target) else {
            return Ok(Some(Reply::Fail(Errno::NETUNREACH)));
        };
        let spelled = |at: SocketAddr| match at {
            SocketAddr::V4(four) if mapped => SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port()),
            other => other,
        };
        let flags = rustix::fs::fcntl_getfl(&socket)
            .map_err(|errno| kernel::Error::new("fcntl", "F_GETFL", errno))?;
        if !flags.contains(OFlags::NONBLOCK) {
            self.dial(vec![target], link, Then::Call { waiting, socket, open_at: spelled(places.open_at) });
            return Ok(None);
        }
        let deaf_at = places.deaf_at;
        match rustix::net::connect(&socket, &spelled(deaf_at)) {
            Err(Errno::INPROGRESS) => {
                let peer = address_of(&socket)
                    .map(|peer| SocketAddr::new(crate::address::canonical(peer.ip()), peer.port()))
                    .map_err(|errno| kernel::Error::new("getsockname", "", errno))?;
                self.dial(vec![target], link, Then::Meet { deaf_at, peer, socket });
                Ok(Some(Reply::Fail(Errno::INPROGRESS)))
            }
            // Under way, or connected already, as the kernel itself has it.
            Err(errno) => Ok(Some(Reply::Fail(errno))),
            Ok(()) => Ok(Some(Reply::Done(0))),
        }
    }

    /// The outside has answered a call that waits: the caller's socket is connected to us.
    pub(crate) fn meet_waiting(&mut self, socket: &OwnedFd, open_at: SocketAddr) -> Result<OwnedFd, Errno> {
        rustix::net::connect(socket, &open_at)?;
        let own = address_of(socket)?;
        let own = SocketAddr::new(crate::address::canonical(own.ip()), own.port());
        let places = if own.is_ipv6() { self.six.as_ref().ok_or(Errno::AFNOSUPPORT)? } else { &self.four };
        // What else comes to this place was not sent by us.
        for _ in 0..4096 {
            let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
            let (accepted, peer) = rustix::net::acceptfrom_with(&places.open, flags)?;
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            if peer == Some(own) {
                return Ok(accepted);
            }
        }
        Err(Errno::CONNRESET)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let mut four = vec![2, 0, 1, 187, 93, 184, 216, 34];
        assert_eq!(parse(&four), None);
        four.extend([0; 8]);
        assert_eq!(parse(&four).expect("one").to_string(), "93.184.216.34:443");
        let mut six = vec![10, 0, 0, 80, 0, 0, 0, 0];
        six.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(parse(&six).expect("one").to_string(), "[2001:db8::1]:80");
        six.extend([3, 0, 0, 0]);
        assert_eq!(parse(&six).expect("one").to_string(), "[2001:db8::1%3]:80");
        assert_eq!(parse(&[1, 0, b'/', b'x']), None);
        assert_eq!(parse(&[]), None);
    }
}
