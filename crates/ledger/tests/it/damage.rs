//! A file that is no sound ledger is refused by name, and its bytes stay as they are.

use std::fs;
use std::path::Path;

use ledger::{Error, LaneFilter, Ledger};

use crate::sample;

fn refusal(path: &Path) -> Error {
    let before = fs::read(path).ok();
    let error = Ledger::open(path).expect_err("no sound ledger");
    assert_eq!(fs::read(path).ok(), before, "the refused file was written");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    error
}

#[test]
fn a_file_of_other_bytes_is_damaged_and_stays() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    fs::write(&path, b"not a database at all. ".repeat(1000)).expect("written");
    assert!(matches!(refusal(&path), Error::Damaged { .. }));
}

#[test]
fn a_database_that_something_else_made_is_refused_and_stays() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    let other = rusqlite::Connection::open(&path).expect("a database");
    other.execute_batch("CREATE TABLE songs (title TEXT)").expect("a table");
    drop(other);
    assert!(matches!(refusal(&path), Error::Damaged { .. }));
}

#[test]
fn a_ledger_of_a_newer_version_is_refused_and_stays() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    drop(Ledger::open(&path).expect("a new ledger"));
    let later = rusqlite::Connection::open(&path).expect("a database");
    later.pragma_update(None, "user_version", 99).expect("raised");
    drop(later);
    assert!(matches!(refusal(&path), Error::Newer { found: 99, known: 2.., .. }));
}

#[test]
fn an_empty_file_becomes_a_ledger() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    fs::write(&path, b"").expect("written");
    let book = Ledger::open(&path).expect("a new ledger");
    assert_eq!(book.lanes(LaneFilter::default()).expect("list"), []);
}

#[test]
fn a_missing_directory_and_a_directory_in_its_place_are_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = refusal(&dir.path().join("no/lane.db"));
    assert!(matches!(missing, Error::Storage { .. }), "{missing:?}");
    assert!(matches!(refusal(dir.path()), Error::Storage { .. }));
}

#[test]
fn a_page_overwritten_with_garbage_is_found_by_check_and_by_reading() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    let book = Ledger::open(&path).expect("a new ledger");
    for number in 0..200 {
        book.insert_lane(&sample::lane(&format!("l{number}"), &format!("n{number}"))).expect("recorded");
    }
    book.fold().expect("folded");
    book.check().expect("sound");
    drop(book);
    let mut bytes = fs::read(&path).expect("read");
    // Behind the pages that say which tables there are: those are read at once.
    let behind = bytes.len() * 3 / 4;
    bytes[behind..].fill(0xa5);
    fs::write(&path, bytes).expect("written");
    fs::remove_file(dir.path().join("lane.db-wal")).expect("removed");

    let book = Ledger::open(&path).expect("its header is sound");
    assert!(matches!(book.check(), Err(Error::Damaged { .. })));
    let read = book.lanes(LaneFilter::default()).expect_err("the pages are garbage");
    assert!(matches!(read, Error::Damaged { .. }), "{read:?}");
    assert!(read.to_string().contains("lane.db"), "{read}");
}

#[test]
fn a_row_that_says_nonsense_is_damage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    let book = Ledger::open(&path).expect("a new ledger");
    book.insert_lane(&sample::lane("l1", "fix")).expect("recorded");
    let raw = rusqlite::Connection::open(&path).expect("the same file");
    raw.execute("UPDATE lanes SET options = '{'", []).expect("spoilt");
    let read = book.lane("l1").expect_err("no JSON");
    assert!(matches!(read, Error::Damaged { .. }), "{read:?}");
}
