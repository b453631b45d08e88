//! What was kept, and the way back: the keeps of which there are records, and undoing one.

use std::path::Path;

use engine::keeping::KeptView;
use engine::ops::undo_keep::{UndoKeepRequest, UndoKeepView};
use engine::{Engine, Silent};
use serde_json::{Value, json};

use super::super::text::Text;
use crate::error::Result;
use crate::render::report;

/// The keeps of the project, the newest first.
pub(super) fn list(engine: &Engine, dir: &Path) -> Result<Value> {
    let keeps = engine::ops::undo_keep::list(engine, dir, &mut Silent)?;
    Ok(json!({ "keeps": keeps.iter().map(kept).collect::<Vec<_>>() }))
}

/// What undoing one would do.
pub(super) fn plan(engine: &Engine, dir: &Path, keep: String) -> Result<Value> {
    let request = UndoKeepRequest { dir: dir.to_owned(), id: Some(keep) };
    Ok(shown(&engine::ops::undo_keep::prepare(engine, &request, &mut Silent)?.view))
}

/// Undoes it: all of it, or nothing.
pub(super) fn undo(engine: &Engine, dir: &Path, keep: String) -> Result<Value> {
    let request = UndoKeepRequest { dir: dir.to_owned(), id: Some(keep) };
    let prepared = engine::ops::undo_keep::prepare(engine, &request, &mut Silent)?;
    Ok(shown(&prepared.execute(engine, &mut Silent)?))
}

fn kept(keep: &KeptView) -> Value {
    json!({
        "id": keep.id, "at": keep.at, "lane": Text::name(&keep.lane),
        "lanes": keep.lanes.iter().map(|(_, name)| Text::name(name)).collect::<Vec<_>>(), "steps": keep.steps, "undone": keep.is_undone,
        "bytes": report::bytes(keep.bytes), "problem": keep.problem.as_ref().map(Text::name),
    })
}

fn shown(view: &UndoKeepView) -> Value {
    let steps = view.steps.iter();
    json!({
        "keep": kept(&view.keep),
        "steps": steps.map(|step| json!({ "what": step.what, "name": Text::name(step.path.as_bytes()) })).collect::<Vec<_>>(),
        "edited": view.edited.iter().map(|(_, path)| Text::name(path.as_bytes())).collect::<Vec<_>>(),
    })
}
