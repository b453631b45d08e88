//! Typed words between supervisor and the inside, one datagram each.
//!
//! Invariant: a message that does not parse is an error that names it; nothing from inside the walls (the
//! command) ever holds this channel.

use kernel::process::Status;

use crate::error::{Error, Stage};

/// From the inside to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromInside {
    /// The view stands and the walls are up as far as pid 1 goes. Carries the namespace descriptors.
    Ready,
    /// The terminal of the command: the message carries its master side.
    Terminal,
    /// What was opened on the lane's own loopback: the ports, in the order of the descriptors that come along.
    Doors(Vec<u16>),
    /// The command's filter reports calls: the message carries the listener.
    Listener,
    /// The command was started: all that is left is the exec itself. Carries its pid inside.
    Started(i32),
    /// A step failed.
    Failed {
        /// Where.
        stage: Stage,
        /// The kernel's number.
        errno: i32,
        /// The step.
        step: String,
        /// The whole cause.
        cause: String,
    },
    /// The command's state changed.
    Changed(Status),
    /// The command has ended, and no other process is left inside.
    Alone,
}

/// From the supervisor to the inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToInside {
    /// A part of the view: the message carries a file with its ops.
    Build,
    /// The rest of the view and the command: the message carries a file with the order, and what pid 1 holds.
    Order,
    /// What begins is written down: start the command.
    Go,
    /// Send this signal to the command's process group.
    Signal(i32),
    /// End everything inside: TERM first, KILL when the supervisor says so.
    Terminate,
    /// KILL everything inside.
    Kill,
}

impl FromInside {
    /// The error of a step, ready to be sent.
    pub fn failed(error: &Error) -> FromInside {
        match error {
            Error::Step { stage, step, cause, errno } => {
                FromInside::Failed { stage: *stage, errno: *errno, step: step.clone(), cause: cause.clone() }
            }
            other => FromInside::Failed {
                stage: Stage::Supervise,
                errno: 0,
                step: String::new(),
                cause: other.to_string(),
            },
        }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromInside::Ready => vec![b'R'],
            FromInside::Doors(ports) => {
                let ports = ports.iter().flat_map(|port| port.to_le_bytes());
                std::iter::once(b'D').chain(ports).collect()
            }
            FromInside::Alone => vec![b'A'],
            FromInside::Terminal => vec![b'T'],
            FromInside::Listener => vec![b'L'],
            FromInside::Started(pid) => [&[b'S'][..], &pid.to_le_bytes()].concat(),
            FromInside::Failed { stage, errno, step, cause } => {
                // A datagram holds a few hundred kilobytes; a cause is cut so that the message always fits.
                let cut = |text: &str| text.as_bytes()[..text.len().min(2000)].to_vec();
                let (step, cause) = (cut(step), cut(cause));
                let mut bytes = vec![b'F', stage.code()];
                bytes.extend_from_slice(&errno.to_le_bytes());
                bytes.extend_from_slice(&(step.len() as u32).to_le_bytes());
                bytes.extend_from_slice(&step);
                bytes.extend_from_slice(&cause);
                bytes
            }
            FromInside::Changed(status) => {
                let (kind, value) = match status {
                    Status::Exited(code) => (b'e', *code),
                    Status::Killed(signal) => (b'k', *signal),
                    Status::Stopped(signal) => (b's', *signal),
                    Status::Continued => (b'c', 0),
                };
                [&[b'C', kind][..], &value.to_le_bytes()].concat()
            }
        }
    }

    /// From bytes; `None` where they are no message.
    pub fn decode(bytes: &[u8]) -> Option<FromInside> {
        let number = |at: usize| Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(match bytes.first()? {
            b'R' => FromInside::Ready,
            b'D' => {
                let ports = bytes.get(1..)?.chunks_exact(2);
                FromInside::Doors(ports.map(|two| u16::from_le_bytes([two[0], two[1]])).collect())
            }
            b'A' => FromInside::Alone,
            b'T' => FromInside::Terminal,
            b'L' => FromInside::Listener,
            b'S' => FromInside::Started(number(1)?),
            b'F' => {
                let step_len = number(6)? as usize;
                let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
                FromInside::Failed {
                    stage: Stage::from_code(*bytes.get(1)?),
                    errno: number(2)?,
                    step: text(bytes.get(10..10 + step_len)?),
                    cause: text(bytes.get(10 + step_len..)?),
                }
            }
            b'C' => {
                let value = number(2)?;
                FromInside::Changed(match bytes.get(1)? {
                    b'e' => Status::Exited(value),
                    b'k' => Status::Killed(value),
                    b's' => Status::Stopped(value),
                    b'c' => Status::Continued,
                    _ => return None,
                })
            }
            _ => return None,
        })
    }
}

impl ToInside {
    /// As bytes.
    pub fn encode(self) -> Vec<u8> {
        match self {
            ToInside::Build => vec![b'b'],
            ToInside::Order => vec![b'o'],
            ToInside::Go => vec![b'g'],
            ToInside::Signal(signal) => [&[b's'][..], &signal.to_le_bytes()].concat(),
            ToInside::Terminate => vec![b't'],
            ToInside::Kill => vec![b'k'],
        }
    }

    /// From bytes; `None` where they are no message.
    pub fn decode(bytes: &[u8]) -> Option<ToInside> {
        match bytes.first()? {
            b'b' => Some(ToInside::Build),
            b'o' => Some(ToInside::Order),
            b'g' => Some(ToInside::Go),
            b's' => Some(ToInside::Signal(i32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?))),
            b't' => Some(ToInside::Terminate),
            b'k' => Some(ToInside::Kill),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        let all = [
            FromInside::Ready,
            FromInside::Alone,
            FromInside::Doors(vec![53, 65_535]),
            FromInside::Terminal,
            FromInside::Listener,
            FromInside::Started(77),
            FromInside::Failed { stage: Stage::Mounts, errno: 22, step: "mount x".into(), cause: "y".into() },
            FromInside::Changed(Status::Exited(3)),
            FromInside::Changed(Status::Killed(9)),
            FromInside::Changed(Status::Stopped(20)),
            FromInside::Changed(Status::Continued),
        ];
        for message in all {
            assert_eq!(FromInside::decode(&message.encode()), Some(message));
        }
        for message in [
            ToInside::Build,
            ToInside::Order,
            ToInside::Go,
            ToInside::Signal(15),
            ToInside::Terminate,
            ToInside::Kill,
        ] {
            assert_eq!(ToInside::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn a_cut_message_is_none_and_never_a_panic() {
        for bytes in [&b""[..], b"F", b"F\0\0", b"C", b"Ce", b"S12", b"F\x02\x16\0\0\0\xff\0\0\0x"] {
            assert_eq!(FromInside::decode(bytes), None);
        }
        assert_eq!(ToInside::decode(b"s1"), None);
    }
}
