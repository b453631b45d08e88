//! `fsck`: checks the ledger and every store that lanes of this state directory use, and that every lane stands where its history says. What
//! is derived can be made again, and what a lane still holds can be stored again; what is lost is named, with everything that
//! needs it.
//!
//! Invariant: damage never ends the check, and nothing of what is there is changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use store::fsck::{Checked, Finding};
use store::{History, LaneKey, SnapshotId, Store};
use tree::TreePath;

use crate::engine::Engine;
use crate::error::Result;
use crate::history::{self, LaneHistory};
use crate::lane;
use crate::ops::gc::name_of;
use crate::stores::{self, StoreAt};

/// How to check.
#[derive(Debug, Clone, Copy, Default)]
pub struct FsckRequest {
    /// Make again what is derived and damaged.
    pub repair: bool,
}

/// A snapshot that needs something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedView {
    /// Name of the lane; `None` where only its history is known.
    pub lane: Option<String>,
    /// Its id.
    pub lane_id: String,
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Which of its roots.
    pub root: u32,
    /// The path.
    pub path: TreePath,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingView {
    /// `object`, `pack`, `index`, `history` or `lane`.
    pub what: &'static str,
    /// Id of the object.
    pub object: Option<String>,
    /// What the object is.
    pub kind: Option<String>,
    /// The file that it is in, below the store; for a history or a lane, the lane's id.
    pub file: Option<String>,
    /// Where in the file.
    pub offset: Option<u64>,
    /// What is wrong.
    pub why: String,
    /// Another copy is whole, so that nobody misses it.
    pub spare: bool,
    /// The first of those who need it.
    pub needed_by: Vec<NeedView>,
    /// How many need it.
    pub needs: u64,
}

/// What was found in one store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreReport {
    /// Its directory.
    pub path: PathBuf,
    /// What was read.
    pub checked: Checked,
    /// What is wrong.
    pub findings: Vec<FindingView>,
    /// What is derived was made again.
    pub repaired: bool,
    /// Why it cannot be checked at all.
    pub problem: Option<String>,
}

impl StoreReport {
    /// True where nothing is wrong that anybody misses.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.spare) && self.problem.is_none()
    }
}

/// What was found in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookReport {
    /// Its file.
    pub path: PathBuf,
    /// Links of the chain that were read.
    pub links: u64,
    /// Records that they speak of.
    pub records: u64,
    /// Number and digest of the newest link.
    pub head: Option<(i64, String)>,
    /// Where the chain does not hold, as what, number of the link, rows, and why.
    pub broken: Option<BrokenView>,
    /// Why it cannot be checked at all.
    pub problem: Option<String>,
}

/// The first place where the chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenView {
    /// Number of the link; `None` where a record has none.
    pub link: Option<i64>,
    /// `lane`, `run`, `operation`, `verdict` or `events`.
    pub what: String,
    /// Name of the lane, or its id where it has none.
    pub lane: Option<String>,
    /// First and last number of the rows.
    pub rows: (i64, i64),
    /// `chain`, `changed`, `missing` or `unlinked`.
    pub why: &'static str,
}

impl BookReport {
    /// True where nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.broken.is_none() && self.problem.is_none()
    }
}

/// Checks the ledger: the pages of its file, and the chain over its records.
pub fn book(engine: &Engine) -> Result<BookReport> {
    let path = engine.state().ledger();
    let mut report = BookReport { path, links: 0, records: 0, head: None, broken: None, problem: None };
    let ledger = match engine.ledger() {
        Ok(ledger) => ledger,
        Err(error) => {
            report.problem = Some(error.with_causes());
            return Ok(report);
        }
    };
    match ledger.check().and_then(|()| ledger.check_chain()) {
        Err(error) => report.problem = Some(crate::EngineError::from(error).with_causes()),
        Ok(chain) => {
            (report.links, report.records) = (chain.links, chain.records);
            report.head = chain.head.map(|head| (head.link, head.digest));
            report.broken = chain.broken.map(|broken| BrokenView {
                link: broken.link,
                what: broken.what,
                lane: broken.lane.map(|id| name_of(engine, &id).unwrap_or(id)),
                rows: broken.rows,
                why: match broken.why {
                    ledger::Fault::Chain => "chain",
                    ledger::Fault::Changed => "changed",
                    ledger::Fault::Missing => "missing",
                    ledger::Fault::Unlinked => "unlinked",
                },
            });
        }
    }
    Ok(report)
}

/// Checks everything. `progress` hears of each store the bytes read so far.
pub fn fsck(
    engine: &Engine,
    request: &FsckRequest,
    progress: &mut dyn FnMut(&Path, u64),
) -> Result<Vec<StoreReport>> {
    let mut reports = Vec::new();
    for at in stores::all(engine.state().path())? {
        let mut report = StoreReport { path: at.path(), ..StoreReport::default() };
        if let Err(error) = check(engine, &at, request, progress, &mut report) {
            report.problem = Some(error.with_causes());
        }
        reports.push(report);
    }
    Ok(reports)
}

fn check(
    engine: &Engine,
    at: &StoreAt,
    request: &FsckRequest,
    progress: &mut dyn FnMut(&Path, u64),
    report: &mut StoreReport,
) -> Result<()> {
    // Half ended, there is nothing in it that anybody needs; a collection clears it away.
    let Some(store) = at.open()? else { return Ok(()) };
    let path = at.path();
    let mut checked = store::fsck::check(&store, &mut |bytes| progress(&path, bytes))?;
    if request.repair && !checked.is_clean() {
        store.rebuild_index()?;
        for id in needing(&checked) {
            // A lane that cannot be read now is told of by whoever wants to use it.
            report.repaired |= store_again(engine, &id).unwrap_or(false);
        }
        report.repaired |= checked.findings.iter().any(|finding| matches!(finding, Finding::Index { .. }));
        checked = store::fsck::check(&store, &mut |bytes| progress(&path, bytes))?;
    }
    let findings = std::mem::take(&mut checked.findings);
    report.findings = findings.into_iter().filter_map(|finding| view_of(engine, finding)).collect();
    report.checked = checked;
    lanes(engine, at, &store, &mut report.findings)
}

/// Lanes that need something that is damaged.
fn needing(checked: &Checked) -> BTreeSet<String> {
    let mut lanes = BTreeSet::new();
    for finding in &checked.findings {
        if let Finding::Object { needed_by, spare: false, .. } = finding {
            lanes.extend(needed_by.iter().map(|need| need.lane.as_str().to_owned()));
        }
    }
    lanes
}

/// What a lane at rest still holds is stored again; `false` where it is not at rest, or not ours.
fn store_again(engine: &Engine, id: &str) -> Result<bool> {
    let Some(row) = engine.ledger()?.lane(id)? else { return Ok(false) };
    let lane = lane::open(engine, row)?;
    let Some(_lock) = lane.home.try_lock()? else { return Ok(false) };
    LaneHistory::open(engine, &lane)?.store_again(&lane)?;
    Ok(true)
}

fn bare(what: &'static str, why: impl Into<String>) -> FindingView {
    FindingView {
        what,
        object: None,
        kind: None,
        file: None,
        offset: None,
        why: why.into(),
        spare: false,
        needed_by: Vec::new(),
        needs: 0,
    }
}

/// `None` for what is no damage: an append that was interrupted.
fn view_of(engine: &Engine, finding: Finding) -> Option<FindingView> {
    Some(match finding {
        Finding::Object { damage, spare, needed_by, needs } => FindingView {
            object: Some(damage.id.to_string()),
            kind: Some(damage.kind.to_string()),
            file: damage.place.as_ref().map(|(file, _)| file.clone()),
            offset: damage.place.as_ref().map(|(_, offset)| *offset),
            spare,
            needed_by: needed_by
                .into_iter()
                .map(|need| NeedView {
                    lane: name_of(engine, need.lane.as_str()),
                    lane_id: need.lane.as_str().to_owned(),
                    snapshot: need.snapshot,
                    root: need.root,
                    path: need.path,
                })
                .collect(),
            needs,
            ..bare("object", damage.why)
        },
        Finding::Pack { pack, why } => FindingView { file: Some(pack.file_name()), ..bare("pack", why) },
        Finding::Index { name } => FindingView {
            file: Some(format!("index/{}", name.escape_ascii())),
            ..bare("index", "its bytes are not what they were")
        },
        Finding::History { stray, .. } if stray.unfinished => return None,
        Finding::History { lane, stray } => FindingView {
            file: Some(lane.as_str().to_owned()),
            offset: Some(stray.offset),
            ..bare("history", format!("{} bytes are no record; snapshots may be lost", stray.len))
        },
    })
}

/// That each lane of ours stands where there is something to stand on.
fn lanes(engine: &Engine, at: &StoreAt, store: &Store, findings: &mut Vec<FindingView>) -> Result<()> {
    let state = engine.state().path();
    let others: Vec<(LaneKey, History)> = store
        .lanes()?
        .into_iter()
        .map(|key| Ok((key.clone(), store.history(&key)?)))
        .collect::<Result<_>>()?;
    // A lane that was forked may stand at a snapshot of the one that it came from.
    let is_there = |id: SnapshotId| others.iter().any(|(_, history)| history.get(id).is_some());
    for (id, home) in stores::homes(state) {
        if StoreAt::of(state, &home)? != *at {
            continue;
        }
        let mut wrong = |why: String| {
            findings.push(FindingView { file: Some(id.clone()), ..bare("lane", why) });
        };
        let history = others.iter().find(|(key, _)| key.as_str() == id).map(|(_, history)| history);
        if let Some(position) = history.and_then(History::position)
            && !is_there(position)
        {
            wrong(format!("it stands at snapshot {}, which is not there", history::short(position)));
        }
        match crate::going_back::begun(&home) {
            Ok(None) => {}
            Ok(Some(step)) if history.is_some_and(|history| step.is_over(history)) => {}
            Ok(Some(step)) => {
                for missing in [step.from, step.to].into_iter().filter(|id| !is_there(*id)) {
                    wrong(format!(
                        "it is between two snapshots, and {} is not there",
                        history::short(missing)
                    ));
                }
            }
            Err(error) => wrong(error.with_causes()),
        }
    }
    Ok(())
}
