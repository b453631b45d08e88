//! The view without a terminal and without lanes: keys and facts in, frames and wishes out.

mod made;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::app::{App, Screen};
use super::fact::{Effect, Fact, Want};
use super::theme::{Depth, Ground, Theme};
use super::ticks::Ticked;
use made::{added, changes, file, hunks, lane, lines};

const THEME: Theme = Theme { depth: Depth::Full, ground: Ground::Dark };

/// A view on a terminal that is not there.
struct Stage {
    app: App,
    terminal: Terminal<TestBackend>,
}

impl Stage {
    fn new(columns: u16, rows: u16) -> Stage {
        let terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
        Stage { app: App::new(THEME), terminal }
    }

    /// A lane with these files is open.
    fn open(columns: u16, rows: u16, files: Vec<engine::ops::diff::FileView>) -> Stage {
        let mut stage = Stage::new(columns, rows);
        stage.app.fact(Fact::Rows(vec![lane("fix"), lane("other")]));
        stage.app.fact(Fact::Opened(Box::new(changes("fix", files))));
        stage.draw();
        stage
    }

    fn draw(&mut self) -> String {
        let app = &mut self.app;
        self.terminal
            .draw(|frame| {
                let area = frame.area();
                app.draw(frame.buffer_mut(), area);
            })
            .expect("drawn");
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let rows = buffer.content().chunks(width);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n")
            .collect()
    }

    fn press(&mut self, code: KeyCode) -> Option<Effect> {
        let effect = self.app.input(&Event::Key(KeyEvent::from(code)));
        self.draw();
        effect
    }

    fn typed(&mut self, text: &str) -> Option<Effect> {
        text.chars().fold(None, |_, c| self.press(KeyCode::Char(c)))
    }

    fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> Option<Effect> {
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        let effect = self.app.input(&Event::Mouse(event));
        self.draw();
        effect
    }

    fn click(&mut self, column: u16, row: u16) -> Option<Effect> {
        self.mouse(MouseEventKind::Down(MouseButton::Left), column, row)
    }

    fn ticked(&self) -> Vec<Ticked> {
        let changes = &self.app.files.as_ref().expect("an open lane").changes;
        (0..changes.files.len()).map(|at| changes.ticks.file(at)).collect()
    }
}

#[test]
fn lanes_are_shown_before_their_sums_and_filled_in_by_those_that_are_seen() {
    let mut stage = Stage::new(100, 12);
    stage.app.fact(Fact::Rows((0..50).map(|n| lane(&format!("lane-{n:02}"))).collect()));
    let text = stage.draw();
    assert!(text.contains("lane-00") && text.contains("50 lanes"), "{text}");
    assert_eq!(stage.app.want(), Some(Want::Sums("lane-00".into())));
    stage.press(KeyCode::End);
    let Some(Want::Sums(name)) = stage.app.want() else { panic!("nothing is wanted") };
    assert!(name.as_str() >= "lane-40", "{name}");
    let mut filled = lane(&name);
    filled.counts = Some(engine::view::Counts { added: 7, ..Default::default() });
    stage.app.fact(Fact::Sums(name.clone(), Some(Box::new(filled))));
    let text = stage.draw();
    assert!(text.contains("7 added"), "{text}");
    stage.app.fact(Fact::Sums(name.clone(), None));
    assert!(!stage.draw().contains(&name));
}

#[test]
fn all_never_ticks_what_runs_by_itself() {
    let mut guarded = file(".envrc");
    guarded.guarded = Some("is run by the shell".to_owned());
    let mut stage = Stage::open(100, 20, vec![guarded, file("a"), file("b")]);
    let text = stage.draw();
    assert!(text.contains("runs by itself (1)") && text.contains("is run by the shell"), "{text}");
    stage.press(KeyCode::Char('a'));
    assert_eq!(stage.ticked(), [Ticked::None, Ticked::All, Ticked::All]);
    assert!(stage.draw().contains("1 that run by themselves are not ticked"));
    let Some(Effect::Plan(selection, ..)) = stage.press(KeyCode::Char('p')) else { panic!("no plan") };
    assert_eq!(selection.files.iter().filter(|file| file.take.is_some()).count(), 2);
    assert!(selection.files.iter().all(|file| !file.named));
    // By itself it is ticked, and named by that.
    stage.press(KeyCode::End);
    stage.press(KeyCode::Char(' '));
    assert_eq!(stage.ticked()[0], Ticked::All);
    let Some(Effect::Plan(selection, ..)) = stage.press(KeyCode::Char('p')) else { panic!("no plan") };
    assert!(selection.files[0].named);
}

#[test]
fn a_filter_narrows_what_all_ticks() {
    let mut stage = Stage::open(80, 20, vec![file("doc/a"), file("src/b"), file("src/c")]);
    stage.typed("/src");
    let text = stage.draw();
    assert!(text.contains("▾ src/") && text.contains("M b") && !text.contains("doc/a"), "{text}");
    stage.press(KeyCode::Enter);
    stage.press(KeyCode::Char('a'));
    assert_eq!(stage.ticked(), [Ticked::None, Ticked::All, Ticked::All]);
    stage.press(KeyCode::Esc);
    assert!(stage.draw().contains("doc/a"));
    assert_eq!(stage.app.screen, Screen::Files);
}

#[test]
fn lines_and_hunks_are_ticked_under_the_cursor_and_come_out_as_the_selection() {
    let mut stage = Stage::open(80, 20, vec![file("a")]);
    assert_eq!(stage.press(KeyCode::Enter), Some(Effect::Content(0)));
    stage.app.fact(made::content(0, hunks(&[&[" a", "-b", "+B", "+C"], &["-x", "+y"]])));
    stage.draw();
    // The head of the first hunk, its context, the removed line.
    stage.press(KeyCode::Down);
    stage.press(KeyCode::Char(' '));
    assert_eq!(stage.ticked(), [Ticked::None], "a line that did not change has no tick");
    stage.press(KeyCode::Down);
    stage.press(KeyCode::Char(' '));
    stage.press(KeyCode::Down);
    stage.press(KeyCode::Char(' '));
    let text = stage.draw();
    let boxes: Vec<&str> =
        text.lines().filter_map(|line| line.get(..3)).filter(|word| word.starts_with('[')).collect();
    assert_eq!(boxes, ["[~]", "[x]", "[ ]", "[x]", "[ ]", "[ ]", "[ ]"], "{text}");
    let Some(Effect::Plan(selection, ..)) = stage.press(KeyCode::Char('p')) else { panic!("no plan") };
    use engine::selection::{Lines, Take};
    let Some(Take::Part(part)) = &selection.files[0].take else { panic!("{selection:?}") };
    let taken: Vec<(&str, &Lines)> = part.hunks.iter().map(|(id, lines)| (id.as_str(), lines)).collect();
    assert_eq!(taken, [("hunk0", &Lines::Some([1, 3].into()))]);
    // The whole of both hunks is the whole file.
    stage.press(KeyCode::Home);
    stage.press(KeyCode::Enter);
    stage.press(KeyCode::Char(']'));
    stage.press(KeyCode::Char(' '));
    assert_eq!(stage.ticked(), [Ticked::All]);
}

#[test]
fn nothing_is_kept_without_the_plan_and_its_yes() {
    let mut stage = Stage::open(80, 20, vec![file("a")]);
    assert_eq!(stage.press(KeyCode::Char('p')), None);
    assert!(stage.draw().contains("nothing is ticked"));
    stage.press(KeyCode::Char(' '));
    assert!(matches!(stage.press(KeyCode::Char('p')), Some(Effect::Plan(..))));
    stage.app.fact(Fact::Planned(Box::new(made::plan(&["a"])), vec!["a warning".into()]));
    let text = stage.draw();
    assert!(text.contains("modify  a") && text.contains("a warning"), "{text}");
    for code in [KeyCode::Enter, KeyCode::Char(' '), KeyCode::Char('k'), KeyCode::Char('Y'), KeyCode::Tab] {
        assert_eq!(stage.press(code), None, "{code:?}");
    }
    assert_eq!(stage.press(KeyCode::Char('y')), Some(Effect::Keep));
    stage.app.fact(Fact::Planned(Box::new(made::plan(&[])), Vec::new()));
    stage.draw();
    assert_eq!(stage.press(KeyCode::Char('y')), None, "a plan without a step is not carried out");
    assert_eq!(stage.press(KeyCode::Esc), None);
    assert_eq!((stage.app.screen, stage.ticked()), (Screen::Files, vec![Ticked::All]));
}

#[test]
fn discard_and_export_ask_first() {
    let mut stage = Stage::open(80, 20, vec![file("a")]);
    assert_eq!(stage.press(KeyCode::Char('D')), Some(Effect::WouldLose("fix".into())));
    let lost = || Fact::WouldLose("fix".into(), vec!["2 changes exist nowhere else".into()]);
    stage.app.fact(lost());
    let text = stage.draw();
    assert!(text.contains("drop lane fix?") && text.contains("2 changes exist nowhere else"), "{text}");
    assert_eq!(stage.press(KeyCode::Enter), None);
    assert_eq!(stage.press(KeyCode::Char('n')), None);
    stage.app.fact(lost());
    assert_eq!(stage.press(KeyCode::Char('y')), Some(Effect::Discard("fix".into())));
    stage.press(KeyCode::Char('x'));
    assert_eq!(stage.press(KeyCode::Char('y')), Some(Effect::Export("fix".into())));
}

#[test]
fn a_keep_is_taken_back_by_its_id_and_after_a_question() {
    let mut stage = Stage::open(80, 20, vec![file("a")]);
    let mut kept = made::plan(&["a"]);
    kept.id = Some("k1".to_owned());
    stage.app.fact(Fact::Kept(Box::new(kept), Vec::new()));
    let text = stage.draw();
    assert!(text.contains("`lane undo --keep k1`"), "{text}");
    assert_eq!(stage.press(KeyCode::Char('u')), Some(Effect::PlanBack("k1".into())));
    stage.app.fact(Fact::BackPlanned(Box::new(made::undo("k1", &["a"], &[]))));
    let text = stage.draw();
    assert!(
        text.contains("take the keep of 1 path of lane fix back?") && text.contains("put-back  a"),
        "{text}"
    );
    assert_eq!(stage.press(KeyCode::Char('y')), Some(Effect::TakeBack("k1".into())));
    assert_eq!(stage.press(KeyCode::Enter), Some(Effect::Open("fix".into())));
}

#[test]
fn any_keep_of_the_list_is_taken_back_and_not_where_it_was_edited_since() {
    let mut stage = Stage::new(90, 20);
    stage.app.fact(Fact::Rows(vec![lane("fix")]));
    assert_eq!(stage.press(KeyCode::Char('u')), Some(Effect::Keeps));
    let mut undone = made::kept("k3");
    undone.is_undone = true;
    stage.app.fact(Fact::Keeps(vec![undone, made::kept("k2"), made::kept("k1")]));
    let text = stage.draw();
    assert!(text.contains("> k3") && text.contains("taken back already"), "{text}");
    assert_eq!(stage.press(KeyCode::Enter), None, "that one was taken back");
    assert!(stage.draw().contains("that keep was taken back already"));
    stage.press(KeyCode::Down);
    stage.press(KeyCode::Down);
    assert_eq!(stage.press(KeyCode::Enter), Some(Effect::PlanBack("k1".into())));
    stage.app.fact(Fact::BackPlanned(Box::new(made::undo("k1", &["a"], &["b\x1b[2J"]))));
    let text = stage.draw();
    assert!(text.contains("edited since") && text.contains(r"b\x1b[2J"), "{text}");
    assert_eq!(stage.press(KeyCode::Char('y')), None, "a box to read asks nothing");
    stage.app.fact(Fact::BackPlanned(Box::new(made::undo("k1", &["a"], &[]))));
    assert_eq!(stage.press(KeyCode::Char('y')), Some(Effect::TakeBack("k1".into())));
    stage.app.fact(Fact::TakenBack(Box::new(made::undo("k1", &["a"], &[]))));
    assert_eq!(stage.press(KeyCode::Enter), Some(Effect::Rows), "from the list of lanes, back to it");
    assert_eq!(stage.app.fact(Fact::Keeps(Vec::new())), None);
    assert!(stage.draw().contains("nothing was kept"));
}

#[test]
fn conflicts_are_shown_with_their_reason_and_settled_by_a_key() {
    use engine::ops::keep::Conflicts;
    let mut stage = Stage::open(100, 24, vec![file("a"), file("b")]);
    stage.press(KeyCode::Char('a'));
    assert!(matches!(stage.press(KeyCode::Char('p')), Some(Effect::Plan(_, _, Conflicts::Stop))));
    stage.app.fact(Fact::Planned(Box::new(made::clash(None)), Vec::new()));
    let text = stage.draw();
    for words in [
        "nothing would be written",
        "put together with what changed in the original:",
        "  b",
        "1 conflict with the original:",
        r"a\x1b[2J: a binary file that was changed in the original too",
        "stays as it is in the original",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    assert!(text.contains("m markers") && text.contains("t theirs"), "{text}");
    assert_eq!(stage.press(KeyCode::Char('y')), None, "nothing is there to be written");
    for (key, how) in
        [('m', Conflicts::Markers), ('o', Conflicts::Ours), ('t', Conflicts::Theirs), ('s', Conflicts::Stop)]
    {
        let Some(Effect::Plan(selection, _, said)) = stage.press(KeyCode::Char(key)) else {
            panic!("no plan by {key}")
        };
        assert_eq!((selection.count(), said), (2, how));
    }
    stage.app.fact(Fact::Planned(Box::new(made::clash(Some(Conflicts::Theirs))), Vec::new()));
    let text = stage.draw();
    assert!(text.contains("the lane's side is taken"), "{text}");
    // Where nothing clashes the keys mean nothing.
    stage.app.fact(Fact::Planned(Box::new(made::plan(&["a"])), Vec::new()));
    stage.draw();
    assert_eq!(stage.press(KeyCode::Char('t')), None);
}

#[test]
fn directories_are_closed_and_opened_and_ticked_as_a_whole() {
    let mut guarded = file("src/.envrc");
    guarded.guarded = Some("runs".to_owned());
    let names = ["doc/only", "src/deep/a", "src/deep/b", "src/main"];
    let mut files: Vec<_> = names.into_iter().map(file).collect();
    files.push(guarded);
    let mut stage = Stage::open(80, 20, files);
    let text = stage.draw();
    for words in
        ["[ ] M doc/only", "[ ] ▾ src/", "[ ]   ▾ deep/", "[ ]     M a", "[ ]   M main", "[ ] M src/.envrc"]
    {
        assert!(text.contains(words), "no {words} in {text}");
    }
    // On the inner directory: everything in it, and nothing else.
    stage.press(KeyCode::Down);
    stage.press(KeyCode::Down);
    stage.press(KeyCode::Char(' '));
    assert_eq!(stage.ticked(), [Ticked::None, Ticked::All, Ticked::All, Ticked::None, Ticked::None]);
    let text = stage.draw();
    assert!(text.contains("[~] ▾ src/") && text.contains("[x]   ▾ deep/"), "{text}");
    stage.press(KeyCode::Up);
    assert_eq!(stage.press(KeyCode::Enter), None);
    let text = stage.draw();
    assert!(text.contains("▾ src/") && text.contains("▸ deep/") && !text.contains("M a"), "{text}");
    // A step to the left leaves the directory, then closes it, and then the lane.
    assert_eq!(stage.press(KeyCode::Left), None);
    assert_eq!(stage.press(KeyCode::Left), None);
    let text = stage.draw();
    assert!(text.contains("▸ src/") && text.contains("3 paths") && !text.contains("main"), "{text}");
    stage.press(KeyCode::Char(' '));
    assert_eq!(stage.ticked()[1..4], [Ticked::All, Ticked::All, Ticked::All]);
    assert_eq!(stage.ticked()[4], Ticked::None, "what runs by itself stands elsewhere");
    // What is searched for is seen, wherever it is.
    stage.typed("/deep/b");
    assert!(stage.draw().contains("src/deep/b"));
    stage.press(KeyCode::Esc);
    // From file to file, also through closed directories.
    stage.app.fact(made::content(0, hunks(&[&["-x", "+y"]])));
    stage.draw();
    assert_eq!(stage.press(KeyCode::Tab), Some(Effect::Content(1)));
    stage.app.fact(made::content(1, hunks(&[&["-x", "+y"]])));
    stage.press(KeyCode::Esc);
    assert!(stage.draw().contains("M a"), "the directory of the file that was shown is open");
    stage.press(KeyCode::Char('z'));
    assert!(!stage.draw().contains("M a"));
    stage.press(KeyCode::Char('z'));
    assert!(stage.draw().contains("M a"));
}

#[test]
fn changed_words_within_a_line_are_marked() {
    let mut stage = Stage::open(80, 12, vec![file("a")]);
    stage.app.fact(made::content(0, hunks(&[&["-let a = first(x);", "+let a = second(x);"]])));
    stage.draw();
    let marked = |stage: &Stage, ground| -> String {
        let cells = stage.terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.bg == ground).map(|cell| cell.symbol()).collect()
    };
    for (added, word) in [(false, "first"), (true, "second")] {
        let ground = THEME.marked(added).bg.expect("a ground");
        assert_eq!(marked(&stage, ground), word);
    }
    // Without a colour the word is underlined.
    stage.app.theme = Theme { depth: Depth::Plain, ground: Ground::Dark };
    stage.draw();
    let cells = stage.terminal.backend().buffer().content().iter();
    let lined = cells.filter(|cell| cell.modifier.contains(ratatui::style::Modifier::UNDERLINED));
    assert_eq!(lined.map(|cell| cell.symbol()).collect::<String>(), "firstsecond");
}

#[test]
fn two_lanes_are_compared_path_by_path_and_nothing_can_be_ticked() {
    use engine::ops::compare::Meeting;
    let mut stage = Stage::new(100, 20);
    stage.app.fact(Fact::Rows(vec![lane("fix"), lane("other")]));
    stage.draw();
    assert_eq!(stage.press(KeyCode::Char('c')), None);
    assert!(stage.draw().contains("compare with"));
    let lanes = ["fix".to_owned(), "other".to_owned()];
    assert_eq!(stage.press(KeyCode::Enter), Some(Effect::Meet(lanes.clone())));
    let meetings = [
        ("a", Meeting::Left),
        ("b\x1b[2J\u{202e}", Meeting::Different),
        ("c", Meeting::Same),
        ("d", Meeting::Right),
    ];
    stage.app.fact(made::met(&meetings));
    let text = stage.draw();
    for words in [
        "fix ↔ other",
        "4 paths, 1 changed differently",
        "< a",
        "only fix",
        r"! b\x1b[2J\u{202e}",
        "= c",
        "only other",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    stage.press(KeyCode::Char('b'));
    let text = stage.draw();
    assert!(!text.contains("< a") && text.contains("= c"), "{text}");
    let Some(Effect::Across(across)) = stage.press(KeyCode::Enter) else { panic!("nothing asked for") };
    assert_eq!((across.lanes, across.number, across.met), (lanes, 1, true));
    stage.app.fact(made::across(1, "b", hunks(&[&["-x", "+\x1b[2J"]])));
    let text = stage.draw();
    assert!(text.contains(r"+\x1b[2J") && !text.contains("[ ]"), "{text}");
    for code in [KeyCode::Char(' '), KeyCode::Enter, KeyCode::Char('a'), KeyCode::Char('p')] {
        assert_eq!(stage.press(code), None, "{code:?}");
    }
    let Some(Effect::Across(across)) = stage.press(KeyCode::Tab) else { panic!("no next path") };
    assert_eq!(across.number, 2);
    stage.app.fact(made::across(2, "c", hunks(&[])));
    assert_eq!(stage.press(KeyCode::Tab), None, "that was the last of those that are listed");
    stage.press(KeyCode::Esc);
    assert_eq!(stage.app.screen, Screen::Two);
    assert_eq!(stage.press(KeyCode::Esc), None);
    assert_eq!(stage.app.screen, Screen::Lanes);
}

#[test]
fn ticks_stay_while_one_goes_from_lane_to_lane_and_are_planned_in_one_go() {
    let mut stage = Stage::open(100, 20, vec![file("a"), file("b")]);
    stage.press(KeyCode::Char(' '));
    assert!(stage.app.leaving("fix").is_none(), "it is read again, and not left");
    let left = stage.app.leaving("other").expect("something is ticked").clone();
    stage.app.set_aside(left);
    stage.app.fact(Fact::Opened(Box::new(changes("other", vec![file("c")]))));
    assert!(stage.draw().contains("nothing ticked, 1 in other lanes"));
    stage.press(KeyCode::Char('a'));
    let Some(Effect::Plan(selection, further, _)) = stage.press(KeyCode::Char('p')) else {
        panic!("no plan")
    };
    let further: Vec<&str> = further.iter().map(|ticks| ticks.lane.as_str()).collect();
    assert_eq!((selection.lane.as_str(), further), ("other", vec!["fix"]));
    let mut both = made::plan(&["a", "c"]);
    both.with = vec![lane("other").lane];
    both.steps[0].lanes = vec!["fix".to_owned(), "other\x1b[2J".to_owned()];
    stage.app.fact(Fact::Planned(Box::new(both), Vec::new()));
    let text = stage.draw();
    assert!(
        text.contains("keep from fix, other") && text.contains(r"modify  a  of fix + other\x1b[2J"),
        "{text}"
    );
    stage.press(KeyCode::Esc);
    // The lanes say how much is ticked in each, and plan all of it, too.
    stage.press(KeyCode::Esc);
    let text = stage.draw();
    assert!(text.contains("TICKED"), "{text}");
    assert!(
        matches!(stage.press(KeyCode::Char('p')), Some(Effect::Plan(_, further, _)) if further.len() == 1)
    );
    stage.app.fact(Fact::Planned(Box::new(made::plan(&["a"])), Vec::new()));
    stage.press(KeyCode::Esc);
    assert_eq!(stage.app.screen, Screen::Lanes);
    // Back in the first lane, its ticks are there again.
    let left = stage.app.leaving("fix").expect("something is ticked").clone();
    stage.app.set_aside(left);
    stage.app.fact(Fact::Opened(Box::new(changes("fix", vec![file("a"), file("b")]))));
    assert_eq!(stage.ticked(), [Ticked::All, Ticked::None]);
    stage.press(KeyCode::Esc);
    stage.press(KeyCode::Char('n'));
    assert_eq!(stage.press(KeyCode::Char('p')), None);
    assert!(stage.draw().contains("nothing is ticked"));
}

#[test]
fn what_was_looked_at_binds_and_nothing_else_is_read_before() {
    use engine::selection::Digest;
    let mut stage = Stage::new(80, 20);
    stage.app.fact(Fact::Opened(Box::new(made::unread("fix", vec![file("a"), file("b"), file("c")]))));
    stage.draw();
    stage.app.fact(made::content(1, hunks(&[&["-x", "+y"]])));
    stage.press(KeyCode::Esc);
    stage.app.fact(Fact::Counted(2, Some((1, 1)), Some(made::digest(7))));
    // What was known first is what was looked at.
    stage.app.fact(Fact::Counted(1, Some((1, 1)), Some(made::digest(9))));
    stage.press(KeyCode::Char('a'));
    let Some(Effect::Plan(selection, ..)) = stage.press(KeyCode::Char('p')) else { panic!("no plan") };
    let digests: Vec<Digest> = selection.files.iter().map(|file| file.digest).collect();
    assert_eq!(digests, [Digest::UNKNOWN, made::digest(1), made::digest(7)]);
    // Read again: what was looked at still binds where it seems to be the same.
    stage.app.fact(Fact::Opened(Box::new(made::unread("fix", vec![file("a"), file("b"), made::grown("c")]))));
    assert_eq!(stage.ticked(), [Ticked::All, Ticked::All, Ticked::None]);
    let Some(Effect::Plan(selection, ..)) = stage.press(KeyCode::Char('p')) else { panic!("no plan") };
    assert_eq!(selection.files[1].digest, made::digest(1));
}

#[test]
fn the_mouse_moves_ticks_opens_scrolls_and_presses_keys() {
    let mut stage = Stage::open(100, 12, (0..40).map(|n| file(&format!("file{n:02}"))).collect());
    // The title is above: the second file is on the third line.
    assert_eq!(stage.click(20, 2), None);
    assert_eq!(stage.click(1, 3), None);
    assert_eq!(stage.ticked().iter().filter(|ticked| **ticked == Ticked::All).count(), 1);
    assert_eq!(stage.ticked()[2], Ticked::All);
    assert_eq!(stage.click(20, 3), Some(Effect::Content(2)), "a click on the row under the cursor opens it");
    stage.mouse(MouseEventKind::ScrollDown, 20, 3);
    let text = stage.draw();
    assert!(text.contains("file03") && !text.contains("file02"), "{text}");
    let keys = text.lines().last().expect("keys");
    let at = keys.chars().position(|c| c == 'p').expect("a key");
    let plan = keys.find("p plan").expect("the key");
    assert!(at <= plan);
    assert!(matches!(stage.click(u16::try_from(plan).expect("small"), 11), Some(Effect::Plan(..))));
    assert_eq!(stage.click(99, 5), None);
    assert_eq!(stage.click(500, 500), None);
}

#[test]
fn every_screen_fits_into_any_terminal() {
    for (columns, rows) in [(1, 1), (19, 5), (20, 6), (40, 12), (80, 24), (300, 100)] {
        let mut guarded = file(".envrc");
        guarded.guarded = Some("a long reason that does not fit into a narrow terminal".to_owned());
        let long = file(&"deep/".repeat(40));
        let mut stage = Stage::open(columns, rows, vec![guarded, long, file("a")]);
        for code in
            [KeyCode::Char('?'), KeyCode::Down, KeyCode::Char('x'), KeyCode::Char('D'), KeyCode::Char('n')]
        {
            stage.press(code);
        }
        stage.press(KeyCode::Char('/'));
        stage.press(KeyCode::Esc);
        stage.app.fact(made::content(1, hunks(&[&[" \tcontext", "-\u{65e5}\u{672c}", "+x"]])));
        stage.draw();
        for code in [
            KeyCode::Char('c'),
            KeyCode::Down,
            KeyCode::Esc,
            KeyCode::Right,
            KeyCode::End,
            KeyCode::Char('l'),
        ] {
            stage.press(code);
        }
        stage.app.fact(Fact::Planned(Box::new(made::plan(&["a", "b"])), Vec::new()));
        stage.draw();
        stage.app.fact(Fact::Kept(Box::new(made::plan(&["a", "b"])), Vec::new()));
        stage.draw();
        stage.app.fact(Fact::Failed(vec!["it went wrong".into(), "hint: try again".into()]));
        let text = stage.draw();
        if columns >= 40 {
            assert!(text.contains("it went wrong"), "{text}");
        }
    }
}

#[test]
fn forty_columns_and_twelve_rows_are_enough_to_review() {
    let mut stage = Stage::open(40, 12, vec![file("src/a.rs"), file("tests/b.rs")]);
    stage.app.fact(Fact::Counted(0, Some((12, 3)), None));
    let text = stage.draw();
    assert!(text.contains("[ ] M src/a.rs") && text.contains("+12 -3"), "{text}");
    assert!(text.contains("space tick") && text.contains("? help"), "{text}");
    stage.app.fact(made::content(0, hunks(&[&[" fn a() {", "-old", "+new"]])));
    let text = stage.draw();
    assert!(text.contains("[ ] 2  -old") && text.contains("[ ] 2  +new"), "{text}");
}

#[test]
fn a_resize_keeps_the_cursor_in_sight() {
    let mut stage = Stage::open(80, 40, (0..200).map(|n| file(&format!("file{n:03}"))).collect());
    for _ in 0..150 {
        stage.press(KeyCode::Down);
    }
    for rows in [10, 50, 7] {
        stage.terminal.backend_mut().resize(60, rows);
        stage.terminal.resize(ratatui::layout::Rect::new(0, 0, 60, rows)).expect("resized");
        assert!(stage.draw().contains("file150"), "at {rows} rows");
    }
}

#[test]
fn a_hundred_thousand_lines_cost_the_shown_ones() {
    let mut stage = Stage::open(100, 30, vec![file("big.rs")]);
    let content = (0..100_000).map(|n| format!("let line{n} = {n};"));
    stage.app.fact(made::content(0, added(content)));
    let work = |stage: &mut Stage| {
        while stage.app.want() == Some(Want::Colours) {
            stage.app.colour();
        }
        let hunks = stage.app.hunks.as_ref().expect("open");
        (hunks.drawn, hunks.colours.parsed)
    };
    stage.draw();
    let (drawn, parsed) = work(&mut stage);
    assert!(drawn <= 30 && parsed <= 30, "{drawn} drawn, {parsed} read at first");
    stage.press(KeyCode::End);
    let text = stage.draw();
    assert!(text.contains("let line99999 = 99999;"), "{text}");
    let (drawn, parsed) = work(&mut stage);
    assert!(drawn <= 120 && parsed <= 90, "{drawn} drawn, {parsed} read at the end");
    for _ in 0..20 {
        stage.press(KeyCode::PageUp);
    }
    let (drawn, parsed) = work(&mut stage);
    assert!(drawn <= 1000 && parsed <= 1000, "{drawn} drawn, {parsed} read after twenty pages");
}

#[test]
fn ten_thousand_hunks_are_found_by_their_rows() {
    let mut stage = Stage::open(100, 30, vec![file("big")]);
    let many: Vec<Vec<String>> = (0..10_000).map(|n| vec![format!("-old{n}"), format!("+new{n}")]).collect();
    let many: Vec<Vec<&str>> = many.iter().map(|hunk| hunk.iter().map(String::as_str).collect()).collect();
    let many: Vec<&[&str]> = many.iter().map(Vec::as_slice).collect();
    stage.app.fact(made::content(0, hunks(&many)));
    stage.typed("/new7777");
    stage.press(KeyCode::Enter);
    let text = stage.draw();
    assert!(text.contains("+new7777") && text.contains("hunk 7778 of 10000"), "{text}");
    stage.press(KeyCode::Enter);
    let Some(Effect::Plan(selection, ..)) = stage.press(KeyCode::Char('p')) else { panic!("no plan") };
    let Some(engine::selection::Take::Part(part)) = &selection.files[0].take else { panic!("{selection:?}") };
    assert_eq!(part.hunks.keys().collect::<Vec<_>>(), ["hunk7777"]);
}

#[test]
fn two_thousand_files_are_a_window() {
    let mut stage = Stage::open(100, 30, (0..2000).map(|n| file(&format!("src/file{n:04}.rs"))).collect());
    stage.press(KeyCode::End);
    let text = stage.draw();
    assert!(text.contains("file1999.rs") && !text.contains("file1900.rs"), "{text}");
    let Some(Want::Count(next)) = stage.app.want() else { panic!("nothing to count") };
    assert!(next >= 1970, "{next} is counted first, which nobody sees");
}

#[test]
fn names_and_lines_that_steer_a_terminal_are_spelled_out() {
    let mut evil = file("x");
    evil.change.path = tree::TreePath::new(b"a\x1b]0;P\x07\x1b[2Jb".as_slice()).expect("a path");
    evil.guarded = Some("why\x1b[2J".to_owned());
    let mut stage = Stage::open(120, 20, vec![evil]);
    let text = stage.draw();
    assert!(text.contains(r"a\x1b]0;P\x07\x1b[2Jb") && text.contains(r"why\x1b[2J"), "{text}");
    stage.app.fact(made::content(0, lines(&[b"+x\x1b[8m\xff\xe2\x80\xae\n".as_slice()])));
    let text = stage.draw();
    assert!(text.contains(r"!+x\x1b[8m\xff\u{202e}"), "{text}");
}

#[test]
fn without_colours_the_cursor_and_the_ticks_are_still_seen() {
    let mut stage = Stage::open(80, 20, vec![file("a"), file("b")]);
    stage.app.theme = Theme { depth: Depth::Plain, ground: Ground::Dark };
    stage.press(KeyCode::Char(' '));
    stage.draw();
    let buffer = stage.terminal.backend().buffer();
    let colours = buffer.content().iter().filter(|cell| {
        let plain = [ratatui::style::Color::Reset];
        !plain.contains(&cell.fg) || !plain.contains(&cell.bg)
    });
    assert_eq!(colours.count(), 0);
    let cursor = buffer.cell((10, 2)).expect("a cell");
    assert!(cursor.modifier.contains(ratatui::style::Modifier::REVERSED));
}

#[test]
fn a_lane_that_was_read_again_keeps_ticks_on_what_is_as_it_was() {
    let mut stage = Stage::open(80, 20, vec![file("a"), file("b")]);
    stage.press(KeyCode::Char('a'));
    let mut now = changes("fix", vec![file("0-new"), file("a"), file("b")]);
    made::redigest(&mut now, "b");
    stage.app.fact(Fact::Opened(Box::new(now)));
    assert_eq!(stage.ticked(), [Ticked::None, Ticked::All, Ticked::None]);
    assert!(stage.draw().contains("1 ticked before have changed since"));
}

#[test]
fn leaving_asks_nothing_and_does_nothing() {
    let mut stage = Stage::open(80, 20, vec![file("a")]);
    assert_eq!(stage.press(KeyCode::Char('q')), Some(Effect::Quit));
    let control = |c| Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    assert_eq!(stage.app.input(&control('c')), Some(Effect::Quit));
    assert_eq!(stage.app.input(&control('z')), Some(Effect::Suspend));
    for modifiers in [KeyModifiers::CONTROL, KeyModifiers::ALT] {
        let key = Event::Key(KeyEvent::new(KeyCode::Char('a'), modifiers));
        assert_eq!(
            (stage.app.input(&key), stage.ticked()),
            (None, vec![Ticked::None]),
            "{modifiers:?} makes another key"
        );
    }
    stage.press(KeyCode::Char('/'));
    assert_eq!(stage.press(KeyCode::Char('q')), None, "a letter of a search is a letter");
}
