//! `keep` from the page: what is ticked becomes a selection of the engine's, bound to what was looked at; a plan first,
//! then the same again to be carried out.
//!
//! Invariant: a file whose content was shown, or whose plan was, is kept only if it still is that.

use std::path::{Path, PathBuf};

use engine::ops::diff::DiffRequest;
use engine::ops::keep::{Conflicts, KeepRequest, KeepView, LeftOut, PreparedKeep, StepView};
use engine::selection::{Digest, Lines, Part, Selection, Take};
use engine::{Engine, Event, Monitor};
use serde_json::{Value, json};

use super::super::request::{Place, Tick};
use super::super::text::Text;
use super::tree_path;
use crate::commands::keep::{clash, reason};
use crate::error::{CliError, Result};
use crate::render::report;

/// What a keep of the ticked things would do, and what each ticked file is now.
pub(super) fn plan(
    engine: &Engine,
    dir: &Path,
    lane: &str,
    ticks: &[Tick],
    conflicts: &str,
) -> Result<Value> {
    let (prepared, digests, said) = prepare(engine, dir, lane, ticks, conflicts)?;
    let mut value = shown(&prepared.view, &said);
    value["digests"] = json!(digests);
    Ok(value)
}

/// Does it.
pub(super) fn keep(
    engine: &Engine,
    dir: &Path,
    lane: &str,
    ticks: &[Tick],
    conflicts: &str,
) -> Result<Value> {
    if ticks.iter().any(|tick| tick.digest.is_none()) {
        return Err(CliError::Usage("a keep is of what was planned".to_owned()));
    }
    let (prepared, _, mut said) = prepare(engine, dir, lane, ticks, conflicts)?;
    let view = prepared.execute(engine, &mut said)?;
    Ok(shown(&view, &said))
}

fn prepare(
    engine: &Engine,
    dir: &Path,
    lane: &str,
    ticks: &[Tick],
    conflicts: &str,
) -> Result<(PreparedKeep, Vec<String>, Said)> {
    let (selection, digests) = selection(engine, dir, lane, ticks)?;
    let request = KeepRequest {
        dir: dir.to_owned(),
        lane: Some(lane.to_owned()),
        selection: Some(selection),
        conflicts: crate::commands::keep::conflicts(conflicts).map_err(CliError::Usage)?,
        ..KeepRequest::default()
    };
    let mut said = Said::default();
    let prepared = engine::ops::keep::prepare(engine, &request, &mut said)?;
    Ok((prepared, digests, said))
}

/// The selection that the ticks stand for, and the digest that each ticked file has now.
fn selection(engine: &Engine, dir: &Path, lane: &str, ticks: &[Tick]) -> Result<(Selection, Vec<String>)> {
    let unknown = || CliError::Usage("a tick of the request is none".to_owned());
    let opened = engine::ops::diff::open(engine, dir, Some(lane))?;
    let roots = opened.roots();
    let mut places = Vec::with_capacity(ticks.len());
    for tick in ticks {
        let root: &PathBuf = roots.get(tick.root).ok_or_else(unknown)?;
        places.push((root, tree_path(&Place { root: tick.root, path: tick.path.clone() })?));
    }
    let paths = places.iter().map(|(root, path)| root.join(path.as_path())).collect();
    let request = DiffRequest { dir: dir.to_owned(), paths, ..DiffRequest::default() };
    let mut selection = opened.diff(engine, &request)?.selection()?;
    let mut digests = Vec::with_capacity(ticks.len());
    for (tick, (root, path)) in ticks.iter().zip(&places) {
        let gone = || CliError::Missing("the lane has no such change any more".to_owned());
        let file = selection.file_mut(root, path).ok_or_else(gone)?;
        digests.push(file.digest.to_string());
        file.tick();
        if !tick.whole {
            let hunks = tick.hunks.iter().map(|hunk| {
                let lines =
                    hunk.lines.clone().map_or(Lines::All, |lines| Lines::Some(lines.into_iter().collect()));
                (hunk.id.clone(), lines)
            });
            file.take =
                Some(Take::Part(Part { rename: tick.rename, mode: tick.mode, hunks: hunks.collect() }));
        }
        if let Some(digest) = &tick.digest {
            file.digest = Digest::parse(digest).ok_or_else(unknown)?;
        }
    }
    selection.digest = Selection::digest_of(&selection.files);
    Ok((selection, digests))
}

/// What was said meanwhile.
#[derive(Debug, Default)]
struct Said(Vec<Text>);

impl Monitor for Said {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Warning(what) => self.0.push(Text::content(what.as_bytes())),
            Event::Repaired(what, on) => {
                self.0.push(Text::content(format!("repaired: {what} ({on})").as_bytes()))
            }
            _ => {}
        }
    }
}

fn shown(view: &KeepView, said: &Said) -> Value {
    let origin = &view.lane.origin;
    let elsewhere = |root: &Path| (root != origin).then(|| Text::path(root));
    let step = |step: &StepView| {
        json!({ "what": step.what, "name": Text::name(step.path.as_bytes()), "root": elsewhere(&step.root), "part": step.part,
                "from": step.from.as_ref().map(|from| Text::name(from.as_bytes())) })
    };
    let left = |left: &LeftOut| {
        json!({ "name": Text::name(left.path.as_bytes()), "root": elsewhere(&left.root), "why": left.why.word(),
                "reason": reason(left.why), "detail": Text::name(&left.detail) })
    };
    let set_id = view.set_id_dropped.iter().map(|(_, path)| Text::name(path.as_bytes()));
    let conflicts = view.conflicts.iter().map(|at| {
        json!({ "name": Text::name(at.path.as_bytes()), "clash": clash(&at.clash), "settled": at.settled.map(Conflicts::word) })
    });
    let merged =
        view.merged.iter().map(|at| json!({ "name": Text::name(at.path.as_bytes()), "content": at.content }));
    let checks = view.checks.iter().filter(|check| !check.holds);
    let checks =
        checks.map(|check| json!({ "command": Text::name(&check.command), "file": Text::path(&check.file) }));
    json!({
        "id": view.id,
        "conflicts": conflicts.collect::<Vec<_>>(),
        "merged": merged.collect::<Vec<_>>(),
        "checks": checks.collect::<Vec<_>>(),
        "origin": Text::path(origin),
        "steps": view.steps.iter().map(step).collect::<Vec<_>>(),
        "left_out": view.left_out.iter().map(left).collect::<Vec<_>>(),
        "set_id_dropped": set_id.collect::<Vec<_>>(),
        "git_internal": view.git_internal,
        "bytes": report::bytes(view.bytes),
        "said": said.0,
    })
}
