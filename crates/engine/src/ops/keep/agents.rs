//! `keep --as branch`: the commits that were made in the lane, as a branch of the origin's repository.
//!
//! Invariant: the lane's repository is read as data alone. Its objects are read by git in a scratch repository of ours,
//! then checked in a second one, and only what passes reaches the origin. A commit that changes files which run by
//! themselves is taken only where each of them was named.

use std::collections::BTreeSet;

use kernel::lock::Lock;
use review::guard::Guard;
use review::plan::{KeepPlan, Step};
use tree::dir::DirTree;
use tree::{Change, ChangeKind, Source, TreePath};
use workspace::git::commit_tree::CommitTree;
use workspace::git::foreign::{self, Dir, Foreign};
use workspace::git::repository::Items;

use super::commit::{Bench, CommitView, PreparedCommit, Road, another_scratch, changed};
use super::settle::{Same, same};
use super::{KeepRequest, LeftOut, LeftOutWhy};
use crate::describe;
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::find;
use crate::lane::{self, OpenLane, OpenRoot, RootDelta};
use crate::leaks;
use crate::monitor::{Event, Monitor};
use crate::policy::{Gate, Planned};

/// What was found in the lane.
pub(super) enum Found {
    /// Commits that the origin has not.
    Commits(Box<PreparedCommit>),
    /// None, or only some of the changes are asked for.
    None(Box<Bench>),
}

/// Looks for commits of the lane's own.
pub(super) fn prepare(
    engine: &Engine,
    request: &KeepRequest,
    name: &str,
    bench: Bench,
    monitor: &mut dyn Monitor,
) -> Result<Found> {
    if !request.with.is_empty() {
        // What several lanes come to was committed by none of them.
        return Ok(Found::None(Box::new(bench)));
    }
    let project = engine.project(&request.dir)?;
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    let (view, base_head) = (describe::lane(engine, &row)?, row.git_head.clone());
    let is_live = row.state == ledger::LaneState::Live;
    let lane = lane::open(engine, row)?;
    let lock = if is_live { None } else { Some(lane.lock()?) };
    if !request.hunks.is_empty() || request.selection.is_some() {
        return Ok(Found::None(Box::new(bench)));
    }
    let Some(tip) = copy(&lane, &bench, monitor)? else { return Ok(Found::None(Box::new(bench))) };
    let commits = foreign::new_commits(&bench.scratch, &bench.repository, &tip.commit)?;
    if commits.is_empty() {
        return Ok(Found::None(Box::new(bench)));
    }
    let base = match &base_head {
        Some(head) => bench.repository.commit_of(head.as_bytes())?,
        None => None,
    };
    let old = match &base {
        Some(base) => bench.repository.tree(base)?,
        None => Items::new(),
    };
    let old = CommitTree::new(old, bench.scratch.blobs()?);
    let new = CommitTree::new(bench.scratch.tree(&tip.commit)?, bench.scratch.blobs()?);
    let files = changed(old.items(), new.items());
    leaks::check_commit(&lane, &new, files.iter().map(|file| &file.path))?;
    let guarded = guarded(&lane, &files, &old, &new)?;
    let asked = lane.locate_all(&project.asked, &request.paths)?;
    let names_one =
        |asked: &TreePath| guarded.iter().any(|(_, reason)| reason.iter().any(|path| path == asked));
    if !asked.iter().flatten().all(names_one) {
        // Paths choose: then it is one commit of what they choose.
        return Ok(Found::None(Box::new(bench)));
    }
    let named = |names: &[TreePath]| asked.iter().flatten().any(|asked| names.contains(asked));
    let unnamed: Vec<TreePath> =
        guarded.iter().filter(|(_, names)| !named(names)).map(|(path, _)| path.clone()).collect();
    if !unnamed.is_empty() {
        return Err(EngineError::GuardedCommits { lane: view.name, branch: name.to_owned(), paths: unnamed });
    }
    let deltas = lane.changes()?;
    let left_out = uncommitted(&lane, &deltas[0], &new, &bench)?;
    let rules = Rules::hold(engine, lane, lock, &deltas, as_plan(&files, &old, &new)?)?;
    let checked = another_scratch(engine, &bench.repository)?;
    let view = CommitView {
        lane: view,
        with: Vec::new(),
        branch: [b"refs/heads/", name.as_bytes()].concat(),
        commit: Some(tip.commit),
        parent: base,
        message: Vec::new(),
        files,
        commits,
        other_branches: tip.others,
        left_out,
        cannot_carry: Vec::new(),
        notes: Vec::new(),
        conflicts: Vec::new(),
        merged: Vec::new(),
        index_left: Vec::new(),
        index_failed: None,
        git_internal: 0,
        with_files: false,
        is_new_branch: true,
        undo: None,
    };
    let Bench { repository, scratch, who } = bench;
    let road = Road::Agents { checked, rules: Box::new(rules) };
    Ok(Found::Commits(Box::new(PreparedCommit { view, repository, scratch, who, road })))
}

/// The policy for commits that are brought over.
#[derive(Debug)]
pub(super) struct Rules {
    gate: Gate,
    lane: OpenLane,
    lock: Option<Lock>,
}

impl Rules {
    /// An error where the commits break a rule.
    fn hold(
        engine: &Engine,
        lane: OpenLane,
        lock: Option<Lock>,
        deltas: &[RootDelta],
        plan: KeepPlan,
    ) -> Result<Rules> {
        let gate = Gate::new(&lane, deltas)?;
        let path = &lane.roots[0].view.path;
        let origin = DirTree::open(path).doing(|| format!("open {}", path.display()))?;
        gate.plan(engine, &lane, &[Planned { root: path, plan: &plan, origin: &origin }])?;
        Ok(Rules { gate, lane, lock })
    }

    /// Runs the checks that the policy asks for.
    pub(super) fn check(&self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
        self.gate.pass(engine, &self.lane, self.lock.as_ref(), monitor)
    }
}

/// What the commits change, as a plan: for those who judge plans.
fn as_plan(files: &[super::commit::CommittedPath], old: &CommitTree, new: &CommitTree) -> Result<KeepPlan> {
    let mut plan = KeepPlan::default();
    for file in files {
        let path = file.path.clone();
        let doing = || format!("look at {}", path.as_path().display());
        let (was, is) = (old.entry(&path).doing(doing)?, new.entry(&path).doing(doing)?);
        plan.steps.push(match (was, is) {
            (old, Some(new)) => Step::Put { path, old, new, same_content: file.what == "mode" },
            (Some(old), None) => Step::Delete { path, old },
            (None, None) => continue,
        });
    }
    Ok(plan)
}

/// Where the lane's work stands.
struct Tip {
    commit: String,
    /// Branches with commits that HEAD does not lead to.
    others: Vec<Vec<u8>>,
}

/// Copies what the lane has and the origin has not; `None` where its HEAD names nothing.
fn copy(lane: &OpenLane, bench: &Bench, monitor: &mut dyn Monitor) -> Result<Option<Tip>> {
    let (private, private_at) = located(lane, bench.repository.git_dir())?;
    let (common, common_at) = located(lane, bench.repository.common())?;
    let (private_tree, common_tree) = (private.workspace.lane_tree()?, common.workspace.lane_tree()?);
    let common_base = common.workspace.base_tree()?;
    let theirs = Foreign {
        git_dir: Dir { tree: &*private_tree, at: &private_at },
        common: Dir { tree: &*common_tree, at: &common_at },
    };
    let head = theirs.head()?;
    let Some(commit) = head.commit else { return Ok(None) };
    theirs.copy_objects(Dir { tree: &*common_base, at: &common_at }, &bench.scratch)?;
    let mut others = Vec::new();
    for (name, id) in theirs.branches()? {
        if Some(&name) == head.reference.as_ref() || id == commit {
            continue;
        }
        match foreign::new_commits(&bench.scratch, &bench.repository, &id) {
            Ok(new) if new.is_empty() => {}
            Ok(_) => others.push(name),
            Err(error) => monitor.event(Event::Warning(&format!(
                "a branch of the lane cannot be read: {}: {error}",
                name.escape_ascii()
            ))),
        }
    }
    Ok(Some(Tip { commit, others }))
}

/// The root of the lane in which a directory of the origin's stands, and where in it.
fn located<'l>(keep: &'l crate::lane::OpenLane, dir: &std::path::Path) -> Result<(&'l OpenRoot, TreePath)> {
    let (index, path) = keep.locate(dir)?;
    Ok((&keep.roots[index], path))
}

/// The files that run by themselves, each with the paths that name it.
fn guarded(
    lane: &OpenLane,
    files: &[super::commit::CommittedPath],
    old: &CommitTree,
    new: &CommitTree,
) -> Result<Vec<(TreePath, Vec<TreePath>)>> {
    let guard = Guard::new(&*lane.roots[0].workspace.base_tree()?)?;
    let doing = |path: &TreePath| format!("look at {}", path.as_path().display());
    let mut found = Vec::new();
    for file in files {
        let path = &file.path;
        let (was, is) = (old.entry(path).doing(|| doing(path))?, new.entry(path).doing(|| doing(path))?);
        let kind = match (&was, &is) {
            (None, _) => ChangeKind::Add,
            (_, None) => ChangeKind::Delete,
            (Some(was), Some(is)) if was.kind != is.kind => ChangeKind::Retype,
            _ if file.what == "mode" => ChangeKind::Mode,
            _ => ChangeKind::Modify,
        };
        let change = Change { path: path.clone(), kind, old: was, new: is };
        if let Some(reason) = guard.check(&change, new, old)? {
            found.push((path.clone(), std::iter::once(path.clone()).chain(reason.dir).collect()));
        }
    }
    Ok(found)
}

/// Changes of the lane that its last commit has not, but for what git ignores.
fn uncommitted(lane: &OpenLane, delta: &RootDelta, tip: &CommitTree, bench: &Bench) -> Result<Vec<LeftOut>> {
    let inside = lane.roots[0].workspace.lane_tree()?;
    let base = lane.roots[0].workspace.base_tree()?;
    let mut blobs = bench.scratch.blobs()?;
    let mut paths: BTreeSet<TreePath> = BTreeSet::new();
    for pair in review::flat::flatten(&delta.set, &*base, &*inside, &BTreeSet::new())? {
        let blob = |side: &&review::flat::Side| super::settle::is_blob(side);
        if let Some((path, entry)) = pair.new.as_ref().filter(blob) {
            let is_same = match tip.items().get(path) {
                Some(item) => same(&*inside, path, entry, item, &mut blobs)? != Same::No,
                None => false,
            };
            if !is_same {
                paths.insert(path.clone());
            }
        }
        let is_gone = pair.new.is_none() || pair.is_rename();
        if let Some((path, _)) = pair.old.as_ref().filter(blob).filter(|_| is_gone)
            && tip.items().contains_key(path)
            && inside.entry(path).unwrap_or(None).is_none()
        {
            paths.insert(path.clone());
        }
    }
    let untracked: Vec<TreePath> =
        paths.iter().filter(|path| !tip.items().contains_key(path)).cloned().collect();
    let ignored = super::ignored::ignored_in(bench, &untracked, &*inside)?;
    let root = delta.root.clone();
    let left = |path: TreePath| LeftOut {
        root: root.clone(),
        why: if ignored.contains(&path) { LeftOutWhy::Ignored } else { LeftOutWhy::Uncommitted },
        path,
        detail: String::new(),
        lane: None,
    };
    Ok(paths.into_iter().map(left).collect())
}
