//! `fork`: a new lane from what another one is, or was at a snapshot.
//!
//! A lane at rest is not read for it: its own layer is sealed, and both stand on it. A live one is forked from a snapshot of
//! that moment.
//!
//! Invariant: until its row is written the new lane is marked as a fork in the making, and the next command clears it;
//! the other lane shows the same at every step.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::lock::Lock;
use ledger::{Lane, LaneState};
use serde_json::json;
use store::{SnapshotId, SnapshotKind};
use tree::TreePath;
use tree::copy::Progress;
pub use workspace::WhyCopied;
use workspace::{LaneHome, Making, Sharing};

use crate::beginning::FORKED;
use crate::clock;
use crate::describe;
use crate::engine::{Engine, Noting, done};
use crate::error::{EngineError, Result};
use crate::find;
use crate::going_back;
use crate::history::{LaneHistory, Wish};
use crate::lane::{self, OpenLane};
use crate::launch;
use crate::monitor::{Event, Monitor};
use crate::names;
use crate::ops::log::{SnapshotView, view_of};
use crate::ops::{new, snap};
use crate::stores;
use crate::view::{Cost, LaneView};

/// What to fork.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane.
    pub lane: String,
    /// Name of the new lane; generated where there is none.
    pub name: Option<String>,
    /// A snapshot's id, the front of one, or its name; `None` is the lane as it is now.
    pub at: Option<String>,
}

/// What one root of the new lane is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkedRoot {
    /// The root.
    pub path: PathBuf,
    /// Both lanes stand on the same layers.
    pub shared: bool,
    /// Why something was copied all the same; `None` where nothing was, or where it was put there from a snapshot.
    pub why_copied: Option<WhyCopied>,
    /// Layers that were made one on the way.
    pub squashed: usize,
}

/// What was made.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkAnswer {
    /// The new lane.
    pub lane: LaneView,
    /// Name of the lane that it was forked from.
    pub parent: String,
    /// Its id.
    pub parent_id: String,
    /// The snapshot, where it was made from one.
    pub from: Option<SnapshotView>,
    /// Its roots, the origin first.
    pub roots: Vec<ForkedRoot>,
    /// What the new lane does not have: root, path, reason.
    pub left: Vec<(PathBuf, TreePath, String)>,
}

/// How long a lane may be held by somebody who is just letting go of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is forked.
enum From {
    /// The layers of a lane that this process holds.
    Layers,
    /// A snapshot.
    Snapshot(SnapshotId),
}

/// Makes a new lane from another one.
pub fn fork(engine: &Engine, request: &ForkRequest, monitor: &mut dyn Monitor) -> Result<ForkAnswer> {
    let began = Instant::now();
    let row = find::lane(engine, &request.dir, Some(&request.lane), |_| true)?;
    let name = name_for(engine, request.name.as_deref(), &row)?;
    let parent = lane::open(engine, row)?;
    let lock = hold(engine, &parent)?;
    if let Some(lock) = &lock {
        launch::settle_renames(engine, &parent, lock)?;
        going_back::settle(engine, &parent, &mut Noting(engine))?;
    }
    let from = match (&request.at, &lock) {
        (Some(reference), _) => From::Snapshot(resolve(engine, &parent, reference)?),
        (None, Some(_)) => From::Layers,
        (None, None) => From::Snapshot(take(engine, &parent)?),
    };
    let (home, child_lock) = new::create_home(engine)?;
    let mut row = row_of(&parent.row, &home, name);
    let mut made = match make(engine, &parent, &home, &row, &from, monitor) {
        Ok(made) => made,
        Err(error) => return Err(given_up(engine, home, error)),
    };
    made.cost.millis = began.elapsed().as_secs_f64() * 1000.0;
    (row.cost_ms, row.cost_bytes) = (made.cost.millis, made.cost.allocated);
    if let Err(error) = record(engine, &row, &parent.row, made.from.as_ref()) {
        return Err(given_up(engine, home, error));
    }
    // The mark is asked for only where no row is; the first run takes it away too.
    let _ = home.end_fork();
    drop((child_lock, lock));
    let lane = LaneView { cost: made.cost, ..describe::lane_with(engine, &row, None) };
    let Made { roots, left, from, .. } = made;
    Ok(ForkAnswer { lane, parent: parent.row.name, parent_id: parent.row.id, from, roots, left })
}

/// The row of a fork: what its parent's says of project and base.
fn row_of(parent: &Lane, home: &LaneHome, name: String) -> Lane {
    let mut row = parent.clone();
    row.id = home.id().to_owned();
    row.name = name;
    row.created_at = clock::now_ms();
    // It holds something, though nothing has run in it.
    row.state = LaneState::Idle;
    row.layers = describe::bytes(home.path());
    row.options["for_run"] = false.into();
    row.options[FORKED] = json!({ "lane": parent.id, "name": parent.name });
    row
}

fn record(engine: &Engine, row: &Lane, parent: &Lane, from: Option<&SnapshotView>) -> Result<()> {
    let from = from.map(|snapshot| snapshot.id.to_string());
    let plan = json!({ "name": row.name, "from": parent.id, "snapshot": from });
    engine.ledger()?.act(|act| -> ledger::Result<()> {
        act.insert_lane(row)?;
        act.insert_op(&done("fork", &row.id, plan))?;
        Ok(())
    })?;
    Ok(())
}

/// Takes back what was made; the first error is the one that is told.
fn given_up(engine: &Engine, home: LaneHome, error: EngineError) -> EngineError {
    let _ = stores::remove_lane(engine.state().path(), home);
    error
}

fn name_for(engine: &Engine, wish: Option<&str>, parent: &Lane) -> Result<String> {
    let ledger = engine.ledger()?;
    let is_taken = |name: &str| {
        ledger.lane_by_name(&parent.origin, name).map(|row| row.is_some()).map_err(EngineError::from)
    };
    match wish {
        Some(name) => {
            names::check(name)?;
            match is_taken(name)? {
                true => Err(EngineError::NameTaken { name: name.to_owned() }),
                false => Ok(name.to_owned()),
            }
        }
        None => Ok(names::generate(|name| is_taken(name).unwrap_or(false))),
    }
}

/// The lane for this process alone; `None` where it is live.
fn hold(engine: &Engine, lane: &OpenLane) -> Result<Option<Lock>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = lane.home.try_lock()? {
            return Ok(Some(lock));
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

fn resolve(engine: &Engine, lane: &OpenLane, reference: &str) -> Result<SnapshotId> {
    let none =
        || EngineError::NoSuchSnapshot { lane: lane.row.name.clone(), reference: reference.to_owned() };
    let history = LaneHistory::find(engine, lane)?.ok_or_else(none)?;
    history.resolve(&history.read()?, reference)
}

/// A snapshot of a live lane.
fn take(engine: &Engine, lane: &OpenLane) -> Result<SnapshotId> {
    let wish = Wish { only_if_changed: false, ..Wish::automatic(SnapshotKind::Fork) };
    let history = LaneHistory::open(engine, lane)?;
    let taken = snap::of_live(lane, &history, &wish)?;
    let none = || EngineError::NoSuchSnapshot { lane: lane.row.name.clone(), reference: "now".into() };
    Ok(taken.ok_or_else(none)?.id)
}

/// What was made of a new lane's directory.
struct Made {
    roots: Vec<ForkedRoot>,
    left: Vec<(PathBuf, TreePath, String)>,
    cost: Cost,
    from: Option<SnapshotView>,
}

fn make(
    engine: &Engine,
    parent: &OpenLane,
    home: &LaneHome,
    row: &Lane,
    from: &From,
    monitor: &mut dyn Monitor,
) -> Result<Made> {
    home.begin_fork()?;
    for root in &parent.roots {
        home.add_root(root.index, &parent.home.place_of(root.index)?)?;
    }
    let mut made = Made { roots: Vec::new(), left: Vec::new(), cost: Cost::default(), from: None };
    let mut told = |progress: Progress| {
        monitor.event(Event::Copying { files: progress.entries, bytes: progress.bytes });
    };
    let linked = parent.home.known_links()?;
    // The layers of the new lane do not say what it was when it was forked.
    let mut unrecorded = false;
    for root in &parent.roots {
        let mut view =
            ForkedRoot { path: root.view.path.clone(), shared: false, why_copied: None, squashed: 0 };
        match from {
            From::Layers => {
                let mut making = Making { linked, progress: &mut told };
                let forked = root.workspace.fork(home, &mut making)?;
                view.squashed = forked.squashed.map_or(0, |squashed| squashed.layers);
                (view.shared, view.why_copied) = match forked.sharing {
                    Sharing::Sealed => (true, (forked.cost.files > 0).then_some(WhyCopied::HardLinks)),
                    Sharing::Copied(why) => (root.workspace.is_stacked()?, Some(why)),
                };
                unrecorded |= matches!(forked.sharing, Sharing::Copied(why) if why != WhyCopied::IsCopy);
                made.spend(&root.view.path, forked.cost);
            }
            From::Snapshot(_) => root.workspace.begin_in(home)?,
        }
        made.roots.push(view);
    }
    let at_home = home.take_home(&parent.home, lane::mount_mode(), &mut told)?;
    made.spend(&crate::launch::home_dir().unwrap_or_default(), at_home);
    home.take_base(&parent.home)?;
    crate::leaks::hand_on(&parent.home, home)?;
    let child = lane::open(engine, row.clone())?;
    match from {
        From::Snapshot(id) => begin_at(engine, parent, &child, *id, &mut made)?,
        // What was copied cannot be told from what will be written: it is recorded now. A copy has no history until
        // somebody asks for one.
        From::Layers if unrecorded => {
            let message = format!("from {}", parent.row.name).into_bytes();
            let wish = Wish { message, ..Wish::automatic(SnapshotKind::Fork) };
            let taken =
                LaneHistory::open(engine, &child).and_then(|history| history.take_at_rest(&child, &wish));
            if let Err(error) = taken {
                let why = format!("the fork is not recorded in its history: {}", error.with_causes());
                monitor.event(Event::Warning(&why));
            }
        }
        From::Layers => {}
    }
    // Without it the next keep stops where it could have put things together.
    if let Err(error) = crate::bases::inherit(parent, &child) {
        let why =
            format!("what was kept of {} is not known to the fork: {}", parent.row.name, error.with_causes());
        monitor.event(Event::Warning(&why));
    }
    Ok(made)
}

/// Puts a new lane to a snapshot of another one.
fn begin_at(
    engine: &Engine,
    parent: &OpenLane,
    child: &OpenLane,
    id: SnapshotId,
    made: &mut Made,
) -> Result<()> {
    let history = LaneHistory::open(engine, child)?;
    // From here on no collection takes away what the snapshot needs.
    let _held = history.store.hold()?;
    let theirs = LaneHistory::open(engine, parent)?;
    let read = theirs.read()?;
    let record = theirs.record(&read, id)?;
    let restored = history.begin_at(child, record, format!("from {}", parent.row.name).into_bytes())?;
    made.left.extend(restored.left);
    made.cost.files += restored.changed;
    made.from = Some(view_of(id, record, read.position()));
    Ok(())
}

impl Made {
    fn spend(&mut self, root: &Path, cost: workspace::Cost) {
        self.cost.files += cost.files;
        self.cost.allocated += cost.allocated;
        self.left.extend(cost.left_out.into_iter().map(|(path, why)| (root.to_owned(), path, why)));
    }
}
