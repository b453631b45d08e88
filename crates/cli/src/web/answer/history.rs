//! The history of a lane: its snapshots, all branches, with the place where it stands.

use std::path::Path;

use engine::Engine;
use engine::ops::log::{LogRequest, SnapshotView};
use serde_json::{Value, json};

use super::super::text::Text;
use crate::error::Result;
use crate::render::{history as render, report};

/// All snapshots, the newest first.
pub(super) fn history(engine: &Engine, dir: &Path, lane: String) -> Result<Value> {
    let request = LogRequest { dir: dir.to_owned(), lane: Some(lane), all: true, usage: false };
    let answer = engine::ops::log::log(engine, &request)?;
    Ok(json!({
        "snapshots": answer.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "damaged": answer.damaged.iter().map(Text::name).collect::<Vec<_>>(),
        "missed": answer.missed.as_ref().map(|missed| json!({ "at": missed.at, "why": Text::name(&missed.why) })),
    }))
}

/// One snapshot.
pub(super) fn snapshot(snapshot: &SnapshotView) -> Value {
    let first = snapshot.message.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = match snapshot.kind {
        "start" if first.is_empty() => Text::name("before anything was written"),
        _ => Text::name(first),
    };
    json!({
        "id": snapshot.id.to_string(),
        "short": render::short(snapshot.id),
        "parent": snapshot.parent.map(|parent| parent.to_string()),
        "at": snapshot.at,
        "how": render::how(snapshot),
        "text": text,
        "holds": format!("{} entries, {}", snapshot.entries.saturating_sub(1), report::bytes(snapshot.bytes)),
        "gaps": snapshot.gaps.len(),
        "credentials": snapshot.credentials.len(),
        "here": snapshot.is_position,
    })
}
