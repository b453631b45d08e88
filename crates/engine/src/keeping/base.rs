//! What a lane's base is after a keep, and after a keep was undone.
//!
//! Invariant: what was kept is the lane's base from then on, so that it is no drift the next time; once it is undone, the
//! base is what it was, and the lane shows its changes again. Doing it twice does no more than doing it once.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use review::apply::Kept;
use tree::dir::DirTree;
use workspace::home::LaneHome;
use workspace::manifest::Manifest;

use crate::engine::Engine;
use crate::error::{Doing as _, Result};
use crate::keeping;

/// Under which name a lane keeps what its manifest said before a keep.
pub(crate) fn aside_name(id: &str, index: usize) -> String {
    format!("kept.{id}.{index}")
}

/// Brings the lane of a keep that was finished, or undone, in step with it: for a process that was killed before it could.
pub(crate) fn follow(engine: &Engine, origin: &Path, id: &str, is_undo: bool) -> Result<()> {
    let Some((journal, kept)) = keeping::record(engine, origin, id)? else { return Ok(()) };
    for (journal, origin) in keeping::roots(&kept, &journal, origin) {
        let Some(kept) = review::apply::kept(&journal)?.into_iter().find(|one| one.id == id) else {
            continue;
        };
        if is_undo { retreat(engine, &origin, &kept)? } else { advance(engine, &origin, &kept)? }
    }
    Ok(())
}

/// The lane of a keep and the number of its root at `origin`; `None` where the lane is gone.
fn lane_of(engine: &Engine, origin: &Path, kept: &Kept) -> Result<Option<(LaneHome, usize)>> {
    let said: serde_json::Value = serde_json::from_slice(&kept.about).unwrap_or_default();
    let Some(id) = said["lane"].as_str() else { return Ok(None) };
    let Some(row) = engine.ledger()?.lane(id)? else { return Ok(None) };
    let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { return Ok(None) };
    let index = crate::describe::roots(&row).iter().position(|root| root.path == origin);
    Ok(index.map(|index| (home, index)))
}

fn advance(engine: &Engine, origin: &Path, kept: &Kept) -> Result<()> {
    let Some((home, index)) = lane_of(engine, origin, kept)? else { return Ok(()) };
    let Some(manifest) = Manifest::load(home.dir(), index)? else { return Ok(()) };
    let tree = DirTree::open(origin).doing(|| format!("open {}", origin.display()))?;
    let also = manifest.other_names(&kept.paths, &tree)?;
    manifest.advance(&kept.paths, &also, &tree, home.dir(), index)?;
    Ok(())
}

/// Puts back what the lanes' bases say of the paths of a keep that was undone.
pub(crate) fn retreat(engine: &Engine, origin: &Path, kept: &Kept) -> Result<()> {
    let tree = DirTree::open(origin).doing(|| format!("open {}", origin.display()))?;
    let own = lane_of(engine, origin, kept)?;
    if let Some((home, index)) = &own
        && let Some(manifest) = Manifest::load(home.dir(), *index)?
        && let Some(aside) = Manifest::aside(home.dir(), &aside_name(&kept.id, *index))?
    {
        manifest.retreat(&aside, &kept.paths, &kept.before, &tree, home.dir(), *index)?;
    }
    let filter = ledger::LaneFilter { origin: Some(origin.as_os_str().as_bytes()), ..Default::default() };
    for row in engine.ledger()?.lanes(filter)? {
        let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { continue };
        if own.as_ref().is_some_and(|(own, _)| own.path() == home.path()) {
            continue;
        }
        if let Some(manifest) = Manifest::load(home.dir(), 0)? {
            manifest.renew(&kept.before, &tree, home.dir(), 0)?;
        }
    }
    Ok(())
}
