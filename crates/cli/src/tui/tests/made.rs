//! Lanes, files and contents for the tests of the view, made from a few words.

use std::path::PathBuf;

use engine::keeping::KeptView;
use engine::ops::compare::{Meeting, Met};
use engine::ops::diff::{FileDiff, FileView, Hunk, Line, LineKind};
use engine::ops::keep::{
    Clash, ConflictView, Conflicts, KeepView, LeftOut, LeftOutWhy, MergedView, StepView,
};
use engine::ops::list::ListedLane;
use engine::ops::undo_keep::{UndoKeepStep, UndoKeepView};
use engine::selection::{Digest, SelectedFile, Selection};
use engine::view::{BaseView, Cost, LaneState, LaneView, RootView, Strategy};
use tree::entry::Time;
use tree::{Change, ChangeKind, Entry, Kind, TreePath};

use crate::tui::fact::{Across, Changes, Fact, Meet, TwoSides};
use crate::tui::ticks::Ticks;

fn view(name: &str) -> LaneView {
    let origin = PathBuf::from("/project");
    LaneView {
        id: format!("id-{name}"),
        name: name.to_owned(),
        origin: origin.clone(),
        strategy: Strategy::Overlay,
        why: "a test".to_owned(),
        state: LaneState::Idle,
        created_at: 0,
        base: BaseView::default(),
        roots: vec![RootView { path: origin, strategy: Strategy::Overlay, git: false }],
        forked_from: None,
        cost: Cost::default(),
        dir: PathBuf::new(),
        discarded_at: None,
        last_run: None,
    }
}

/// A lane as the ledger has it.
pub(super) fn lane(name: &str) -> ListedLane {
    ListedLane {
        lane: view(name),
        counts: None,
        exclusive: None,
        memory: None,
        snapshots: None,
        verdict: None,
        problem: None,
    }
}

fn entry() -> Entry {
    let never = Time { sec: 0, nsec: 0 };
    Entry {
        kind: Kind::File,
        mode: 0o644,
        uid: 0,
        gid: 0,
        size: 1,
        mtime: never,
        ctime: never,
        ino: 1,
        dev: 0,
        nlink: 1,
        allocated: 0,
        rdev: 0,
        target: Vec::new(),
    }
}

/// A changed file.
pub(super) fn file(path: &str) -> FileView {
    FileView {
        root: PathBuf::from("/project"),
        root_index: 0,
        change: Change {
            path: TreePath::new(path.trim_end_matches('/')).expect("a path"),
            kind: ChangeKind::Modify,
            old: Some(entry()),
            new: Some(entry()),
        },
        guarded: None,
        drifted: None,
    }
}

/// A digest.
pub(super) fn digest(seed: u8) -> Digest {
    Digest::parse(&format!("{seed:02x}").repeat(32)).expect("a digest")
}

/// What a lane changed.
pub(super) fn changes(lane: &str, files: Vec<FileView>) -> Changes {
    let selected = |file: &FileView| SelectedFile {
        root: file.root.clone(),
        path: file.change.path.clone(),
        digest: digest(1),
        guarded: file.guarded.is_some(),
        named: false,
        take: None,
    };
    let selection = Selection {
        lane: lane.to_owned(),
        lane_id: format!("id-{lane}"),
        digest: digest(0),
        within: Vec::new(),
        files: files.iter().map(selected).collect(),
    };
    Changes { lane: view(lane), files, ticks: Ticks::of(selection), git_internal: 0, gaps: Vec::new() }
}

/// The same, with nothing of it read yet.
pub(super) fn unread(lane: &str, files: Vec<FileView>) -> Changes {
    let mut changes = changes(lane, files);
    let mut selection = changes.ticks.selection().clone();
    selection.files.iter_mut().for_each(|file| file.digest = Digest::UNKNOWN);
    changes.ticks = Ticks::of(selection);
    changes
}

/// A changed file that is larger than the others.
pub(super) fn grown(path: &str) -> FileView {
    let mut file = file(path);
    file.change.new = Some(Entry { size: 2, ..entry() });
    file
}

/// A keep of the list.
pub(super) fn kept(id: &str) -> KeptView {
    KeptView {
        id: id.to_owned(),
        at: Some(0),
        lane_id: "id-fix".to_owned(),
        lane: "fix".to_owned(),
        lanes: vec![("id-fix".to_owned(), "fix".to_owned())],
        steps: 2,
        roots: Vec::new(),
        is_undone: false,
        bytes: 0,
        problem: None,
    }
}

/// What taking a keep back would put back, and what was edited since.
pub(super) fn undo(id: &str, back: &[&str], edited: &[&str]) -> UndoKeepView {
    let root = PathBuf::from("/project");
    let path = |path: &&str| TreePath::new(*path).expect("a path");
    let step = |at: &&str| UndoKeepStep { root: root.clone(), path: path(at), what: "put-back" };
    let steps = back.iter().map(step).collect();
    UndoKeepView { keep: kept(id), steps, edited: edited.iter().map(|at| (root.clone(), path(at))).collect() }
}

/// A plan in which one path was merged and another one clashes.
pub(super) fn clash(settled: Option<Conflicts>) -> KeepView {
    let root = PathBuf::from("/project");
    let path = |path: &str| TreePath::new(path).expect("a path");
    let (hostile, clash) = (path("a\x1b[2J"), Clash::Binary);
    let detail = clash.word().to_owned();
    let why = LeftOutWhy::Conflict;
    let left = LeftOut { root: root.clone(), path: hostile.clone(), why, detail, lane: None };
    KeepView {
        left_out: if settled.is_none() { vec![left] } else { Vec::new() },
        conflicts: vec![ConflictView {
            root: root.clone(),
            path: hostile,
            clash,
            settled,
            lane: None,
            with: Vec::new(),
            branch: None,
        }],
        merged: vec![MergedView { root, path: path("b"), lane_path: None, content: true }],
        ..plan(&[])
    }
}

/// Paths that two lanes changed, and how they meet there.
pub(super) fn met(all: &[(&str, Meeting)]) -> Fact {
    let met = |(path, meeting): &(&str, Meeting)| {
        let change = || Some(file(path).change);
        let changes = match meeting {
            Meeting::Left => [change(), None],
            Meeting::Right => [None, change()],
            Meeting::Same | Meeting::Different => [change(), change()],
        };
        let path = TreePath::new(*path).expect("a path");
        Met { root: PathBuf::from("/project"), root_index: 0, path, changes, meeting: *meeting }
    };
    let lanes = ["fix".to_owned(), "other".to_owned()];
    Fact::Met(Box::new(Meet { lanes, files: all.iter().map(met).collect() }))
}

/// One of these paths, line by line.
pub(super) fn across(number: usize, path: &str, diff: FileDiff) -> Fact {
    let path = TreePath::new(path).expect("a path");
    let lanes = ["fix".to_owned(), "other".to_owned()];
    let across = Across { lanes, root: 0, path, number, met: true };
    let have = ["one thing".to_owned(), "another".to_owned()];
    Fact::Compared(Box::new(TwoSides { across, diff, have }))
}

/// One file is not what it was.
pub(super) fn redigest(changes: &mut Changes, path: &str) {
    let mut selection = changes.ticks.selection().clone();
    let path = TreePath::new(path).expect("a path");
    selection.file_mut(&PathBuf::from("/project"), &path).expect("the file").digest = digest(2);
    changes.ticks = Ticks::of(selection);
}

/// A plan that changes these paths.
pub(super) fn plan(paths: &[&str]) -> KeepView {
    let step = |path: &&str| StepView {
        root: PathBuf::from("/project"),
        path: TreePath::new(*path).expect("a path"),
        what: "modify",
        from: None,
        part: false,
        guarded: None,
        lanes: Vec::new(),
    };
    KeepView {
        lane: view("fix"),
        with: Vec::new(),
        id: None,
        steps: paths.iter().map(step).collect(),
        left_out: Vec::new(),
        git_internal: 0,
        bytes: 4096,
        set_id_dropped: Vec::new(),
        checks: Vec::new(),
        conflicts: Vec::new(),
        merged: Vec::new(),
    }
}

fn line(bytes: &[u8]) -> Line {
    let kind = match bytes[0] {
        b'+' => LineKind::Added,
        b'-' => LineKind::Removed,
        _ => LineKind::Context,
    };
    Line { kind, bytes: bytes[1..].to_vec() }
}

fn hunk(number: usize, at: u32, lines: Vec<Line>) -> Hunk {
    let count = |kind| lines.iter().filter(|line| line.kind != kind).count() as u32;
    Hunk {
        id: format!("hunk{number}"),
        old_start: at,
        old_len: count(LineKind::Added),
        new_start: at,
        new_len: count(LineKind::Removed),
        lines,
    }
}

/// Hunks from lines with their signs, each ended by a newline.
pub(super) fn hunks(all: &[&[&str]]) -> FileDiff {
    let lines = |texts: &&[&str]| texts.iter().map(|text| line(format!("{text}\n").as_bytes())).collect();
    let hunks = all.iter().enumerate().map(|(at, texts)| hunk(at, at as u32 * 10 + 1, lines(texts)));
    FileDiff { binary: false, hunks: hunks.collect(), notes: Vec::new() }
}

/// One hunk of lines of any bytes.
pub(super) fn lines(all: &[&[u8]]) -> FileDiff {
    let lines = all.iter().map(|bytes| line(bytes)).collect();
    FileDiff { binary: false, hunks: vec![hunk(0, 1, lines)], notes: Vec::new() }
}

/// The content of a file was compared.
pub(super) fn content(number: usize, diff: FileDiff) -> Fact {
    Fact::Content(number, Box::new(diff), digest(1))
}

/// A new file with these lines.
pub(super) fn added(all: impl Iterator<Item = String>) -> FileDiff {
    let lines =
        all.map(|text| Line { kind: LineKind::Added, bytes: format!("{text}\n").into_bytes() }).collect();
    FileDiff { binary: false, hunks: vec![hunk(0, 1, lines)], notes: Vec::new() }
}
