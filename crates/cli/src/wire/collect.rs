//! Answers of `gc` and `fsck`.

use engine::keeping::KeepsView;
use engine::ops::fsck::{BookReport, FindingView, NeedView, StoreReport};
use engine::ops::gc::{StoreView, Thinned};
use serde::Serialize;

use super::{path, text};

/// The answer of `gc`.
#[derive(Debug, Serialize)]
pub(crate) struct Collected {
    dry_run: bool,
    freed: u64,
    stores: Vec<CollectedStore>,
    keeps: CollectedKeeps,
}

/// Keeps that can be undone.
#[derive(Debug, Serialize)]
struct CollectedKeeps {
    count: u64,
    bytes: u64,
    forgotten: u64,
    freed: u64,
}

#[derive(Debug, Serialize)]
struct CollectedStore {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    lanes: u64,
    snapshots: u64,
    thinned: Vec<ThinnedLane>,
    histories_of_gone_lanes: Vec<String>,
    packs_dropped: u64,
    packs_rewritten: u64,
    large_dropped: u64,
    freed: u64,
    kept: u64,
    over_budget: u64,
    short_of_free: u64,
    ends: bool,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct ThinnedLane {
    lane: Option<String>,
    lane_id: String,
    snapshots: Vec<String>,
    of: u64,
}

impl ThinnedLane {
    fn new(thinned: &Thinned) -> ThinnedLane {
        ThinnedLane {
            lane: thinned.lane.clone(),
            lane_id: thinned.lane_id.clone(),
            snapshots: thinned.snapshots.iter().map(ToString::to_string).collect(),
            of: thinned.of,
        }
    }
}

impl Collected {
    pub(crate) fn new(views: &[StoreView], keeps: KeepsView, dry_run: bool) -> Collected {
        let stores: Vec<CollectedStore> = views.iter().map(CollectedStore::new).collect();
        let freed = stores.iter().map(|store| store.freed).sum::<u64>() + keeps.freed;
        let (count, bytes) = (keeps.keeps, keeps.bytes);
        let keeps = CollectedKeeps { count, bytes, forgotten: keeps.forgotten, freed: keeps.freed };
        Collected { dry_run, freed, stores, keeps }
    }
}

impl CollectedStore {
    fn new(view: &StoreView) -> CollectedStore {
        let (path, path_bytes) = path(&view.path);
        CollectedStore {
            path,
            path_bytes,
            lanes: view.lanes,
            snapshots: view.snapshots,
            thinned: view.thin.iter().map(ThinnedLane::new).collect(),
            histories_of_gone_lanes: view.orphans.clone(),
            packs_dropped: view.dropped,
            packs_rewritten: view.rewritten,
            large_dropped: view.large,
            freed: view.freed,
            kept: view.kept,
            over_budget: view.over,
            short_of_free: view.short,
            ends: view.ends,
            problem: view.problem.clone(),
        }
    }
}

/// The answer of `fsck`.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    clean: bool,
    ledger: CheckedBook,
    stores: Vec<CheckedStore>,
}

/// The ledger.
#[derive(Debug, Serialize)]
struct CheckedBook {
    path: String,
    links: u64,
    records: u64,
    head: Option<Head>,
    broken: Option<BrokenLink>,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Head {
    link: i64,
    digest: String,
}

#[derive(Debug, Serialize)]
struct BrokenLink {
    link: Option<i64>,
    what: String,
    lane: Option<String>,
    first: i64,
    last: i64,
    why: &'static str,
}

impl CheckedBook {
    fn new(report: &BookReport) -> CheckedBook {
        CheckedBook {
            path: path(&report.path).0,
            links: report.links,
            records: report.records,
            head: report.head.as_ref().map(|(link, digest)| Head { link: *link, digest: digest.clone() }),
            broken: report.broken.as_ref().map(|broken| BrokenLink {
                link: broken.link,
                what: broken.what.clone(),
                lane: broken.lane.clone(),
                first: broken.rows.0,
                last: broken.rows.1,
                why: broken.why,
            }),
            problem: report.problem.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct CheckedStore {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    snapshots: u64,
    packs: u64,
    objects: u64,
    large: u64,
    bytes: u64,
    repaired: bool,
    findings: Vec<Finding>,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    object: Option<String>,
    kind: Option<String>,
    file: Option<String>,
    offset: Option<u64>,
    why: String,
    spare: bool,
    needs: u64,
    needed_by: Vec<Need>,
}

#[derive(Debug, Serialize)]
struct Need {
    lane: Option<String>,
    lane_id: String,
    snapshot: String,
    root: u32,
    path: String,
    path_bytes: Option<String>,
}

impl Checked {
    pub(crate) fn new(book: &BookReport, reports: &[StoreReport]) -> Checked {
        let store = |report: &StoreReport| {
            let (path, path_bytes) = path(&report.path);
            CheckedStore {
                path,
                path_bytes,
                snapshots: report.checked.snapshots,
                packs: report.checked.packs,
                objects: report.checked.objects,
                large: report.checked.large,
                bytes: report.checked.bytes,
                repaired: report.repaired,
                findings: report.findings.iter().map(Finding::new).collect(),
                problem: report.problem.clone(),
            }
        };
        Checked {
            clean: book.is_clean() && reports.iter().all(StoreReport::is_clean),
            ledger: CheckedBook::new(book),
            stores: reports.iter().map(store).collect(),
        }
    }
}

impl Finding {
    fn new(view: &FindingView) -> Finding {
        let need = |need: &NeedView| {
            let (path, path_bytes) = text(need.path.as_bytes());
            Need {
                lane: need.lane.clone(),
                lane_id: need.lane_id.clone(),
                snapshot: need.snapshot.to_string(),
                root: need.root,
                path,
                path_bytes,
            }
        };
        Finding {
            what: view.what,
            object: view.object.clone(),
            kind: view.kind.clone(),
            file: view.file.clone(),
            offset: view.offset,
            why: view.why.clone(),
            spare: view.spare,
            needs: view.needs,
            needed_by: view.needed_by.iter().map(need).collect(),
        }
    }
}
