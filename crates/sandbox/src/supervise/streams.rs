//! The streams between a command and whoever started it: a terminal of its own where there is a terminal,
//! clean pipes where there is none.
//!
//! Invariants: the host's terminal is never handed in, nor is a regular file (it could be opened again
//! through /proc with other access); bytes pass unchanged and in order within a stream; nothing here blocks
//! on whoever reads our output, so that signals and time limits are heard whatever he does.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use kernel::{Errno, pty};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::termios::{OutputModes, Termios};

use super::Tape;
use crate::error::{Result, Stage, Step as _};
use crate::leader::Streams;

/// How long the last output waits for a reader that takes nothing, where the end was asked for.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Our own stdout or stderr takes more.
    Shown,
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
    /// What was read and not written out yet, by the number of our descriptor (0 is a terminal there).
    held: [Vec<u8>; 3],
    /// Our own descriptor that shows what the terminal prints (1, 2 or 0).
    shown_on: i32,
    /// Our own descriptor that is a terminal whose modes we change; with the modes it had.
    modes: Option<Termios>,
    raw: bool,
    /// Our stdout goes elsewhere, so the rest of a pipeline may print on our terminal meanwhile: its line ends stay as
    /// they are, as long as the command itself wants them so.
    is_shared: bool,
    /// Our terminal's line ends are as they were.
    cooked_output: bool,
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
    let (input_is_terminal, is_shared) = (is_terminal[0], !is_terminal[1]);
    let mut ends = Ends { input_is_terminal, is_shared, cooked_output: is_shared, ..Ends::default() };
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
        if number == 2
            && let (Some(out), true) = (&given[1], is_one_stream())
        {
            // `2>&1`: through two pipes the order of what is written to both would be lost.
            given[2] = Some(again(out)?);
            continue;
        }
        let (read, write) = pipe()?;
        given[number] = Some(write);
        *(if number == 1 { &mut ends.out } else { &mut ends.err }) = Some(read);
    }
    ends.shown_on = [1, 2, 0].into_iter().find(|number| is_terminal[*number as usize]).unwrap_or(1);
    let size = pty::size(own(ends.shown_on)).ok();
    Ok((Streams { given, size }, ends))
}

/// True where our stdout and stderr lead to the same place.
fn is_one_stream() -> bool {
    match (rustix::fs::fstat(own(1)), rustix::fs::fstat(own(2))) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => false,
    }
}

fn again(fd: impl rustix::fd::AsFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
        .map_err(|errno| kernel::Error::new("fcntl", "F_DUPFD_CLOEXEC", errno))
        .step(Stage::Exec, "pass a stream on")
}

/// The command's stdin when ours is no terminal: itself where it has no path to open again, else a pipe.
fn input() -> Result<(OwnedFd, Option<OwnedFd>)> {
    let kind = rustix::fs::fstat(own(0)).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::Fifo | FileType::Socket | FileType::CharacterDevice) => Ok((again(own(0))?, None)),
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
    let streams = Streams { given: [Some(null()?), Some(out_in), Some(err_in)], size: None };
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
            let mut raw = pty::raw(modes);
            if self.cooked_output {
                raw.output_modes = modes.output_modes;
            }
            self.raw = pty::set_modes(own(0), &raw).is_ok();
        }
    }

    /// Where the rest of a pipeline prints on our terminal too: a command that draws a screen switches the line ends
    /// off, there and here, and on again when it leaves.
    fn follow_output(&mut self, tape: &mut dyn Tape) {
        let Some(terminal) = self.terminal.as_ref().filter(|_| self.is_shared && self.raw) else { return };
        let Ok(inner) = pty::modes(terminal) else { return };
        let is_cooked = inner.output_modes.contains(OutputModes::OPOST);
        if is_cooked != self.cooked_output {
            self.cooked_output = is_cooked;
            self.resume(tape);
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
        if let Some(terminal) = &self.terminal {
            // Its output waits while ours is not taken; its input does not.
            let is_held = !self.held[self.shown_on as usize].is_empty();
            let mut flags = if is_held { PollFlags::empty() } else { PollFlags::IN };
            if !self.pending.is_empty() && self.feed.is_none() {
                flags |= PollFlags::OUT;
            }
            if !flags.is_empty() {
                polled.push((Slot::Terminal, terminal.as_fd(), flags));
            }
        }
        if let (Some(feed), false) = (&self.feed, self.pending.is_empty()) {
            polled.push((Slot::Feed, feed.as_fd(), PollFlags::OUT));
        }
        for (slot, stream, number) in [(Slot::Out, &self.out, 1), (Slot::Err, &self.err, 2)] {
            if let (Some(stream), true) = (stream, self.held[number].is_empty()) {
                polled.push((slot, stream.as_fd(), PollFlags::IN));
            }
        }
        for (number, held) in self.held.iter().enumerate() {
            if !held.is_empty() {
                polled.push((Slot::Shown, own(number as i32), PollFlags::OUT));
            }
        }
        polled
    }

    pub(super) fn pump(&mut self, slot: Slot, tape: &mut dyn Tape) {
        match slot {
            Slot::Input => self.read_input(),
            Slot::Feed => self.feed(),
            Slot::Terminal => {
                self.feed();
                self.follow_output(tape);
                let number = self.shown_on as usize;
                if let Some(terminal) = &self.terminal
                    && self.held[number].is_empty()
                {
                    let go_on = take(terminal, &mut self.held[number], tape);
                    self.show(number);
                    if !go_on {
                        self.restore();
                        self.terminal = None;
                    }
                }
            }
            Slot::Out | Slot::Err => {
                self.follow_output(tape);
                let number = if slot == Slot::Out { 1 } else { 2 };
                let stream = if slot == Slot::Out { &self.out } else { &self.err };
                if let Some(stream) = stream
                    && self.held[number].is_empty()
                {
                    if !take(stream, &mut self.held[number], tape) {
                        *(if slot == Slot::Out { &mut self.out } else { &mut self.err }) = None;
                    }
                    self.show(number);
                }
            }
            Slot::Shown => (0..3).for_each(|number| self.show(number)),
        }
    }

    /// The command has ended: nobody reads any more.
    pub(super) fn close_input(&mut self) {
        self.input = false;
        self.feed = None;
        self.pending.clear();
    }

    /// Writes held output as far as our own descriptor takes it without blocking.
    fn show(&mut self, number: usize) {
        let held = &mut self.held[number];
        if self.silent {
            return held.clear();
        }
        let mut done = 0;
        let written = loop {
            if done == held.len() {
                break Ok(());
            }
            match write_some(own(number as i32), &held[done..]) {
                Ok(n) => done += n,
                Err(Errno::AGAIN) => break Ok(()),
                Err(errno) => break Err(errno),
            }
        };
        held.drain(..done);
        if written.is_err() {
            // Our own reader is gone: close the stream, so that the command hears of it (SIGPIPE).
            held.clear();
            match number {
                1 => self.out = None,
                2 => self.err = None,
                _ => {}
            }
            if self.terminal.is_some() && self.shown_on as usize == number {
                self.restore();
                self.terminal = None;
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

    /// Writes out what is left in the streams, without waiting for more of it. Where our reader does not take
    /// it, waits for him: until a signal asks for the end, or until he took nothing for `patience`.
    pub(super) fn drain(&mut self, tape: &mut dyn Tape, signals: &OwnedFd, patience: Option<Duration>) {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let limit = patience.map(|patience| Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        loop {
            for (slot, number) in [(Slot::Terminal, self.shown_on as usize), (Slot::Out, 1), (Slot::Err, 2)] {
                loop {
                    let stream = match slot {
                        Slot::Terminal => &self.terminal,
                        Slot::Out => &self.out,
                        _ => &self.err,
                    };
                    let Some(stream) = stream else { break };
                    let mut fds = [PollFd::new(stream, PollFlags::IN)];
                    let has_more =
                        rustix::event::poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().is_empty();
                    if !has_more || !self.held[number].is_empty() {
                        break;
                    }
                    self.pump(slot, tape);
                }
            }
            let waiting: Vec<usize> = (0..3).filter(|number| !self.held[*number].is_empty()).collect();
            if waiting.is_empty() {
                return;
            }
            let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
            fds.extend(
                waiting.iter().map(|number| PollFd::from_borrowed_fd(own(*number as i32), PollFlags::OUT)),
            );
            match rustix::event::poll(&mut fds, limit.as_ref()) {
                Ok(0) => return,
                Ok(_) if fds[0].revents().is_empty() => {}
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => match kernel::signal::next(signals) {
                    Ok(Some((number, _))) if !super::asks_for_the_end(number) => {}
                    _ => return,
                },
            }
            waiting.into_iter().for_each(|number| self.show(number));
        }
    }
}

/// Reads one piece from the command; false at the end of the stream.
fn take(from: &OwnedFd, held: &mut Vec<u8>, tape: &mut dyn Tape) -> bool {
    let mut buffer = [0u8; 32 << 10];
    match rustix::io::read(from, &mut buffer) {
        Ok(0) => false,
        Ok(n) => {
            tape.output(&buffer[..n]);
            held.extend_from_slice(&buffer[..n]);
            true
        }
        Err(Errno::INTR | Errno::AGAIN) => true,
        Err(_) => false, // EIO: the last one has closed the terminal
    }
}

/// Writes as much as a descriptor takes at once, which is somebody else's too: it cannot be made non-blocking.
fn write_some(to: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    if rustix::event::poll(&mut fds, Some(&now))? == 0 {
        return Err(Errno::AGAIN);
    }
    let most = match rustix::fs::fstat(to).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        // A pipe that is ready takes PIPE_BUF bytes whole (pipe(7)).
        Ok(FileType::Fifo) => 4096,
        Ok(FileType::Socket) => {
            return rustix::net::send(
                to,
                bytes,
                rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL,
            );
        }
        // A terminal is ready while it holds less than 256 characters.
        Ok(FileType::CharacterDevice) => 1024,
        _ => bytes.len(),
    };
    match rustix::io::write(to, &bytes[..bytes.len().min(most)]) {
        Err(Errno::INTR) => Ok(0),
        other => other,
    }
}

/// True where we are in the foreground of our terminal: a background job must not touch its modes.
fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(own(0)).is_ok_and(|group| group == rustix::process::getpgrp())
}
