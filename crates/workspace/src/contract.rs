//! [`Workspace`]: the contract of every strategy, for one root of a lane. Whoever holds one knows nothing
//! of how it is made.
//!
//! Invariant: for the same edits every strategy gives the same [`ChangeSet`]; none ever writes the origin.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use kernel::mountspec::{MountSpec, MountWhat};
use tree::copy::Progress;
use tree::layer::Format;
use tree::{ChangeSet, Recall, Source, Stack, TreePath};

use crate::choose::Strategy;
use crate::error::Result;
use crate::fork::{Forked, Making};
use crate::home::{LaneHome, Layers, MountMode};
use crate::{CopyWorkspace, OverlayWorkspace};

/// What it cost to make a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time.
    pub elapsed: Duration,
    /// Bytes newly allocated.
    pub allocated: u64,
    /// Files made.
    pub files: u64,
    /// Files among them that share their bytes with the origin.
    pub cloned: u64,
    /// What the lane does not have of its origin, with the reason; never silently dropped.
    pub left_out: Vec<(TreePath, String)>,
}

/// A writable view of one root, made by some strategy.
pub trait Workspace: std::fmt::Debug {
    /// Which strategy made it.
    fn strategy(&self) -> Strategy;

    /// Makes it, once, for a new lane. Interrupted, it can be called again.
    fn prepare(&self, progress: &mut dyn FnMut(Progress)) -> Result<Cost>;

    /// Makes it ready for one more mount. Called by the holder of the lane's lock, with nothing mounted.
    fn before_mount(&self) -> Result<()>;

    /// The mount that shows it at the origin's own path. Called by the holder of the lane's lock.
    fn view(&self) -> Result<MountSpec>;

    /// What differs from the base, sorted, with renames found.
    fn changes(&self) -> Result<ChangeSet>;

    /// What was written in the lane, at a cost that does not follow its bytes: nothing equal is looked for by
    /// reading, no renames, and of a directory that is new as a whole its top may stand for it. For questions about
    /// paths of the base, never for keeping.
    fn touched(&self) -> Result<ChangeSet> {
        self.changes()
    }

    /// As [`Workspace::changes`], for sums alone: what `recall` remembers of content is not read again. `plain` is
    /// shown the changes before renames are looked for, where that is done.
    fn sums(&self, recall: &Recall, plain: &mut dyn FnMut(&ChangeSet)) -> Result<ChangeSet> {
        let _ = recall;
        let set = self.changes()?;
        plain(&set);
        Ok(set)
    }

    /// True where the `old` of a change is what stands in the origin now, and not what was recorded of it once.
    fn sees_origin(&self) -> bool {
        false
    }

    /// The tree as it is inside.
    fn lane_tree(&self) -> Result<Box<dyn Source>>;

    /// The tree that it is compared with.
    fn base_tree(&self) -> Result<Box<dyn Source>>;

    /// Makes the lane independent of these paths of the origin, which are about to change. False where it
    /// would have to write for that and must not, because the lane is mounted.
    fn stand_alone(&self, touched: &[TreePath], may_write: bool) -> Result<bool> {
        let _ = (touched, may_write);
        Ok(true)
    }

    /// The layer that holds what was written, for those who take it and put it back.
    fn layer(&self) -> Result<LayerAt>;

    /// Makes the layers of the same root in `child`, a new lane, show what this one shows. Called by the holder of both
    /// locks, with nothing mounted.
    fn fork(&self, child: &LaneHome, making: &mut Making<'_>) -> Result<Forked>;

    /// Makes the layers of the same root in `child`, a lane for one run, show what this one shows, and gives the view of
    /// it. Nothing of this one is written, moved or sealed; the child may stand on its layers as they are, so the caller
    /// keeps everybody from writing them (with the lane's lock) for as long as the child is used.
    fn lend(&self, child: &LaneHome, making: &mut Making<'_>) -> Result<(Box<dyn Workspace>, Cost)>;

    /// Makes [`Workspace::layer`] hold everything that was written, where it stands on former ones; false where it does.
    /// Called by the holder of the lane's lock, with nothing mounted.
    fn unite(&self, progress: &mut dyn FnMut(Progress)) -> Result<bool> {
        let _ = progress;
        Ok(false)
    }

    /// Makes the layers of the same root in `child`, a new lane, with nothing in them: for a state that is then put there.
    /// Called by the holder of the child's lock.
    fn begin_in(&self, child: &LaneHome) -> Result<()>;

    /// Everything that was written as one layer, where [`Workspace::layer`] stands on former ones.
    fn stacked(&self) -> Result<Option<Stack<'static>>> {
        Ok(None)
    }

    /// The former ones alone, as one layer.
    fn former(&self) -> Result<Option<Stack<'static>>> {
        Ok(None)
    }

    /// True where [`Workspace::layer`] stands on former ones, which hold the rest of what was written.
    fn is_stacked(&self) -> Result<bool> {
        Ok(false)
    }

    /// Bytes allocated for this lane alone; `is_shared` knows of a sealed layer whether other lanes stand on it.
    fn exclusive_bytes(&self, is_shared: &dyn Fn(&str) -> bool) -> Result<u64>;

    /// Deletes its layers. The lane's own directory is [`LaneHome::remove`]'s.
    fn remove(self: Box<Self>) -> Result<()>;
}

/// A lane's writable layer, opened.
#[derive(Debug)]
pub struct LayerAt {
    /// The layer, or the whole copy.
    pub fd: OwnedFd,
    /// How its marks are written.
    pub format: Format,
    /// It is the whole tree, with nothing below it.
    pub is_whole: bool,
    /// The directory that it stands in.
    pub dir: OwnedFd,
    /// What the names of this root begin with there.
    pub stem: String,
}

/// Which root of a lane, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// 0 is the origin, others are further directories.
    pub index: usize,
    /// Its path: absolute, without links.
    pub origin: PathBuf,
    /// The strategy that was chosen.
    pub strategy: Strategy,
    /// How overlays are mounted.
    pub mode: MountMode,
    /// Directories of ours (state, layers). Where they lie inside the origin they are no part of it.
    pub ours: Vec<PathBuf>,
}

impl Root {
    /// Those of our own directories that lie inside the root.
    pub fn skipped(&self) -> Vec<TreePath> {
        use std::os::unix::ffi::OsStrExt as _;
        let inside =
            |dir: &PathBuf| TreePath::new(dir.strip_prefix(&self.origin).ok()?.as_os_str().as_bytes()).ok();
        self.ours.iter().filter_map(inside).filter(|path| !path.is_root()).collect()
    }
}

/// The workspace of one root of a lane; its layers have been placed by [`LaneHome::add_root`].
pub fn workspace(home: &LaneHome, root: &Root) -> Result<Box<dyn Workspace>> {
    let layers: Layers = home.layers(root.index)?;
    Ok(match root.strategy {
        Strategy::Overlay => Box::new(OverlayWorkspace::new(root.clone(), layers)),
        Strategy::Copy => Box::new(CopyWorkspace::new(root.clone(), layers, home)?),
    })
}

/// Read-only mounts that show, inside, what is mounted below an origin outside: nothing just vanishes.
pub fn attached(submounts: &[PathBuf]) -> Vec<MountSpec> {
    let bind = |path: &PathBuf| MountSpec {
        what: MountWhat::Bind { source: path.clone(), recursive: true },
        target: path.clone(),
        read_only: true,
        no_exec: false,
    };
    // A bind takes along what is mounted below it.
    let mut tops: Vec<&PathBuf> = Vec::new();
    let mut sorted: Vec<&PathBuf> = submounts.iter().collect();
    sorted.sort();
    for path in sorted {
        if tops.last().is_none_or(|top| !path.starts_with(top)) {
            tops.push(path);
        }
    }
    tops.into_iter().map(bind).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use kernel::mountspec::{MountSpec, MountWhat};

    use super::{Root, attached};
    use crate::choose::Strategy;
    use crate::home::MountMode;

    #[test]
    fn b13_what_is_mounted_below_comes_back_read_only_each_tree_once() {
        let points: Vec<PathBuf> = ["/p/a b", "/p/a b/deep", "/p/a", "/p/a/x/y"].map(PathBuf::from).to_vec();
        let bind = |path: &str| MountSpec {
            what: MountWhat::Bind { source: path.into(), recursive: true },
            target: path.into(),
            read_only: true,
            no_exec: false,
        };
        assert_eq!(attached(&points), [bind("/p/a"), bind("/p/a b")]);
    }

    #[test]
    fn only_our_directories_inside_the_root_are_skipped() {
        let root = Root {
            index: 0,
            origin: "/home/u".into(),
            strategy: Strategy::Overlay,
            mode: MountMode::User,
            ours: ["/home/u/.local/state/lanekeeper", "/home/.lanekeeper", "/home/u", "/home/user"]
                .map(PathBuf::from)
                .to_vec(),
        };
        let skipped: Vec<_> = root.skipped().iter().map(|path| path.as_bytes().to_vec()).collect();
        assert_eq!(skipped, [b".local/state/lanekeeper".to_vec()]);
    }
}
