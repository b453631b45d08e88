//! `compare`: the same files in two lanes of one project, side by side.
//!
//! Invariant: it only reads. Two files are called the same where type, permission bits and every byte are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use review::diff::FileDiff;
use review::flat::Pair;
use tree::{Change, Entry, Kind, Source, TreePath};

use crate::describe;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::find;
use crate::lane::{self, OpenLane};
use crate::view::LaneView;

/// A tree of either lane.
type Both<'t> = (Box<dyn Source + 't>, Box<dyn Source + 't>);

/// Two lanes that are to be looked at together.
#[derive(Debug)]
pub struct Two {
    lanes: [OpenLane; 2],
    /// What they are.
    pub views: [LaneView; 2],
}

/// How a path stands in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// Only the first lane changed it.
    Left,
    /// Only the second one did.
    Right,
    /// Both changed it to the same.
    Same,
    /// Both changed it, and not to the same.
    Different,
}

impl Meeting {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Meeting::Left => "left",
            Meeting::Right => "right",
            Meeting::Same => "same",
            Meeting::Different => "different",
        }
    }
}

/// A path that either lane changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Met {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Number of that root in the first lane.
    pub root_index: usize,
    /// Where.
    pub path: TreePath,
    /// What either lane did to it.
    pub changes: [Option<Change>; 2],
    /// How they stand to each other.
    pub meeting: Meeting,
}

/// One file as both lanes have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What stands there in either.
    pub entries: [Option<Entry>; 2],
    /// From the first to the second.
    pub diff: FileDiff,
}

/// Opens two lanes.
pub fn open(engine: &Engine, dir: &Path, names: [&str; 2]) -> Result<Two> {
    let one = |name| -> Result<(OpenLane, LaneView)> {
        let row = find::lane(engine, dir, Some(name), |_| true)?;
        let view = describe::lane(engine, &row)?;
        Ok((lane::open(engine, row)?, view))
    };
    let ((left, left_view), (right, right_view)) = (one(names[0])?, one(names[1])?);
    Ok(Two { lanes: [left, right], views: [left_view, right_view] })
}

impl Two {
    /// Roots that both lanes have: the number in either.
    fn shared(&self) -> Vec<(usize, usize)> {
        let [left, right] = &self.lanes;
        let other = |path: &Path| right.roots.iter().find(|root| root.view.path == path);
        left.roots.iter().filter_map(|root| Some((root.index, other(&root.view.path)?.index))).collect()
    }

    /// Every path that either lane changed, sorted, of the roots that both have; those below `.git` are left out.
    pub fn files(&self) -> Result<Vec<Met>> {
        let [left, right] = &self.lanes;
        let (mut lefts, mut rights) = (left.changes()?, right.changes()?);
        let mut all = Vec::new();
        for (a, b) in self.shared() {
            let mut met: BTreeMap<TreePath, [Option<Change>; 2]> = BTreeMap::new();
            for (side, deltas, index) in [(0, &mut lefts, a), (1, &mut rights, b)] {
                for delta in deltas.iter_mut().filter(|delta| delta.index == index) {
                    for change in std::mem::take(&mut delta.set.changes) {
                        let path = change.path.clone();
                        met.entry(path).or_default()[side] = Some(change);
                    }
                }
            }
            let trees = self.trees(a, b)?;
            for (path, changes) in met {
                let meeting = match &changes {
                    [Some(_), None] => Meeting::Left,
                    [None, _] => Meeting::Right,
                    [Some(one), Some(other)] if is_same(&path, [one, other], &trees)? => Meeting::Same,
                    [Some(_), Some(_)] => Meeting::Different,
                };
                all.push(Met {
                    root: left.roots[a].view.path.clone(),
                    root_index: a,
                    path,
                    changes,
                    meeting,
                });
            }
        }
        Ok(all)
    }

    /// One path of a root of the first lane, in both.
    pub fn file(&self, root: usize, path: &TreePath) -> Result<Compared> {
        let Some((a, b)) = self.shared().into_iter().find(|(a, _)| *a == root) else {
            return Err(EngineError::NothingThere { path: path.clone() });
        };
        let trees = self.trees(a, b)?;
        let entry = |tree: &dyn Source| {
            tree.entry(path)
                .map_err(|error| EngineError::Kernel { doing: format!("look at {path:?}"), source: error })
        };
        let entries = [entry(&*trees[0])?, entry(&*trees[1])?];
        let side = |entry: &Option<Entry>| entry.clone().map(|entry| (path.clone(), entry));
        let pair = Pair { old: side(&entries[0]), new: side(&entries[1]), content_differs: true };
        let diff = review::stat::pair_diff(&pair, &*trees[0], &*trees[1])?;
        Ok(Compared { entries, diff })
    }

    /// Both lanes' trees of a root of the first one.
    pub(crate) fn lane_trees(&self, root: usize) -> Result<Both<'_>> {
        let [left, right] = self.roots(root)?;
        Ok((left.workspace.lane_tree()?, right.workspace.lane_tree()?))
    }

    /// What both are compared with.
    pub(crate) fn base_trees(&self, root: usize) -> Result<Both<'_>> {
        let [left, right] = self.roots(root)?;
        Ok((left.workspace.base_tree()?, right.workspace.base_tree()?))
    }

    fn roots(&self, root: usize) -> Result<[&lane::OpenRoot; 2]> {
        let missing = || EngineError::NothingThere { path: TreePath::root() };
        let (a, b) = self.shared().into_iter().find(|(a, _)| *a == root).ok_or_else(missing)?;
        Ok([&self.lanes[0].roots[a], &self.lanes[1].roots[b]])
    }

    fn trees(&self, a: usize, b: usize) -> Result<[Box<dyn Source + '_>; 2]> {
        Ok([self.lanes[0].roots[a].workspace.lane_tree()?, self.lanes[1].roots[b].workspace.lane_tree()?])
    }
}

fn is_same(path: &TreePath, changes: [&Change; 2], trees: &[Box<dyn Source + '_>; 2]) -> Result<bool> {
    let (one, other) = match (&changes[0].new, &changes[1].new) {
        (None, None) => return Ok(true),
        (Some(one), Some(other)) => (one, other),
        _ => return Ok(false),
    };
    if one.kind != other.kind || one.mode != other.mode || one.target != other.target {
        return Ok(false);
    }
    if one.kind != Kind::File {
        return Ok(true);
    }
    if one.size != other.size {
        return Ok(false);
    }
    let doing = |source| EngineError::Kernel { doing: format!("compare {path:?}"), source };
    let (one, other) = (trees[0].open(path).map_err(doing)?, trees[1].open(path).map_err(doing)?);
    kernel::bytes::same_content(&one, &other).map_err(doing)
}
