//! The lanes of a keep: found, held, looked at, and what of each is asked for.
//!
//! Invariant: each lane is looked at once; whatever is planned after that is planned on what was seen here. A hunk or a path
//! that no lane has is an error, one that some have is theirs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel::lock::Lock;
use tree::TreePath;

use super::{KeepRequest, LeftOut, With};
use crate::describe;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::find;
use crate::keeping;
use crate::lane::{self, OpenLane, RootDelta};
use crate::leaks;
use crate::monitor::{Event, Monitor};
use crate::picking::{Asked, Asking, RootWish, Seen, wishes};
use crate::policy::Gate;
use crate::selection::{SelectedFile, Selection};
use crate::view::{DriftView, LaneView};

/// One lane of a keep.
pub(crate) struct KeptLane {
    pub(crate) view: LaneView,
    pub(crate) lane: OpenLane,
    /// Held where nothing runs in the lane, so that nothing begins to.
    pub(crate) lock: Option<Lock>,
    pub(super) is_live: bool,
    pub(super) deltas: Vec<RootDelta>,
    pub(super) drift: Vec<DriftView>,
    pub(super) wishes: Vec<Option<RootWish>>,
    pub(super) seen: Option<Seen>,
    pub(super) selection: Option<Selection>,
    pub(super) gate: Gate,
    /// Nothing of it was picked.
    pub(super) is_everything: bool,
}

impl KeptLane {
    /// Its root at a path.
    pub(super) fn root_at(&self, path: &Path) -> Option<usize> {
        self.lane.roots.iter().position(|root| root.view.path == path)
    }

    /// What is kept of what was ticked: a file that is left out has no tick.
    pub(super) fn record(&mut self, left_out: &[LeftOut]) {
        let left: BTreeSet<(&Path, &TreePath)> =
            left_out.iter().map(|left| (left.root.as_path(), &left.path)).collect();
        let is_left = |file: &&mut SelectedFile| left.contains(&(file.root.as_path(), &file.path));
        let files = self.selection.iter_mut().flat_map(|selection| &mut selection.files);
        files.filter(is_left).for_each(SelectedFile::clear);
    }
}

/// What a request says of one lane.
struct Wanted<'r> {
    name: Option<&'r str>,
    selection: Option<&'r Selection>,
    digest: Option<&'r crate::selection::Digest>,
}

fn wanted(request: &KeepRequest) -> Vec<Wanted<'_>> {
    let first = Wanted {
        name: request.lane.as_deref(),
        selection: request.selection.as_ref(),
        digest: request.digest.as_ref(),
    };
    let further = request.with.iter().map(|With { lane, selection, digest }| Wanted {
        name: Some(lane),
        selection: selection.as_ref(),
        digest: digest.as_ref(),
    });
    std::iter::once(first).chain(further).collect()
}

/// Finds and looks at the lanes of a request (what an interrupted keep left is taken back first).
pub(super) fn gather(
    engine: &Engine,
    request: &KeepRequest,
    monitor: &mut dyn Monitor,
) -> Result<Vec<KeptLane>> {
    let project = engine.project(&request.dir)?;
    let wanted = wanted(request);
    let mut rows = Vec::with_capacity(wanted.len());
    for (at, want) in wanted.iter().enumerate() {
        let row = find::lane(engine, &request.dir, want.name, |_| true)?;
        if rows.iter().any(|(_, known): &(usize, ledger::Lane)| known.id == row.id) {
            return Err(EngineError::LaneTwice { name: row.name });
        }
        if let Some((_, first)) = rows.first().filter(|(_, first)| first.origin != row.origin) {
            return Err(EngineError::OtherProject { name: row.name, first: first.name.clone() });
        }
        rows.push((at, row));
    }
    // Whoever keeps the same lanes in another order waits for none of them with another one in his hand.
    rows.sort_by(|a, b| a.1.id.cmp(&b.1.id));
    let mut opened = Vec::with_capacity(rows.len());
    for (at, row) in rows {
        let view = describe::lane(engine, &row)?;
        let is_live = row.state == ledger::LaneState::Live;
        let lane = lane::open(engine, row)?;
        let lock = if is_live { None } else { Some(lane.lock()?) };
        opened.push((at, view, is_live, lane, lock));
    }
    opened.sort_by_key(|(at, ..)| *at);
    let mut repaired = BTreeSet::new();
    for root in opened.iter().flat_map(|(_, _, _, lane, _)| &lane.roots) {
        if repaired.insert(&root.view.path) {
            keeping::repair(engine, &root.view.path, monitor)?;
        }
    }
    let lanes: Vec<&OpenLane> = opened.iter().map(|(_, _, _, lane, _)| lane).collect();
    let located = locate(&lanes, &project.asked, &request.paths)?;
    let (mut found, mut missing) = (Vec::with_capacity(opened.len()), Missing::default());
    for (((_, view, is_live, lane, lock), asked), want) in opened.into_iter().zip(located).zip(&wanted) {
        let deltas = lane.changes()?;
        deltas.iter().for_each(|delta| tell_parted(delta, monitor));
        leaks::check_asked(&lane, &deltas, &asked)?;
        let drift = lane.drift(&deltas)?;
        let asking = Asking {
            is_everything: request.paths.is_empty(),
            asked: &asked,
            hunks: &request.hunks,
            selection: want.selection,
            digest: want.digest,
            record: request.record,
        };
        let Asked { wishes, selection, seen, no_hunk, no_path } = wishes(&lane, &deltas, &asking)?;
        missing.of_lane(no_hunk, no_path);
        let gate = Gate::new(&lane, &deltas)?;
        let is_everything = request.paths.is_empty() && request.hunks.is_empty() && want.selection.is_none();
        found.push(KeptLane {
            view,
            lane,
            lock,
            is_live,
            deltas,
            drift,
            wishes,
            seen,
            selection,
            gate,
            is_everything,
        });
    }
    missing.refuse()?;
    Ok(found)
}

/// What no lane has so far.
#[derive(Default)]
struct Missing {
    known: bool,
    hunks: BTreeSet<String>,
    paths: BTreeSet<TreePath>,
}

impl Missing {
    fn of_lane(&mut self, hunks: BTreeSet<String>, paths: BTreeSet<TreePath>) {
        if !std::mem::replace(&mut self.known, true) {
            (self.hunks, self.paths) = (hunks, paths);
            return;
        }
        self.hunks.retain(|id| hunks.contains(id));
        self.paths.retain(|path| paths.contains(path));
    }

    fn refuse(self) -> Result<()> {
        if let Some(path) = self.paths.into_iter().next() {
            return Err(EngineError::NothingThere { path });
        }
        match self.hunks.into_iter().next() {
            Some(id) => Err(EngineError::NoSuchHunk { id }),
            None => Ok(()),
        }
    }
}

/// Path arguments as tree paths, for each lane one list for each root. A path outside of one lane's roots is asked of the
/// others.
fn locate(lanes: &[&OpenLane], dir: &Path, paths: &[PathBuf]) -> Result<Vec<Vec<Vec<TreePath>>>> {
    let mut found: Vec<Vec<Vec<TreePath>>> =
        lanes.iter().map(|lane| vec![Vec::new(); lane.roots.len()]).collect();
    for path in paths {
        let (path, mut outside, mut somewhere) = (lane::lexical(dir, path), None, false);
        for (lane, found) in lanes.iter().zip(&mut found) {
            match lane.locate(&path) {
                Ok((_, inner)) if review::guard::git_internal(&inner) => {
                    return Err(EngineError::GitInternal { path: inner });
                }
                Ok((index, inner)) => {
                    found[index].push(inner);
                    somewhere = true;
                }
                Err(error) => outside = Some(error),
            }
        }
        if let Some(error) = outside.filter(|_| !somewhere) {
            return Err(error);
        }
    }
    Ok(found)
}

/// Says which changes write one of several names of a file. Where the lane's layers cannot hold links
/// together, the others keep what they had.
fn tell_parted(delta: &RootDelta, monitor: &mut dyn Monitor) {
    use tree::ChangeKind::Modify;
    let linked = |change: &&tree::Change| {
        change.kind == Modify && change.old.as_ref().is_some_and(|old| old.is_file() && old.nlink > 1)
    };
    let ino = |change: &tree::Change| change.old.as_ref().map(|old| (old.ino, old.nlink));
    let written: Vec<&tree::Change> = delta.set.changes.iter().filter(linked).collect();
    for change in &written {
        let Some((number, names)) = ino(change) else { continue };
        let together =
            written.iter().filter(|other| ino(other).is_some_and(|(other, _)| other == number)).count()
                as u64;
        if together < names {
            let path = change.path.as_bytes().escape_ascii();
            monitor.event(Event::Warning(&format!(
                "{path} is a hard link, one of {names} names of a file: the others keep the old content"
            )));
        }
    }
}
