//! [`OpenLane`]: a lane's row, its directory and the workspaces of its roots, ready to be looked at or run.
//!
//! Invariant: opening takes no lock and changes nothing; who writes layers takes [`OpenLane::lock`] first.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::lock::Lock;
use ledger::Lane;
use tree::dir::DirTree;
use tree::{Change, ChangeSet, TreePath};
use workspace::{Base, LaneHome, MountMode, Root, Workspace};

use crate::describe;
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::view::{Counts, DriftKind, DriftView, RootChanges, RootView};

/// A lane that was found on disk.
#[derive(Debug)]
pub struct OpenLane {
    /// Its row.
    pub row: Lane,
    /// Its directory.
    pub home: LaneHome,
    /// Its roots, the origin first.
    pub roots: Vec<OpenRoot>,
    /// The directory of a lane whose layers over the home are shown here, below this one's.
    pub lent_home: Option<PathBuf>,
}

/// One root of a lane.
#[derive(Debug)]
pub struct OpenRoot {
    /// Where it is, and how it is made.
    pub view: RootView,
    /// Its number.
    pub index: usize,
    /// The view itself.
    pub workspace: Box<dyn Workspace>,
    /// Directories of ours inside it.
    pub skipped: Vec<TreePath>,
}

/// How long to wait for a lane that somebody is just letting go of (its processes were killed, say).
const LETTING_GO: Duration = Duration::from_secs(2);

/// The lane for this process alone.
pub fn hold(home: &LaneHome, name: &str) -> Result<Lock> {
    let deadline = Instant::now() + LETTING_GO;
    loop {
        if let Some(lock) = home.try_lock()? {
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            return Err(EngineError::Busy { name: name.to_owned(), pid: home.holder().ok().flatten() });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What changed in one root.
#[derive(Debug, Clone, Default)]
pub struct RootDelta {
    /// The root's directory.
    pub root: PathBuf,
    /// Its number.
    pub index: usize,
    /// The changes that a reviewer looks at, and what could not be compared.
    pub set: ChangeSet,
    /// Changes of git's own files.
    pub git_internal: u64,
}

impl RootDelta {
    /// The sums.
    pub fn counts(&self) -> Counts {
        let mut counts =
            Counts { git_internal: self.git_internal, gaps: self.set.gaps.len() as u64, ..Counts::default() };
        self.set.changes.iter().for_each(|change| counts.count(change));
        counts
    }
}

/// The mode in which this caller mounts overlays.
pub fn mount_mode() -> MountMode {
    if kernel::privilege::is_root() { MountMode::Root } else { MountMode::User }
}

/// Opens a lane that is not discarded.
pub fn open(engine: &Engine, row: Lane) -> Result<OpenLane> {
    let home =
        LaneHome::open(engine.state().path(), &row.id).map_err(|error| damaged(engine, &row, &error))?;
    let mode =
        if row.options["mount"].as_str() == Some("user") { MountMode::User } else { mount_mode_of(&row) };
    let views = describe::roots(&row);
    let ours = ours(engine, &home)?;
    let mut roots = Vec::with_capacity(views.len());
    for (index, view) in views.into_iter().enumerate() {
        let root =
            Root { index, origin: view.path.clone(), strategy: view.strategy, mode, ours: ours.clone() };
        roots.push(open_root(&home, &root, view).map_err(|error| gone_or(&row, error))?);
    }
    Ok(OpenLane { row, home, roots, lent_home: None })
}

/// The workspace of one root whose layers have their place.
pub fn open_root(home: &LaneHome, root: &Root, view: RootView) -> Result<OpenRoot> {
    let skipped = root.skipped();
    Ok(OpenRoot { view, index: root.index, workspace: workspace::workspace(home, root)?, skipped })
}

/// A lane is read in the mode that it was made in, whoever reads it.
fn mount_mode_of(row: &Lane) -> MountMode {
    match row.options["mount"].as_str() {
        Some("root") => MountMode::Root,
        _ => mount_mode(),
    }
}

/// Directories that belong to us: the state directory and where layers stand.
pub fn ours(engine: &Engine, home: &LaneHome) -> Result<Vec<PathBuf>> {
    let mut ours = vec![engine.state().path().to_owned()];
    ours.extend(home.places_elsewhere()?);
    Ok(ours)
}

fn damaged(engine: &Engine, row: &Lane, error: &workspace::Error) -> EngineError {
    let dir = engine.state().lanes().join(&row.id);
    EngineError::Damaged { name: row.name.clone(), dir, why: error.to_string() }
}

/// A missing origin is told as that, not as a failing call.
fn gone_or(row: &Lane, error: EngineError) -> EngineError {
    let origin = describe::path(&row.origin);
    if origin.symlink_metadata().is_ok() {
        return error;
    }
    EngineError::OriginGone { name: row.name.clone(), path: origin }
}

impl OpenLane {
    /// The lane for this process alone.
    pub fn lock(&self) -> Result<Lock> {
        hold(&self.home, &self.row.name)
    }

    /// What changed, root by root.
    pub fn changes(&self) -> Result<Vec<RootDelta>> {
        self.roots.iter().map(|root| root.changes().map_err(|error| gone_or(&self.row, error))).collect()
    }

    /// As [`OpenLane::changes`], for sums alone: what an earlier sum read of content is not read again.
    pub fn summed(&self) -> Result<Vec<RootDelta>> {
        self.roots.iter().map(|root| self.summed_root(root, &mut |_| {})).collect()
    }

    /// As [`OpenLane::summed`], with the drift that meets the changes.
    pub fn summed_with_drift(&self) -> Result<(Vec<RootDelta>, Vec<DriftView>)> {
        let (mut deltas, mut drift) = (Vec::with_capacity(self.roots.len()), Vec::new());
        for root in &self.roots {
            // Before renames are looked for, what is below a renamed directory has been looked at once.
            let mut found = Ok(Vec::new());
            deltas.push(self.summed_root(root, &mut |plain| found = self.drift_of(root, plain))?);
            drift.extend(found?);
        }
        Ok((deltas, drift))
    }

    fn summed_root(&self, root: &OpenRoot, plain: &mut dyn FnMut(&ChangeSet)) -> Result<RootDelta> {
        let recall = self.home.recall(root.index, crate::clock::now());
        let set = root.workspace.sums(&recall, plain).map_err(|error| gone_or(&self.row, error.into()))?;
        self.home.remember(root.index, &recall);
        root.delta_of(set)
    }

    /// What drifted in the origins where it meets what was written in the lane, found without reading content.
    pub fn drift_of_touched(&self) -> Result<Vec<DriftView>> {
        let mut found = Vec::new();
        for root in &self.roots {
            let touched = root.workspace.touched().map_err(|error| gone_or(&self.row, error.into()))?;
            found.extend(self.drift_of(root, &touched)?);
        }
        Ok(found)
    }

    /// Drift of one root that meets these changes of it, which were found a moment ago.
    fn drift_of(&self, root: &OpenRoot, set: &ChangeSet) -> Result<Vec<DriftView>> {
        let mut changes = set.changes.iter().filter(|change| root.tells(change)).peekable();
        if changes.peek().is_none() {
            // Nothing can meet nothing.
            return Ok(Vec::new());
        }
        let origin = DirTree::open(&root.view.path).doing(|| format!("open {}", root.view.path.display()))?;
        let base = Base::load(&self.home, root.index)?;
        let drifted = if root.workspace.sees_origin() {
            workspace::drift_seen(changes, &base, &origin)?
        } else {
            workspace::drift(changes, &base, &origin)?
        };
        Ok(drifted.into_iter().map(|at| root.drifted(at)).collect())
    }

    /// The sums, root by root.
    pub fn counts(&self) -> Result<Vec<RootChanges>> {
        let sums = |delta: RootDelta| RootChanges { counts: delta.counts(), root: delta.root };
        Ok(self.changes()?.into_iter().map(sums).collect())
    }

    /// Bytes on disk that only this lane holds.
    pub fn exclusive_bytes(&self, engine: &Engine) -> Result<u64> {
        // Where it cannot be known who stands on a layer, it is not called this lane's alone.
        let is_shared =
            |id: &str| engine.layer_users().map_or(true, |users| users.get(id).is_some_and(|n| *n > 1));
        self.roots.iter().try_fold(0, |sum, root| Ok(sum + root.workspace.exclusive_bytes(&is_shared)?))
    }

    /// Changes below `$HOME` inside: entries in the upper layers over it. They are never kept.
    pub fn home_changes(&self) -> u64 {
        let mut count = 0;
        for upper in self.home.home_uppers().unwrap_or_default() {
            let _ = tree::walk::walk(std::os::fd::AsFd::as_fd(&upper), &mut |_, entry| {
                count += u64::from(!entry.is_dir());
                tree::walk::Visit::Enter
            });
        }
        count
    }

    /// What drifted in the origins, where it meets the lane's changes.
    pub fn drift(&self, deltas: &[RootDelta]) -> Result<Vec<DriftView>> {
        let mut found = Vec::new();
        for (root, delta) in self.roots.iter().zip(deltas) {
            if delta.set.changes.is_empty() {
                continue;
            }
            let origin =
                DirTree::open(&root.view.path).doing(|| format!("open {}", root.view.path.display()))?;
            let base = Base::load(&self.home, root.index)?;
            let drifted = workspace::drift(&delta.set.changes, &base, &origin)?;
            found.extend(drifted.into_iter().map(|at| root.drifted(at)));
        }
        Ok(found)
    }

    /// What drifted anywhere in the origins.
    pub fn drift_all(&self) -> Result<Vec<DriftView>> {
        let mut found = Vec::new();
        for root in self.roots.iter().filter(|root| !root.view.git) {
            let origin =
                DirTree::open(&root.view.path).doing(|| format!("open {}", root.view.path.display()))?;
            let base = Base::load(&self.home, root.index)?;
            found.extend(
                workspace::drift_all(&base, &origin, &root.skipped)?.into_iter().map(|at| root.drifted(at)),
            );
        }
        Ok(found)
    }

    /// The root that holds a path, and the path in it. `path` is absolute.
    pub fn locate(&self, path: &Path) -> Result<(usize, TreePath)> {
        use std::os::unix::ffi::OsStrExt as _;
        let outside = || EngineError::PathOutside {
            path: path.to_owned(),
            roots: self.roots.iter().map(|r| r.view.path.clone()).collect(),
        };
        // A root may lie in another one: the innermost is meant.
        let holds = |root: &&OpenRoot| path.starts_with(&root.view.path);
        let root = self
            .roots
            .iter()
            .filter(holds)
            .max_by_key(|root| root.view.path.as_os_str().len())
            .ok_or_else(outside)?;
        let inner = path.strip_prefix(&root.view.path).map_err(|_| outside())?;
        let inner = TreePath::new(inner.as_os_str().as_bytes()).map_err(|_| outside())?;
        Ok((root.index, inner))
    }

    /// Path arguments as tree paths, one list for each root.
    pub fn locate_all(&self, dir: &Path, paths: &[PathBuf]) -> Result<Vec<Vec<TreePath>>> {
        let mut found = vec![Vec::new(); self.roots.len()];
        for path in paths {
            let (index, inner) = self.locate(&lexical(dir, path))?;
            found[index].push(inner);
        }
        Ok(found)
    }
}

impl OpenRoot {
    /// What changed in it.
    pub fn changes(&self) -> Result<RootDelta> {
        self.delta_of(self.workspace.changes()?)
    }

    /// What is looked at of some changes.
    pub(crate) fn delta_of(&self, mut set: ChangeSet) -> Result<RootDelta> {
        let before = set.changes.len();
        set.changes.retain(|change| self.tells(change));
        set.gaps.retain(|(path, _)| !self.view.git && !review::guard::git_internal(path));
        let git_internal = (before - set.changes.len()) as u64;
        Ok(RootDelta { root: self.view.path.clone(), index: self.index, set, git_internal })
    }

    /// True for a change that a reviewer looks at: git's own files, and a repository elsewhere, are not shown.
    fn tells(&self, change: &Change) -> bool {
        !self.view.git && !is_git_internal(change)
    }

    fn drifted(&self, at: workspace::Drifted) -> DriftView {
        let kind = match at.what {
            workspace::Drift::Modified => DriftKind::Modified,
            workspace::Drift::Deleted => DriftKind::Deleted,
            workspace::Drift::Created => DriftKind::Created,
            workspace::Drift::Replaced => DriftKind::Replaced,
            workspace::Drift::BaseUnknown => DriftKind::BaseUnknown,
        };
        DriftView { root: self.view.path.clone(), path: at.path, kind }
    }
}

/// A rename out of `.git` or into it is looked at; one inside is not.
fn is_git_internal(change: &Change) -> bool {
    review::guard::git_internal(&change.path) && review::guard::git_internal(change.old_path())
}

/// `path` below `dir` without `.` and `..`, by its letters: it may exist in the lane only.
pub fn lexical(dir: &Path, path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in dir.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::lexical;

    #[test]
    fn dots_in_a_path_argument_are_resolved_by_its_letters() {
        let dir = Path::new("/p/a");
        assert_eq!(lexical(dir, Path::new("./b/../c")), Path::new("/p/a/c"));
        assert_eq!(lexical(dir, Path::new("../../..")), Path::new("/"));
        assert_eq!(lexical(dir, Path::new("/q/r/")), Path::new("/q/r"));
    }
}
