//! `ls`: lanes and their present state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ledger::LaneFilter;
use store::{LaneKey, Store};

use crate::describe;
use crate::engine::{Engine, Noting};
use crate::error::Result;
use crate::find;
use crate::fingerprint::Fingerprint;
use crate::keeping;
use crate::lane::{self, OpenLane};
use crate::memory;
use crate::ops::verify;
use crate::recover;
use crate::stores::StoreAt;
use crate::view::{Counts, LaneState, LaneView, VerdictView};

/// Which lanes to list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// Lanes of every project.
    pub all: bool,
    /// Lanes in the trash instead.
    pub discarded: bool,
}

/// One lane with its sums.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedLane {
    /// The lane.
    pub lane: LaneView,
    /// Its changes over all roots; `None` where they were not read, or could not be: then `problem` says why.
    pub counts: Option<Counts>,
    /// Bytes on disk that only this lane holds.
    pub exclusive: Option<u64>,
    /// Bytes of memory that its processes hold; `None` where it is not live.
    pub memory: Option<u64>,
    /// Its snapshots; `None` where they were not read.
    pub snapshots: Option<u64>,
    /// The newest verdict on it; `None` where it was never checked.
    pub verdict: Option<VerdictView>,
    /// Why something above is missing.
    pub problem: Option<String>,
}

/// Lists lanes, newest first.
pub fn list(engine: &Engine, request: &ListRequest) -> Result<Vec<ListedLane>> {
    let project = if request.all { None } else { Some(engine.project(&request.dir)?.top) };
    if request.discarded {
        let rows = find::discarded(engine, project.as_deref())?;
        return rows.iter().map(|row| bare(engine, row)).collect();
    }
    recover::sweep(engine, &mut Noting(engine))?;
    if let Some(top) = &project {
        keeping::repair(engine, top, &mut Noting(engine))?;
    }
    let origin = project.as_ref().map(|top| top.as_os_str().as_bytes());
    let mut rows = engine.ledger()?.lanes(LaneFilter { origin, ..LaneFilter::default() })?;
    recover::settle_all(engine, &mut rows, &mut Noting(engine))?;
    rows.reverse();
    let mut stores = Stores::default();
    rows.into_iter().map(|row| look(engine, row, &mut stores)).collect()
}

/// The lanes of the project of `dir` as the ledger knows them, newest first: none of their layers is read, so that the
/// cost does not follow what they hold. [`fill`] adds the rest, lane by lane.
pub fn rows(engine: &Engine, dir: &Path) -> Result<Vec<ListedLane>> {
    find::lanes(engine, dir)?.iter().rev().map(|row| bare(engine, row)).collect()
}

/// One lane of the project of `dir`, with its sums.
pub fn fill(engine: &Engine, dir: &Path, name: &str) -> Result<ListedLane> {
    let row = find::lane(engine, dir, Some(name), |_| true)?;
    look(engine, row, &mut Stores::default())
}

/// A lane without anything that would have to be read from its layers.
fn bare(engine: &Engine, row: &ledger::Lane) -> Result<ListedLane> {
    Ok(ListedLane {
        lane: describe::lane(engine, row)?,
        counts: None,
        exclusive: None,
        memory: None,
        snapshots: None,
        verdict: verify::newest(engine, &row.id, None)?,
        problem: None,
    })
}

/// Stores that were opened: lanes have few, and mostly the same.
#[derive(Default)]
struct Stores(HashMap<StoreAt, Option<Store>>);

impl Stores {
    /// How many snapshots a lane has.
    fn snapshots(&mut self, engine: &Engine, lane: &OpenLane) -> Result<u64> {
        let at = StoreAt::of(engine.state().path(), &lane.home)?;
        let store = match self.0.entry(at) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(new) => {
                let store = new.key().open()?;
                new.insert(store)
            }
        };
        let Some(store) = store else { return Ok(0) };
        Ok(store.history(&LaneKey::new(&lane.row.id)?)?.snapshots().count() as u64)
    }
}

/// One lane that cannot be read does not hide the others.
fn look(engine: &Engine, row: ledger::Lane, stores: &mut Stores) -> Result<ListedLane> {
    let view = describe::lane(engine, &row)?;
    let pid = view.last_run.as_ref().and_then(|run| run.pid);
    let memory = pid.filter(|_| view.state == LaneState::Live).and_then(memory::resident);
    let (mut snapshots, mut now) = (None, None);
    let id = row.id.clone();
    let read = || -> Result<(Counts, u64)> {
        let lane = lane::open(engine, row)?;
        let mut sums = Counts::default();
        let deltas = lane.summed()?;
        deltas.iter().for_each(|root| sums.add(&root.counts()));
        now = Some(Fingerprint::of(&deltas));
        // A store that cannot be read is told of by whoever needs it.
        snapshots = stores.snapshots(engine, &lane).ok();
        Ok((sums, lane.exclusive_bytes(engine)?))
    };
    let (counts, exclusive, problem) = match read() {
        Ok((counts, exclusive)) => (Some(counts), Some(exclusive), None),
        Err(error) => (None, None, Some(error.with_causes())),
    };
    let verdict = verify::newest(engine, &id, now.as_ref())?;
    Ok(ListedLane { lane: view, counts, exclusive, memory, snapshots, verdict, problem })
}

/// The names of a project's lanes that are not discarded.
pub fn names(engine: &Engine, dir: &Path) -> Result<Vec<String>> {
    Ok(find::lanes(engine, dir)?.into_iter().map(|row| row.name).collect())
}

/// True where a lane has that name in the project of `dir`, or that id.
pub fn exists(engine: &Engine, dir: &Path, name: &str) -> Result<bool> {
    Ok(find::by_name(engine, dir, name)?.is_some())
}
