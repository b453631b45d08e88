//! Rows of the ledger as views. Pure but for one read of this boot's id.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ledger::{Lane, Run, Verdict};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::view::{
    BaseView, Cost, Exit, LaneState, LaneView, RootView, RunView, Strategy, VerdictView, WallView,
};

/// Bytes of the ledger as a path.
pub fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// A path as bytes of the ledger.
pub fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// A lane's row as a view, with its newest run.
pub fn lane(engine: &Engine, row: &Lane) -> Result<LaneView> {
    let last_run = engine.ledger()?.last_run(&row.id)?;
    Ok(lane_with(engine, row, last_run.as_ref()))
}

/// A lane's row as a view, with this run.
pub fn lane_with(engine: &Engine, row: &Lane, last_run: Option<&Run>) -> LaneView {
    let dir = match row.state {
        ledger::LaneState::Discarded => engine.state().trash(),
        _ => engine.state().lanes(),
    };
    let this_boot = workspace::base::boot_id().unwrap_or_default();
    LaneView {
        id: row.id.clone(),
        name: row.name.clone(),
        origin: path(&row.origin),
        strategy: strategy(row),
        why: row.why.clone(),
        state: state(row.state),
        created_at: row.created_at,
        base: BaseView {
            sec: row.base_sec,
            nsec: row.base_nsec,
            boot_id: row.boot_id.clone(),
            git_head: row.git_head.clone(),
            // What never ran has nothing that could be half written.
            other_boot: row.boot_id != this_boot && row.state != ledger::LaneState::New,
        },
        roots: roots(row),
        forked_from: row.options[crate::beginning::FORKED]["name"].as_str().map(str::to_owned),
        cost: Cost { millis: row.cost_ms, allocated: row.cost_bytes, files: 0 },
        dir: dir.join(&row.id),
        discarded_at: row.discarded_at,
        last_run: last_run.map(run),
    }
}

fn state(state: ledger::LaneState) -> LaneState {
    match state {
        ledger::LaneState::New => LaneState::New,
        ledger::LaneState::Idle => LaneState::Idle,
        ledger::LaneState::Live => LaneState::Live,
        ledger::LaneState::Discarded => LaneState::Discarded,
    }
}

/// The strategy of a lane's origin.
pub fn strategy(row: &Lane) -> Strategy {
    // The column is written by us; a word of a newer version reads as the strategy that touches least.
    Strategy::from_word(&row.strategy).unwrap_or(Strategy::Copy)
}

/// All roots of a lane, the origin first.
pub fn roots(row: &Lane) -> Vec<RootView> {
    let mut roots = vec![RootView { path: path(&row.origin), strategy: strategy(row), git: false }];
    for further in row.roots.as_array().map(Vec::as_slice).unwrap_or_default() {
        let strategy = further["strategy"].as_str().and_then(Strategy::from_word).unwrap_or(Strategy::Copy);
        if let Some(bytes) = bytes_of(&further["path"]) {
            roots.push(RootView { path: path(&bytes), strategy, git: further["git"] == true });
        }
    }
    roots
}

/// The further roots as the ledger keeps them.
pub fn further_roots(roots: &[RootView]) -> Value {
    roots
        .iter()
        .skip(1)
        .map(
            |root| json!({ "path": value_of(&root.path), "strategy": root.strategy.word(), "git": root.git }),
        )
        .collect()
}

/// A path as JSON: a string where it is UTF-8, else an array of its bytes.
pub fn value_of(path: &Path) -> Value {
    let bytes = path.as_os_str().as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => Value::from(bytes),
    }
}

/// The reverse of [`value_of`].
pub fn path_of(value: &Value) -> Option<PathBuf> {
    bytes_of(value).map(|bytes| path(&bytes))
}

fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Array(bytes) => bytes.iter().map(|b| b.as_u64().and_then(|b| u8::try_from(b).ok())).collect(),
        _ => None,
    }
}

/// A run's row as a view.
pub fn run(run: &Run) -> RunView {
    RunView {
        id: run.id,
        argv: run.start.argv.clone(),
        cwd: path(&run.start.cwd),
        started_at: run.start.started_at,
        ended_at: run.ended_at,
        exit: run.exit.map(exit),
        pid: run.start.pid.and_then(|pid| i32::try_from(pid).ok()),
        walls: walls(&run.start.walls),
        transcript: run.start.transcript.as_deref().map(path),
    }
}

pub(crate) fn exit(exit: ledger::Exit) -> Exit {
    match exit {
        ledger::Exit::Code(code) => Exit::Code(code),
        ledger::Exit::Signal(signal) => Exit::Signal(signal),
        ledger::Exit::Lost => Exit::Lost,
    }
}

/// A verdict's row as a view; `now` is what the lane holds, where that is known.
pub fn verdict(verdict: &Verdict, now: Option<&Fingerprint>) -> VerdictView {
    let what = &verdict.what;
    let exit =
        if what.word == ledger::verdict::Word::Timeout { Some(Exit::TimedOut) } else { what.exit.map(exit) };
    VerdictView {
        id: verdict.id,
        word: what.word.word(),
        fresh: now.is_some_and(|now| what.state.as_deref() == Some(now.as_str())),
        argv: what.argv.clone(),
        exit,
        started_at: what.started_at,
        ended_at: what.ended_at,
        snapshot: what.snapshot.clone(),
        transcript: what.transcript.as_deref().map(path),
    }
}

/// The walls of a report: an array of `{name, status, detail}`.
pub fn walls(report: &Value) -> Vec<WallView> {
    let text = |wall: &Value, key: &str| wall[key].as_str().unwrap_or_default().to_owned();
    report
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|wall| WallView {
            name: text(wall, "name"),
            status: text(wall, "status"),
            detail: text(wall, "detail"),
        })
        .collect()
}

/// Walls as the ledger keeps them.
pub fn walls_value(walls: &[WallView]) -> Value {
    walls
        .iter()
        .map(|wall| json!({ "name": wall.name, "status": wall.status, "detail": wall.detail }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::{bytes_of, value_of};

    #[test]
    fn a_path_of_any_bytes_survives_the_ledger() {
        for bytes in [&b"/plain"[..], b"/bad\xff\x00", "/caf\u{e9}".as_bytes()] {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            assert_eq!(bytes_of(&value_of(path)).as_deref(), Some(bytes));
        }
    }
}
