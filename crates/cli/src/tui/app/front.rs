//! [`Front`]: what stands in front of a screen: the keys, something to read, a question, a list to choose from.
//!
//! Invariant: a question is answered by its own keys and by nothing else; its last line is always seen.

use engine::keeping::KeptView;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::App;
use crate::escape;
use crate::render::report;
use crate::tui::fact::Effect;
use crate::tui::frame;
use crate::tui::list::List;
use crate::tui::paint::CUT;
use crate::tui::plan::{count, of_lanes};
use crate::tui::theme::{Role, Theme};

/// What stands in front of a screen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Front {
    /// The keys, from this line on.
    Help(usize),
    /// Something to read.
    Say { title: &'static str, lines: Vec<(String, Role)> },
    /// A question that `y` answers.
    Ask { title: &'static str, lines: Vec<(String, Role)>, yes: Effect },
    /// A list of lanes to compare `open` with.
    Choose { open: String, lanes: Vec<String>, list: List, what: Choosing },
    /// The keeps of the project, one of which can be taken back.
    Keeps { keeps: Vec<KeptView>, list: List },
}

/// What of two lanes is to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choosing {
    /// One file of the open lane.
    File(usize),
    /// Everything that either changed.
    Lanes,
}

impl App {
    pub(super) fn front_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        match self.front.take()? {
            Front::Say { .. } => None,
            Front::Help(top) => {
                let top = match key.code {
                    KeyCode::Down | KeyCode::Char('j') | KeyCode::PageDown => Some(top + 1),
                    KeyCode::Up | KeyCode::Char('k') | KeyCode::PageUp => Some(top.saturating_sub(1)),
                    _ => None,
                };
                self.front = top.map(Front::Help);
                None
            }
            Front::Ask { title, lines, yes } => match key.code {
                KeyCode::Char('y' | 'Y') => Some(yes),
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => None,
                _ => {
                    self.front = Some(Front::Ask { title, lines, yes });
                    None
                }
            },
            Front::Choose { open, lanes, mut list, what } => match (key.code, what) {
                (KeyCode::Enter, Choosing::Lanes) => {
                    lanes.get(list.cursor).map(|name| Effect::Meet([open, name.clone()]))
                }
                (KeyCode::Enter, Choosing::File(file)) => {
                    self.files.as_ref()?.across(file, lanes.get(list.cursor)?.clone())
                }
                (KeyCode::Esc | KeyCode::Char('q'), _) => None,
                _ => {
                    list.key(key, |_| true);
                    self.front = Some(Front::Choose { open, lanes, list, what });
                    None
                }
            },
            Front::Keeps { keeps, mut list } => match key.code {
                KeyCode::Enter | KeyCode::Char('u') => {
                    let keep = keeps.get(list.cursor)?;
                    if let Some(why) = cannot(keep) {
                        self.note = Some((why, Role::Warn));
                        self.front = Some(Front::Keeps { keeps, list });
                        return None;
                    }
                    self.from_lanes = true;
                    Some(Effect::PlanBack(keep.id.clone()))
                }
                KeyCode::Esc | KeyCode::Char('q') => None,
                _ => {
                    list.key(key, |_| true);
                    self.front = Some(Front::Keeps { keeps, list });
                    None
                }
            },
        }
    }

    pub(super) fn draw_front(&mut self, buf: &mut Buffer, area: Rect) {
        let (theme, now, screen) = (self.theme, self.now, self.screen);
        let room = usize::from(area.width).saturating_sub(6);
        let height = usize::from(area.height).saturating_sub(4).max(1);
        let fold = |lines: &[(String, Role)]| -> Vec<(String, Style)> {
            let fold = |(line, role): &(String, Role)| {
                let style = theme.role(*role);
                frame::wrapped(line, room).into_iter().map(move |line| (line, style)).collect::<Vec<_>>()
            };
            lines.iter().flat_map(fold).collect()
        };
        match &mut self.front {
            None => {}
            Some(Front::Help(top)) => {
                let all = crate::tui::help::lines(screen, room);
                *top = (*top).min(all.len().saturating_sub(usize::from(area.height) - 2));
                let lines: Vec<(String, Style)> =
                    all.into_iter().skip(*top).map(|line| (line, Style::new())).collect();
                frame::boxed(buf, area, theme, "keys", &lines);
            }
            Some(Front::Say { title, lines }) => {
                frame::boxed(buf, area, theme, title, &fold(lines));
            }
            Some(Front::Ask { title, lines, .. }) => {
                let mut lines = fold(lines);
                if lines.len() > height {
                    lines.truncate(height.saturating_sub(1));
                    lines.push((CUT.to_owned(), theme.role(Role::Dim)));
                }
                lines.push((String::new(), Style::new()));
                lines.push(("y yes   n no".to_owned(), theme.role(Role::Key)));
                frame::boxed(buf, area, theme, title, &lines);
            }
            Some(Front::Choose { lanes, list, .. }) => {
                list.fit(lanes.len(), height, |_| true);
                let names = lanes.iter().map(|name| (escape::name(name), Style::new()));
                frame::boxed(buf, area, theme, "compare with", &seen(theme, *list, names));
            }
            Some(Front::Keeps { keeps, list }) => {
                list.fit(keeps.len(), height, |_| true);
                let style = |keep: &KeptView| match cannot(keep) {
                    Some(_) => theme.role(Role::Dim),
                    None => Style::new(),
                };
                let lines = keeps.iter().map(|keep| (kept(keep, now), style(keep)));
                frame::boxed(buf, area, theme, "keeps: enter takes one back", &seen(theme, *list, lines));
            }
        }
    }
}

/// The lines of a list that are seen, the one under the cursor marked.
fn seen(theme: Theme, list: List, lines: impl Iterator<Item = (String, Style)>) -> Vec<(String, Style)> {
    let window = list.window();
    let mark = |(at, (line, style))| {
        if at == list.cursor { (format!("> {line}"), theme.cursor()) } else { (format!("  {line}"), style) }
    };
    lines.enumerate().map(mark).skip(window.start).take(window.len()).collect()
}

/// A keep of the list, in one line.
fn kept(keep: &KeptView, now: i64) -> String {
    let age = keep.at.map_or_else(String::new, |at| format!("  {}", report::age(at, now)));
    let state = if keep.is_undone { "  taken back already" } else { "" };
    let paths = count(usize::try_from(keep.steps).unwrap_or(usize::MAX), "path");
    format!("{}  {paths} of {}{age}{state}", keep.id, of_lanes(keep))
}

/// Why a keep is not taken back any more.
fn cannot(keep: &KeptView) -> Option<String> {
    match (&keep.problem, keep.is_undone) {
        (Some(problem), _) => Some(escape::name(problem)),
        (None, true) => Some("that keep was taken back already".to_owned()),
        (None, false) => None,
    }
}
