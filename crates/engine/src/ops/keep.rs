//! `keep`: plan what of a lane goes into the origin, and do it.
//!
//! Invariant: what was planned is what is done; `review` looks again at both sides right before each
//! step. What was kept is the lane's base from then on, so that it is no drift the next time.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use kernel::lock::Lock;
use review::apply::{self, Faults, NoFaults, Options, Places};
use review::choice::{Choice, Take};
use review::chosen::Chosen;
use review::composed::Composed;
use review::plan::{KeepPlan, Skipped, Step, Why, Wish};
pub use review::table::Did;
use review::threeway::Joined;
use serde_json::json;
use tree::dir::DirTree;
use tree::{Source, TreePath};
use workspace::Kept;
use workspace::manifest::{self, Advance, Manifest};

use crate::clock;
use crate::describe;
use crate::engine::{Engine, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::find;
use crate::guarding;
use crate::keeping;
use crate::lane::{self, OpenLane, OpenRoot, RootDelta};
use crate::merging::{self, Ground, Parts};
pub use crate::merging::{Clash, ConflictView, Conflicts, MergedView};
use crate::monitor::{Event, Monitor};
use crate::picking::{self, Asked, RootWish, Seen, wishes};
use crate::policy::{CheckView, Gate, Planned};
use crate::selection::{Digest, SelectedFile, Selection};
use crate::view::LaneView;

mod agents;
mod bring;
pub mod commit;
mod ignored;
pub mod patch;
mod settle;

pub use commit::{CommitRequest, CommitView, PreparedCommit, Target};
pub use review::patch::Lost;

/// Which lane, and what of it.
#[derive(Debug, Clone, Default)]
pub struct KeepRequest {
    /// A directory of the project; paths are relative to it.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Only these paths and what is below them; empty for everything.
    pub paths: Vec<PathBuf>,
    /// Carry set-user-id and set-group-id bits too.
    pub set_id: bool,
    /// Hunks by their ids, besides what `paths` name; a file with hunks here is taken in those alone.
    pub hunks: Vec<String>,
    /// What was ticked; instead of paths and hunks.
    pub selection: Option<Selection>,
    /// Only if the lane's changes still have this digest, which a diff answered.
    pub digest: Option<Digest>,
    /// What is done where both sides changed the same.
    pub conflicts: Conflicts,
    /// Answer what is kept as a selection ([`PreparedKeep::selection`]).
    pub record: bool,
}

/// Why a change stays in the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutWhy {
    /// It runs by itself later and was not named.
    Guarded,
    /// The origin's own state there is newer than the base.
    Drifted,
    /// It meets something else in the origin.
    Conflict,
    /// Its kind cannot be kept (sockets, devices).
    CannotCarry,
    /// A new directory of which everything inside stays in the lane.
    NothingInside,
    /// Its base or its content cannot be trusted after a restart of the machine.
    Suspect,
    /// Git's rules for ignored files cover it, and it was not named (for a commit).
    Ignored,
    /// It was changed after the last commit of the lane (for the lane's own commits).
    Uncommitted,
}

/// A path that a commit cannot take, and that is therefore left out of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    root: usize,
    path: TreePath,
    why: LeftOutWhy,
    detail: String,
}

impl LeftOutWhy {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            LeftOutWhy::Guarded => "guarded",
            LeftOutWhy::Drifted => "drifted",
            LeftOutWhy::Conflict => "conflict",
            LeftOutWhy::CannotCarry => "cannot-carry",
            LeftOutWhy::NothingInside => "nothing-inside",
            LeftOutWhy::Suspect => "suspect",
            LeftOutWhy::Ignored => "ignored",
            LeftOutWhy::Uncommitted => "uncommitted",
        }
    }
}

/// A change that stays in the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// Why.
    pub why: LeftOutWhy,
    /// More about it; may be empty.
    pub detail: String,
}

/// One step into the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// `add`, `modify`, `delete`, `mode`, `retype`, `rename`.
    pub what: &'static str,
    /// Where it stood before, for a rename.
    pub from: Option<TreePath>,
    /// Only a part of the change: some hunks, lines, the mode or the new place.
    pub part: bool,
    /// Why it runs by itself later, where it does: its path was named.
    pub guarded: Option<String>,
}

/// What a keep would do.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepView {
    /// The lane.
    pub lane: LaneView,
    /// By which the keep can be undone; `None` until it is done.
    pub id: Option<String>,
    /// The steps.
    pub steps: Vec<StepView>,
    /// What stays in the lane.
    pub left_out: Vec<LeftOut>,
    /// Changes below `.git`, which are never kept.
    pub git_internal: u64,
    /// Bytes that the origin's filesystem needs.
    pub bytes: u64,
    /// Files that are kept without their set-id bits.
    pub set_id_dropped: Vec<(PathBuf, TreePath)>,
    /// What the lane has to pass first.
    pub checks: Vec<CheckView>,
    /// What does not go together with the original as it is now.
    pub conflicts: Vec<ConflictView>,
    /// What was put together of both sides.
    pub merged: Vec<MergedView>,
}

impl KeepView {
    /// True where all that was asked for is done, and nothing is left to a person.
    pub fn is_complete(&self) -> bool {
        self.left_out.is_empty() && !self.conflicts.iter().any(ConflictView::is_open)
    }
}

/// The plan for one root, with the tree that it is carried out from.
struct RootPlan {
    plan: KeepPlan,
    inside: Composed<'static>,
    joined: Vec<Joined>,
    parts: Parts,
}

/// A plan that can be carried out once.
pub struct PreparedKeep {
    /// What it would do.
    pub view: KeepView,
    lane: OpenLane,
    roots: Vec<RootPlan>,
    gate: Gate,
    selection: Option<Selection>,
    /// Held where nothing runs in the lane, so that nothing begins to.
    lock: Option<Lock>,
}

impl std::fmt::Debug for PreparedKeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedKeep").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Makes the plan; writes nothing (but what an interrupted keep left is taken back first).
pub fn prepare(engine: &Engine, request: &KeepRequest, monitor: &mut dyn Monitor) -> Result<PreparedKeep> {
    let mut prepared = prepare_without(engine, request, &[], monitor)?;
    prepared.hold(engine)?;
    Ok(prepared)
}

/// As [`prepare`], without what was refused; whether it holds to the policy is still to be asked.
fn prepare_without(
    engine: &Engine,
    request: &KeepRequest,
    refused: &[Refused],
    monitor: &mut dyn Monitor,
) -> Result<PreparedKeep> {
    let project = engine.project(&request.dir)?;
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let view = describe::lane(engine, &row)?;
    let is_live = row.state == ledger::LaneState::Live;
    let lane = lane::open(engine, row)?;
    let lock = if is_live { None } else { Some(lane.lock()?) };
    for root in &lane.roots {
        keeping::repair(engine, &root.view.path, monitor)?;
    }
    let asked = lane.locate_all(&project.asked, &request.paths)?;
    if let Some(path) = asked.iter().flatten().find(|path| review::guard::git_internal(path)) {
        return Err(EngineError::GitInternal { path: path.clone() });
    }
    let deltas = lane.changes()?;
    deltas.iter().for_each(|delta| tell_parted(delta, monitor));
    let drift = lane.drift(&deltas)?;
    let Asked { wishes, selection, seen } = wishes(&lane, &deltas, &asked, request)?;
    let is_everything = request.paths.is_empty() && request.hunks.is_empty() && request.selection.is_none();
    let mut view = KeepView {
        lane: view,
        id: None,
        steps: Vec::new(),
        left_out: Vec::new(),
        git_internal: 0,
        bytes: 0,
        set_id_dropped: Vec::new(),
        checks: Vec::new(),
        conflicts: Vec::new(),
        merged: Vec::new(),
    };
    let ground = Ground::new(engine, &lane, drift);
    let gate = Gate::new(&lane, &deltas)?;
    let mut roots = Vec::new();
    for ((root, delta), wish) in lane.roots.iter().zip(deltas).zip(wishes) {
        let inside = Composed::new(root.workspace.lane_tree()?, Box::new(merging::origin_of(root)?));
        let Some(wish) = wish else {
            // What was asked for lies in other roots.
            let (plan, joined, parts) = (KeepPlan::default(), Vec::new(), Parts::new());
            roots.push(RootPlan { plan, inside, joined, parts });
            continue;
        };
        let suspect = is_everything && view.lane.base.other_boot;
        let place = lane.home.dir().fd.as_fd();
        // Only who is inside could change it between this look and the keep.
        let seen = seen.as_ref().filter(|_| is_live);
        let job = RootJob { wish, inside, place, seen, suspect, request, refused };
        roots.push(plan_root((&ground, &lane, root), delta, job, &mut view)?);
    }
    let selection = selection.map(|selection| record(selection, &view));
    Ok(PreparedKeep { view, lane, roots, gate, selection, lock })
}

/// Refuses a plan that breaks a rule of the policy; the checks that it needs else.
fn hold_to(gate: &Gate, engine: &Engine, lane: &OpenLane, roots: &[RootPlan]) -> Result<Vec<CheckView>> {
    let mut origins = Vec::with_capacity(roots.len());
    for root in &lane.roots {
        origins.push(DirTree::open(&root.view.path).doing(|| format!("open {}", root.view.path.display()))?);
    }
    let planned: Vec<Planned<'_>> = lane
        .roots
        .iter()
        .zip(roots)
        .zip(&origins)
        .map(|((root, planned), origin)| Planned { root: &root.view.path, plan: &planned.plan, origin })
        .collect();
    gate.plan(engine, lane, &planned)
}

/// What is kept of what was ticked: a file that is left out has no tick.
fn record(mut selection: Selection, view: &KeepView) -> Selection {
    let left: BTreeSet<(&Path, &TreePath)> =
        view.left_out.iter().map(|left| (left.root.as_path(), &left.path)).collect();
    let is_left = |file: &&mut SelectedFile| left.contains(&(file.root.as_path(), &file.path));
    selection.files.iter_mut().filter(is_left).for_each(SelectedFile::clear);
    selection
}

/// Says which changes write one of several names of a file. Where the lane's layers cannot hold links
/// together, the others keep what they had.
fn tell_parted(delta: &RootDelta, monitor: &mut dyn Monitor) {
    use tree::ChangeKind::Modify;
    let linked = |change: &&tree::Change| {
        change.kind == Modify && change.old.as_ref().is_some_and(|old| old.is_file() && old.nlink > 1)
    };
    let ino = |change: &tree::Change| change.old.as_ref().map(|old| (old.ino, old.nlink));
    let written: Vec<&tree::Change> = delta.set.changes.iter().filter(linked).collect();
    for change in &written {
        let Some((number, names)) = ino(change) else { continue };
        let together =
            written.iter().filter(|other| ino(other).is_some_and(|(other, _)| other == number)).count()
                as u64;
        if together < names {
            let path = change.path.as_bytes().escape_ascii();
            monitor.event(Event::Warning(&format!(
                "{path} is a hard link, one of {names} names of a file: the others keep the old content"
            )));
        }
    }
}

/// What is to be planned in one root.
struct RootJob<'j> {
    wish: RootWish,
    inside: Composed<'static>,
    /// A directory of ours, for content that no tree has.
    place: BorrowedFd<'j>,
    /// What was looked at, where somebody inside could still change it.
    seen: Option<&'j Seen>,
    suspect: bool,
    request: &'j KeepRequest,
    /// What is kept clear of.
    refused: &'j [Refused],
}

fn plan_root(
    (ground, lane, root): (&Ground, &OpenLane, &OpenRoot),
    delta: RootDelta,
    job: RootJob<'_>,
    view: &mut KeepView,
) -> Result<RootPlan> {
    let base = root.workspace.base_tree()?;
    let (mut chosen, parts) = match job.wish {
        RootWish::Paths(selection) => {
            (Chosen { set: delta.set, selection, tree: job.inside }, BTreeSet::new())
        }
        RootWish::Choice(choice) => {
            let parts = part_paths(&delta.set, &choice);
            (review::chosen::choose(&delta.set, &*base, job.inside, &choice, job.place)?, parts)
        }
    };
    if let Some(seen) = job.seen {
        let is_part = |path: &TreePath| parts.contains(path);
        let moved = picking::hold(&delta.root, &mut chosen, &*base, job.place, seen, &is_part)?;
        if !moved.is_empty() {
            return Err(EngineError::MovedOn { name: view.lane.name.clone(), moved });
        }
    }
    let Chosen { set, selection, tree: mut inside } = chosen;
    let noted = merging::parts(&set, &parts, &inside)?;
    let (suspect, request) = (job.suspect, job.request);
    let together = ground.resolve(lane, root, (&set, &*base), &mut inside, request.conflicts)?;
    let resolved = together.resolved;
    let followed = resolved.followed.iter().filter(|(lane_path, _)| selection.covers(lane_path));
    let followed = followed.map(|(_, place)| place.clone()).collect();
    let selection = selection.also(followed);
    let refused: Vec<&Refused> = job.refused.iter().filter(|at| at.root == delta.index).collect();
    let mut stopped = resolved.stopped;
    // The plan keeps clear of them as of what has drifted.
    stopped.extend(refused.iter().map(|at| {
        let why = Why::Drifted(String::new());
        review::plan::Drifted { path: at.path.clone(), why }
    }));
    let wish = Wish { set: &resolved.set, selection: &selection, drift: &stopped, set_id: request.set_id };
    let against = together.origin.as_ref().map_or(&*base, |origin| origin as &dyn Source);
    let mut plan = review::plan::plan(&wish, against, &inside)?;
    let known = || resolved.settled.iter().chain(resolved.followed.keys());
    plan.unmatched.retain(|asked| !known().any(|path| path.starts_with(asked)));
    if let Some(path) = plan.unmatched.first() {
        return Err(EngineError::NothingThere { path: path.clone() });
    }
    view.git_internal += delta.git_internal;
    if suspect {
        // A restart may have cut off what the lane wrote last: each path has to be named.
        let whole = plan.steps.drain(..).map(|step| LeftOut {
            root: delta.root.clone(),
            path: step.path().clone(),
            why: LeftOutWhy::Suspect,
            detail: String::new(),
        });
        view.left_out.extend(whole);
        plan.bytes_needed = 0;
    }
    view.bytes += plan.bytes_needed;
    let guarded = guarding::reasons(&set, &*base, &inside)?;
    view.steps.extend(plan.steps.iter().map(|step| StepView {
        guarded: guarded.get(step.path()).cloned(),
        ..step_view(&delta.root, step, &parts)
    }));
    view.set_id_dropped.extend(plan.set_id_dropped.iter().map(|path| (delta.root.clone(), path.clone())));
    for skipped in &plan.skipped {
        match left_out(&delta.root, skipped) {
            Some(mut left) => {
                let is_it = |at: &&&Refused| left.why == LeftOutWhy::Drifted && at.path == left.path;
                if let Some(at) = refused.iter().find(is_it) {
                    (left.why, left.detail) = (at.why, at.detail.clone());
                }
                view.left_out.push(left);
            }
            None => view.git_internal += 1,
        }
    }
    let asked = resolved.conflicts.into_iter().filter(|at| selection.covers(&at.path));
    view.conflicts.extend(asked.map(|at| ConflictView {
        root: delta.root.clone(),
        path: at.path,
        clash: at.clash,
        settled: at.settled,
    }));
    let done: BTreeSet<&TreePath> = plan.steps.iter().map(Step::path).collect();
    let joined: Vec<Joined> = resolved.joined.into_iter().filter(|at| done.contains(&at.path)).collect();
    view.merged.extend(joined.iter().map(|at| MergedView {
        root: delta.root.clone(),
        path: at.path.clone(),
        lane_path: at.lane_path.clone(),
        content: at.content,
    }));
    Ok(RootPlan { plan, inside, joined, parts: noted })
}

/// The paths, old and new, of what is taken in parts.
fn part_paths(set: &tree::ChangeSet, choice: &Choice) -> BTreeSet<TreePath> {
    let is_part = |change: &&tree::Change| matches!(choice.files.get(&change.path), Some(Take::Part(_)));
    let both = |change: &tree::Change| [change.path.clone(), change.old_path().clone()];
    set.changes.iter().filter(is_part).flat_map(both).collect()
}

fn step_view(root: &Path, step: &Step, parts: &BTreeSet<TreePath>) -> StepView {
    let (what, from) = match step {
        Step::MoveDir { from, .. } | Step::Move { from, .. } => ("rename", Some(from.clone())),
        Step::Put { old: None, .. } => ("add", None),
        Step::Put { old: Some(old), new, .. } if old.kind != new.kind => ("retype", None),
        Step::Put { same_content: true, .. } => ("mode", None),
        Step::Put { .. } => ("modify", None),
        Step::Meta { .. } => ("mode", None),
        Step::Delete { .. } => ("delete", None),
    };
    let part = parts.contains(step.path());
    StepView { root: root.to_owned(), path: step.path().clone(), what, from, part, guarded: None }
}

fn left_out(root: &Path, skipped: &Skipped) -> Option<LeftOut> {
    let shown = |path: &TreePath| path.as_path().display().to_string();
    let (why, detail) = match &skipped.why {
        Why::GitInternal => return None,
        Why::Guarded(reason) => (LeftOutWhy::Guarded, reason.clone()),
        Why::Drifted(what) => (LeftOutWhy::Drifted, what.clone()),
        Why::Conflict(clash) => (LeftOutWhy::Conflict, clash.word().to_owned()),
        Why::Unsupported(kind) => (LeftOutWhy::CannotCarry, format!("{kind:?}").to_lowercase()),
        Why::Gap(reason) => (LeftOutWhy::CannotCarry, reason.clone()),
        Why::NeedsParent(parent) => (LeftOutWhy::Conflict, format!("{} is left out", shown(parent))),
        Why::Holds(inner) => (LeftOutWhy::Conflict, format!("{} stays", shown(inner))),
        Why::SetId => (LeftOutWhy::CannotCarry, "set-id bit".to_owned()),
        Why::Owner => (LeftOutWhy::CannotCarry, "its owner".to_owned()),
        Why::NothingInside => (LeftOutWhy::NothingInside, String::new()),
    };
    Some(LeftOut { root: root.to_owned(), path: skipped.path.clone(), why, detail })
}

impl PreparedKeep {
    /// An error where it breaks a rule of the policy.
    fn hold(&mut self, engine: &Engine) -> Result<()> {
        self.view.checks = hold_to(&self.gate, engine, &self.lane, &self.roots)?;
        Ok(())
    }

    /// Runs the checks that the policy asks for and that have not passed on what is kept from; an error where one does
    /// not pass. [`PreparedKeep::execute`] does it too; this is for who wants to know before he asks.
    pub fn check(&self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
        if self.view.steps.is_empty() {
            return Ok(());
        }
        self.gate.pass(engine, &self.lane, self.lock.as_ref(), monitor)
    }

    /// What will be kept, as a selection; only where [`KeepRequest::record`] asked for it.
    pub fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// Carries it out: all of its steps in all roots, or none.
    pub fn execute(self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<KeepView> {
        self.execute_at(engine, &NoFaults, monitor)
    }

    /// As [`PreparedKeep::execute`], with somebody who is told of each step and can still turn it all back.
    fn execute_at(
        mut self,
        engine: &Engine,
        gate: &dyn Faults,
        monitor: &mut dyn Monitor,
    ) -> Result<KeepView> {
        self.check(engine, monitor)?;
        if self.view.steps.is_empty() {
            return Ok(self.view);
        }
        let mut plans = std::mem::take(&mut self.roots);
        let id = clock::new_id();
        let mut ready = Vec::new();
        for (root, planned) in self.lane.roots.iter().zip(&mut plans) {
            // The first one leads: by it the next command finds what was interrupted.
            if root.index == 0 || !planned.plan.steps.is_empty() {
                ready.push(self.make_ready(engine, root, planned, &id)?);
            }
        }
        let about = keeping::about(&self.view.lane, self.view.steps.len());
        let with_plans = plans
            .iter()
            .zip(&self.lane.roots)
            .filter(|(planned, root)| root.index == 0 || !planned.plan.steps.is_empty());
        let roots: Vec<apply::Root<'_>> = with_plans
            .zip(&ready)
            .map(|((planned, root), ready)| apply::Root {
                plan: &planned.plan,
                origin: ready.origin.fd(),
                path: &root.view.path,
                lane: &planned.inside,
                places: Places { staging: ready.staging.as_deref(), journal: &ready.journal },
            })
            .collect();
        let naming = apply::Naming { id: &id, about: &about };
        let mut follow = |settled: &apply::Settled| match ready.iter().find(|one| one.is(settled)) {
            Some(ready) if settled.is_done => ready.advance(self.lane.home.dir(), monitor),
            _ => keeping::base::follow(engine, settled, monitor),
        };
        let options = Options::default();
        let reports = match apply::execute_all(&roots, Some(naming), &options, gate, &mut follow) {
            Ok(reports) => reports,
            Err(error) => {
                let outcome = error.to_string();
                let failed = ledger::NewOperation { outcome, ..done("keep", &self.view.lane.id, json!({})) };
                engine.ledger()?.insert_op(&failed)?;
                return Err(error.into());
            }
        };
        for (at, why) in reports.iter().flat_map(|report| &report.not_carried) {
            monitor.event(Event::Warning(&format!("{}: {why}", at.as_path().display())));
        }
        let summary = json!({ "name": self.view.lane.name, "steps": self.view.steps.len(), "left_out": self.view.left_out.len() });
        let undo = Some(json!({ "keep": id }));
        engine
            .ledger()?
            .insert_op(&ledger::NewOperation { undo, ..done("keep", &self.view.lane.id, summary) })?;
        self.view.id = Some(id);
        Ok(self.view)
    }

    /// Everything that has to be known, or done in the lane, before a root is written.
    fn make_ready(
        &self,
        engine: &Engine,
        root: &OpenRoot,
        planned: &mut RootPlan,
        id: &str,
    ) -> Result<Ready> {
        let path = &root.view.path;
        let origin = DirTree::open(path).doing(|| format!("open {}", path.display()))?;
        let (journal, staging) = (keeping::journal_dir(engine, path)?, keeping::staging(engine, path)?);
        let touched = touched(&planned.plan);
        let whole = planned.plan.steps.iter().filter_map(moved_whole).collect();
        let mut ready = Ready {
            index: root.index,
            path: path.clone(),
            origin,
            before: None,
            touched,
            also: Vec::new(),
            journal,
            staging,
            whole,
            joined: Vec::new(),
        };
        if planned.plan.steps.is_empty() {
            return Ok(ready);
        }
        let before = self.base_record(root, &ready.origin)?;
        // Asked before anything is done: that changes a file under its other names too.
        ready.also = before.other_names(&ready.touched, &ready.origin)?;
        if self.lock.is_some() {
            self.lane.home.forget_links()?;
        }
        let was_stacked = root.workspace.is_stacked()?;
        if !root.workspace.stand_alone(&ready.touched, self.lock.is_some())? {
            return Err(EngineError::RestsOnMoved { name: self.view.lane.name.clone() });
        }
        if was_stacked && !root.workspace.is_stacked()? {
            planned.inside.stand_on(root.workspace.lane_tree()?);
            planned.plan.moved_to(&planned.inside).doing(|| format!("look at {}", self.view.lane.name))?;
        }
        let paths: Vec<TreePath> = ready.touched.iter().chain(&ready.also).cloned().collect();
        before.set_aside(&paths, self.lane.home.dir(), &keeping::base::aside_name(id, root.index))?;
        ready.before = Some(before);
        // Noted before it is done: where it is not done, what stands in the original says so.
        let home = self.lane.home.dir();
        let mut kept = Kept::load(home, root.index)?;
        let own = root.workspace.lane_tree()?;
        merging::note(&planned.plan, &planned.joined, &planned.parts, &*own, &mut kept)?;
        kept.save(home, root.index)?;
        ready.joined = kept.joined();
        Ok(ready)
    }

    /// What the base was, walked now where no walk has ended yet: after the keep it could not be told any more.
    fn base_record(&self, root: &OpenRoot, origin: &DirTree) -> Result<Manifest> {
        let home = self.lane.home.dir();
        if let Some(manifest) = Manifest::load(home, root.index)? {
            // What is damaged is found before anything is kept, and not after.
            manifest.check()?;
            return Ok(manifest);
        }
        let since = workspace::base::read_stamp(&self.lane.home)?.time;
        let options =
            manifest::RecordOptions { since: Some(since), skip: &root.skipped, ..Default::default() };
        let name = manifest::file_name(root.index);
        manifest::record(origin.fd(), &options, home, &name, &AtomicBool::new(false))?;
        let missing = || EngineError::Damaged {
            name: self.view.lane.name.clone(),
            dir: home.path.clone(),
            why: format!("{name} was written and is not there"),
        };
        Manifest::load(home, root.index)?.ok_or_else(missing)
    }
}

/// One root right before it is written.
struct Ready {
    index: usize,
    path: PathBuf,
    origin: DirTree,
    /// What its base was; `None` where nothing of it is written.
    before: Option<Manifest>,
    touched: Vec<TreePath>,
    also: Vec<TreePath>,
    journal: PathBuf,
    staging: Option<PathBuf>,
    /// Directories that come with all that is in them.
    whole: Vec<TreePath>,
    /// Where the original will hold more than the lane: what the lane has is the base there.
    joined: Vec<TreePath>,
}

/// The directory that came with all that is in it.
fn moved_whole(step: &Step) -> Option<TreePath> {
    match step {
        Step::MoveDir { to, .. } => Some(to.clone()),
        _ => None,
    }
}

impl Ready {
    fn is(&self, settled: &apply::Settled) -> bool {
        self.path == settled.origin
    }

    /// What was kept is the lane's base from here on.
    fn advance(&self, home: &workspace::home::HomeDir, monitor: &mut dyn Monitor) -> bool {
        let Some(before) = &self.before else { return true };
        let advance =
            Advance { paths: &self.touched, whole: &self.whole, also: &self.also, except: &self.joined };
        let done = before.advance(&advance, &self.origin, home, self.index);
        if let Err(error) = &done {
            monitor.event(Event::Warning(&format!("the base of the lane: {error}")));
        }
        done.is_ok()
    }
}

/// Every path of the origin that the plan changed.
fn touched(plan: &KeepPlan) -> Vec<TreePath> {
    let mut paths = Vec::new();
    for step in &plan.steps {
        paths.push(step.path().clone());
        if let Step::MoveDir { from, .. } | Step::Move { from, .. } = step {
            paths.push(from.clone());
        }
    }
    paths
}
