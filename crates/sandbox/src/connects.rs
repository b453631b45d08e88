//! Connects that a lane's filter reports: handed over to the gate, but for those that plainly stay in the lane.
//!
//! Invariant: what goes on in the kernel goes on in the lane's own network, which has no way out; so nothing here has to
//! be right for a wall to stand, only for the gate to be asked. When the gate is gone, whoever waits for it gets an error.

use std::os::fd::{BorrowedFd, OwnedFd};

use kernel::seccomp::{self, Notification, Reply};
use kernel::{Errno, line};

use crate::filter::{CONNECT, SENDTO};
use crate::notify::Listener;

/// The way to the gate.
#[derive(Debug)]
pub(crate) struct Connects<'g> {
    gate: Option<BorrowedFd<'g>>,
    /// Calls that were handed over, by place and id; some are answered meanwhile.
    handed: Vec<(u32, u64)>,
    /// How long that list may grow before it is looked through.
    room: usize,
}

/// How many calls are remembered at least.
const ROOM: usize = 256;

impl<'g> Connects<'g> {
    pub(crate) fn new(gate: Option<BorrowedFd<'g>>) -> Connects<'g> {
        Connects { gate, handed: Vec::new(), room: ROOM }
    }

    /// True for a call that belongs here.
    pub(crate) fn is_one(call: &Notification) -> bool {
        matches!(call.call, CONNECT | SENDTO)
    }

    /// The line to the gate.
    pub(crate) fn gate(&self) -> Option<BorrowedFd<'g>> {
        self.gate
    }

    /// Hands a call over, or answers it.
    pub(crate) fn take(&mut self, listener: &OwnedFd, slot: u32, call: &Notification) {
        if stays(call) {
            let _ = seccomp::reply(listener, call.id, Reply::Continue);
            return;
        }
        let handed = self.gate.is_some_and(|gate| line::say_call(gate, slot, call).is_ok());
        if !handed {
            let _ = seccomp::reply(listener, call.id, Reply::Fail(Errno::NETDOWN));
            return;
        }
        if self.handed.len() >= self.room {
            self.handed.retain(|(of, id)| *of != slot || seccomp::still_waits(listener, *id));
            self.room = ROOM.max(2 * self.handed.len());
        }
        self.handed.push((slot, call.id));
    }

    /// The gate is gone.
    pub(crate) fn lose(&mut self, listeners: &[Listener]) {
        self.gate = None;
        for (slot, id) in self.handed.drain(..) {
            if let Some(listener) = listeners.iter().find(|listener| listener.slot == slot) {
                let _ = seccomp::reply(&listener.fd, id, Reply::Fail(Errno::NETDOWN));
            }
        }
    }
}

/// True where a call has plainly nothing to do with the outside: another family, or the lane's own loopback.
fn stays(call: &Notification) -> bool {
    let address = if call.call == CONNECT { call.args[1] } else { call.args[4] };
    let mut bytes = [0u8; 24];
    let Ok(n) = seccomp::read_memory(call.tid, address, &mut bytes) else { return true };
    if n < 8 {
        return true;
    }
    match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        INET => bytes[4] == 127,
        INET6 => n == 24 && bytes[8..23] == [0; 15] && bytes[23] == 1,
        _ => true,
    }
}

const INET: i32 = rustix::net::AddressFamily::INET.as_raw() as i32;
const INET6: i32 = rustix::net::AddressFamily::INET6.as_raw() as i32;
