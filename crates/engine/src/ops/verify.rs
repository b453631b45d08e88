//! `verify`: runs a check in a lane that shows what another one shows, and records what it said.
//!
//! Of a lane at rest nothing is copied, sealed or moved: the lane that the check runs in stands on its layers as they are,
//! and whoever would write them is kept out meanwhile. Of a lane at work it is made from a snapshot of that moment.
//!
//! Invariant: no record speaks of the lane that a check runs in, which goes with it; where we are killed the next command
//! clears it. A verdict is written once the check has ended, and says of which state of the lane it speaks.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::lock::Lock;
use ledger::verdict::Word;
use ledger::{LaneState, NewVerdict, Verdict};
use serde_json::json;
use store::{SnapshotId, SnapshotKind};
use tree::copy::Progress;
use workspace::{LaneHome, Making};

use crate::clock;
use crate::describe;
use crate::drive::{self, Apart, Driven, Options};
use crate::engine::{Engine, Noting, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::find;
use crate::fingerprint::Fingerprint;
use crate::going_back;
use crate::history::{LaneHistory, Wish};
use crate::lane::{self, OpenLane, OpenRoot};
use crate::launch::{self, Wishes};
use crate::monitor::{Event, Monitor};
use crate::ops::{new, snap};
use crate::policy::{NeededCheck, Policy};
use crate::stores;
use crate::view::{Exit, LaneView, Net, VerdictView};

/// What to check with what.
#[derive(Debug, Clone, Default)]
pub struct VerifyRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// The command; empty for what the policy asks for, up to the first that does not pass.
    pub argv: Vec<OsString>,
    /// Variables: a value, or the caller's own.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// The verdict is `timeout` after this long.
    pub timeout: Option<Duration>,
    /// The network.
    pub net: Net,
    /// The command has none of the caller's streams; what it prints is recorded alone.
    pub unattended: bool,
}

/// What was said.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyAnswer {
    /// The lane.
    pub lane: LaneView,
    /// The verdict.
    pub verdict: VerdictView,
}

/// A command that a lane can be checked with though nobody types it: somebody who may write the original, or who ran it
/// before, has named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCheck {
    /// Its words; bytes.
    pub argv: Vec<Vec<u8>>,
    /// The file whose `keep.verify` names it, and the line; `None` for the command of the lane's last verdict.
    pub rule: Option<(PathBuf, usize)>,
}

/// The commands that a lane can be checked with: those of the policy, and that of its last verdict.
pub fn known(engine: &Engine, dir: &Path, lane: Option<&str>) -> Result<Vec<KnownCheck>> {
    let row = find::lane(engine, dir, lane, |_| true)?;
    let lane = lane::open(engine, row)?;
    let words = |needed: &NeededCheck| needed.check.argv().into_iter().map(String::into_bytes).collect();
    let rule = |needed: &NeededCheck| Some((needed.file.clone(), needed.line));
    let checks = Policy::of_lane(&lane)?.checks();
    let mut known: Vec<KnownCheck> =
        checks.iter().map(|needed| KnownCheck { argv: words(needed), rule: rule(needed) }).collect();
    if let Some(last) = engine.ledger()?.last_verdict(&lane.row.id)?
        && !known.iter().any(|check| check.argv == last.what.argv)
    {
        known.push(KnownCheck { argv: last.what.argv, rule: None });
    }
    Ok(known)
}

/// How long a lane may be held by somebody who is just letting go of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a check.
pub fn verify(engine: &Engine, request: &VerifyRequest, monitor: &mut dyn Monitor) -> Result<VerifyAnswer> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let lane = lane::open(engine, row)?;
    let mut requests = vec![request.clone()];
    if request.argv.is_empty() {
        let checks = Policy::of_lane(&lane)?.checks();
        let asks = |needed: &NeededCheck| VerifyRequest {
            argv: needed.check.argv().into_iter().map(OsString::from).collect(),
            ..request.clone()
        };
        requests = checks.iter().map(asks).collect();
    }
    let lock = share(engine, &lane)?;
    let held = match &lock {
        Some(lock) => Held::AtRest(lock),
        None => Held::Live,
    };
    let mut last = None;
    for request in &requests {
        let (verdict, state) = check(engine, &lane, held, request, monitor)?;
        let verdict = describe::verdict(&verdict, state.as_ref());
        let is_pass = verdict.word == Word::Pass.word();
        last = Some(verdict);
        if !is_pass {
            break;
        }
    }
    let verdict = last.ok_or_else(|| EngineError::NoCheck { name: lane.row.name.clone() })?;
    Ok(VerifyAnswer { lane: describe::lane(engine, &lane.row)?, verdict })
}

/// How the lane is kept as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Held<'l> {
    /// By this lock, with nothing mounted.
    AtRest(&'l Lock),
    /// Processes run in it: a snapshot is checked.
    Live,
}

/// Keeps the lane from being written; `None` where it is live.
fn share(engine: &Engine, lane: &OpenLane) -> Result<Option<Lock>> {
    let deadline = Instant::now() + PATIENCE;
    let is_settled = || !sandbox::notify::has_journal(&lane.home.dir().fd) && !going_back::is_pending(lane);
    loop {
        if let Some(lock) = lane.home.try_share()? {
            if is_settled() {
                return Ok(Some(lock));
            }
            drop(lock);
            if let Some(lock) = lane.home.try_lock()? {
                launch::settle_renames(engine, lane, &lock)?;
                going_back::settle(engine, lane, &mut Noting(engine))?;
            }
        }
        let row = engine.ledger()?.lane(&lane.row.id)?;
        if row.is_some_and(|row| row.state == LaneState::Live) {
            return Ok(None);
        }
        if Instant::now() >= deadline {
            let pid = lane.home.holder().ok().flatten();
            return Err(EngineError::Busy { name: lane.row.name.clone(), pid });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Checks a lane and records the verdict; with it, what the lane was when it was checked.
pub(crate) fn check(
    engine: &Engine,
    lane: &OpenLane,
    held: Held<'_>,
    request: &VerifyRequest,
    monitor: &mut dyn Monitor,
) -> Result<(Verdict, Option<Fingerprint>)> {
    let before = Fingerprint::settled(lane)?;
    let snapshot = match held {
        Held::AtRest(_) => None,
        Held::Live => Some(take(engine, lane)?),
    };
    let state = match held {
        Held::AtRest(_) => Some(before),
        // What was written meanwhile may be in the snapshot, or not.
        Held::Live => Some(Fingerprint::of(&lane.changes()?)).filter(|after| *after == before),
    };
    let started_at = clock::now_ms();
    // Whoever checks goes on afterwards, and hears signals as before.
    let _mask = kernel::signal::mask().doing(|| "look at the signals".to_owned())?;
    let driven = apart(engine, lane, held, snapshot, request, monitor)?;
    let (word, exit) = word(&driven, &lane.row.name)?;
    let what = NewVerdict {
        lane: lane.row.id.clone(),
        argv: bytes_of(&request.argv),
        word,
        exit,
        started_at,
        ended_at: clock::now_ms(),
        state: state.as_ref().map(|state| state.as_str().to_owned()),
        snapshot: snapshot.map(|id| id.to_string()),
        transcript: driven.transcript.as_deref().map(describe::bytes),
    };
    let id = engine.ledger()?.act(|act| -> ledger::Result<i64> {
        let id = act.insert_verdict(&what)?;
        let plan = json!({ "name": lane.row.name, "verdict": id, "said": word.word() });
        act.insert_op(&done("verify", &lane.row.id, plan))?;
        Ok(id)
    })?;
    Ok((Verdict { id, what }, state))
}

/// What a check that has ended says.
pub(crate) fn word(driven: &Driven, name: &str) -> Result<(Word, Option<ledger::Exit>)> {
    let no_verdict = |why| EngineError::NoVerdict { name: name.to_owned(), why };
    if driven.interrupted {
        return Err(no_verdict("it was interrupted"));
    }
    Ok(match driven.exit {
        Exit::Code(0) => (Word::Pass, Some(ledger::Exit::Code(0))),
        Exit::Code(code) => (Word::Fail, Some(ledger::Exit::Code(code))),
        Exit::Signal(signal) => (Word::Fail, Some(ledger::Exit::Signal(signal))),
        Exit::TimedOut => (Word::Timeout, None),
        Exit::Detached | Exit::Lost => return Err(no_verdict("nobody saw how it ended")),
    })
}

/// Words of a command as the ledger keeps them.
pub(crate) fn bytes_of(argv: &[OsString]) -> Vec<Vec<u8>> {
    argv.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// A snapshot of a lane at work: the newest one where nothing has changed since.
fn take(engine: &Engine, lane: &OpenLane) -> Result<SnapshotId> {
    let history = LaneHistory::open(engine, lane)?;
    if let Some(taken) = snap::of_live(lane, &history, &Wish::automatic(SnapshotKind::Fork))? {
        return Ok(taken.id);
    }
    if let Some(id) = history.read()?.position() {
        return Ok(id);
    }
    let wish = Wish { only_if_changed: false, ..Wish::automatic(SnapshotKind::Fork) };
    let taken = snap::of_live(lane, &history, &wish)?;
    let none = || EngineError::NoSuchSnapshot { lane: lane.row.name.clone(), reference: "now".into() };
    Ok(taken.ok_or_else(none)?.id)
}

/// Runs the command in a lane of its own, which is gone afterwards.
fn apart(
    engine: &Engine,
    lane: &OpenLane,
    held: Held<'_>,
    snapshot: Option<SnapshotId>,
    request: &VerifyRequest,
    monitor: &mut dyn Monitor,
) -> Result<Driven> {
    let (home, lock) = new::create_home(engine)?;
    let (id, path) = (home.id().to_owned(), home.path().to_owned());
    let driven = made(engine, lane, home, snapshot, monitor)
        .and_then(|child| in_it(engine, lane, &child, &lock, held, request, monitor));
    let state = engine.state().path();
    let gone = LaneHome::open(state, &id)
        .map_err(EngineError::from)
        .and_then(|home| stores::remove_lane(state, home));
    if let Err(error) = gone {
        let why = format!(
            "{} was not removed; the next command tries again: {}",
            path.display(),
            error.with_causes()
        );
        monitor.event(Event::Warning(&why));
    }
    drop(lock);
    driven
}

/// The lane that the check runs in. Without a row it is cleared by the next command, unless somebody holds it.
fn made(
    engine: &Engine,
    parent: &OpenLane,
    home: LaneHome,
    snapshot: Option<SnapshotId>,
    monitor: &mut dyn Monitor,
) -> Result<OpenLane> {
    home.begin_fork()?;
    for root in &parent.roots {
        home.add_root(root.index, &parent.home.place_of(root.index)?)?;
    }
    let mut row = parent.row.clone();
    row.id = home.id().to_owned();
    row.state = LaneState::New;
    row.layers = describe::bytes(home.path());
    let mut left = Vec::new();
    let mut told = |progress: Progress| {
        monitor.event(Event::Copying { files: progress.entries, bytes: progress.bytes });
    };
    let child = match snapshot {
        None => {
            let linked = parent.home.known_links()?;
            let mut roots = Vec::with_capacity(parent.roots.len());
            for root in &parent.roots {
                let (workspace, cost) =
                    root.workspace.lend(&home, &mut Making { linked, progress: &mut told })?;
                left.extend(cost.left_out);
                let (view, skipped) = (root.view.clone(), root.skipped.clone());
                roots.push(OpenRoot { view, index: root.index, workspace, skipped });
            }
            home.take_base(&parent.home)?;
            OpenLane { row, home, roots, lent_home: Some(parent.home.path().to_owned()) }
        }
        Some(id) => {
            for root in &parent.roots {
                root.workspace.begin_in(&home)?;
            }
            left.extend(home.take_home(&parent.home, lane::mount_mode(), &mut told)?.left_out);
            home.take_base(&parent.home)?;
            let mut child = lane::open(engine, row)?;
            let history = LaneHistory::open(engine, &child)?;
            let _held = history.store.hold()?;
            let theirs = LaneHistory::open(engine, parent)?;
            let read = theirs.read()?;
            let restored = history.begin_at(&child, theirs.record(&read, id)?, Vec::new())?;
            left.extend(restored.left.into_iter().map(|(_, path, why)| (path, why)));
            child.lent_home = Some(child.home.path().to_owned());
            child
        }
    };
    for (path, why) in left {
        monitor
            .event(Event::Warning(&format!("not there for the check: {}: {why}", path.as_path().display())));
    }
    Ok(child)
}

/// Runs the command of a check in the lane `child`, whose recording is the lane `parent`'s.
pub(crate) fn in_it(
    engine: &Engine,
    parent: &OpenLane,
    child: &OpenLane,
    lock: &Lock,
    held: Held<'_>,
    request: &VerifyRequest,
    monitor: &mut dyn Monitor,
) -> Result<Driven> {
    let wishes = Wishes {
        passing: true,
        dir: inside(&request.dir, &parent.roots[0].view.path),
        argv: request.argv.clone(),
        env: request.env.clone(),
        net: request.net.clone(),
        ..Wishes::default()
    };
    let launch = launch::prepare(
        engine,
        child,
        &wishes,
        launch::grounds(&request.net, crate::view::Level::Namespaces)?,
    )?;
    let held: Option<OwnedFd> = match held {
        Held::AtRest(lock) => {
            let copy = lock.as_fd().try_clone_to_owned();
            let copy = copy.map_err(|error| kernel::Error::from_io("dup", "lock", &error));
            Some(copy.doing(|| format!("hold {}", parent.row.name))?)
        }
        Held::Live => None,
    };
    let apart = Apart { transcript: recording(parent), held, unattended: request.unattended };
    let options = Options { timeout: request.timeout, apart: Some(apart), ..Options::default() };
    drive::own(engine, child, lock, &launch, options, monitor, &mut |_| {})
}

/// Where the caller stands, where that is in the project; else its top.
fn inside(dir: &Path, origin: &Path) -> PathBuf {
    std::fs::canonicalize(dir).ok().filter(|dir| dir.starts_with(origin)).unwrap_or_else(|| origin.to_owned())
}

/// Beside the recordings of the lane's own runs, with which it goes.
fn recording(lane: &OpenLane) -> PathBuf {
    let runs = lane.home.path().join("runs");
    let _ = std::fs::create_dir(&runs);
    runs.join(format!("{}-{}-verify", clock::now_ms(), std::process::id()))
}

/// The newest verdict on a lane; `now` is what the lane holds.
pub(crate) fn newest(engine: &Engine, lane: &str, now: Option<&Fingerprint>) -> Result<Option<VerdictView>> {
    Ok(engine.ledger()?.last_verdict(lane)?.map(|verdict| describe::verdict(&verdict, now)))
}
