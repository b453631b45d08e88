//! From outside, while a command runs: signals, streams, time limit, the control socket, the notifier.
//!
//! One thread, one loop, one closed set of things to wait for. Invariants: the command's end is passed on
//! exactly; what it printed is written out before this returns; the terminal gets its modes back whatever
//! happens.

mod streams;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use kernel::process::Status;
use kernel::signal;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

pub use streams::{Ends, connect};

use crate::control::{self, Request};
use crate::error::{Error, Result, Stage, Step as _};
use crate::gate::{Gatekeeper, Heard, Keeper};
use crate::leader::Streams;
use crate::limits::{Found, Hit, Watched};
use crate::message::{FromInside, ToInside};
use crate::notify::{Listeners, Notifier, Told, is_dead};
use crate::plan::Plan;
use crate::rename::Carried;
use crate::seen::Witness;
use crate::spawn::{Handles, Inside};

/// Takes what a run prints, for its transcript.
pub trait Tape {
    /// Bytes in the order in which they were written out.
    fn output(&mut self, bytes: &[u8]);
    /// The terminal has this size now.
    fn resized(&mut self, columns: u16, rows: u16);
}

/// The lane that the command runs in.
#[derive(Debug)]
pub enum Lane<'l> {
    /// Made for this command: we serve its control socket and its notifier.
    Own {
        /// What was built.
        plan: &'l Plan,
        /// Its namespaces.
        handles: Handles,
        /// The listening control socket.
        control: Option<OwnedFd>,
        /// A directory outside the lane for the journal of renames.
        journal_dir: OwnedFd,
        /// The lane's lock, for those who join.
        hold: BorrowedFd<'l>,
        /// Goes on after its command has ended, until somebody stops it.
        live: bool,
        /// A line to the watch over it, which says nothing and ends with the watch.
        watch: Option<BorrowedFd<'l>>,
        /// Who answers for its network.
        gatekeeper: Option<&'l dyn Gatekeeper>,
        /// Limits that are looked at while it runs.
        limits: Option<Box<Watched>>,
    },
    /// Somebody else's: the listener goes there.
    Joined {
        /// The connection to its supervisor.
        connection: OwnedFd,
        /// Its directory on the host.
        dir: BorrowedFd<'l>,
    },
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    /// The command's own end; `None` where it never started.
    pub status: Option<Status>,
    /// The time limit ended it.
    pub timed_out: bool,
    /// Why it did not start.
    pub refused: Option<Error>,
    /// Directory renames that were carried out for it.
    pub renames: Vec<Carried>,
    /// The lane ended under a command that had joined it.
    pub lane_ended: bool,
    /// The command was forked: from here on it may have done something.
    pub started: bool,
    /// A signal that asks for the end was passed on to it.
    pub interrupted: bool,
    /// The process that answers for the lane's network ended before the lane: nothing left it from then on. Why.
    pub gate_was_lost: Option<String>,
    /// Watched limits that were hit.
    pub hits: Vec<Hit>,
}

/// The signals that are passed on.
const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// How long keys wait for a lane that stands still before help is looked for, and how often it is looked whether it does.
const KEYS_WAIT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Those among them that ask for the end.
const ASKS_FOR_THE_END: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Signals, blocked before anything is forked so that none is lost.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks what the loop handles.
    pub fn block() -> Result<Signals> {
        let mut all: Vec<i32> = PASSED_ON.iter().map(|signal| signal.as_raw()).collect();
        all.extend([Signal::WINCH.as_raw(), Signal::TSTP.as_raw(), Signal::CONT.as_raw()]);
        signal::ignore(Signal::PIPE.as_raw());
        signal::block_and_watch(&all).map(Signals).step(Stage::Supervise, "watch signals")
    }
}

/// Who is told of what happens meanwhile.
#[expect(missing_debug_implementations, reason = "closures have none")]
pub struct Hooks<'h> {
    /// Takes what the command prints.
    pub tape: &'h mut dyn Tape,
    /// Told how many commands that joined the lane go on after its own.
    pub waiting: &'h mut dyn FnMut(usize),
    /// Told that the lane is ending and no process is left in it but pid 1.
    pub alone: &'h mut dyn FnMut(),
    /// Told what the walls saw.
    pub witness: &'h mut dyn Witness,
}

/// Runs the loop until the command has ended, and with it every command that had joined the lane (for a live
/// lane: until the lane has ended).
pub fn supervise(
    inside: &Inside,
    lane: Lane<'_>,
    ends: Ends,
    signals: &Signals,
    timeout: Option<Duration>,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome> {
    let Hooks { tape, waiting, alone, witness } = hooks;
    let mut supervisor = Supervisor {
        inside,
        lane,
        ends,
        tape: &mut **tape,
        waiting: &mut **waiting,
        alone: &mut **alone,
        witness: &mut **witness,
        deadline: timeout.map(|timeout| Instant::now() + timeout),
        notifier: None,
        keeper: None,
        gate_is_lost: false,
        listeners: Listeners::new()?,
        connections: Vec::new(),
        outcome: Outcome {
            status: None,
            timed_out: false,
            refused: None,
            renames: Vec::new(),
            lane_ended: false,
            started: false,
            interrupted: false,
            gate_was_lost: None,
            hits: Vec::new(),
        },
        gone: false,
        ending: false,
        signalled: false,
        keys_wait: None,
    };
    let result = supervisor.run(signals);
    if let Some(notifier) = supervisor.notifier.take() {
        let (renames, witness) = (&mut supervisor.outcome.renames, &mut *supervisor.witness);
        notifier.end(&mut |told| match told {
            Told::Carried(carried) => renames.push(carried),
            Told::Seen(seen) => witness.saw(seen),
        });
    }
    if let Some(keeper) = supervisor.keeper.take() {
        keeper.end(|told| supervisor.witness.heard(told));
    }
    if let (Lane::Joined { connection, .. }, Some(_)) = (&supervisor.lane, supervisor.outcome.status) {
        control::settle(connection, |told| supervisor.witness.heard(told));
    }
    if let (Lane::Joined { dir, .. }, None) = (&supervisor.lane, supervisor.outcome.status) {
        // The lane may have ended while it stood still, and its guard is gone or going: our leader stands still, too.
        crate::freeze::lift(*dir, Duration::from_secs(2));
    }
    inside.reap();
    let Supervisor { mut outcome, mut ends, tape, signalled, lane, .. } = supervisor;
    if let (Lane::Joined { connection, .. }, None) = (&lane, outcome.status) {
        outcome.lane_ended = outcome.lane_ended || is_dead(connection);
    }
    outcome.interrupted = signalled;
    // Who asked for the end does not wait for a reader that has stalled.
    let patience = (signalled || outcome.timed_out).then_some(streams::PATIENCE);
    ends.drain(tape, &signals.0, patience);
    ends.restore();
    result.map(|()| outcome)
}

struct Supervisor<'s> {
    inside: &'s Inside,
    lane: Lane<'s>,
    ends: Ends,
    tape: &'s mut dyn Tape,
    waiting: &'s mut dyn FnMut(usize),
    alone: &'s mut dyn FnMut(),
    witness: &'s mut dyn Witness,
    deadline: Option<Instant>,
    notifier: Option<Notifier>,
    keeper: Option<Keeper>,
    /// It ended before the lane: nothing leaves the lane any more.
    gate_is_lost: bool,
    /// Listeners, kept so that a call is never orphaned while the notifier is started again.
    listeners: Listeners,
    /// Clients of the control socket; a place is emptied in a round and swept after it.
    connections: Vec<Option<OwnedFd>>,
    outcome: Outcome,
    gone: bool,
    /// The lane was told to end.
    ending: bool,
    /// A signal that asks for the end was passed on.
    signalled: bool,
    /// Since when keys wait, because the lane stands still: Ctrl-Z would be lost where it goes on.
    keys_wait: Option<Instant>,
}

/// What a poll entry stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Inside,
    Signals,
    Control,
    Connection(usize),
    Listener,
    Notifier,
    Door,
    Keeper,
    Stream(streams::Slot),
    Lane,
    Watch,
}

impl Supervisor<'_> {
    fn run(&mut self, signals: &Signals) -> Result<()> {
        while !self.gone {
            let (said, timed_out) = self.wait(signals)?;
            if timed_out && !self.outcome.timed_out {
                self.outcome.timed_out = true;
                self.terminate();
                self.deadline = Some(Instant::now() + Duration::from_secs(3));
            } else if timed_out {
                self.inside.tell(ToInside::Kill);
                self.deadline = None;
            }
            for (source, flags) in said {
                self.handle(source, flags, signals)?;
            }
            self.look_at_limits();
            let before = self.connections.len();
            self.connections.retain(Option::is_some);
            if self.connections.len() < before {
                self.end_with_the_last();
            }
        }
        Ok(())
    }

    fn wait(&mut self, signals: &Signals) -> Result<(Vec<(Source, PollFlags)>, bool)> {
        let mut sources = vec![Source::Inside, Source::Signals];
        let mut fds =
            vec![PollFd::new(&self.inside.channel, PollFlags::IN), PollFd::new(&signals.0, PollFlags::IN)];
        match &self.lane {
            Lane::Own { control: Some(control), .. } => {
                sources.push(Source::Control);
                fds.push(PollFd::new(control, PollFlags::IN));
            }
            Lane::Own { .. } => {}
            Lane::Joined { connection, .. } => {
                sources.push(Source::Lane);
                fds.push(PollFd::new(connection, PollFlags::IN));
            }
        }
        if let Lane::Own { watch: Some(watch), .. } = &self.lane {
            sources.push(Source::Watch);
            fds.push(PollFd::from_borrowed_fd(*watch, PollFlags::IN));
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let Some(connection) = connection else { continue };
            sources.push(Source::Connection(index));
            fds.push(PollFd::new(connection, PollFlags::IN));
        }
        match &self.notifier {
            Some(notifier) => {
                sources.push(Source::Notifier);
                fds.push(PollFd::from_borrowed_fd(notifier.socket(), PollFlags::IN));
            }
            None => {
                for listener in self.listeners.fds() {
                    sources.push(Source::Listener);
                    fds.push(PollFd::new(listener, PollFlags::IN));
                }
            }
        }
        match (&self.keeper, &self.lane) {
            (Some(keeper), _) => {
                sources.push(Source::Keeper);
                fds.push(PollFd::from_borrowed_fd(keeper.report(), PollFlags::IN));
            }
            (None, Lane::Own { handles, gatekeeper: Some(gatekeeper), .. }) if !self.gate_is_lost => {
                let doors = handles.doors.iter().map(|(_, fd)| fd.as_fd()).chain(gatekeeper.holds());
                for door in doors {
                    sources.push(Source::Door);
                    fds.push(PollFd::from_borrowed_fd(door, PollFlags::IN));
                }
            }
            _ => {}
        }
        if let Some(since) = self.keys_wait
            && !self.keys_still_wait(since)
        {
            self.keys_wait = None;
        }
        for (slot, fd, flags) in self.ends.polled() {
            if self.keys_wait.is_some() && slot == streams::Slot::Input {
                continue;
            }
            sources.push(Source::Stream(slot));
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let soon = self.keys_wait.map(|_| LOOK_AGAIN);
        let look = self.limits().map(|limits| limits.next().saturating_duration_since(Instant::now()));
        let timeout = left.into_iter().chain(soon).chain(look).chain(self.witness.rest()).min();
        let timeout = timeout
            .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(kernel::Errno::INTR) => {}
            Err(errno) => return Err(kernel::Error::new("poll", "", errno)).step(Stage::Supervise, "wait"),
        }
        let said = sources
            .iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(source, fd)| (*source, fd.revents()))
            .collect();
        Ok((said, self.deadline.is_some_and(|deadline| Instant::now() >= deadline)))
    }

    fn handle(&mut self, source: Source, flags: PollFlags, signals: &Signals) -> Result<()> {
        match source {
            Source::Inside => self.hear_inside(),
            Source::Signals => self.hear_signals(signals),
            Source::Control => {
                if let Lane::Own { control: Some(control), .. } = &self.lane
                    && let Some(connection) = control::accept(control)
                {
                    self.connections.push(Some(connection));
                }
                Ok(())
            }
            Source::Connection(index) => {
                self.hear_client(index);
                Ok(())
            }
            Source::Listener => self.start_notifier(flags),
            Source::Notifier => self.hear_notifier(),
            Source::Door => self.start_keeper(),
            Source::Keeper => {
                self.hear_keeper();
                Ok(())
            }
            Source::Stream(streams::Slot::Input) if self.has_to_wait() => {
                self.keys_wait = Some(Instant::now());
                Ok(())
            }
            Source::Stream(slot) => {
                self.ends.pump(slot, self.tape);
                Ok(())
            }
            Source::Watch => {
                // Killed, perhaps while the lane stood still for it.
                if let Lane::Own { watch, journal_dir, .. } = &mut self.lane {
                    *watch = None;
                    crate::freeze::lift(journal_dir, Duration::from_secs(1));
                }
                Ok(())
            }
            Source::Lane => {
                if let Lane::Joined { connection, .. } = &self.lane
                    && let control::Word::Told(told) = control::word(connection)
                {
                    self.witness.heard(&told);
                    return Ok(());
                }
                // The lane's supervisor says nothing else on this connection: it is gone, and so is the lane.
                self.outcome.lane_ended = self.outcome.status.is_none();
                self.gone = true;
                Ok(())
            }
        }
    }

    fn hear_inside(&mut self) -> Result<()> {
        let Some((message, mut fds)) = self.inside.hear()? else {
            self.gone = true;
            if self.outcome.status.is_none() && self.outcome.refused.is_none() && !self.is_live() {
                self.outcome.status = Some(Status::Killed(Signal::KILL.as_raw()));
            }
            return Ok(());
        };
        match message {
            FromInside::Terminal => {
                if let Some(master) = fds.pop() {
                    self.ends.take_terminal(master, self.tape);
                }
            }
            FromInside::Listener => {
                if let Some(listener) = fds.pop() {
                    self.add_listener(listener)?;
                }
            }
            FromInside::Started(_) => self.outcome.started = true,
            FromInside::Ready | FromInside::Doors(_) => {}
            FromInside::Alone => {
                if self.ending {
                    // Nobody joins any more, and what we hold would keep the mounts from going with pid 1.
                    if let (Lane::Own { handles, .. }, None) = (&mut self.lane, &self.notifier) {
                        handles.fds.clear();
                        handles.doors.clear();
                        self.gate_is_lost |= self.keeper.is_none();
                    }
                    (self.alone)();
                }
            }
            FromInside::Failed { stage, errno, step, cause } => {
                self.outcome.refused = Some(Error::Step { stage, step, cause, errno });
            }
            FromInside::Changed(Status::Stopped(_)) => self.stop_with_it(),
            FromInside::Changed(Status::Continued) => {}
            FromInside::Changed(status) => {
                self.outcome.status = Some(status);
                self.deadline = None;
                self.ends.close_input();
                if matches!(self.lane, Lane::Joined { .. }) {
                    self.gone = true;
                } else if !self.connections.is_empty() && !self.is_live() {
                    (self.waiting)(self.connections.len());
                }
                self.end_with_the_last();
            }
        }
        Ok(())
    }

    /// True where keys were typed that nobody should get now.
    fn has_to_wait(&self) -> bool {
        self.keys_wait.is_none() && self.ends.has_terminal() && self.stands_still()
    }

    fn keys_still_wait(&self, since: Instant) -> bool {
        if since.elapsed() > KEYS_WAIT {
            // Whoever made it stand may have been killed, and its guard with it.
            crate::freeze::lift(self.lane_dir(), Duration::ZERO);
        }
        self.stands_still()
    }

    fn stands_still(&self) -> bool {
        crate::freeze::is_at_work(self.lane_dir())
    }

    /// The lane's directory on the host.
    fn lane_dir(&self) -> BorrowedFd<'_> {
        match &self.lane {
            Lane::Own { journal_dir, .. } => journal_dir.as_fd(),
            Lane::Joined { dir, .. } => *dir,
        }
    }

    /// The limits that are watched, as long as there is a lane to watch.
    fn limits(&self) -> Option<&Watched> {
        match &self.lane {
            Lane::Own { limits: Some(limits), .. } if !self.ending => Some(limits),
            _ => None,
        }
    }

    fn look_at_limits(&mut self) {
        let (Lane::Own { limits: Some(limits), .. }, false) = (&mut self.lane, self.ending) else { return };
        match limits.look() {
            Found::Within => {}
            Found::Ended(hit) => self.outcome.hits.push(hit),
            Found::EndLane(hit) => {
                self.outcome.hits.push(hit);
                self.terminate();
            }
        }
    }

    fn is_live(&self) -> bool {
        matches!(self.lane, Lane::Own { live: true, .. })
    }

    /// Our command has ended: the lane ends with the last of those that joined it.
    fn end_with_the_last(&mut self) {
        if self.outcome.status.is_some() && self.connections.is_empty() && !self.is_live() {
            self.terminate();
        }
    }

    fn terminate(&mut self) {
        self.ending = true;
        self.inside.tell(ToInside::Terminate);
    }

    /// The command was stopped from its terminal: give the host's shell its terminal back and stop too, with the
    /// whole job, which a script around this run or the rest of a pipeline belongs to.
    fn stop_with_it(&mut self) {
        if !self.ends.has_terminal() {
            return;
        }
        self.ends.restore();
        let _ = signal::suspend(true);
        // Here again after SIGCONT, or at once where nobody could send it.
        self.ends.resume(self.tape);
        self.inside.tell(ToInside::Signal(Signal::CONT.as_raw()));
    }

    fn hear_signals(&mut self, signals: &Signals) -> Result<()> {
        while let Some((number, _)) = signal::next(&signals.0).step(Stage::Supervise, "read a signal")? {
            if number == Signal::WINCH.as_raw() {
                self.ends.resize(self.tape);
            } else if number == Signal::TSTP.as_raw() {
                self.inside.tell(ToInside::Signal(Signal::STOP.as_raw()));
                self.ends.restore();
                let _ = signal::suspend(false);
                self.ends.resume(self.tape);
                self.inside.tell(ToInside::Signal(Signal::CONT.as_raw()));
            } else if number == Signal::CONT.as_raw() {
                self.ends.resume(self.tape);
            } else if self.is_live() || self.outcome.status.is_some() {
                // A live lane has no terminal of its own: a signal to its supervisor means the lane. So it does
                // while only others' commands are waited for.
                self.terminate();
            } else {
                self.signalled |= asks_for_the_end(number);
                self.inside.tell(ToInside::Signal(number));
            }
        }
        Ok(())
    }

    fn hear_client(&mut self, index: usize) {
        let Some(Some(connection)) = self.connections.get(index) else { return };
        match control::hear(connection) {
            // Who comes when the end has begun is told nothing, and starts the lane again.
            Request::Join if self.ending => self.connections[index] = None,
            Request::Join => {
                if let Lane::Own { plan, handles, hold, .. } = &self.lane {
                    control::hand_out(connection, handles, *hold, plan.mode, &plan.walls);
                }
            }
            Request::Listener(listener) => {
                let _ = self.add_listener(listener);
            }
            Request::Settle => {
                while self.keeper.as_ref().is_some_and(Keeper::has_more) {
                    self.hear_keeper();
                }
                if let Some(Some(connection)) = self.connections.get(index) {
                    control::settled(connection);
                }
            }
            Request::Stop => self.terminate(),
            Request::Gone => {
                self.connections[index] = None;
                self.listeners.sweep();
            }
        }
    }

    fn add_listener(&mut self, listener: OwnedFd) -> Result<()> {
        match &self.lane {
            Lane::Joined { connection, .. } => control::give_listener(connection, &listener),
            Lane::Own { .. } => self.listeners.add(listener, self.notifier.as_ref(), self.keeper.as_ref()),
        }
    }

    fn start_notifier(&mut self, flags: PollFlags) -> Result<()> {
        if !flags.contains(PollFlags::IN) {
            // The command behind a listener ended before it made a call of interest.
            self.listeners.sweep();
            return Ok(());
        }
        self.start_keeper()?;
        if let Lane::Own { handles, journal_dir, .. } = &self.lane
            && self.notifier.is_none()
        {
            let gate = self.keeper.as_ref().map(Keeper::line);
            self.notifier = Some(Notifier::start(handles, journal_dir, &self.listeners, gate)?);
        }
        Ok(())
    }

    /// Starts the gate, where there is one and it has not been there yet.
    fn start_keeper(&mut self) -> Result<()> {
        if let Lane::Own { handles, gatekeeper: Some(gatekeeper), .. } = &self.lane
            && self.keeper.is_none()
            && !self.gate_is_lost
        {
            let keeper = Keeper::start(handles, *gatekeeper)?;
            self.listeners.introduce(&keeper);
            self.keeper = Some(keeper);
        }
        Ok(())
    }

    fn hear_keeper(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        match keeper.hear() {
            Some(Heard::Told(told)) => {
                self.witness.heard(&told);
                self.connections.iter().flatten().for_each(|connection| control::pass_on(connection, &told));
            }
            Some(Heard::Trouble(why)) => self.outcome.gate_was_lost = Some(why),
            None => {
                keeper.reap();
                self.keeper = None;
                self.gate_is_lost = true;
                self.outcome.gate_was_lost.get_or_insert_with(|| "it was killed".to_owned());
            }
        }
    }

    fn hear_notifier(&mut self) -> Result<()> {
        let Some(notifier) = &self.notifier else { return Ok(()) };
        match notifier.hear() {
            Some(Told::Carried(carried)) => self.outcome.renames.push(carried),
            Some(Told::Seen(seen)) => self.witness.saw(seen),
            None => {
                // Killed by somebody on the host: the listeners are still ours, a new one recovers.
                notifier.reap();
                self.notifier = None;
                if let Lane::Own { handles, journal_dir, .. } = &self.lane {
                    self.notifier = self.listeners.restart(handles, journal_dir, self.keeper.as_ref())?;
                }
            }
        }
        Ok(())
    }
}

fn asks_for_the_end(number: i32) -> bool {
    ASKS_FOR_THE_END.iter().any(|signal| signal.as_raw() == number)
}

/// The streams of a command that runs unattended: nothing in, output to the tape only.
pub fn detached() -> Result<(Streams, Ends)> {
    streams::detached()
}
