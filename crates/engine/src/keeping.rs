//! Where a keep has its journal and its staging directory, what is done about an interrupted one, and the records by which
//! keeps can be undone.
//!
//! Invariant: one journal directory for each origin, found again by the origin's path alone; staging
//! stands outside the origin wherever a directory of ours shares its filesystem. A record belongs to the project, not to the
//! lane: it stays for the retention time, whatever becomes of the lane.

pub(crate) mod base;

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use review::apply::{self, Outcome};
use tree::dir::DirTree;
use workspace::{LayerPlace, MountTable, OriginFacts, PlaceWhy};

use crate::clock;
use crate::engine::Engine;
use crate::error::{Doing as _, Result};
use crate::monitor::{Event, Monitor};
use crate::recover::RETENTION_MS;

/// The journal directory of an origin; made where it is missing.
pub fn journal_dir(engine: &Engine, origin: &Path) -> Result<PathBuf> {
    let dir = journal_path(engine, origin);
    make(&dir)?;
    Ok(dir)
}

fn journal_path(engine: &Engine, origin: &Path) -> PathBuf {
    // The name only has to be stable and free of collisions among one person's projects; the journal
    // itself knows its origin's inode and is refused for another.
    let hash = |seed: u64| {
        let bytes = origin.as_os_str().as_bytes().iter();
        bytes.fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    };
    engine.state().path().join("keeps").join(format!(
        "{:016x}{:016x}",
        hash(0xcbf2_9ce4_8422_2325),
        hash(0x9e37_79b9_7f4a_7c15)
    ))
}

fn make(dir: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| kernel::Error::from_io("mkdir", dir.as_os_str().as_bytes(), &error))
        .doing(|| format!("make {}", dir.display()))
}

/// A directory of ours from which the origin can be reached by rename; `None` where there is none.
pub fn staging(engine: &Engine, origin: &Path) -> Result<Option<PathBuf>> {
    let facts = OriginFacts::gather(origin, &MountTable::load()?)?;
    let placed = workspace::place(&facts, engine.state().path(), None)?;
    let dir = match placed.place {
        LayerPlace::InState if placed.why == PlaceWhy::SameMount => engine.state().path().join("staging"),
        LayerPlace::At(dir) if dir.is_dir() => dir.join("staging"),
        _ => return Ok(None),
    };
    // One mount may hold several devices (subvolumes), between which nothing can be renamed.
    let dev = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    if dev(dir.parent().unwrap_or(&dir)) != dev(origin) {
        return Ok(None);
    }
    make(&dir)?;
    Ok(Some(dir))
}

/// Ends an interrupted keep of this origin. One that is running is left alone.
pub fn repair(engine: &Engine, origin: &Path, monitor: &mut dyn Monitor) -> Result<()> {
    let journal = journal_path(engine, origin);
    if journal.symlink_metadata().is_err() || !apply::is_interrupted(&journal)? {
        return Ok(());
    }
    let dir = DirTree::open(origin).doing(|| format!("open {}", origin.display()))?;
    let mut follow = |settled: &apply::Settled| base::follow(engine, settled, monitor);
    let recovered = match apply::recover_with(&journal, dir.fd(), &apply::NoFaults, &mut follow) {
        Err(review::Error::Busy { .. }) => return Ok(()),
        other => other?,
    };
    let what = match (recovered.outcome, recovered.is_undo) {
        (Outcome::Nothing, _) => return Ok(()),
        (Outcome::RolledBack, false) => "an interrupted keep was taken back",
        (Outcome::Finished, false) => "an interrupted keep was finished",
        (Outcome::RolledBack, true) => "an interrupted undoing of a keep was taken back",
        (Outcome::Finished, true) => "an interrupted undoing of a keep was finished",
    };
    monitor.event(Event::Repaired(what, &origin.display().to_string()));
    for left in &recovered.left {
        let path = left.path.as_bytes().escape_ascii();
        let rescue = left.rescue.as_ref().map_or_else(String::new, |rescue| {
            format!("; what stood there before is in {}", rescue.display())
        });
        monitor.event(Event::Warning(&format!("left as it is: {path} {}{rescue}", left.why)));
    }
    Ok(())
}

/// A keep of which there is a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptView {
    /// Its id.
    pub id: String,
    /// When, in milliseconds since the epoch; `None` where the record is damaged.
    pub at: Option<i64>,
    /// Id of the lane that it came from.
    pub lane_id: String,
    /// Name of that lane then.
    pub lane: String,
    /// Id and name of each lane that was kept, that one first.
    pub lanes: Vec<(String, String)>,
    /// How many paths it wrote.
    pub steps: u64,
    /// The origins that it wrote to, the project first.
    pub roots: Vec<PathBuf>,
    /// It was undone.
    pub is_undone: bool,
    /// Bytes on disk that what it displaced takes.
    pub bytes: u64,
    /// Why it cannot be undone.
    pub problem: Option<String>,
}

/// What a record says of its keep.
pub(crate) fn about(lanes: &[&crate::view::LaneView], steps: usize) -> Vec<u8> {
    let (id, name) = lanes.first().map_or(("", ""), |lane| (lane.id.as_str(), lane.name.as_str()));
    let mut said = serde_json::json!({ "at": clock::now_ms(), "lane": id, "name": name, "steps": steps });
    if lanes.len() > 1 {
        said["lanes"] = lanes.iter().map(|lane| serde_json::json!([lane.id, lane.name])).collect();
    }
    said.to_string().into_bytes()
}

/// The lanes that a record names, as id and name.
pub(crate) fn lanes_of(about: &[u8]) -> Vec<(String, String)> {
    let said: serde_json::Value = serde_json::from_slice(about).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    match said["lanes"].as_array() {
        Some(lanes) => lanes.iter().map(|lane| (text(&lane[0]), text(&lane[1]))).collect(),
        None => vec![(text(&said["lane"]), text(&said["name"]))],
    }
}

/// The roots of a recorded keep: journal directory and origin.
pub(crate) fn roots(kept: &apply::Kept, journal: &Path, origin: &Path) -> Vec<(PathBuf, PathBuf)> {
    if kept.roots.is_empty() { vec![(journal.to_owned(), origin.to_owned())] } else { kept.roots.clone() }
}

fn told(kept: &apply::Kept, journal: &Path, origin: &Path) -> KeptView {
    let said: serde_json::Value = serde_json::from_slice(&kept.about).unwrap_or_default();
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let bytes = kept.displaced.as_deref().map_or(0, bytes_in);
    KeptView {
        id: kept.id.clone(),
        at: said["at"].as_i64(),
        lane_id: text("lane"),
        lane: text("name"),
        lanes: lanes_of(&kept.about),
        steps: said["steps"].as_u64().unwrap_or(0),
        roots: roots(kept, journal, origin).into_iter().map(|(_, origin)| origin).collect(),
        is_undone: kept.is_undone,
        bytes,
        problem: kept.problem.clone(),
    }
}

/// Bytes that a tree of ours takes on disk, each inode once.
fn bytes_in(dir: &Path) -> u64 {
    let Ok(dir) = kernel::open::root_dir(dir) else { return 0 };
    let (mut sum, mut seen) = (0, std::collections::HashSet::new());
    let _gaps = tree::walk::walk(std::os::fd::AsFd::as_fd(&dir), &mut |_, entry| {
        if entry.is_dir() || entry.nlink < 2 || seen.insert(entry.ino) {
            sum += entry.allocated;
        }
        tree::walk::Visit::Enter
    });
    sum
}

/// The keeps of a project of which there are records, the newest first.
pub fn kept(engine: &Engine, origin: &Path) -> Result<Vec<KeptView>> {
    let journal = journal_path(engine, origin);
    let mut found: Vec<KeptView> =
        apply::kept(&journal)?.iter().map(|kept| told(kept, &journal, origin)).collect();
    found.sort_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
    Ok(found)
}

/// One record, as `apply` knows it.
pub(crate) fn record(engine: &Engine, origin: &Path, id: &str) -> Result<Option<(PathBuf, apply::Kept)>> {
    let journal = journal_path(engine, origin);
    let found = apply::kept(&journal)?.into_iter().find(|kept| kept.id == id);
    Ok(found.map(|kept| (journal, kept)))
}

/// What records of keeps take, and what is to go of them or went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepsView {
    /// Keeps that can be undone.
    pub keeps: u64,
    /// Bytes on disk that what they displaced takes.
    pub bytes: u64,
    /// Records that go.
    pub forgotten: u64,
    /// Bytes that become free.
    pub freed: u64,
}

/// The records of keeps of all projects: those past the retention time go, or `all`. Without `execute` nothing is changed.
pub fn collect(engine: &Engine, all: bool, execute: bool) -> Result<KeepsView> {
    let mut view = KeepsView::default();
    for journal in journals(engine) {
        // One that is under way may still ask for the others' word.
        let is_busy = apply::is_interrupted(&journal)?;
        for kept in apply::kept(&journal)? {
            let goes = !is_busy && (all || is_old(&journal, &kept.id));
            let bytes = kept.displaced.as_deref().map_or(0, bytes_in);
            if !kept.is_undone && kept.problem.is_none() {
                view.keeps += 1;
                view.bytes += bytes;
            }
            if goes {
                if execute {
                    apply::forget(&journal, &kept.id)?;
                }
                view.forgotten += 1;
                view.freed += bytes;
            }
        }
    }
    Ok(view)
}

/// Forgets the keeps that are past the retention time. One lstat a keep.
pub fn expire(engine: &Engine) -> Result<()> {
    for journal in journals(engine) {
        let Ok(names) = std::fs::read_dir(&journal) else { continue };
        for name in names.flatten() {
            let name = name.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_prefix("kept.")) else { continue };
            if is_old(&journal, id) && !apply::is_interrupted(&journal)? {
                apply::forget(&journal, id)?;
            }
        }
    }
    Ok(())
}

fn journals(engine: &Engine) -> Vec<PathBuf> {
    let Ok(dirs) = std::fs::read_dir(engine.state().path().join("keeps")) else { return Vec::new() };
    dirs.flatten().map(|dir| dir.path()).collect()
}

/// True where a record was written longer ago than the retention time.
fn is_old(journal: &Path, id: &str) -> bool {
    let written = journal.join(format!("kept.{id}")).symlink_metadata().map(|meta| meta.mtime() * 1000);
    written.is_ok_and(|at| clock::now_ms() - at >= RETENTION_MS)
}
