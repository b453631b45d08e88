//! The line on which notified calls go from the process that receives them to the one that answers them, with the
//! listeners that the answers need.
//!
//! Invariant: several processes may speak, one hears; what arrives is whole or refused. Both ends are one program.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::fdpass;
use crate::seccomp::Notification;

/// What is said on the line.
#[derive(Debug)]
pub enum Said {
    /// Calls of this place will be answered on this listener.
    Listener {
        /// The place.
        slot: u32,
        /// The listener.
        fd: OwnedFd,
    },
    /// A call that waits.
    Call {
        /// The place of its listener.
        slot: u32,
        /// The call.
        call: Notification,
    },
}

/// Tells of a listener.
pub fn say_listener(line: impl AsFd, slot: u32, listener: impl AsFd) -> Result<()> {
    let mut bytes = vec![b'L'];
    bytes.extend_from_slice(&slot.to_le_bytes());
    fdpass::send(line, &bytes, &[listener.as_fd()])
}

/// Hands a call over.
pub fn say_call(line: impl AsFd, slot: u32, call: &Notification) -> Result<()> {
    let mut bytes = vec![b'C'];
    bytes.extend_from_slice(&slot.to_le_bytes());
    bytes.extend_from_slice(&call.to_bytes());
    fdpass::send(line, &bytes, &[])
}

/// The next that is said; `None` when nobody is left to speak.
pub fn hear(line: impl AsFd) -> Result<Option<Said>> {
    let mut buffer = [0u8; 128];
    let Some((n, mut fds)) = fdpass::receive(line, &mut buffer)? else { return Ok(None) };
    let slot = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
    let said = match (buffer.first(), fds.pop()) {
        (Some(b'L'), Some(fd)) => buffer.get(1..n).and_then(slot).map(|slot| Said::Listener { slot, fd }),
        (Some(b'C'), None) if n > 5 => {
            let call = Notification::from_bytes(&buffer[5..n]);
            slot(&buffer[1..5]).zip(call).map(|(slot, call)| Said::Call { slot, call })
        }
        _ => None,
    };
    said.map(Some).ok_or_else(|| Error::new("recvmsg", "line of calls", Errno::BADMSG))
}

#[cfg(test)]
mod tests {
    use super::{Said, hear, say_call, say_listener};
    use crate::seccomp::Notification;

    #[test]
    fn what_is_said_is_heard_in_order_and_the_end_is_the_end() {
        let (ours, theirs) = crate::fdpass::pair().expect("a pair");
        let call = Notification { id: u64::MAX, tid: 7, call: 42, args: [1, 2, 3, 4, 5, u64::MAX] };
        say_listener(&ours, 3, &ours).expect("said");
        say_call(&ours, 3, &call).expect("said");
        drop(ours);
        assert!(matches!(hear(&theirs), Ok(Some(Said::Listener { slot: 3, .. }))));
        match hear(&theirs) {
            Ok(Some(Said::Call { slot: 3, call: heard })) => {
                assert_eq!(
                    (heard.id, heard.tid, heard.call, heard.args),
                    (call.id, call.tid, call.call, call.args)
                );
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(hear(&theirs), Ok(None)));
    }
}
