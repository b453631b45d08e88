//! [`App`]: the state of the view. Keys, clicks and facts in; a frame, and at most one wish, out. It touches neither
//! the terminal nor a lane.
//!
//! Invariant: what is asked for is done by whoever holds the app, and told to it as a fact. Nothing is written into
//! the original but by a plan that was shown and confirmed.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::fact::{Effect, Fact, Want};
use super::files::{self, Files};
use super::frame::{self, Hint};
use super::highlight::Grammars;
use super::hunks::{self, Hunks};
use super::lanes::{self, Lanes};
use super::list::List;
use super::paint::{cut, put};
use super::plan::{self, Page};
use super::theme::{Role, Theme};
use crate::escape;
use crate::render::report;

/// Lines that are read for colours between two looks at the keyboard.
const COLOURS_AT_ONCE: usize = 8;

/// Which screen is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    /// All lanes.
    Lanes,
    /// The changes of one.
    Files,
    /// The lines of one change.
    Hunks,
    /// What a keep would do.
    Plan,
    /// What it did.
    Done,
    /// It was taken back.
    Back,
}

/// What stands in front of a screen.
#[derive(Debug, Clone, PartialEq)]
enum Front {
    /// The keys, from this line on.
    Help(usize),
    /// Something to read.
    Say { title: &'static str, lines: Vec<(String, Role)> },
    /// A question that `y` answers.
    Ask { title: &'static str, lines: Vec<(String, Role)>, yes: Effect },
    /// A list of lanes to compare with.
    Choose { lanes: Vec<String>, list: List, file: usize },
}

/// The state of the view.
#[derive(Debug)]
pub(crate) struct App {
    /// The looks.
    pub(crate) theme: Theme,
    /// Milliseconds since the epoch, as of the last fact.
    pub(crate) now: i64,
    /// Which screen is shown.
    pub(crate) screen: Screen,
    /// All lanes.
    pub(crate) lanes: Lanes,
    /// The open lane.
    pub(crate) files: Option<Files>,
    /// The open change.
    pub(crate) hunks: Option<Hunks>,
    /// A plan, or what came of it.
    page: Page,
    /// The plan would write something.
    plan_writes: bool,
    /// The keep that was just made, and how many paths it wrote.
    kept: Option<(String, usize)>,
    front: Option<Front>,
    /// What is being typed for a search.
    prompt: Option<String>,
    /// One line of talk.
    pub(crate) note: Option<(String, Role)>,
    /// What is being done.
    pub(crate) busy: Option<&'static str>,
    places: Vec<(Range<u16>, KeyCode)>,
    keys: Rect,
    grammars: Grammars,
}

impl App {
    /// Nothing is known yet.
    pub(crate) fn new(theme: Theme) -> App {
        App {
            theme,
            now: 0,
            screen: Screen::Lanes,
            lanes: Lanes::default(),
            files: None,
            hunks: None,
            page: Page::default(),
            plan_writes: false,
            kept: None,
            front: None,
            prompt: None,
            note: None,
            busy: None,
            places: Vec::new(),
            keys: Rect::default(),
            grammars: Grammars::default(),
        }
    }

    /// Takes what came from the terminal.
    pub(crate) fn input(&mut self, event: &Event) -> Option<Effect> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Mouse(mouse) => {
                let (x, y) = (mouse.column, mouse.row);
                match mouse.kind {
                    MouseEventKind::Down(MouseButton::Left) => self.click(x, y),
                    MouseEventKind::ScrollDown => self.wheel(true),
                    MouseEventKind::ScrollUp => self.wheel(false),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Option<Effect> {
        self.note = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Effect::Quit),
                KeyCode::Char('z') => return Some(Effect::Suspend),
                KeyCode::Char('l') => return Some(Effect::Redraw),
                KeyCode::Char(c) if c != 'd' && c != 'u' => return None,
                _ => {}
            }
        }
        // A letter that comes right behind an escape is not the letter alone.
        if key.modifiers.contains(KeyModifiers::ALT) {
            return None;
        }
        if self.front.is_some() {
            return self.front_key(key);
        }
        if self.prompt.is_some() {
            self.prompt_key(key);
            return None;
        }
        match key.code {
            KeyCode::Char('?') | KeyCode::F(1) => {
                self.front = Some(Front::Help(0));
                return None;
            }
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('/') if matches!(self.screen, Screen::Lanes | Screen::Files | Screen::Hunks) => {
                self.prompt = Some(String::new());
                return None;
            }
            _ => {}
        }
        match self.screen {
            Screen::Lanes => self.lanes_key(key),
            Screen::Files => self.files_key(key),
            Screen::Hunks => self.hunks_key(key),
            Screen::Plan => match key.code {
                KeyCode::Char('y') if self.plan_writes => Some(Effect::Keep),
                KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => {
                    self.back_to_files();
                    None
                }
                _ => {
                    self.page.key(key);
                    None
                }
            },
            Screen::Done | Screen::Back => match key.code {
                KeyCode::Enter | KeyCode::Esc | KeyCode::Left => self.on(),
                KeyCode::Char('u') if self.screen == Screen::Done => self.ask_take_back(),
                KeyCode::Char('D') if self.screen == Screen::Done => self.ask_discard(),
                _ => {
                    self.page.key(key);
                    None
                }
            },
        }
    }

    fn lanes_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let name = self.lanes.current().map(|lane| lane.lane.name.clone());
        match key.code {
            KeyCode::Esc if !self.lanes.filter.is_empty() => {
                self.lanes.filter.clear();
                None
            }
            KeyCode::Char('x') => name.and_then(|name| self.ask_export(name)),
            KeyCode::Char('D') => self.ask_discard(),
            _ => self.lanes.key(key),
        }
    }

    fn files_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let files = self.files.as_mut()?;
        let name = files.changes.lane.name.clone();
        match key.code {
            KeyCode::Esc if !files.filter.is_empty() => {
                files.filter.clear();
                files.arrange();
                None
            }
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h') => {
                self.screen = Screen::Lanes;
                (!self.lanes.read).then_some(Effect::Rows)
            }
            KeyCode::Char('a') => {
                let left = files.tick_all();
                if left > 0 {
                    let words = format!("{left} that run by themselves are not ticked: tick them one by one");
                    self.note = Some((words, Role::Warn));
                }
                None
            }
            KeyCode::Char('p') => self.plan(),
            KeyCode::Char('x') => self.ask_export(name),
            KeyCode::Char('D') => self.ask_discard(),
            KeyCode::Char('c') => {
                let file = files.current()?;
                self.choose(file)
            }
            _ => files.key(key),
        }
    }

    fn hunks_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let (files, hunks) = (self.files.as_mut()?, self.hunks.as_mut()?);
        match key.code {
            KeyCode::Tab | KeyCode::BackTab => {
                let after = key.code == KeyCode::Tab;
                let Some(next) = files.beside(hunks.number, after) else {
                    let words = if after { "that was the last file" } else { "that was the first file" };
                    self.note = Some((words.to_owned(), Role::Dim));
                    return None;
                };
                files.select(next);
                return Some(match &hunks.other {
                    Some(other) => Effect::Compare(next, other.clone()),
                    None => Effect::Content(next),
                });
            }
            KeyCode::Char('n' | 'N') if !hunks.wanted.is_empty() => {
                let after = key.code == KeyCode::Char('n');
                if !hunks.find(after) {
                    self.note = Some(("not found".to_owned(), Role::Dim));
                }
                return None;
            }
            KeyCode::Char('p') => return self.plan(),
            KeyCode::Char('c') => {
                let file = hunks.number;
                return self.choose(file);
            }
            _ => {}
        }
        if hunks.key(key, &mut files.changes) {
            return None;
        }
        if matches!(key.code, KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h')) {
            let number = hunks.number;
            if hunks.other.is_some() {
                return Some(Effect::Content(number));
            }
            self.back_to_files();
        }
        None
    }

    fn back_to_files(&mut self) {
        self.hunks = None;
        self.screen = Screen::Files;
    }

    /// On from what was done.
    fn on(&mut self) -> Option<Effect> {
        self.hunks = None;
        match &self.files {
            Some(files) => Some(Effect::Open(files.changes.lane.name.clone())),
            None => {
                self.screen = Screen::Lanes;
                Some(Effect::Rows)
            }
        }
    }

    fn plan(&mut self) -> Option<Effect> {
        let files = self.files.as_ref()?;
        if files.changes.ticks.count() == 0 {
            let words = "nothing is ticked: space ticks one, a ticks all that may be ticked at once";
            self.note = Some((words.to_owned(), Role::Warn));
            return None;
        }
        Some(Effect::Plan(Box::new(files.changes.ticks.selection().clone())))
    }

    /// The lane that a key of the shown screen speaks of.
    fn meant(&self) -> Option<String> {
        match (self.screen, &self.files) {
            (Screen::Lanes, _) | (_, None) => self.lanes.current().map(|lane| lane.lane.name.clone()),
            (_, Some(files)) => Some(files.changes.lane.name.clone()),
        }
    }

    fn ask_export(&mut self, name: String) -> Option<Effect> {
        let lines = vec![
            (format!("write lane {} beside the original?", escape::name(&name)), Role::Head),
            ("the original and the lane stay as they are".to_owned(), Role::Dim),
        ];
        self.front = Some(Front::Ask { title: "export", lines, yes: Effect::Export(name) });
        None
    }

    fn ask_take_back(&mut self) -> Option<Effect> {
        let (id, paths) = self.kept.clone()?;
        let lines = vec![
            (format!("take the keep of {paths} paths back?"), Role::Head),
            ("what was edited in the original since stops it".to_owned(), Role::Dim),
        ];
        self.front = Some(Front::Ask { title: "take back", lines, yes: Effect::TakeBack(id) });
        None
    }

    fn ask_discard(&mut self) -> Option<Effect> {
        self.meant().map(Effect::WouldLose)
    }

    fn choose(&mut self, file: usize) -> Option<Effect> {
        let open = self.files.as_ref()?.changes.lane.name.clone();
        let others = self.lanes.all.iter().map(|lane| lane.lane.name.clone());
        let lanes: Vec<String> = others.filter(|name| *name != open).collect();
        if lanes.is_empty() {
            self.note = Some(("there is no other lane of this project".to_owned(), Role::Dim));
        } else {
            self.front = Some(Front::Choose { lanes, list: List::default(), file });
        }
        None
    }

    fn front_key(&mut self, key: &KeyEvent) -> Option<Effect> {
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
            Front::Choose { lanes, mut list, file } => match key.code {
                KeyCode::Enter => lanes.get(list.cursor).map(|name| Effect::Compare(file, name.clone())),
                KeyCode::Esc | KeyCode::Char('q') => None,
                _ => {
                    list.key(key, |_| true);
                    self.front = Some(Front::Choose { lanes, list, file });
                    None
                }
            },
        }
    }

    fn prompt_key(&mut self, key: &KeyEvent) {
        let Some(mut text) = self.prompt.take() else { return };
        match key.code {
            KeyCode::Enter => {
                if self.screen == Screen::Hunks {
                    if let Some(hunks) = self.hunks.as_mut().filter(|_| !text.is_empty()) {
                        hunks.wanted = text;
                        if !hunks.find(true) {
                            self.note = Some(("not found".to_owned(), Role::Dim));
                        }
                    }
                } else {
                    self.filter(&text);
                }
                return;
            }
            KeyCode::Esc => {
                self.filter("");
                return;
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                text.push(c);
            }
            _ => {}
        }
        self.filter(&text);
        self.prompt = Some(text);
    }

    fn filter(&mut self, text: &str) {
        match (self.screen, &mut self.files) {
            (Screen::Lanes, _) => self.lanes.filter = text.to_owned(),
            (Screen::Files, Some(files)) => {
                files.filter = text.to_owned();
                files.arrange();
            }
            _ => {}
        }
    }

    fn click(&mut self, x: u16, y: u16) -> Option<Effect> {
        if self.keys.contains((x, y).into()) {
            let code = self.places.iter().find(|(range, _)| range.contains(&x)).map(|(_, code)| *code)?;
            return self.key(&KeyEvent::from(code));
        }
        self.note = None;
        if let Some(front) = &self.front {
            // A question is answered by its key.
            if matches!(front, Front::Help(_) | Front::Say { .. }) {
                self.front = None;
            }
            return None;
        }
        match self.screen {
            Screen::Lanes => self.lanes.click(x, y),
            Screen::Files => self.files.as_mut()?.click(x, y),
            Screen::Hunks => {
                self.hunks.as_mut()?.click(x, y, &mut self.files.as_mut()?.changes);
                None
            }
            _ => None,
        }
    }

    fn wheel(&mut self, down: bool) -> Option<Effect> {
        match (&mut self.front, self.screen) {
            (Some(Front::Help(top)), _) => *top = if down { *top + 1 } else { top.saturating_sub(1) },
            (Some(_), _) => {}
            (None, Screen::Lanes) => self.lanes.wheel(down),
            (None, Screen::Files) => self.files.as_mut()?.wheel(down),
            (None, Screen::Hunks) => self.hunks.as_mut()?.wheel(down),
            (None, _) => self.page.wheel(down),
        }
        None
    }

    /// Takes what has happened; what it asks for next.
    pub(crate) fn fact(&mut self, fact: Fact) -> Option<Effect> {
        match fact {
            Fact::Rows(rows) => self.lanes.set(rows),
            Fact::Sums(name, lane) => self.lanes.fill(&name, lane.map(|lane| *lane)),
            Fact::Unreadable(name, why) => self.lanes.mar(&name, why),
            Fact::Opened(changes) => {
                match &mut self.files {
                    Some(files) if files.changes.lane.id == changes.lane.id => {
                        let lost = files.renew(*changes);
                        if lost > 0 {
                            let words = format!("{lost} ticked before have changed since: tick them anew");
                            self.note = Some((words, Role::Warn));
                        }
                    }
                    files => *files = Some(Files::new(*changes)),
                }
                self.back_to_files();
            }
            Fact::Content(number, diff) => {
                let files = self.files.as_mut()?;
                let counts = if diff.binary { None } else { Some(diff.counts()) };
                files.counts.insert(number, counts);
                self.hunks = Some(Hunks::new(number, files.file(number)?, *diff));
                self.screen = Screen::Hunks;
            }
            Fact::Counted(number, counts) => {
                self.files.as_mut()?.counts.insert(number, counts);
            }
            Fact::Compared(two) => {
                let files = self.files.as_ref()?;
                let file = files.file(two.file)?;
                self.hunks = Some(Hunks::two(file, &files.changes.lane.name, *two));
                self.screen = Screen::Hunks;
            }
            Fact::Planned(view, said) => {
                self.plan_writes = !view.steps.is_empty();
                let title = format!("keep from {}", escape::name(&view.lane.name));
                self.page = Page::new(title, plan::lines(&view, &said));
                self.screen = Screen::Plan;
            }
            Fact::Kept(view, said) => {
                if let Some(files) = &mut self.files {
                    files.changes.ticks.clear();
                }
                self.kept = view.id.clone().map(|id| (id, view.steps.len()));
                let title = format!("kept from {}", escape::name(&view.lane.name));
                self.page = Page::new(title, plan::done(&view, &said));
                self.screen = Screen::Done;
            }
            Fact::TakenBack(view) => {
                self.kept = None;
                self.page = Page::new("taken back".to_owned(), plan::taken_back(&view));
                self.screen = Screen::Back;
            }
            Fact::Exported(answer) => {
                let mut lines = vec![(
                    format!("lane {} is in {}", answer.lane.name, report::path(&answer.target)),
                    Role::Good,
                )];
                lines.extend(answer.further.iter().map(|path| (report::path(path), Role::Good)));
                lines.push((format!("{} files, {}", answer.files, report::bytes(answer.bytes)), Role::Dim));
                for (path, why) in &answer.left_out {
                    let words =
                        format!("left out: {} ({})", escape::name(path.as_bytes()), escape::name(why));
                    lines.push((words, Role::Warn));
                }
                self.front = Some(Front::Say { title: "exported", lines });
            }
            Fact::WouldLose(name, lost) => {
                let shown = escape::name(&name);
                let mut lines = vec![(format!("drop lane {shown}?"), Role::Head)];
                lines.extend(lost.into_iter().map(|line| (line, Role::Warn)));
                lines.push((format!("`lane recover {shown}` brings it back for a while"), Role::Dim));
                self.front = Some(Front::Ask { title: "discard", lines, yes: Effect::Discard(name) });
            }
            Fact::Discarded(answer) => {
                let name = escape::name(&answer.lane.name);
                let words = format!("lane {name} discarded; `lane recover {name}` brings it back");
                self.note = Some((words, Role::Good));
                (self.files, self.hunks) = (None, None);
                self.screen = Screen::Lanes;
                return Some(Effect::Rows);
            }
            Fact::Failed(words) => {
                let mut role = Role::Bad;
                let mut lines = Vec::new();
                for word in words {
                    lines.push((word, role));
                    role = Role::Dim;
                }
                self.front = Some(Front::Say { title: "not done", lines });
            }
            Fact::NotOpened(words) => {
                (self.files, self.hunks) = (None, None);
                self.screen = Screen::Lanes;
                self.fact(Fact::Failed(words));
                return (!self.lanes.read).then_some(Effect::Rows);
            }
            Fact::Nothing => {}
        }
        None
    }

    /// Work for when nobody presses a key.
    pub(crate) fn want(&self) -> Option<Want> {
        match (self.screen, &self.files, &self.hunks) {
            (Screen::Hunks, _, Some(hunks)) if hunks.wants_colours() => Some(Want::Colours),
            (Screen::Files, Some(files), _) => files.want().or_else(|| self.lanes.want()),
            _ => self.lanes.want(),
        }
    }

    /// Colours a few more of the shown lines.
    pub(crate) fn colour(&mut self) {
        if let Some(hunks) = &mut self.hunks {
            hunks.colour(&mut self.grammars, COLOURS_AT_ONCE);
        }
    }

    fn hints(&self) -> &'static [Hint] {
        match self.screen {
            Screen::Lanes => &lanes::HINTS,
            Screen::Files => &files::HINTS,
            Screen::Hunks if self.hunks.as_ref().is_some_and(|hunks| hunks.other.is_some()) => {
                &hunks::HINTS_TWO
            }
            Screen::Hunks => &hunks::HINTS,
            Screen::Plan if self.plan_writes => &plan::HINTS,
            Screen::Plan => &plan::HINTS_NOTHING,
            Screen::Done if self.kept.is_none() => &plan::HINTS_BACK,
            Screen::Done => &plan::HINTS_DONE,
            Screen::Back => &plan::HINTS_BACK,
        }
    }

    fn title(&self) -> (String, String) {
        let ticked = |files: &Files| match files.changes.ticks.count() {
            0 => "nothing ticked".to_owned(),
            n => format!("{n} of {} ticked", files.changes.files.len()),
        };
        match (self.screen, &self.files, &self.hunks) {
            (Screen::Files, Some(files), _) => {
                let lane = &files.changes.lane;
                (format!("{} → {}", escape::name(&lane.name), report::path(&lane.origin)), ticked(files))
            }
            (Screen::Hunks, _, Some(hunks)) => (hunks.title.clone(), hunks.place()),
            (Screen::Lanes | Screen::Files | Screen::Hunks, ..) => {
                let origin = self.lanes.all.first().map(|lane| report::path(&lane.lane.origin));
                let sum =
                    if self.lanes.read { format!("{} lanes", self.lanes.all.len()) } else { String::new() };
                (origin.map_or_else(|| "lanes".to_owned(), |origin| format!("lanes of {origin}")), sum)
            }
            (Screen::Plan | Screen::Done | Screen::Back, ..) => (self.page.title.clone(), String::new()),
        }
    }

    /// Draws all of it.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect) {
        let theme = self.theme;
        frame::clear(buf, area, Style::new());
        if area.width < frame::SMALLEST.0 || area.height < frame::SMALLEST.1 {
            put(buf, area.x, area.y, area.width, "too small", Style::new());
            (self.keys, self.places) = (Rect::default(), Vec::new());
            return;
        }
        let parts = frame::divide(area);
        let (left, right) = self.title();
        frame::title(buf, parts.title, theme, &left, &right);
        match (self.screen, &mut self.files, &mut self.hunks) {
            (Screen::Files, Some(files), _) => files.draw(buf, parts.body, theme),
            (Screen::Hunks, Some(files), Some(hunks)) => {
                hunks.draw(buf, parts.body, theme, &files.changes.ticks)
            }
            (Screen::Lanes | Screen::Files | Screen::Hunks, ..) => {
                self.lanes.draw(buf, parts.body, theme, self.now);
            }
            (Screen::Plan | Screen::Done | Screen::Back, ..) => self.page.draw(buf, parts.body, theme),
        }
        self.draw_note(buf, parts.note);
        self.keys = parts.keys;
        self.places = frame::keys(buf, parts.keys, theme, self.hints());
        self.draw_front(buf, area);
    }

    fn draw_note(&self, buf: &mut Buffer, area: Rect) {
        let filter = match (self.screen, &self.files) {
            (Screen::Lanes, _) => self.lanes.filter.as_str(),
            (Screen::Files, Some(files)) => files.filter.as_str(),
            _ => "",
        };
        let (text, role) = if let Some(busy) = self.busy {
            (format!("{busy}…"), Role::Dim)
        } else if let Some(typed) = &self.prompt {
            (format!("/{}▏", escape::name(typed)), Role::Key)
        } else if let Some((text, role)) = &self.note {
            (text.clone(), *role)
        } else if !filter.is_empty() {
            (format!("only what holds {}; esc shows all", escape::name(filter)), Role::Key)
        } else {
            return;
        };
        let room = usize::from(area.width).saturating_sub(2);
        put(buf, area.x + 1, area.y, area.width - 1, &cut(&text, room), self.theme.role(role));
    }

    fn draw_front(&mut self, buf: &mut Buffer, area: Rect) {
        let theme = self.theme;
        let room = usize::from(area.width).saturating_sub(6);
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
                let all = super::help::lines(self.screen, room);
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
                lines.push((String::new(), Style::new()));
                lines.push(("y yes   n no".to_owned(), theme.role(Role::Key)));
                frame::boxed(buf, area, theme, title, &lines);
            }
            Some(Front::Choose { lanes, list, .. }) => {
                let height = usize::from(area.height).saturating_sub(4).max(1);
                let top = (list.cursor + 1).saturating_sub(height);
                let line = |(at, name): (usize, &String)| {
                    let style = if at == list.cursor { theme.cursor() } else { Style::new() };
                    (escape::name(name), style)
                };
                let lines: Vec<_> = lanes.iter().enumerate().skip(top).take(height).map(line).collect();
                frame::boxed(buf, area, theme, "compare with", &lines);
            }
        }
    }
}
