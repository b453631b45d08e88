//! What several lanes both touch, told before any of it is kept.

use std::path::Path;

use engine::Engine;
use engine::ops::overlap::{self, Touched};
use serde_json::{Value, json};

use super::super::text::Text;
use super::{hex, lanes};
use crate::error::Result;

/// Path by path and pair by pair. Without lanes, all of the project.
pub(super) fn overlap(engine: &Engine, dir: &Path, asked: &[String]) -> Result<Value> {
    let rows = engine::ops::list::rows(engine, dir)?;
    let (_, found) = overlap::overlap(engine, dir, asked)?;
    let top = engine.project(dir)?.top;
    let id = |name: &String| {
        rows.iter().find(|row| row.lane.name == *name).map(|row| row.lane.id.clone()).unwrap_or_default()
    };
    let hunk = |touched: &Touched| json!({ "start": touched.start, "lines": touched.lines });
    let met = found.iter().map(|met| {
        json!({
            "what": met.what.word(),
            "clash": met.what.is_clash(),
            "lanes": met.lanes.each_ref().map(|name| json!({ "id": id(name), "name": Text::name(name) })),
            "root": (met.root != top).then(|| Text::path(&met.root)),
            "path": hex(met.path.as_bytes()),
            "name": Text::name(met.path.as_bytes()),
            "hunks": met.hunks.iter().map(|pair| pair.each_ref().map(hunk)).collect::<Vec<_>>(),
        })
    });
    Ok(json!({
        "lanes": rows.iter().map(|row| lanes::view(&row.lane)).collect::<Vec<_>>(),
        "met": met.collect::<Vec<_>>(),
    }))
}
