//! The screen of one lane's changes: files with ticks, those that run by themselves apart, and what could not be
//! compared.
//!
//! Invariant: a file that runs by itself is ticked by a key on its own line and by nothing else.

use std::collections::HashMap;

use engine::ops::diff::FileView;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::fact::{Changes, Effect, Want};
use super::frame::{Hint, hint};
use super::list::List;
use super::paint::{cut, cut_middle, put, width};
use super::theme::{Role, Theme};
use super::ticks::{self, Ticked};
use crate::escape;
use crate::render::{diff as render, report};

/// The keys.
pub(crate) const HINTS: [Hint; 9] = [
    hint("space", KeyCode::Char(' '), "tick"),
    hint("enter", KeyCode::Enter, "hunks"),
    hint("a", KeyCode::Char('a'), "all"),
    hint("p", KeyCode::Char('p'), "plan"),
    hint("esc", KeyCode::Esc, "lanes"),
    hint("/", KeyCode::Char('/'), "filter"),
    hint("n", KeyCode::Char('n'), "none"),
    hint("c", KeyCode::Char('c'), "compare"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// Lines of larger files are counted when they are opened, and not in passing: no key is answered meanwhile.
const LARGE: u64 = 4 << 20;

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    /// A heading.
    Head(String),
    /// A change, by its number.
    File(usize),
    /// Something to know that cannot be ticked.
    Note(String),
}

/// The screen.
#[derive(Debug)]
pub(crate) struct Files {
    /// What the lane changed.
    pub(crate) changes: Changes,
    /// Lines added and removed, by the number of the file; `None` where it has none.
    pub(crate) counts: HashMap<usize, Option<(u64, u64)>>,
    /// Only paths that hold this.
    pub(crate) filter: String,
    rows: Vec<Row>,
    list: List,
    body: Rect,
}

impl Files {
    /// A lane was opened.
    pub(crate) fn new(changes: Changes) -> Files {
        let mut files = Files {
            changes,
            counts: HashMap::new(),
            filter: String::new(),
            rows: Vec::new(),
            list: List::default(),
            body: Rect::default(),
        };
        files.arrange();
        files
    }

    /// The same lane was read again: the cursor stays on its file, and ticks on what is as it was. Answers how many files
    /// lost theirs.
    pub(crate) fn renew(&mut self, mut changes: Changes) -> usize {
        let under = self.current().map(|at| self.changes.files[at].change.path.clone());
        let lost = self.changes.ticks.carry(&mut changes.ticks);
        let (filter, list, body) = (std::mem::take(&mut self.filter), self.list, self.body);
        *self = Files { filter, list, body, ..Files::new(changes) };
        self.arrange();
        let at = |path| self.changes.files.iter().position(|file| file.change.path == path);
        if let Some(file) = under.and_then(at) {
            self.select(file);
        }
        lost
    }

    /// The change with this number.
    pub(crate) fn file(&self, number: usize) -> Option<&FileView> {
        self.changes.files.get(number)
    }

    /// The change under the cursor.
    pub(crate) fn current(&self) -> Option<usize> {
        match self.rows.get(self.list.cursor) {
            Some(Row::File(number)) => Some(*number),
            _ => None,
        }
    }

    /// Puts the cursor on a change.
    pub(crate) fn select(&mut self, number: usize) {
        if let Some(row) = self.rows.iter().position(|row| *row == Row::File(number)) {
            let rows = &self.rows;
            self.list.go(row, &|at| matches!(rows.get(at), Some(Row::File(_))));
        }
    }

    /// The change after this one in the order of the list, or before it.
    pub(crate) fn beside(&self, number: usize, after: bool) -> Option<usize> {
        let files: Vec<usize> = self
            .rows
            .iter()
            .filter_map(|row| if let Row::File(at) = row { Some(*at) } else { None })
            .collect();
        let at = files.iter().position(|file| *file == number)?;
        if after { files.get(at + 1).copied() } else { at.checked_sub(1).map(|at| files[at]) }
    }

    /// Rows anew, after the filter changed.
    pub(crate) fn arrange(&mut self) {
        let under = self.current();
        let filter = self.filter.to_lowercase();
        let files = &self.changes.files;
        let fits =
            |file: &FileView| filter.is_empty() || render::place(file).to_lowercase().contains(&filter);
        let shown = |guarded: bool| -> Vec<usize> {
            let numbers = 0..files.len();
            numbers.filter(|at| files[*at].guarded.is_some() == guarded && fits(&files[*at])).collect()
        };
        let (plain, guarded) = (shown(false), shown(true));
        self.rows.clear();
        if !guarded.is_empty() {
            self.rows.push(Row::Head(format!("changes ({})", plain.len())));
        }
        self.rows.extend(plain.into_iter().map(Row::File));
        if !guarded.is_empty() {
            self.rows.push(Row::Head(format!(
                "runs by itself ({}): kept only where ticked one by one",
                guarded.len()
            )));
            self.rows.extend(guarded.into_iter().map(Row::File));
        }
        if !self.changes.gaps.is_empty() && filter.is_empty() {
            self.rows.push(Row::Head(format!("not compared ({})", self.changes.gaps.len())));
            self.rows.extend(self.changes.gaps.iter().cloned().map(Row::Note));
        }
        if self.changes.git_internal > 0 && filter.is_empty() {
            self.rows
                .push(Row::Note(format!("{} more in .git, which is never kept", self.changes.git_internal)));
        }
        self.fit(self.list.height);
        if let Some(file) = under {
            self.select(file);
        }
    }

    fn fit(&mut self, height: usize) {
        let rows = &self.rows;
        self.list.fit(rows.len(), height, |at| matches!(rows.get(at), Some(Row::File(_))));
    }

    /// Ticks everything that the filter leaves and that does not run by itself; answers how many of the others stay.
    pub(crate) fn tick_all(&mut self) -> usize {
        let mut left = 0;
        for row in &self.rows {
            let Row::File(number) = row else { continue };
            if self.changes.files[*number].guarded.is_none() {
                self.changes.ticks.tick(*number);
            } else if self.changes.ticks.file(*number) != Ticked::All {
                left += 1;
            }
        }
        left
    }

    /// The next file whose lines were not counted: those that are seen first.
    pub(crate) fn want(&self) -> Option<Want> {
        let number = |row: &Row| if let Row::File(number) = row { Some(*number) } else { None };
        let seen = self.rows.get(self.list.window()).unwrap_or_default().iter().filter_map(number);
        let is_wanted = |at: &usize| !self.counts.contains_key(at) && size(&self.changes.files[*at]) <= LARGE;
        let next = seen.chain(0..self.changes.files.len()).find(is_wanted)?;
        Some(Want::Count(next))
    }

    /// Takes a key; what it asks for.
    pub(crate) fn key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let rows = &self.rows;
        if self.list.key(key, |at| matches!(rows.get(at), Some(Row::File(_)))) {
            return None;
        }
        match key.code {
            KeyCode::Char(' ') => {
                if let Some(number) = self.current() {
                    self.changes.ticks.flip(number);
                    self.list.key(&KeyEvent::from(KeyCode::Down), |at| {
                        matches!(self.rows.get(at), Some(Row::File(_)))
                    });
                }
                None
            }
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => self.current().map(Effect::Content),
            KeyCode::Char('n') => {
                self.changes.ticks.clear();
                None
            }
            KeyCode::Char('r') => Some(Effect::Open(self.changes.lane.name.clone())),
            _ => None,
        }
    }

    /// A click: on a box it ticks, on the change under the cursor it opens it.
    pub(crate) fn click(&mut self, x: u16, y: u16) -> Option<Effect> {
        let row = self.list.top + usize::from(y.checked_sub(self.body.y)?);
        let Some(Row::File(number)) = self.rows.get(row).filter(|_| self.list.window().contains(&row)) else {
            return None;
        };
        let number = *number;
        let was = self.list.cursor;
        let rows = &self.rows;
        self.list.go(row, &|at| matches!(rows.get(at), Some(Row::File(_))));
        if x < self.body.x + 4 {
            self.changes.ticks.flip(number);
            return None;
        }
        (row == was).then_some(Effect::Content(number))
    }

    /// The wheel was turned.
    pub(crate) fn wheel(&mut self, down: bool) {
        let rows = &self.rows;
        self.list.wheel(down, |at| matches!(rows.get(at), Some(Row::File(_))));
    }

    /// Draws the list.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect, theme: Theme) {
        self.body = area;
        self.fit(usize::from(area.height));
        if self.rows.is_empty() {
            let words =
                if self.filter.is_empty() { "the lane changed nothing" } else { "no path has that in it" };
            put(buf, area.x + 1, area.y, area.width - 1, words, theme.role(Role::Dim));
            return;
        }
        for (y, at) in (area.y..area.bottom()).zip(self.list.window()) {
            let room = usize::from(area.width) - 1;
            match &self.rows[at] {
                Row::Head(text) => {
                    put(buf, area.x, y, area.width, &cut(text, room), theme.role(Role::Head));
                }
                Row::Note(text) => {
                    put(buf, area.x + 4, y, area.width, &cut(text, room - 4), theme.role(Role::Dim));
                }
                Row::File(number) => self.draw_file(buf, Rect { y, height: 1, ..area }, theme, *number),
            }
            if at == self.list.cursor {
                buf.set_style(Rect { y, height: 1, ..area }, theme.cursor());
            }
        }
    }

    fn draw_file(&self, buf: &mut Buffer, area: Rect, theme: Theme, number: usize) {
        let file = &self.changes.files[number];
        let ticked = self.changes.ticks.file(number);
        let style = if ticked == Ticked::None { theme.role(Role::Dim) } else { theme.role(Role::Tick) };
        let x = put(buf, area.x, area.y, 3, ticks::sign(ticked), style) + 1;
        let (letter, role) = render::sign(&file.change.kind);
        let x = put(buf, x, area.y, 1, letter, theme.role(role_of(role))) + 1;
        // From the right: what is to be known keeps its place, the path gives way.
        let mut right: Vec<(String, Role)> = Vec::new();
        if let Some(kind) = file.drifted {
            right.push((format!("original {}", kind.word()), Role::Warn));
        }
        match self.counts.get(&number) {
            Some(Some((added, removed))) => {
                right.push((format!("+{added}"), Role::Add));
                right.push((format!("-{removed}"), Role::Delete));
            }
            Some(None) => {}
            None if size(file) > LARGE => right.push((report::bytes(size(file)), Role::Dim)),
            None => right.push((super::paint::CUT.to_owned(), Role::Dim)),
        }
        let taken: usize = right.iter().map(|(text, _)| width(text) + 1).sum();
        let room = usize::from(area.right().saturating_sub(x)).saturating_sub(taken + 1);
        let path = cut_middle(&render::place(file), room);
        let after = put(buf, x, area.y, room as u16, &path, Style::new());
        let mut notes = render::notes(file).join(", ");
        if let Some(reason) = &file.guarded {
            let reason = escape::name(reason);
            notes = if notes.is_empty() { reason } else { format!("{reason}; {notes}") };
        }
        let left = room.saturating_sub(width(&path) + 2);
        if !notes.is_empty() && left > 8 {
            put(buf, after + 2, area.y, left as u16, &cut(&notes, left), theme.role(Role::Dim));
        }
        let mut x = area.right().saturating_sub(taken as u16);
        for (text, role) in right {
            x = put(buf, x, area.y, area.width, &text, theme.role(role)) + 1;
        }
    }
}

/// Bytes of the larger side.
fn size(file: &FileView) -> u64 {
    let sides = [&file.change.old, &file.change.new].into_iter().flatten();
    sides.map(|entry| entry.size).max().unwrap_or(0)
}

/// The view's role for one of the printed output.
pub(crate) fn role_of(role: crate::style::Role) -> Role {
    use crate::style::Role as Printed;
    match role {
        Printed::Add | Printed::Good => Role::Add,
        Printed::Delete | Printed::Bad => Role::Delete,
        Printed::Modify => Role::Modify,
        Printed::Warn => Role::Warn,
        Printed::Lane | Printed::Head => Role::Head,
        Printed::Dim => Role::Dim,
        Printed::Command => Role::Key,
    }
}
