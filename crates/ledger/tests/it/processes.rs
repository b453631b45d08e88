//! Several processes at once, and processes that are killed in the middle of writing.
//!
//! The other processes are this test binary again, running [`a_writer_records_whole_acts`] alone.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ledger::{Exit, LaneFilter, Ledger, NewOperation};
use serde_json::json;

use crate::sample;

const FILE: &str = "LEDGER_TEST_FILE";
const WHO: &str = "LEDGER_TEST_WHO";
const COUNT: &str = "LEDGER_TEST_COUNT";
const MARK: &str = "recorded ";

/// One act of three rows, which must be seen together or not at all.
fn record(book: &Ledger, id: &str) -> ledger::Result<()> {
    book.act(|act| {
        act.insert_lane(&sample::lane(id, id))?;
        let run = act.insert_run(&sample::run(id))?;
        act.end_run(run, 1, Exit::Code(0))?;
        let operation = NewOperation {
            at: 1,
            verb: "run".to_owned(),
            lane: Some(id.to_owned()),
            plan: json!({ "run": run }),
            outcome: "done".to_owned(),
            undo: None,
        };
        act.insert_op(&operation).map(|_| ())
    })
}

fn assert_whole(book: &Ledger, id: &str) {
    assert!(book.lane(id).expect("read").is_some(), "lane {id} is lost");
    assert_eq!(book.runs(id).expect("list").len(), 1, "lane {id} without its run");
    assert_eq!(book.ops(Some(id), 9).expect("list").len(), 1, "lane {id} without its operation");
}

#[test]
fn a_writer_records_whole_acts() {
    let own = tempfile::tempdir().expect("a temporary directory");
    let path = std::env::var_os(FILE).map_or_else(|| own.path().join("lane.db"), Into::into);
    let who = std::env::var(WHO).unwrap_or_else(|_| "w".to_owned());
    let count: u32 = std::env::var(COUNT).ok().and_then(|count| count.parse().ok()).unwrap_or(3);
    for number in 0..count {
        // Opened anew each time, as each command does.
        let book = Ledger::open(&path).expect("opened");
        let id = format!("{who}-{number}");
        record(&book, &id).expect("recorded");
        println!("{MARK}{id}");
        if count < 10 {
            assert_whole(&book, &id);
        }
    }
}

fn writer(path: &Path, who: &str, count: u32) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "processes::a_writer_records_whole_acts", "--nocapture"])
        .env(FILE, path)
        .env(WHO, who)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started")
}

#[test]
fn eight_processes_may_make_and_fill_one_ledger_at_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    // Nobody has made the file yet: all eight race to make it and to migrate it.
    let writers: Vec<Child> = (0..8).map(|number| writer(&path, &format!("w{number}"), 25)).collect();
    for child in writers {
        let output = child.wait_with_output().expect("waited for");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let book = Ledger::open(&path).expect("opened");
    book.check().expect("sound");
    let lanes = book.lanes(LaneFilter::default()).expect("list");
    assert_eq!(lanes.len(), 200);
    for lane in &lanes {
        assert_whole(&book, &lane.id);
    }
}

#[test]
fn a_writer_killed_at_any_moment_loses_nothing_that_was_recorded_and_leaves_no_half_act() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lane.db");
    let mut promised = Vec::new();
    for round in 0..12u32 {
        let mut child = writer(&path, &format!("k{round}"), 100_000);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut seen = lines.map(|line| line.expect("a line")).filter_map(|line| {
            // The harness may print its own words on the same line before ours.
            line.split_once(MARK).map(|(_, id)| id.to_owned())
        });
        promised.extend(seen.by_ref().take(3 + round as usize * 7));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        promised.extend(seen);

        let book = Ledger::open(&path).expect("opened after the kill");
        book.check().expect("sound after the kill");
        for lane in book.lanes(LaneFilter::default()).expect("list") {
            assert_whole(&book, &lane.id);
        }
    }
    let book = Ledger::open(&path).expect("opened");
    for id in &promised {
        assert_whole(&book, id);
    }
    assert!(promised.len() > 12);
}
