//! What is planned of one lane in one root, over what stands there: the original, or the original with what the lanes
//! before it bring.
//!
//! Invariant: what was ticked is what is planned; of a live lane the content that was looked at is held before it is
//! planned.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use review::choice::{Choice, Take};
use review::chosen::Chosen;
use review::composed::Composed;
use review::plan::{KeepPlan, Skipped, Step, Why, Wish};
use review::threeway::{Conflict, Joined};
use tree::source::Xattr;
use tree::{Entry, Source, TreePath};

use super::gathered::KeptLane;
use super::over::Over;
use super::{KeepRequest, LeftOut, LeftOutWhy, Refused, StepView};
use crate::error::{EngineError, Result};
use crate::merging::{self, Ground, MergedView, Parts};
use crate::picking::{self, RootWish};

/// The plan of one lane for one root.
pub(super) struct LanePlan {
    /// Its steps, on what stands.
    pub(super) plan: KeepPlan,
    /// The tree that it is carried out from.
    pub(super) inside: Rc<Composed<'static>>,
    /// The lane's own tree in it.
    pub(super) own: Rc<Own>,
    pub(super) joined: Vec<Joined>,
    pub(super) parts: Parts,
    /// Renamed directories: from, to.
    pub(super) moved_dirs: Vec<(TreePath, TreePath)>,
}

/// A lane's own tree, which may be put elsewhere before it is kept from.
pub(super) struct Own(RefCell<Rc<dyn Source>>);

impl Own {
    fn new(tree: Box<dyn Source>) -> Own {
        Own(RefCell::new(Rc::from(tree)))
    }

    /// The same content is read from there from now on.
    pub(super) fn stand_on(&self, tree: Box<dyn Source>) {
        *self.0.borrow_mut() = Rc::from(tree);
    }

    fn now(&self) -> Rc<dyn Source> {
        Rc::clone(&self.0.borrow())
    }
}

impl Source for Own {
    fn entry(&self, path: &TreePath) -> kernel::Result<Option<Entry>> {
        self.now().entry(path)
    }

    fn list(&self, path: &TreePath) -> kernel::Result<Vec<Vec<u8>>> {
        self.now().list(path)
    }

    fn open(&self, path: &TreePath) -> kernel::Result<OwnedFd> {
        self.now().open(path)
    }

    fn xattrs(&self, path: &TreePath) -> kernel::Result<Vec<Xattr>> {
        self.now().xattrs(path)
    }

    fn list_entries(&self, path: &TreePath) -> kernel::Result<Vec<(Vec<u8>, Entry)>> {
        self.now().list_entries(path)
    }

    fn entries_in(&self, dir: &TreePath, names: &[&[u8]]) -> Vec<kernel::Result<Option<Entry>>> {
        self.now().entries_in(dir, names)
    }
}

/// What there is to be told of it.
#[derive(Default)]
pub(super) struct Told {
    pub(super) steps: Vec<StepView>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) git_internal: u64,
    pub(super) set_id_dropped: Vec<TreePath>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) merged: Vec<MergedView>,
    /// Asked paths at which there is nothing.
    pub(super) unmatched: Vec<TreePath>,
}

/// What is to be planned.
pub(super) struct Job<'j> {
    pub(super) kept: &'j KeptLane,
    pub(super) index: usize,
    pub(super) ground: &'j Ground,
    /// What the lanes before it bring, where they bring anything.
    pub(super) over: Option<&'j Over>,
    /// What the changes are brought to.
    pub(super) stands: Rc<dyn Source>,
    pub(super) request: &'j KeepRequest,
    /// What is kept clear of.
    pub(super) refused: &'j [&'j Refused],
}

/// Plans.
pub(super) fn plan_root(job: &Job<'_>) -> Result<(LanePlan, Told)> {
    let (kept, request, mut told) = (job.kept, job.request, Told::default());
    let (root, delta) = (&kept.lane.roots[job.index], &kept.deltas[job.index]);
    let own = Rc::new(Own::new(root.workspace.lane_tree()?));
    let inside = Composed::new(Box::new(Rc::clone(&own)), Box::new(Rc::clone(&job.stands)));
    let Some(wish) = kept.wishes[job.index].clone() else {
        // What was asked for lies in other roots.
        return Ok((LanePlan::nothing(inside, own), told));
    };
    let suspect = kept.is_everything && kept.view.base.other_boot;
    let place = kept.lane.home.dir().fd.as_fd();
    let base = root.workspace.base_tree()?;
    let (mut chosen, parts) = match wish {
        RootWish::Paths(selection) => {
            (Chosen { set: delta.set.clone(), selection, tree: inside }, BTreeSet::new())
        }
        RootWish::Choice(choice) => {
            let parts = part_paths(&delta.set, &choice);
            (review::chosen::choose(&delta.set, &*base, inside, &choice, place)?, parts)
        }
    };
    // Only who is inside could change it between this look and the keep.
    if let Some(seen) = kept.seen.as_ref().filter(|_| kept.is_live) {
        let is_part = |path: &TreePath| parts.contains(path);
        let moved = picking::hold(&delta.root, &mut chosen, &*base, place, seen, &is_part)?;
        if !moved.is_empty() {
            return Err(EngineError::MovedOn { name: kept.view.name.clone(), moved });
        }
    }
    let Chosen { set, selection, tree: mut inside } = chosen;
    let noted = merging::parts(&set, &parts, &inside)?;
    let together =
        job.ground.resolve(&kept.lane, root, (&set, &*base), &mut inside, (request.conflicts, job.over))?;
    let resolved = together.resolved;
    let followed = resolved.followed.iter().filter(|(lane_path, _)| selection.covers(lane_path));
    let followed = followed.map(|(_, place)| place.clone()).collect();
    let selection = selection.also(followed);
    let mut stopped = resolved.stopped;
    // The plan keeps clear of them as of what has drifted.
    stopped.extend(job.refused.iter().map(|at| {
        let why = Why::Drifted(String::new());
        review::plan::Drifted { path: at.path.clone(), why }
    }));
    let wish = Wish { set: &resolved.set, selection: &selection, drift: &stopped, set_id: request.set_id };
    let against = together.against.as_deref().unwrap_or(&*base);
    let mut plan = review::plan::plan(&wish, against, &inside)?;
    let known = || resolved.settled.iter().chain(resolved.followed.keys());
    plan.unmatched.retain(|asked| !known().any(|path| path.starts_with(asked)));
    told.unmatched = std::mem::take(&mut plan.unmatched);
    told.git_internal = delta.git_internal;
    if suspect {
        // A restart may have cut off what the lane wrote last: each path has to be named.
        let whole = plan.steps.drain(..).map(|step| LeftOut {
            root: delta.root.clone(),
            path: step.path().clone(),
            why: LeftOutWhy::Suspect,
            detail: String::new(),
            lane: None,
        });
        told.left_out.extend(whole);
        plan.bytes_needed = 0;
    }
    told.steps.extend(plan.steps.iter().map(|step| StepView {
        guarded: plan.guarded.get(step.path()).cloned(),
        ..step_view(&delta.root, step, &parts)
    }));
    told.set_id_dropped.clone_from(&plan.set_id_dropped);
    for skipped in &plan.skipped {
        match left_out(&delta.root, skipped) {
            Some(mut left) => {
                let is_it = |at: &&&Refused| left.why == LeftOutWhy::Drifted && at.path == left.path;
                if let Some(at) = job.refused.iter().find(is_it) {
                    (left.why, left.detail) = (at.why, at.detail.clone());
                }
                told.left_out.push(left);
            }
            None => told.git_internal += 1,
        }
    }
    told.conflicts = resolved.conflicts;
    told.conflicts.retain(|at| selection.covers(&at.path));
    let done: BTreeSet<&TreePath> = plan.steps.iter().map(Step::path).collect();
    let joined: Vec<Joined> = resolved.joined.into_iter().filter(|at| done.contains(&at.path)).collect();
    told.merged.extend(joined.iter().map(|at| MergedView {
        root: delta.root.clone(),
        path: at.path.clone(),
        lane_path: at.lane_path.clone(),
        content: at.content,
    }));
    let moved_dirs = review::after::renamed_dirs(&resolved.set);
    Ok((LanePlan { plan, inside: Rc::new(inside), own, joined, parts: noted, moved_dirs }, told))
}

impl LanePlan {
    fn nothing(inside: Composed<'static>, own: Rc<Own>) -> LanePlan {
        let (plan, joined, parts) = (KeepPlan::default(), Vec::new(), BTreeMap::new());
        LanePlan { plan, inside: Rc::new(inside), own, joined, parts, moved_dirs: Vec::new() }
    }
}

/// The paths, old and new, of what is taken in parts.
fn part_paths(set: &tree::ChangeSet, choice: &Choice) -> BTreeSet<TreePath> {
    let is_part = |change: &&tree::Change| matches!(choice.files.get(&change.path), Some(Take::Part(_)));
    let both = |change: &tree::Change| [change.path.clone(), change.old_path().clone()];
    set.changes.iter().filter(is_part).flat_map(both).collect()
}

pub(super) fn step_view(root: &Path, step: &Step, parts: &BTreeSet<TreePath>) -> StepView {
    let (what, from) = match step {
        Step::MoveDir { from, .. } | Step::Move { from, .. } => ("rename", Some(from.clone())),
        Step::Put { old: None, .. } => ("add", None),
        Step::Put { old: Some(old), new, .. } if old.kind != new.kind => ("retype", None),
        Step::Put { same_content: true, .. } => ("mode", None),
        Step::Put { .. } => ("modify", None),
        Step::Meta { .. } => ("mode", None),
        Step::Delete { .. } => ("delete", None),
    };
    let (part, path) = (parts.contains(step.path()), step.path().clone());
    StepView { root: root.to_owned(), path, what, from, part, guarded: None, lanes: Vec::new() }
}

pub(super) fn left_out(root: &Path, skipped: &Skipped) -> Option<LeftOut> {
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
    Some(LeftOut { root: root.to_owned(), path: skipped.path.clone(), why, detail, lane: None })
}
