//! Putting a plan into the origin, and taking it out again: the only code of the project that writes there.
//!
//! Three phases. Look: is there room, and is every target still what the plan saw? Stage: make all new
//! objects in a directory beside the origin and put them on disk. Move: publish the journal, then
//! rename, each target looked at right before and again after, what it displaced kept in the staging
//! directory. Only when all of it stands is the journal closed. What was displaced is thrown away then, or stays
//! with a record by which the keep can be undone: the same acts turned round, in the same three phases.
//!
//! Invariant: after any error, and after [`recover`] following a kill at any instant, the origin is as
//! it was before (names, inodes, content, modes, modification times) or as the plan says, in every root of the keep
//! alike, and no edit that somebody made meanwhile is lost. A name is never truncated or written in place.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use kernel::Errno;
use tree::{Source, TreePath};

use crate::error::{Error, Result};
use crate::plan::KeepPlan;

mod acts;
mod closing;
mod copies;
mod digest;
mod files;
mod flush;
mod journal;
mod look;
mod record;
mod recovery;
mod reverse;
mod site;
mod stage;
mod undo;
mod units;
mod work;
mod writer;

use journal::{Op, Peer};
pub use record::{Kept, Settle, Settled, forget, kept};
pub use recovery::{Outcome, Recovered, is_interrupted, recover, recover_with};
pub(crate) use stage::is_carried as carried;
pub use undo::LeftAlone;
use work::Work;

/// Where things that are not the origin's are put meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// A directory on the origin's file system in which the staging directory is made; `None` makes
    /// it at the top of the origin.
    pub staging: Option<&'a Path>,
    /// The directory of the journal, on any file system. One for each project.
    pub journal: &'a Path,
}

/// How to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Files get the lane's modification times instead of the time of writing.
    pub keep_times: bool,
}

/// Lets tests make any step fail, or end the process there.
pub trait Faults {
    /// Called at `step` of `path`; an error is treated as the kernel's own.
    fn at(&self, step: &'static str, path: &TreePath) -> std::result::Result<(), Errno>;
}

/// Nothing goes wrong on purpose.
#[derive(Debug, Clone, Copy)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn at(&self, _: &'static str, _: &TreePath) -> std::result::Result<(), Errno> {
        Ok(())
    }
}

/// What a keep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeepReport {
    /// Steps of the plan that were done: all of them.
    pub steps: usize,
    /// Files written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files whose blocks are shared with the lane.
    pub reflinked: u64,
    /// What an object lost on the way (owner, attribute), with a word on it.
    pub not_carried: Vec<(TreePath, String)>,
    /// The staging directory where it could not be removed; the next [`recover`] tries again.
    pub leftover: Option<PathBuf>,
}

/// One root of a keep.
#[derive(Clone, Copy)]
pub struct Root<'a> {
    /// What is to be done.
    pub plan: &'a KeepPlan,
    /// The directory that the plan's base was read from.
    pub origin: BorrowedFd<'a>,
    /// Its path, under which a later process finds it.
    pub path: &'a Path,
    /// Where the new objects are read from.
    pub lane: &'a dyn Source,
    /// Where things are put meanwhile.
    pub places: Places<'a>,
}

impl std::fmt::Debug for Root<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Root").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A keep of which a record is to stay, so that it can be undone.
#[derive(Debug, Clone, Copy)]
pub struct Naming<'a> {
    /// Letters and digits. No two keeps of a project have the same.
    pub id: &'a str,
    /// Whatever the caller wants to find in the record.
    pub about: &'a [u8],
}

/// Does what the plan says, whole or not at all, and leaves nothing by which it could be undone. `origin` is the
/// directory that the plan's base was read from.
pub fn execute(
    plan: &KeepPlan,
    origin: impl AsFd,
    lane: &dyn Source,
    places: &Places<'_>,
    options: &Options,
    faults: &dyn Faults,
) -> Result<KeepReport> {
    let root = Root { plan, origin: origin.as_fd(), path: Path::new(""), lane, places: *places };
    execute_all(&[root], None, options, faults, &mut |_| true)?.pop().ok_or(Error::NothingToDo)
}

/// Does what the plans of several roots say, all of them or none; the first one leads, with or without steps.
pub fn execute_all(
    roots: &[Root<'_>],
    naming: Option<Naming<'_>>,
    options: &Options,
    faults: &dyn Faults,
    settle: Settle<'_>,
) -> Result<Vec<KeepReport>> {
    if let Some(naming) = naming
        && !journal::is_id(naming.id.as_bytes())
    {
        return Err(Error::NoSuchKeep { id: naming.id.to_owned() });
    }
    let mut works = Vec::with_capacity(roots.len());
    for root in roots {
        works.push(Work::keep(root, options, faults)?);
    }
    if works.iter().all(Work::is_empty) {
        return Ok(works.into_iter().map(|work| work.report).collect());
    }
    let peers: Vec<Peer> = roots
        .iter()
        .map(|root| Peer { journal: root.places.journal.to_owned(), origin: root.path.to_owned() })
        .collect();
    for work in &mut works {
        work.journal.peers.clone_from(&peers);
        if let Some(naming) = naming {
            work.record(naming.id, naming.about);
        }
    }
    drive(&mut works, settle)?;
    Ok(works.into_iter().map(|work| work.report).collect())
}

/// One root of a keep that is to be undone.
#[derive(Debug, Clone, Copy)]
pub struct KeptRoot<'a> {
    /// The origin's directory.
    pub origin: BorrowedFd<'a>,
    /// The directory of its journal.
    pub journal: &'a Path,
}

/// What undoing does at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoStep {
    /// Number of the root.
    pub root: usize,
    /// Where, in the origin.
    pub path: TreePath,
    /// What.
    pub what: UndoWhat,
}

/// In which way undoing changes a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoWhat {
    /// What the keep put there goes.
    Remove,
    /// What stood there comes back.
    PutBack,
    /// Mode and attributes of before come back.
    Mode,
    /// It is moved back to where it stood.
    MoveBack,
}

/// A path in one of several roots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootPath {
    /// Number of the root.
    pub root: usize,
    /// Where, in its origin.
    pub path: TreePath,
}

/// What undoing would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The steps.
    pub steps: Vec<UndoStep>,
    /// What was edited since the keep: where there is any, nothing is done.
    pub edited: Vec<RootPath>,
}

/// What undoing the keep `id` would do. Writes nothing.
pub fn plan_undo(id: &str, roots: &[KeptRoot<'_>]) -> Result<UndoPlan> {
    undo_works(id, roots, &NoFaults).map(|(_, plan)| plan)
}

/// Undoes the keep `id` in all its roots, whole or not at all. `roots` in the order of the keep. Refused where
/// anything that the keep wrote was edited since.
pub fn undo(
    id: &str,
    roots: &[KeptRoot<'_>],
    faults: &dyn Faults,
    settle: Settle<'_>,
) -> Result<Vec<UndoStep>> {
    let (mut works, plan) = undo_works(id, roots, faults)?;
    if !plan.edited.is_empty() {
        return Err(Error::EditedSince { paths: plan.edited });
    }
    drive(&mut works, settle)?;
    Ok(plan.steps)
}

fn undo_works<'a>(
    id: &str,
    roots: &[KeptRoot<'a>],
    faults: &'a dyn Faults,
) -> Result<(Vec<Work<'a>>, UndoPlan)> {
    let (mut works, mut plan) = (Vec::with_capacity(roots.len()), UndoPlan::default());
    for (root, kept) in roots.iter().enumerate() {
        let (work, edited) = Work::undo(kept.journal, kept.origin, id, faults)?;
        plan.edited.extend(edited.into_iter().map(|path| RootPath { root, path }));
        plan.steps.extend(undo_steps(root, work.ops()));
        works.push(work);
    }
    Ok((works, plan))
}

fn undo_steps(root: usize, ops: &[Op]) -> Vec<UndoStep> {
    let mut steps: Vec<UndoStep> = Vec::new();
    let lifted = |list: &[journal::Seen]| acts::is_lifted(list);
    for op in ops {
        let what = match op {
            // Where it came from is told by the act that brings it back there.
            Op::Take { old, .. } if lifted(old) => continue,
            Op::Take { .. } => UndoWhat::Remove,
            Op::Put { new, .. } if lifted(new) => UndoWhat::MoveBack,
            Op::Put { .. } | Op::Swap { .. } => UndoWhat::PutBack,
            Op::Meta { .. } => UndoWhat::Mode,
        };
        let path = op.path().clone();
        match steps.iter_mut().rfind(|step| step.path == path) {
            Some(step) if what != UndoWhat::Mode => step.what = what,
            Some(_) => {}
            None => steps.push(UndoStep { root, path, what }),
        }
    }
    steps
}

/// Each phase for all roots before the next one. Everything is done once the leading root's journal says so.
fn drive(works: &mut [Work<'_>], settle: Settle<'_>) -> Result<()> {
    let Some(cause) = go(works).err() else {
        let (leading, others) = works.split_at_mut(1);
        // The leading journal goes last: the others are decided by it.
        others.iter_mut().chain(leading).for_each(|work| work.close(settle));
        return Ok(());
    };
    if matches!(cause, Error::NotRolledBack { .. }) {
        return Err(cause);
    }
    let mut left = Vec::new();
    for work in works.iter().rev() {
        match work.take_back(settle) {
            Ok(found) => left.extend(found),
            Err(undo) => {
                return Err(Error::NotRolledBack { cause: Box::new(cause), undo: Box::new(undo) });
            }
        }
    }
    Err(if left.is_empty() { cause } else { Error::LeftAlone { cause: Box::new(cause), left } })
}

fn go(works: &mut [Work<'_>]) -> Result<()> {
    works.iter_mut().try_for_each(Work::prepare)?;
    works.iter_mut().try_for_each(Work::announce)?;
    works.iter_mut().try_for_each(Work::perform)?;
    works.iter_mut().try_for_each(Work::finish)?;
    if let Some((leading, others)) = works.split_first_mut() {
        others.iter_mut().try_for_each(Work::settle)?;
        leading.commit()?;
        // From here on their word follows the leading one, said or not.
        others.iter_mut().for_each(|work| drop(work.commit()));
    }
    Ok(())
}
