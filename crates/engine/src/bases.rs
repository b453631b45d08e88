//! What the base of a lane held at paths where the original has changed since, for a three-way merge.
//!
//! Content comes from whoever still has it, in this order: what an earlier keep noted, the original itself where it is
//! still as recorded, the lane's last snapshot, what was put aside of a copy, the original's repository. Each is taken only
//! where it proves to be the base's: by size and modification time against the record of the base, of the repository by the
//! inode, too.
//!
//! Invariant: what is answered was the base's, or is `Unknown`; a guess is never an answer.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use review::threeway::{Base, Bases};
use tree::dir::DirTree;
use tree::source::Xattr;
use tree::walk::{Visit, walk};
use tree::{Entry, Layer as _, Source as _, TreePath};
use workspace::git::repository::Repository;
use workspace::git::run::Runner;
use workspace::git::staged::Staged;
use workspace::home::HomeDir;
use workspace::manifest::is_same_state;
use workspace::{Kept, KeptState, old_contents};

use crate::history::LaneHistory;
use crate::lane::{OpenLane, OpenRoot};
use crate::view::{DriftKind, DriftView};

/// Larger files are not read out of a repository: nobody merges them by lines.
const LARGEST: u64 = 64 << 20;

/// The base of one root.
pub(crate) struct RootBases<'l> {
    base: workspace::Base,
    drift: BTreeMap<TreePath, DriftKind>,
    origin: DirTree,
    skipped: &'l [TreePath],
    top: &'l Path,
    home: &'l HomeDir,
    index: usize,
    captured: Option<Captured<'l>>,
    kept: Kept,
    /// What the original's repository knows; none where it is none, or cannot be asked.
    staged: OnceCell<Option<RefCell<Staged>>>,
    /// Where each inode stands now.
    places: OnceCell<HashMap<u64, Vec<TreePath>>>,
}

/// What the last snapshot says of the base.
struct Captured<'l> {
    manifest: store::Manifest<'l>,
    /// The same, read entry by entry: the directories above a path are not in it.
    layer: store::ManifestLayer<'l>,
}

impl std::fmt::Debug for RootBases<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RootBases").field("drift", &self.drift).finish_non_exhaustive()
    }
}

impl<'l> RootBases<'l> {
    /// What is known of the base of `root`, where `drift` is what changed.
    pub(crate) fn open(
        lane: &'l OpenLane,
        root: &'l OpenRoot,
        drift: &[DriftView],
        snapshots: Option<&'l LaneHistory>,
        history: &store::History,
    ) -> crate::error::Result<RootBases<'l>> {
        use crate::error::Doing as _;
        let path = &root.view.path;
        let here = drift.iter().filter(|at| at.root == *path);
        let at = history.position().and_then(|id| history.get(id));
        let contents = at.and_then(|record| record.roots.get(root.index)?.base_contents);
        let captured = snapshots.zip(contents).map(|(snapshots, id)| {
            let manifest = snapshots.store.manifest(id);
            Captured { layer: manifest.layer(), manifest }
        });
        Ok(RootBases {
            base: workspace::Base::load(&lane.home, root.index)?,
            drift: here.map(|at| (at.path.clone(), at.kind)).collect(),
            origin: DirTree::open(path).doing(|| format!("open {}", path.display()))?,
            skipped: &root.skipped,
            home: lane.home.dir(),
            index: root.index,
            captured,
            kept: Kept::load(lane.home.dir(), root.index)?,
            staged: OnceCell::new(),
            top: path,
            places: OnceCell::new(),
        })
    }

    /// The original as it is now.
    pub(crate) fn origin(&self) -> &DirTree {
        &self.origin
    }

    /// What was noted of a keep of `path`, unless what stands in the original says that there was none.
    fn noted(&self, path: &TreePath) -> Option<&KeptState> {
        let kept = self.kept.get(path)?;
        let place = kept.at.as_ref().unwrap_or(path);
        let there =
            self.origin.entry(place).ok()?.map(|there| (there.ino, there.size, there.mtime, there.mode));
        let is_recorded =
            || self.base.manifest.as_ref().is_some_and(|all| matches!(all.get(place), Ok(Some(_))));
        // Nothing before and nothing now: a person deleted it since, if it has become the base.
        let was_done = kept.before != there || there.is_none() && is_recorded();
        was_done.then_some(kept)
    }

    fn stored(&self, path: &TreePath, entry: &Entry) -> Option<&Captured<'l>> {
        let captured = self.captured.as_ref()?;
        // A store that is damaged has no answer.
        let item = captured.manifest.get(path).ok()??;
        let same =
            item.tree_kind() == Some(entry.kind) && item.size() == entry.size && item.mtime == entry.mtime;
        same.then_some(captured)
    }

    /// The content of a file by the original's repository.
    fn committed(&self, path: &TreePath, entry: &Entry) -> Option<Vec<u8>> {
        if entry.size > LARGEST {
            return None;
        }
        let open = || {
            let runner = Runner::find(std::env::vars_os()).ok()?;
            let repository = Repository::open(&runner, self.top).ok()??;
            Staged::open(repository, self.home, self.index).ok().map(RefCell::new)
        };
        // A repository that cannot be read has no answer.
        self.staged.get_or_init(open).as_ref()?.borrow_mut().content(path, entry).ok()?
    }

    /// Everything in the original by inode.
    fn places(&self) -> &HashMap<u64, Vec<TreePath>> {
        self.places.get_or_init(|| {
            let mut found: HashMap<u64, Vec<TreePath>> = HashMap::new();
            // What cannot be read is nowhere: then nothing is said to have moved there.
            let _gaps = walk(self.origin.fd().as_fd(), &mut |path, entry| {
                if review::guard::git_internal(path) || self.skipped.contains(path) {
                    return Visit::SkipBelow;
                }
                found.entry(entry.ino).or_default().push(path.clone());
                Visit::Enter
            });
            found
        })
    }

    /// True where what stands at `at` is the very inode that was recorded as `was`: a number alone may have been given
    /// out anew. One that was made before it was recorded was not.
    fn is_that(&self, was: &Entry, at: &TreePath, now: &Entry) -> bool {
        let birth = || -> kernel::Result<Option<(i64, u32)>> {
            let (parent, name) = kernel::open::parent_beneath(self.origin.fd(), at.as_bytes())?;
            kernel::meta::birth_at(parent, &name)
        };
        match birth() {
            Ok(Some((sec, nsec))) => tree::Time { sec, nsec } <= was.ctime,
            Ok(None) => (was.size, was.mtime, &was.target) == (now.size, now.mtime, &now.target),
            Err(_) => false,
        }
    }
}

impl Bases for RootBases<'_> {
    fn base(&self, path: &TreePath) -> review::Result<Base> {
        if let Some(kept) = self.noted(path).filter(|kept| kept.content.is_some()) {
            return Ok(Base::Has(Box::new(kept.lane.clone())));
        }
        let unread =
            |error: workspace::Error| review::Error::Base { path: path.clone(), why: error.to_string() };
        let Some(kind) = self.drift.get(path) else {
            let gone = || self.base.manifest.as_ref().and_then(|manifest| manifest.get(path).ok()?);
            return Ok(match self.origin.entry(path) {
                Ok(Some(entry)) => Base::Has(Box::new(entry)),
                // Directories above a change are told of only where the change itself meets something.
                Ok(None) => gone().map_or(Base::Nothing, |was| Base::Has(Box::new(was.entry))),
                Err(_) => Base::Unknown,
            });
        };
        if *kind == DriftKind::BaseUnknown {
            return Ok(Base::Unknown);
        }
        let Some(manifest) = &self.base.manifest else {
            return Ok(if *kind == DriftKind::Created { Base::Nothing } else { Base::Unknown });
        };
        Ok(match manifest.get(path).map_err(unread)? {
            Some(was) => Base::Has(Box::new(was.entry)),
            None => Base::Nothing,
        })
    }

    fn content(&self, path: &TreePath, entry: &Entry) -> review::Result<Option<OwnedFd>> {
        let read = |source| review::Error::Read { side: "base", path: path.clone(), source };
        if let Some(kept) = self.noted(path)
            && kept.content.is_some()
            && is_same_state(&kept.lane, entry)
        {
            return Ok(match &kept.content {
                Some(content) => {
                    let file = kernel::bytes::memory_file().map_err(read)?;
                    kernel::bytes::write_all_at(&file, content, 0).map_err(read)?;
                    Some(file)
                }
                None => None,
            });
        }
        if let Ok(Some(now)) = self.origin.entry(path)
            && is_same_state(entry, &now)
        {
            return self.origin.open(path).map(Some).map_err(read);
        }
        if let Some(content) = self.stored(path, entry).and_then(|captured| captured.layer.open(path).ok()) {
            return Ok(Some(content));
        }
        if let Some(content) = old_contents::find(self.home, self.index, path, entry).unwrap_or_default() {
            return Ok(Some(content));
        }
        match self.committed(path, entry) {
            Some(content) => {
                let file = kernel::bytes::memory_file().map_err(read)?;
                kernel::bytes::write_all_at(&file, &content, 0).map_err(read)?;
                Ok(Some(file))
            }
            None => Ok(None),
        }
    }

    fn xattrs(&self, path: &TreePath, entry: &Entry) -> review::Result<Option<Vec<Xattr>>> {
        if let Ok(Some(now)) = self.origin.entry(path)
            && is_same_state(entry, &now)
        {
            let read = |source| review::Error::Read { side: "base", path: path.clone(), source };
            return self.origin.xattrs(path).map(Some).map_err(read);
        }
        if let Some(captured) = self.stored(path, entry) {
            return Ok(captured.layer.xattrs(path).ok());
        }
        let aside = old_contents::find(self.home, self.index, path, entry).unwrap_or_default();
        Ok(aside.and_then(|file| old_contents::xattrs(&file).unwrap_or_default()))
    }

    fn moved(&self, path: &TreePath, entry: &Entry) -> review::Result<Option<TreePath>> {
        if let Some(to) = self.noted(path).and_then(|kept| kept.at.as_ref()) {
            return Ok(Some(to.clone()));
        }
        // With several names of one file nobody can say which is which.
        if !entry.is_dir() && entry.nlink > 1 {
            return Ok(None);
        }
        let Some([at]) = self.places().get(&entry.ino).map(Vec::as_slice) else { return Ok(None) };
        let now = self.origin.entry(at).ok().flatten().filter(|now| now.kind == entry.kind);
        let Some(now) = now.filter(|_| at != path) else { return Ok(None) };
        let same = self.is_that(entry, at, &now);
        Ok(same.then(|| at.clone()))
    }

    fn is_kept(&self, path: &TreePath, now: &Entry) -> bool {
        self.noted(path).is_some_and(|kept| is_same_state(&kept.lane, now))
    }
}

/// Those of `paths` at which the original still is what the base was, and those of them of which `stored` holds
/// something else. With them the original, in which they are read.
pub(crate) fn still_base(
    lane: &OpenLane,
    root: &OpenRoot,
    paths: BTreeSet<TreePath>,
    stored: Option<store::Manifest<'_>>,
) -> crate::error::Result<StillBase> {
    use crate::error::Doing as _;
    let path = &root.view.path;
    let origin = DirTree::open(path).doing(|| format!("open {}", path.display()))?;
    let (mut still, mut stale) = (BTreeSet::new(), BTreeSet::new());
    if paths.is_empty() {
        return Ok(StillBase { still, stale, origin });
    }
    let base = workspace::Base::load(&lane.home, root.index)?;
    for path in paths {
        let Ok(Some(now)) = origin.entry(&path) else { continue };
        let is_base = match &base.manifest {
            Some(manifest) => {
                manifest.get(&path)?.is_some_and(|was| !was.is_later && is_same_state(&was.entry, &now))
            }
            None => !base.stamp.is_later(now.ctime),
        };
        if !is_base {
            continue;
        }
        let had = match &stored {
            Some(stored) => stored.get(&path).unwrap_or(None),
            None => None,
        };
        if had.is_some_and(|had| had.size() != now.size || had.mtime != now.mtime) {
            stale.insert(path.clone());
        }
        still.insert(path);
    }
    Ok(StillBase { still, stale, origin })
}

/// Puts aside what the original holds under the paths that lanes of a kind without snapshots of their own (copies) have
/// changed.
pub(crate) fn put_aside(lane: &OpenLane) -> crate::error::Result<()> {
    for root in lane.roots.iter().filter(|root| !root.view.git) {
        if !root.workspace.layer()?.is_whole {
            continue;
        }
        let touched = root.workspace.touched()?;
        let had_content = |change: &&tree::Change| change.old.as_ref().is_some_and(Entry::is_file);
        let paths =
            touched.changes.iter().filter(had_content).map(|change| change.old_path().clone()).collect();
        let base = still_base(lane, root, paths, None)?;
        for path in &base.still {
            if let Ok(Some(entry)) = base.origin.entry(path) {
                old_contents::save(lane.home.dir(), root.index, &base.origin, path, &entry)?;
            }
        }
    }
    Ok(())
}

/// Lets a fork know what was kept of its parent, whose state it shows: what was merged is the base of both.
pub(crate) fn inherit(parent: &OpenLane, child: &OpenLane) -> crate::error::Result<()> {
    for (root, own) in parent.roots.iter().zip(&child.roots).filter(|(root, _)| !root.view.git) {
        let noted = Kept::load(parent.home.dir(), root.index)?;
        if noted == Kept::default() {
            continue;
        }
        let (mut kept, shown) = (Kept::default(), own.workspace.lane_tree()?);
        for (path, state) in noted.iter() {
            let mut state = state.clone();
            // The same file, under another number where it was copied.
            let same = |now: &Entry| {
                let of = |entry: &Entry| (entry.size, entry.mtime, entry.mode);
                now.is_file() && of(now) == of(&state.lane)
            };
            if let Some(now) = shown.entry(path).unwrap_or(None).filter(same) {
                state.lane = now;
            }
            kept.note(path, Some(state));
        }
        kept.save(child.home.dir(), own.index)?;
    }
    Ok(())
}

/// The answer of [`still_base`].
pub(crate) struct StillBase {
    pub(crate) still: BTreeSet<TreePath>,
    pub(crate) stale: BTreeSet<TreePath>,
    pub(crate) origin: DirTree,
}
