//! What a key, a click or the wheel means on each screen.
//!
//! Invariant: nothing is written into the original but by a key that says yes to a plan or a question in front of it.

use engine::ops::keep::Conflicts;
use engine::selection::Selection;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

use super::front::{Choosing, Front};
use super::{App, Screen};
use crate::escape;
use crate::tui::fact::Effect;
use crate::tui::hunks::Of;
use crate::tui::list::List;
use crate::tui::theme::Role;

impl App {
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
            KeyCode::Char('/') if self.can_filter() => {
                self.prompt = Some(String::new());
                return None;
            }
            _ => {}
        }
        match self.screen {
            Screen::Lanes => self.lanes_key(key),
            Screen::Files => self.files_key(key),
            Screen::Hunks => self.hunks_key(key),
            Screen::Two => self.two_key(key),
            Screen::Plan => self.plan_key(key),
            Screen::Done | Screen::Back => match key.code {
                KeyCode::Enter | KeyCode::Esc | KeyCode::Left => self.on(),
                KeyCode::Char('u') if self.screen == Screen::Done => self.kept.clone().map(Effect::PlanBack),
                KeyCode::Char('D') if self.screen == Screen::Done => self.ask_discard(),
                _ => {
                    self.page.key(key);
                    None
                }
            },
        }
    }

    fn can_filter(&self) -> bool {
        matches!(self.screen, Screen::Lanes | Screen::Files | Screen::Hunks | Screen::Two)
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
            KeyCode::Char('u') => Some(Effect::Keeps),
            KeyCode::Char('p') => self.plan(Conflicts::Stop),
            KeyCode::Char('n') => {
                self.aside.clear();
                if let Some(files) = &mut self.files {
                    files.changes.ticks.clear();
                }
                None
            }
            KeyCode::Char('c') => name.and_then(|name| self.choose(&name, Choosing::Lanes)),
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
            KeyCode::Left | KeyCode::Char('h') if files.leave_dir() => None,
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
            KeyCode::Char('p') => self.plan(Conflicts::Stop),
            KeyCode::Char('x') => self.ask_export(name),
            KeyCode::Char('D') => self.ask_discard(),
            KeyCode::Char('c') => {
                let file = files.current()?;
                self.choose(&name, Choosing::File(file))
            }
            _ => files.key(key),
        }
    }

    fn hunks_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let hunks = self.hunks.as_mut()?;
        match key.code {
            KeyCode::Tab | KeyCode::BackTab => return self.beside(key.code == KeyCode::Tab),
            KeyCode::Char('n' | 'N') if !hunks.wanted.is_empty() => {
                let after = key.code == KeyCode::Char('n');
                if !hunks.find(after) {
                    self.note = Some(("not found".to_owned(), Role::Dim));
                }
                return None;
            }
            KeyCode::Char('p') if hunks.of != Of::Met => return self.plan(Conflicts::Stop),
            KeyCode::Char('c') if hunks.of != Of::Met => {
                let (file, lane) = (hunks.number, self.files.as_ref()?.changes.lane.name.clone());
                return self.choose(&lane, Choosing::File(file));
            }
            _ => {}
        }
        if hunks.key(key, self.files.as_mut().map(|files| &mut files.changes)) {
            return None;
        }
        if matches!(key.code, KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h')) {
            match hunks.of {
                Of::Other(_) => return Some(Effect::Content(hunks.number)),
                Of::Met => (self.hunks, self.screen) = (None, Screen::Two),
                Of::Lane => self.back_to_files(),
            }
        }
        None
    }

    /// The file after the shown one, or before it.
    fn beside(&mut self, after: bool) -> Option<Effect> {
        let hunks = self.hunks.as_ref()?;
        let (of, number) = (hunks.of.clone(), hunks.number);
        let next = match of {
            Of::Met => self.two.as_ref()?.beside(number, after),
            Of::Lane | Of::Other(_) => self.files.as_ref()?.beside(number, after),
        };
        let Some(next) = next else {
            let words = if after { "that was the last file" } else { "that was the first file" };
            self.note = Some((words.to_owned(), Role::Dim));
            return None;
        };
        if of == Of::Met {
            let two = self.two.as_mut()?;
            two.select(next);
            return two.across(next);
        }
        let files = self.files.as_mut()?;
        files.select(next);
        match of {
            Of::Other(other) => files.across(next, other),
            _ => Some(Effect::Content(next)),
        }
    }

    fn two_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let two = self.two.as_mut()?;
        match key.code {
            KeyCode::Esc if !two.filter.is_empty() => {
                two.filter.clear();
                two.arrange();
                None
            }
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h') => {
                self.screen = Screen::Lanes;
                None
            }
            _ => two.key(key),
        }
    }

    fn plan_key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let how = |c| match c {
            's' => Some(Conflicts::Stop),
            'm' => Some(Conflicts::Markers),
            'o' => Some(Conflicts::Ours),
            't' => Some(Conflicts::Theirs),
            _ => None,
        };
        match key.code {
            KeyCode::Char('y') if self.plan_writes => Some(Effect::Keep),
            KeyCode::Char(c) if self.plan_clashes && how(c).is_some() => self.plan(how(c)?),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => {
                match self.planned_in {
                    Screen::Lanes => self.screen = Screen::Lanes,
                    _ => self.back_to_files(),
                }
                None
            }
            _ => {
                self.page.key(key);
                None
            }
        }
    }

    pub(super) fn back_to_files(&mut self) {
        self.hunks = None;
        self.screen = Screen::Files;
    }

    /// On from what was done.
    fn on(&mut self) -> Option<Effect> {
        self.hunks = None;
        match self.files.as_ref().filter(|_| !self.from_lanes) {
            Some(files) => Some(Effect::Open(files.changes.lane.name.clone())),
            None => {
                self.screen = Screen::Lanes;
                Some(Effect::Rows)
            }
        }
    }

    fn plan(&mut self, how: Conflicts) -> Option<Effect> {
        let open = self.files.as_ref().map(|files| files.changes.ticks.selection());
        let mut all = open.filter(|ticks| ticks.count() > 0).into_iter().chain(&self.aside);
        let first = all.next().cloned();
        let further: Vec<Selection> = all.cloned().collect();
        let Some(first) = first else {
            let words = "nothing is ticked: space ticks one, a ticks all that may be ticked at once";
            self.note = Some((words.to_owned(), Role::Warn));
            return None;
        };
        if self.screen != Screen::Plan {
            self.planned_in = self.screen;
        }
        Some(Effect::Plan(Box::new(first), further, how))
    }

    /// Ticks that the opened lane had when it was left.
    pub(super) fn take_back(&mut self) {
        let Some(files) = &mut self.files else { return };
        let Some(at) = self.aside.iter().position(|ticks| ticks.lane_id == files.changes.lane.id) else {
            return;
        };
        let lost = files.changes.ticks.take_back(self.aside.remove(at));
        if lost > 0 {
            let words = format!("{lost} ticked before are no changes any more");
            self.note = Some((words, Role::Warn));
        }
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

    fn ask_discard(&mut self) -> Option<Effect> {
        self.meant().map(Effect::WouldLose)
    }

    /// Asks for the lane to compare `open` with.
    fn choose(&mut self, open: &str, what: Choosing) -> Option<Effect> {
        let others = self.lanes.all.iter().map(|lane| lane.lane.name.clone());
        let lanes: Vec<String> = others.filter(|name| *name != open).collect();
        if lanes.is_empty() {
            self.note = Some(("there is no other lane of this project".to_owned(), Role::Dim));
        } else {
            let open = open.to_owned();
            self.front = Some(Front::Choose { open, lanes, list: List::default(), what });
        }
        None
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
        match (self.screen, &mut self.files, &mut self.two) {
            (Screen::Lanes, ..) => self.lanes.filter = text.to_owned(),
            (Screen::Files, Some(files), _) => {
                files.filter = text.to_owned();
                files.arrange();
            }
            (Screen::Two, _, Some(two)) => {
                two.filter = text.to_owned();
                two.arrange();
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
            Screen::Two => self.two.as_mut()?.click(x, y),
            Screen::Hunks => {
                let changes = self.files.as_mut().map(|files| &mut files.changes);
                self.hunks.as_mut()?.click(x, y, changes);
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
            (None, Screen::Two) => self.two.as_mut()?.wheel(down),
            (None, Screen::Hunks) => self.hunks.as_mut()?.wheel(down),
            (None, _) => self.page.wheel(down),
        }
        None
    }
}
