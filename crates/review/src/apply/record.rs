//! The records of keeps that can be undone: listing them, and forgetting them for good.
//!
//! Invariant: what a keep displaced goes before the record that speaks of it, so that nothing is left that nobody knows of.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use kernel::{meta, node, open, publish};
use tree::{Entry, TreePath};

use super::closing::remove;
use super::files;
use super::journal::{self, Journal, Op, Seen, State, Task};
use crate::error::{Error, Result, Stepping as _};

/// A keep of which there is a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its id.
    pub id: String,
    /// What the caller of the keep wanted to find here.
    pub about: Vec<u8>,
    /// It was undone.
    pub is_undone: bool,
    /// All its roots, the leading one first, as journal directory and origin; empty where it has only this one.
    pub roots: Vec<(PathBuf, PathBuf)>,
    /// Every path of the origin that it changed; of what is new or gone as a whole, the topmost.
    pub paths: Vec<TreePath>,
    /// What it displaced or moved, as it was before.
    pub before: Vec<(TreePath, Entry)>,
    /// The directory that holds what it displaced.
    pub displaced: Option<PathBuf>,
    /// Why it cannot be undone, where the record is damaged.
    pub problem: Option<String>,
}

/// All keeps of which `journal_dir` has a record, in no order.
pub fn kept(journal_dir: &Path) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    let dir = match open::root_dir(journal_dir) {
        Err(error) if error.is_not_found() => return Ok(found),
        answer => answer.stepping("open the journal directory", &TreePath::root())?,
    };
    for name in kernel::dir::entries(&dir).stepping("list", &TreePath::root())? {
        let Some(id) = name.name.strip_prefix(journal::RECORD) else { continue };
        let Ok(id) = std::str::from_utf8(id) else { continue };
        match files::read(&dir, &name.name)? {
            Some(Ok(record)) => found.push(told(journal_dir, id, &record)),
            Some(Err(reason)) => found.push(Kept {
                id: id.to_owned(),
                about: Vec::new(),
                is_undone: false,
                roots: Vec::new(),
                paths: Vec::new(),
                before: Vec::new(),
                displaced: None,
                problem: Some(reason.to_owned()),
            }),
            None => {}
        }
    }
    Ok(found)
}

fn told(journal_dir: &Path, id: &str, record: &Journal) -> Kept {
    use std::os::unix::ffi::OsStrExt as _;
    let is_undone = record.state == State::Undone;
    let displaced = match record.copies() {
        Some(copies) => journal_dir.join(std::ffi::OsStr::from_bytes(&copies)),
        None => record.stage_path(),
    };
    let (paths, before) = touched(record);
    Kept {
        id: id.to_owned(),
        about: record.about.clone(),
        is_undone,
        roots: record.peers.iter().map(|peer| (peer.journal.clone(), peer.origin.clone())).collect(),
        paths,
        before,
        displaced: (!is_undone).then_some(displaced),
        problem: None,
    }
}

/// Every path that the acts change, and what they displace.
fn touched(journal: &Journal) -> (Vec<TreePath>, Vec<(TreePath, Entry)>) {
    let mut paths: Vec<TreePath> = journal.ops.iter().map(Op::path).cloned().collect();
    paths.sort();
    paths.dedup();
    let mut before: Vec<(TreePath, Entry)> = Vec::new();
    for op in &journal.ops {
        if let Op::Take { path, old, .. } | Op::Swap { path, old, .. } = op {
            before.extend(old.iter().map(|seen| (path.join_path(&seen.path), entry(seen))));
        }
    }
    (paths, before)
}

/// What became of one root, told before the journal that decided it is gone: whoever keeps account of the origin can do so,
/// and is told again where that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Id of the keep; empty where no record of it stays.
    pub id: String,
    /// What the caller of the keep wanted to find in its record.
    pub about: Vec<u8>,
    /// Path of the origin.
    pub origin: PathBuf,
    /// It was the undoing of the keep.
    pub is_undo: bool,
    /// It is done; else it was taken back.
    pub is_done: bool,
    /// Every path of the origin that is concerned; of what is new or gone as a whole, the topmost.
    pub paths: Vec<TreePath>,
    /// What stood there before (the keep, where it is done): what was taken back is there again with another status change
    /// time.
    pub before: Vec<(TreePath, Entry)>,
}

impl Settled {
    /// Of a journal that is about to be closed.
    pub(crate) fn of(journal: &Journal, dir: &OwnedFd, is_done: bool) -> Settled {
        let record = match journal.task {
            Task::Undo if is_done => files::read(dir, &journal.record_name()).ok().flatten(),
            _ => None,
        };
        let (paths, before) = match record {
            Some(Ok(record)) => touched(&record),
            _ => touched(journal),
        };
        let identity = |dir: &OwnedFd| meta::stat_fd(dir).map(|stat| stat.identity()).ok();
        let own = journal
            .peers
            .iter()
            .find(|peer| open::root_dir(&peer.journal).is_ok_and(|other| identity(&other) == identity(dir)));
        Settled {
            id: String::from_utf8_lossy(&journal.id).into_owned(),
            about: journal.about.clone(),
            origin: own.map(|peer| peer.origin.clone()).unwrap_or_default(),
            is_undo: journal.task == Task::Undo,
            is_done,
            paths,
            before,
        }
    }
}

/// Told what became of each root. Where it answers false, the journal stays, and the next [`super::recover`] tells it again.
pub type Settle<'s> = &'s mut dyn FnMut(&Settled) -> bool;

fn entry(seen: &Seen) -> Entry {
    Entry {
        kind: seen.kind,
        mode: seen.mode,
        uid: seen.owner.0,
        gid: seen.owner.1,
        size: seen.size,
        mtime: seen.mtime,
        ctime: seen.ctime,
        ino: seen.ino,
        dev: 0,
        nlink: 1,
        allocated: 0,
        rdev: 0,
        target: Vec::new(),
    }
}

/// Throws away what the keep `id` displaced, and its record: it cannot be undone any more. Nothing in the origin changes.
pub fn forget(journal_dir: &Path, id: &str) -> Result<()> {
    let top = TreePath::root();
    if !journal::is_id(id.as_bytes()) {
        return Err(Error::NoSuchKeep { id: id.to_owned() });
    }
    let dir = open::root_dir(journal_dir).stepping("open the journal directory", &top)?;
    let _lock = files::take_lock(&dir, journal_dir)?;
    if meta::stat_at_if_there(&dir, journal::NAME).stepping("stat the journal", &top)?.is_some() {
        return Err(Error::JournalOpen { place: journal_dir.to_owned() });
    }
    let name = [journal::RECORD, id.as_bytes()].concat();
    if let Some(Ok(record)) = files::read(&dir, &name)? {
        if let Some(copies) = record.copies() {
            remove(&dir, &copies, "remove the copies")?;
        } else if let Some(parent) = record.parent.as_deref().filter(|_| record.state != State::Undone) {
            match open::root_dir(parent) {
                Ok(parent) => remove(&parent, &record.stage, "remove what was displaced")?,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error).stepping("open the place of what was displaced", &top),
            }
        }
    }
    match node::unlink_at(&dir, &name) {
        Err(error) if error.is_not_found() => Ok(()),
        answer => answer.stepping("remove the record", &top),
    }?;
    publish::sync_dir(&dir).stepping("fsync the journal directory", &top)
}
