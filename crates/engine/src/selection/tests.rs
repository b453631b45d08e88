use std::path::{Path, PathBuf};

use review::diff::named_diff;
use tree::{Change, ChangeKind, Entry, Kind, Time, TreePath};

use super::{Digest, SelectedFile, Selection, Take, Ticked};

fn entry(mode: u32) -> Entry {
    let time = Time::default();
    Entry {
        kind: Kind::File,
        mode,
        uid: 0,
        gid: 0,
        size: 0,
        mtime: time,
        ctime: time,
        ino: 1,
        dev: 1,
        nlink: 1,
        allocated: 0,
        rdev: 0,
        target: Vec::new(),
    }
}

fn change(old: u32, new: u32) -> Change {
    let path = TreePath::new("f").expect("a path");
    Change { path, kind: ChangeKind::Modify, old: Some(entry(old)), new: Some(entry(new)) }
}

fn page(edit: &[usize]) -> Vec<u8> {
    (0..30).flat_map(|i| format!("{i}{}\n", if edit.contains(&i) { "!" } else { "" }).into_bytes()).collect()
}

fn file(name: impl AsRef<[u8]>, guarded: bool) -> SelectedFile {
    let digest = Digest::parse(&"ab".repeat(32)).expect("a digest");
    let path = TreePath::new(name).expect("a path");
    SelectedFile { root: PathBuf::from("/p"), path, digest, guarded, named: false, take: None }
}

fn selection(files: Vec<SelectedFile>) -> Selection {
    let digest = Selection::digest_of(&files);
    Selection { lane: "a".to_owned(), lane_id: "1".to_owned(), digest, within: Vec::new(), files }
}

#[test]
fn ticking_every_hunk_ticks_the_file_and_every_line_the_hunk() {
    let (change, diff) = (change(0o644, 0o644), named_diff(b"f", Some(&page(&[])), Some(&page(&[2, 20]))));
    let ids: Vec<&String> = diff.hunks.iter().map(|hunk| &hunk.id).collect();
    let mut one = file("f", false);
    assert!(one.toggle_hunk(&change, &diff, ids[0]));
    assert_eq!(one.ticked(), Ticked::Some);
    assert!(one.toggle_line(&change, &diff, ids[1], 1));
    assert!(one.takes_line(ids[1], 1) && !one.takes_line(ids[1], 2));
    assert!(one.toggle_line(&change, &diff, ids[1], 2));
    assert_eq!(one.take, Some(Take::Whole));
    assert!(one.toggle_hunk(&change, &diff, ids[0]));
    assert!(!one.takes_line(ids[0], 1) && one.takes_line(ids[1], 1));
    assert!(one.toggle_hunk(&change, &diff, ids[1]));
    assert_eq!(one.ticked(), Ticked::None);
    assert!(!one.toggle_hunk(&change, &diff, "none") && !one.toggle_line(&change, &diff, ids[0], 3));
}

#[test]
fn a_mode_that_differs_is_a_tick_of_its_own() {
    let (change, diff) = (change(0o644, 0o755), named_diff(b"f", Some(&page(&[])), Some(&page(&[2]))));
    let mut one = file("f", false);
    one.toggle_hunk(&change, &diff, &diff.hunks[0].id);
    assert!(one.ticked() == Ticked::Some && !one.takes_mode());
    one.toggle_mode(&change, &diff);
    assert_eq!(one.ticked(), Ticked::All);
    one.toggle_hunk(&change, &diff, &diff.hunks[0].id);
    assert!(one.ticked() == Ticked::Some && one.takes_mode());
    one.toggle_mode(&change, &diff);
    assert_eq!(one.ticked(), Ticked::None);
}

#[test]
fn all_never_covers_a_guarded_file_and_a_tick_of_its_own_names_it() {
    let mut all = selection(vec![file("f", false), file("g", true)]);
    all.tick_all();
    assert_eq!((all.files[0].ticked(), all.files[1].ticked(), all.count()), (Ticked::All, Ticked::None, 1));
    let guarded = all.file_mut(Path::new("/p"), &TreePath::new("g").expect("a path")).expect("there");
    guarded.toggle();
    assert!(guarded.named);
    all.tick_all();
    assert_eq!(all.count(), 2);
    all.clear();
    assert!(all.is_empty() && !all.files[1].named);
}

#[test]
fn a_document_is_read_as_it_was_written() {
    let mut odd = file(b"bad\xff\n", true);
    odd.tick();
    let mut part = file("f", false);
    let (change, diff) = (change(0o644, 0o755), named_diff(b"f", Some(&page(&[])), Some(&page(&[2, 20]))));
    part.toggle_hunk(&change, &diff, &diff.hunks[0].id);
    part.toggle_line(&change, &diff, &diff.hunks[1].id, 2);
    let mut whole = selection(vec![odd, part, file("none", false)]);
    whole.within.push((PathBuf::from("/p"), TreePath::new("sub").expect("a path")));
    let json = whole.to_json();
    assert_eq!(Selection::from_json(json.as_bytes()).expect("read"), whole);
}

#[test]
fn a_document_that_does_not_hang_together_is_refused() {
    let mut whole = selection(vec![file("f", false)]);
    whole.files[0].tick();
    let json = whole.to_json();
    let refused = |from: &str, to: &str| {
        assert!(json.contains(from), "{json}");
        Selection::from_json(json.replace(from, to).as_bytes()).expect_err("refused").to_string()
    };
    assert!(refused("selection/1", "selection/2").contains("format"));
    assert!(refused(r#""path": "f""#, r#""path": "g""#).contains("digest"));
    assert!(refused(r#""path": "f""#, r#""path": "../g""#).contains("path"));
    assert!(refused(r#""whole""#, r#""some""#).contains("some"));
    assert!(refused(r#""take""#, r#""mode": true, "take""#).contains("parts"));
    assert!(refused(r#""take""#, r#""except": [], "take""#).contains("except"));
}
