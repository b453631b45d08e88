//! Carrying a plan out: everything that has to be known or done in the lanes first, all roots at once, and what is the
//! lanes' base afterwards.
//!
//! Invariant: what is noted in a lane is noted before anything is written, so that a keep that was interrupted is told from
//! one that was not by what stands in the original.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use review::apply::{self, Faults, Options, Places};
use serde_json::json;
use tree::TreePath;
use tree::dir::DirTree;
use workspace::manifest::{self, Advance, Manifest};
use workspace::{Kept, Took};

use super::gathered::KeptLane;
use super::several::{RootPlan, Share};
use super::{KeepView, PreparedKeep};
use crate::clock;
use crate::engine::{Engine, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::keeping;
use crate::merging;
use crate::monitor::{Event, Monitor};

impl PreparedKeep {
    /// As [`PreparedKeep::execute`], with somebody who is told of each step and can still turn it all back.
    pub(super) fn execute_at(
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
        // The first one leads: by it the next command finds what was interrupted.
        let leads = |at: usize, planned: &RootPlan| at == 0 || !planned.plan.steps.is_empty();
        let mut ready = Vec::new();
        for (_, planned) in plans.iter_mut().enumerate().filter(|(at, planned)| leads(*at, planned)) {
            ready.push(self.make_ready(engine, planned, &id)?);
        }
        let lanes: Vec<_> = self.lanes.iter().map(|kept| &kept.view).collect();
        let about = keeping::about(&lanes, self.view.steps.len());
        let with_plans = plans.iter().enumerate().filter(|(at, planned)| leads(*at, planned));
        let roots: Vec<apply::Root<'_>> = with_plans
            .zip(&ready)
            .map(|((_, planned), ready)| apply::Root {
                plan: &planned.plan,
                origin: ready.origin.fd(),
                path: &planned.path,
                lane: &*planned.inside,
                places: Places { staging: ready.staging.as_deref(), journal: &ready.journal },
            })
            .collect();
        let naming = apply::Naming { id: &id, about: &about };
        let mut follow = |settled: &apply::Settled| match ready.iter().find(|one| one.is(settled)) {
            Some(ready) if settled.is_done => ready.advance(&self.lanes, monitor),
            _ => keeping::base::follow(engine, settled, monitor),
        };
        let options = Options::default();
        let first = &self.view.lane;
        let reports = match apply::execute_all(&roots, Some(naming), &options, gate, &mut follow) {
            Ok(reports) => reports,
            Err(error) => {
                let outcome = error.to_string();
                let failed = ledger::NewOperation { outcome, ..done("keep", &first.id, json!({})) };
                engine.ledger()?.insert_op(&failed)?;
                return Err(error.into());
            }
        };
        for (at, why) in reports.iter().flat_map(|report| &report.not_carried) {
            monitor.event(Event::Warning(&format!("{}: {why}", at.as_path().display())));
        }
        let mut summary = json!({ "name": first.name, "steps": self.view.steps.len(), "left_out": self.view.left_out.len() });
        if self.lanes.len() > 1 {
            summary["lanes"] = self.lanes.iter().map(|kept| kept.view.name.as_str()).collect();
        }
        // Whoever looks at one of the lanes finds it there; it is one keep all the same.
        engine.ledger()?.act(|act| -> ledger::Result<()> {
            for kept in &self.lanes {
                let undo = Some(json!({ "keep": id }));
                act.insert_op(&ledger::NewOperation {
                    undo,
                    ..done("keep", &kept.view.id, summary.clone())
                })?;
            }
            Ok(())
        })?;
        self.view.id = Some(id);
        Ok(self.view)
    }

    /// Everything that has to be known, or done in the lanes, before a root is written.
    fn make_ready(&self, engine: &Engine, planned: &mut RootPlan, id: &str) -> Result<Ready> {
        let path = &planned.path;
        let origin = merging::origin_at(path)?;
        let (journal, staging) = (keeping::journal_dir(engine, path)?, keeping::staging(engine, path)?);
        let mut ready = Ready { path: path.clone(), origin, journal, staging, lanes: Vec::new() };
        if planned.plan.steps.is_empty() {
            return Ok(ready);
        }
        let mut all: Vec<TreePath> =
            planned.shares.iter().flat_map(|share| &share.touched).cloned().collect();
        all.sort();
        all.dedup();
        let is_one = self.lanes.len() == 1;
        let mut moved = false;
        for share in planned.shares.iter().filter(|share| !share.steps.is_empty()) {
            let (kept, root) = self.root_of(share);
            let home = kept.lane.home.dir();
            let before = base_record(kept, share.index, &ready.origin)?;
            // Asked before anything is done: that changes a file under its other names too.
            let also = before.other_names(&share.touched, &ready.origin)?;
            if kept.lock.is_some() {
                kept.lane.home.forget_links()?;
            }
            let was_stacked = root.workspace.is_stacked()?;
            if !root.workspace.stand_alone(&all, kept.lock.is_some())? {
                return Err(EngineError::RestsOnMoved { name: kept.view.name.clone() });
            }
            if was_stacked && !root.workspace.is_stacked()? {
                share.own.stand_on(root.workspace.lane_tree()?);
                moved = true;
            }
            let paths: Vec<TreePath> = share.touched.iter().chain(&also).cloned().collect();
            before.set_aside(&paths, home, &keeping::base::aside_name(id, share.index))?;
            let took = Took { paths: share.touched.clone(), whole: share.whole.clone() };
            if !is_one {
                // Where it is interrupted, nothing else says which of the paths are this lane's.
                took.save(home, id, share.index)?;
            }
            // Noted before it is done: where it is not done, what stands in the original says so.
            let mut noted = Kept::load(home, share.index)?;
            // What an interrupted keep noted and never did would count as done once times are others.
            merging::forget_undone(&share.touched, &before, &ready.origin, &mut noted)?;
            noted.set_aside(home, id, share.index)?;
            let own = root.workspace.lane_tree()?;
            let stands = if is_one { None } else { Some(&ready.origin as &dyn tree::Source) };
            merging::note(&share.steps, &share.joined, &share.parts, (&*own, stands), &mut noted)?;
            noted.save(home, share.index)?;
            let joined = noted.joined();
            let (lane, index) = (share.lane, share.index);
            ready.lanes.push(ReadyLane { lane, index, before, took, also, joined });
        }
        if moved {
            let doing = || format!("look at {}", self.view.lane.name);
            planned.plan.moved_to(&*planned.inside).doing(doing)?;
        }
        Ok(ready)
    }

    pub(super) fn root_of(&self, share: &Share) -> (&KeptLane, &crate::lane::OpenRoot) {
        let kept = &self.lanes[share.lane];
        (kept, &kept.lane.roots[share.index])
    }
}

/// What the base was, walked now where no walk has ended yet: after the keep it could not be told any more.
fn base_record(kept: &KeptLane, index: usize, origin: &DirTree) -> Result<Manifest> {
    let (home, root) = (kept.lane.home.dir(), &kept.lane.roots[index]);
    if let Some(manifest) = Manifest::load(home, index)? {
        // What is damaged is found before anything is kept, and not after.
        manifest.check()?;
        return Ok(manifest);
    }
    let since = workspace::base::read_stamp(&kept.lane.home)?.time;
    let options = manifest::RecordOptions { since: Some(since), skip: &root.skipped, ..Default::default() };
    let name = manifest::file_name(index);
    manifest::record(origin.fd(), &options, home, &name, &AtomicBool::new(false))?;
    let missing = || EngineError::Damaged {
        name: kept.view.name.clone(),
        dir: home.path.clone(),
        why: format!("{name} was written and is not there"),
    };
    Manifest::load(home, index)?.ok_or_else(missing)
}

/// One root right before it is written.
struct Ready {
    path: PathBuf,
    origin: DirTree,
    journal: PathBuf,
    staging: Option<PathBuf>,
    /// The lanes that something of is kept in it.
    lanes: Vec<ReadyLane>,
}

/// What one lane has in it.
struct ReadyLane {
    lane: usize,
    index: usize,
    /// What its base was.
    before: Manifest,
    took: Took,
    also: Vec<TreePath>,
    /// Where the original will hold more than the lane: what the lane has is the base there.
    joined: Vec<TreePath>,
}

impl Ready {
    fn is(&self, settled: &apply::Settled) -> bool {
        self.path == settled.origin
    }

    /// What was kept is the lanes' base from here on.
    fn advance(&self, lanes: &[KeptLane], monitor: &mut dyn Monitor) -> bool {
        let mut all = true;
        for one in &self.lanes {
            let Took { paths, whole } = &one.took;
            let advance = Advance { paths, whole, also: &one.also, except: &one.joined };
            let home = lanes[one.lane].lane.home.dir();
            if let Err(error) = one.before.advance(&advance, &self.origin, home, one.index) {
                monitor.event(Event::Warning(&format!("the base of the lane: {error}")));
                all = false;
            }
        }
        all
    }
}
