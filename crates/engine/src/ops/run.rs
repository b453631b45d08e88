//! `run`: a command in a lane, which is made where it is new.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::lock::Lock;
use kernel::process::{self, Forked};
use sandbox::control;
use sandbox::limits::{Groups, Wanted};
use serde_json::json;

use crate::artifacts::Handed;
use crate::describe;
use crate::drive::{self, Driven, End, Options, Told};
use crate::engine::{Engine, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::find;
use crate::happened::{ReadsView, Sink};
use crate::lane::{self, OpenLane};
use crate::launch::{self, Traced, Wishes};
use crate::missed;
use crate::monitor::{Event, Monitor, Silent};
use crate::ops::new::{self, NewRequest, Recorded};
use crate::policy::Policy;
use crate::secrets;
use crate::stores;
use crate::view::{Cost, DriftView, Exit, LaneView, Level, Net, Next, PlanView, RootChanges, Strategy};
use crate::watch::{Checkpoints, Watching};
use crate::why::{self, Refusal};
use crate::writes;

/// What to run, in which lane, behind which walls.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane's name; generated where there is none.
    pub name: Option<String>,
    /// The command; empty for the user's shell.
    pub argv: Vec<OsString>,
    /// Discard the lane at the end.
    pub rm: bool,
    /// Further paths that are readable inside.
    pub ro: Vec<PathBuf>,
    /// Paths that are written through to the original.
    pub bind: Vec<PathBuf>,
    /// Paths that are absent inside.
    pub hide: Vec<PathBuf>,
    /// Variables: a value, or the caller's own.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// End the run after this long.
    pub timeout: Option<Duration>,
    /// Keep the lane's writes in memory.
    pub upper_tmpfs: bool,
    /// The network.
    pub net: Net,
    /// Leave the lane live.
    pub detach: bool,
    /// Further roots, each with its own layer.
    pub also: Vec<PathBuf>,
    /// The strategy asked for.
    pub strategy: Option<Strategy>,
    /// Agents whose own data is shared; empty finds them by the command's name.
    pub presets: Vec<String>,
    /// Sandboxes may nest inside.
    pub nest: bool,
    /// Services of the host that are let in, by name.
    pub doors: Vec<String>,
    /// What the lane may use at most.
    pub limits: Wanted,
    /// What the walls add up to.
    pub level: Level,
    /// When snapshots are taken by themselves. With `rm`, never.
    pub watching: Watching,
    /// Where a live lane is joined: the answer is to tell of the run as the ledger does, so it is not left to a slip.
    pub on_record: bool,
    /// What is reported for the record beside what is refused.
    pub trace: Traced,
    /// Secrets for the command alone.
    pub secrets: Vec<secrets::Wish>,
    /// Where artifacts are handed out.
    pub out: Option<PathBuf>,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct RunAnswer {
    /// The lane, as it is now.
    pub lane: LaneView,
    /// True where the lane was discarded at the end (`--rm`).
    pub removed: bool,
    /// What making it cost; `None` where it was there already.
    pub cost: Option<Cost>,
    /// How the command ended.
    pub exit: Exit,
    /// Sums for each root, the origin first.
    pub changes: Vec<RootChanges>,
    /// Changes below `$HOME`, which are never kept.
    pub home_changes: u64,
    /// What changed in the origin meanwhile.
    pub drift: Vec<DriftView>,
    /// The most useful next commands, best first.
    pub next: Vec<Next>,
    /// What was refused in it, each once.
    pub refused: Vec<Refusal>,
    /// What tracing the files that were opened amounted to, where they were traced.
    pub reads: Option<ReadsView>,
    /// What was handed out.
    pub handed: Option<Handed>,
}

/// How long a run waits for another command that is making, starting or ending the same lane.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a run waits for the snapshot of what it left, which goes on by itself else.
const LAST_SNAPSHOT: Duration = Duration::from_millis(100);

/// How often a name is drawn without a look at those that are taken.
const LATE: u32 = 3;

/// Runs a command in a lane.
pub fn run(engine: &Engine, request: &RunRequest, monitor: &mut dyn Monitor) -> Result<RunAnswer> {
    crate::bare::check(&wishes(request), request.detach, request.strategy)?;
    if request.level == Level::LandlockOnly {
        monitor.event(Event::Warning(crate::bare::WARNING));
    }
    let mut late = LATE;
    loop {
        let there = match &request.name {
            Some(name) => find::by_name(engine, &request.dir, name)?,
            None => None,
        };
        let tried = match there {
            Some(row) => in_lane(engine, lane::open(engine, row)?, request, monitor),
            None => {
                // A lane that stays live is recorded before its supervisor is forked.
                let with_run = request.name.is_none() && !request.detach && late > 0;
                let recorded = match with_run {
                    true if request.rm => Recorded::InPassing,
                    true => Recorded::WithItsRun,
                    false => Recorded::Now,
                };
                in_new_lane(engine, request, recorded, monitor)
            }
        };
        match (tried, &request.name) {
            // Another run made it between our look and our making: it is there now.
            (Err(EngineError::NameTaken { name }), Some(wished)) if name == *wished => {}
            // The name that was drawn is somebody's.
            (Err(EngineError::NameTaken { .. }), None) if late > 0 => late -= 1,
            (other, _) => return other,
        }
    }
}

fn in_new_lane(
    engine: &Engine,
    request: &RunRequest,
    recorded: Recorded,
    monitor: &mut dyn Monitor,
) -> Result<RunAnswer> {
    let memory = if request.upper_tmpfs { Some(memory_place()?) } else { None };
    // Pid 1 is at work while the lane is made.
    let begun = if request.detach { None } else { Some(Begun::new(request)?) };
    let made = new::make_for(engine, &making(request), memory.as_deref(), recorded, monitor)?;

    let new = Some(NewLane { cost: made.cost, recorded });
    start(engine, made.lane, made.lock, new, begun, request, monitor)
}

/// A lane that is there: joined where it is live, started where it is at rest.
pub(crate) fn in_lane(
    engine: &Engine,
    lane: OpenLane,
    request: &RunRequest,
    monitor: &mut dyn Monitor,
) -> Result<RunAnswer> {
    let strategy = request.strategy.is_some().then_some("--strategy");
    let also = (!request.also.is_empty()).then_some("--also");
    if let Some(wish) = strategy.or(also) {
        return Err(EngineError::LaneIsMade { name: lane.row.name, wish });
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = lane.home.try_lock()? {
            return start(engine, lane, lock, None, None, request, monitor);
        }
        // Held and not (or no longer) live: somebody is about to start it, or it is just ending.
        if let Some(driven) = join(engine, &lane, request, monitor)? {
            return Ok(joined(engine, &lane, &driven, request, monitor));
        }
        if Instant::now() >= deadline {
            let pid = lane.home.holder().ok().flatten();
            return Err(EngineError::Busy { name: lane.row.name, pid });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What to say after a command in a live lane.
pub(crate) fn joined(
    engine: &Engine,
    lane: &OpenLane,
    driven: &Driven,
    request: &RunRequest,
    monitor: &mut dyn Monitor,
) -> RunAnswer {
    let ended = (driven.exit, driven.told.as_ref());
    let answer = answer(engine, lane, ended, None, &mut None, request.on_record, monitor);
    // The watch takes the snapshot, which nobody waits for.
    sandbox::channel::tell(lane.home.dir().fd.as_fd(), sandbox::channel::OUTSIDE, b"exit");
    answer
}

/// Joins a live lane; `None` where nobody answers for it, or it ended before the command began.
pub(crate) fn join(
    engine: &Engine,
    lane: &OpenLane,
    request: &RunRequest,
    monitor: &mut dyn Monitor,
) -> Result<Option<Driven>> {
    let Some(live) = control::join(lane.home.dir().fd.as_fd()).map_err(EngineError::Sandbox)? else {
        return Ok(None);
    };
    let walls_wished = !(request.ro.is_empty() && request.bind.is_empty() && request.hide.is_empty());
    let nests = request.nest && !live.walls.nest;
    let secret = !request.secrets.is_empty() || request.out.is_some();
    let opens = request.doors.iter().any(|door| !live.walls.doors.contains(door));
    let limited = !request.limits.is_empty() || request.level != Level::Namespaces;
    if walls_wished || nests || opens || limited || secret || request.detach || request.rm {
        let wish = if request.detach {
            "--detach"
        } else if request.rm {
            "--rm"
        } else if nests {
            "--nest"
        } else if secret {
            "--secret and --out"
        } else if opens {
            "--door"
        } else if limited {
            "a limit or --level"
        } else {
            "--ro, --bind and --hide"
        };
        return Err(EngineError::LaneIsLive { name: lane.row.name.clone(), wish });
    }
    tell_drift(lane, monitor)?;
    let launch = launch::prepare_join(lane, &wishes(request), &live)?;
    let view = describe::lane_with(engine, &lane.row, None);
    monitor.event(Event::Ready { lane: &view, cost: None, net: &launch.net, direct: &[], shared: &[] });
    let driven = drive::joined(engine, lane, live, &launch, request.timeout, request.on_record, monitor)?;
    Ok(driven.began.then_some(driven))
}

/// A lane that was made for this run.
#[derive(Debug, Clone, Copy)]
struct NewLane {
    cost: Cost,
    recorded: Recorded,
}

/// What is begun before the lane is known.
#[derive(Debug)]
struct Begun {
    grounds: launch::Grounds,
    early: drive::Early,
}

impl Begun {
    fn new(request: &RunRequest) -> Result<Begun> {
        let mode = launch::mode();
        let namespaces = match request.level {
            Level::Namespaces => sandbox::view::namespaces(mode, request.net.is_own()),
            Level::LandlockOnly => kernel::process::Namespaces::default(),
        };
        let early = drive::begin(mode, namespaces, None, false)?;
        let grounds = launch::grounds(&request.net, request.level)?;
        early.build(&grounds.ground.ops)?;

        Ok(Begun { grounds, early })
    }
}

/// Starts a lane whose lock we hold.
fn start(
    engine: &Engine,
    lane: OpenLane,
    lock: Lock,
    new: Option<NewLane>,
    begun: Option<Begun>,
    request: &RunRequest,
    monitor: &mut dyn Monitor,
) -> Result<RunAnswer> {
    let (limits, timeout) = match Policy::of_lane(&lane)
        .and_then(|policy| crate::limits::ruled(&policy, &request.limits, request.timeout))
    {
        Ok(ruled) => ruled,
        Err(error) => return Err(undone(engine, lane, lock, new.is_some() && request.name.is_none(), error)),
    };
    let request = &RunRequest { limits, timeout, ..request.clone() };
    let cost = new.map(|new| new.cost);
    if cost.is_none() {
        launch::settle_renames(engine, &lane, &lock)?;
        crate::going_back::settle(engine, &lane, monitor)?;
        tell_drift(&lane, monitor)?;
    }
    let made_now = cost.is_some();
    // A lane that was there has layers over the home already.
    let mut wishes = wishes(request);
    wishes.passing &= made_now;
    let (grounds, early) = match begun {
        Some(Begun { grounds, early }) => (Ok(grounds), Some(early)),
        None => (launch::grounds(&request.net, request.level), None),
    };
    let prepared = crate::limits::stand(&lane, &request.limits, request.level).and_then(|standing| {
        wishes.limits.clone_from(&standing.limits);
        Ok((standing.groups, launch::prepare(engine, &lane, &wishes, grounds?)?))
    });
    let (groups, launch) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err(undone(engine, lane, lock, made_now && request.name.is_none(), error)),
    };

    if request.detach {
        return detached(engine, lane, lock, (launch, groups), cost, request, monitor);
    }
    let view = describe::lane_with(engine, &lane.row, None);
    let mut ready = |monitor: &mut dyn Monitor| {
        monitor.event(Event::Ready {
            lane: &view,
            cost,
            net: &request.net,
            direct: &launch.direct,
            shared: &launch.shared,
        });
    };
    let unrecorded = new.is_some_and(|new| new.recorded != Recorded::Now);
    let options = Options {
        timeout: request.timeout,
        live: false,
        // What is to be handed out stands in the lane's directory until it is.
        passing: request.rm && request.out.is_none(),
        unrecorded,
        early,
        groups,
        watching: watching(request),
        apart: None,
    };
    let driven = match drive::own(engine, &lane, &lock, &launch, options, monitor, &mut ready) {
        Ok(driven) => driven,
        Err(error) => return Err(undone(engine, lane, lock, made_now && request.name.is_none(), error)),
    };
    if request.rm {
        return removed(engine, lane, lock, driven, cost);
    }
    if let Some(walk) = driven.walk {
        walk.leave();
    }
    // What is counted now tells a fork what it would have to look for.
    let reading = lane.home.begin_links();
    drop(lock);
    if let Some(watch) = &driven.watch {
        watch.ended();
    }
    let mut linked = None;
    let ended = (driven.exit, driven.told.as_ref());
    let answer = answer(engine, &lane, ended, cost, &mut linked, true, monitor);
    if let Some(watch) = driven.watch {
        watch.leave(LAST_SNAPSHOT);
        if let Some(missed) = missed::read(&lane.home) {
            monitor.event(Event::Warning(&missed.why));
        }
    }
    if let (Ok(reading), Some(linked)) = (reading, linked) {
        let _without_it_a_fork_looks_itself = lane.home.end_links(&reading, linked);
    }
    Ok(answer)
}

/// What was refused, as it is told: what differs in an address alone is one refusal.
fn refusals(told: Option<&Told>) -> Vec<Refusal> {
    let mut refusals: Vec<Refusal> = Vec::new();
    for refusal in told.iter().flat_map(|told| &told.refused).filter_map(why::of) {
        let same = |known: &&mut Refusal| {
            (&known.wall, &known.what, &known.rule, &known.allow)
                == (&refusal.wall, &refusal.what, &refusal.rule, &refusal.allow)
        };
        match refusals.iter_mut().find(same) {
            Some(known) => known.times += refusal.times,
            None => refusals.push(refusal),
        }
    }
    refusals
}

/// A lane that was made for a run which never began is no use to anybody: it goes. The first error is told.
fn undone(engine: &Engine, lane: OpenLane, lock: Lock, remove: bool, error: EngineError) -> EngineError {
    if remove {
        let id = lane.row.id.clone();
        drop(lane.roots);
        if stores::remove_lane(engine.state().path(), lane.home).is_ok() {
            let _ = engine.ledger().map(|ledger| ledger.act(|act| act.delete_lane(&id)));
        }
    }
    drop(lock);
    error
}

/// Removes the lane of `--rm`, and records both ends in one act.
fn removed(
    engine: &Engine,
    lane: OpenLane,
    lock: Lock,
    driven: Driven,
    cost: Option<Cost>,
) -> Result<RunAnswer> {
    let mut row = lane.row.clone();
    drop(lane.roots);
    // It has a history where somebody asked for a snapshot meanwhile.
    let _ = stores::leave(engine.state().path(), &lane.home);
    let gone = lane.home.remove_in_passing(engine.state().path(), crate::lane::mount_mode(), driven.emptied);

    let operation = done("discard", &row.id, json!({ "name": row.name, "now": true }));
    match (&driven.unwritten, driven.run, &gone) {
        (Some(End { at, exit }), None, Ok(())) => {
            let (lane, operation) = (row.id.clone(), operation.clone());
            engine.note(&ledger::Slip::Ended { lane, at: *at, exit: *exit, operation })?;
        }
        _ => {
            let run = drive::row_of(engine, &row.id, driven.run)?;
            engine.ledger()?.act(|act| -> ledger::Result<()> {
                if let Some(end) = &driven.unwritten {
                    act.end_run(run, end.at, end.exit)?;
                }
                if gone.is_err() {
                    return act.set_state(&row.id, ledger::LaneState::Idle);
                }
                act.discard_lane(&row.id, operation.at)?;
                act.insert_op(&operation)?;
                Ok(())
            })?;
        }
    }

    gone?;
    drop(lock);
    let exit = driven.exit;
    row.state = ledger::LaneState::Discarded;
    row.discarded_at = Some(operation.at);
    Ok(RunAnswer {
        lane: describe::lane_with(engine, &row, None),
        removed: true,
        cost,
        exit,
        changes: Vec::new(),
        home_changes: 0,
        drift: Vec::new(),
        next: Vec::new(),
        refused: refusals(driven.told.as_ref()),
        reads: driven.told.as_ref().and_then(|told| told.reads),
        handed: driven.told.as_ref().and_then(|told| told.handed.clone()),
    })
}

/// What a reviewer wants to know after a run. Where it cannot be found out (the project was moved meanwhile),
/// that is told, and the command's own end is passed on all the same.
fn answer(
    engine: &Engine,
    lane: &OpenLane,
    (exit, told): (Exit, Option<&Told>),
    cost: Option<Cost>,
    linked: &mut Option<bool>,
    on_record: bool,
    monitor: &mut dyn Monitor,
) -> RunAnswer {
    looked_at(engine, lane, (exit, told), cost, linked, on_record).unwrap_or_else(|error| {
        let why = error.with_causes();
        monitor.event(Event::Warning(&format!("what changed could not be found out: {why}")));
        RunAnswer {
            lane: describe::lane_with(engine, &lane.row, None),
            removed: false,
            cost,
            exit,
            changes: Vec::new(),
            home_changes: 0,
            drift: Vec::new(),
            next: vec![Next::Show(lane.row.name.clone())],
            refused: refusals(told),
            reads: told.and_then(|told| told.reads),
            handed: told.and_then(|told| told.handed.clone()),
        }
    })
}

fn looked_at(
    engine: &Engine,
    lane: &OpenLane,
    (exit, told): (Exit, Option<&Told>),
    cost: Option<Cost>,
    linked: &mut Option<bool>,
    on_record: bool,
) -> Result<RunAnswer> {
    let (deltas, drift) = lane.summed_with_drift()?;
    *linked = Some(deltas.iter().any(|delta| delta.set.linked || !delta.set.gaps.is_empty()));
    let changes: Vec<RootChanges> =
        deltas.iter().map(|delta| RootChanges { root: delta.root.clone(), counts: delta.counts() }).collect();
    let beside = writes::beside(lane);
    let home_changes = beside.entries();
    if let Some(told) = told {
        let mut sink = Sink::new(engine, told.of.clone());
        beside.told(&changes).into_iter().for_each(|writes| sink.take(writes));
    }
    let name = lane.row.name.clone();
    let changed = changes.iter().any(|root| root.counts.total() + root.counts.git_internal > 0);
    let next = if changed {
        vec![Next::Diff(name.clone()), Next::Keep(name.clone()), Next::Discard(name)]
    } else {
        vec![Next::Exec(name.clone()), Next::Discard(name)]
    };
    let view = if on_record {
        let row = engine.ledger()?.lane(&lane.row.id)?.unwrap_or_else(|| lane.row.clone());
        describe::lane(engine, &row)?
    } else {
        describe::lane_with(engine, &lane.row, None)
    };
    Ok(RunAnswer {
        lane: view,
        removed: false,
        cost,
        exit,
        changes,
        home_changes,
        drift,
        next,
        refused: refusals(told),
        reads: told.and_then(|told| told.reads),
        handed: told.and_then(|told| told.handed.clone()),
    })
}

/// Forks the supervisor of a lane that stays live, and waits until its command runs.
fn detached(
    engine: &Engine,
    lane: OpenLane,
    lock: Lock,
    (launch, groups): (launch::Launch, Option<Groups>),
    cost: Option<Cost>,
    request: &RunRequest,
    monitor: &mut dyn Monitor,
) -> Result<RunAnswer> {
    let doing = || "start the lane's supervisor".to_owned();
    let (ours, theirs) = kernel::fdpass::pair().doing(doing)?;
    match process::fork().doing(doing)? {
        Forked::Child => {
            drop(ours);
            supervise_alone(engine.state().path(), &lane, &lock, &launch, groups, request, &theirs);
            process::exit_now(0)
        }
        Forked::Parent(_) => {
            drop(theirs);
            // They are the supervisor's, who removes them.
            std::mem::forget(groups);
            let mut said = vec![0u8; 8192];
            let heard = kernel::fdpass::receive(&ours, &mut said).doing(doing)?;
            match heard.map(|(n, _)| &said[..n]) {
                Some([b'+', ..]) => {}
                Some([b'-', why @ ..]) => {
                    let why = String::from_utf8_lossy(why).into_owned();
                    return Err(EngineError::Sandbox(sandbox::Error::Vanished(why)));
                }
                _ => {
                    return Err(EngineError::Sandbox(sandbox::Error::Vanished(
                        "the supervisor ended".into(),
                    )));
                }
            }
            let row = engine.ledger()?.lane(&lane.row.id)?.unwrap_or_else(|| lane.row.clone());
            let view = describe::lane(engine, &row)?;
            let (direct, shared) = (&launch.direct, &launch.shared);
            monitor.event(Event::Ready { lane: &view, cost, net: &request.net, direct, shared });
            let name = row.name.clone();
            Ok(RunAnswer {
                lane: view,
                removed: false,
                cost,
                exit: Exit::Detached,
                changes: Vec::new(),
                home_changes: 0,
                drift: Vec::new(),
                next: vec![Next::Exec(name.clone()), Next::Show(name.clone()), Next::Stop(name)],
                refused: Vec::new(),
                reads: None,
                handed: None,
            })
        }
    }
}

/// The supervisor of a live lane: a session of its own, no stream of the caller's, its own ledger.
fn supervise_alone(
    state: &Path,
    lane: &OpenLane,
    lock: &Lock,
    launch: &launch::Launch,
    groups: Option<Groups>,
    request: &RunRequest,
    parent: &std::os::fd::OwnedFd,
) {
    process::go_alone();
    // The caller's connection to the ledger must not be used on this side of a fork.
    let options = crate::engine::EngineOptions { state: Some(state.to_path_buf()) };
    let driven = Engine::open(&options).and_then(|engine| {
        let mut ready = |_: &mut dyn Monitor| {
            let _ = kernel::fdpass::send(parent, b"+", &[]);
        };
        let options = Options {
            timeout: request.timeout,
            live: true,
            groups,
            watching: watching(request),
            ..Options::default()
        };
        drive::own(&engine, lane, lock, launch, options, &mut Silent, &mut ready)
    });
    if let Err(error) = driven {
        let mut why = error.with_causes();
        why.truncate(4000);
        let _ = kernel::fdpass::send(parent, format!("-{why}").as_bytes(), &[]);
    }
}

/// What [`run`] would do, without doing anything.
pub fn plan(engine: &Engine, request: &RunRequest) -> Result<PlanView> {
    let policy = Policy::load([engine.project(&request.dir)?.top.as_path()])?;
    let (limits, _) = crate::limits::ruled(&policy, &request.limits, request.timeout)?;
    let wishes = Wishes { limits: crate::limits::would(&limits, request.level)?, ..wishes(request) };
    launch::show(engine, &making(request), &wishes)
}

fn making(request: &RunRequest) -> NewRequest {
    NewRequest {
        dir: request.dir.clone(),
        name: request.name.clone(),
        also: request.also.clone(),
        strategy: match request.level {
            Level::Namespaces => request.strategy,
            Level::LandlockOnly => Some(Strategy::Copy),
        },
        for_run: true,
    }
}

fn wishes(request: &RunRequest) -> Wishes {
    Wishes {
        passing: request.rm,
        channel: !request.rm && request.level == Level::Namespaces,
        dir: request.dir.clone(),
        argv: request.argv.clone(),
        ro: request.ro.clone(),
        bind: request.bind.clone(),
        hide: request.hide.clone(),
        env: request.env.clone(),
        net: request.net.clone(),
        presets: request.presets.clone(),
        trace: request.trace,
        secrets: request.secrets.clone(),
        out: request.out.clone(),
        nest: request.nest,
        doors: request.doors.clone(),
        // Known once it was tried.
        limits: Vec::new(),
        level: request.level,
    }
}

/// What is kept in memory to be forgotten is not recorded by itself.
fn watching(request: &RunRequest) -> Watching {
    match request.upper_tmpfs {
        true => Watching { when: Checkpoints::None, ..request.watching },
        false => request.watching,
    }
}

/// Drift that meets what the lane changed, said before the command starts.
fn tell_drift(lane: &OpenLane, monitor: &mut dyn Monitor) -> Result<()> {
    let drift = lane.drift_of_touched()?;
    if !drift.is_empty() {
        monitor.event(Event::Drifted(&drift));
    }
    Ok(())
}

/// A directory in memory for layers: the caller's own, refused where somebody else made it.
fn memory_place() -> Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let uid = rustix::process::geteuid().as_raw();
    let path = PathBuf::from(format!("/dev/shm/lanekeeper-{uid}"));
    let bad = |why: String| EngineError::StateDir { path: path.clone(), why };
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(bad(error.to_string())),
    }
    let meta = std::fs::symlink_metadata(&path).map_err(|error| bad(error.to_string()))?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(bad("somebody else made it".into()));
    }
    Ok(path)
}
