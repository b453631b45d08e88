//! Which lane is meant: by name in its project, by id anywhere, or the only one there is.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ledger::{Lane, LaneFilter};

use crate::engine::{Engine, Noting};
use crate::error::{EngineError, Result};
use crate::keeping;
use crate::recover;

/// Ids shorter than this are not looked up by prefix.
const PREFIX: usize = 4;

/// The undiscarded lanes of the project of `dir`, oldest first, as they are now.
pub fn lanes(engine: &Engine, dir: &Path) -> Result<Vec<Lane>> {
    let project = engine.project(dir)?;
    recover::sweep(engine, &mut Noting(engine))?;
    keeping::repair(engine, &project.top, &mut Noting(engine))?;
    let origin = project.top.as_os_str().as_bytes();
    let mut rows = engine.ledger()?.lanes(LaneFilter { origin: Some(origin), ..LaneFilter::default() })?;
    recover::settle_all(engine, &mut rows, &mut Noting(engine))?;
    Ok(rows)
}

/// The lane that `asked` names; without a name the only one that `fits`.
pub fn lane(engine: &Engine, dir: &Path, asked: Option<&str>, fits: impl Fn(&Lane) -> bool) -> Result<Lane> {
    if let Some(name) = asked {
        return named(engine, dir, name).and_then(|row| whole(engine, row));
    }
    let mut rows = lanes(engine, dir)?;
    rows.retain(|row| fits(row));
    match rows.len() {
        1 => whole(engine, rows.remove(0)),
        0 => Err(EngineError::NoLane { project: engine.project(dir)?.top }),
        _ => Err(EngineError::WhichLane { names: rows.into_iter().map(|row| row.name).collect() }),
    }
}

/// The same lane, with a restore finished that was interrupted: until then its layers are between two states.
fn whole(engine: &Engine, row: Lane) -> Result<Lane> {
    if recover::is_between(engine, &row) {
        recover::finish_restore(engine, &row, &mut Noting(engine))?;
    }
    Ok(row)
}

fn named(engine: &Engine, dir: &Path, name: &str) -> Result<Lane> {
    if let Some(row) = by_name(engine, dir, name)? {
        return Ok(row);
    }
    let project = engine.project(dir)?.top;
    let have = lanes(engine, dir)?.into_iter().map(|row| row.name).collect();
    Err(EngineError::NoSuchLane { name: name.to_owned(), project, have })
}

/// The undiscarded lane with that name in the project of `dir`, or with that id (or a unique beginning
/// of it) in any.
pub fn by_name(engine: &Engine, dir: &Path, name: &str) -> Result<Option<Lane>> {
    let ledger = engine.ledger()?;
    // A lane whose project is gone can still be named by its id from anywhere.
    let project = engine.project(dir)?;
    keeping::repair(engine, &project.top, &mut Noting(engine))?;
    let mut found = ledger.lane_by_name(project.top.as_os_str().as_bytes(), name)?;
    if found.is_none()
        && name.len() >= PREFIX
        && name.len() <= 8
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
    {
        let mut rows = ledger.lanes(LaneFilter::default())?;
        rows.retain(|row| row.id.starts_with(name));
        if rows.len() == 1 {
            found = rows.pop();
        }
    }
    let Some(row) = found else { return Ok(None) };
    let mut rows = vec![row];
    recover::settle_all(engine, &mut rows, &mut Noting(engine))?;
    Ok(rows.pop())
}

/// True where a lane of the project of `dir` has exactly this id. Another one's name that looks like it does not count, nor
/// does a lane of another project: for who was handed an id by somebody who sees this project alone.
pub fn is_own(engine: &Engine, dir: &Path, id: &str) -> Result<bool> {
    let top = engine.project(dir)?.top;
    let is_it = |row: &Lane| row.id == id && row.origin == top.as_os_str().as_bytes();
    Ok(by_name(engine, dir, id)?.is_some_and(|row| is_it(&row)))
}

/// The same for one in the trash.
pub fn is_own_discarded(engine: &Engine, dir: &Path, id: &str) -> Result<bool> {
    let top = engine.project(dir)?.top;
    Ok(discarded(engine, Some(&top))?.iter().any(|row| row.id == id))
}

/// The discarded lanes that are still in the trash, newest first; those of one project, or all.
pub fn discarded(engine: &Engine, origin: Option<&Path>) -> Result<Vec<Lane>> {
    let origin = origin.map(|path| path.as_os_str().as_bytes());
    let mut rows = engine.ledger()?.lanes(LaneFilter { origin, discarded: true, ..LaneFilter::default() })?;
    let trash = engine.state().trash();
    rows.retain(|row| row.discarded_at.is_some() && trash.join(&row.id).symlink_metadata().is_ok());
    rows.sort_by_key(|row| std::cmp::Reverse(row.discarded_at));
    Ok(rows)
}
