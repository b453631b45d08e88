//! Closing a journal: what is thrown away, what stays as the record of a keep, after a success, after a failure, and
//! in a later process.
//!
//! Invariant: the journal goes last, so that a closing that was interrupted is done again. What somebody else's work keeps
//! from being put back stays where it is.

use std::os::fd::{AsFd as _, OwnedFd};

use kernel::{Errno, node, publish};
use tree::TreePath;
use tree::remove::remove_tree;

use super::files;
use super::journal::{self, DirTime, Journal, State, Task};
use super::site::Site;
use super::undo::{self, LeftAlone};
use crate::error::{Error, Result, Stepping as _};

/// Ends what `journal` speaks of: all of it is done (`finished`), or taken back but for what is `left`.
pub(crate) fn clean(
    site: &Site<'_>,
    journal: &Journal,
    parent: Option<&OwnedFd>,
    journal_dir: &OwnedFd,
    mut left: Vec<LeftAlone>,
    finished: bool,
) -> Result<Vec<LeftAlone>> {
    let top = TreePath::root();
    site.fault("clean", &top)?;
    let stays = match (journal.task, finished) {
        // It holds what was displaced.
        (Task::Keep, true) => journal.is_recorded() && journal.parent.is_some(),
        (Task::Keep, false) => false,
        (Task::Undo, true) => false,
        (Task::Undo, false) => journal.parent.is_some(),
    };
    if !left.is_empty() {
        left.iter_mut().for_each(|left| left.rescue = Some(journal.stage_path()));
    } else if !stays && let Some(parent) = parent {
        remove(parent, &journal.stage, "remove the staging directory")?;
    }
    if journal.parent.is_none() {
        // The staging directory stood in the origin: taking it away touched the origin's time again.
        let root = journal.dirs.iter().filter(|dir| dir.path.is_root());
        let time = |dir: &DirTime| dir.after.filter(|_| finished).unwrap_or(dir.mtime);
        let root: Vec<DirTime> = root.map(|dir| DirTime { mtime: time(dir), ..dir.clone() }).collect();
        undo::restore_times(site, &root, |_| true)?;
    }
    let is_over = matches!((journal.task, finished), (Task::Keep, false) | (Task::Undo, true));
    if let Some(copies) = journal.copies().filter(|_| is_over) {
        remove(journal_dir, &copies, "remove the copies")?;
    }
    site.fault("cleaned", &top)?;
    if (journal.task, finished) == (Task::Keep, true) && journal.is_recorded() {
        publish::rename_replace(journal_dir, journal::NAME, journal_dir, &journal.record_name())
            .stepping("file the record", &top)?;
    } else {
        if (journal.task, finished) == (Task::Undo, true) {
            // What it did is still asked for by those who know of it.
            let record = files::read(journal_dir, &journal.record_name())?.and_then(|record| record.ok());
            let undone = Journal { state: State::Undone, ..record.unwrap_or_else(|| journal.clone()) };
            publish::write_file(journal_dir, &journal.record_name(), &undone.encode(), 0o600)
                .stepping("note the undoing", &top)?;
            site.fault("noted", &top)?;
        }
        node::unlink_at(journal_dir, journal::NAME).stepping("remove the journal", &top)?;
    }
    publish::sync_dir(journal_dir).stepping("fsync the journal directory", &top)?;
    Ok(left)
}

/// Removes a tree of ours, whole.
pub(crate) fn remove(parent: &OwnedFd, name: &[u8], step: &'static str) -> Result<()> {
    let removed = remove_tree(parent.as_fd(), name).stepping(step, &TreePath::root())?;
    match removed.left.into_iter().next() {
        None => Ok(()),
        Some((path, why)) => {
            let source = kernel::Error::new("unlinkat", why.as_bytes(), Errno::NOTEMPTY);
            Err(Error::Step { step, path, source })
        }
    }
}
