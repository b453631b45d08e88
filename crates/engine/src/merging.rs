//! A keep where the original has changed: lane, base and original of each root brought together, and what is noted of it
//! for the next keep.
//!
//! Invariant: what the original holds besides the lane's changes is no base of the lane; what the lane has there is.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use review::composed::{Composed, Made};
use review::merge::Names;
use review::plan::{Drifted, Step, Why};
use review::threeway::{self, Base, Bases, Given, Joined, Resolved};
pub use review::threeway::{Clash, Conflicts};
use tree::dir::DirTree;
use tree::source::Xattr;
use tree::{ChangeSet, Entry, Source, Time, TreePath};
use workspace::{Kept, KeptState, Manifest};

use crate::bases::RootBases;
use crate::engine::Engine;
use crate::error::{Doing as _, Result};
use crate::history::LaneHistory;
use crate::lane::{OpenLane, OpenRoot};
use crate::ops::keep::Over;
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
    /// The lane; `None` where one lane is kept.
    pub lane: Option<String>,
    /// The lanes that it does not go together with; none where that is the original alone.
    pub with: Vec<String>,
    /// The branch that it does not go together with, where that is none of the original's files.
    pub branch: Option<String>,
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
    /// The original, or what stands there with the lanes before, where the changes are changes of that.
    pub(crate) against: Option<Box<dyn Source>>,
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
    /// `inside`, whose second tree is the original, with what the lanes before bring (`over`).
    pub(crate) fn resolve(
        &self,
        lane: &OpenLane,
        root: &OpenRoot,
        (set, compared): (&ChangeSet, &dyn Source),
        inside: &mut Composed<'_>,
        (how, over): (Conflicts, Option<&Over>),
    ) -> Result<Together> {
        let here = || self.drift.iter().filter(|at| at.root == root.view.path);
        let mut drift: Vec<Drifted> = here()
            .map(|at| Drifted { path: at.path.clone(), why: Why::Drifted(at.kind.word().to_owned()) })
            .collect();
        let bases = RootBases::open(lane, root, &self.drift, self.snapshots.as_ref(), &self.history)?;
        let Some(over) = over else {
            let (origin, names) = (bases.origin(), |_: &TreePath| self.names.clone());
            let given = Given { set, drift: &drift, bases: &bases, compared, origin, how, names: &names };
            let resolved = threeway::resolve(&given, inside)?;
            let against: Option<Box<dyn Source>> =
                if drift.is_empty() { None } else { Some(Box::new(origin_at(&root.view.path)?)) };
            return Ok(Together { resolved, against });
        };
        let names = |path: &TreePath| {
            let lanes = over.names_at(path);
            let mut ours: Vec<String> = lanes.iter().map(|lane| format!("lane {lane}")).collect();
            if ours.is_empty() || here().any(|at| at.path == *path) {
                ours.insert(0, "original".to_owned());
            }
            Names { ours: ours.join(", ").into_bytes(), theirs: self.names.theirs.clone() }
        };
        drift.extend(over.drift());
        let (bases, origin) = (OverBases { own: bases, over }, &*over.tree);
        let given = Given { set, drift: &drift, bases: &bases, compared, origin, how, names: &names };
        let resolved = threeway::resolve(&given, inside)?;
        Ok(Together { resolved, against: Some(Box::new(Rc::clone(&over.tree))) })
    }
}

/// The base of a lane whose changes are brought to what other lanes bring: that has nothing to do with it, but for where
/// things stand now.
struct OverBases<'o> {
    own: RootBases<'o>,
    over: &'o Over,
}

impl Bases for OverBases<'_> {
    fn base(&self, path: &TreePath) -> review::Result<Base> {
        self.own.base(path)
    }

    fn content(&self, path: &TreePath, entry: &Entry) -> review::Result<Option<OwnedFd>> {
        self.own.content(path, entry)
    }

    fn xattrs(&self, path: &TreePath, entry: &Entry) -> review::Result<Option<Vec<Xattr>>> {
        self.own.xattrs(path, entry)
    }

    fn moved(&self, path: &TreePath, entry: &Entry) -> review::Result<Option<TreePath>> {
        if let Some(place) = self.over.moved(path) {
            return Ok(Some(place.clone()));
        }
        // A lane took it away, and nobody has it elsewhere.
        if matches!(self.own.origin().entry(path), Ok(Some(_))) {
            return Ok(None);
        }
        let moved = self.own.moved(path, entry)?;
        Ok(moved.map(|at| self.over.moved(&at).cloned().unwrap_or(at)))
    }

    fn is_kept(&self, path: &TreePath, now: &Entry) -> bool {
        self.own.is_kept(path, now)
    }

    fn moved_by_lane(&self, path: &TreePath) -> Option<TreePath> {
        self.over.moved(path).cloned()
    }
}

/// The original at a path as it was when lanes began, wherever that is known, with the paths at which it is something else
/// by now. Of several lanes the first one counts.
pub(crate) fn as_started<'l>(
    path: &Path,
    lanes: impl Iterator<Item = (&'l Ground, &'l OpenLane, usize)>,
) -> Result<(Composed<'static>, BTreeSet<TreePath>)> {
    let mut tree = Composed::new(Box::new(origin_at(path)?), Box::new(origin_at(path)?));
    let mut set_back = BTreeSet::new();
    for (ground, lane, index) in lanes {
        let root = &lane.roots[index];
        let here: Vec<&DriftView> = ground.drift.iter().filter(|at| at.root == path).collect();
        if here.is_empty() {
            continue;
        }
        let bases = RootBases::open(lane, root, &ground.drift, ground.snapshots.as_ref(), &ground.history)?;
        for at in here {
            if set_back.contains(&at.path) {
                continue;
            }
            let doing = || format!("read what {} was", at.path.as_path().display());
            match bases.base(&at.path)? {
                Base::Unknown => continue,
                Base::Nothing => tree.hide(&at.path),
                Base::Has(was) if was.is_file() => {
                    let Some(content) = bases.content(&at.path, &was)? else { continue };
                    let xattrs = bases.xattrs(&at.path, &was)?.unwrap_or_default();
                    let content = kernel::bytes::read_all(&content).doing(doing)?;
                    let made = Made::write(lane.home.dir().fd.as_fd(), &content).doing(doing)?;
                    tree.put(&at.path, made, &was, xattrs).doing(doing)?;
                }
                Base::Has(_) => continue,
            }
            set_back.insert(at.path.clone());
        }
    }
    Ok((tree, set_back))
}

/// The original at a path.
pub(crate) fn origin_at(path: &Path) -> Result<DirTree> {
    DirTree::open(path).doing(|| format!("open {}", path.display()))
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

/// What stands in the original, as far as a note of a keep tells it.
pub(crate) fn noted_state(entry: &Entry) -> (u64, u64, Time, u32) {
    (entry.ino, entry.size, entry.mtime, entry.mode)
}

/// Forgets notes of keeps at some paths of the original that were never done: what stood there before still does. `base`
/// is the record of the lane's base.
pub(crate) fn forget_undone(
    paths: &[TreePath],
    base: &Manifest,
    origin: &DirTree,
    kept: &mut Kept,
) -> Result<()> {
    let touched: BTreeSet<&TreePath> = paths.iter().collect();
    let mut undone = Vec::new();
    for (path, state) in kept.iter() {
        let place = state.at.as_ref().unwrap_or(path);
        if !touched.contains(place) {
            continue;
        }
        let doing = || format!("look at {}", place.as_path().display());
        let there = origin.entry(place).doing(doing)?.as_ref().map(noted_state);
        // Nothing before and nothing now: a person deleted it since, if it has become the base.
        if state.before == there && (there.is_some() || base.get(place)?.is_none()) {
            undone.push(path.clone());
        }
    }
    undone.iter().for_each(|path| kept.note(path, None));
    Ok(())
}

/// Notes what of the lane's own tree is in the original from now on. The steps say what stands there, unless they were made
/// for something else than `origin`.
pub(crate) fn note(
    steps: &[Step],
    joined: &[Joined],
    parts: &Parts,
    (own, origin): (&dyn Source, Option<&dyn Source>),
    kept: &mut Kept,
) -> Result<()> {
    let state = noted_state;
    let joined: BTreeMap<&TreePath, &Joined> = joined.iter().map(|at| (&at.path, at)).collect();
    for step in steps {
        let doing = || format!("look at {}", step.path().as_path().display());
        let (gone, mut before) = match step {
            Step::MoveDir { from, .. } | Step::Move { from, .. } => (Some(from), None),
            Step::Put { old, .. } => (None, old.as_ref().map(state)),
            Step::Meta { old, .. } => (None, Some(state(old))),
            Step::Delete { path, .. } => (Some(path), None),
        };
        if let (None, Some(origin)) = (gone, origin) {
            before = origin.entry(step.path()).doing(doing)?.as_ref().map(state);
        }
        if let Some(gone) = gone {
            kept.note(gone, None);
        }
        if matches!(step, Step::Delete { .. } | Step::MoveDir { .. }) {
            continue;
        }
        let joined = joined.get(step.path()).copied();
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
