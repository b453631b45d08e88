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
        /// What it was answered where it was not opened: a number of errno(3).
        errno: i32,
    },
}

/// Is told what is seen.
pub trait Witness {
    /// Takes what was seen.
    fn saw(&mut self, seen: Seen);

    /// Called whenever there is nothing else to do, and after the time that it answered.
    fn rest(&mut self) -> Option<Duration>;
}
