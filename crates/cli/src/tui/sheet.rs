//! [`Sheet`]: the content of one change as numbered rows: what is to be ticked apart from lines, then hunk after hunk.
//!
//! Invariant: finding a row costs the logarithm of the number of hunks; what a hunk's lines are numbered is found when
//! one of them is drawn, and kept.

use std::collections::HashMap;

use engine::ops::diff::{FileDiff, FileView, Hunk, LineKind, Note};
use tree::{ChangeKind, Kind};

use super::highlight;
use super::theme::Role;
use crate::escape;
use crate::render::diff as render;
use crate::wire;

/// A row that belongs to no hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Front {
    /// The whole change is one tick.
    Whole(String),
    /// The file moves.
    Rename(String),
    /// The file gets another mode.
    Mode(String),
    /// Something to know.
    Note(String, Role),
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row<'s> {
    /// One of the front.
    Front(&'s Front),
    /// The head of a hunk.
    Head(usize),
    /// A line of a hunk.
    Line(usize, usize),
}

/// Numbers of a line: in the old content, in the new one, and among the changed lines of its hunk, from 1. Zero where
/// it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// In the old content.
    pub(crate) old: u32,
    /// In the new content.
    pub(crate) new: u32,
    /// Among the changed lines.
    pub(crate) changed: u32,
}

/// The rows of a change.
#[derive(Debug)]
pub(crate) struct Sheet {
    /// The content.
    pub(crate) diff: FileDiff,
    front: Vec<Front>,
    /// The row of each hunk's head.
    starts: Vec<usize>,
    len: usize,
    numbers: HashMap<usize, Vec<Numbers>>,
}

impl Sheet {
    /// The rows of a change whose content was compared.
    pub(crate) fn of(file: &FileView, diff: FileDiff) -> Sheet {
        let front = front(file, &diff);
        Sheet::with(diff, front)
    }

    /// The rows of two files that were compared, under some words.
    pub(crate) fn bare(diff: FileDiff, words: &[String]) -> Sheet {
        let front = words.iter().map(|word| Front::Note(word.clone(), Role::Dim)).collect();
        Sheet::with(diff, front)
    }

    fn with(diff: FileDiff, front: Vec<Front>) -> Sheet {
        let mut at = front.len();
        let mut starts = Vec::with_capacity(diff.hunks.len());
        for hunk in &diff.hunks {
            starts.push(at);
            at += 1 + hunk.lines.len();
        }
        Sheet { diff, front, starts, len: at, numbers: HashMap::new() }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The row with this number.
    pub(crate) fn row(&self, at: usize) -> Option<Row<'_>> {
        if at < self.front.len() {
            return Some(Row::Front(&self.front[at]));
        }
        let hunk = self.starts.partition_point(|start| *start <= at).checked_sub(1)?;
        let inside = at - self.starts[hunk];
        match inside.checked_sub(1) {
            None => Some(Row::Head(hunk)),
            Some(line) => (line < self.diff.hunks[hunk].lines.len()).then_some(Row::Line(hunk, line)),
        }
    }

    /// The row of a hunk's head.
    pub(crate) fn start(&self, hunk: usize) -> Option<usize> {
        self.starts.get(hunk).copied()
    }

    /// The hunk that a row is in.
    pub(crate) fn hunk_at(&self, at: usize) -> Option<usize> {
        match self.row(at)? {
            Row::Front(_) => None,
            Row::Head(hunk) | Row::Line(hunk, _) => Some(hunk),
        }
    }

    /// The numbers of a line.
    pub(crate) fn numbers(&mut self, hunk: usize, line: usize) -> Numbers {
        let hunks = &self.diff.hunks;
        let all = self.numbers.entry(hunk).or_insert_with(|| hunks.get(hunk).map(number).unwrap_or_default());
        all.get(line).copied().unwrap_or_default()
    }

    /// The next row after `at` (or the last one before it) whose line holds `text`, letters of either case alike.
    pub(crate) fn find(&self, at: usize, text: &str, after: bool) -> Option<usize> {
        let wanted = text.as_bytes().to_ascii_lowercase();
        if wanted.is_empty() {
            return None;
        }
        let holds = |row: &usize| match self.row(*row) {
            Some(Row::Line(hunk, line)) => self.diff.hunks[hunk].lines[line]
                .bytes
                .windows(wanted.len())
                .any(|part| part.eq_ignore_ascii_case(&wanted)),
            _ => false,
        };
        if after {
            (at + 1..self.len).chain(0..=at.min(self.len.saturating_sub(1))).find(holds)
        } else {
            (0..at).rev().chain((at..self.len).rev()).find(holds)
        }
    }
}

fn number(hunk: &Hunk) -> Vec<Numbers> {
    // Where a side has no lines, its start is the line before.
    let first = |start: u32, len: u32| if len == 0 { start } else { start.saturating_sub(1) };
    let (mut old, mut new) = (first(hunk.old_start, hunk.old_len), first(hunk.new_start, hunk.new_len));
    let mut changed = 0;
    let mut one = |kind: LineKind| match kind {
        LineKind::Context => {
            (old, new) = (old + 1, new + 1);
            Numbers { old, new, changed: 0 }
        }
        LineKind::Removed => {
            (old, changed) = (old + 1, changed + 1);
            Numbers { old, new: 0, changed }
        }
        LineKind::Added => {
            (new, changed) = (new + 1, changed + 1);
            Numbers { old: 0, new, changed }
        }
    };
    hunk.lines.iter().map(|line| one(line.kind)).collect()
}

fn front(file: &FileView, diff: &FileDiff) -> Vec<Front> {
    let change = &file.change;
    let mut front = Vec::new();
    if let Some(reason) = &file.guarded {
        front.push(Front::Note(format!("runs by itself: {}", escape::name(reason)), Role::Warn));
    }
    if let Some(kind) = file.drifted {
        let words = format!("the original changed meanwhile: {}", kind.word());
        front.push(Front::Note(words, Role::Warn));
    }
    for note in &diff.notes {
        let words = match note {
            Note::ToCrLf => "line endings changed: LF → CRLF",
            Note::ToLf => "line endings changed: CRLF → LF",
            Note::MarkAdded => "byte-order mark added",
            Note::MarkRemoved => "byte-order mark removed",
        };
        front.push(Front::Note(words.to_owned(), Role::Warn));
    }
    let is_rename = matches!(change.kind, ChangeKind::Rename { .. });
    let (dresses, shows_mode) = (file.has_parts(), engine::selection::shows_mode(change));
    let more = diff.binary || !diff.hunks.is_empty() || (is_rename && shows_mode);
    if diff.hunks.is_empty() && (diff.binary || !(is_rename && shows_mode)) {
        front.push(Front::Whole(whole(file, diff)));
    }
    if dresses && more {
        if let ChangeKind::Rename { from, .. } = &change.kind {
            front.push(Front::Rename(format!("renamed from {}", escape::name(from.as_bytes()))));
        }
        if let Some((old, new)) = change.old.as_ref().zip(change.new.as_ref()).filter(|_| shows_mode) {
            front.push(Front::Mode(format!("mode {:04o} → {:04o}", old.mode, new.mode)));
        }
    }
    for (entry, word) in [(&change.old, "was"), (&change.new, "is")] {
        if let Some(entry) = entry.as_ref().filter(|entry| entry.kind == Kind::Symlink) {
            let words = format!("{word} a link to {}", escape::name(&entry.target));
            front.push(Front::Note(words, Role::Head));
        }
    }
    front
}

/// A change without hunks, in words.
fn whole(file: &FileView, diff: &FileDiff) -> String {
    let change = &file.change;
    let what = match &change.kind {
        ChangeKind::Add => "new",
        ChangeKind::Modify => "changed",
        ChangeKind::Delete => "deleted",
        ChangeKind::Mode => "other mode or attributes",
        ChangeKind::Retype => "another type",
        ChangeKind::Rename { .. } => "renamed",
    };
    let entry = change.new.as_ref().or(change.old.as_ref());
    let kind = entry.map_or("", |entry| wire::type_word(entry.kind));
    let mut words = format!("{what} {kind}");
    let notes = render::notes(file);
    if !notes.is_empty() {
        words.push_str(&format!(" ({})", notes.join(", ")));
    }
    if diff.binary {
        let size = |entry: &Option<tree::Entry>| {
            entry
                .as_ref()
                .map_or_else(|| "nothing".to_owned(), |entry| crate::render::report::bytes(entry.size))
        };
        words.push_str(&format!(", binary: {} → {}", size(&change.old), size(&change.new)));
    } else if entry.is_some_and(|entry| entry.is_file() && entry.size == 0) {
        words.push_str(", empty");
    }
    words
}

/// The lines of a hunk in one state of the file.
pub(crate) struct Stream<'s> {
    /// The hunk.
    pub(crate) hunk: &'s Hunk,
    /// In the new content, else in the old one.
    pub(crate) new: bool,
}

impl Stream<'_> {
    fn has(&self, line: usize) -> bool {
        let other = if self.new { LineKind::Removed } else { LineKind::Added };
        self.hunk.lines[line].kind != other
    }
}

impl highlight::Lines for Stream<'_> {
    fn bytes(&self, line: usize) -> &[u8] {
        &self.hunk.lines[line].bytes
    }

    fn before(&self, line: usize) -> Option<usize> {
        (0..line).rev().find(|at| self.has(*at))
    }

    fn after(&self, line: usize) -> Option<usize> {
        (line + 1..self.hunk.lines.len()).find(|at| self.has(*at))
    }
}
