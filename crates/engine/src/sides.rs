//! [`Side`]: what a diff has on either side, and the comparison of two sides at a cost that follows what can differ.
//!
//! Invariant: a path that is left out of the comparison has nothing of either side's layers on it or below it, so that
//! both show the base there.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use store::{ItemKind, Manifest, Record, SnapshotId};
use tree::compare::{CompareOptions, compare};
use tree::equal::Equalled;
use tree::rename::find_renames;
use tree::source::Xattr;
use tree::walk::{Visit, walk};
use tree::{ChangeSet, Entry, Layer, Source, TreePath};

use crate::error::{Doing as _, EngineError, Result};
use crate::history::LaneHistory;
use crate::lane::{OpenLane, OpenRoot};

/// One side of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// What the lane started from; for paths that it changed, as they were then.
    Base,
    /// The origin as it is now.
    Origin,
    /// The lane as it is now.
    Now,
    /// A snapshot.
    Snapshot(SnapshotId),
}

impl Side {
    /// The side that a word means; `None` where it means none.
    pub fn of(word: &str, snapshots: Option<&LaneHistory>, history: &store::History) -> Result<Option<Side>> {
        Ok(match word {
            "base" => Some(Side::Base),
            "origin" => Some(Side::Origin),
            "now" => Some(Side::Now),
            _ => match snapshots {
                Some(snapshots) if !history.candidates(word).is_empty() => {
                    Some(Side::Snapshot(snapshots.resolve(history, word)?))
                }
                _ => None,
            },
        })
    }
}

/// Paths at which two sides may differ: `true` where everything below may, too.
type May = BTreeMap<TreePath, bool>;

/// Two trees of one root, with their differences.
#[expect(missing_debug_implementations, reason = "trees have none")]
pub struct Compared<'g> {
    /// The left side.
    pub left: Box<dyn Source + 'g>,
    /// The right side.
    pub right: Box<dyn Source + 'g>,
    /// What differs, with renames found.
    pub set: ChangeSet,
}

/// Everything that the sides of one root are made of.
pub struct Ground<'g> {
    /// The lane.
    pub lane: &'g OpenLane,
    /// Its root.
    pub root: &'g OpenRoot,
    /// Its snapshots.
    pub snapshots: Option<&'g LaneHistory>,
    /// Their records.
    pub history: &'g store::History,
}

impl std::fmt::Debug for Ground<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("root", &self.root.index).finish_non_exhaustive()
    }
}

impl<'g> Ground<'g> {
    /// Compares two sides.
    pub fn compare(&self, left: &Side, right: &Side) -> Result<Compared<'g>> {
        let may = self.may(left, right)?;
        let doing = || format!("compare {}", self.root.view.path.display());
        let (left, right) = (self.source(left)?, self.source(right)?);
        let skip = self.root.skipped.clone();
        let options = CompareOptions { skip: &skip, ..CompareOptions::default() };
        let set =
            compare(&Narrow { inner: &*left, may: &may }, &Narrow { inner: &*right, may: &may }, options)
                .doing(doing)?;
        let set = find_renames(set, &*left, &*right);
        Ok(Compared { left, right, set })
    }

    /// Makes the root's view, of which `top` is the top, what `right` is, wherever that differs from `left`.
    pub fn make_equal(&self, left: &Side, right: &Side, top: BorrowedFd<'_>) -> Result<Equalled> {
        let may = self.may(left, right)?;
        let (left, right) = (self.source(left)?, self.source(right)?);
        let (have, want) = (Narrow { inner: &*left, may: &may }, Narrow { inner: &*right, may: &may });
        tree::equal::make_equal(top, &want, &have)
            .doing(|| format!("restore {}", self.root.view.path.display()))
    }

    /// The paths at which two sides may differ.
    fn may(&self, left: &Side, right: &Side) -> Result<May> {
        let mut may = May::new();
        match (left, right) {
            (Side::Snapshot(a), Side::Snapshot(b)) => {
                let (a, b) = (self.manifest(*a)?, self.manifest(*b)?);
                for difference in a.diff(&b)? {
                    let (path, old, new) = difference?;
                    let cuts = [&old, &new].into_iter().flatten().any(cuts)
                        || old.is_none() != new.is_none()
                            && [&old, &new].into_iter().flatten().any(|item| !item.is_dir());
                    may.insert(path, cuts);
                }
            }
            _ => {
                for side in [left, right] {
                    self.touched(side, &mut may)?;
                }
            }
        }
        Ok(may)
    }

    fn record(&self, id: SnapshotId) -> Result<&'g store::Root> {
        let record: Option<&Record> = self.history.get(id);
        record.and_then(|record| record.roots.get(self.root.index)).ok_or_else(|| self.missing(id))
    }

    fn manifest(&self, id: SnapshotId) -> Result<Manifest<'g>> {
        let top = self.record(id)?.top;
        Ok(self.snapshots.ok_or_else(|| self.missing(id))?.store.manifest(top))
    }

    fn missing(&self, id: SnapshotId) -> EngineError {
        let lane = self.lane.row.name.clone();
        EngineError::NoSuchSnapshot { lane, reference: crate::history::short(id) }
    }

    /// Adds the paths that a side's own layer has anything on.
    fn touched(&self, side: &Side, may: &mut May) -> Result<()> {
        match side {
            Side::Base | Side::Origin => {
                // Where the origin has drifted under the lane's changes, base and origin differ.
                if let Some(base) = self.base_contents()? {
                    for entry in base.iter()? {
                        may.entry(entry?.0).or_insert(false);
                    }
                }
            }
            Side::Snapshot(id) => {
                for entry in self.manifest(*id)?.iter()? {
                    let (path, item) = entry?;
                    let all = may.entry(path).or_insert(false);
                    *all |= cuts(&item);
                }
            }
            Side::Now => {
                if let Some(stack) = self.root.workspace.stacked()? {
                    return stack_touched(&stack, may);
                }
                let layer = self.root.workspace.layer()?;
                let mut note = |path: &TreePath, entry: &Entry| {
                    let all = may.entry(path.clone()).or_insert(false);
                    // Its marks are not asked for one by one: a directory that came new into the layer, or a whiteout,
                    // speaks for everything below.
                    *all |= !entry.is_dir();
                    Visit::Enter
                };
                for (path, why) in walk(std::os::fd::AsFd::as_fd(&layer.fd), &mut note) {
                    let _ = why;
                    may.insert(path, true);
                }
                for path in opaque_dirs(&layer, may)? {
                    may.insert(path, true);
                }
            }
        }
        Ok(())
    }

    fn base_contents(&self) -> Result<Option<Manifest<'g>>> {
        let at = self.history.position().and_then(|id| self.history.get(id));
        let contents = at.and_then(|record| record.roots.get(self.root.index)?.base_contents);
        Ok(self.snapshots.zip(contents).map(|(snapshots, id)| snapshots.store.manifest(id)))
    }

    fn source(&self, side: &Side) -> Result<Box<dyn Source + 'g>> {
        let base = || self.root.workspace.base_tree();
        Ok(match side {
            Side::Origin => base()?,
            Side::Base => match self.base_contents()? {
                Some(contents) => contents.over(base()?),
                None => base()?,
            },
            Side::Now => self.root.workspace.lane_tree()?,
            Side::Snapshot(id) => {
                let manifest = self.manifest(*id)?;
                if self.root.workspace.layer()?.is_whole { manifest.tree() } else { manifest.over(base()?) }
            }
        })
    }
}

/// True for an entry of a layer through which nothing below shows.
fn cuts(item: &store::Item) -> bool {
    !matches!(item.kind, ItemKind::Dir { opaque: false, redirect: None })
}

/// The same of a layer that is several.
fn stack_touched(stack: &dyn Layer, may: &mut May) -> Result<()> {
    let doing = || "read the lane's layers".to_owned();
    let mut open = vec![TreePath::root()];
    while let Some(dir) = open.pop() {
        may.entry(dir.clone()).or_insert(false);
        for (name, entry) in stack.names(&dir, true).doing(doing)? {
            let path = dir.join(name);
            if !entry.is_some_and(|entry| entry.is_dir()) {
                may.insert(path, true);
                continue;
            }
            let marks = stack.marks(&path).doing(doing)?;
            *may.entry(path.clone()).or_insert(false) |= marks.opaque || marks.redirect.is_some();
            open.push(path);
        }
    }
    Ok(())
}

/// Directories of a layer that are opaque or redirected.
fn opaque_dirs(layer: &workspace::LayerAt, may: &May) -> Result<Vec<TreePath>> {
    if layer.is_whole {
        return Ok(Vec::new());
    }
    let doing = || "read the layer's marks".to_owned();
    let mut found = Vec::new();
    for (path, _) in may.iter().filter(|(path, all)| !**all && !path.is_root()) {
        let Ok(dir) = kernel::open::dir_beneath(&layer.fd, path.as_bytes()) else { continue };
        let marks = tree::layer::dir_marks(&dir, b"", layer.format).doing(doing)?;
        if marks.opaque || marks.redirect.is_some() {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// A tree of which only some paths are seen.
struct Narrow<'n> {
    inner: &'n dyn Source,
    may: &'n May,
}

impl Narrow<'_> {
    /// True where everything below `path` is seen.
    fn is_all(&self, path: &TreePath) -> bool {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if self.may.get(&path).copied().unwrap_or(false) {
                return true;
            }
            at = path.parent();
        }
        false
    }

    /// Names in `path` that lead to something that is seen.
    fn names(&self, path: &TreePath) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (below, _) in self.may.range(path.clone()..) {
            if !below.starts_with(path) {
                // Sorted component by component, what is below a path follows it directly.
                break;
            }
            let Some(rest) = below.strip_prefix(path) else { continue };
            if let Some(name) = rest.components().next()
                && names.last().is_none_or(|last| last != name)
            {
                names.push(name.to_vec());
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

impl Source for Narrow<'_> {
    fn entry(&self, path: &TreePath) -> kernel::Result<Option<Entry>> {
        self.inner.entry(path)
    }

    fn list(&self, path: &TreePath) -> kernel::Result<Vec<Vec<u8>>> {
        Ok(self.list_entries(path)?.into_iter().map(|(name, _)| name).collect())
    }

    fn open(&self, path: &TreePath) -> kernel::Result<OwnedFd> {
        self.inner.open(path)
    }

    fn xattrs(&self, path: &TreePath) -> kernel::Result<Vec<Xattr>> {
        self.inner.xattrs(path)
    }

    fn list_entries(&self, path: &TreePath) -> kernel::Result<Vec<(Vec<u8>, Entry)>> {
        if self.is_all(path) {
            return self.inner.list_entries(path);
        }
        let mut found = Vec::new();
        for name in self.names(path) {
            if let Some(entry) = self.inner.entry(&path.join(&name))? {
                found.push((name, entry));
            }
        }
        Ok(found)
    }
}
