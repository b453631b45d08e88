//! What a fact changes: each thing that happened leads to a screen, a box or a line of talk.

use super::front::Front;
use super::{App, Screen};
use crate::escape;
use crate::render::report;
use crate::tui::fact::{Effect, Fact};
use crate::tui::files::Files;
use crate::tui::hunks::Hunks;
use crate::tui::list::List;
use crate::tui::plan::{self, Page, count};
use crate::tui::theme::Role;
use crate::tui::two::Two;

/// Steps of an undoing that its question names; more are counted.
const NAMED: usize = 8;

impl App {
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
                self.take_back();
                self.from_lanes = false;
                self.back_to_files();
            }
            Fact::Content(number, diff, digest) => {
                let files = self.files.as_mut()?;
                if files.changes.ticks.looked(number, digest) {
                    let words = "it has changed since its lines were ticked: tick them anew";
                    self.note = Some((words.to_owned(), Role::Warn));
                }
                let counts = if diff.binary { None } else { Some(diff.counts()) };
                files.counts.insert(number, counts);
                self.hunks = Some(Hunks::new(number, files.file(number)?, *diff));
                self.screen = Screen::Hunks;
            }
            Fact::Counted(number, counts, digest) => {
                let files = self.files.as_mut()?;
                files.counts.insert(number, counts);
                if let Some(digest) = digest {
                    files.changes.ticks.saw(number, digest);
                }
            }
            Fact::Compared(two) => {
                self.hunks = Some(Hunks::two(*two));
                self.screen = Screen::Hunks;
            }
            Fact::Met(meeting) => {
                self.two = Some(Two::new(*meeting));
                self.screen = Screen::Two;
            }
            Fact::Planned(view, said) => {
                self.plan_writes = !view.steps.is_empty();
                self.plan_clashes = !view.conflicts.is_empty();
                let title = format!("keep from {}", plan::lanes(&view));
                self.page = Page::new(title, plan::lines(&view, &said));
                self.screen = Screen::Plan;
            }
            Fact::Kept(view, said) => {
                if let Some(files) = &mut self.files {
                    files.changes.ticks.clear();
                }
                self.aside.clear();
                self.kept = view.id.clone();
                let title = format!("kept from {}", plan::lanes(&view));
                self.page = Page::new(title, plan::done(&view, &said));
                self.screen = Screen::Done;
            }
            Fact::Keeps(keeps) if keeps.is_empty() => {
                self.note = Some(("nothing was kept that could be taken back".to_owned(), Role::Dim));
            }
            Fact::Keeps(keeps) => self.front = Some(Front::Keeps { keeps, list: List::default() }),
            Fact::BackPlanned(view) => {
                let name = |path: &tree::TreePath| escape::name(path.as_bytes());
                let more =
                    |all: usize| (all > NAMED).then(|| (format!("… and {} more", all - NAMED), Role::Dim));
                if !view.edited.is_empty() {
                    let words =
                        "it is not taken back: these were edited since, and nothing is written over edits";
                    let mut lines = vec![(words.to_owned(), Role::Bad)];
                    lines.extend(view.edited.iter().take(NAMED).map(|(_, path)| (name(path), Role::Modify)));
                    lines.extend(more(view.edited.len()));
                    self.front = Some(Front::Say { title: "take back", lines });
                    return None;
                }
                let paths = count(view.steps.len(), "path");
                let lanes = plan::of_lanes(&view.keep);
                let mut lines = vec![(format!("take the keep of {paths} of {lanes} back?"), Role::Head)];
                let step = |step: &engine::ops::undo_keep::UndoKeepStep| {
                    (format!("{:<9} {}", step.what, name(&step.path)), Role::Dim)
                };
                lines.extend(view.steps.iter().take(NAMED).map(step));
                lines.extend(more(view.steps.len()));
                self.front =
                    Some(Front::Ask { title: "take back", lines, yes: Effect::TakeBack(view.keep.id) });
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
                self.aside.retain(|ticks| ticks.lane_id != answer.lane.id);
                let name = escape::name(&answer.lane.name);
                let words = format!("lane {name} discarded; `lane recover {name}` brings it back");
                self.note = Some((words, Role::Good));
                (self.files, self.hunks, self.two) = (None, None, None);
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
}
