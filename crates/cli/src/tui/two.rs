//! [`Two`]: the screen of two lanes side by side: every path that either of them changed, and how they stand to each
//! other there. It only looks; nothing can be ticked.

use engine::ops::compare::Meeting;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::fact::{Across, Effect, Meet};
use super::frame::{Hint, hint};
use super::list::List;
use super::paint::{cut, cut_middle, put, width};
use super::plan::count;
use super::theme::{Role, Theme};
use crate::escape;
use crate::wire;

/// The keys.
pub(crate) const HINTS: [Hint; 5] = [
    hint("enter", KeyCode::Enter, "lines"),
    hint("esc", KeyCode::Esc, "lanes"),
    hint("b", KeyCode::Char('b'), "only what both changed"),
    hint("/", KeyCode::Char('/'), "filter"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// The screen.
#[derive(Debug)]
pub(crate) struct Two {
    meet: Meet,
    /// Only paths that hold this.
    pub(crate) filter: String,
    only_both: bool,
    rows: Vec<usize>,
    list: List,
    body: Rect,
}

impl Two {
    /// Two lanes were compared.
    pub(crate) fn new(meet: Meet) -> Two {
        let (filter, list, body) = (String::new(), List::default(), Rect::default());
        let mut two = Two { meet, filter, only_both: false, rows: Vec::new(), list, body };
        two.arrange();
        two
    }

    /// What the title says: left and right.
    pub(crate) fn title(&self) -> (String, String) {
        let [one, other] = self.meet.lanes.each_ref().map(escape::name);
        let differ = self.meet.files.iter().filter(|met| met.meeting == Meeting::Different).count();
        let sum = format!("{}, {differ} changed differently", count(self.meet.files.len(), "path"));
        (format!("{one} ↔ {other}"), sum)
    }

    /// Rows anew, after the filter changed.
    pub(crate) fn arrange(&mut self) {
        let under = self.rows.get(self.list.cursor).copied();
        let filter = self.filter.to_lowercase();
        let both = |at: &usize| matches!(self.meet.files[*at].meeting, Meeting::Same | Meeting::Different);
        let fits = |at: &usize| {
            let path = escape::name(self.meet.files[*at].path.as_bytes());
            (!self.only_both || both(at)) && (filter.is_empty() || path.to_lowercase().contains(&filter))
        };
        self.rows = (0..self.meet.files.len()).filter(fits).collect();
        self.list.fit(self.rows.len(), self.list.height, |_| true);
        if let Some(number) = under {
            self.select(number);
        }
    }

    /// Puts the cursor on a path.
    pub(crate) fn select(&mut self, number: usize) {
        if let Some(row) = self.rows.iter().position(|at| *at == number) {
            self.list.go(row, &|_| true);
        }
    }

    /// The path after this one in the order of the list, or before it.
    pub(crate) fn beside(&self, number: usize, after: bool) -> Option<usize> {
        let at = self.rows.iter().position(|row| *row == number)?;
        if after { self.rows.get(at + 1).copied() } else { at.checked_sub(1).map(|at| self.rows[at]) }
    }

    /// What asks for the lines of a path.
    pub(crate) fn across(&self, number: usize) -> Option<Effect> {
        let met = self.meet.files.get(number)?;
        let (lanes, path) = (self.meet.lanes.clone(), met.path.clone());
        Some(Effect::Across(Box::new(Across { lanes, root: met.root_index, path, number, met: true })))
    }

    /// Takes a key; what it asks for.
    pub(crate) fn key(&mut self, key: &KeyEvent) -> Option<Effect> {
        if self.list.key(key, |_| true) {
            return None;
        }
        match key.code {
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => self.current(),
            KeyCode::Char('b') => {
                self.only_both = !self.only_both;
                self.arrange();
                None
            }
            KeyCode::Char('r') => Some(Effect::Meet(self.meet.lanes.clone())),
            _ => None,
        }
    }

    fn current(&self) -> Option<Effect> {
        self.rows.get(self.list.cursor).and_then(|number| self.across(*number))
    }

    /// A click; on the path under the cursor it opens it.
    pub(crate) fn click(&mut self, _x: u16, y: u16) -> Option<Effect> {
        let row = self.list.top + usize::from(y.checked_sub(self.body.y)?);
        if !self.list.window().contains(&row) {
            return None;
        }
        if row == self.list.cursor {
            return self.current();
        }
        self.list.go(row, &|_| true);
        None
    }

    /// The wheel was turned.
    pub(crate) fn wheel(&mut self, down: bool) {
        self.list.wheel(down, |_| true);
    }

    /// Draws the list.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect, theme: Theme) {
        self.body = area;
        self.list.fit(self.rows.len(), usize::from(area.height), |_| true);
        if self.rows.is_empty() {
            let words = match (self.meet.files.is_empty(), self.only_both && self.filter.is_empty()) {
                (true, _) => "neither lane changed anything",
                (false, true) => "no path was changed by both",
                (false, false) => "no path has that in it",
            };
            put(buf, area.x + 1, area.y, area.width - 1, words, theme.role(Role::Dim));
            return;
        }
        for (y, at) in (area.y..area.bottom()).zip(self.list.window()) {
            self.draw_row(buf, Rect { y, height: 1, ..area }, theme, self.rows[at]);
            if at == self.list.cursor {
                buf.set_style(Rect { y, height: 1, ..area }, theme.cursor());
            }
        }
    }

    fn draw_row(&self, buf: &mut Buffer, area: Rect, theme: Theme, number: usize) {
        let met = &self.meet.files[number];
        let (sign, role) = match met.meeting {
            Meeting::Left => ("<", Role::Modify),
            Meeting::Right => (">", Role::Modify),
            Meeting::Same => ("=", Role::Good),
            Meeting::Different => ("!", Role::Bad),
        };
        let [one, other] = self.meet.lanes.each_ref().map(escape::name);
        let words = match met.meeting {
            Meeting::Left => format!("only {one}"),
            Meeting::Right => format!("only {other}"),
            Meeting::Same => "both, the same".to_owned(),
            Meeting::Different => {
                let did = met
                    .changes
                    .each_ref()
                    .map(|change| change.as_ref().map_or("", |change| wire::kind_word(&change.kind)));
                if did[0] == did[1] { "both, differently".to_owned() } else { did.join(" / ") }
            }
        };
        let words = cut(&words, usize::from(area.width / 3));
        let taken = width(&words) as u16 + 1;
        let x = put(buf, area.x + 1, area.y, 1, sign, theme.role(role)) + 1;
        let room = area.right().saturating_sub(x + taken + 1);
        let path = escape::name(met.path.as_bytes());
        put(buf, x, area.y, room, &cut_middle(&path, usize::from(room)), Style::new());
        put(buf, area.right().saturating_sub(taken), area.y, taken, &words, theme.role(Role::Dim));
    }
}
