//! What a lane's base is after a keep, and after a keep was undone.
//!
//! Invariant: what was kept is the lane's base from then on, so that it is no drift the next time; once it is undone, the
//! base is what it was, and the lane shows its changes again. Doing it twice does no more than doing it once.

use review::apply::Settled;
use tree::dir::DirTree;
use workspace::home::LaneHome;
use workspace::manifest::{Advance, Manifest};

use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::monitor::{Event, Monitor};

/// Under which name a lane keeps what its manifest said before a keep.
pub(crate) fn aside_name(id: &str, index: usize) -> String {
    format!("kept.{id}.{index}")
}

/// Brings the lanes in step with what became of a keep, or of the undoing of one. What fails is told, and done by the next
/// command: until then a lane calls something drift that is none.
pub(crate) fn follow(engine: &Engine, settled: &Settled, monitor: &mut dyn Monitor) -> bool {
    let done = match (settled.is_done, settled.is_undo) {
        (true, false) => advance(engine, settled),
        (true, true) => retreat(engine, settled),
        (false, _) => renew(engine, settled, None),
    };
    if let Err(error) = &done {
        monitor.event(Event::Warning(&format!("the base of a lane: {}", error.with_causes())));
    }
    // What is damaged will not be whole the next time.
    let is_damaged = |error: &EngineError| {
        matches!(
            error,
            EngineError::Workspace(workspace::Error::Damaged { .. }) | EngineError::Damaged { .. }
        )
    };
    done.is_ok() || done.is_err_and(|error| is_damaged(&error))
}

/// The lane of a keep and the number of its root at `origin`; `None` where the lane is gone.
fn lane_of(engine: &Engine, settled: &Settled) -> Result<Option<(LaneHome, usize)>> {
    let said: serde_json::Value = serde_json::from_slice(&settled.about).unwrap_or_default();
    let Some(id) = said["lane"].as_str() else { return Ok(None) };
    let Some(row) = engine.ledger()?.lane(id)? else { return Ok(None) };
    let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { return Ok(None) };
    let index = crate::describe::roots(&row).iter().position(|root| root.path == settled.origin);
    Ok(index.map(|index| (home, index)))
}

fn open(settled: &Settled) -> Result<DirTree> {
    DirTree::open(&settled.origin).doing(|| format!("open {}", settled.origin.display()))
}

fn advance(engine: &Engine, settled: &Settled) -> Result<()> {
    let Some((home, index)) = lane_of(engine, settled)? else { return Ok(()) };
    let Some(manifest) = Manifest::load(home.dir(), index)? else { return Ok(()) };
    // Its other names were set aside with what was kept: they are not what they were any more.
    let mut also = Vec::new();
    if let Some(aside) = Manifest::aside(home.dir(), &aside_name(&settled.id, index))? {
        for told in aside.iter() {
            let (path, was) = told?;
            if was.entry.nlink > 1 && !was.entry.is_dir() && !settled.paths.contains(&path) {
                also.push(path);
            }
        }
    }
    // The record names of what is new the topmost path only.
    let joined = workspace::Kept::load(home.dir(), index)?.joined();
    let advance = Advance { paths: &settled.paths, whole: &settled.paths, also: &also, except: &joined };
    manifest.advance(&advance, &open(settled)?, home.dir(), index)?;
    Ok(())
}

/// Puts back what the lanes' bases say of the paths of a keep that was undone.
fn retreat(engine: &Engine, settled: &Settled) -> Result<()> {
    let own = lane_of(engine, settled)?;
    if let Some((home, index)) = &own
        && let Some(manifest) = Manifest::load(home.dir(), *index)?
        && let Some(aside) = Manifest::aside(home.dir(), &aside_name(&settled.id, *index))?
    {
        let (paths, before) = (&settled.paths, &settled.before);
        manifest.retreat(&aside, paths, before, &open(settled)?, home.dir(), *index)?;
    }
    renew(engine, settled, own.as_ref().map(|(home, _)| home))
}

/// What was away for a while and is there again is no drift of any lane.
fn renew(engine: &Engine, settled: &Settled, except: Option<&LaneHome>) -> Result<()> {
    let tree = open(settled)?;
    for row in engine.ledger()?.lanes(ledger::LaneFilter::default())? {
        let roots = crate::describe::roots(&row);
        let Some(index) = roots.iter().position(|root| root.path == settled.origin) else { continue };
        let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { continue };
        if except.is_some_and(|own| own.path() == home.path()) {
            continue;
        }
        if let Some(manifest) = Manifest::load(home.dir(), index)? {
            manifest.renew(&settled.paths, &settled.before, &tree, home.dir(), index)?;
        }
    }
    Ok(())
}
