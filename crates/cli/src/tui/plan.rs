//! The screens of a plan and of what came of it: lines that can be scrolled, and a question.
//!
//! Invariant: what is left out is listed with its reason before anything is done, and again afterwards.

use engine::keeping::KeptView;
use engine::ops::keep::{ConflictView, Conflicts, KeepView, LeftOut, LeftOutWhy};
use engine::ops::undo_keep::UndoKeepView;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;

use super::frame::{Hint, hint};
use super::list::List;
use super::paint::{cut, put};
use super::theme::{Role, Theme};
use crate::commands::keep::{clash, reason};
use crate::escape;
use crate::render::report;

/// The keys under a plan.
pub(crate) const HINTS: [Hint; 3] = [YES, BACK, QUIT];

/// The keys under a plan that would do nothing.
pub(crate) const HINTS_NOTHING: [Hint; 2] = [BACK, QUIT];

/// The keys under a plan that meets conflicts.
pub(crate) const HINTS_CLASH: [Hint; 7] = [YES, BACK, MARKERS, OURS, THEIRS, STOP, QUIT];

/// The keys under one that does nothing as long as they are not settled.
pub(crate) const HINTS_CLASH_NOTHING: [Hint; 6] = [BACK, MARKERS, OURS, THEIRS, STOP, QUIT];

const YES: Hint = hint("y", KeyCode::Char('y'), "keep");
const BACK: Hint = hint("esc", KeyCode::Esc, "back");
const MARKERS: Hint = hint("m", KeyCode::Char('m'), "markers");
const OURS: Hint = hint("o", KeyCode::Char('o'), "ours");
const THEIRS: Hint = hint("t", KeyCode::Char('t'), "theirs");
const STOP: Hint = hint("s", KeyCode::Char('s'), "stop");
const QUIT: Hint = hint("q", KeyCode::Char('q'), "quit");

/// The keys when it is done.
pub(crate) const HINTS_DONE: [Hint; 4] = [
    hint("enter", KeyCode::Enter, "files"),
    hint("u", KeyCode::Char('u'), "take it back"),
    hint("D", KeyCode::Char('D'), "discard the lane"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// The keys when a keep was taken back.
pub(crate) const HINTS_BACK: [Hint; 2] =
    [hint("enter", KeyCode::Enter, "files"), hint("q", KeyCode::Char('q'), "quit")];

/// Lines on a screen of their own.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// What the title says.
    pub(crate) title: String,
    lines: Vec<(String, Role)>,
    list: List,
}

impl Page {
    /// A page.
    pub(crate) fn new(title: String, lines: Vec<(String, Role)>) -> Page {
        Page { title, lines, list: List::default() }
    }

    /// Takes a key that moves.
    pub(crate) fn key(&mut self, key: &KeyEvent) -> bool {
        // There is no cursor to be seen: the window itself moves.
        let last = self.lines.len().saturating_sub(self.list.height);
        let page = self.list.height.saturating_sub(1).max(1);
        self.list.top = match key.code {
            KeyCode::Down | KeyCode::Char('j') => self.list.top + 1,
            KeyCode::Up | KeyCode::Char('k') => self.list.top.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.list.top + page,
            KeyCode::PageUp => self.list.top.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// The wheel was turned.
    pub(crate) fn wheel(&mut self, down: bool) {
        let code = if down { KeyCode::Down } else { KeyCode::Up };
        for _ in 0..3 {
            self.key(&KeyEvent::from(code));
        }
    }

    /// Draws the lines of the window.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect, theme: Theme) {
        (self.list.len, self.list.height) = (self.lines.len(), usize::from(area.height));
        self.list.top = self.list.top.min(self.lines.len().saturating_sub(self.list.height));
        let room = usize::from(area.width).saturating_sub(2);
        for (y, at) in (area.y..area.bottom()).zip(self.list.window()) {
            let (text, role) = &self.lines[at];
            put(buf, area.x + 1, y, area.width - 1, &cut(text, room), theme.role(*role));
        }
    }
}

/// `1 path`, `2 paths`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The lanes of a keep.
pub(crate) fn lanes(view: &KeepView) -> String {
    let all = std::iter::once(&view.lane).chain(&view.with);
    all.map(|lane| escape::name(&lane.name)).collect::<Vec<_>>().join(", ")
}

/// The lanes of a keep that was made, in words.
pub(crate) fn of_lanes(keep: &KeptView) -> String {
    let names: Vec<String> = keep.lanes.iter().map(|(_, name)| escape::name(name)).collect();
    match names.as_slice() {
        [] | [_] => format!("lane {}", escape::name(&keep.lane)),
        names => format!("lanes {}", names.join(", ")),
    }
}

/// A plan in lines.
pub(crate) fn lines(view: &KeepView, said: &[String]) -> Vec<(String, Role)> {
    let mut lines: Vec<(String, Role)> = said.iter().map(|words| (words.clone(), Role::Warn)).collect();
    if view.steps.is_empty() {
        lines.push(("nothing would be written".to_owned(), Role::Head));
    } else {
        let words = format!(
            "{} into {}, {}",
            count(view.steps.len(), "path"),
            report::path(&view.lane.origin),
            report::bytes(view.bytes)
        );
        lines.push((words, Role::Head));
    }
    for check in view.checks.iter().filter(|check| !check.holds) {
        let (command, rule) = (escape::name(&check.command), report::path(&check.file));
        lines.push((format!("checked first with {command} (keep.verify of {rule})"), Role::Warn));
    }
    for step in &view.steps {
        let role = match step.what {
            "add" => Role::Add,
            "delete" => Role::Delete,
            _ => Role::Modify,
        };
        let part = if step.part { " (a part of it)" } else { "" };
        let place = report::step_place(view, step);
        let lanes = match step.lanes.as_slice() {
            [] => String::new(),
            lanes => format!("  of {}", lanes.iter().map(escape::name).collect::<Vec<_>>().join(" + ")),
        };
        lines.push((format!("{:<7} {place}{part}{lanes}", step.what), role));
        if let Some(reason) = &step.guarded {
            lines.push((format!("        runs by itself: {}", escape::name(reason)), Role::Warn));
        }
    }
    lines.extend(together(view, true));
    lines.extend(left_out(view));
    lines
}

/// What a keep did, in lines.
pub(crate) fn done(view: &KeepView, said: &[String]) -> Vec<(String, Role)> {
    let mut lines = vec![(
        format!(
            "kept {} of {} {}",
            count(view.steps.len(), "path"),
            if view.with.is_empty() { "lane" } else { "lanes" },
            lanes(view)
        ),
        Role::Good,
    )];
    if let Some(id) = &view.id {
        lines.push((format!("u takes it back; so does `lane undo --keep {id}` at any time"), Role::Dim));
    }
    lines.extend(said.iter().map(|words| (words.clone(), Role::Warn)));
    lines.extend(together(view, false));
    lines.extend(left_out(view));
    lines
}

/// What taking a keep back did, in lines.
pub(crate) fn taken_back(view: &UndoKeepView) -> Vec<(String, Role)> {
    let (lanes, shows) = (of_lanes(&view.keep), if view.keep.lanes.len() > 1 { "show" } else { "shows" });
    let mut lines = vec![
        (format!("the original is as it was before: {}", count(view.steps.len(), "path")), Role::Good),
        (format!("{lanes} {shows} what was taken back as changes again"), Role::Dim),
        (String::new(), Role::Dim),
    ];
    for step in &view.steps {
        lines.push((format!("{:<9} {}", step.what, escape::name(step.path.as_bytes())), Role::Modify));
    }
    lines
}

/// What lane and original both changed: put together where it can be, and else as it was said. `is_plan`: it can still
/// be said otherwise.
fn together(view: &KeepView, is_plan: bool) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    let name = |path: &tree::TreePath| escape::name(path.as_bytes());
    let head = |lines: &mut Vec<(String, Role)>, words: String, role| {
        lines.push((String::new(), Role::Dim));
        lines.push((words, role));
    };
    let marked = |path: &tree::TreePath| view.conflicts.iter().any(|at| at.path == *path && at.is_open());
    let merged: Vec<_> = view.merged.iter().filter(|at| !marked(&at.path)).collect();
    if !merged.is_empty() {
        head(&mut lines, "put together with what changed in the original:".to_owned(), Role::Good);
    }
    for at in merged {
        lines.push(match &at.lane_path {
            Some(lane_path) => {
                let (from, to) = (name(lane_path), name(&at.path));
                (format!("  {to}, its name in the original (in the lane: {from})"), Role::Modify)
            }
            None => match view.steps.iter().find(|step| (&step.root, &step.path) == (&at.root, &at.path)) {
                Some(step) if step.lanes.len() > 1 => {
                    let lanes: Vec<String> = step.lanes.iter().map(escape::name).collect();
                    (format!("  {}, of lanes {}", name(&at.path), lanes.join(" and ")), Role::Modify)
                }
                _ => (format!("  {}", name(&at.path)), Role::Modify),
            },
        });
    }
    let is_between = view.conflicts.iter().any(|at| !at.with.is_empty());
    let other = if is_between { "the original or other lanes" } else { "the original" };
    if !view.conflicts.is_empty() {
        head(&mut lines, format!("{} with {other}:", count(view.conflicts.len(), "conflict")), Role::Warn);
    }
    for at in &view.conflicts {
        let role = if at.is_open() { Role::Bad } else { Role::Modify };
        lines.push((format!("  {}: {}", name(&at.path), clash(at)), role));
        lines.push((format!("      {}", settled(at)), Role::Dim));
    }
    if is_plan && !view.conflicts.is_empty() {
        let words = "  a key says it of all: m both versions of the lines between markers, o the original's side, \
                     t the lane's, s leave it";
        lines.push((words.to_owned(), Role::Key));
    }
    lines
}

/// What becomes of a conflict, in words.
fn settled(at: &ConflictView) -> String {
    let lane = at.lane.as_ref().map(|lane| format!("the side of lane {}", escape::name(lane)));
    let other: Vec<String> = at.with.iter().map(escape::name).collect();
    match at.settled {
        None | Some(Conflicts::Stop) => "stays as it is in the original".to_owned(),
        Some(Conflicts::Markers) => "both versions of the lines, between markers".to_owned(),
        Some(Conflicts::Ours) if !other.is_empty() => format!("the side of lane {} stays", other.join(", ")),
        Some(Conflicts::Ours) => "the original's side stays".to_owned(),
        Some(Conflicts::Theirs) => format!("{} is taken", lane.as_deref().unwrap_or("the lane's side")),
    }
}

fn left_out(view: &KeepView) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    // A conflict was told already, with its reason.
    let told = |left: &LeftOut| {
        let is_it = |at: &ConflictView| (&at.root, &at.path) == (&left.root, &left.path);
        view.conflicts.iter().any(is_it)
    };
    let others: Vec<&LeftOut> = view.left_out.iter().filter(|left| !told(left)).collect();
    if !others.is_empty() {
        lines.push((String::new(), Role::Dim));
        lines.push((format!("left out: {}", count(others.len(), "path")), Role::Warn));
    }
    for left in others {
        let detail =
            if left.detail.is_empty() { String::new() } else { format!(": {}", escape::name(&left.detail)) };
        let lane =
            left.lane.as_ref().map_or_else(String::new, |lane| format!(" of lane {}", escape::name(lane)));
        let words = format!("{}{lane} ({}{detail})", escape::name(left.path.as_bytes()), reason(left.why));
        let role = if left.why == LeftOutWhy::Conflict { Role::Bad } else { Role::Modify };
        lines.push((format!("  {words}"), role));
    }
    for (_, path) in &view.set_id_dropped {
        lines.push((format!("  {} without its set-id bit", escape::name(path.as_bytes())), Role::Dim));
    }
    if view.git_internal > 0 {
        let paths = count(usize::try_from(view.git_internal).unwrap_or(usize::MAX), "path");
        lines.push((format!("{paths} in .git: never kept"), Role::Dim));
    }
    lines
}
