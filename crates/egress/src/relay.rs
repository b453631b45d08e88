//! Bytes between a lane and the outside: two sockets, each read as far as the other one takes it.
//!
//! Bytes go from socket to socket through a pipe, without a copy (splice(2)), but for those that are looked at first.
//! Invariants: nothing is passed on that the inspector has not let go; an end of one side is an end for the other, and
//! an error of one side is one for the other; a pipe is held only while there are bytes in it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use kernel::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::event::Event;
use crate::inspect::{Inspector, Step};
use crate::name::Name;

/// Pipes that nobody uses just now.
#[derive(Debug, Default)]
pub(crate) struct Pipes(Vec<Pipe>);

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

const PIPE: usize = 256 << 10;
const MOST_SPARE: usize = 32;
/// One side is served so long before others get their turn.
const TURN: u64 = 4 << 20;

impl Pipes {
    fn take(&mut self) -> Result<Pipe, Errno> {
        if let Some(pipe) = self.0.pop() {
            return Ok(pipe);
        }
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Beyond what a user may have, the usual size does.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE);
        Ok(Pipe { read, write })
    }

    fn give_back(&mut self, pipe: Pipe) {
        if self.0.len() < MOST_SPARE {
            self.0.push(pipe);
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Stream {
    /// Read and not judged yet.
    held: Vec<u8>,
    /// To be written, from `done` on.
    ready: Vec<u8>,
    done: usize,
    pipe: Option<Pipe>,
    in_pipe: usize,
    at_end: bool,
    is_shut: bool,
    bytes: u64,
}

/// A connection of a lane with the outside.
#[derive(Debug)]
pub(crate) struct Relay {
    inside: OwnedFd,
    outside: OwnedFd,
    out: Stream,
    back: Stream,
    inspector: Option<Inspector>,
    /// What is told when it ends.
    pub(crate) event: Event,
}

/// How a connection stands after its turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It waits for either side.
    Waits,
    /// There is more to do at once.
    Again,
    /// Both sides have ended.
    Ended,
    /// What the client wants was refused.
    Refused(Step),
}

impl Relay {
    /// A connection between two sockets, which do not block. `out` and `back` are sent first.
    pub(crate) fn new(
        inside: OwnedFd,
        outside: OwnedFd,
        inspector: Option<Inspector>,
        (out, back): (Vec<u8>, Vec<u8>),
        event: Event,
    ) -> Relay {
        for socket in [&inside, &outside] {
            let _ = sockopt::set_tcp_nodelay(socket, true);
        }
        let mut relay =
            Relay { inside, outside, out: Stream::default(), back: Stream::default(), inspector, event };
        // What is looked at is looked at from its first byte.
        if relay.inspector.is_some() {
            relay.out.held = out
        } else {
            relay.out.ready = out
        }
        relay.back.ready = back;
        relay
    }

    /// Both sockets.
    pub(crate) fn sockets(&self) -> [&OwnedFd; 2] {
        [&self.inside, &self.outside]
    }

    /// Bytes out of the lane and into it.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.out.bytes, self.back.bytes)
    }

    /// Carries what there is.
    pub(crate) fn turn(&mut self, pipes: &mut Pipes, judge: &dyn Fn(&Name) -> bool) -> Stand {
        let turned = self.both(pipes, judge);
        let stand = match turned {
            Ok(stand) => stand,
            Err(_) => {
                self.cut();
                Stand::Ended
            }
        };
        if !matches!(stand, Stand::Waits | Stand::Again) {
            for stream in [&mut self.out, &mut self.back] {
                stream.pipe = None;
            }
        }
        stand
    }

    fn both(&mut self, pipes: &mut Pipes, judge: &dyn Fn(&Name) -> bool) -> Result<Stand, Errno> {
        let mut again = false;
        loop {
            let before = (self.out.bytes, self.back.bytes);
            if self.inspector.is_some() {
                match self.look(judge)? {
                    Step::Wait => {}
                    refused => return Ok(Stand::Refused(refused)),
                }
            }
            // It may have let everything go just now.
            if self.inspector.is_none() {
                again |= self.out.carry(&self.inside, &self.outside, pipes)?;
            }
            let wants_answer = self.inspector.as_ref().is_some_and(Inspector::wants_answer);
            if wants_answer {
                self.read_answer()?;
            } else {
                again |= self.back.carry(&self.outside, &self.inside, pipes)?;
            }
            // What the server said may have set the client's bytes free.
            let moved = (self.out.bytes, self.back.bytes) != before;
            let free = wants_answer && !self.inspector.as_ref().is_some_and(Inspector::wants_answer);
            if !(free || moved && self.inspector.is_some() && !self.out.held.is_empty()) {
                break;
            }
        }
        Ok(match (self.out.is_shut && self.back.is_shut, again) {
            (true, _) => Stand::Ended,
            (false, true) => Stand::Again,
            (false, false) => Stand::Waits,
        })
    }

    /// Reads from the lane and lets go what was judged.
    fn look(&mut self, judge: &dyn Fn(&Name) -> bool) -> Result<Step, Errno> {
        loop {
            self.out.flush(&self.outside)?;
            if !self.out.ready.is_empty() {
                return Ok(Step::Wait);
            }
            let Some(inspector) = &mut self.inspector else { return Ok(Step::Wait) };
            match inspector.look(&self.out.held, judge) {
                Step::Pass(n) => {
                    let rest = self.out.held.split_off(n);
                    self.out.ready = std::mem::replace(&mut self.out.held, rest);
                    continue;
                }
                Step::Open => {
                    self.out.ready = std::mem::take(&mut self.out.held);
                    self.inspector = None;
                    return Ok(Step::Wait);
                }
                Step::Wait => {}
                shut => return Ok(shut),
            }
            let waits_for_server = inspector.wants_answer() && self.out.held.len() > 64 << 10;
            if self.out.at_end || waits_for_server {
                if self.out.at_end && inspector.ends_freely(&self.out.held) {
                    self.out.ready = std::mem::take(&mut self.out.held);
                    self.inspector = None;
                } else if self.out.at_end && !self.out.is_shut {
                    // An unfinished beginning goes nowhere.
                    self.out.held.clear();
                    self.out.shut(&self.outside);
                }
                return Ok(Step::Wait);
            }
            match read(&self.inside, &mut self.out.held)? {
                None => return Ok(Step::Wait),
                Some(0) => self.out.at_end = true,
                Some(_) => {}
            }
        }
    }

    fn read_answer(&mut self) -> Result<(), Errno> {
        self.back.flush(&self.inside)?;
        if !self.back.ready.is_empty() || self.back.at_end {
            return Ok(());
        }
        let mut heard = Vec::new();
        match read(&self.outside, &mut heard)? {
            None => return Ok(()),
            Some(0) => {
                self.back.at_end = true;
                self.back.shut(&self.inside);
            }
            Some(_) => {}
        }
        if let Some(inspector) = &mut self.inspector {
            inspector.answer(&heard);
        }
        self.back.ready = heard;
        self.back.flush(&self.inside)
    }

    /// Ends it after a last word to the client.
    pub(crate) fn end_with(&mut self, word: &[u8]) {
        let _ = rustix::net::send(&self.inside, word, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let _ = rustix::net::shutdown(&self.inside, Shutdown::Write);
        // What the client has sent and nobody reads would turn the end into an error that eats the last word.
        let mut scrap = [0u8; 16 << 10];
        while matches!(rustix::net::recv(&self.inside, &mut scrap, RecvFlags::DONTWAIT), Ok((n, _)) if n > 0)
        {
        }
        let _ = sockopt::set_socket_linger(&self.outside, Some(Duration::ZERO));
    }

    /// Ends it so that both sides see an error.
    fn cut(&self) {
        for socket in self.sockets() {
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}

/// Reads what there is to the end of `into`; `None` where there is nothing yet.
fn read(from: &OwnedFd, into: &mut Vec<u8>) -> Result<Option<usize>, Errno> {
    let mut buffer = [0u8; 16 << 10];
    loop {
        match rustix::net::recv(from, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((n, _)) => {
                into.extend_from_slice(&buffer[..n]);
                return Ok(Some(n));
            }
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl Stream {
    /// Writes what is ready, as far as it goes.
    fn flush(&mut self, to: &OwnedFd) -> Result<(), Errno> {
        while self.done < self.ready.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(to, &self.ready[self.done..], flags) {
                Ok(n) => {
                    self.done += n;
                    self.bytes += n as u64;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.ready.clear();
        self.done = 0;
        Ok(())
    }

    fn shut(&mut self, to: &OwnedFd) {
        self.is_shut = true;
        let _ = rustix::net::shutdown(to, Shutdown::Write);
    }

    /// Carries what there is from one socket to the other; true where there is more.
    fn carry(&mut self, from: &OwnedFd, to: &OwnedFd, pipes: &mut Pipes) -> Result<bool, Errno> {
        self.flush(to)?;
        if !self.ready.is_empty() || self.is_shut {
            return Ok(false);
        }
        let began = self.bytes;
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        loop {
            while self.in_pipe > 0 {
                let Some(pipe) = &self.pipe else { break };
                match rustix::pipe::splice(&pipe.read, None, to, None, self.in_pipe, flags) {
                    Ok(0) => return Err(Errno::PIPE),
                    Ok(n) => {
                        self.in_pipe -= n;
                        self.bytes += n as u64;
                    }
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            if self.at_end {
                self.shut(to);
                self.return_pipe(pipes);
                return Ok(false);
            }
            if self.bytes - began >= TURN {
                return Ok(true);
            }
            let pipe = match self.pipe.take() {
                Some(pipe) => pipe,
                None => pipes.take()?,
            };
            let read = rustix::pipe::splice(from, None, &pipe.write, None, PIPE, flags);
            self.pipe = Some(pipe);
            match read {
                Ok(0) => self.at_end = true,
                Ok(n) => self.in_pipe = n,
                Err(Errno::AGAIN) => {
                    self.return_pipe(pipes);
                    return Ok(false);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn return_pipe(&mut self, pipes: &mut Pipes) {
        if let Some(pipe) = self.pipe.take() {
            pipes.give_back(pipe);
        }
    }
}
