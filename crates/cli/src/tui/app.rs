//! [`App`]: the state of the view. Keys, clicks and facts in; a frame, and at most one wish, out. It touches neither
//! the terminal nor a lane.
//!
//! Invariant: what is asked for is done by whoever holds the app, and told to it as a fact. Nothing is written into
//! the original but by a plan that was shown and confirmed.

mod front;
mod input;
mod told;

use std::collections::HashMap;
use std::ops::Range;

use engine::selection::Selection;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::fact::Want;
use super::files::{self, Files};
use super::frame::{self, Hint};
use super::highlight::Grammars;
use super::hunks::{self, Hunks, Of};
use super::lanes::{self, Lanes};
use super::paint::{cut, put};
use super::plan::{self, Page};
use super::theme::{Role, Theme};
use super::two::{self, Two};
use crate::escape;
use crate::render::report;
use front::Front;

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
    /// What two lanes changed.
    Two,
    /// What a keep would do.
    Plan,
    /// What it did.
    Done,
    /// It was taken back.
    Back,
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
    /// Two lanes that are compared.
    pub(crate) two: Option<Two>,
    /// Ticks in lanes that are not open.
    aside: Vec<Selection>,
    /// A plan, or what came of it.
    page: Page,
    /// The plan would write something.
    plan_writes: bool,
    /// The plan meets conflicts, which a key settles.
    plan_clashes: bool,
    /// The keep that was just made.
    kept: Option<String>,
    /// From where the plan was asked for.
    planned_in: Screen,
    /// A keep is taken back from the list of lanes, and not from the open one.
    from_lanes: bool,
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
            two: None,
            aside: Vec::new(),
            page: Page::default(),
            plan_writes: false,
            plan_clashes: false,
            kept: None,
            planned_in: Screen::Files,
            from_lanes: false,
            front: None,
            prompt: None,
            note: None,
            busy: None,
            places: Vec::new(),
            keys: Rect::default(),
            grammars: Grammars::default(),
        }
    }

    /// What is ticked in the open lane, which is left for the one with this name.
    pub(crate) fn leaving(&self, name: &str) -> Option<&Selection> {
        let changes = &self.files.as_ref()?.changes;
        (changes.lane.name != name && changes.ticks.count() > 0).then(|| changes.ticks.selection())
    }

    /// Ticks of a lane that is left, bound to what they are on.
    pub(crate) fn set_aside(&mut self, ticks: Selection) {
        self.aside.retain(|known| known.lane_id != ticks.lane_id);
        self.aside.push(ticks);
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
            Screen::Hunks => match self.hunks.as_ref().map(|hunks| &hunks.of) {
                Some(Of::Other(_)) => &hunks::HINTS_OTHER,
                Some(Of::Met) => &hunks::HINTS_MET,
                _ => &hunks::HINTS,
            },
            Screen::Two => &two::HINTS,
            Screen::Plan => match (self.plan_writes, self.plan_clashes) {
                (true, true) => &plan::HINTS_CLASH,
                (false, true) => &plan::HINTS_CLASH_NOTHING,
                (true, false) => &plan::HINTS,
                (false, false) => &plan::HINTS_NOTHING,
            },
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
        let further = |words: String| match self.aside.iter().map(Selection::count).sum::<usize>() {
            0 => words,
            n => format!("{words}, {n} in other lanes"),
        };
        match (self.screen, &self.files, &self.hunks) {
            (Screen::Files, Some(files), _) => {
                let lane = &files.changes.lane;
                (
                    format!("{} → {}", escape::name(&lane.name), report::path(&lane.origin)),
                    further(ticked(files)),
                )
            }
            (Screen::Hunks, _, Some(hunks)) => (hunks.title.clone(), hunks.place()),
            (Screen::Two, ..) if self.two.is_some() => self.two.as_ref().map(Two::title).unwrap_or_default(),
            (Screen::Lanes | Screen::Files | Screen::Hunks | Screen::Two, ..) => {
                let origin = self.lanes.all.first().map(|lane| report::path(&lane.lane.origin));
                let sum =
                    if self.lanes.read { plan::count(self.lanes.all.len(), "lane") } else { String::new() };
                (origin.map_or_else(|| "lanes".to_owned(), |origin| format!("lanes of {origin}")), sum)
            }
            (Screen::Plan | Screen::Done | Screen::Back, ..) => (self.page.title.clone(), String::new()),
        }
    }

    /// Draws all of it.
    pub(crate) fn draw(&mut self, buf: &mut Buffer, area: Rect) {
        let theme = self.theme;
        self.lanes.ticked = self.ticked();
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
            (Screen::Hunks, files, Some(hunks)) => {
                hunks.draw(buf, parts.body, theme, files.as_ref().map(|files| &files.changes.ticks));
            }
            (Screen::Two, ..) if self.two.is_some() => {
                if let Some(two) = &mut self.two {
                    two.draw(buf, parts.body, theme);
                }
            }
            (Screen::Lanes | Screen::Files | Screen::Hunks | Screen::Two, ..) => {
                self.lanes.draw(buf, parts.body, theme, self.now);
            }
            (Screen::Plan | Screen::Done | Screen::Back, ..) => self.page.draw(buf, parts.body, theme),
        }
        self.draw_note(buf, parts.note);
        self.keys = parts.keys;
        self.places = frame::keys(buf, parts.keys, theme, self.hints());
        self.draw_front(buf, area);
    }

    /// How much is ticked in each lane, by its id.
    fn ticked(&self) -> HashMap<String, usize> {
        let open = self.files.as_ref().map(|files| files.changes.ticks.selection());
        let all = self.aside.iter().chain(open);
        all.map(|ticks| (ticks.lane_id.clone(), ticks.count())).filter(|(_, count)| *count > 0).collect()
    }

    fn draw_note(&self, buf: &mut Buffer, area: Rect) {
        let filter = match (self.screen, &self.files, &self.two) {
            (Screen::Lanes, ..) => self.lanes.filter.as_str(),
            (Screen::Files, Some(files), _) => files.filter.as_str(),
            (Screen::Two, _, Some(two)) => two.filter.as_str(),
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
}
