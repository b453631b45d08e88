//! `keep`: plan what of a lane, or of several, goes into the origin, and do it.
//!
//! Invariant: what was planned is what is done; `review` looks again at both sides right before each
//! step. What was kept is the lane's base from then on, so that it is no drift the next time.

use std::cell::Cell;
use std::path::PathBuf;

use review::apply::NoFaults;
pub use review::table::Did;
use tree::TreePath;

use crate::engine::Engine;
use crate::error::Result;
pub use crate::merging::{Clash, ConflictView, Conflicts, MergedView};
use crate::monitor::Monitor;
use crate::policy::Planned;
use crate::selection::{Digest, Selection};

mod agents;
mod bring;
mod carry;
mod checked;
pub mod commit;
mod gathered;
mod ignored;
mod lane_plan;
mod one_commit;
mod over;
pub mod patch;
mod settle;
mod several;
mod together;
mod view;

pub use commit::{CommitRequest, CommitView, PreparedCommit, Target};
use gathered::KeptLane;
pub(crate) use over::Over;
pub use review::patch::Lost;
use several::RootPlan;
pub use view::{KeepView, LeftOut, LeftOutWhy, StepView};

/// Which lane, and what of it.
#[derive(Debug, Clone, Default)]
pub struct KeepRequest {
    /// A directory of the project; paths are relative to it.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Further lanes that are kept in one go with it, in the order in which they win or give way.
    pub with: Vec<With>,
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
    /// Answer what is kept as selections ([`PreparedKeep::selections`]).
    pub record: bool,
}

/// A further lane of a keep.
#[derive(Debug, Clone, Default)]
pub struct With {
    /// Its name or id.
    pub lane: String,
    /// What was ticked in it.
    pub selection: Option<Selection>,
    /// Only if its changes still have this digest.
    pub digest: Option<Digest>,
}

/// A path that is left out of the plan: a commit cannot take it, or another lane wants something else there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Number of the lane.
    lane: usize,
    /// Number of the root in it.
    root: usize,
    path: TreePath,
    why: LeftOutWhy,
    detail: String,
}

/// A plan that can be carried out once.
pub struct PreparedKeep {
    /// What it would do.
    pub view: KeepView,
    lanes: Vec<KeptLane>,
    roots: Vec<RootPlan>,
    /// When what several lanes come to was checked, in milliseconds since the epoch, and passed.
    checked: Cell<Option<i64>>,
}

impl std::fmt::Debug for PreparedKeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedKeep").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Makes the plan; writes nothing (but what an interrupted keep left is taken back first).
pub fn prepare(engine: &Engine, request: &KeepRequest, monitor: &mut dyn Monitor) -> Result<PreparedKeep> {
    let lanes = gathered::gather(engine, request, monitor)?;
    let mut prepared = PreparedKeep::plan(engine, lanes, request, (&[], false))?;
    prepared.hold(engine)?;
    Ok(prepared)
}

impl PreparedKeep {
    /// The plan for some lanes, without what is refused; whether it holds to the policy is still to be asked. One that is
    /// `apart` is made for what the lanes started from, whatever became of the files since: they are not to be written.
    fn plan(
        engine: &Engine,
        mut lanes: Vec<KeptLane>,
        request: &KeepRequest,
        (refused, is_apart): (&[Refused], bool),
    ) -> Result<PreparedKeep> {
        let (roots, view) = several::plan(engine, &mut lanes, request, (refused, is_apart))?;
        Ok(PreparedKeep { view, lanes, roots, checked: Cell::new(None) })
    }

    /// An error where it breaks a rule of the policy.
    fn hold(&mut self, engine: &Engine) -> Result<()> {
        let mut origins = Vec::with_capacity(self.roots.len());
        for root in &self.roots {
            origins.push(crate::merging::origin_at(&root.path)?);
        }
        let planned: Vec<Planned<'_>> = self
            .roots
            .iter()
            .zip(&origins)
            .map(|(root, origin)| Planned { root: &root.path, plan: &root.plan, origin })
            .collect();
        self.view.checks = match self.lanes.as_slice() {
            [only] => only.gate.plan(engine, &only.lane, &planned)?,
            several => checked::plan(several, &planned)?,
        };
        Ok(())
    }

    /// Runs the checks that the policy asks for and that have not passed on what is kept; an error where one does
    /// not pass. [`PreparedKeep::execute`] does it too; this is for who wants to know before he asks.
    pub fn check(&self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
        if self.view.steps.is_empty() {
            return Ok(());
        }
        match self.lanes.as_slice() {
            [only] => only.gate.pass(engine, &only.lane, only.lock.as_ref(), monitor),
            _ => self.check_together(engine, monitor),
        }
    }

    /// What will be kept, as a selection of each lane; only where [`KeepRequest::record`] asked for it.
    pub fn selections(&self) -> Vec<&Selection> {
        self.lanes.iter().filter_map(|kept| kept.selection.as_ref()).collect()
    }

    /// Carries it out: all of its steps in all roots, or none.
    pub fn execute(self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<KeepView> {
        self.execute_at(engine, &NoFaults, monitor)
    }
}
