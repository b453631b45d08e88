//! The streams between a command and whoever started it: a terminal of its own where there is a terminal,
//! clean pipes where there is none.
//!
//! Invariants: the host's terminal is never handed in, nor is a regular file (it could be opened again
//! through /proc with other access); bytes pass unchanged and in order within a stream.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Errno, pty};
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::termios::Termios;

use super::Tape;
use crate::error::{Result, Stage, Step as _};
use crate::leader::Streams;

/// The most input held back while the command does not read.
const HELD_BACK: usize = 64 << 10;

/// Which stream a poll entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// Our stdin, to be read.
    Input,
    /// The command's stdin, to be written.
    Feed,
    /// The master side of the terminal.
    Terminal,
    /// The command's stdout.
    Out,
    /// The command's stderr.
    Err,
}

/// Our ends of a command's streams.
#[derive(Debug, Default)]
pub struct Ends {
    /// We read our own stdin for the command.
    input: bool,
    /// Where input goes when it is not the terminal.
    feed: Option<OwnedFd>,
    pending: Vec<u8>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    /// Our own descriptor that shows what the terminal prints (1, 2 or 0).
    shown_on: i32,
    /// Our own descriptor that is a terminal whose modes we change; with the modes it had.
    modes: Option<Termios>,
    raw: bool,
    /// Nothing is written to our own stdout and stderr.
    silent: bool,
    input_is_terminal: bool,
}

fn own(number: i32) -> BorrowedFd<'static> {
    match number {
        0 => rustix::stdio::stdin(),
        1 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| kernel::Error::new("pipe2", "", errno))
        .step(Stage::Exec, "make a pipe")
}

/// Makes the streams of a command that runs in the foreground, after our own three.
pub fn connect() -> Result<(Streams, Ends)> {
    let is_terminal = [0, 1, 2].map(|number| pty::is_terminal(own(number)));
    let mut ends = Ends { input_is_terminal: is_terminal[0], ..Ends::default() };
    let mut given = [None, None, None];
    if is_terminal[0] {
        ends.input = true;
    } else {
        let (stream, feed) = input()?;
        ends.input = feed.is_some();
        ends.feed = feed;
        given[0] = Some(stream);
    }
    for number in [1usize, 2] {
        if is_terminal[number] {
            continue;
        }
        let (read, write) = pipe()?;
        given[number] = Some(write);
        *(if number == 1 { &mut ends.out } else { &mut ends.err }) = Some(read);
    }
    ends.shown_on = [1, 2, 0].into_iter().find(|number| is_terminal[*number as usize]).unwrap_or(1);
    Ok((Streams { given }, ends))
}

/// The command's stdin when ours is no terminal: itself where it has no path to open again, else a pipe.
fn input() -> Result<(OwnedFd, Option<OwnedFd>)> {
    let kind = rustix::fs::fstat(own(0)).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::Fifo | FileType::Socket | FileType::CharacterDevice) => {
            let same = rustix::io::fcntl_dupfd_cloexec(own(0), 3)
                .map_err(|errno| kernel::Error::new("fcntl", "0", errno))
                .step(Stage::Exec, "pass stdin on")?;
            Ok((same, None))
        }
        Ok(_) => {
            let (read, write) = pipe()?;
            Ok((read, Some(write)))
        }
        Err(_) => Ok((null()?, None)), // stdin is closed
    }
}

fn null() -> Result<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| kernel::Error::new("open", "/dev/null", errno))
        .step(Stage::Exec, "open /dev/null")
}

pub(super) fn detached() -> Result<(Streams, Ends)> {
    let ((out, out_in), (err, err_in)) = (pipe()?, pipe()?);
    let streams = Streams { given: [Some(null()?), Some(out_in), Some(err_in)] };
    Ok((streams, Ends { out: Some(out), err: Some(err), silent: true, ..Ends::default() }))
}

impl Ends {
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// The command's terminal is here: give it our size, and make ours pass every byte through.
    pub(super) fn take_terminal(&mut self, master: OwnedFd, tape: &mut dyn Tape) {
        let _ = rustix::io::ioctl_fionbio(&master, true);
        self.terminal = Some(master);
        if self.input_is_terminal {
            self.modes = pty::modes(own(0)).ok();
        }
        self.resume(tape);
    }

    /// Our terminal is ours (again): size and raw modes.
    pub(super) fn resume(&mut self, tape: &mut dyn Tape) {
        self.resize(tape);
        if let (Some(modes), Some(_), true) = (&self.modes, &self.terminal, in_foreground()) {
            self.raw = pty::set_modes(own(0), &pty::raw(modes)).is_ok();
        }
    }

    /// Passes the size of our terminal on.
    pub(super) fn resize(&self, tape: &mut dyn Tape) {
        if let Some(master) = &self.terminal
            && let Ok(size) = pty::size(own(self.shown_on))
        {
            let _ = pty::set_size(master, size);
            tape.resized(size.ws_col, size.ws_row);
        }
    }

    /// Gives our terminal its own modes back.
    pub(super) fn restore(&mut self) {
        if let (true, Some(modes)) = (self.raw, &self.modes) {
            let _ = pty::set_modes(own(0), modes);
            self.raw = false;
        }
    }

    pub(super) fn polled(&self) -> Vec<(Slot, BorrowedFd<'_>, PollFlags)> {
        let mut polled = Vec::with_capacity(5);
        let feed = self.terminal.as_ref().or(self.feed.as_ref());
        let may_read = !self.input_is_terminal || self.raw;
        if self.input && may_read && feed.is_some() && self.pending.is_empty() {
            polled.push((Slot::Input, own(0), PollFlags::IN));
        }
        match (&self.terminal, &self.feed) {
            (Some(terminal), _) => {
                let mut flags = PollFlags::IN;
                if !self.pending.is_empty() && self.feed.is_none() {
                    flags |= PollFlags::OUT;
                }
                polled.push((Slot::Terminal, terminal.as_fd(), flags));
            }
            (None, _) => {}
        }
        if let (Some(feed), false) = (&self.feed, self.pending.is_empty()) {
            polled.push((Slot::Feed, feed.as_fd(), PollFlags::OUT));
        }
        if let Some(out) = &self.out {
            polled.push((Slot::Out, out.as_fd(), PollFlags::IN));
        }
        if let Some(err) = &self.err {
            polled.push((Slot::Err, err.as_fd(), PollFlags::IN));
        }
        polled
    }

    pub(super) fn pump(&mut self, slot: Slot, tape: &mut dyn Tape) {
        match slot {
            Slot::Input => self.read_input(),
            Slot::Feed => self.feed(),
            Slot::Terminal => {
                self.feed();
                if let Some(terminal) = &self.terminal
                    && !pass(terminal, self.shown_on, self.silent, tape)
                {
                    self.restore();
                    self.terminal = None;
                }
            }
            Slot::Out => {
                if self.out.as_ref().is_some_and(|out| !pass(out, 1, self.silent, tape)) {
                    self.out = None;
                }
            }
            Slot::Err => {
                if self.err.as_ref().is_some_and(|err| !pass(err, 2, self.silent, tape)) {
                    self.err = None;
                }
            }
        }
    }

    fn read_input(&mut self) {
        let mut buffer = vec![0u8; HELD_BACK];
        match rustix::io::read(own(0), &mut buffer) {
            Ok(0) => {
                self.input = false;
                self.feed = None;
            }
            Ok(n) => {
                self.pending.extend_from_slice(&buffer[..n]);
                self.feed();
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => {
                self.input = false;
                self.feed = None;
            }
        }
    }

    /// Writes what is pending as far as the other side takes it.
    fn feed(&mut self) {
        while !self.pending.is_empty() {
            let Some(to) = self.feed.as_ref().or(self.terminal.as_ref()) else { return self.pending.clear() };
            // A pipe is written in small pieces that fit after POLLOUT, so that this never blocks.
            let piece = if self.feed.is_some() { self.pending.len().min(4096) } else { self.pending.len() };
            match rustix::io::write(to, &self.pending[..piece]) {
                Ok(n) => drop(self.pending.drain(..n)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // Nobody reads any more.
                    self.input = false;
                    self.pending.clear();
                    self.feed = None;
                }
            }
            if self.feed.is_some() {
                return; // the next POLLOUT says whether the pipe takes more
            }
        }
    }

    /// Writes out what is left in the streams, without waiting for more.
    pub(super) fn drain(&mut self, tape: &mut dyn Tape) {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut any = None;
            for (slot, fd) in [(Slot::Terminal, &self.terminal), (Slot::Out, &self.out), (Slot::Err, &self.err)] {
                let Some(fd) = fd else { continue };
                let mut fds = [rustix::event::PollFd::new(fd, PollFlags::IN)];
                if rustix::event::poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().is_empty() {
                    any = Some(slot);
                    break;
                }
            }
            match any {
                Some(slot) => self.pump(slot, tape),
                None => return,
            }
        }
    }
}

/// Passes one piece on; false at the end of the stream.
fn pass(from: &OwnedFd, to: i32, silent: bool, tape: &mut dyn Tape) -> bool {
    let mut buffer = [0u8; 32 << 10];
    let n = match rustix::io::read(from, &mut buffer) {
        Ok(0) => return false,
        Ok(n) => n,
        Err(Errno::INTR | Errno::AGAIN) => return true,
        Err(_) => return false, // EIO: the last one has closed the terminal
    };
    tape.output(&buffer[..n]);
    let mut rest = &buffer[..n];
    while !rest.is_empty() && !silent {
        match rustix::io::write(own(to), rest) {
            Ok(n) => rest = &rest[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [rustix::event::PollFd::from_borrowed_fd(own(to), PollFlags::OUT)];
                let _ = rustix::event::poll(&mut fds, None);
            }
            // Our own reader is gone: close the stream, so that the command hears of it (SIGPIPE).
            Err(_) => return false,
        }
    }
    true
}

/// True where we are in the foreground of our terminal: a background job must not touch its modes.
fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(own(0)).is_ok_and(|group| group == rustix::process::getpgrp())
}
