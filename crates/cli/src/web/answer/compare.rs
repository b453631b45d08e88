//! Two lanes side by side: the paths that either changed, and one file as both have it.

use std::path::Path;

use engine::Engine;
use engine::ops::compare;
use serde_json::{Value, json};

use super::super::request::Place;
use super::super::text::Text;
use super::{changes, hex, lanes, tree_path};
use crate::error::Result;
use crate::wire;

/// The paths.
pub(super) fn list(engine: &Engine, dir: &Path, names: [&str; 2]) -> Result<Value> {
    let two = compare::open(engine, dir, names)?;
    let files = two.files()?;
    let files = files.iter().map(|met| {
        let kinds =
            met.changes.each_ref().map(|change| change.as_ref().map(|change| wire::kind_word(&change.kind)));
        json!({
            "root": met.root_index,
            "path": hex(met.path.as_bytes()),
            "name": Text::name(met.path.as_bytes()),
            "meeting": met.meeting.word(),
            "kinds": kinds,
        })
    });
    Ok(json!({ "lanes": two.views.each_ref().map(lanes::view), "files": files.collect::<Vec<_>>() }))
}

/// One file, from the first lane's to the second one's.
pub(super) fn file(engine: &Engine, dir: &Path, names: [&str; 2], place: &Place) -> Result<Value> {
    let two = compare::open(engine, dir, names)?;
    let compared = two.file(place.root, &tree_path(place)?)?;
    let mut shown = changes::content_value(&compared.diff);
    shown["entries"] = json!(compared.entries.each_ref().map(|entry| entry.as_ref().map(changes::side)));
    Ok(shown)
}
