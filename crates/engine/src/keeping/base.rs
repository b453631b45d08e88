//! What a lane's base is after a keep, and after a keep was undone.
//!
//! Invariant: what was kept is the lane's base from then on, so that it is no drift the next time; once it is undone, the
//! base is what it was, and the lane shows its changes again. Doing it twice does no more than doing it once.

use review::apply::Settled;
use tree::dir::DirTree;
use tree::{Entry, TreePath};
use workspace::home::LaneHome;
use workspace::manifest::{Advance, Manifest};
use workspace::{Kept, Took};

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
        (false, _) => renew(engine, settled, &[]),
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

/// One lane of a keep.
struct KeptFrom {
    home: LaneHome,
    /// The number of its root.
    index: usize,
    /// The paths that are its own.
    took: Took,
}

/// The lanes of a keep that are still there, with what each had in it.
fn lanes_of(engine: &Engine, settled: &Settled) -> Result<Vec<KeptFrom>> {
    let lanes = super::lanes_of(&settled.about);
    let mut found = Vec::with_capacity(lanes.len());
    for (id, _) in &lanes {
        let Some(row) = engine.ledger()?.lane(id)? else { continue };
        let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { continue };
        let index = crate::describe::roots(&row).iter().position(|root| root.path == settled.origin);
        let Some(index) = index else { continue };
        let took = match lanes.len() {
            // The record names of what is new the topmost path only.
            1 => Some(Took { paths: settled.paths.clone(), whole: settled.paths.clone() }),
            // Without a word of its own nothing here is of this lane.
            _ => Took::load(home.dir(), &settled.id, index)?,
        };
        found.extend(took.map(|took| KeptFrom { home, index, took }));
    }
    Ok(found)
}

fn open(settled: &Settled) -> Result<DirTree> {
    DirTree::open(&settled.origin).doing(|| format!("open {}", settled.origin.display()))
}

fn advance(engine: &Engine, settled: &Settled) -> Result<()> {
    for KeptFrom { home, index, took } in lanes_of(engine, settled)? {
        let Some(manifest) = Manifest::load(home.dir(), index)? else { continue };
        // Its other names were set aside with what was kept: they are not what they were any more.
        let mut also = Vec::new();
        if let Some(aside) = Manifest::aside(home.dir(), &aside_name(&settled.id, index))? {
            for told in aside.iter() {
                let (path, was) = told?;
                if was.entry.nlink > 1 && !was.entry.is_dir() && !took.paths.contains(&path) {
                    also.push(path);
                }
            }
        }
        let joined = Kept::load(home.dir(), index)?.joined();
        let advance = Advance { paths: &took.paths, whole: &took.whole, also: &also, except: &joined };
        manifest.advance(&advance, &open(settled)?, home.dir(), index)?;
    }
    Ok(())
}

/// Puts back what the lanes' bases say of the paths of a keep that was undone.
fn retreat(engine: &Engine, settled: &Settled) -> Result<()> {
    let own = lanes_of(engine, settled)?;
    for KeptFrom { home, index, took } in &own {
        if let Some(manifest) = Manifest::load(home.dir(), *index)?
            && let Some(aside) = Manifest::aside(home.dir(), &aside_name(&settled.id, *index))?
        {
            let before = &settled.before;
            manifest.retreat(&aside, &took.paths, before, &open(settled)?, home.dir(), *index)?;
        }
        if let Some(before) = Kept::aside(home.dir(), &settled.id, *index)? {
            let mut kept = Kept::load(home.dir(), *index)?;
            kept.retreat(&before, &took.paths);
            kept.save(home.dir(), *index)?;
        }
    }
    renew(engine, settled, &own)
}

/// What was away for a while and is there again is no drift of any lane.
fn renew(engine: &Engine, settled: &Settled, except: &[KeptFrom]) -> Result<()> {
    let tree = open(settled)?;
    for row in engine.ledger()?.lanes(ledger::LaneFilter::default())? {
        let roots = crate::describe::roots(&row);
        let Some(index) = roots.iter().position(|root| root.path == settled.origin) else { continue };
        let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { continue };
        // What others of the same keep had is no base of one lane, but it is there again for it, too.
        let is_own = |own: &&KeptFrom| own.home.path() == home.path();
        let own = except.iter().find(is_own).map(|own| own.took.paths.as_slice());
        if own.is_some_and(|own| own == settled.paths) {
            continue;
        }
        let is_others = |path: &TreePath| own.is_none_or(|own| !own.contains(path));
        let paths: Vec<TreePath> = settled.paths.iter().filter(|path| is_others(path)).cloned().collect();
        let before: Vec<(TreePath, Entry)> =
            settled.before.iter().filter(|(path, _)| is_others(path)).cloned().collect();
        if let Some(manifest) = Manifest::load(home.dir(), index)? {
            manifest.renew(&paths, &before, &tree, home.dir(), index)?;
        }
    }
    Ok(())
}
