//! Puts right what a crash left: a lane that is recorded as live though nobody holds it, a lane that
//! was moved to the trash without its row, rows whose directory is gone, trash past its time.
//!
//! Invariant: nothing here deletes a lane that was not discarded, and nothing here costs anything for
//! lanes that are at rest.

use std::path::Path;
use std::time::Duration;

use ledger::{Lane, LaneState};
use workspace::home::LaneHome;
use workspace::recover::RemnantKind;

use crate::clock;
use crate::engine::{Engine, done};
use crate::error::{EngineError, Result};
use crate::monitor::{Event, Monitor};
use crate::stores;

/// How long a discarded lane stays in the trash: 14 days.
pub const RETENTION_MS: i64 = 14 * 86_400_000;

/// Brings rows in step with what is there.
pub fn settle_all(engine: &Engine, rows: &mut Vec<Lane>, monitor: &mut dyn Monitor) -> Result<()> {
    let mut kept = Vec::with_capacity(rows.len());
    for mut row in rows.drain(..) {
        if row.state == LaneState::Live {
            settle_live(engine, &mut row, monitor)?;
        }
        if row.state == LaneState::New
            && row.options["for_run"] == true
            && clear_unbegun(engine, &row, monitor)?
        {
            continue;
        }
        // One lstat a lane: a `discard` that died between its steps leaves the row behind.
        let dir = engine.state().lanes().join(&row.id);
        let is_whole = dir.join("base").symlink_metadata().is_ok();
        if is_whole || !finish_discard(engine, &row, monitor)? {
            kept.push(row);
        }
    }
    *rows = kept;
    Ok(())
}

/// Removes a lane that was made for a command which never began, because its maker was ended first: true where
/// it is gone. What holds anything at all stays.
fn clear_unbegun(engine: &Engine, row: &Lane, monitor: &mut dyn Monitor) -> Result<bool> {
    // Whatever is wrong with it is told by whoever wants to use it.
    let Ok(lane) = crate::lane::open(engine, row.clone()) else { return Ok(false) };
    let Some(_lock) = lane.home.try_lock()? else { return Ok(false) };
    // Since the row was read it may have begun, and ended.
    let is_new = engine.ledger()?.lane(&row.id)?.is_some_and(|now| now.state == LaneState::New);
    let is_empty = |counts: crate::view::Counts| counts == crate::view::Counts::default();
    let holds_nothing =
        || lane.counts().is_ok_and(|roots| roots.into_iter().all(|root| is_empty(root.counts)));
    if !is_new || lane.home_changes() > 0 || !holds_nothing() {
        return Ok(false);
    }
    drop(lane.roots);
    stores::remove_lane(engine.state().path(), lane.home)?;
    engine.ledger()?.act(|act| act.delete_lane(&row.id))?;
    monitor.event(Event::Repaired("a lane was made for a run that never began", &row.name));
    Ok(true)
}

/// Ends a discard that was interrupted: true where the lane is gone now.
fn finish_discard(engine: &Engine, row: &Lane, monitor: &mut dyn Monitor) -> Result<bool> {
    match LaneHome::open(engine.state().path(), &row.id) {
        Ok(home) => {
            // Without its stamp a lane is half removed; whoever holds it is at it.
            let Some(_lock) = home.try_lock()? else { return Ok(false) };
            match stores::remove_lane(engine.state().path(), home) {
                // Whoever was at it has come to the end.
                Err(EngineError::Workspace(error)) if error.is_not_found() => {}
                other => other?,
            }
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    engine.ledger()?.discard_lane(&row.id, clock::now_ms())?;
    monitor.event(Event::Repaired("a lane was half discarded", &row.name));
    Ok(true)
}

/// True where a restore of the lane was begun and not ended. One lstat.
pub fn is_between(engine: &Engine, row: &Lane) -> bool {
    engine.state().lanes().join(&row.id).join("restoring").symlink_metadata().is_ok()
}

/// Finishes a restore that was interrupted, unless somebody is just at it.
pub fn finish_restore(engine: &Engine, row: &Lane, monitor: &mut dyn Monitor) -> Result<()> {
    let lane = crate::lane::open(engine, row.clone())?;
    match lane.home.try_lock()? {
        Some(_lock) => crate::going_back::settle(engine, &lane, monitor),
        None => crate::going_back_live::settle(engine, &lane),
    }
}

/// Clears lane directories that no row speaks of: lanes whose making was interrupted; then layers on which no lane
/// stands. What may hold work stays and is named by `doctor`.
pub fn sweep(engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
    sweep_lanes(engine, monitor)?;
    match engine.layer_pool().sweep(&is_referenced) {
        Ok(0) => {}
        Ok(_) => monitor.event(Event::Repaired("a layer was left over", "layers")),
        // Nobody is kept from looking at lanes by it.
        Err(error) => monitor.event(Event::Warning(&format!("layers on which no lane stands: {error}"))),
    }
    Ok(())
}

/// Whether a sealed layer is needed by anything but lanes that stand on it. Snapshots hold their content themselves.
pub fn is_referenced(_layer: &str) -> bool {
    false
}

/// [`sweep`] for a command that makes a lane which goes with it: what only the ledger could tell is left to the next
/// command that opens it. One lstat a lane.
pub fn sweep_in_passing(engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
    let lanes = engine.state().lanes();
    let is_whole = |id: &String| lanes.join(id).join("base").symlink_metadata().is_ok();
    if names_in(&lanes).iter().all(is_whole) { Ok(()) } else { sweep(engine, monitor) }
}

fn sweep_lanes(engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
    let names = names_in(&engine.state().lanes());
    if names.is_empty() {
        return Ok(());
    }
    let rows = engine.ledger()?.lanes(ledger::LaneFilter::default())?;
    let is_known = |id: &str| rows.iter().any(|row| row.id == id);
    if names.iter().all(|id| is_known(id)) {
        return Ok(());
    }
    let state = engine.state().path();
    for remnant in
        workspace::recover::remnants(state, &is_known, Duration::from_millis(RETENTION_MS.unsigned_abs()))?
    {
        let is_empty = || {
            LaneHome::open(state, &remnant.id)
                .is_ok_and(|home| home.is_forking().unwrap_or(false) || never_ran(&home))
        };
        let clear = match remnant.kind {
            RemnantKind::HalfMade | RemnantKind::Temporary => true,
            RemnantKind::Unknown => is_empty(),
            // The trash has its own rule, which asks the ledger.
            RemnantKind::OldTrash => false,
        };
        // The row may have been written since the list was read.
        if clear && (is_known(&remnant.id) || engine.ledger()?.lane(&remnant.id)?.is_none()) {
            clear_remnant(state, &remnant)?;
            monitor.event(Event::Repaired("a lane was half made", &remnant.id));
        }
    }
    Ok(())
}

/// A lane that was half removed may have left its history behind.
fn clear_remnant(state: &Path, remnant: &workspace::recover::Remnant) -> Result<()> {
    if remnant.kind != RemnantKind::Temporary
        && let Ok(home) = LaneHome::open(state, &remnant.id)
        && let Some(_lock) = home.try_lock()?
    {
        return stores::remove_lane(state, home);
    }
    workspace::recover::clear(state, remnant)?;
    Ok(())
}

/// True where nothing can have been written.
fn never_ran(home: &LaneHome) -> bool {
    let runs = match kernel::open::dir_beneath(&home.dir().fd, b"runs") {
        Ok(dir) => kernel::dir::entries(&dir).is_ok_and(|names| names.is_empty()),
        Err(error) => error.is_not_found(),
    };
    runs && home.is_unused().unwrap_or(false)
}

/// A lane that is recorded as live is live as long as somebody holds its lock.
fn settle_live(engine: &Engine, row: &mut Lane, monitor: &mut dyn Monitor) -> Result<()> {
    let Ok(home) = LaneHome::open(engine.state().path(), &row.id) else { return Ok(()) };
    let Some(lock) = home.try_lock()? else {
        // Whoever made it stand still may have been killed before it could let go.
        sandbox::freeze::lift(&home.dir().fd, Duration::ZERO);
        return Ok(());
    };
    // Nobody is in it any more.
    sandbox::freeze::group::end(&home.dir().fd);
    sandbox::limits::end(&home.dir().fd);
    let noted = engine.ledger()?.act(|act| -> ledger::Result<()> {
        act.set_state(&row.id, LaneState::Idle)?;
        act.lose_open_runs(&row.id, clock::now_ms())
    });
    row.state = LaneState::Idle;
    match noted {
        Ok(()) => monitor.event(Event::Repaired("a lane was left live", &row.name)),
        // A full disk must not keep anybody from looking, nor from dropping what fills it.
        Err(error) => monitor
            .event(Event::Warning(&format!("what became of {} could not be recorded: {error}", row.name))),
    }
    if !sandbox::notify::has_journal(&home.dir().fd) {
        return Ok(());
    }
    let settled = crate::lane::open(engine, row.clone())
        .and_then(|lane| crate::launch::settle_renames(engine, &lane, &lock));
    match settled {
        Ok(()) => monitor.event(Event::Repaired("a directory was half renamed", &row.name)),
        // What the lane holds can still be looked at, and the next run tries again.
        Err(error) => {
            monitor.event(Event::Warning(&format!("lane {}: a directory is half renamed: {error}", row.name)))
        }
    }
    Ok(())
}

/// Deletes what has been in the trash longer than the retention time. A problem with one lane is told and
/// does not stop the rest.
pub fn empty_trash(engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
    if let Err(error) = crate::keeping::expire(engine) {
        monitor.event(Event::Warning(&format!("keeps past their time: {error}")));
    }
    let Ok(entries) = std::fs::read_dir(engine.state().trash()) else { return Ok(()) };
    let now = clock::now_ms();
    for entry in entries.flatten() {
        let Some(id) = entry.file_name().to_str().map(str::to_owned) else { continue };
        // A directory without a row is not known to be discarded long enough: it stays.
        let Some(row) = engine.ledger()?.lane(&id)? else { continue };
        if row.state != LaneState::Discarded || row.discarded_at.is_none_or(|at| now - at < RETENTION_MS) {
            continue;
        }
        if let Err(error) = delete_trashed(engine, &id) {
            monitor.event(Event::Warning(&format!("lane {} in the trash: {error}", row.name)));
        }
    }
    Ok(())
}

fn delete_trashed(engine: &Engine, id: &str) -> Result<()> {
    let home = LaneHome::open_trashed(engine.state().path(), id)?;
    let Some(_lock) = home.try_lock()? else { return Ok(()) };
    stores::remove_lane(engine.state().path(), home)?;
    engine.ledger()?.insert_op(&done("expire", id, serde_json::Value::Null))?;
    Ok(())
}

/// Lane directories that no row speaks of, and rows whose directory is gone: `(id, what)`.
pub fn remnants(engine: &Engine) -> Result<Vec<(String, &'static str)>> {
    let mut found = Vec::new();
    let rows = engine.ledger()?.lanes(ledger::LaneFilter::default())?;
    for id in names_in(&engine.state().lanes()) {
        // Somebody is making it, or a check runs in it.
        let is_held = || {
            LaneHome::open(engine.state().path(), &id).is_ok_and(|home| matches!(home.try_lock(), Ok(None)))
        };
        if !rows.iter().any(|row| row.id == id) && !is_held() {
            found.push((id, "a directory without a record"));
        }
    }
    for row in rows {
        if engine.state().lanes().join(&row.id).symlink_metadata().is_err() {
            found.push((row.id, "a record without its directory"));
        }
    }
    Ok(found)
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect()
}
