//! Cards of live lanes: what `exec` has to know of a lane that is live by name, without opening the ledger.
//!
//! A card is `<state>/live/<hash of project and name>`, the lane's row as JSON, put there by the lane's supervisor and
//! taken away at its end. Invariant: a card is a hint. Who follows one has the lane's supervisor answer for it, or
//! asks the ledger; so one that was left behind, cut short or lost costs a moment and no more.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ledger::{Lane, LaneState};

use crate::engine::Engine;
use crate::launch::fingerprint;

/// A card that goes with its owner.
#[derive(Debug)]
pub(crate) struct Card(PathBuf);

/// Puts a card of a lane whose lock the caller holds; `None` where that was not possible.
pub(crate) fn put(engine: &Engine, row: &Lane) -> Option<Card> {
    let row = Lane { state: LaneState::Live, ..row.clone() };
    let text = serde_json::to_vec(&row).ok()?;
    let path = path_of(engine, &row.project, &row.name);
    let (dir, name) = (path.parent()?, path.file_name()?);
    let dir = kernel::open::root_dir(dir).or_else(|_| {
        let _somebody_else_made_it = std::fs::DirBuilder::new().mode(0o700).create(dir);
        kernel::open::root_dir(dir)
    });
    kernel::publish::write_passing_file(dir.ok()?, name.as_bytes(), &text, 0o600).ok()?;
    Some(Card(path))
}

impl Drop for Card {
    fn drop(&mut self) {
        let _a_hint_may_stay = std::fs::remove_file(&self.0);
    }
}

/// The lane of that name in the project, as its card tells it.
pub(crate) fn find(engine: &Engine, project: &Path, name: &str) -> Option<Lane> {
    let project = crate::describe::bytes(project);
    let text = std::fs::read(path_of(engine, &project, name)).ok()?;
    let row: Lane = serde_json::from_slice(&text).ok()?;
    (row.project == project && row.name == name).then_some(row)
}

fn path_of(engine: &Engine, project: &[u8], name: &str) -> PathBuf {
    let hash = fingerprint(&[project, b"\0", name.as_bytes()].concat());
    engine.state().path().join("live").join(format!("{hash:016x}"))
}
