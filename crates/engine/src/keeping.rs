//! Where a keep has its journal and its staging directory, and what is done about an interrupted one.
//!
//! Invariant: one journal directory for each origin, found again by the origin's path alone; staging
//! stands outside the origin wherever a directory of ours shares its filesystem.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use review::apply::{self, Outcome};
use tree::dir::DirTree;
use workspace::{LayerPlace, MountTable, OriginFacts, PlaceWhy};

use crate::engine::Engine;
use crate::error::{Doing as _, Result};
use crate::monitor::{Event, Monitor};

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
    let recovered = match apply::recover(&journal, dir.fd()) {
        Err(review::Error::Busy { .. }) => return Ok(()),
        other => other?,
    };
    let what = match recovered.outcome {
        Outcome::Nothing => return Ok(()),
        Outcome::RolledBack => "an interrupted keep was taken back",
        Outcome::Finished => "an interrupted keep was finished",
    };
    monitor.event(Event::Repaired(what, &origin.display().to_string()));
    for left in &recovered.left {
        monitor.event(Event::Warning(&format!("left as it is: {left:?}")));
    }
    Ok(())
}
