//! Drawing the lines of the list of changes.

use engine::ops::diff::FileView;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tree::{ChangeKind, Entry};

use super::{Files, LARGE, Row, role_of, size};
use crate::escape;
use crate::render::{diff as render, report};
use crate::tui::branches::Dir;
use crate::tui::paint::{self, cut, cut_middle, put, width};
use crate::tui::plan::count;
use crate::tui::theme::{Role, Theme};
use crate::tui::ticks::{self, Ticked};

/// Columns that each level is moved in by.
const STEP: usize = 2;
/// No level moves in further than this.
const DEEPEST: usize = 8;

impl Files {
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
            let line = Rect { y, height: 1, ..area };
            match &self.rows[at] {
                Row::Head(text) => {
                    put(buf, area.x, y, area.width, &cut(text, room), theme.role(Role::Head));
                }
                Row::Note(text) => {
                    put(buf, area.x + 4, y, area.width, &cut(text, room - 4), theme.role(Role::Dim));
                }
                Row::Dir(dir) => self.draw_dir(buf, line, theme, dir),
                Row::File { number, depth, from } => {
                    self.draw_file(buf, line, theme, (*number, *depth, *from))
                }
            }
            if at == self.list.cursor {
                buf.set_style(Rect { y, height: 1, ..area }, theme.cursor());
            }
        }
    }

    fn draw_box(buf: &mut Buffer, area: Rect, theme: Theme, ticked: Ticked, depth: usize) -> u16 {
        let style = if ticked == Ticked::None { theme.role(Role::Dim) } else { theme.role(Role::Tick) };
        let x = put(buf, area.x, area.y, 3, ticks::sign(ticked), style) + 1;
        let inset = (depth.min(DEEPEST) * STEP).min(usize::from(area.width / 3));
        x + inset as u16
    }

    fn draw_dir(&self, buf: &mut Buffer, area: Rect, theme: Theme, dir: &Dir) {
        let x = Files::draw_box(buf, area, theme, self.ticked_in(dir), dir.depth);
        let mark = if dir.open { "▾" } else { "▸" };
        let mut x = put(buf, x, area.y, 1, mark, theme.role(Role::Dim)) + 1;
        if let Some(own) = dir.own {
            let (letter, role) = render::sign(&self.changes.files[own].change.kind);
            x = put(buf, x, area.y, 1, letter, theme.role(role_of(role))) + 1;
        }
        let inside = dir.inside.len() - usize::from(dir.own.is_some());
        let sum = if dir.open { String::new() } else { count(inside, "path") };
        let room = usize::from(area.right().saturating_sub(x)).saturating_sub(width(&sum) + 2);
        let root = if dir.depth == 0 { self.prefix(dir.root) } else { String::new() };
        let name = format!("{root}{}/", escape::name(&dir.path.as_bytes()[dir.from..]));
        put(buf, x, area.y, room as u16, &cut_middle(&name, room), theme.role(Role::Head));
        let x = area.right().saturating_sub(width(&sum) as u16 + 1);
        put(buf, x, area.y, area.width, &sum, theme.role(Role::Dim));
    }

    /// What stands before paths of a root that is not the origin.
    fn prefix(&self, root: usize) -> String {
        let file = self.changes.files.iter().find(|file| file.root_index == root && root > 0);
        file.map_or_else(String::new, |file| format!("{}/", report::path(&file.root)))
    }

    fn draw_file(
        &self,
        buf: &mut Buffer,
        area: Rect,
        theme: Theme,
        (number, depth, from): (usize, usize, usize),
    ) {
        let file = &self.changes.files[number];
        let x = Files::draw_box(buf, area, theme, self.changes.ticks.file(number), depth);
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
            None => right.push((paint::CUT.to_owned(), Role::Dim)),
        }
        let taken: usize = right.iter().map(|(text, _)| width(text) + 1).sum();
        let room = usize::from(area.right().saturating_sub(x)).saturating_sub(taken + 1);
        let path = cut_middle(&label(file, from), room);
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

/// The path of a change without the part that lines above show; where it was, for a rename.
fn label(file: &FileView, from: usize) -> String {
    if from == 0 {
        return render::place(file);
    }
    let entry = file.change.new.as_ref().or(file.change.old.as_ref());
    let slash = if entry.is_some_and(Entry::is_dir) { "/" } else { "" };
    let name = format!("{}{slash}", escape::name(&file.change.path.as_bytes()[from..]));
    match &file.change.kind {
        ChangeKind::Rename { from, .. } => format!("{name} ← {}", escape::name(from.as_bytes())),
        _ => name,
    }
}
