//! [`Worker`]: asks the engine what the view wants to know, and has done what a person confirmed.
//!
//! Invariant: a keep carries out a plan that is equal to the one that was shown, made again at the last moment; nothing
//! is locked while a person reads. What goes wrong is told in words and ends nothing.

use std::path::PathBuf;

use engine::monitor::{Event, Monitor};
use engine::ops::diff::{DiffAnswer, DiffRequest, Opened};
use engine::ops::discard::DiscardRequest;
use engine::ops::export::ExportRequest;
use engine::ops::keep::{Conflicts, KeepRequest, KeepView, PreparedKeep, With};
use engine::ops::undo_keep::UndoKeepRequest;
use engine::ops::{compare, diff, discard, export, keep, list, undo_keep};
use engine::selection::Selection;
use engine::{Engine, EngineOptions};

use super::aside::Aside;
use super::fact::{Changes, Effect, Fact, Meet, TwoSides, Want};
use super::ticks::Ticks;
use crate::commands::discard::lost_lines;
use crate::error::{CliError, Result};
use crate::escape;
use crate::render::report;
use crate::wire;

/// Asks the engine.
#[derive(Debug)]
pub(crate) struct Worker {
    options: EngineOptions,
    dir: PathBuf,
    engine: Engine,
    /// The plan that was shown last, and of which ticks.
    planned: Option<(Vec<Selection>, Conflicts, KeepView)>,
    repaired: Vec<(String, String)>,
    /// What reads sums.
    pub(crate) aside: Aside,
}

/// Gathers what an operation warns of.
#[derive(Debug, Default)]
struct Warnings(Vec<String>);

impl Monitor for Warnings {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Warning(words) => self.0.push(escape::name(words)),
            Event::Repaired(what, on) => self.0.push(format!("repaired: {what} ({})", escape::name(on))),
            _ => {}
        }
    }
}

impl Worker {
    /// Opens the state directory.
    pub(crate) fn open(options: &EngineOptions, dir: PathBuf) -> Result<Worker> {
        Ok(Worker {
            options: options.clone(),
            engine: Engine::open(options)?,
            aside: Aside::new(options, &dir),
            dir,
            planned: None,
            repaired: Vec::new(),
        })
    }

    /// The lane that a word of the command line means; one that is not there is an error.
    pub(crate) fn know(&self, name: &str) -> Result<String> {
        let opened = diff::open(&self.engine, &self.dir, Some(name))?;
        Ok(opened.view().name.clone())
    }

    /// What a crash had left and was put right.
    pub(crate) fn take_repaired(&mut self) -> Vec<(String, String)> {
        let mut all = std::mem::take(&mut self.repaired);
        all.extend(self.engine.take_repaired());
        all.extend(self.aside.take_repaired());
        all
    }

    /// What to say while something is done that takes a moment.
    pub(crate) fn takes_time(effect: &Effect) -> Option<&'static str> {
        Some(match effect {
            Effect::Plan(..) => "planning",
            Effect::Keep => "keeping",
            Effect::Keeps | Effect::PlanBack(_) => "looking",
            Effect::TakeBack(_) => "taking it back",
            Effect::Export(_) => "exporting",
            Effect::WouldLose(_) => "looking for what exists nowhere else",
            Effect::Discard(_) => "discarding",
            Effect::Across(_) | Effect::Meet(_) => "comparing",
            _ => return None,
        })
    }

    /// Opens a lane to be looked at.
    pub(crate) fn enter(&self, name: &str) -> Result<Opened> {
        Ok(diff::open(&self.engine, &self.dir, Some(name))?)
    }

    /// Compares the opened lane with its base.
    pub(crate) fn changes<'o>(&self, opened: &'o Opened) -> Result<(DiffAnswer<'o>, Changes)> {
        let request = DiffRequest { dir: self.dir.clone(), ..DiffRequest::default() };
        let answer = opened.diff(&self.engine, &request)?;
        // No content is read before somebody wants to see it.
        let ticks = Ticks::of(answer.unread());
        let gap = |(root, path, why): &(PathBuf, tree::TreePath, String)| {
            let prefix =
                if *root == answer.lane.origin { String::new() } else { format!("{}/", report::path(root)) };
            format!("{prefix}{} ({})", escape::name(path.as_bytes()), escape::name(why))
        };
        let changes = Changes {
            lane: answer.lane.clone(),
            files: answer.files.clone(),
            ticks,
            git_internal: answer.git_internal,
            gaps: answer.gaps.iter().map(gap).collect(),
        };
        Ok((answer, changes))
    }

    /// Does what was asked for; `answer` is the open lane's.
    pub(crate) fn act(&mut self, effect: Effect, answer: Option<&DiffAnswer<'_>>) -> Fact {
        self.tried(effect, answer).unwrap_or_else(|error| Fact::Failed(error.lines()))
    }

    fn tried(&mut self, effect: Effect, answer: Option<&DiffAnswer<'_>>) -> Result<Fact> {
        Ok(match effect {
            Effect::Rows => {
                // What lanes share is counted anew.
                self.repaired.extend(self.engine.take_repaired());
                self.engine = Engine::open(&self.options)?;
                Fact::Rows(list::rows(&self.engine, &self.dir)?)
            }
            Effect::Content(number) => {
                let (answer, file) = found(answer, number)?;
                // Before the content: where that changes meanwhile, what is shown is no longer this, and is not kept.
                let digest = answer.digest(file)?;
                Fact::Content(number, Box::new(answer.content(file)?), digest)
            }
            Effect::Across(across) => {
                let [one, other] = &across.lanes;
                let two = compare::open(&self.engine, &self.dir, [one, other])?;
                let met = two.file(across.root, &across.path)?;
                let have = met.entries.each_ref().map(|entry| words(entry.as_ref()));
                Fact::Compared(Box::new(TwoSides { across: *across, diff: met.diff, have }))
            }
            Effect::Meet(lanes) => {
                let two = compare::open(&self.engine, &self.dir, [&lanes[0], &lanes[1]])?;
                Fact::Met(Box::new(Meet { files: two.files()?, lanes }))
            }
            Effect::Plan(selection, with, how) => {
                // What is ticked in the open lane is bound now; of the others it was when they were left.
                let selection = match answer.filter(|answer| answer.lane.id == selection.lane_id) {
                    Some(answer) => answer.bound(&selection)?,
                    None => *selection,
                };
                let all: Vec<Selection> = std::iter::once(selection).chain(with).collect();
                let mut warnings = Warnings::default();
                let view = self.prepare(&all, how, &mut warnings)?.view;
                self.planned = Some((all, how, view.clone()));
                Fact::Planned(Box::new(view), warnings.0)
            }
            Effect::Keep => {
                let Some((all, how, shown)) = self.planned.take() else {
                    return Err(CliError::Missing("there is no plan to carry out".to_owned()));
                };
                let mut warnings = Warnings::default();
                let prepared = self.prepare(&all, how, &mut warnings)?;
                if !is_same(&shown, &prepared.view) {
                    warnings.0.insert(0, "the original changed meanwhile: this is the plan now".to_owned());
                    let view = prepared.view.clone();
                    self.planned = Some((all, how, view.clone()));
                    return Ok(Fact::Planned(Box::new(view), warnings.0));
                }
                let view = prepared.execute(&self.engine, &mut warnings)?;
                Fact::Kept(Box::new(view), warnings.0)
            }
            Effect::Keeps => Fact::Keeps(undo_keep::list(&self.engine, &self.dir, &mut Warnings::default())?),
            Effect::PlanBack(id) => {
                let request = UndoKeepRequest { dir: self.dir.clone(), id: Some(id) };
                let prepared = undo_keep::prepare(&self.engine, &request, &mut Warnings::default())?;
                Fact::BackPlanned(Box::new(prepared.view))
            }
            Effect::TakeBack(id) => {
                let request = UndoKeepRequest { dir: self.dir.clone(), id: Some(id) };
                let mut warnings = Warnings::default();
                let prepared = undo_keep::prepare(&self.engine, &request, &mut warnings)?;
                Fact::TakenBack(Box::new(prepared.execute(&self.engine, &mut warnings)?))
            }
            Effect::Export(lane) => {
                let request =
                    ExportRequest { dir: self.dir.clone(), lane: Some(lane), ..ExportRequest::default() };
                Fact::Exported(Box::new(export::export(&self.engine, &request)?))
            }
            Effect::WouldLose(lane) => {
                let request = DiscardRequest {
                    dir: self.dir.clone(),
                    lane: Some(lane.clone()),
                    ..DiscardRequest::default()
                };
                let lost = discard::would_lose(&self.engine, &request)?;
                let origin = self.engine.project(&self.dir)?.top;
                Fact::WouldLose(lane, lost_lines(&origin, &lost))
            }
            Effect::Discard(lane) => {
                let request =
                    DiscardRequest { dir: self.dir.clone(), lane: Some(lane), ..DiscardRequest::default() };
                Fact::Discarded(Box::new(discard::discard(&self.engine, &request)?))
            }
            // The terminal's, and the loop's.
            Effect::Quit | Effect::Suspend | Effect::Redraw | Effect::Open(_) => Fact::Nothing,
        })
    }

    fn prepare(
        &self,
        all: &[Selection],
        conflicts: Conflicts,
        warnings: &mut Warnings,
    ) -> Result<PreparedKeep> {
        let with = |further: &Selection| With {
            lane: further.lane_id.clone(),
            selection: Some(further.clone()),
            ..With::default()
        };
        let request = KeepRequest {
            dir: self.dir.clone(),
            lane: all.first().map(|first| first.lane_id.clone()),
            selection: all.first().cloned(),
            with: all.iter().skip(1).map(with).collect(),
            conflicts,
            ..KeepRequest::default()
        };
        Ok(keep::prepare(&self.engine, &request, warnings)?)
    }

    /// Work that could wait.
    pub(crate) fn look(&self, want: Want, answer: Option<&DiffAnswer<'_>>) -> Fact {
        match want {
            Want::Count(number) => {
                let Ok((answer, file)) = found(answer, number) else { return Fact::Nothing };
                let digest = answer.digest(file).ok();
                let content = answer.content(file).ok().filter(|diff| !diff.binary);
                let counts = content.map(|diff| diff.counts()).filter(|counts| *counts != (0, 0));
                Fact::Counted(number, counts, digest)
            }
            // Read aside, and found by the view itself.
            Want::Sums(_) | Want::Colours => Fact::Nothing,
        }
    }
}

fn found<'a, 'o>(
    answer: Option<&'a DiffAnswer<'o>>,
    number: usize,
) -> Result<(&'a DiffAnswer<'o>, &'a engine::ops::diff::FileView)> {
    answer
        .and_then(|answer| Some((answer, answer.files.get(number)?)))
        .ok_or_else(|| CliError::Missing("the change is not there any more".to_owned()))
}

/// The same steps, and the same left out. The lanes themselves may have had another run meanwhile: its changes are compared
/// by the selection.
fn is_same(shown: &KeepView, now: &KeepView) -> bool {
    let (lane, with) = (shown.lane.clone(), shown.with.clone());
    *shown == KeepView { lane, with, ..now.clone() }
}

fn words(entry: Option<&tree::Entry>) -> String {
    let Some(entry) = entry else { return "nothing there".to_owned() };
    let kind = wire::type_word(entry.kind);
    match entry.kind {
        tree::Kind::Symlink => format!("{kind} to {}", escape::name(&entry.target)),
        tree::Kind::File => format!("{kind}, mode {:04o}, {}", entry.mode, report::bytes(entry.size)),
        _ => format!("{kind}, mode {:04o}", entry.mode),
    }
}
