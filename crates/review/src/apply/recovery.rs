//! What a later process does about a keep, or the undoing of one, that was interrupted.
//!
//! Invariant: whether it is taken back or finished is decided by one record alone, that of the leading root; doing it
//! twice does no more than doing it once. A process that is still at it is left alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::{meta, open};
use tree::TreePath;

use super::closing::clean;
use super::journal::{self, Journal, State, Task};
use super::record::{Settle, Settled};
use super::site::Site;
use super::undo::{self, LeftAlone};
use super::{Faults, NoFaults, files};
use crate::error::{Error, Result, Stepping as _};

/// How what was interrupted ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing.
    Nothing,
    /// The origin is as it was before.
    RolledBack,
    /// All acts had been done; only refuse was left.
    Finished,
}

/// What [`recover`] found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// How it ended.
    pub outcome: Outcome,
    /// It was the undoing of a keep.
    pub is_undo: bool,
    /// Entries that somebody changed meanwhile, and that were left as they are.
    pub left: Vec<LeftAlone>,
}

/// Ends what was interrupted: takes it back, or throws its refuse away where it had been
/// completed, in all roots that it wrote to. Does nothing where there is nothing, and may itself be interrupted and
/// repeated.
pub fn recover(journal_dir: &Path, origin: impl AsFd) -> Result<Recovered> {
    recover_with(journal_dir, origin, &NoFaults, &mut |_| true)
}

/// As [`recover`], with faults, and with a word on what became of each root before its journal goes.
pub fn recover_with(
    journal_dir: &Path,
    origin: impl AsFd,
    faults: &dyn Faults,
    settle: Settle<'_>,
) -> Result<Recovered> {
    let (mut recovered, journal) = recover_one(journal_dir, origin.as_fd(), faults, settle)?;
    let Some(journal) = journal else { return Ok(recovered) };
    for peer in journal.peers.iter().filter(|peer| peer.journal != journal_dir) {
        // A root that is not there now is put right when it is.
        let Ok(origin) = open::root_dir(&peer.origin) else { continue };
        match recover_one(&peer.journal, origin.as_fd(), faults, settle) {
            Ok((other, _)) => recovered.left.extend(other.left),
            Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(recovered)
}

/// True where `journal_dir` holds something that was interrupted.
pub fn is_interrupted(journal_dir: &Path) -> Result<bool> {
    let top = TreePath::root();
    match open::root_dir(journal_dir) {
        Err(error) if error.is_not_found() => Ok(false),
        answer => {
            let dir = answer.stepping("open the journal directory", &top)?;
            Ok(meta::stat_at_if_there(&dir, journal::NAME).stepping("stat the journal", &top)?.is_some())
        }
    }
}

fn recover_one(
    journal_dir: &Path,
    origin: BorrowedFd<'_>,
    faults: &dyn Faults,
    settle: Settle<'_>,
) -> Result<(Recovered, Option<Journal>)> {
    let top = TreePath::root();
    let nothing = Recovered { outcome: Outcome::Nothing, is_undo: false, left: Vec::new() };
    let dir = match open::root_dir(journal_dir) {
        Err(error) if error.is_not_found() => return Ok((nothing, None)),
        answer => answer.stepping("open the journal directory", &top)?,
    };
    if meta::stat_at_if_there(&dir, journal::NAME).stepping("stat the journal", &top)?.is_none() {
        return Ok((nothing, None));
    }
    let _lock = files::take_lock(&dir, journal_dir)?;
    let Some(mut journal) = files::read_journal(&dir, journal_dir)? else { return Ok((nothing, None)) };
    if meta::stat_fd(origin).stepping("stat", &top)?.ino != journal.origin {
        return Err(Error::OtherOrigin { place: journal_dir.to_owned() });
    }
    let leads = leads(&dir, &journal);
    if journal.state == State::Moving && !leads && leader_is_done(&journal)? {
        journal = promote(&dir, journal)?;
    } else if journal.state == State::Committed && leads {
        // They have only our word for it.
        for peer in journal.peers.iter().skip(1) {
            let Ok(place) = open::root_dir(&peer.journal) else { continue };
            let _lock = files::take_lock(&place, &peer.journal)?;
            if let Some(other) = files::read_journal(&place, &peer.journal)?
                && (&other.id, other.task, other.state) == (&journal.id, journal.task, State::Moving)
            {
                promote(&place, other)?;
            }
        }
    }
    let parent = match files::stage_parent(origin, journal.parent.as_deref()) {
        Err(Error::Step { source, .. }) if source.is_not_found() => None,
        answer => Some(answer?),
    };
    let stage = match &parent {
        Some(parent) => match open::dir_beneath(parent, &journal.stage) {
            Err(error) if error.is_not_found() => None,
            answer => Some(answer.stepping("open the staging directory", &top)?),
        },
        None => None,
    };
    let site = Site { origin, stage: stage.as_ref().map(AsFd::as_fd), faults };
    let (outcome, left) = match journal.state {
        State::Committed | State::Undone => (Outcome::Finished, Vec::new()),
        State::Staging | State::Moving => (Outcome::RolledBack, undo::undo(&site, &journal)?),
    };
    let is_done = outcome == Outcome::Finished;
    let is_told = (!is_done && journal.ops.is_empty()) || settle(&Settled::of(&journal, &dir, is_done));
    if !is_told {
        return Ok((Recovered { outcome, is_undo: journal.task == Task::Undo, left }, None));
    }
    let left = clean(&site, &journal, parent.as_ref(), &dir, left, is_done)?;
    Ok((Recovered { outcome, is_undo: journal.task == Task::Undo, left }, Some(journal)))
}

/// True where nobody else's journal decides about this one.
fn leads(dir: &OwnedFd, journal: &Journal) -> bool {
    let Some(first) = journal.peers.first() else { return true };
    let identity = |dir: &OwnedFd| meta::stat_fd(dir).map(|stat| stat.identity()).ok();
    open::root_dir(&first.journal).is_ok_and(|first| identity(&first) == identity(dir))
}

fn leader_is_done(journal: &Journal) -> Result<bool> {
    let Some(first) = journal.peers.first() else { return Ok(false) };
    let dir = match open::root_dir(&first.journal) {
        Err(error) if error.is_not_found() => return Ok(false),
        answer => answer.stepping("open the journal directory", &TreePath::root())?,
    };
    let said = files::read(&dir, journal::NAME)?;
    Ok(said.and_then(std::result::Result::ok).is_some_and(|leader| {
        (&leader.id, leader.task, leader.state) == (&journal.id, journal.task, State::Committed)
    }))
}

fn promote(dir: &OwnedFd, journal: Journal) -> Result<Journal> {
    let journal = Journal { state: State::Committed, ..journal };
    journal.publish(dir).stepping("publish the journal", &TreePath::root())?;
    Ok(journal)
}
