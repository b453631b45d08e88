//! Several lanes as one plan: each is planned over what those before it bring, and what all of them come to is one plan on
//! the original.
//!
//! Invariant: where two lanes do not go together and nobody is to win, neither of them touches the path. What a lane brings
//! that another one does not touch arrives as it would alone. Of one lane the plan is the lane's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use review::plan::{KeepPlan, Step};
use review::threeway::{Conflict, Joined};
use tree::{Source, TreePath};

use super::gathered::KeptLane;
use super::lane_plan::{self, Job, LanePlan, Own, Told};
use super::over::Over;
use super::{KeepRequest, KeepView, LeftOut, LeftOutWhy, Refused};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::merging::{self, ConflictView, Ground, Parts};

/// The plan for one root, with the tree that it is carried out from.
pub(super) struct RootPlan {
    pub(super) path: PathBuf,
    pub(super) plan: KeepPlan,
    pub(super) inside: Rc<dyn Source>,
    /// What it is made for, where that is neither the lane's own base nor the original.
    pub(super) base: Option<Rc<dyn Source>>,
    /// What of it is each lane's.
    pub(super) shares: Vec<Share>,
}

/// What one lane has in the plan of a root.
pub(super) struct Share {
    /// Number of the lane, and of the root in it.
    pub(super) lane: usize,
    pub(super) index: usize,
    /// Its steps; the paths are those of the original afterwards.
    pub(super) steps: Vec<Step>,
    pub(super) joined: Vec<Joined>,
    pub(super) parts: Parts,
    /// Every path of the original that is concerned.
    pub(super) touched: Vec<TreePath>,
    /// Directories that come with all that is in them.
    pub(super) whole: Vec<TreePath>,
    pub(super) own: Rc<Own>,
}

/// What was planned, root by root; the first one leads.
pub(super) type Planned = (Vec<RootPlan>, KeepView);

/// Plans all of it. `refused` is left out.
pub(super) fn plan(
    engine: &Engine,
    lanes: &mut [KeptLane],
    request: &KeepRequest,
    (refused, is_apart): (&[Refused], bool),
) -> Result<Planned> {
    let grounds: Vec<Ground> =
        lanes.iter().map(|kept| Ground::new(engine, &kept.lane, kept.drift.clone())).collect();
    let mut all: Vec<Refused> = refused.to_vec();
    let mut settled: Vec<ConflictView> = Vec::new();
    loop {
        let round = Round { lanes, grounds: &grounds, request, refused: &all, is_apart };
        let mut outcome = round.run()?;
        let known = all.len();
        for at in outcome.refused.drain(..) {
            if !all.contains(&at) {
                all.push(at);
            }
        }
        if all.len() > known {
            // Both sides of a conflict between lanes are left out from here on, so that it is not found again.
            let between = outcome.view.conflicts.into_iter().filter(|at| at.settled.is_none());
            settled.extend(between.filter(|at| !at.with.is_empty()));
            continue;
        }
        let mut view = outcome.view;
        view.conflicts.retain(|at| {
            !settled
                .iter()
                .any(|known| (&known.root, &known.path, &known.lane) == (&at.root, &at.path, &at.lane))
        });
        view.conflicts.extend(settled);
        view.conflicts.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
        for (at, kept) in lanes.iter_mut().enumerate() {
            let name = (at > 0 || !request.with.is_empty()).then(|| kept.view.name.clone());
            let left: Vec<LeftOut> = view.left_out.iter().filter(|left| left.lane == name).cloned().collect();
            kept.record(&left);
        }
        return Ok((outcome.roots, view));
    }
}

/// One time through all lanes and roots.
pub(super) struct Round<'r> {
    pub(super) lanes: &'r [KeptLane],
    grounds: &'r [Ground],
    request: &'r KeepRequest,
    refused: &'r [Refused],
    is_apart: bool,
}

/// What came of it.
pub(super) struct Outcome {
    roots: Vec<RootPlan>,
    pub(super) view: KeepView,
    /// What has to be left out besides.
    pub(super) refused: Vec<Refused>,
}

impl Round<'_> {
    fn run(&self) -> Result<Outcome> {
        let first = &self.lanes[0];
        let view = KeepView {
            lane: first.view.clone(),
            with: self.lanes[1..].iter().map(|kept| kept.view.clone()).collect(),
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
        let mut outcome = Outcome { roots: Vec::new(), view, refused: Vec::new() };
        let mut paths: Vec<&Path> = Vec::new();
        for root in self.lanes.iter().flat_map(|kept| &kept.lane.roots) {
            if !paths.contains(&root.view.path.as_path()) {
                paths.push(&root.view.path);
            }
        }
        let mut unmatched = Unmatched::default();
        for path in paths {
            self.root(path, &mut outcome, &mut unmatched)?;
        }
        unmatched.refuse()?;
        Ok(outcome)
    }

    fn is_one(&self) -> bool {
        self.lanes.len() == 1
    }

    pub(super) fn name(&self, lane: usize) -> Option<String> {
        (!self.is_one()).then(|| self.lanes[lane].view.name.clone())
    }

    fn root(&self, path: &Path, outcome: &mut Outcome, unmatched: &mut Unmatched) -> Result<()> {
        let names = self.lanes.iter().map(|kept| kept.view.name.clone()).collect();
        let (origin, set_back) = if self.is_apart {
            let lanes = self.lanes.iter().zip(self.grounds);
            let lanes = lanes.filter_map(|(kept, ground)| Some((ground, &kept.lane, kept.root_at(path)?)));
            let (tree, set_back) = merging::as_started(path, lanes)?;
            (Rc::new(tree) as Rc<dyn Source>, set_back)
        } else {
            (Rc::new(merging::origin_at(path)?) as Rc<dyn Source>, BTreeSet::new())
        };
        let base = (!set_back.is_empty()).then(|| Rc::clone(&origin));
        let mut over = Over::new(Rc::clone(&origin), set_back, names);
        let mut planned: Vec<(usize, usize, LanePlan, Told)> = Vec::new();
        for (at, kept) in self.lanes.iter().enumerate() {
            let Some(index) = kept.root_at(path) else { continue };
            let refused: Vec<&Refused> =
                self.refused.iter().filter(|refused| refused.lane == at && refused.root == index).collect();
            let job = Job {
                kept,
                index,
                ground: &self.grounds[at],
                over: Some(&over).filter(|over| !over.is_nothing()),
                stands: Rc::clone(&over.tree),
                request: self.request,
                refused: &refused,
            };
            let (plan, mut told) = lane_plan::plan_root(&job)?;
            let alone = self.conflicts_alone(&job, &over, &told)?;
            unmatched.of_lane(at, path, std::mem::take(&mut told.unmatched));
            self.conflicts((at, index), path, &over, (&told, &alone), outcome);
            if !self.is_one() {
                over.add(at, &plan)?;
            }
            planned.push((at, index, plan, told));
        }
        let root = if self.is_one() {
            planned.pop().map(|(at, index, plan, told)| self.alone(path, (at, index), plan, told, outcome))
        } else {
            Some(self.together(path, &*origin, over, planned, outcome)?)
        };
        outcome.roots.extend(root.map(|root| RootPlan { base, ..root }));
        Ok(())
    }

    /// The paths at which a lane does not go together with the original, whatever the lanes before bring.
    fn conflicts_alone(&self, job: &Job<'_>, over: &Over, told: &Told) -> Result<BTreeSet<TreePath>> {
        let about =
            |conflict: &Conflict, path: &TreePath| conflict.path == *path || conflict.about.contains(path);
        let is_both = |conflict: &Conflict| {
            !over.at(conflict.about.iter().chain([&conflict.path])).is_empty()
                && job.kept.drift.iter().any(|at| about(conflict, &at.path))
        };
        if self.is_apart || job.over.is_none() || !told.conflicts.iter().any(is_both) {
            return Ok(BTreeSet::new());
        }
        let (over, stands) = (None, Rc::new(merging::origin_at(&job.kept.deltas[job.index].root)?));
        let (_, told) = lane_plan::plan_root(&Job { over, stands, ..*job })?;
        Ok(told.conflicts.into_iter().map(|conflict| conflict.path).collect())
    }

    /// What does not go together, and what that leaves out of the lanes before.
    fn conflicts(
        &self,
        (at, index): (usize, usize),
        root: &Path,
        over: &Over,
        (told, alone): (&Told, &BTreeSet<TreePath>),
        outcome: &mut Outcome,
    ) {
        for conflict in &told.conflicts {
            let about = || conflict.about.iter().chain([&conflict.path]);
            let others = if alone.contains(&conflict.path) { Vec::new() } else { over.at(about()) };
            if conflict.settled.is_none() {
                let detail = || conflict.clash.word().to_owned();
                let refuse = |lane, root, path: &TreePath| Refused {
                    lane,
                    root,
                    path: path.clone(),
                    why: LeftOutWhy::Conflict,
                    detail: detail(),
                };
                for brought in over.brought.iter().filter(|brought| others.contains(&brought.lane)) {
                    let Some(index) = self.lanes[brought.lane].root_at(root) else { continue };
                    let is_it = |side: &Option<review::flat::Side>| {
                        side.as_ref().is_some_and(|(path, _)| about().any(|at| at == path))
                    };
                    for pair in brought.pairs.iter().filter(|pair| is_it(&pair.old) || is_it(&pair.new)) {
                        let sides = [&pair.old, &pair.new].into_iter().flatten();
                        outcome.refused.extend(sides.map(|(path, _)| refuse(brought.lane, index, path)));
                    }
                }
                if !others.is_empty() {
                    outcome.refused.push(refuse(at, index, &conflict.path));
                    // Of a rename, the place that it came from.
                    outcome.refused.extend(conflict.about.first().map(|from| refuse(at, index, from)));
                }
            }
            outcome.view.conflicts.push(ConflictView {
                root: root.to_owned(),
                path: conflict.path.clone(),
                clash: conflict.clash.clone(),
                settled: conflict.settled,
                lane: self.name(at),
                with: others.into_iter().map(|lane| self.lanes[lane].view.name.clone()).collect(),
                branch: None,
            });
        }
    }

    /// The plan of one lane is the plan.
    fn alone(
        &self,
        path: &Path,
        (lane, index): (usize, usize),
        planned: LanePlan,
        told: Told,
        outcome: &mut Outcome,
    ) -> RootPlan {
        let LanePlan { plan, inside, own, joined, parts, .. } = planned;
        let view = &mut outcome.view;
        view.git_internal += told.git_internal;
        view.bytes += plan.bytes_needed;
        view.steps.extend(told.steps);
        view.left_out.extend(told.left_out);
        view.set_id_dropped.extend(told.set_id_dropped.into_iter().map(|at| (path.to_owned(), at)));
        view.merged.extend(told.merged);
        let share = Share {
            lane,
            index,
            touched: touched(&plan.steps),
            whole: plan.steps.iter().filter_map(moved_whole).collect(),
            steps: plan.steps.clone(),
            joined,
            parts,
            own,
        };
        RootPlan { path: path.to_owned(), plan, inside, base: None, shares: vec![share] }
    }
}

/// The directory that came with all that is in it.
pub(super) fn moved_whole(step: &Step) -> Option<TreePath> {
    match step {
        Step::MoveDir { to, .. } => Some(to.clone()),
        _ => None,
    }
}

/// Every path of the origin that the steps change.
fn touched(steps: &[Step]) -> Vec<TreePath> {
    let mut paths = Vec::new();
    for step in steps {
        paths.push(step.path().clone());
        if let Step::MoveDir { from, .. } | Step::Move { from, .. } = step {
            paths.push(from.clone());
        }
    }
    paths
}

/// Paths that were asked for, at which no lane did anything.
#[derive(Default)]
struct Unmatched(BTreeMap<usize, BTreeSet<(PathBuf, TreePath)>>);

impl Unmatched {
    fn of_lane(&mut self, lane: usize, root: &Path, paths: Vec<TreePath>) {
        let found = self.0.entry(lane).or_default();
        found.extend(paths.into_iter().map(|path| (root.to_owned(), path)));
    }

    fn refuse(self) -> Result<()> {
        let mut all = self.0.into_values();
        let Some(mut missing) = all.next() else { return Ok(()) };
        for other in all {
            missing.retain(|at| other.contains(at));
        }
        match missing.into_iter().next() {
            Some((_, path)) => Err(EngineError::NothingThere { path }),
            None => Ok(()),
        }
    }
}
