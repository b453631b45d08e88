use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::dir::DirTree;
use crate::path::TreePath;
use crate::source::Source as _;

/// Long after whatever a test writes.
fn later() -> Time {
    Time { sec: i64::MAX / 4, nsec: 0 }
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("valid path")
}

/// What a recall says of two files, and how many bytes it read for that.
fn ask(recall: &Recall, dir: &Path, one: &str, other: &str) -> (bool, u64) {
    let tree = DirTree::open(dir).expect("open");
    let entry = |name: &str| tree.entry(&path(name)).expect("entry").expect("there");
    let (a, b) = (entry(one), entry(other));
    let before = recall.bytes_read();
    let old = Side { source: &tree, path: &path(one), entry: &a };
    let new = Side { source: &tree, path: &path(other), entry: &b };
    let same = recall.same_content(old, new).expect("compare");
    (same, recall.bytes_read() - before)
}

fn again(recall: &Recall) -> Recall {
    Recall::from_bytes(&recall.to_bytes(), later()).expect("what was just written")
}

fn pair(size: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    let content: Vec<u8> = (0..size).map(|n| (n * 7 % 251) as u8).collect();
    fs::write(dir.path().join("a"), &content).expect("write");
    fs::write(dir.path().join("b"), &content).expect("write");
    dir
}

#[test]
fn equal_files_are_read_once_and_never_again() {
    for size in [0, 1, 65_536, 65_537, 600_000, (5 << 20) + 1, 9 << 20] {
        let dir = pair(size);
        let recall = Recall::empty(later());
        assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 2 * size as u64), "{size}");
        assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 0));
        assert!(recall.has_news());
        let recall = again(&recall);
        assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 0));
        assert!(!recall.has_news());
    }
}

#[test]
fn of_one_file_that_was_written_only_that_one_is_read() {
    let dir = pair(100_000);
    let recall = Recall::empty(later());
    assert!(ask(&recall, dir.path(), "a", "b").0);
    let mut content = fs::read(dir.path().join("b")).expect("read");
    fs::write(dir.path().join("b"), &content).expect("write");
    assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 100_000));
    content[99_999] ^= 1;
    fs::write(dir.path().join("b"), &content).expect("write");
    assert_eq!(ask(&again(&recall), dir.path(), "a", "b"), (false, 100_000));
}

#[test]
fn files_that_differ_early_are_not_read_to_their_end() {
    let dir = pair(5 << 20);
    let mut content = fs::read(dir.path().join("b")).expect("read");
    content[70_000] ^= 1;
    fs::write(dir.path().join("b"), &content).expect("write");
    let recall = Recall::empty(later());
    assert_eq!(ask(&recall, dir.path(), "a", "b"), (false, 1 << 20));
    // The rest is read from where it was left.
    fs::copy(dir.path().join("a"), dir.path().join("c")).expect("copy");
    assert_eq!(ask(&again(&recall), dir.path(), "a", "c"), (true, (10 << 20) - (512 << 10)));
}

#[test]
fn one_changed_byte_of_a_large_file_is_seen_wherever_it_is() {
    let size = 9 << 20;
    let dir = pair(size);
    let content = fs::read(dir.path().join("b")).expect("read");
    let recall = Recall::empty(later());
    for at in [0, 70_000, 600_000, 3 << 20, 5 << 20, 7 << 20, size - 1] {
        let mut content = content.clone();
        content[at] ^= 128;
        fs::write(dir.path().join("b"), &content).expect("write");
        assert!(!ask(&recall, dir.path(), "a", "b").0, "{at}");
    }
    fs::write(dir.path().join("b"), &content).expect("write");
    assert!(ask(&recall, dir.path(), "a", "b").0);
}

#[test]
fn a_new_name_of_a_file_does_not_make_it_unknown_and_other_changes_do() {
    let dir = pair(1000);
    let at = |name: &str| dir.path().join(name);
    let recall = Recall::empty(later());
    assert!(ask(&recall, dir.path(), "a", "b").0);
    fs::hard_link(at("b"), at("c")).expect("link");
    assert_eq!(ask(&recall, dir.path(), "a", "c"), (true, 0));
    fs::remove_file(at("c")).expect("unlink");
    assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 1000));
    fs::set_permissions(at("b"), fs::Permissions::from_mode(0o600)).expect("chmod");
    assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 1000));
}

#[test]
fn what_was_written_just_now_is_not_remembered_for_long() {
    let dir = pair(1000);
    let now = fs::metadata(dir.path().join("b")).expect("stat").modified().expect("a time");
    let now = now.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let recall = Recall::empty(Time { sec: now.as_secs() as i64, nsec: now.subsec_nanos() });
    assert!(ask(&recall, dir.path(), "a", "b").0);
    assert_eq!(ask(&recall, dir.path(), "a", "b"), (true, 0));
    assert!(!recall.has_news());
    assert_eq!(ask(&again(&recall), dir.path(), "a", "b"), (true, 2000));
}

#[test]
fn what_nobody_asked_for_is_forgotten() {
    let dir = pair(1000);
    let recall = Recall::empty(later());
    assert!(ask(&recall, dir.path(), "a", "b").0);
    let unused = again(&recall);
    assert_eq!(ask(&again(&unused), dir.path(), "a", "b"), (true, 2000));
}

#[test]
fn an_entry_that_was_only_recorded_teaches_nothing() {
    let dir = pair(1000);
    let tree = DirTree::open(dir.path()).expect("open");
    let entry = Entry { dev: 0, ..tree.entry(&path("a")).expect("entry").expect("there") };
    let side = Side { source: &tree, path: &path("a"), entry: &entry };
    let recall = Recall::empty(later());
    assert!(recall.step(side, 0).expect("read").is_some());
    assert!(!recall.has_news());
    assert_eq!(recall.to_bytes().len(), Recall::empty(later()).to_bytes().len());
}

#[test]
fn a_file_that_is_shorter_than_its_entry_says_equals_nothing() {
    let dir = pair(1000);
    let tree = DirTree::open(dir.path()).expect("open");
    let entry = tree.entry(&path("a")).expect("entry").expect("there");
    fs::write(dir.path().join("b"), b"short").expect("write");
    let (one, other) = (path("a"), path("b"));
    let old = Side { source: &tree, path: &one, entry: &entry };
    let new = Side { source: &tree, path: &other, entry: &entry };
    assert!(!Recall::empty(later()).same_content(new, old).expect("compare"));
}

#[test]
fn bytes_that_are_damaged_are_no_recall() {
    let dir = pair(1000);
    let recall = Recall::empty(later());
    assert!(ask(&recall, dir.path(), "a", "b").0);
    let bytes = recall.to_bytes();
    assert!(Recall::from_bytes(&bytes, later()).is_some());
    assert!(Recall::from_bytes(&bytes[..bytes.len() - 1], later()).is_none());
    assert!(Recall::from_bytes(&bytes[..bytes.len() - 40], later()).is_none());
    for at in (0..bytes.len()).step_by(37) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(Recall::from_bytes(&damaged, later()).is_none(), "{at}");
    }
}
