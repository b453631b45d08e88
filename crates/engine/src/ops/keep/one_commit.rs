//! One commit of what is kept: planned until everything in the plan can be said on top of the branch.
//!
//! Invariant: what is left out of the commit is left out of the files that are kept with it, too.

use std::collections::BTreeMap;

use review::merge::Names;
use tree::TreePath;
use workspace::git::repository::Items;

use super::commit::{Bench, CommitRequest, PreparedCommit, Shape, Target, finish, short};
use super::gathered::{self, KeptLane};
use super::ignored::ignored;
use super::settle::{self, Ground, Met};
use super::{KeepRequest, LeftOutWhy, PreparedKeep, Refused};
use crate::engine::Engine;
use crate::error::Result;
use crate::monitor::Monitor;

/// Plans it.
pub(super) fn one_commit(
    engine: &Engine,
    request: &KeepRequest,
    wish: &CommitRequest,
    bench: Bench,
    branch: Vec<u8>,
    parent: Option<String>,
    monitor: &mut dyn Monitor,
) -> Result<PreparedCommit> {
    let tip = match &parent {
        Some(parent) => bench.repository.tree(parent)?,
        None => Items::new(),
    };
    let mut refused: Vec<Refused> = Vec::new();
    let mut lanes = gathered::gather(engine, request, monitor)?;
    // Without the files, what they are by now has nothing to do with it.
    let is_apart = wish.target != Target::Current;
    let was = match &lanes[0].lane.row.git_head {
        Some(head) => match bench.repository.commit_of(head.as_bytes())? {
            Some(commit) => bench.repository.tree(&commit)?,
            None => Items::new(),
        },
        None => Items::new(),
    };
    let mut stopped: Vec<Met> = Vec::new();
    let asked = asked(engine, request, &lanes)?;
    loop {
        let names =
            Names { ours: [b"branch ".as_slice(), short(&branch)].concat(), theirs: names_of(&lanes) };
        let mut keep = PreparedKeep::plan(engine, lanes, request, (&refused, is_apart))?;
        let mut found = refuse_further_roots(&keep);
        let planned = &keep.roots[0];
        let base = keep.base_of(planned)?;
        let pairs = review::outcome::pairs(&planned.plan, &*base)?;
        let settled = {
            let mut blobs = bench.scratch.blobs()?;
            let mut ground = Ground {
                tip: &tip,
                blobs: &mut blobs,
                base: &*base,
                lane: &*planned.inside,
                nested: BTreeMap::new(),
                was: &was,
                how: request.conflicts,
                names: &names,
            };
            settle::settle(&pairs, &mut ground)?
        };
        for (path, why, detail) in &settled.refused {
            found.extend(keep.refuse(0, path, *why, detail));
        }
        // What was ticked one by one was named.
        let is_ticked = request.selection.is_some()
            || request.with.iter().any(|with| with.selection.is_some())
            || !request.hunks.is_empty();
        let untracked = if is_ticked { &[][..] } else { &settled.untracked };
        for path in ignored(&bench, &pairs, untracked, &asked, &*base, &*planned.inside)? {
            found.extend(keep.refuse(0, &path, LeftOutWhy::Ignored, ""));
        }
        found.retain(|at| !refused.contains(at));
        if found.is_empty() {
            keep.hold(engine)?;
            let mut settled = settled;
            settled.conflicts.extend(stopped);
            let shape = Shape { wish, branch, parent, tip };
            return finish(keep, &pairs, settled, bench, shape);
        }
        // What is left out from here on is not met again.
        stopped.extend(settled.conflicts.into_iter().filter(|met| met.settled.is_none()));
        refused.extend(found);
        lanes = keep.lanes;
    }
}

fn names_of(lanes: &[KeptLane]) -> Vec<u8> {
    let names: Vec<&str> = lanes.iter().map(|kept| kept.view.name.as_str()).collect();
    let word = if names.len() == 1 { "lane" } else { "lanes" };
    format!("{word} {}", names.join(", ")).into_bytes()
}

/// The paths of the repository that were asked for, whatever lane has them.
fn asked(engine: &Engine, request: &KeepRequest, lanes: &[KeptLane]) -> Result<Vec<TreePath>> {
    let dir = engine.project(&request.dir)?.asked;
    let first = &lanes[0].lane;
    let located = request.paths.iter().map(|path| first.locate(&crate::lane::lexical(&dir, path)));
    Ok(located.flatten().filter(|(root, _)| *root == 0).map(|(_, path)| path).collect())
}

/// Changes of other roots are no part of this repository.
fn refuse_further_roots(keep: &PreparedKeep) -> Vec<Refused> {
    let further = keep.roots.iter().enumerate().skip(1);
    let steps = further.flat_map(|(root, planned)| planned.plan.steps.iter().map(move |step| (root, step)));
    let detail = "it lies in another root of the lane";
    steps.flat_map(|(root, step)| keep.refuse(root, step.path(), LeftOutWhy::CannotCarry, detail)).collect()
}

impl PreparedKeep {
    /// A path of a root of the plan as what each lane is to leave out.
    fn refuse(&self, root: usize, path: &TreePath, why: LeftOutWhy, detail: &str) -> Vec<Refused> {
        let shares = self.roots[root].shares.iter();
        let refused = shares.map(|share| Refused {
            lane: share.lane,
            root: share.index,
            path: path.clone(),
            why,
            detail: detail.to_owned(),
        });
        refused.collect()
    }
}
