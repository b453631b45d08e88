//! Putting a plan into the origin: the only code of the project that writes there.
//!
//! Three phases. Look: is there room, and is every target still what the plan saw? Stage: make all new
//! objects in a directory beside the origin and put them on disk. Move: publish the journal, then
//! rename, each target looked at right before and again after, what it displaced kept in the staging
//! directory. Only when all of it stands is the journal closed and the displaced thrown away.
//!
//! Invariant: after any error, and after [`recover`] following a kill at any instant, the origin is as
//! it was before (names, inodes, content, modes, modification times) or as the plan says, and no edit
//! that somebody made meanwhile is lost. A name is never truncated or written in place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::{Errno, lock, meta, node, open, publish};
use tree::{Source, TreePath, remove::remove_tree};

use crate::error::{Error, Result, Stepping as _};
use crate::plan::KeepPlan;

mod acts;
mod journal;
mod look;
mod site;
mod stage;
mod undo;
mod units;

use acts::Acts;
use journal::{Journal, State};
use site::Site;
pub(crate) use stage::is_carried as carried;
pub use undo::LeftAlone;
use units::Units;

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

/// How an interrupted keep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There was none.
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
    /// Entries that somebody changed meanwhile, and that were left as they are.
    pub left: Vec<LeftAlone>,
}

/// Does what the plan says, whole or not at all. `origin` is the directory that the plan's base was
/// read from.
pub fn execute(
    plan: &KeepPlan,
    origin: impl AsFd,
    lane: &dyn Source,
    places: &Places<'_>,
    options: &Options,
    faults: &dyn Faults,
) -> Result<KeepReport> {
    let origin = origin.as_fd();
    let top = TreePath::root();
    let parent = stage_parent(origin, places.staging)?;
    look::room(plan, &parent, places.staging)?;
    let journal_dir = open::root_dir(places.journal).stepping("open the journal directory", &top)?;
    let _lock = take_lock(&journal_dir, places.journal)?;
    if meta::stat_at_if_there(&journal_dir, journal::NAME).stepping("stat the journal", &top)?.is_some() {
        return Err(Error::JournalOpen { place: places.journal.to_owned() });
    }
    let mut report = KeepReport { steps: plan.steps.len(), ..KeepReport::default() };
    if plan.steps.is_empty() {
        return Ok(report);
    }
    let units = Units::of(&plan.steps);
    look::ahead(&units, origin, &parent)?;

    let stat = meta::stat_fd(origin).stepping("stat", &top)?;
    let mut journal = Journal {
        state: State::Staging,
        origin: stat.ino,
        parent: places.staging.map(Path::to_path_buf),
        stage: free_name(&parent)?,
        ops: Vec::new(),
        dirs: vec![journal::DirTime {
            path: top.clone(),
            ino: stat.ino,
            mtime: tree::Time { sec: stat.mtime.0, nsec: stat.mtime.1 },
            names_change: false,
        }],
    };
    journal.publish(&journal_dir).stepping("publish the journal", &top)?;
    let work = Work { origin, lane, options, faults, journal_dir: &journal_dir, parent: &parent };
    match work.run(&units, &mut journal, &mut report) {
        Ok(()) => {
            let closed = work.close(&journal);
            if closed.is_err() {
                // Everything stands and is recorded as done: what is left is refuse, not a failure.
                report.leftover = Some(stage_path(&journal));
            }
            Ok(report)
        }
        Err(cause) => Err(work.take_back(&journal, cause)),
    }
}

/// Ends a keep that was interrupted: takes it back, or throws its refuse away where it had been
/// completed. Does nothing where there is none, and may itself be interrupted and repeated.
pub fn recover(journal_dir: &Path, origin: impl AsFd) -> Result<Recovered> {
    recover_with(journal_dir, origin, &NoFaults)
}

/// As [`recover`], with faults.
pub fn recover_with(journal_dir: &Path, origin: impl AsFd, faults: &dyn Faults) -> Result<Recovered> {
    let origin = origin.as_fd();
    let top = TreePath::root();
    let nothing = Recovered { outcome: Outcome::Nothing, left: Vec::new() };
    let dir = match open::root_dir(journal_dir) {
        Err(error) if error.is_not_found() => return Ok(nothing),
        answer => answer.stepping("open the journal directory", &top)?,
    };
    if meta::stat_at_if_there(&dir, journal::NAME).stepping("stat the journal", &top)?.is_none() {
        return Ok(nothing);
    }
    let _lock = take_lock(&dir, journal_dir)?;
    let Some(journal) = read_journal(&dir, journal_dir)? else { return Ok(nothing) };
    if meta::stat_fd(origin).stepping("stat", &top)?.ino != journal.origin {
        return Err(Error::OtherOrigin { place: journal_dir.to_owned() });
    }
    let parent = match stage_parent(origin, journal.parent.as_deref()) {
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
        State::Committed => (Outcome::Finished, Vec::new()),
        State::Staging | State::Moving => (Outcome::RolledBack, undo::undo(&site, &journal)?),
    };
    let left = clean(&site, &journal, parent.as_ref(), &dir, left, outcome == Outcome::Finished)?;
    Ok(Recovered { outcome, left })
}

/// True where `journal_dir` holds an interrupted keep.
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

struct Work<'a> {
    origin: BorrowedFd<'a>,
    lane: &'a dyn Source,
    options: &'a Options,
    faults: &'a dyn Faults,
    journal_dir: &'a OwnedFd,
    parent: &'a OwnedFd,
}

impl Work<'_> {
    /// Stages, publishes, moves. On an error the caller takes back.
    fn run(&self, units: &Units, journal: &mut Journal, report: &mut KeepReport) -> Result<()> {
        let top = TreePath::root();
        node::mkdir_at(self.parent, &journal.stage, 0o700).stepping("make the staging directory", &top)?;
        let stage =
            open::dir_beneath(self.parent, &journal.stage).stepping("open the staging directory", &top)?;
        let site = Site { origin: self.origin, stage: Some(stage.as_fd()), faults: self.faults };
        site.fault("staging", &top)?;

        let mut staging = stage::Stage { dir: stage.as_fd(), lane: self.lane, options: self.options, report };
        staging.make(&units.fresh, &|path| site.fault("stage", path))?;
        let mut acts = Acts::of(units, &site, self.lane)?;
        // What is moved into a new directory needs it open until it is there.
        let wait = units.lifts.iter().any(|lift| lift.slot.components().count() > 1);
        if !wait {
            staging.close_dirs(&units.fresh)?;
            publish::sync_dir(&stage).stepping("fsync", &top)?;
        }
        site.fault("staged", &top)?;

        journal.state = State::Moving;
        journal.ops = acts.ops();
        for dir in acts.dirs.drain(..) {
            match journal.dirs.iter_mut().find(|other| other.path == dir.path) {
                Some(other) => other.names_change |= dir.names_change,
                None => journal.dirs.push(dir),
            }
        }
        journal.publish(self.journal_dir).stepping("publish the journal", &top)?;
        site.fault("journal", &top)?;

        let mut closed = !wait;
        for at in 0..acts.acts.len() {
            if !closed && at == acts.lifts {
                staging.close_dirs(&units.fresh)?;
                closed = true;
            }
            acts.perform(&site, at)?;
        }
        site.fault("moved", &top)?;
        acts.look_again(&site)?;
        let kept = |dir: &&journal::DirTime| !dir.names_change;
        let mut settled = journal.clone();
        settled.dirs.retain(|dir| kept(&dir));
        for dir in &mut settled.dirs {
            dir.path = acts.now(&dir.path);
        }
        undo::restore_times(&site, &settled, |_| true)?;
        sync_touched(&site, journal, &acts)?;
        site.fault("commit", &top)?;
        let committed =
            Journal { state: State::Committed, ops: Vec::new(), dirs: settled.dirs, ..journal.clone() };
        committed.publish(self.journal_dir).stepping("publish the journal", &top)?;
        *journal = committed;
        Ok(())
    }

    /// Throws away what was displaced, and the journal.
    fn close(&self, journal: &Journal) -> Result<()> {
        let stage = open::dir_beneath(self.parent, &journal.stage)
            .stepping("open the staging directory", &TreePath::root())?;
        let site = Site { origin: self.origin, stage: Some(stage.as_fd()), faults: self.faults };
        site.fault("committed", &TreePath::root())?;
        clean(&site, journal, Some(self.parent), self.journal_dir, Vec::new(), true).map(|_| ())
    }

    fn take_back(&self, journal: &Journal, cause: Error) -> Error {
        let work = || -> Result<Vec<LeftAlone>> {
            let stage = match open::dir_beneath(self.parent, &journal.stage) {
                Err(error) if error.is_not_found() => None,
                answer => Some(answer.stepping("open the staging directory", &TreePath::root())?),
            };
            let site =
                Site { origin: self.origin, stage: stage.as_ref().map(AsFd::as_fd), faults: self.faults };
            let left = undo::undo(&site, journal)?;
            clean(&site, journal, Some(self.parent), self.journal_dir, left, false)
        };
        match work() {
            Ok(left) if left.is_empty() => cause,
            Ok(left) => Error::LeftAlone { cause: Box::new(cause), left },
            Err(undo) => Error::NotRolledBack { cause: Box::new(cause), undo: Box::new(undo) },
        }
    }
}

/// Removes the staging directory (unless it holds what could not be put back) and the journal.
fn clean(
    site: &Site<'_>,
    journal: &Journal,
    parent: Option<&OwnedFd>,
    journal_dir: &OwnedFd,
    mut left: Vec<LeftAlone>,
    finished: bool,
) -> Result<Vec<LeftAlone>> {
    let top = TreePath::root();
    site.fault("clean", &top)?;
    if left.is_empty() {
        if let Some(parent) = parent {
            let removed =
                remove_tree(parent.as_fd(), &journal.stage).stepping("remove the staging directory", &top)?;
            if let Some((path, why)) = removed.left.into_iter().next() {
                let source = kernel::Error::new("unlinkat", why.as_bytes(), Errno::NOTEMPTY);
                return Err(Error::Step { step: "remove the staging directory", path, source });
            }
        }
    } else {
        left.iter_mut().for_each(|left| left.rescue = Some(stage_path(journal)));
    }
    if journal.parent.is_none() {
        // The staging directory stood in the origin: taking it away touched the origin's time again.
        undo::restore_times(site, journal, |dir| dir.path.is_root() && (!finished || !dir.names_change))?;
    }
    site.fault("cleaned", &top)?;
    node::unlink_at(journal_dir, journal::NAME).stepping("remove the journal", &top)?;
    publish::sync_dir(journal_dir).stepping("fsync the journal directory", &top)?;
    Ok(left)
}

/// Puts the directories that were renamed in on disk, so that the closing record never outruns them.
fn sync_touched(site: &Site<'_>, journal: &Journal, acts: &Acts) -> Result<()> {
    if acts.acts.len() > 64 || journal.dirs.len() > 64 {
        return publish::sync_filesystem(site.origin).stepping("syncfs", &TreePath::root());
    }
    for dir in &journal.dirs {
        let path = acts.now(&dir.path);
        if let Ok(fd) = open::dir_beneath(site.origin, path.as_bytes()) {
            publish::sync_dir(&fd).stepping("fsync", &path)?;
        }
    }
    Ok(())
}

/// Waits a moment: a child that was just forked holds a copy of a lock that is gone until it executes.
fn take_lock(dir: &OwnedFd, place: &Path) -> Result<lock::Lock> {
    match lock::exclusive_blocking(dir, journal::LOCK, Duration::from_secs(2)) {
        Err(error) if error.errno == Errno::TIMEDOUT => Err(Error::Busy { place: place.to_owned() }),
        answer => answer.stepping("lock the journal", &TreePath::root()),
    }
}

fn read_journal(dir: &OwnedFd, place: &Path) -> Result<Option<Journal>> {
    use std::io::Read as _;

    use kernel::error::Asked as _;
    let top = TreePath::root();
    let file = match open::file_beneath(dir, journal::NAME) {
        Err(error) if error.is_not_found() => return Ok(None),
        answer => answer.stepping("open the journal", &top)?,
    };
    let mut bytes = Vec::new();
    std::fs::File::from(file)
        .read_to_end(&mut bytes)
        .asked("read", journal::NAME)
        .stepping("read the journal", &top)?;
    match Journal::decode(&bytes) {
        Ok(journal) => Ok(Some(journal)),
        Err(reason) => {
            let aside = (0..)
                .map(|count: u32| format!("keep.journal.damaged-{count}"))
                .find(|name| publish::rename_noreplace(dir, journal::NAME, dir, name.as_bytes()).is_ok());
            let moved_to = place.join(aside.unwrap_or_default());
            Err(Error::JournalDamaged { reason: reason.to_owned(), moved_to })
        }
    }
}

fn stage_parent(origin: BorrowedFd<'_>, staging: Option<&Path>) -> Result<OwnedFd> {
    let opened = match staging {
        Some(path) => open::root_dir(path),
        None => open::dir_beneath(origin, b""),
    };
    opened.stepping("open the place for the staging directory", &TreePath::root())
}

fn free_name(parent: &OwnedFd) -> Result<Vec<u8>> {
    let pid = std::process::id();
    for count in 0..1000u32 {
        let name = format!(".lane-stage-{pid:x}-{count}").into_bytes();
        if meta::stat_at_if_there(parent, &name).stepping("stat", &TreePath::root())?.is_none() {
            return Ok(name);
        }
    }
    let source = kernel::Error::new("mkdirat", b".lane-stage", Errno::EXIST);
    Err(Error::Step { step: "make the staging directory", path: TreePath::root(), source })
}

fn stage_path(journal: &Journal) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    journal.parent.clone().unwrap_or_default().join(std::ffi::OsStr::from_bytes(&journal.stage))
}
