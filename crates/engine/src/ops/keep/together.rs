//! What several lanes come to in a root: their plans as one plan on the original, and what of it is each lane's own.
//!
//! Invariant: carrying out the one plan is carrying out the lanes' plans one after the other. Where others touched the same,
//! the original will have more than the lane, and the lane's own content is noted as its base.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use review::after::{as_set, compose};
use review::flat::Pair;
use review::plan::{KeepPlan, Step, Why, Wish};
use review::select::{Exact, Selection};
use review::threeway::Joined;
use tree::{Source, TreePath};

use super::lane_plan::{self, LanePlan, Told};
use super::over::{Brought, Over};
use super::several::{Outcome, RootPlan, Round, Share, moved_whole};
use super::{LeftOut, Refused, StepView};
use crate::error::Result;

impl Round<'_> {
    /// What several lanes come to.
    pub(super) fn together(
        &self,
        path: &Path,
        origin: &dyn Source,
        over: Over,
        planned: Vec<(usize, usize, LanePlan, Told)>,
        outcome: &mut Outcome,
    ) -> Result<RootPlan> {
        let apart = apart(&over, &planned);
        let plan = self.composed(path, origin, &over, &planned, &apart, outcome)?;
        let mut guarded: BTreeMap<TreePath, String> = BTreeMap::new();
        let mut part: BTreeSet<TreePath> = BTreeSet::new();
        let mut by: BTreeMap<TreePath, BTreeSet<usize>> = BTreeMap::new();
        let mut shares = Vec::new();
        let view = &mut outcome.view;
        for (lane, index, planned, told) in planned {
            let later: Vec<&Brought> = over.brought.iter().filter(|brought| brought.lane > lane).collect();
            let place = |path: &TreePath| final_place(&later, path);
            view.git_internal += told.git_internal;
            let name = self.name(lane);
            view.left_out
                .extend(told.left_out.into_iter().map(|left| LeftOut { lane: name.clone(), ..left }));
            view.set_id_dropped.extend(told.set_id_dropped.into_iter().map(|at| (path.to_owned(), at)));
            view.merged.extend(told.merged.into_iter().filter(|merged| place(&merged.path).0.is_some()));
            for step in &told.steps {
                let Some(at) = place(&step.path).0 else { continue };
                guarded.extend(step.guarded.clone().map(|why| (at.clone(), why)));
                if step.part {
                    part.insert(at);
                }
            }
            let own = over.brought.iter().find(|brought| brought.lane == lane);
            for path in own.iter().flat_map(|brought| &brought.paths) {
                for at in place(path).0.into_iter().chain([path.clone()]) {
                    by.entry(at).or_default().insert(lane);
                }
            }
            shares.push(share((lane, index), planned, own, &later, &apart));
        }
        let names = |step: &Step| -> Vec<String> {
            let from = match step {
                Step::Move { from, .. } | Step::MoveDir { from, .. } => Some(from),
                _ => None,
            };
            let lanes: BTreeSet<usize> = std::iter::once(step.path())
                .chain(from)
                .filter_map(|path| by.get(path))
                .flatten()
                .copied()
                .collect();
            lanes.into_iter().map(|lane| self.lanes[lane].view.name.clone()).collect()
        };
        view.steps.extend(plan.steps.iter().map(|step| StepView {
            guarded: guarded.get(step.path()).cloned(),
            lanes: names(step),
            ..lane_plan::step_view(path, step, &part)
        }));
        view.merged.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
        view.merged.dedup();
        view.bytes += plan.bytes_needed;
        Ok(RootPlan { path: path.to_owned(), plan, inside: over.tree, base: None, shares })
    }

    /// The steps of all lanes as one plan on the original.
    fn composed(
        &self,
        root: &Path,
        origin: &dyn Source,
        over: &Over,
        planned: &[(usize, usize, LanePlan, Told)],
        apart: &[(TreePath, TreePath)],
        outcome: &mut Outcome,
    ) -> Result<KeepPlan> {
        let mut with_steps = planned.iter().filter(|(_, _, planned, _)| !planned.plan.steps.is_empty());
        if let (Some((_, _, only, _)), None) = (with_steps.next(), with_steps.next()) {
            return Ok(KeepPlan { skipped: Vec::new(), ..only.plan.clone() });
        }
        let is_apart =
            |path: &TreePath| apart.iter().any(|(from, to)| path.starts_with(from) || path.starts_with(to));
        let (mut steps, mut pairs): (Vec<Step>, Vec<Pair>) = (Vec::new(), Vec::new());
        for (_, _, planned, _) in planned {
            steps.extend(planned.plan.steps.iter().filter(|step| is_apart(step.path())).cloned());
        }
        for brought in &over.brought {
            let rest = brought.pairs.iter().filter(|pair| !is_apart(pair.path())).cloned();
            pairs = compose(pairs, &rest.collect::<Vec<_>>());
        }
        let set = as_set(pairs);
        let paths: BTreeSet<TreePath> =
            set.changes.iter().flat_map(|change| [change.path.clone(), change.old_path().clone()]).collect();
        // Each lane's own plan has judged it.
        let named = paths.iter().cloned().collect();
        let selection = Selection::Exact(Exact { own: paths.clone(), paths, named, ..Exact::default() });
        let wish = Wish { set: &set, selection: &selection, drift: &[], set_id: true };
        let plan = review::plan::plan(&wish, origin, &*over.tree)?;
        for skipped in
            plan.skipped.iter().filter(|skipped| !matches!(skipped.why, Why::GitInternal | Why::Owner))
        {
            let Some(left) = lane_plan::left_out(root, skipped) else { continue };
            for brought in over.brought.iter().filter(|brought| brought.paths.contains(&skipped.path)) {
                let Some(index) = self.lanes[brought.lane].root_at(root) else { continue };
                let (why, detail) = (left.why, left.detail.clone());
                outcome.refused.push(Refused {
                    lane: brought.lane,
                    root: index,
                    path: skipped.path.clone(),
                    why,
                    detail,
                });
            }
        }
        steps.extend(plan.steps);
        Ok(KeepPlan::of(steps))
    }
}

/// Renamed directories that arrive as such: those in which no other lane does anything.
fn apart(over: &Over, planned: &[(usize, usize, LanePlan, Told)]) -> Vec<(TreePath, TreePath)> {
    let mut found = Vec::new();
    for (lane, _, planned, _) in planned {
        for step in &planned.plan.steps {
            let Step::MoveDir { from, to, .. } = step else { continue };
            let meets = |path: &TreePath| {
                [from, to].into_iter().any(|dir| path.starts_with(dir) || dir.starts_with(path))
            };
            let stays_dir = |pair: &&Pair| match (&pair.old, &pair.new) {
                (None, Some((_, new))) => new.is_dir(),
                (Some((was, old)), Some((is, new))) => was == is && old.is_dir() && new.is_dir(),
                _ => false,
            };
            let others = over.brought.iter().filter(|brought| brought.lane != *lane);
            let met = others.flat_map(|brought| &brought.pairs).any(|pair| {
                let sides = [&pair.old, &pair.new].into_iter().flatten();
                let is_above = |path: &TreePath| path != from && path != to && stays_dir(&pair);
                sides.into_iter().any(|(path, _)| {
                    let below = [from, to].into_iter().any(|dir| path.starts_with(dir));
                    below || meets(path) && !is_above(path)
                })
            });
            if !met {
                found.push((from.clone(), to.clone()));
            }
        }
    }
    found
}

/// Where what a lane brought to `path` stands when the lanes after it are done, and whether any of them touched it.
fn final_place(later: &[&Brought], path: &TreePath) -> (Option<TreePath>, bool) {
    let (mut at, mut touched) = (path.clone(), false);
    for brought in later {
        let (place, did) = brought.place(&at);
        touched |= did;
        match place {
            Some(place) => at = place,
            None => return (None, touched),
        }
    }
    (Some(at), touched)
}

/// What is a lane's own of what several come to: where others touched the same, the original has more than the lane.
fn share(
    (lane, index): (usize, usize),
    planned: LanePlan,
    own: Option<&Brought>,
    later: &[&Brought],
    apart: &[(TreePath, TreePath)],
) -> Share {
    let LanePlan { plan, own: tree, mut joined, parts, .. } = planned;
    let mut steps = Vec::with_capacity(plan.steps.len());
    let mut touched: BTreeSet<TreePath> = own.map(|brought| brought.paths.clone()).unwrap_or_default();
    for step in plan.steps {
        if matches!(step, Step::Delete { .. } | Step::MoveDir { .. }) {
            steps.push(step);
            continue;
        }
        let path = step.path().clone();
        let (Some(place), is_met) = final_place(later, &path) else { continue };
        if is_met {
            let lane_path = match joined.iter().position(|at| at.path == path) {
                Some(at) => joined.remove(at).lane_path.unwrap_or_else(|| path.clone()),
                None => path.clone(),
            };
            let lane_path = (lane_path != place).then_some(lane_path);
            joined.push(Joined { path: place.clone(), lane_path, content: true });
            if place != path {
                // As of what the original has elsewhere: its own path is no place of the lane's any more, and its base stays.
                touched.remove(&path);
            }
            touched.insert(place.clone());
        }
        steps.push(step.at(place));
    }
    let is_apart = |to: &TreePath| apart.iter().any(|(_, apart)| apart == to);
    let whole = steps.iter().filter_map(moved_whole).filter(is_apart).collect();
    let touched = touched.into_iter().collect();
    Share { lane, index, steps, joined, parts, touched, whole, own: tree }
}
