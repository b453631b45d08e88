//! What is ticked on the page becomes a selection of the engine's, bound to what was looked at; and a plan of it becomes
//! something to be shown.
//!
//! Invariant: a file whose content was shown, or whose plan was, is kept only if it still is that.

use std::path::{Path, PathBuf};

use engine::ops::diff::DiffRequest;
use engine::ops::keep::{self, Conflicts, KeepRequest, KeepView, LeftOut, StepView};
use engine::selection::{Digest, Lines, Part, Selection, Take};
use engine::{Engine, Event, Monitor};
use serde_json::{Value, json};

use super::super::request::{Place, Tick, With};
use super::super::text::Text;
use super::tree_path;
use crate::commands::keep::{clash, reason};
use crate::error::{CliError, Result};
use crate::render::report;

/// What is ticked, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'w> {
    pub(super) dir: &'w Path,
    pub(super) lane: &'w str,
    pub(super) ticks: &'w [Tick],
    pub(super) conflicts: &'w str,
    /// What is ticked in further lanes, to be kept in one go.
    pub(super) with: &'w [With],
}

/// The digests that ticked files have now: of the lane itself, and of each further one.
pub(super) struct Digests {
    pub(super) own: Vec<String>,
    pub(super) with: Vec<Vec<String>>,
}

impl Wish<'_> {
    /// What the engine is asked for, and the digest that each ticked file has now.
    pub(super) fn request(&self, engine: &Engine) -> Result<(KeepRequest, Digests)> {
        let (selection, own) = selection(engine, self.dir, self.lane, self.ticks)?;
        let mut digests = Digests { own, with: Vec::new() };
        let mut with = Vec::new();
        for further in self.with {
            let (selection, own) = self::selection(engine, self.dir, &further.lane, &further.ticks)?;
            with.push(keep::With {
                lane: further.lane.clone(),
                selection: Some(selection),
                ..keep::With::default()
            });
            digests.with.push(own);
        }
        let request = KeepRequest {
            dir: self.dir.to_owned(),
            lane: Some(self.lane.to_owned()),
            selection: Some(selection),
            with,
            conflicts: crate::commands::keep::conflicts(self.conflicts).map_err(CliError::Usage)?,
            ..KeepRequest::default()
        };
        Ok((request, digests))
    }

    /// An error where not each tick has what its plan answered.
    pub(super) fn is_planned(&self) -> Result<()> {
        let mut all = self.ticks.iter().chain(self.with.iter().flat_map(|with| &with.ticks));
        match all.all(|tick| tick.digest.is_some()) {
            true => Ok(()),
            false => Err(CliError::Usage("a keep is of what was planned".to_owned())),
        }
    }
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
pub(super) struct Said(pub(super) Vec<Text>);

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

/// A plan, or what was done.
pub(super) fn shown(view: &KeepView, said: &Said) -> Value {
    let origin = &view.lane.origin;
    let elsewhere = |root: &Path| (root != origin).then(|| Text::path(root));
    let step = |step: &StepView| {
        json!({ "what": step.what, "name": Text::name(step.path.as_bytes()), "root": elsewhere(&step.root), "part": step.part,
                "lanes": step.lanes.iter().map(Text::name).collect::<Vec<_>>(),
                "from": step.from.as_ref().map(|from| Text::name(from.as_bytes())) })
    };
    let set_id = view.set_id_dropped.iter().map(|(_, path)| Text::name(path.as_bytes()));
    let conflicts = view.conflicts.iter().map(|at| {
        json!({ "name": Text::name(at.path.as_bytes()), "clash": clash(at), "settled": at.settled.map(Conflicts::word) })
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
        "left_out": left_out(&view.left_out, origin),
        "set_id_dropped": set_id.collect::<Vec<_>>(),
        "git_internal": view.git_internal,
        "bytes": report::bytes(view.bytes),
        "said": said.0,
    })
}

/// What stays in the lane.
pub(super) fn left_out(all: &[LeftOut], origin: &Path) -> Vec<Value> {
    let one = |left: &LeftOut| {
        let root = (left.root != origin).then(|| Text::path(&left.root));
        json!({ "name": Text::name(left.path.as_bytes()), "root": root, "why": left.why.word(),
                "reason": reason(left.why), "detail": Text::name(&left.detail),
                "lane": left.lane.as_ref().map(Text::name) })
    };
    all.iter().map(one).collect()
}
