//! What a wall saw, as plain data: whoever supervises a run is told, and decides what becomes of it.
//!
//! Invariant: what is told of a caller is what it said when it asked. Only the kernel's own answer is certain; a program that
//! means to mislead can change an argument in memory while it is read.

use std::time::Duration;

/// Something that was seen inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A program was about to be started.
    Exec {
        /// The process, as the host numbers it.
        pid: u32,
        /// Its parent.
        parent: u32,
        /// The program, as the caller named it.
        path: Vec<u8>,
        /// Its arguments.
        argv: Vec<Vec<u8>>,
        /// More arguments, or longer ones, than are told.
        cut: bool,
    },
    /// A call was refused.
    Refused {
        /// The process, as the host numbers it.
        pid: u32,
        /// Name of the program.
        program: Vec<u8>,
        /// Name of the call.
        call: String,
        /// What kind of call it is.
        class: String,
        /// The path that it was about, as the caller named it.
        target: Option<Vec<u8>>,
    },
    /// A file was asked for.
    Opened {
        /// The process, as the host numbers it.
        pid: u32,
        /// The file, absolute as far as can be told.
        path: Vec<u8>,
        /// It was to be written.
        write: bool,
        /// What stands in the way of it, as far as can be told: a number of errno(3); 0 for nothing.
        errno: i32,
        /// How long the caller waited for us to look, in microseconds.
        waited: u32,
    },
}

impl Seen {
    /// As bytes, for the way from the notifier to the supervisor.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let number = |out: &mut Vec<u8>, number: u32| out.extend_from_slice(&number.to_le_bytes());
        let part = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        match self {
            Seen::Exec { pid, parent, path, argv, cut } => {
                out.push(b'e');
                number(&mut out, *pid);
                number(&mut out, *parent);
                number(&mut out, u32::from(*cut));
                part(&mut out, path);
                argv.iter().for_each(|arg| part(&mut out, arg));
            }
            Seen::Refused { pid, program, call, class, target } => {
                out.push(b'r');
                number(&mut out, *pid);
                for text in [program.as_slice(), call.as_bytes(), class.as_bytes()] {
                    part(&mut out, text);
                }
                if let Some(target) = target {
                    part(&mut out, target);
                }
            }
            Seen::Opened { pid, path, write, errno, waited } => {
                out.push(b'o');
                for word in [*pid, u32::from(*write), *errno as u32, *waited] {
                    number(&mut out, word);
                }
                part(&mut out, path);
            }
        }
        out
    }

    /// The reverse; `None` where the bytes are nothing that was seen.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Seen> {
        let (kind, mut rest) = bytes.split_first()?;
        fn number(rest: &mut &[u8]) -> Option<u32> {
            let (word, behind) = rest.split_first_chunk::<4>()?;
            *rest = behind;
            Some(u32::from_le_bytes(*word))
        }
        fn part(rest: &mut &[u8]) -> Option<Vec<u8>> {
            let length = number(rest)? as usize;
            let (bytes, behind) = rest.split_at_checked(length)?;
            *rest = behind;
            Some(bytes.to_vec())
        }
        let rest = &mut rest;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        Some(match kind {
            b'e' => {
                let (pid, parent, cut) = (number(rest)?, number(rest)?, number(rest)? != 0);
                let path = part(rest)?;
                let mut argv = Vec::new();
                while !rest.is_empty() {
                    argv.push(part(rest)?);
                }
                Seen::Exec { pid, parent, path, argv, cut }
            }
            b'r' => {
                let pid = number(rest)?;
                let (program, call, class) = (part(rest)?, text(part(rest)?)?, text(part(rest)?)?);
                let target = if rest.is_empty() { None } else { Some(part(rest)?) };
                Seen::Refused { pid, program, call, class, target }
            }
            b'o' => {
                let (pid, write, errno, waited) =
                    (number(rest)?, number(rest)? != 0, number(rest)? as i32, number(rest)?);
                Seen::Opened { pid, path: part(rest)?, write, errno, waited }
            }
            _ => return None,
        })
    }
}

/// Is told what is seen.
pub trait Witness {
    /// Takes what was seen.
    fn saw(&mut self, seen: Seen);

    /// Takes what the gate tells ([`crate::gate`]).
    fn heard(&mut self, told: &[u8]);

    /// Called whenever there is nothing else to do, and after the time that it answered.
    fn rest(&mut self) -> Option<Duration>;
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn what_was_seen_crosses_the_line_whole_and_a_part_of_it_is_nothing() {
        let argv = vec![b"sh".to_vec(), Vec::new(), b"\xff".to_vec()];
        for seen in [
            Seen::Exec { pid: 1, parent: 2, path: b"/bin/sh".to_vec(), argv, cut: true },
            Seen::Refused {
                pid: 3,
                program: b"x".to_vec(),
                call: "mount".into(),
                class: "mounts".into(),
                target: Some(b"/\xfe".to_vec()),
            },
            Seen::Refused {
                pid: 3,
                program: vec![],
                call: "bpf".into(),
                class: "kernel".into(),
                target: None,
            },
            Seen::Opened { pid: 4, path: b"/a".to_vec(), write: true, errno: -1, waited: 9 },
        ] {
            let bytes = seen.encode();
            assert_eq!(Seen::decode(&bytes), Some(seen.clone()));
            assert_eq!(Seen::decode(&bytes[..bytes.len() - 1]).filter(|other| *other == seen), None);
        }
        assert_eq!(Seen::decode(b""), None);
        assert_eq!(Seen::decode(b"x"), None);
    }
}
