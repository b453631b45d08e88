//! `gc`: thins automatic snapshots out and removes what no snapshot needs, in every store that lanes of this state directory
//! use, and forgets keeps past the time in which they can be undone. A plan first, then its execution.
//!
//! Invariant: no lane is removed here, nor anything of its layers; snapshots that somebody asked for stay, and so does where a
//! lane stands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use store::gc::{self, GcPlan, KeepRules};
use store::{LaneKey, SnapshotId, Store};

use crate::clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::keeping::{self, KeepsView};
use crate::room;
use crate::stores::{self, StoreAt};

/// What is to be collected.
#[derive(Debug, Clone, Copy, Default)]
pub struct GcRequest {
    /// What each store may take; `None` for the rule.
    pub budget: Option<u64>,
    /// What is to be free on the filesystems of the stores.
    pub keep_free: Option<u64>,
    /// Collect stores that are damaged, too.
    pub despite_damage: bool,
    /// Forget all keeps, so that none can be undone any more.
    pub forget_keeps: bool,
}

/// Snapshots of one lane that go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thinned {
    /// Name of the lane; `None` where only its history is known.
    pub lane: Option<String>,
    /// Its id.
    pub lane_id: String,
    /// Those that go, the oldest first.
    pub snapshots: Vec<SnapshotId>,
    /// How many it has.
    pub of: u64,
}

/// What is done in one store, or was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreView {
    /// Its directory.
    pub path: PathBuf,
    /// Lanes that have a history in it.
    pub lanes: u64,
    /// Their snapshots.
    pub snapshots: u64,
    /// What is thinned out.
    pub thin: Vec<Thinned>,
    /// Ids of lanes that are gone and whose histories are still there: they go.
    pub orphans: Vec<String>,
    /// Packs that go.
    pub dropped: u64,
    /// Packs whose needed part is written anew.
    pub rewritten: u64,
    /// Large files that go.
    pub large: u64,
    /// Bytes that become free.
    pub freed: u64,
    /// Bytes that stay.
    pub kept: u64,
    /// Bytes by which the store is above its budget all the same.
    pub over: u64,
    /// Bytes that are missing to what is to be free, all the same.
    pub short: u64,
    /// No lane is left in it: it goes as a whole.
    pub ends: bool,
    /// Why it cannot be collected.
    pub problem: Option<String>,
}

impl StoreView {
    /// True where nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.thin.is_empty()
            && self.orphans.is_empty()
            && self.dropped + self.rewritten + self.large == 0
            && !self.ends
    }
}

/// One store with what is to be done in it.
#[derive(Debug)]
struct Planned {
    at: StoreAt,
    store: Option<Store>,
    plan: GcPlan,
    view: StoreView,
}

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    request: GcRequest,
    stores: Vec<Planned>,
    keeps: KeepsView,
}

impl Plan {
    /// Store by store.
    pub fn stores(&self) -> impl Iterator<Item = &StoreView> {
        self.stores.iter().map(|planned| &planned.view)
    }

    /// What keeps that can be undone take, and what is to go of that.
    pub fn keeps(&self) -> KeepsView {
        self.keeps
    }

    /// True where nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.keeps.forgotten == 0 && self.stores().all(StoreView::is_empty)
    }
}

/// Makes a plan. Nothing is changed.
pub fn plan(engine: &Engine, request: &GcRequest) -> Result<Plan> {
    // What is freed in one store counts for the next on the same filesystem.
    let mut freed: BTreeMap<u64, u64> = BTreeMap::new();
    let stores = stores::all(engine.state().path())?;
    let stores = stores.into_iter().map(|at| plan_one(engine, at, request, &mut freed)).collect();
    let keeps = keeping::collect(engine, request.forget_keeps, false)?;
    Ok(Plan { request: *request, stores, keeps })
}

/// One store that cannot be read does not keep the others from being collected.
fn plan_one(engine: &Engine, at: StoreAt, request: &GcRequest, freed: &mut BTreeMap<u64, u64>) -> Planned {
    let mut view = StoreView { path: at.path(), ..StoreView::default() };
    match try_plan(engine, &at, request, freed, &mut view) {
        Ok((store, plan)) => Planned { at, store, plan, view },
        Err(error) => {
            view.problem = Some(error.with_causes());
            Planned { at, store: None, plan: GcPlan::default(), view }
        }
    }
}

fn try_plan(
    engine: &Engine,
    at: &StoreAt,
    request: &GcRequest,
    freed: &mut BTreeMap<u64, u64>,
    view: &mut StoreView,
) -> Result<(Option<Store>, GcPlan)> {
    let state = engine.state().path();
    let Some(store) = at.open()? else {
        // A store that ended half.
        view.ends = true;
        return Ok((None, GcPlan::default()));
    };
    let lanes = store.lanes()?;
    view.orphans = orphans(engine, at, &lanes).iter().map(|key| key.as_str().to_owned()).collect();
    view.ends = view.orphans.len() == lanes.len();
    view.lanes = lanes.len() as u64;
    let device = kernel::meta::stat_fd(&store).map(|stat| stat.dev).unwrap_or_default();
    let plan = make(state, &store, request, freed.get(&device).copied().unwrap_or(0), view)?;
    *freed.entry(device).or_default() += plan.freed;
    (view.dropped, view.rewritten) = (plan.drop.len() as u64, plan.rewrite.len() as u64);
    (view.large, view.freed, view.kept) = (plan.large.len() as u64, plan.freed, plan.kept);
    if view.ends {
        (view.freed, view.kept) = (store.size()?.bytes, 0);
    }
    view.problem = plan.is_damaged().then(|| damage(&plan));
    for key in &lanes {
        let of = store.history(key)?.snapshots().count() as u64;
        view.snapshots += of;
        let snapshots: Vec<SnapshotId> =
            plan.thin.iter().filter(|(lane, _)| lane == key).map(|(_, id)| *id).collect();
        if !snapshots.is_empty() {
            let lane = name_of(engine, key.as_str());
            view.thin.push(Thinned { lane, lane_id: key.as_str().to_owned(), snapshots, of });
        }
    }
    Ok((Some(store), plan))
}

/// The plan of one store. `others` is what is freed elsewhere on its filesystem.
fn make(
    state: &Path,
    store: &Store,
    request: &GcRequest,
    others: u64,
    view: &mut StoreView,
) -> Result<GcPlan> {
    let room = room::of(store)?;
    let budget = request.budget.unwrap_or_else(|| room::budget(room));
    let pinned = stores::pinned(state, store)?;
    let usual = KeepRules { pinned, ..KeepRules::usual(clock::now_ms()) };
    let rules = |budget| KeepRules { budget: Some(budget), ..usual.clone() };
    let mut plan = gc::plan(store, &rules(budget))?;
    let short = |plan: &GcPlan| {
        let free = room.free.saturating_add(others).saturating_add(plan.freed);
        request.keep_free.map_or(0, |floor| floor.saturating_sub(free))
    };
    // What is dead in packs that stay is not freed, so that one step may not be enough; the last takes all there is.
    for step in 0..4 {
        let missing = short(&plan);
        if missing == 0 {
            break;
        }
        let less = if step == 3 { 0 } else { plan.kept.saturating_sub(missing) };
        plan = gc::plan(store, &rules(budget.min(less)))?;
    }
    view.over = plan.kept.saturating_sub(budget);
    view.short = short(&plan);
    Ok(plan)
}

fn damage(plan: &GcPlan) -> String {
    match plan.damage.first() {
        Some(damage) => format!("it is damaged: {damage}"),
        None => "it is damaged: a part of a history cannot be read".to_owned(),
    }
}

/// The name of a lane, in whatever state.
pub(crate) fn name_of(engine: &Engine, id: &str) -> Option<String> {
    Some(engine.ledger().ok()?.lane(id).ok()??.name)
}

fn orphans(engine: &Engine, at: &StoreAt, lanes: &[LaneKey]) -> Vec<LaneKey> {
    lanes.iter().filter(|key| at.is_orphan(engine.state().path(), key)).cloned().collect()
}

/// Carries a plan out; answers what was done, store by store, and with the keeps.
pub fn execute(engine: &Engine, plan: Plan) -> Result<(Vec<StoreView>, KeepsView)> {
    let request = plan.request;
    let keeps = keeping::collect(engine, request.forget_keeps, true)?;
    Ok((plan.stores.into_iter().map(|planned| execute_one(engine, planned, &request)).collect(), keeps))
}

fn execute_one(engine: &Engine, planned: Planned, request: &GcRequest) -> StoreView {
    let mut view = StoreView {
        path: planned.view.path.clone(),
        lanes: planned.view.lanes,
        snapshots: planned.view.snapshots,
        kept: planned.view.kept,
        over: planned.view.over,
        short: planned.view.short,
        ..StoreView::default()
    };
    if planned.view.problem.is_some() && (planned.store.is_none() || !request.despite_damage) {
        view.problem = planned.view.problem;
        return view;
    }
    if let Err(error) = try_execute(engine, planned, request, &mut view) {
        view.problem = Some(error.with_causes());
    }
    view
}

fn try_execute(engine: &Engine, planned: Planned, request: &GcRequest, view: &mut StoreView) -> Result<()> {
    let (state, now) = (engine.state().path(), clock::now_ms());
    let Planned { at, store, mut plan, view: planned } = planned;
    let Some(store) = store else {
        view.ends = at.end_if_empty()?;
        return Ok(());
    };
    let before = store.size()?.bytes;
    if planned.ends || !planned.orphans.is_empty() {
        // Looked for once more: a lane may have come back meanwhile.
        for key in orphans(engine, &at, &store.lanes()?) {
            store.forget_lane(&key)?;
            view.orphans.push(key.as_str().to_owned());
        }
        if at.end_if_empty()? {
            (view.ends, view.freed, view.kept) = (true, before, 0);
            return Ok(());
        }
        plan = make(state, &store, request, 0, view)?;
    }
    let thin = plan.thin.clone();
    let rewrite = plan.rewrite.len() as u64;
    let collected = stores::collect(state, &store, plan, now, request.despite_damage)?;
    for one in planned.thin {
        let left = store.history(&LaneKey::new(&one.lane_id)?)?;
        let gone = |id: &SnapshotId| left.get(*id).is_none() && thin.iter().any(|(_, thinned)| thinned == id);
        let snapshots: Vec<SnapshotId> = one.snapshots.iter().copied().filter(gone).collect();
        if !snapshots.is_empty() {
            view.thin.push(Thinned { snapshots, ..one });
        }
    }
    view.rewritten = rewrite.min(collected.packs);
    view.dropped = collected.packs - view.rewritten;
    view.large = collected.large;
    view.kept = store.size()?.bytes;
    view.freed = before.saturating_sub(view.kept);
    let room = room::of(&store)?;
    view.over = view.kept.saturating_sub(request.budget.unwrap_or_else(|| room::budget(room)));
    view.short = request.keep_free.map_or(0, |floor| floor.saturating_sub(room.free));
    Ok(())
}
