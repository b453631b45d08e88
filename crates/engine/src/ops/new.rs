//! `new`: makes lanes without running anything, and the making that `run` shares.
//!
//! The order is what makes a crash harmless: directory with lock → layers → base stamp → row. Without
//! its stamp a directory counts as half made; a whole one without its row is named by `doctor`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kernel::lock::Lock;
use ledger::Lane;
use serde_json::{Value, json};
use tree::copy::Progress;
use workspace::{LaneHome, MountTable, OriginFacts, Root};

use crate::clock;
use crate::describe;
use crate::engine::{Engine, done};
use crate::error::{EngineError, Result};
use crate::keeping;
use crate::lane::{self, OpenLane};
use crate::monitor::{Event, Monitor};
use crate::names;
use crate::probe;
use crate::recover;
use crate::view::{Cost, LaneView, RootView, Strategy};

/// Which lane to make.
#[derive(Debug, Clone, Default)]
pub struct NewRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane's name; generated where there is none.
    pub name: Option<String>,
    /// Further roots, each with its own layer.
    pub also: Vec<PathBuf>,
    /// The strategy asked for.
    pub strategy: Option<Strategy>,
    /// For a command that begins right away: a lane whose command never began is cleared by the next command.
    pub for_run: bool,
}

/// Makes a lane.
pub fn new(engine: &Engine, request: &NewRequest, monitor: &mut dyn Monitor) -> Result<LaneView> {
    let made = make(engine, request, None, monitor)?;
    Ok(describe::lane_with(engine, &made.lane.row, None))
}

/// A lane that was just made; its lock is still held.
#[derive(Debug)]
pub struct Made {
    /// The lane.
    pub lane: OpenLane,
    /// Its lock.
    pub lock: Lock,
    /// What it cost.
    pub cost: Cost,
    /// What was learnt about each root.
    pub facts: Vec<OriginFacts>,
}

/// When a new lane's row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// While it is made.
    Now,
    /// By the run that it is made for, in the act that records the run ([`record_in`]). Its name is drawn without
    /// a look at the others, so that act may find it taken.
    WithItsRun,
    /// The same, on a slip: the lane goes with its run, and nothing else asks for the ledger.
    InPassing,
}

/// What is decided about one root before anything is made.
#[derive(Debug)]
pub struct RootPlan {
    /// The facts.
    pub facts: OriginFacts,
    /// Where its layers go.
    pub placed: workspace::Placed,
    /// How it is made, and why.
    pub choice: workspace::Choice,
    /// A repository that another root's `.git` points to.
    pub git: bool,
}

/// Facts and choices for every root; makes nothing.
pub fn plan_roots(engine: &Engine, request: &NewRequest, layers: Option<&Path>) -> Result<Vec<RootPlan>> {
    let mut tops = vec![engine.project(&request.dir)?.top];
    for also in &request.also {
        tops.push(further_root(engine, &request.dir, also, &tops)?);
    }
    if let Some(top) = tops.iter().find(|top| top.starts_with(engine.state().path())) {
        let why = "it lies in the state directory, which is absent in every lane".to_owned();
        return Err(EngineError::BadOrigin { path: top.clone(), why });
    }
    let mounts = MountTable::load()?;
    let mut plans = Vec::with_capacity(tops.len());
    for top in &tops {
        plans.push(plan_root(engine, top, &mounts, request.strategy, layers)?);
    }
    for dir in repositories(&plans) {
        let mut plan = plan_root(engine, &dir, &mounts, request.strategy, layers)?;
        plan.git = true;
        plans.push(plan);
    }
    Ok(plans)
}

/// Repositories outside every root that a root's `.git` points to (a linked worktree's, a submodule's): a
/// commit inside writes there, so each gets a layer of its own.
fn repositories(plans: &[RootPlan]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for facts in plans.iter().map(|plan| &plan.facts) {
        for dir in [&facts.git.common_dir, &facts.git.outside_gitdir].into_iter().flatten() {
            let Ok(dir) = std::fs::canonicalize(dir) else { continue };
            let is_seen = |seen: &Path| dir.starts_with(seen);
            if dir.is_dir()
                && !plans.iter().any(|plan| is_seen(&plan.facts.path))
                && !found.iter().any(|seen| is_seen(seen))
            {
                found.push(dir);
            }
        }
    }
    found
}

fn plan_root(
    engine: &Engine,
    top: &Path,
    mounts: &MountTable,
    wish: Option<Strategy>,
    layers: Option<&Path>,
) -> Result<RootPlan> {
    let mut facts = OriginFacts::gather(top, mounts)?;
    let placed = workspace::place(&facts, engine.state().path(), layers)?;
    facts.reflinks = placed.reflinks;
    // A place of ours beside the project is made by its first lane; its parent is on the same filesystem.
    let near = match &placed.place {
        workspace::LayerPlace::InState => engine.state().path(),
        workspace::LayerPlace::At(dir) if dir.is_dir() => dir,
        workspace::LayerPlace::At(dir) => dir.parent().unwrap_or(dir),
    };
    let reflink = placed.reflinks.unwrap_or(false);
    let can = match wish {
        Some(Strategy::Copy) => workspace::Abilities {
            is_root: kernel::privilege::is_root(),
            overlay_user: Ok(()),
            overlay_root: Ok(()),
            reflink,
        },
        _ => probe::abilities(engine, &facts, near, reflink)?,
    };
    let choice = workspace::choose(&facts, &can, wish).map_err(|refusal| EngineError::Refused {
        path: top.to_owned(),
        reasons: refusal.reasons.iter().map(|reason| (refusal.strategy, reason.to_string())).collect(),
    })?;
    Ok(RootPlan { facts, placed, choice, git: false })
}

/// A directory of `--also`: there, not in another root, no root in it.
fn further_root(engine: &Engine, dir: &Path, also: &Path, tops: &[PathBuf]) -> Result<PathBuf> {
    let bad = |why: String| EngineError::BadOrigin { path: also.to_owned(), why };
    let path = std::fs::canonicalize(dir.join(also)).map_err(|error| bad(error.to_string()))?;
    if !path.is_dir() {
        return Err(bad("it is not a directory".to_owned()));
    }
    for top in tops {
        if path.starts_with(top) || top.starts_with(&path) {
            return Err(bad(format!("it overlaps with {}", top.display())));
        }
    }
    if path == Path::new("/") || path.starts_with(engine.state().path()) {
        return Err(bad("it cannot be a root of a lane".to_owned()));
    }
    Ok(path)
}

/// Makes a lane, records it and keeps its lock. `layers` is where the user wants them (memory, for instance).
pub fn make(
    engine: &Engine,
    request: &NewRequest,
    layers: Option<&Path>,
    monitor: &mut dyn Monitor,
) -> Result<Made> {
    make_for(engine, request, layers, Recorded::Now, monitor)
}

/// [`make`], with a say in when it is recorded.
pub fn make_for(
    engine: &Engine,
    request: &NewRequest,
    layers: Option<&Path>,
    recorded: Recorded,
    monitor: &mut dyn Monitor,
) -> Result<Made> {
    let began = Instant::now();
    let project = engine.project(&request.dir)?;
    match recorded {
        Recorded::InPassing => recover::sweep_in_passing(engine, monitor)?,
        Recorded::Now | Recorded::WithItsRun => recover::sweep(engine, monitor)?,
    }
    keeping::repair(engine, &project.top, monitor)?;
    let name = match (recorded, &request.name) {
        (Recorded::WithItsRun | Recorded::InPassing, None) => names::generate(|_| false),
        _ => name_for(engine, request, &project.top)?,
    };
    let plans = plan_roots(engine, request, layers)?;
    let (home, lock) = create_home(engine)?;
    let id = home.id().to_owned();
    let mount = match lane::mount_mode() {
        workspace::MountMode::Root => "root",
        workspace::MountMode::User => "user",
    };
    let options = json!({ "mount": mount, "for_run": request.for_run });
    let built = (|| -> Result<(Vec<lane::OpenRoot>, Cost, workspace::BaseStamp)> {
        for (index, plan) in plans.iter().enumerate() {
            home.add_root(index, &plan.placed.place)?;
        }
        let ours = lane::ours(engine, &home)?;
        let inodes: Vec<u64> = plans.iter().map(|plan| plan.facts.ino).collect();
        // The base begins before the first byte is copied: what changes during a copy has drifted.
        let stamp = workspace::stamp(&home, &inodes)?;
        let mut roots = Vec::with_capacity(plans.len());
        let mut cost = Cost::default();
        for (index, plan) in plans.iter().enumerate() {
            let view =
                RootView { path: plan.facts.path.clone(), strategy: plan.choice.strategy, git: plan.git };
            let root = Root {
                index,
                origin: plan.facts.path.clone(),
                strategy: plan.choice.strategy,
                mode: lane::mount_mode(),
                ours: ours.clone(),
            };
            let root = lane::open_root(&home, &root, view)?;
            if plan.choice.strategy == Strategy::Copy {
                // As with the record of the base, which a copy has from the beginning.
                let _ = workspace::git::staged::put_aside(&root.view.path, home.dir(), index);
            }
            let spent = root.workspace.prepare(&mut |progress: Progress| {
                monitor.event(Event::Copying { files: progress.entries, bytes: progress.bytes });
            })?;
            cost.allocated += spent.allocated;
            cost.files += spent.files;
            for (path, why) in &spent.left_out {
                monitor
                    .event(Event::Warning(&format!("not in the lane: {}: {why}", path.as_path().display())));
            }
            roots.push(root);
        }
        Ok((roots, cost, stamp))
    })();
    let (roots, mut cost, stamp) = match built {
        Ok(built) => built,
        Err(error) => return Err(given_up(home, error)),
    };
    cost.millis = began.elapsed().as_secs_f64() * 1000.0;
    let views: Vec<RootView> = roots.iter().map(|root| root.view.clone()).collect();
    let git_head = workspace::git::head(&plans[0].facts.git).and_then(|head| head.commit);
    let row = Lane {
        id: id.clone(),
        name,
        origin: describe::bytes(&project.top),
        project: describe::bytes(&project.top),
        strategy: views[0].strategy.word().to_owned(),
        why: plans[0].choice.why.clone(),
        created_at: clock::now_ms(),
        base_sec: stamp.time.sec,
        base_nsec: stamp.time.nsec,
        boot_id: stamp.boot_id,
        git_head,
        state: ledger::LaneState::New,
        layers: describe::bytes(home.path()),
        roots: describe::further_roots(&views),
        options,
        cost_ms: cost.millis,
        cost_bytes: cost.allocated,
        discarded_at: None,
    };
    if recorded == Recorded::Now
        && let Err(error) = engine.ledger()?.act(|act| record_in(act, &row)).map_err(EngineError::from)
    {
        return Err(given_up(home, error));
    }
    let facts = plans.into_iter().map(|plan| plan.facts).collect();
    Ok(Made { lane: OpenLane { row, home, roots, lent_home: None }, lock, cost, facts })
}

/// Writes a new lane down.
pub fn record_in(act: &ledger::Act<'_>, row: &Lane) -> ledger::Result<()> {
    act.insert_lane(row)?;
    act.insert_op(&done(
        "new",
        &row.id,
        json!({ "name": row.name, "strategy": row.strategy, "undo": Value::Null }),
    ))?;
    Ok(())
}

fn name_for(engine: &Engine, request: &NewRequest, top: &Path) -> Result<String> {
    let ledger = engine.ledger()?;
    let origin = describe::bytes(top);
    match &request.name {
        Some(name) => {
            names::check(name)?;
            if ledger.lane_by_name(&origin, name)?.is_some() {
                return Err(EngineError::NameTaken { name: name.clone() });
            }
            Ok(name.clone())
        }
        None => Ok(names::generate(|name| ledger.lane_by_name(&origin, name).is_ok_and(|row| row.is_some()))),
    }
}

pub(crate) fn create_home(engine: &Engine) -> Result<(LaneHome, Lock)> {
    loop {
        match LaneHome::create(engine.state().path(), &clock::new_id()) {
            // Forty random bits met an older lane: another draw.
            Err(workspace::Error::Exists { .. }) => {}
            other => return Ok(other?),
        }
    }
}

/// Takes back what was made; the first error is the one that is told.
fn given_up(home: LaneHome, error: EngineError) -> EngineError {
    let _ = home.remove();
    error
}
