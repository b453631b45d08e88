//! `keep -i`: asks about one hunk after the other, and makes a selection of the answers.
//!
//! Invariant: what was not answered with yes is not ticked. A guarded file is asked about by itself first, and no
//! answer about anything else covers it.

use std::ops::RangeInclusive;

use engine::Engine;
use engine::ops::diff::{self, DiffRequest, FileDiff, FileView, Hunk, LineKind};
use engine::ops::keep::KeepRequest;
use engine::selection::{Lines, SelectedFile, Selection, changed_lines, line_runs, shows_mode};
use tree::ChangeKind;

use super::Context;
use crate::error::{CliError, Result};
use crate::escape;
use crate::render::diff as render;
use crate::style::Role;
use crate::ui::Ui;

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// This, and the rest of the file.
    RestOfFile,
    /// Not this, and nothing more of the file.
    NoneOfFile,
    /// This, and everything that was not asked about yet, but for guarded files.
    Everything,
    Split,
    Quit,
}

/// Asks about all that changed at the paths of the request, and answers what was ticked.
pub(super) fn ask(context: &mut Context, engine: &Engine, request: &KeepRequest) -> Result<Selection> {
    if !context.ui.can_ask() || context.ui.json {
        return Err(CliError::Usage(
            "`keep -i` asks on a terminal, and there is none; `--hunk` and `--selection` need none"
                .to_owned(),
        ));
    }
    let opened = diff::open(engine, &request.dir, request.lane.as_deref())?;
    let look =
        DiffRequest { dir: request.dir.clone(), paths: request.paths.clone(), ..DiffRequest::default() };
    let answer = opened.diff(engine, &look)?;
    let mut selection = answer.selection()?;
    let mut all = false;
    for (at, file) in answer.files.iter().enumerate() {
        // The selection lists the files in the order of the answer.
        let ticks = &mut selection.files[at];
        // What runs by itself is asked about all the same.
        if all && file.guarded.is_none() {
            ticks.tick();
            continue;
        }
        let content = answer.content(file)?;
        let mut asker = Asker { ui: &mut context.ui, file, content: &content, ticks };
        match asker.file()? {
            Some(Answer::Everything) => all = true,
            Some(Answer::Quit) => break,
            _ => {}
        }
    }
    Ok(selection)
}

/// One file that is asked about.
struct Asker<'a> {
    ui: &'a mut Ui,
    file: &'a FileView,
    content: &'a FileDiff,
    ticks: &'a mut SelectedFile,
}

impl Asker<'_> {
    /// Asks about all of the file. Answers what goes beyond it.
    fn file(&mut self) -> Result<Option<Answer>> {
        let line = render::summary(self.ui, self.file);
        self.ui.line(&line)?;
        for line in render::remarks(self.ui, self.content) {
            self.ui.line(&line)?;
        }
        let in_parts = self.file.has_parts() && (!self.content.hunks.is_empty() || self.has_other_parts());
        if let Some(reason) = &self.file.guarded {
            let line = format!("  runs by itself: {}", escape::name(reason));
            let line = self.ui.paint(Role::Warn, &line);
            self.ui.line(&line)?;
            let choices: &[Answer] = match in_parts {
                true => &[Answer::Yes, Answer::No, Answer::Split, Answer::Quit],
                false => &[Answer::Yes, Answer::No, Answer::Quit],
            };
            match self.question("keep this file, which runs by itself", choices)? {
                Answer::Yes => self.ticks.tick(),
                Answer::Quit => return Ok(Some(Answer::Quit)),
                Answer::Split => return self.parts(),
                _ => {}
            }
            return Ok(None);
        }
        if in_parts { self.parts() } else { self.whole() }
    }

    fn has_other_parts(&self) -> bool {
        shows_mode(&self.file.change) || matches!(self.file.change.kind, ChangeKind::Rename { .. })
    }

    fn whole(&mut self) -> Result<Option<Answer>> {
        if self.content.binary {
            let line = self.ui.paint(Role::Dim, "  binary content differs");
            self.ui.line(&line)?;
        }
        let choices = [Answer::Yes, Answer::No, Answer::Everything, Answer::Quit];
        let answer = self.question("keep this change", &choices)?;
        if matches!(answer, Answer::Yes | Answer::Everything) {
            self.ticks.tick();
        }
        Ok(matches!(answer, Answer::Everything | Answer::Quit).then_some(answer))
    }

    fn parts(&mut self) -> Result<Option<Answer>> {
        let (change, content) = (&self.file.change, self.content);
        let mut choices = vec![Answer::Yes, Answer::No, Answer::RestOfFile, Answer::NoneOfFile];
        if self.file.guarded.is_none() {
            choices.push(Answer::Everything);
        }
        choices.push(Answer::Quit);
        if change.path != *change.old_path() {
            match self.question("keep the new place", &choices)? {
                Answer::Yes => self.ticks.toggle_rename(change, content),
                Answer::No => {}
                answer => return Ok(self.rest(answer, 0, true, true)),
            }
        }
        if shows_mode(change) {
            match self.question("keep the new mode", &choices)? {
                Answer::Yes => self.ticks.toggle_mode(change, content),
                Answer::No => {}
                answer => return Ok(self.rest(answer, 0, false, true)),
            }
        }
        if content.binary && self.ticks_content()? {
            self.ticks.tick();
        }
        let count = content.hunks.len();
        for (at, hunk) in content.hunks.iter().enumerate() {
            self.show(hunk, &(1..=changed_lines(hunk)))?;
            let mut choices = choices.clone();
            if changed_lines(hunk) > 1 {
                choices.insert(4, Answer::Split);
            }
            let question = match count {
                1 => "keep this hunk".to_owned(),
                _ => format!("keep hunk {} of {count}", at + 1),
            };
            match self.question(&question, &choices)? {
                Answer::Yes => self.ticks.set_lines(change, content, &hunk.id, Some(Lines::All)),
                Answer::No => {}
                Answer::Split => {
                    if let Some(answer) = self.split(hunk)? {
                        return Ok(self.rest(answer, at + 1, false, false));
                    }
                }
                answer => return Ok(self.rest(answer, at, false, false)),
            }
        }
        Ok(None)
    }

    /// Binary content is kept with everything else of the file, or not at all.
    fn ticks_content(&mut self) -> Result<bool> {
        let line = self.ui.paint(Role::Dim, "  binary content differs");
        self.ui.line(&line)?;
        let answer = self.question("keep all of this file", &[Answer::Yes, Answer::No])?;
        Ok(answer == Answer::Yes)
    }

    /// An answer that goes beyond what was asked: from hunk `from` on, and for the new place and mode where they were not
    /// asked about yet.
    fn rest(&mut self, answer: Answer, from: usize, place: bool, mode: bool) -> Option<Answer> {
        let (change, content) = (&self.file.change, self.content);
        if matches!(answer, Answer::RestOfFile | Answer::Everything) {
            if place && change.path != *change.old_path() && !self.ticks.takes_rename() {
                self.ticks.toggle_rename(change, content);
            }
            if mode && shows_mode(change) && !self.ticks.takes_mode() {
                self.ticks.toggle_mode(change, content);
            }
            for hunk in &content.hunks[from..] {
                self.ticks.set_lines(change, content, &hunk.id, Some(Lines::All));
            }
        }
        matches!(answer, Answer::Everything | Answer::Quit).then_some(answer)
    }

    /// Asks about the runs of a hunk, and about the lines of one that has no runs.
    fn split(&mut self, hunk: &Hunk) -> Result<Option<Answer>> {
        let mut pieces = line_runs(hunk);
        if let [run] = pieces.as_slice() {
            pieces = run.clone().map(|number| number..=number).collect();
        }
        let mut left: Vec<RangeInclusive<u32>> = pieces.into_iter().rev().collect();
        while let Some(piece) = left.pop() {
            self.show(hunk, &piece)?;
            let mut choices = vec![Answer::Yes, Answer::No, Answer::RestOfFile, Answer::NoneOfFile];
            if piece.start() != piece.end() {
                choices.push(Answer::Split);
            }
            choices.push(Answer::Quit);
            match self.question("keep this part of the hunk", &choices)? {
                Answer::Yes => self.take(hunk, &piece),
                Answer::No => {}
                Answer::Split => left.extend(piece.rev().map(|number| number..=number)),
                Answer::RestOfFile => {
                    self.take(hunk, &piece);
                    left.iter().for_each(|piece| self.take(hunk, piece));
                    return Ok(Some(Answer::RestOfFile));
                }
                answer => return Ok(Some(answer)),
            }
        }
        Ok(None)
    }

    fn take(&mut self, hunk: &Hunk, piece: &RangeInclusive<u32>) {
        for number in
            piece.clone().filter(|number| !self.ticks.takes_line(&hunk.id, *number)).collect::<Vec<_>>()
        {
            self.ticks.toggle_line(&self.file.change, self.content, &hunk.id, number);
        }
    }

    /// The hunk, or the lines of a piece of it with what stands around them.
    fn show(&mut self, hunk: &Hunk, piece: &RangeInclusive<u32>) -> Result<()> {
        let head = render::head(self.ui, hunk);
        self.ui.line(&head)?;
        let mut number = 0;
        let mut lines = Vec::new();
        for line in &hunk.lines {
            let is_changed = line.kind != LineKind::Context;
            number += u32::from(is_changed);
            if !is_changed || piece.contains(&number) {
                lines.extend(render::content_lines(self.ui, line));
            }
        }
        lines.iter().try_for_each(|line| self.ui.line(line))?;
        Ok(())
    }

    /// Asks until one of the choices is the answer. A terminal that is closed has answered nothing.
    fn question(&mut self, what: &str, choices: &[Answer]) -> Result<Answer> {
        let letters: Vec<&str> = choices.iter().map(|choice| choice.letter()).collect();
        let place = escape::name(self.file.change.path.as_bytes());
        loop {
            let said = self.ui.ask(&format!("{place}: {what} [{},?]? ", letters.join(",")))?;
            let Some(said) = said else { return Err(CliError::Declined) };
            let found = choices.iter().find(|choice| choice.letter().as_bytes() == said);
            if let Some(choice) = found {
                return Ok(*choice);
            }
            for choice in choices {
                self.ui.tell(&format!("  {} - {}", choice.letter(), choice.words()));
            }
        }
    }
}

impl Answer {
    fn letter(self) -> &'static str {
        match self {
            Answer::Yes => "y",
            Answer::No => "n",
            Answer::RestOfFile => "a",
            Answer::NoneOfFile => "d",
            Answer::Everything => "A",
            Answer::Split => "s",
            Answer::Quit => "q",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Answer::Yes => "keep it",
            Answer::No => "leave it in the lane",
            Answer::RestOfFile => "keep it and the rest of this file",
            Answer::NoneOfFile => "leave it and the rest of this file in the lane",
            Answer::Everything => "keep it and everything that follows, but for files that run by themselves",
            Answer::Split => "ask about smaller pieces",
            Answer::Quit => "ask no more; what follows stays in the lane",
        }
    }
}
