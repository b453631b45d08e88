//! The screen of one change: its hunks and lines with ticks, in colours, or the same file in two lanes.
//!
//! Invariant: what is drawn and what is coloured are the rows of the window, however many there are.

use std::collections::HashMap;
use std::ops::Range;

use engine::ops::diff::words::{self, Run};
use engine::ops::diff::{FileDiff, FileView, LineKind};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::Style;
use tree::TreePath;

use super::fact::{Changes, TwoSides};
use super::frame::{Hint, hint};
use super::highlight::{Grammars, Highlighter};
use super::list::List;
use super::paint::{self, cut, put};
use super::sheet::{Front, Row, Sheet, Stream};
use super::theme::{Role, Theme};
use super::ticks::{self, Ticked, Ticks};
use crate::escape;
use crate::render::diff as render;

/// The keys.
pub(crate) const HINTS: [Hint; 10] = [
    hint("space", KeyCode::Char(' '), "tick"),
    hint("enter", KeyCode::Enter, "tick hunk"),
    hint("tab", KeyCode::Tab, "next file"),
    hint("esc", KeyCode::Esc, "files"),
    hint("]", KeyCode::Char(']'), "next hunk"),
    hint("p", KeyCode::Char('p'), "plan"),
    hint("a", KeyCode::Char('a'), "whole file"),
    hint("/", KeyCode::Char('/'), "find"),
    hint("c", KeyCode::Char('c'), "compare"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// The keys where the file is compared with another lane's.
pub(crate) const HINTS_OTHER: [Hint; 6] = [
    hint("esc", KeyCode::Esc, "back"),
    hint("tab", KeyCode::Tab, "next file"),
    hint("]", KeyCode::Char(']'), "next hunk"),
    hint("/", KeyCode::Char('/'), "find"),
    hint("c", KeyCode::Char('c'), "another lane"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// The keys where two lanes are compared.
pub(crate) const HINTS_MET: [Hint; 5] = [
    hint("esc", KeyCode::Esc, "back"),
    hint("tab", KeyCode::Tab, "next file"),
    hint("]", KeyCode::Char(']'), "next hunk"),
    hint("/", KeyCode::Char('/'), "find"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// Columns that a line is scrolled by.
const SIDEWAYS: usize = 8;

/// Lines up to this long are looked at as a whole for what a terminal hides; of longer ones, what is shown.
const FLAGGED: usize = 64 << 10;

/// What is shown of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Of {
    /// What the open lane changed in it.
    Lane,
    /// How it differs in this other lane. Nothing can be ticked, here and in the next.
    Other(String),
    /// How it differs in two lanes, from the list of what either changed.
    Met,
}

/// The screen.
#[derive(Debug)]
pub(crate) struct Hunks {
    /// Number of the file in its list.
    pub(crate) number: usize,
    /// What is shown.
    pub(crate) of: Of,
    /// What the title says.
    pub(crate) title: String,
    /// What is looked for.
    pub(crate) wanted: String,
    path: Vec<u8>,
    sheet: Sheet,
    list: List,
    skip: usize,
    /// What was read for colours.
    pub(crate) colours: Highlighter,
    no_grammar: bool,
    flags: HashMap<usize, bool>,
    /// Changed words of the lines of a run, by its hunk.
    marks: HashMap<(usize, Run), Vec<Vec<Range<usize>>>>,
    body: Rect,
    /// Rows that were ever drawn.
    pub(crate) drawn: usize,
}

impl Hunks {
    /// The content of a file was compared.
    pub(crate) fn new(number: usize, file: &FileView, diff: FileDiff) -> Hunks {
        let title = render::place(file);
        Hunks::with(number, title, &file.change.path, Sheet::of(file, diff), Of::Lane)
    }

    /// The same file in two lanes.
    pub(crate) fn two(two: TwoSides) -> Hunks {
        let across = two.across;
        let [lane, other] = across.lanes.each_ref().map(escape::name);
        let title = format!("{lane} ↔ {other}: {}", escape::name(across.path.as_bytes()));
        let mut words = vec![format!("- {lane}: {}", two.have[0]), format!("+ {other}: {}", two.have[1])];
        if two.diff.binary {
            words.push("binary content differs".to_owned());
        } else if two.diff.hunks.is_empty() {
            words.push("no line differs".to_owned());
        }
        let sheet = Sheet::bare(two.diff, &words);
        let [_, other] = across.lanes;
        let of = if across.met { Of::Met } else { Of::Other(other) };
        Hunks::with(across.number, title, &across.path, sheet, of)
    }

    fn with(number: usize, title: String, path: &TreePath, sheet: Sheet, of: Of) -> Hunks {
        let mut hunks = Hunks {
            number,
            of,
            title,
            wanted: String::new(),
            path: path.as_bytes().to_vec(),
            sheet,
            list: List::default(),
            skip: 0,
            colours: Highlighter::default(),
            no_grammar: false,
            flags: HashMap::new(),
            marks: HashMap::new(),
            body: Rect::default(),
            drawn: 0,
        };
        hunks.list.fit(hunks.sheet.len(), 1, |_| true);
        hunks
    }

    /// Where one is in the file, in words.
    pub(crate) fn place(&self) -> String {
        let hunks = self.sheet.diff.hunks.len();
        match self.sheet.hunk_at(self.list.cursor) {
            Some(hunk) => format!("hunk {} of {hunks}", hunk + 1),
            None if hunks == 1 => "1 hunk".to_owned(),
            None => format!("{hunks} hunks"),
        }
    }

    /// Goes to the next line that holds what is looked for; false where there is none.
    pub(crate) fn find(&mut self, after: bool) -> bool {
        match self.sheet.find(self.list.cursor, &self.wanted, after) {
            Some(row) => {
                self.list.go(row, &|_| true);
                true
            }
            None => false,
        }
    }

    /// Something can be ticked.
    fn ticks(&self) -> bool {
        self.of == Of::Lane
    }

    /// Takes a key; false where it means nothing here.
    pub(crate) fn key(&mut self, key: &KeyEvent, changes: Option<&mut Changes>) -> bool {
        if self.list.key(key, |_| true) {
            return true;
        }
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Char(' ') => self.flip(changes, false),
            KeyCode::Enter => self.flip(changes, true),
            KeyCode::Char('a') if self.ticks() => {
                if let Some(changes) = changes {
                    changes.ticks.flip(self.number);
                }
            }
            KeyCode::Char(']') => self.jump(true),
            KeyCode::Char('[') => self.jump(false),
            KeyCode::Right | KeyCode::Char('l') => {
                self.skip += if shift { SIDEWAYS * 10 } else { SIDEWAYS };
            }
            KeyCode::Left | KeyCode::Char('h') if self.skip > 0 => {
                self.skip = self.skip.saturating_sub(if shift { SIDEWAYS * 10 } else { SIDEWAYS });
            }
            KeyCode::Char('0') => self.skip = 0,
            _ => return false,
        }
        true
    }

    fn jump(&mut self, after: bool) {
        let here = self.sheet.hunk_at(self.list.cursor);
        let at_head = here.and_then(|hunk| self.sheet.start(hunk)) == Some(self.list.cursor);
        let target = match (here, after) {
            (None, true) => Some(0),
            (None, false) => None,
            (Some(hunk), true) => Some(hunk + 1),
            (Some(hunk), false) if at_head => hunk.checked_sub(1),
            (Some(hunk), false) => Some(hunk),
        };
        if let Some(row) = target.and_then(|hunk| self.sheet.start(hunk)) {
            self.list.go(row, &|_| true);
            // The hunk is to be read, not only its head.
            self.list.top = row.saturating_sub(1).min(self.list.len.saturating_sub(self.list.height));
            self.list.top = self.list.top.clamp((row + 1).saturating_sub(self.list.height), row);
        }
    }

    /// Ticks what is under the cursor: a line, or its whole hunk.
    fn flip(&mut self, changes: Option<&mut Changes>, whole_hunk: bool) {
        let Some(changes) = changes.filter(|_| self.ticks()) else { return };
        let (ticks, Some(file)) = (&mut changes.ticks, changes.files.get(self.number)) else { return };
        let (number, at) = (self.number, self.list.cursor);
        let line = match self.sheet.row(at) {
            Some(Row::Line(hunk, line)) => Some((hunk, line)),
            _ => None,
        };
        let changed = line.map(|(hunk, line)| self.sheet.numbers(hunk, line).changed);
        let diff = &self.sheet.diff;
        match self.sheet.row(at) {
            None | Some(Row::Front(Front::Note(..))) => return,
            Some(Row::Front(Front::Whole(_))) => ticks.flip(number),
            Some(Row::Front(Front::Rename(_))) => ticks.flip_rename(number, file, diff),
            Some(Row::Front(Front::Mode(_))) => ticks.flip_mode(number, file, diff),
            Some(Row::Head(hunk)) => ticks.flip_hunk(number, file, diff, &diff.hunks[hunk].id),
            Some(Row::Line(hunk, _)) => {
                let id = &diff.hunks[hunk].id;
                match changed.filter(|_| !whole_hunk) {
                    // A line that did not change is in any selection.
                    Some(0) => return,
                    Some(changed) => ticks.flip_line(number, file, diff, id, changed),
                    None => ticks.flip_hunk(number, file, diff, id),
                }
            }
        }
        if !whole_hunk && line.is_some() {
            self.list.key(&KeyEvent::from(KeyCode::Down), |_| true);
        }
    }

    /// A click; in the first columns it ticks.
    pub(crate) fn click(&mut self, x: u16, y: u16, changes: Option<&mut Changes>) {
        let Some(down) = y.checked_sub(self.body.y) else { return };
        let row = self.list.top + usize::from(down);
        if !self.list.window().contains(&row) {
            return;
        }
        self.list.go(row, &|_| true);
        if x < self.body.x + 4 {
            let top = self.list.top;
            self.flip(changes, false);
            // The eye is still on the line that was clicked.
            (self.list.cursor, self.list.top) = (row, top);
        }
    }

    /// The wheel was turned.
    pub(crate) fn wheel(&mut self, down: bool) {
        self.list.wheel(down, |_| true);
    }

    /// True where shown lines wait for their colours.
    pub(crate) fn wants_colours(&self) -> bool {
        !self.no_grammar && self.next_plain().is_some()
    }

    fn next_plain(&self) -> Option<(usize, usize, bool)> {
        self.list.window().find_map(|at| {
            let Some(Row::Line(hunk, line)) = self.sheet.row(at) else { return None };
            let new = self.sheet.diff.hunks[hunk].lines[line].kind != LineKind::Removed;
            self.colours.pieces(stream(hunk, new), line).is_none().then_some((hunk, line, new))
        })
    }

    /// Reads shown lines for their colours until about so many were read.
    pub(crate) fn colour(&mut self, grammars: &mut Grammars, budget: usize) {
        let until = self.colours.parsed + budget;
        while self.colours.parsed < until
            && let Some((hunk, line, new)) = self.next_plain()
        {
            let first = self.sheet.diff.hunks.first().and_then(|hunk| hunk.lines.first());
            let first = first.map_or(&[][..], |line| &line.bytes);
            let lines = Stream { hunk: &self.sheet.diff.hunks[hunk], new };
            if !self.colours.read(grammars, &self.path, first, (stream(hunk, new), line), &lines) {
                self.no_grammar = true;
                return;
            }
        }
    }

    /// Draws the rows of the window.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect, theme: Theme, ticks: Option<&Ticks>) {
        self.body = area;
        let ticks = ticks.filter(|_| self.ticks());
        self.list.fit(self.sheet.len(), usize::from(area.height), |_| true);
        let digits = self.sheet.diff.hunks.last().map_or(1, |hunk| {
            (hunk.old_start + hunk.old_len).max(hunk.new_start + hunk.new_len).max(1).ilog10() as usize + 1
        });
        for (y, at) in (area.y..area.bottom()).zip(self.list.window()) {
            self.drawn += 1;
            let line = Rect { y, height: 1, ..area };
            match self.sheet.row(at) {
                None => {}
                Some(Row::Front(front)) => draw_front(buf, line, theme, front, ticks, self.number),
                Some(Row::Head(hunk)) => self.draw_head(buf, line, theme, hunk, ticks),
                Some(Row::Line(hunk, inner)) => {
                    self.draw_line(buf, line, theme, (hunk, inner, at, digits), ticks)
                }
            }
            if at == self.list.cursor {
                buf.set_style(line, theme.cursor());
            }
        }
    }

    fn draw_head(&self, buf: &mut Buffer, area: Rect, theme: Theme, hunk: usize, ticks: Option<&Ticks>) {
        let hunk = &self.sheet.diff.hunks[hunk];
        let mut x = area.x;
        if let Some(ticks) = ticks {
            x = draw_box(buf, area, theme, ticks.hunk(self.number, &hunk.id));
        }
        let words =
            format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len);
        put(buf, x, area.y, area.right().saturating_sub(x), &words, theme.role(Role::Key));
    }

    fn draw_line(
        &mut self,
        buf: &mut Buffer,
        area: Rect,
        theme: Theme,
        (hunk, inner, at, digits): (usize, usize, usize, usize),
        ticks: Option<&Ticks>,
    ) {
        let numbers = self.sheet.numbers(hunk, inner);
        let (id, line) = (&self.sheet.diff.hunks[hunk].id, &self.sheet.diff.hunks[hunk].lines[inner]);
        let (sign, role, ground) = match line.kind {
            LineKind::Context => (" ", Role::Dim, Style::new()),
            LineKind::Added => ("+", Role::Add, theme.added()),
            LineKind::Removed => ("-", Role::Delete, theme.removed()),
        };
        buf.set_style(area, ground);
        if let Some(ticks) = ticks.filter(|_| numbers.changed > 0) {
            let ticked = ticks.line(self.number, id, numbers.changed);
            let (mark, look) = if ticked { ("[x]", Role::Tick) } else { ("[ ]", Role::Dim) };
            put(buf, area.x, area.y, 3, mark, theme.role(look).patch(ground));
        }
        let mut x = area.x + if ticks.is_some() { 4 } else { 0 };
        let dim = theme.role(Role::Dim).patch(ground);
        let gutter = match area.width {
            0..30 => String::new(),
            30..70 => format!(
                "{:>digits$} ",
                if line.kind == LineKind::Removed { numbers.old } else { numbers.new }
            ),
            _ => {
                let shown = |number: u32| if number == 0 { String::new() } else { number.to_string() };
                format!("{:>digits$} {:>digits$} ", shown(numbers.old), shown(numbers.new))
            }
        };
        x = put(buf, x, area.y, area.width, &gutter, dim);
        let (flag_at, sign_at) = (x, x + 1);
        put(buf, sign_at, area.y, 1, sign, theme.role(role).patch(ground));
        let start = sign_at + 1;
        let room = usize::from(area.right().saturating_sub(start));

        let body = line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes);
        let (body, is_crlf) = match body.strip_suffix(b"\r") {
            Some(body) if line.bytes.ends_with(b"\n") => (body, true),
            _ => (body, false),
        };
        let new = line.kind != LineKind::Removed;
        let pieces = self.colours.pieces(stream(hunk, new), inner).unwrap_or_default();
        // Where nothing stands behind a changed line, its own colour says what it is.
        let plain = if pieces.is_empty() && ground == Style::new() && line.kind != LineKind::Context {
            theme.role(role)
        } else {
            ground
        };
        let run = words::run(&self.sheet.diff.hunks[hunk], inner);
        let marks = match &run {
            None => &[][..],
            Some(run) => {
                let of_run = || words::marks(&self.sheet.diff.hunks[hunk], run);
                let marks = self.marks.entry((hunk, run.clone())).or_insert_with(of_run);
                marks.get(inner - run.removed.start).map_or(&[][..], Vec::as_slice)
            }
        };
        let looks = (plain, theme.marked(new), marks);
        let painted = paint::content(body, pieces, looks, |token| theme.token(token), (self.skip, room));
        let flagged = *self.flags.entry(at).or_insert_with(|| {
            painted.flagged || (body.len() <= FLAGGED && escape::escape(body, escape::Kind::Content).flagged)
        });
        let mut x = start;
        for span in &painted.spans {
            x = put(buf, x, area.y, area.right().saturating_sub(x), &span.content, span.style);
        }
        if flagged || painted.flagged {
            put(buf, flag_at, area.y, 1, "!", theme.role(Role::Warn).patch(ground));
        }
        if painted.more.0 {
            put(buf, start, area.y, 1, paint::CUT, dim);
        }
        if painted.more.1 {
            put(buf, area.right() - 1, area.y, 1, paint::CUT, dim);
        } else {
            let end = match (is_crlf, line.lacks_newline()) {
                (true, _) => "\\r",
                (_, true) => " \\ no newline at the end",
                _ => "",
            };
            put(buf, x, area.y, area.right().saturating_sub(x), end, dim);
        }
    }
}

/// The lines of a hunk in one state of the file have a number of their own.
fn stream(hunk: usize, new: bool) -> u64 {
    hunk as u64 * 2 + u64::from(new)
}

fn draw_box(buf: &mut Buffer, area: Rect, theme: Theme, ticked: Ticked) -> u16 {
    let role = if ticked == Ticked::None { Role::Dim } else { Role::Tick };
    put(buf, area.x, area.y, 3, ticks::sign(ticked), theme.role(role)) + 1
}

fn draw_front(
    buf: &mut Buffer,
    area: Rect,
    theme: Theme,
    front: &Front,
    ticks: Option<&Ticks>,
    number: usize,
) {
    let (rename, mode) = ticks.map_or((false, false), |ticks| ticks.dress(number));
    let as_tick = |on| if on { Ticked::All } else { Ticked::None };
    let (text, role, ticked) = match front {
        Front::Whole(text) => {
            (text, Role::Head, Some(ticks.map_or(Ticked::None, |ticks| ticks.file(number))))
        }
        Front::Rename(text) => (text, Role::Head, Some(as_tick(rename))),
        Front::Mode(text) => (text, Role::Head, Some(as_tick(mode))),
        Front::Note(text, role) => (text, *role, None),
    };
    let x = match ticked {
        Some(ticked) => draw_box(buf, area, theme, ticked),
        None => area.x + 4,
    };
    let room = usize::from(area.right().saturating_sub(x));
    put(buf, x, area.y, room as u16, &cut(text, room), theme.role(role));
}
