//! One command, from a prepared launch to its end: spawn or join, supervise, record. The one place where
//! the ledger, the transcript and the sandbox meet.
//!
//! Invariant: a run's row is written before its command can have done anything, and its end is written by
//! whoever saw it; a supervisor that is killed leaves a row that the next command settles as lost.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::lock::Lock;
use kernel::process::{Namespaces, Status};
use ledger::{LaneState, NewRun};
use sandbox::freeze::Group;
use sandbox::limits::Groups;
use sandbox::message::ToInside;
use sandbox::seen::{Seen, Witness};
use sandbox::supervise::{self, Ends, Lane as Where, Outcome, Signals};
use sandbox::{control, leader::Streams, report, spawn};

use crate::artifacts::{self, Handed};
use crate::clock;
use crate::describe;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::happened::{Happening, OfRun, ReadsView, Sink};
use crate::lane::OpenLane;
use crate::launch::Launch;
use crate::live;
use crate::monitor::{Event, Monitor};
use crate::network;
use crate::ops::new;
use crate::transcript::Transcript;
use crate::view::{Exit, WallView};
use crate::walk::{self, Walk};
use crate::watch::{self, Over, Watch, Watching};

/// How a run is driven.
#[derive(Debug, Default)]
pub struct Options {
    /// Time limit.
    pub timeout: Option<Duration>,
    /// The lane goes on after its command, unattended.
    pub live: bool,
    /// Nothing of it is wanted afterwards: no transcript, no walk, and the caller records the end with the
    /// removal ([`Driven::unwritten`]).
    pub passing: bool,
    /// The lane's own row is not written yet: it is written with the run's.
    pub unrecorded: bool,
    /// What was begun before the lane was known.
    pub early: Option<Early>,
    /// The groups that hold the lane's limits.
    pub groups: Option<Groups>,
    /// How it is watched.
    pub watching: Watching,
    /// No record speaks of the lane, nor of this run.
    pub apart: Option<Apart>,
}

/// A run in a lane of which nobody knows: it goes with its run, or with the next command where that is killed.
#[derive(Debug)]
pub struct Apart {
    /// Where what it prints is recorded, but for the ending.
    pub transcript: PathBuf,
    /// What pid 1 holds besides, for as long as it lives.
    pub held: Option<OwnedFd>,
    /// It has none of the caller's streams.
    pub unattended: bool,
}

/// What a driven command left.
#[derive(Debug)]
pub struct Driven {
    /// How it ended.
    pub exit: Exit,
    /// The walk, where one was begun.
    pub walk: Option<Walk>,
    /// The watch over the lane, where one stands: it takes the last snapshot once the lane's lock is free.
    pub watch: Option<Watch>,
    /// The run's row; `None` where it stands on a slip.
    pub run: Option<i64>,
    /// False where the lane ended before the command began: it has done nothing.
    pub began: bool,
    /// The end of a passing run, which the caller has yet to record.
    pub unwritten: Option<End>,
    /// The directory of a passing run's lane was emptied already.
    pub emptied: bool,
    /// It was told to end by a signal to us.
    pub interrupted: bool,
    /// The recording of what it printed, of a run apart.
    pub transcript: Option<PathBuf>,
    /// What the walls had to tell.
    pub told: Option<Told>,
}

/// What a run leaves to those who close it.
#[derive(Debug, Clone)]
pub struct Told {
    /// The run, for what there is to tell of it after its end.
    pub of: OfRun,
    /// What was refused, each once.
    pub refused: Vec<ledger::Happened>,
    /// What tracing files that were opened amounted to.
    pub reads: Option<ReadsView>,
    /// What was handed out.
    pub handed: Option<Handed>,
}

impl Told {
    /// Everything is written down with this.
    fn new(sink: Option<Sink<'_>>, of: OfRun, handed: Option<Handed>) -> Option<Told> {
        sink.map(|sink| Told { refused: sink.refused().to_vec(), reads: sink.reads(), of, handed })
    }
}

/// When and how a run ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// As the ledger keeps it.
    pub exit: ledger::Exit,
}

/// Pid 1 at work on the ground of its view.
#[derive(Debug)]
pub struct Early {
    inside: spawn::Inside,
    ends: Ends,
    cast: bool,
}

/// Begins a lane's processes before the lane is known; its ground is to be built next. Dropped, they end.
pub fn begin(
    mode: sandbox::Mode,
    namespaces: Namespaces,
    group: Option<&Group>,
    live: bool,
) -> Result<Early> {
    let streams = if live { supervise::detached() } else { supervise::connect() };
    let (streams, ends) = streams.map_err(EngineError::Sandbox)?;
    let cast = streams_have_terminal(&streams);

    let inside = spawn::begin(mode, namespaces, group, streams).map_err(EngineError::Sandbox)?;
    Ok(Early { inside, ends, cast })
}

impl Early {
    /// Has the ground of the view built.
    pub fn build(&self, ground: &[sandbox::Op]) -> Result<()> {
        self.inside.build(ground).map_err(EngineError::Sandbox)
    }
}

/// Runs a command in a lane of our own. `ready` is called once the view stands and the command starts.
pub fn own(
    engine: &Engine,
    lane: &OpenLane,
    lock: &Lock,
    launch: &Launch,
    mut options: Options,
    monitor: &mut dyn Monitor,
    ready: &mut dyn FnMut(&mut dyn Monitor),
) -> Result<Driven> {
    let signals = Signals::block().map_err(EngineError::Sandbox)?;
    let keeper = network::Keeper::new(&launch.net)?;
    let group = if launch.channel { Group::make(&lane.home.dir().fd, &lane.row.id) } else { None };
    let Early { inside, ends, cast } = match options.early.take() {
        Some(early) => early,
        None => {
            let plan = &launch.plan;
            let unattended = options.apart.as_ref().is_some_and(|apart| apart.unattended);
            let early = begin(plan.mode, plan.namespaces, group.as_ref(), options.live || unattended)?;
            early.build(&plan.ops[..plan.ground])?;
            early
        }
    };
    lane.home.forget_links()?;
    if options.apart.is_none() {
        // From here on it holds work, whatever becomes of the record.
        lane.home.end_fork()?;
    }
    for root in &lane.roots {
        root.workspace.before_mount()?;
    }
    lane.home.note_boot()?;
    // Before the command can have read them.
    for name in crate::leaks::note(&lane.home, &launch.command.secrets)? {
        monitor.event(Event::Warning(&format!(
            "the secret {name} is too short to be looked for in what leaves the lane"
        )));
    }
    let journal_dir = lane.home.dir().fd.try_clone().map_err(|error| EngineError::Kernel {
        doing: "keep the lane's directory".into(),
        source: kernel::Error::from_io("dup", "", &error),
    })?;

    let sockets = if launch.channel { Some(listen(lane)?) } else { None };
    // Pid 1 has started nobody yet that stays.
    let _group = group.filter(|group| group.has(inside.leader.pid.as_raw_nonzero().get()));
    if let Some(groups) = &options.groups {
        groups.take(inside.leader.pid.as_raw_nonzero().get()).map_err(EngineError::Sandbox)?;
    }
    let command = Some(&launch.command);
    let mut held = vec![lock.as_fd()];
    held.extend(options.apart.as_ref().and_then(|apart| apart.held.as_ref()).map(AsFd::as_fd));
    inside.order(&launch.plan, command, &held).map_err(EngineError::Sandbox)?;

    // While the inside builds its view: the rows, the control socket. It waits for our word with the command.
    let walls = walls(launch);
    let transcript = match &options.apart {
        Some(apart) => Some(apart.transcript.with_extension(ending(cast))),
        None => (!options.passing).then(|| transcript_path(lane, cast)),
    };
    let run = new_run(lane, launch, &walls, transcript.as_deref(), options.live);
    let of = OfRun::new(&run);
    let recorded = record(engine, lane, run, &options);
    let run = match recorded {
        Ok(run) => run,
        Err(error) => {
            // Nothing began, and what is mounted goes before the layers may.
            inside.tell(ToInside::Kill);
            inside.reap();
            return Err(error);
        }
    };

    inside.tell(ToInside::Go);
    let mut sink = options.apart.is_none().then(|| Sink::new(engine, of.clone()));
    if let Some(sink) = &mut sink {
        launch.tell(lane, sink)?;
    }
    // Without namespaces there is nothing to join.
    let control = match launch.plan.walls.bare {
        true => None,
        false => Some(control::listen(lane.home.dir().fd.as_fd()).map_err(EngineError::Sandbox)?),
    };

    let handles = match inside.ready(&launch.plan) {
        Ok(handles) => handles,
        Err(error) => {
            control::remove(lane.home.dir().fd.as_fd());
            if options.apart.is_none() {
                let run = row_of(engine, &lane.row.id, run)?;
                engine.ledger()?.act(|act| -> ledger::Result<()> {
                    act.set_state(&lane.row.id, LaneState::Idle)?;
                    act.end_run(run, clock::now_ms(), ledger::Exit::Code(125))
                })?;
            }
            return Err(EngineError::Sandbox(error));
        }
    };

    // Whoever finds it finds somebody who answers.
    let leaves_nothing = options.passing || options.apart.is_some();
    let _card = if leaves_nothing { None } else { live::put(engine, &lane.row) };
    ready(monitor);
    let walk = if leaves_nothing { None } else { walk::start(engine.state().path(), lane)? };
    let watch = match sockets {
        Some((outside, inside_socket)) => {
            let is_pids = |(kind, _): &&(Namespaces, OwnedFd)| *kind == Namespaces::PID;
            let pids = handles.fds.iter().find(is_pids).and_then(|(_, fd)| fd.try_clone().ok());
            let over = pids.map(|pids| Over { pids, outside, inside: inside_socket });
            over.map(|over| watch::start(engine.state().path(), lane, options.watching, over)).transpose()?
        }
        None => None,
    };
    let limits = crate::limits::watch(lane, &launch.plan, &handles);
    let place = Where::Own {
        limits,
        plan: &launch.plan,
        handles,
        control,
        journal_dir,
        hold: lock.as_fd(),
        live: options.live,
        watch: watch.as_ref().map(Watch::line),
        gatekeeper: keeper.as_ref().map(|keeper| keeper as &dyn sandbox::gate::Gatekeeper),
    };
    if !leaves_nothing {
        network::note(lane.home.path(), &launch.net);
    }
    // Nobody is left in a passing lane: its directory is emptied while pid 1 ends, and the mounts with it.
    let mut emptied = false;
    let mut alone = || {
        emptied = options.passing && lane.home.empty_in_passing(crate::lane::mount_mode()).unwrap_or(false);
    };
    let attending = Attending { timeout: options.timeout, transcript: transcript.as_deref(), cast };
    let (outcome, recording) =
        attended(&inside, place, ends, &signals, attending, (&mut alone, sink.as_mut()), monitor);
    let handed = match &launch.out {
        Some(to) => {
            let needles = crate::leaks::needles(&launch.command.secrets)?;
            match artifacts::hand_out(lane, to, needles.as_ref(), &mut sink) {
                Ok(handed) => Some(handed),
                Err(error) => {
                    monitor.event(Event::Warning(&format!(
                        "artifacts were not handed out: {}",
                        error.with_causes()
                    )));
                    None
                }
            }
        }
        None => None,
    };
    let interrupted = outcome.as_ref().is_ok_and(|outcome| outcome.interrupted);
    let mut hits = options.groups.as_ref().map(Groups::hits).unwrap_or_default();
    hits.extend(outcome.iter().flat_map(|outcome| outcome.hits.iter().cloned()));
    crate::limits::tell(&hits, sink.as_mut(), monitor);
    let told = sink.as_mut().map(|sink| launch.tell_end(sink)).and_then(|()| Told::new(sink, of, handed));

    control::remove(lane.home.dir().fd.as_fd());
    if options.apart.is_some() {
        let exit = finish(outcome, |_| Ok(()), monitor)?;
        let transcript = recording;
        return Ok(Driven { interrupted, transcript, ..Driven::ended(exit) });
    }
    let outcome = match outcome {
        // One act less: the caller records the end with the removal.
        Ok(outcome) if options.passing && outcome.refused.is_none() => {
            let (exit, end) = exit_of(&outcome);
            let unwritten = Some(End { at: clock::now_ms(), exit: end });
            let exit = tell(outcome, exit, monitor)?;
            return Ok(Driven {
                walk,
                watch,
                run,
                unwritten,
                emptied,
                interrupted,
                told,
                ..Driven::ended(exit)
            });
        }
        other => other,
    };
    let ended = |exit| {
        let run = row_of(engine, &lane.row.id, run)?;
        let act = engine.ledger()?.act(|act| -> ledger::Result<()> {
            act.end_run(run, clock::now_ms(), exit)?;
            act.set_state(&lane.row.id, LaneState::Idle)
        });
        Ok(act?)
    };
    let exit = finish(outcome, ended, monitor)?;
    // A full disk or the like: what stays is a few directories, and the run is over all the same.
    if let Err(error) = lane.home.shrink(crate::lane::mount_mode()) {
        monitor.event(Event::Warning(&error.to_string()));
    }
    Ok(Driven { walk, watch, run, interrupted, told, ..Driven::ended(exit) })
}

impl Driven {
    /// A command that began and ended so, and left nothing.
    fn ended(exit: Exit) -> Driven {
        Driven {
            exit,
            walk: None,
            watch: None,
            run: None,
            began: true,
            unwritten: None,
            emptied: false,
            interrupted: false,
            transcript: None,
            told: None,
        }
    }
}

/// The sockets on which snapshots are asked for; the view carries one of them.
fn listen(lane: &OpenLane) -> Result<(OwnedFd, OwnedFd)> {
    let dir = lane.home.dir().fd.as_fd();
    let listen = |name| sandbox::channel::listen(dir, name).map_err(EngineError::Sandbox);
    Ok((listen(sandbox::channel::OUTSIDE)?, listen(sandbox::channel::INSIDE)?))
}

/// Writes down that a run begins, with its lane where that is not on record. A lane that goes with its run and had
/// its name drawn needs a slip only.
fn record(engine: &Engine, lane: &OpenLane, run: NewRun, options: &Options) -> Result<Option<i64>> {
    if options.apart.is_some() {
        return Ok(None);
    }
    let row = || ledger::Lane { state: LaneState::Live, ..lane.row.clone() };
    if options.passing && options.unrecorded {
        engine.note(&ledger::Slip::Began { lane: Box::new(row()), run: Box::new(run) })?;
        return Ok(None);
    }
    let act = engine.ledger()?.act(|act| -> ledger::Result<i64> {
        if options.unrecorded {
            new::record_in(act, &row())?;
        } else {
            act.set_state(&lane.row.id, LaneState::Live)?;
            // We hold its lock: whatever ran in it does not any more.
            act.lose_open_runs(&lane.row.id, clock::now_ms())?;
        }
        act.insert_run(&run)
    });
    Ok(Some(act?))
}

/// The row of a run, which may have stood on a slip.
pub fn row_of(engine: &Engine, lane: &str, run: Option<i64>) -> Result<i64> {
    match run {
        Some(run) => Ok(run),
        None => {
            let found = engine.ledger()?.last_run(lane)?.map(|run| run.id);
            let ledger = || engine.state().ledger();
            Ok(found.ok_or_else(|| ledger::Error::Missing {
                path: ledger(),
                what: "run",
                id: lane.to_owned(),
            })?)
        }
    }
}

/// Runs a command in a lane that is live already. `on_record`: with a row of its own at once, not on a slip.
pub fn joined(
    engine: &Engine,
    lane: &OpenLane,
    live: control::Joined,
    launch: &Launch,
    timeout: Option<Duration>,
    on_record: bool,
    monitor: &mut dyn Monitor,
) -> Result<Driven> {
    let signals = Signals::block().map_err(EngineError::Sandbox)?;
    let (streams, ends) = supervise::connect().map_err(EngineError::Sandbox)?;
    let cast = streams_have_terminal(&streams);
    let inside =
        spawn::join(lane.home.dir().fd.as_fd(), &live.handles, &launch.command, streams, &launch.plan.walls)
            .map_err(EngineError::Sandbox)?;
    // The leader has it now.
    drop(live.hold);
    let transcript = transcript_path(lane, cast);
    let run = new_run(lane, launch, &walls(launch), Some(&transcript), false);
    let (pid, started_at) = (std::process::id(), run.started_at);
    let of = OfRun::new(&run);
    let run = if on_record {
        Some(engine.ledger()?.act(|act| act.insert_run(&run))?)
    } else {
        engine.note(&ledger::Slip::Joined { run: Box::new(run) })?;
        None
    };
    let ended = |exit: ledger::Exit| match run {
        Some(run) => Ok(engine.ledger()?.act(|act| act.end_run(run, clock::now_ms(), exit))?),
        None => {
            let (lane, at) = (lane.row.id.clone(), clock::now_ms());
            engine.note(&ledger::Slip::Left { lane, pid, started_at, at, exit })
        }
    };
    let place = Where::Joined { connection: live.connection, dir: lane.home.dir().fd.as_fd() };
    let attending = Attending { timeout, transcript: Some(&transcript), cast };
    let mut sink = Sink::new(engine, of.clone());
    let (outcome, _) =
        attended(&inside, place, ends, &signals, attending, (&mut || {}, Some(&mut sink)), monitor);
    let told = Told::new(Some(sink), of, None);
    // The lane may end between the handing out of its namespaces and the fork in them; then the kernel says ENOMEM.
    let too_late = |outcome: &Outcome| {
        let no_fork = matches!(&outcome.refused, Some(sandbox::Error::Step { errno, .. }) if *errno == kernel::Errno::NOMEM.raw_os_error());
        !outcome.started && (outcome.lane_ended || no_fork)
    };
    let began = !outcome.as_ref().is_ok_and(too_late);
    let exit = if began {
        finish(outcome, ended, monitor)?
    } else {
        ended(ledger::Exit::Code(125))?;
        Exit::Lost
    };
    Ok(Driven { run, began, told, ..Driven::ended(exit) })
}

/// How a command is attended.
struct Attending<'t> {
    timeout: Option<Duration>,
    transcript: Option<&'t Path>,
    cast: bool,
}

fn attended(
    inside: &spawn::Inside,
    place: Where<'_>,
    ends: Ends,
    signals: &Signals,
    attending: Attending<'_>,
    (alone, sink): (&mut dyn FnMut(), Option<&mut Sink<'_>>),
    monitor: &mut dyn Monitor,
) -> (sandbox::Result<Outcome>, Option<PathBuf>) {
    let mut deaf = Deaf;
    let timeout = attending.timeout;
    let mut tape = Transcript::new(attending.transcript, attending.cast);
    let mut waiting = |others: usize| {
        let what = format!(
            "the lane goes on for {others} more that joined it; a signal to this run (Ctrl-C) ends them"
        );
        monitor.event(Event::Warning(&what));
    };
    let (outcome, sink) = match sink {
        Some(sink) => {
            let mut hooks =
                supervise::Hooks { tape: &mut tape, waiting: &mut waiting, alone, witness: &mut *sink };
            let outcome = supervise::supervise(inside, place, ends, signals, timeout, &mut hooks);
            (outcome, Some(sink))
        }
        None => {
            let mut hooks =
                supervise::Hooks { tape: &mut tape, waiting: &mut waiting, alone, witness: &mut deaf };
            (supervise::supervise(inside, place, ends, signals, timeout, &mut hooks), None)
        }
    };
    if let (Some(sink), Ok(Outcome { timed_out: true, .. }), Some(timeout)) = (sink, &outcome, timeout) {
        sink.take(Happening::Limit { name: "time".into(), value: format!("{} s", timeout.as_secs_f64()) });
    }
    (outcome, tape.finish())
}

/// Nothing is taken down of a run of which no record speaks.
struct Deaf;

impl Witness for Deaf {
    fn saw(&mut self, _seen: Seen) {}

    fn heard(&mut self, _told: &[u8]) {}

    fn rest(&mut self) -> Option<Duration> {
        None
    }
}

/// Has the end of a run written, and says what a user has to know of it.
fn finish(
    outcome: sandbox::Result<Outcome>,
    ended: impl FnOnce(ledger::Exit) -> Result<()>,
    monitor: &mut dyn Monitor,
) -> Result<Exit> {
    let (exit, recorded) = match &outcome {
        Ok(outcome) => exit_of(outcome),
        Err(_) => (Exit::Lost, ledger::Exit::Lost),
    };
    if let Err(error) = ended(recorded) {
        // A full disk, most likely. The command's own end is worth more than its record, which the next
        // command settles.
        let why = error.with_causes();
        monitor.event(Event::Warning(&format!("the end of the run could not be recorded: {why}")));
    }
    tell(outcome.map_err(EngineError::Sandbox)?, exit, monitor)
}

/// Says what a user has to know of an end; an error where the command never started for our fault.
fn tell(outcome: Outcome, exit: Exit, monitor: &mut dyn Monitor) -> Result<Exit> {
    for rename in outcome.renames.iter().filter(|rename| rename.entries >= 1000 || rename.millis >= 500) {
        monitor.event(Event::Warning(&format!(
            "renamed {} ({} entries, one by one, {} ms): the kernel refuses to rename a directory of the project at once",
            rename.from.escape_ascii(),
            rename.entries,
            rename.millis,
        )));
    }
    if let Some(why) = &outcome.gate_was_lost {
        monitor.event(Event::Warning(&format!(
            "the process that answers for the lane's network ended early ({why}); nothing left the lane from then on"
        )));
    }
    if outcome.lane_ended {
        monitor.event(Event::Warning("the lane ended under the command"));
    }
    match outcome.refused {
        Some(refused) if matches!(exit, Exit::Code(126 | 127)) => {
            monitor.event(Event::Warning(&refused.to_string()));
            Ok(exit)
        }
        Some(refused) => Err(EngineError::Sandbox(refused)),
        None => Ok(exit),
    }
}

fn exit_of(outcome: &Outcome) -> (Exit, ledger::Exit) {
    let (exit, recorded) = match outcome.status {
        Some(Status::Exited(code)) => (Exit::Code(code), ledger::Exit::Code(code)),
        Some(Status::Killed(signal)) => (Exit::Signal(signal), ledger::Exit::Signal(signal)),
        _ if outcome.refused.is_some() => (Exit::Code(125), ledger::Exit::Code(125)),
        _ => (Exit::Lost, ledger::Exit::Lost),
    };
    if outcome.timed_out { (Exit::TimedOut, recorded) } else { (exit, recorded) }
}

fn streams_have_terminal(streams: &Streams) -> bool {
    streams.given.iter().any(Option::is_none)
}

/// What was enforced, as the ledger keeps it.
pub fn walls(launch: &Launch) -> Vec<WallView> {
    let mut walls: Vec<WallView> = report::enforced(&launch.plan)
        .into_iter()
        .map(|wall| WallView {
            detail: match wall.name.as_str() {
                "network" => launch.net.meaning(),
                _ => wall.note,
            },
            status: match wall.state {
                report::State::Full => "full",
                report::State::Partial => "partial",
                report::State::None => "none",
            }
            .into(),
            name: wall.name,
        })
        .collect();
    let outside = launch.environment.doors.len() + launch.environment.secrets.len();
    walls.push(WallView {
        name: "environment".into(),
        status: "full".into(),
        detail: format!("{outside} variables that name services or look like secrets stayed outside"),
    });
    walls
}

fn transcript_path(lane: &OpenLane, cast: bool) -> PathBuf {
    let runs = lane.home.path().join("runs");
    let _ = std::fs::create_dir(&runs);
    runs.join(format!("{}-{}.{}", clock::now_ms(), std::process::id(), ending(cast)))
}

/// How the name of a recording ends.
fn ending(cast: bool) -> &'static str {
    if cast { "cast" } else { "log" }
}

fn new_run(
    lane: &OpenLane,
    launch: &Launch,
    walls: &[WallView],
    transcript: Option<&Path>,
    live: bool,
) -> NewRun {
    NewRun {
        lane: lane.row.id.clone(),
        argv: launch.command.argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        cwd: launch.command.cwd.as_os_str().as_bytes().to_vec(),
        started_at: clock::now_ms(),
        pid: Some(std::process::id()),
        pid_start: None,
        walls: describe::walls_value(walls),
        transcript: transcript.map(|path| path.as_os_str().as_bytes().to_vec()),
        detached: live,
    }
}
