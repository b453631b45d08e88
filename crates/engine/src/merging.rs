//! A keep where the original has changed: lane, base and original of each root brought together, and what is noted of it
//! for the next keep.
//!
//! Invariant: what the original holds besides the lane's changes is no base of the lane; what the lane has there is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use review::composed::Composed;
use review::merge::Names;
use review::plan::{Drifted, KeepPlan, Step, Why};
use review::threeway::{self, Given, Joined, Resolved};
pub use review::threeway::{Clash, Conflicts};
use tree::dir::DirTree;
use tree::{ChangeSet, Entry, Source, TreePath};
use workspace::{Kept, KeptState};

use crate::bases::RootBases;
use crate::engine::Engine;
use crate::error::{Doing as _, Result};
use crate::history::LaneHistory;
use crate::lane::{OpenLane, OpenRoot};
use crate::view::DriftView;

/// The lane's content is noted up to this size where it was merged into the original's.
const NOTED: u64 = 16 << 20;

/// A path on which lane and original do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where, in the lane.
    pub path: TreePath,
    /// Why.
    pub clash: Clash,
    /// How it was settled; `None` where it was not.
    pub settled: Option<Conflicts>,
}

impl ConflictView {
    /// True where a person still has something to do about it.
    pub fn is_open(&self) -> bool {
        matches!(self.settled, None | Some(Conflicts::Markers))
    }
}

/// A path in which the changes of both sides meet and go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where, in the original.
    pub path: TreePath,
    /// In the lane, where it stands elsewhere there.
    pub lane_path: Option<TreePath>,
    /// Lines of both sides are in it; otherwise it is the content of one and the mode or the name of the other.
    pub content: bool,
}

/// What is known when the roots of a lane are brought together with their originals.
pub(crate) struct Ground {
    drift: Vec<DriftView>,
    snapshots: Option<LaneHistory>,
    history: store::History,
    names: Names,
}

/// One root, brought together.
pub(crate) struct Together {
    pub(crate) resolved: Resolved,
    /// The original, where the changes are changes of it as it is now.
    pub(crate) origin: Option<DirTree>,
}

impl Ground {
    pub(crate) fn new(engine: &Engine, lane: &OpenLane, drift: Vec<DriftView>) -> Ground {
        let mut snapshots = None;
        if !drift.is_empty() {
            crate::watch::await_last(&lane.home);
            // A store that cannot be read only takes a source of contents away.
            snapshots = LaneHistory::find(engine, lane).unwrap_or_default();
        }
        let history = snapshots.as_ref().and_then(|snapshots| snapshots.read().ok()).unwrap_or_default();
        let theirs = [b"lane ", lane.row.name.as_bytes()].concat();
        Ground { drift, snapshots, history, names: Names { ours: b"original".to_vec(), theirs } }
    }

    /// Resolves the changes `set` of a root, which were found against `compared`. What is to be brought is put into
    /// `inside`, whose second tree is the original.
    pub(crate) fn resolve(
        &self,
        lane: &OpenLane,
        root: &OpenRoot,
        (set, compared): (&ChangeSet, &dyn Source),
        inside: &mut Composed<'_>,
        how: Conflicts,
    ) -> Result<Together> {
        let here = self.drift.iter().filter(|at| at.root == root.view.path);
        let drift: Vec<Drifted> = here
            .map(|at| Drifted { path: at.path.clone(), why: Why::Drifted(at.kind.word().to_owned()) })
            .collect();
        let bases = RootBases::open(lane, root, &self.drift, self.snapshots.as_ref(), &self.history)?;
        let origin = bases.origin();
        let given = Given { set, drift: &drift, bases: &bases, compared, origin, how, names: &self.names };
        let resolved = threeway::resolve(&given, inside)?;
        let origin = if drift.is_empty() { None } else { Some(origin_of(root)?) };
        Ok(Together { resolved, origin })
    }
}

/// The original of a root.
pub(crate) fn origin_of(root: &OpenRoot) -> Result<DirTree> {
    DirTree::open(&root.view.path).doing(|| format!("open {}", root.view.path.display()))
}

/// What is taken of files in parts: what the lane would have if it had changed no more than that. Without content where that
/// is too much to be noted.
pub(crate) type Parts = BTreeMap<TreePath, (Entry, Option<Vec<u8>>)>;

/// The parts among the changes of a set, read from the tree that shows them.
pub(crate) fn parts(set: &ChangeSet, paths: &BTreeSet<TreePath>, tree: &dyn Source) -> Result<Parts> {
    let mut parts = Parts::new();
    for change in set.changes.iter().filter(|change| paths.contains(&change.path)) {
        let Some(entry) = change.new.clone().filter(Entry::is_file) else { continue };
        let doing = || format!("look at {}", change.path.as_path().display());
        let content = if entry.size <= NOTED {
            let file = tree.open(&change.path).doing(doing)?;
            Some(kernel::bytes::read_all(&file).doing(doing)?)
        } else {
            None
        };
        parts.insert(change.path.clone(), (entry, content));
    }
    Ok(parts)
}

/// Notes what of the lane's own tree is in the original now.
pub(crate) fn note(
    plan: &KeepPlan,
    joined: &[Joined],
    parts: &Parts,
    own: &dyn Source,
    kept: &mut Kept,
) -> Result<()> {
    let state = |entry: &Entry| (entry.ino, entry.size, entry.mtime, entry.mode);
    for step in &plan.steps {
        let (gone, before) = match step {
            Step::MoveDir { from, .. } | Step::Move { from, .. } => (Some(from), None),
            Step::Put { old, .. } => (None, old.as_ref().map(state)),
            Step::Meta { old, .. } => (None, Some(state(old))),
            Step::Delete { path, .. } => (Some(path), None),
        };
        if let Some(gone) = gone {
            kept.note(gone, None);
        }
        if matches!(step, Step::Delete { .. } | Step::MoveDir { .. }) {
            continue;
        }
        let joined = joined.iter().find(|at| at.path == *step.path());
        let path = joined.and_then(|at| at.lane_path.as_ref()).unwrap_or(step.path());
        let doing = || format!("look at {}", path.as_path().display());
        let is_joined = joined.is_some();
        let at = (path != step.path()).then(|| step.path().clone());
        if let Some((lane, content)) = parts.get(path) {
            // CASE(a part was taken): it alone is the base from now on. The lane's own file is more than that, and what it
            // has besides is still to be kept. A part that was put together with edits of the original holds those too,
            // and they are no base of the lane: that stays what it was, and what both sides have then is the same.
            let (lane, content) = (lane.clone(), content.clone().filter(|_| !is_joined));
            kept.note(path, Some(KeptState { lane, before, is_joined, content, at }));
            continue;
        }
        let Some(lane) = own.entry(path).doing(doing)?.filter(Entry::is_file) else {
            // The lane has nothing there that could be told from something else.
            let nothing = is_joined.then(|| KeptState { is_joined, ..KeptState::default() });
            kept.note(path, nothing);
            continue;
        };
        let content = match joined {
            Some(_) if lane.size <= NOTED => {
                let file = own.open(path).doing(doing)?;
                Some(kernel::bytes::read_all(&file).doing(doing)?)
            }
            _ => None,
        };
        kept.note(path, Some(KeptState { lane, before, is_joined, content, at }));
    }
    Ok(())
}
