//! What the page's buttons do besides `keep`: export, discard and recover, back and forth in a history, stop. Each asks
//! the engine for the verb of the same name; what cannot be seen beforehand otherwise has a plan.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use engine::Engine;
use engine::only_here::shown;
use engine::ops::discard::DiscardRequest;
use engine::ops::export::ExportRequest;
use engine::ops::recover_lane::RecoverRequest;
use engine::ops::restore::{RestoreRequest, Target};
use engine::ops::stop::StopRequest;
use serde_json::{Value, json};

use super::super::request::{To, unhex};
use super::super::text::Text;
use super::{hex, history, lanes};
use crate::error::{CliError, Result};
use crate::render::report;

/// Where an export would go.
pub(super) fn plan_export(engine: &Engine, dir: &Path, lane: String) -> Result<Value> {
    let request = ExportRequest { dir: dir.to_owned(), lane: Some(lane), ..ExportRequest::default() };
    let targets = engine::ops::export::plan(engine, &request)?;
    Ok(json!({
        "targets": targets.iter().map(|target| Text::path(target)).collect::<Vec<_>>(),
        "target": targets.first().map(|target| hex(target.as_os_str().as_bytes())),
    }))
}

/// Writes it there.
pub(super) fn export(engine: &Engine, dir: &Path, lane: String, target: &str) -> Result<Value> {
    let target = unhex(target).map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
    let target = target.ok_or_else(|| CliError::Usage("the target of the request is none".to_owned()))?;
    let request = ExportRequest {
        dir: dir.to_owned(),
        lane: Some(lane),
        target: Some(target),
        ..ExportRequest::default()
    };
    let answer = engine::ops::export::export(engine, &request)?;
    let left = answer.left_out.iter();
    Ok(json!({
        "target": Text::path(&answer.target),
        "further": answer.further.iter().map(|target| Text::path(target)).collect::<Vec<_>>(),
        "files": answer.files,
        "bytes": report::bytes(answer.bytes),
        "left_out": left.map(|(path, why)| json!({ "path": Text::name(path.as_bytes()), "why": Text::name(why) }))
            .collect::<Vec<_>>(),
    }))
}

/// What a discard would drop, and what of it exists nowhere else. What is damaged can be dropped all the same.
pub(super) fn plan_discard(engine: &Engine, dir: &Path, lane: String) -> Result<Value> {
    let request =
        DiscardRequest { dir: dir.to_owned(), lane: Some(lane.clone()), ..DiscardRequest::default() };
    let lost = engine::ops::discard::would_lose(engine, &request);
    let origin = engine.project(dir)?.top;
    let mut plan = lanes::one(engine, dir, lane)?;
    plan["only_here"] = match lost {
        Ok(lost) => {
            let first = lost.first.iter().map(|(root, path)| Text::path(&shown(&origin, root, path)));
            let commits = lost.commits.iter();
            let commits = commits.map(|(name, id)| json!({ "name": Text::name(name), "id": Text::name(id.get(..12).unwrap_or(id)) }));
            json!({
                "changes": lost.changes, "first": first.collect::<Vec<_>>(), "commits": commits.collect::<Vec<_>>(),
                "home": lost.home, "snapshots": lost.snapshots,
            })
        }
        Err(error) => json!({ "unknown": Text::content(error.with_causes().as_bytes()) }),
    };
    Ok(plan)
}

/// Drops it into the trash.
pub(super) fn discard(engine: &Engine, dir: &Path, lane: String, stop: bool) -> Result<Value> {
    let request = DiscardRequest { dir: dir.to_owned(), lane: Some(lane), now: false, stop, tell: false };
    let answer = engine::ops::discard::discard(engine, &request)?;
    Ok(json!({ "lane": lanes::view(&answer.lane) }))
}

/// Takes it out again.
pub(super) fn recover(engine: &Engine, dir: &Path, lane: String) -> Result<Value> {
    let request = RecoverRequest { dir: dir.to_owned(), lane: Some(lane), rename: None };
    Ok(json!({ "lane": lanes::view(&engine::ops::recover_lane::recover(engine, &request)?) }))
}

/// Puts a lane back, or forth.
pub(super) fn go_back(engine: &Engine, dir: &Path, lane: String, to: To, yes: bool) -> Result<Value> {
    let target = match to {
        To::Back => Target::Back,
        To::Forth => Target::Forth,
        To::Snapshot(id) => Target::Reference(id),
    };
    let request = RestoreRequest { dir: dir.to_owned(), lane: Some(lane), target, yes };
    let answer = engine::ops::restore::restore(engine, &request)?;
    let left = answer.restored.left.iter();
    Ok(json!({
        "to": history::snapshot(&answer.to),
        "from": history::snapshot(&answer.from),
        "rescued": answer.rescued,
        "changed": answer.restored.changed,
        "removed": answer.restored.removed,
        "left": left.map(|(_, path, why)| json!({ "path": Text::name(path.as_bytes()), "why": Text::name(why) }))
            .collect::<Vec<_>>(),
    }))
}

/// Ends what runs in it.
pub(super) fn stop(engine: &Engine, dir: &Path, lane: String) -> Result<Value> {
    let answer = engine::ops::stop::stop(engine, &StopRequest { dir: dir.to_owned(), lane: Some(lane) })?;
    Ok(json!({ "was_live": answer.was_live }))
}
