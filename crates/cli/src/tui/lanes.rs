//! The screen of all lanes: a line for each, filled in as its sums come.

use std::collections::HashMap;

use engine::ops::list::ListedLane;
use engine::view::VerdictView;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::fact::{Effect, Want};
use super::frame::{Hint, hint};
use super::list::List;
use super::paint::{cut, put, width};
use super::theme::{Role, Theme};
use crate::escape;
use crate::render::report;

/// The screen.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// All lanes, newest first.
    pub(crate) all: Vec<ListedLane>,
    /// Which of them have their sums.
    filled: Vec<bool>,
    /// The list was read.
    pub(crate) read: bool,
    list: List,
    /// Only lanes with this in their name.
    pub(crate) filter: String,
    /// How much is ticked in each, by its id.
    pub(crate) ticked: HashMap<String, usize>,
    body: Rect,
}

/// The keys.
pub(crate) const HINTS: [Hint; 9] = [
    hint("enter", KeyCode::Enter, "open"),
    hint("q", KeyCode::Char('q'), "quit"),
    hint("c", KeyCode::Char('c'), "compare"),
    hint("u", KeyCode::Char('u'), "undo a keep"),
    hint("p", KeyCode::Char('p'), "plan"),
    hint("/", KeyCode::Char('/'), "filter"),
    hint("x", KeyCode::Char('x'), "export"),
    hint("D", KeyCode::Char('D'), "discard"),
    hint("r", KeyCode::Char('r'), "read again"),
];

/// A column: heading, and what a lane has in it.
struct Column {
    head: &'static str,
    right: bool,
    /// Columns with a higher number go first where there is no room.
    worth: u8,
    cells: Vec<(String, Option<Role>)>,
}

impl Lanes {
    /// The list was read; sums that are known stay until they are read anew.
    pub(crate) fn set(&mut self, rows: Vec<ListedLane>) {
        let under = self.current().map(|lane| lane.lane.id.clone());
        let old = std::mem::take(&mut self.all);
        self.all = rows
            .into_iter()
            .map(|row| match old.iter().find(|was| was.lane.id == row.lane.id) {
                Some(was) => ListedLane { lane: row.lane, ..was.clone() },
                None => row,
            })
            .collect();
        self.filled = vec![false; self.all.len()];
        self.read = true;
        let at = under.and_then(|id| self.shown().iter().position(|row| self.all[*row].lane.id == id));
        self.list.fit(self.shown().len(), self.list.height, |_| true);
        if let Some(at) = at {
            self.list.go(at, &|_| true);
        }
    }

    /// A lane has its sums, or is gone.
    pub(crate) fn fill(&mut self, name: &str, lane: Option<ListedLane>) {
        let Some(at) = self.all.iter().position(|row| row.lane.name == name) else { return };
        match lane {
            Some(lane) => {
                self.all[at] = lane;
                self.filled[at] = true;
            }
            None => {
                self.all.remove(at);
                self.filled.remove(at);
            }
        }
    }

    /// A lane cannot be read.
    pub(crate) fn mar(&mut self, name: &str, why: String) {
        if let Some(at) = self.all.iter().position(|row| row.lane.name == name) {
            self.all[at].problem = Some(why);
            self.filled[at] = true;
        }
    }

    /// The lanes that the filter leaves.
    fn shown(&self) -> Vec<usize> {
        let filter = self.filter.to_lowercase();
        let fits = |row: &usize| self.all[*row].lane.name.to_lowercase().contains(&filter);
        (0..self.all.len()).filter(fits).collect()
    }

    /// The lane under the cursor.
    pub(crate) fn current(&self) -> Option<&ListedLane> {
        self.shown().get(self.list.cursor).map(|row| &self.all[*row])
    }

    /// The next lane without sums: those that are seen first.
    pub(crate) fn want(&self) -> Option<Want> {
        let shown = self.shown();
        let seen = self.list.window().filter_map(|row| shown.get(row)).copied();
        let next = seen.chain(0..self.all.len()).find(|row| !self.filled[*row])?;
        Some(Want::Sums(self.all[next].lane.name.clone()))
    }

    /// Takes a key; what it asks for.
    pub(crate) fn key(&mut self, key: &KeyEvent) -> Option<Effect> {
        if self.list.key(key, |_| true) {
            return None;
        }
        match key.code {
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => {
                self.current().map(|lane| Effect::Open(lane.lane.name.clone()))
            }
            KeyCode::Char('r') => Some(Effect::Rows),
            _ => None,
        }
    }

    /// A click; on the lane under the cursor it opens it.
    pub(crate) fn click(&mut self, _x: u16, y: u16) -> Option<Effect> {
        // The first line has the headings.
        let row = self.list.top + usize::from(y.checked_sub(self.body.y + 1)?);
        if !self.list.window().contains(&row) {
            return None;
        }
        if row == self.list.cursor {
            return self.current().map(|lane| Effect::Open(lane.lane.name.clone()));
        }
        self.list.go(row, &|_| true);
        None
    }

    /// The wheel was turned.
    pub(crate) fn wheel(&mut self, down: bool) {
        self.list.wheel(down, |_| true);
    }

    /// Draws the list.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect, theme: Theme, now: i64) {
        self.body = area;
        let detail = if area.height >= 14 { 3 } else { 0 };
        let height = usize::from(area.height.saturating_sub(1 + detail));
        let shown = self.shown();
        self.list.fit(shown.len(), height, |_| true);
        if shown.is_empty() {
            let words = match (self.read, self.filter.is_empty()) {
                (false, _) => "reading the lanes…",
                (true, true) => "no lane for this project; `lane run -- CMD` makes one",
                (true, false) => "no lane has that in its name",
            };
            put(
                buf,
                area.x + 1,
                area.y + 1,
                area.width - 1,
                &cut(words, usize::from(area.width) - 2),
                theme.role(Role::Dim),
            );
            return;
        }
        let seen: Vec<&ListedLane> = self.list.window().map(|row| &self.all[shown[row]]).collect();
        let columns = fit(columns(&seen, now, &self.ticked), usize::from(area.width).saturating_sub(2));
        let mut x = area.x + 1;
        for (column, wide) in &columns {
            for (y, (text, role)) in
                std::iter::once(&(column.head.to_owned(), Some(Role::Dim))).chain(&column.cells).enumerate()
            {
                let y = area.y + y as u16;
                let text = cut(text, *wide);
                let gap = if column.right { wide - width(&text) } else { 0 };
                let style = role.map_or(Style::new(), |role| theme.role(role));
                put(buf, x + gap as u16, y, *wide as u16, &text, style);
            }
            x += *wide as u16 + 2;
        }
        if let Some(at) = self.list.cursor.checked_sub(self.list.top).filter(|at| *at < height) {
            buf.set_style(Rect { y: area.y + 1 + at as u16, height: 1, ..area }, theme.cursor());
        }
        if detail > 0
            && let Some(lane) = self.current()
        {
            let y = area.bottom() - detail;
            for (at, (line, role)) in details(lane).into_iter().enumerate().take(usize::from(detail)) {
                let room = usize::from(area.width) - 2;
                put(buf, area.x + 1, y + at as u16, area.width, &cut(&line, room), theme.role(role));
            }
        }
    }
}

fn details(listed: &ListedLane) -> Vec<(String, Role)> {
    let lane = &listed.lane;
    let mut lines = vec![(String::new(), Role::Dim)];
    if let Some(run) = &lane.last_run {
        lines.push((format!("last run: {}", report::argv(&run.argv)), Role::Dim));
    } else {
        lines.push((format!("{}: {}", lane.strategy.word(), escape::name(&lane.why)), Role::Dim));
    }
    match &listed.problem {
        Some(problem) => lines.push((escape::name(problem), Role::Bad)),
        None if lane.base.other_boot => lines.push((
            "the machine was restarted since it last ran: what it wrote last may be incomplete".to_owned(),
            Role::Warn,
        )),
        None => {}
    }
    lines
}

fn columns(lanes: &[&ListedLane], now: i64, ticked: &HashMap<String, usize>) -> Vec<Column> {
    let column = |head, right, worth, cell: &dyn Fn(&ListedLane) -> (String, Option<Role>)| Column {
        head,
        right,
        worth,
        cells: lanes.iter().map(|lane| cell(lane)).collect(),
    };
    let state = |lane: &ListedLane| {
        let role = if lane.lane.state == engine::view::LaneState::Live { Some(Role::Good) } else { None };
        (lane.lane.state.word().to_owned(), role)
    };
    let changes = |lane: &ListedLane| match (&lane.counts, &lane.problem) {
        (Some(counts), _) => (report::counts(counts), Some(Role::Modify)),
        (None, Some(_)) => ("cannot be read".to_owned(), Some(Role::Bad)),
        (None, None) => ("…".to_owned(), Some(Role::Dim)),
    };
    let run = |lane: &ListedLane| {
        let exit = lane.lane.last_run.as_ref().and_then(|run| run.exit);
        let role = match exit {
            Some(engine::view::Exit::Code(0)) => Some(Role::Good),
            Some(_) => Some(Role::Bad),
            None => None,
        };
        (exit.map_or_else(String::new, report::exit), role)
    };
    let mut columns = vec![
        column("NAME", false, 0, &|lane| (escape::name(&lane.lane.name), Some(Role::Head))),
        column("STATE", false, 2, &state),
        column("CHANGES", false, 1, &changes),
        column("TICKED", true, 2, &|lane| {
            (ticked.get(&lane.lane.id).map_or_else(String::new, usize::to_string), Some(Role::Tick))
        }),
        column("VERDICT", false, 2, &|lane| {
            let word = lane.verdict.as_ref().map_or("", VerdictView::now);
            (word.to_owned(), Some(super::files::role_of(report::verdict_role(word))))
        }),
        column("LAST RUN", false, 5, &run),
        column("STRATEGY", false, 6, &|lane| (lane.lane.strategy.word().to_owned(), None)),
        column("SIZE", true, 4, &|lane| {
            (lane.exclusive.map_or_else(|| "…".to_owned(), report::bytes), Some(Role::Dim))
        }),
        column("AGE", true, 3, &|lane| (report::age(lane.lane.created_at, now), Some(Role::Dim))),
    ];
    // A column in which nobody has anything is not worth its heading.
    columns.retain(|column| column.cells.iter().any(|(text, _)| !text.is_empty()));
    columns
}

/// The columns that fit, each with its width.
fn fit(mut columns: Vec<Column>, room: usize) -> Vec<(Column, usize)> {
    let wide = |column: &Column| {
        column.cells.iter().map(|(text, _)| width(text)).chain([width(column.head)]).max().unwrap_or(0)
    };
    let total =
        |columns: &[Column]| columns.iter().map(|column| wide(column) + 2).sum::<usize>().saturating_sub(2);
    while columns.len() > 2 && total(&columns) > room {
        let least = columns.iter().map(|column| column.worth).max();
        columns.retain(|column| Some(column.worth) != least);
    }
    let mut left = room;
    let last = columns.len().saturating_sub(1);
    let mut fitted = Vec::new();
    for (at, column) in columns.into_iter().enumerate() {
        // A long name leaves something for what comes after it.
        let most = if at == last { left } else { left.saturating_sub((last - at) * 10) };
        let wide = wide(&column).min(most);
        left = left.saturating_sub(wide + 2);
        fitted.push((column, wide));
    }
    fitted
}
