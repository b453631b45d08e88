//! [`Over`]: what the lanes before one bring in a root, which counts as the original's for it.
//!
//! Invariant: it speaks of the base of nobody: what a path was before any of them is what the original says.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use review::after::{After, compose};
use review::flat::Pair;
use review::plan::{Drifted, Why};
use tree::{Source, TreePath};

use super::lane_plan::LanePlan;
use crate::error::Result;

/// What one lane brings.
pub(super) struct Brought {
    /// Number of the lane.
    pub(super) lane: usize,
    /// On what stood before it.
    pub(super) pairs: Vec<Pair>,
    /// Every path of those.
    pub(super) paths: BTreeSet<TreePath>,
    /// What becomes of what stood before it: where it stands, or that it is gone.
    road: BTreeMap<TreePath, Option<TreePath>>,
}

impl Brought {
    /// Where what stood at `path` stands after it; the second is true where this lane did something to it.
    pub(super) fn place(&self, path: &TreePath) -> (Option<TreePath>, bool) {
        match self.road.get(path) {
            Some(place) => (place.clone(), true),
            None => (Some(path.clone()), self.paths.contains(path)),
        }
    }
}

/// What several lanes bring.
pub(crate) struct Over {
    /// The root with it.
    pub(crate) tree: Rc<dyn Source>,
    /// All of it as one, on the original.
    pub(super) pairs: Vec<Pair>,
    /// Lane by lane.
    pub(super) brought: Vec<Brought>,
    /// Where they put what the original had: files and directories.
    moved: BTreeMap<TreePath, TreePath>,
    names: Vec<String>,
    /// Paths at which the tree is what a lane started from, and not what the original is now.
    set_back: BTreeSet<TreePath>,
}

impl Over {
    /// Nothing yet. `names` are those of all lanes.
    pub(super) fn new(origin: Rc<dyn Source>, set_back: BTreeSet<TreePath>, names: Vec<String>) -> Over {
        Over { tree: origin, pairs: Vec::new(), brought: Vec::new(), moved: BTreeMap::new(), names, set_back }
    }

    /// True where what stands is the original as it is.
    pub(super) fn is_nothing(&self) -> bool {
        self.brought.is_empty() && self.set_back.is_empty()
    }

    /// And what one more brings.
    pub(super) fn add(&mut self, lane: usize, planned: &LanePlan) -> Result<()> {
        let pairs = review::outcome::pairs(&planned.plan, &*self.tree)?;
        if pairs.is_empty() {
            return Ok(());
        }
        let from: Rc<dyn Source> = Rc::<review::composed::Composed<'static>>::clone(&planned.inside);
        self.tree = Rc::new(After::new(Rc::clone(&self.tree), from, &pairs));
        let road: BTreeMap<TreePath, Option<TreePath>> = pairs
            .iter()
            .filter_map(|pair| {
                let (old, _) = pair.old.as_ref()?;
                Some((old.clone(), pair.new.as_ref().map(|(new, _)| new.clone())))
            })
            .collect();
        let sides =
            |pair: &Pair| [pair.old.clone(), pair.new.clone()].into_iter().flatten().map(|side| side.0);
        let paths: BTreeSet<TreePath> = pairs.iter().flat_map(sides).collect();
        let came =
            |path: &TreePath| pairs.iter().any(|pair| pair.new.as_ref().is_some_and(|new| new.0 == *path));
        let dirs = planned
            .moved_dirs
            .iter()
            .filter(|(from, to)| road.get(from) != Some(&Some(from.clone())) && came(to));
        let files = pairs
            .iter()
            .filter(|pair| pair.is_rename())
            .filter_map(|pair| Some((pair.old.as_ref()?.0.clone(), pair.new.as_ref()?.0.clone())));
        let renames: BTreeMap<TreePath, TreePath> = dirs.cloned().chain(files).collect();
        for place in self.moved.values_mut() {
            if let Some(to) = renames.get(place) {
                place.clone_from(to);
            }
        }
        let known: BTreeSet<TreePath> = self.moved.values().cloned().collect();
        for (from, to) in renames.into_iter().filter(|(_, to)| !known.contains(to)) {
            self.moved.entry(from).or_insert(to);
        }
        self.pairs = compose(std::mem::take(&mut self.pairs), &pairs);
        self.brought.push(Brought { lane, pairs, paths, road });
        Ok(())
    }

    /// Every path that they touch, as what the original changed.
    pub(crate) fn drift(&self) -> impl Iterator<Item = Drifted> + '_ {
        let brought = self.brought.iter().flat_map(|brought| &brought.paths);
        let paths: BTreeSet<&TreePath> = brought.chain(&self.set_back).collect();
        paths.into_iter().map(|path| Drifted { path: path.clone(), why: Why::Drifted("kept".to_owned()) })
    }

    /// Where they put what stood at `path`.
    pub(crate) fn moved(&self, path: &TreePath) -> Option<&TreePath> {
        self.moved.get(path)
    }

    /// The lanes that touch one of these paths, by number.
    pub(super) fn at<'p>(&self, paths: impl Iterator<Item = &'p TreePath> + Clone) -> Vec<usize> {
        let is_at = |brought: &&Brought| paths.clone().any(|path| brought.paths.contains(path));
        self.brought.iter().filter(is_at).map(|brought| brought.lane).collect()
    }

    /// Their names, where any touches the path.
    pub(crate) fn names_at(&self, path: &TreePath) -> Vec<&str> {
        self.at(std::iter::once(path))
            .into_iter()
            .filter_map(|lane| self.names.get(lane))
            .map(String::as_str)
            .collect()
    }
}
