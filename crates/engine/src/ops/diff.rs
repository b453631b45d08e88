//! `diff`: what a lane changed against its base, or how two of its states differ, for every root, narrowed to paths where
//! asked.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

pub use review::diff::{FileDiff, Hunk, Line, LineKind, Note};
pub use review::words;
use tree::{Change, ChangeSet, Source, TreePath};

use crate::describe;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::find;
use crate::guarding;
use crate::history::LaneHistory;
use crate::lane::{self, OpenLane, RootDelta};
use crate::selection::{Digest, SelectedFile, Selection};
use crate::sides::{Ground, Side};
use crate::view::{DriftKind, DriftView, LaneView};

/// Which lane, and what of it.
#[derive(Debug, Clone, Default)]
pub struct DiffRequest {
    /// A directory of the project; paths are relative to it.
    pub dir: PathBuf,
    /// Two states to compare, `None` for the base and now.
    pub sides: Option<(Side, Side)>,
    /// Only these paths and what is below them; empty for everything.
    pub paths: Vec<PathBuf>,
    /// Look for drift in the whole origin, not only where the lane changed something.
    pub all_drift: bool,
    /// Paths and kinds alone: neither drift nor guards are looked for, so that the cost is that of the changes.
    pub paths_only: bool,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Number of the root, the origin being 0.
    pub root_index: usize,
    /// The change.
    pub change: Change,
    /// Why a blanket `keep` leaves it out: it runs by itself later.
    pub guarded: Option<String>,
    /// What happened to it in the origin since the base.
    pub drifted: Option<DriftKind>,
}

/// What a patch cannot say.
pub type CannotCarry = Vec<review::patch::Lost>;

/// The two trees of one root.
struct Trees<'o> {
    base: Box<dyn Source + 'o>,
    lane: Box<dyn Source + 'o>,
    set: ChangeSet,
}

/// A lane that is to be looked at.
#[derive(Debug)]
pub struct Opened {
    lane: OpenLane,
    view: LaneView,
    snapshots: Option<LaneHistory>,
    history: store::History,
}

/// The delta of a lane.
pub struct DiffAnswer<'o> {
    /// The lane.
    pub lane: LaneView,
    /// The changes, sorted by root and path, without those below `.git`.
    pub files: Vec<FileView>,
    /// Changes below `.git`.
    pub git_internal: u64,
    /// What could not be compared: root, path, reason.
    pub gaps: Vec<(PathBuf, TreePath, String)>,
    /// Drift of the origin: where it meets the changes, or all of it where that was asked for.
    pub drift: Vec<DriftView>,
    trees: Vec<Trees<'o>>,
    within: Vec<(PathBuf, TreePath)>,
}

impl std::fmt::Debug for DiffAnswer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiffAnswer")
            .field("lane", &self.lane.name)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl FileView {
    /// True where hunks, lines, the mode or the new place can be taken by themselves (of binary content: only the latter).
    pub fn has_parts(&self) -> bool {
        review::chosen::has_parts(&self.change)
    }
}

impl DiffAnswer<'_> {
    /// The line diff of one file; without hunks where it has no content or is binary.
    pub fn content(&self, file: &FileView) -> Result<FileDiff> {
        let trees = &self.trees[file.root_index];
        let pair = review::chosen::pair_of(&file.change);
        let root = crate::picking::hunk_root(file.root_index, &file.root);
        Ok(review::stat::pair_diff_in(&root, &pair, &*trees.base, &*trees.lane)?)
    }

    /// Every change of the diff with its digest, to be ticked: none is yet. Reads all content that the changes speak of.
    pub fn selection(&self) -> Result<Selection> {
        let mut selection = self.unread();
        for (file, view) in selection.files.iter_mut().zip(&self.files) {
            file.digest = self.digest(view)?;
        }
        selection.digest = Selection::digest_of(&selection.files);
        Ok(selection)
    }

    /// The same for who shows changes before he reads them: nothing is read, and no digest known. Each is put in when its
    /// content is looked at, and [`DiffAnswer::bound`] takes the rest.
    pub fn unread(&self) -> Selection {
        let file = |file: &FileView| SelectedFile {
            root: file.root.clone(),
            path: file.change.path.clone(),
            digest: Digest::UNKNOWN,
            guarded: file.guarded.is_some(),
            named: false,
            take: None,
        };
        Selection {
            lane: self.lane.name.clone(),
            lane_id: self.lane.id.clone(),
            digest: Digest::UNKNOWN,
            within: self.within.clone(),
            files: self.files.iter().map(file).collect(),
        }
    }

    /// What a change is now.
    pub fn digest(&self, file: &FileView) -> Result<Digest> {
        let trees = &self.trees[file.root_index];
        Ok(review::digest::of_change(&file.change, &*trees.base, &*trees.lane)?)
    }

    /// What is ticked of [`DiffAnswer::unread`], and what stands below it, to be kept: bound to the digests that it has, and
    /// else to what it is now. Of anything else nothing is read, here and by a keep of it.
    pub fn bound(&self, ticked: &Selection) -> Result<Selection> {
        let within: Vec<(PathBuf, TreePath)> = ticked
            .files
            .iter()
            .filter(|file| file.take.is_some())
            .map(|file| (file.root.clone(), file.path.clone()))
            .collect();
        let meant = crate::picking::Within::of(&within);
        let mut files = Vec::new();
        for (file, view) in ticked.files.iter().zip(&self.files) {
            if meant.covers(&view.root, &view.change) {
                let digest = match file.digest {
                    Digest::UNKNOWN => self.digest(view)?,
                    known => known,
                };
                files.push(SelectedFile { digest, ..file.clone() });
            }
        }
        let digest = Selection::digest_of(&files);
        Ok(Selection { digest, within, files, ..ticked.clone() })
    }

    /// Writes a patch that git can apply; says what a patch cannot carry.
    pub fn patch(&self, out: &mut dyn Write) -> Result<CannotCarry> {
        let mut cannot = Vec::new();
        for (index, trees) in self.trees.iter().enumerate() {
            if trees.set.changes.is_empty() {
                continue;
            }
            if index > 0 {
                // Text before a `diff --git` line is skipped by whoever applies the patch.
                let root = self.lane.roots[index].path.display().to_string();
                writeln!(out, "Root: {}", root.escape_default())
                    .map_err(|error| review::Error::Output(error.to_string()))?;
            }
            cannot.extend(
                review::patch::write_patch(&trees.set, &*trees.base, &*trees.lane, out)?.cannot_carry,
            );
        }
        Ok(cannot)
    }
}

/// Opens a lane for a diff.
pub fn open(engine: &Engine, dir: &Path, lane: Option<&str>) -> Result<Opened> {
    let row = find::lane(engine, dir, lane, |_| true)?;
    let view = describe::lane(engine, &row)?;
    let lane = lane::open(engine, row)?;
    crate::watch::await_last(&lane.home);
    // A store that cannot be read takes only the states away that it holds.
    let snapshots = LaneHistory::find(engine, &lane).unwrap_or_default();
    let history = snapshots.as_ref().and_then(|snapshots| snapshots.read().ok()).unwrap_or_default();
    Ok(Opened { lane, view, snapshots, history })
}

impl Opened {
    /// The directories of the lane's roots on the host, the origin first.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.lane.roots.iter().map(|root| root.view.path.clone()).collect()
    }

    /// The lane.
    pub fn view(&self) -> &LaneView {
        &self.view
    }

    /// The side that a word means: `base`, `now`, `origin`, or a snapshot.
    pub fn side(&self, word: &str) -> Result<Option<Side>> {
        Side::of(word, self.snapshots.as_ref(), &self.history)
    }

    /// Remembers what was shown, so that a keep by the digest alone can say what has moved since.
    pub fn remember(&self, shown: &Selection) {
        crate::shown::remember(&self.lane.home, shown);
    }

    /// Compares.
    pub fn diff(&self, engine: &Engine, request: &DiffRequest) -> Result<DiffAnswer<'_>> {
        let project = engine.project(&request.dir)?;
        let asked = self.lane.locate_all(&project.asked, &request.paths)?;
        let mut answer = DiffAnswer {
            lane: self.view.clone(),
            files: Vec::new(),
            git_internal: 0,
            gaps: Vec::new(),
            drift: Vec::new(),
            trees: Vec::new(),
            within: Vec::new(),
        };
        for (root, paths) in self.lane.roots.iter().zip(&asked) {
            answer.within.extend(paths.iter().map(|path| (root.view.path.clone(), path.clone())));
        }
        let usual = request.sides.is_none();
        let mut deltas = Vec::new();
        let mut sides = Vec::new();
        match &request.sides {
            None => {
                deltas = self.lane.changes()?;
                for root in &self.lane.roots {
                    sides.push((root.workspace.base_tree()?, root.workspace.lane_tree()?));
                }
            }
            Some((left, right)) => {
                for root in &self.lane.roots {
                    let (snapshots, history) = (self.snapshots.as_ref(), &self.history);
                    let found = Ground { lane: &self.lane, root, snapshots, history }.compare(left, right)?;
                    deltas.push(root.delta_of(found.set)?);
                    sides.push((found.left, found.right));
                }
            }
        }
        if !request.paths.is_empty() {
            narrow(&mut deltas, &asked)?;
        }
        let meets = if request.paths_only || !usual { Vec::new() } else { self.lane.drift(&deltas)? };
        answer.git_internal = deltas.iter().map(|delta| delta.git_internal).sum();
        for (delta, (left, right)) in deltas.into_iter().zip(sides) {
            let guards = usual && !request.paths_only;
            root(delta, left, right, &meets, guards, &mut answer)?;
        }
        answer.drift = if request.all_drift { self.lane.drift_all()? } else { meets };
        Ok(answer)
    }
}

/// Keeps what was asked for; a path at which nothing changed is an error.
fn narrow(deltas: &mut [RootDelta], asked: &[Vec<TreePath>]) -> Result<()> {
    for (delta, paths) in deltas.iter_mut().zip(asked) {
        for path in paths {
            let meets = |at: &TreePath| at.starts_with(path);
            let change = |change: &Change| meets(&change.path) || meets(change.old_path());
            if !path.is_root()
                && !delta.set.changes.iter().any(change)
                && !delta.set.gaps.iter().any(|(at, _)| meets(at))
            {
                return Err(EngineError::NothingThere { path: path.clone() });
            }
        }
        let covered = |at: &TreePath| paths.iter().any(|path| at.starts_with(path));
        delta.set.changes.retain(|change| covered(&change.path) || covered(change.old_path()));
        delta.set.gaps.retain(|(at, _)| covered(at));
        delta.git_internal = 0;
    }
    Ok(())
}

fn root<'o>(
    delta: RootDelta,
    base: Box<dyn Source + 'o>,
    inside: Box<dyn Source + 'o>,
    drift: &[DriftView],
    guards: bool,
    answer: &mut DiffAnswer<'o>,
) -> Result<()> {
    let mut reasons = if guards { guarding::reasons(&delta.set, &*base, &*inside)? } else { BTreeMap::new() };
    for change in &delta.set.changes {
        let guarded = reasons.remove(&change.path);
        let meets = |at: &&DriftView| {
            at.root == delta.root && (at.path == change.path || at.path == *change.old_path())
        };
        answer.files.push(FileView {
            root: delta.root.clone(),
            root_index: delta.index,
            change: change.clone(),
            guarded,
            drifted: drift.iter().find(meets).map(|at| at.kind),
        });
    }
    answer
        .gaps
        .extend(delta.set.gaps.iter().map(|(path, why)| (delta.root.clone(), path.clone(), why.clone())));
    answer.trees.push(Trees { base, lane: inside, set: delta.set });
    Ok(())
}
