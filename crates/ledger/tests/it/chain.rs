//! The chain: whoever changes, removes or slips in a record behind the program's back is found, with the place.

use std::path::Path;

use ledger::{Exit, Fault, Happened, Ledger, NewOperation};
use serde_json::json;

use crate::sample;

fn happened(at: i64, path: &str) -> Happened {
    let path = Some(path.as_bytes().to_vec());
    Happened { at, kind: "exec".to_owned(), path, host: None, data: json!({ "argv": ["a"] }) }
}

/// Two lanes with runs, events in several batches, operations.
fn filled(path: &Path) -> Ledger {
    let book = Ledger::open(path).expect("a new ledger");
    for (id, name) in [("l1", "fix"), ("l2", "try")] {
        book.insert_lane(&sample::lane(id, name)).expect("recorded");
        let run = book.insert_run(&sample::run(id)).expect("recorded");
        for batch in 0..3 {
            let events: Vec<Happened> = (0..5).map(|n| happened(batch * 10 + n, "/bin/true")).collect();
            book.act(|act| act.insert_events(run, &events)).expect("recorded");
        }
        book.end_run(run, 9, Exit::Code(0)).expect("ended");
        let operation = NewOperation {
            at: 10,
            verb: "keep".to_owned(),
            lane: Some(id.to_owned()),
            plan: json!({ "steps": 1 }),
            outcome: "begun".to_owned(),
            undo: None,
        };
        let id = book.act(|act| act.insert_op(&operation)).expect("recorded");
        book.act(|act| act.finish_op(id, "done", None)).expect("finished");
    }
    book
}

#[test]
fn an_untouched_book_holds_and_has_a_head_that_moves() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let book = filled(&dir.path().join("lane.db"));
    let chain = book.check_chain().expect("read");
    assert_eq!(chain.broken, None);
    assert_eq!((chain.links, chain.records), (2 * 8, 2 * (1 + 1 + 15 + 1)));
    assert_eq!(chain.head, book.head().expect("read"));
    book.act(|act| act.delete_lane("l2")).expect("removed");
    let after = book.check_chain().expect("read");
    assert_eq!(after.broken, None, "what the program removes by itself is no damage");
    assert_ne!(after.head, chain.head);
}

#[test]
fn each_kind_of_tampering_is_found_at_its_place() {
    let cases: [(&str, &str, Fault); 12] = [
        ("UPDATE events SET data = '{}' WHERE id = 8", "events", Fault::Changed),
        ("UPDATE events SET path = x'2f' WHERE id = 8", "events", Fault::Changed),
        ("DELETE FROM events WHERE id = 8", "events", Fault::Changed),
        ("DELETE FROM events WHERE id BETWEEN 6 AND 10", "events", Fault::Missing),
        (
            "INSERT INTO events (run, lane, at, kind, data) VALUES (1, 'l1', 1, 'exec', '{}')",
            "events",
            Fault::Unlinked,
        ),
        ("UPDATE operations SET outcome = 'failed' WHERE id = 1", "operation", Fault::Changed),
        (
            "INSERT INTO operations (at, verb, plan, outcome) VALUES (1, 'keep', '{}', 'done')",
            "operation",
            Fault::Unlinked,
        ),
        ("UPDATE runs SET exit_value = 1 WHERE id = 2", "run", Fault::Changed),
        ("DELETE FROM runs WHERE id = 2", "run", Fault::Missing),
        ("UPDATE lanes SET origin = x'2f' WHERE id = 'l2'", "lane", Fault::Changed),
        ("UPDATE links SET body = zeroblob(32) WHERE id = 5", "events", Fault::Chain),
        ("DELETE FROM links WHERE id = 4", "events", Fault::Chain),
    ];
    for (sql, what, fault) in cases {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("lane.db");
        let book = filled(&path);
        let raw = rusqlite::Connection::open(&path).expect("the same file");
        assert!(raw.execute(sql, []).expect(sql) > 0, "{sql}");
        let broken = book.check_chain().expect("read").broken.expect(sql);
        assert_eq!((broken.what.as_str(), broken.why), (what, fault), "{sql}");
        if what == "events" && fault == Fault::Changed {
            assert_eq!((broken.rows, broken.lane.as_deref()), ((6, 10), Some("l1")), "{sql}");
        }
    }
}

#[test]
fn a_name_and_a_state_may_move_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let book = filled(&dir.path().join("lane.db"));
    book.rename_lane("l1", "other").expect("renamed");
    book.discard_lane("l2", 77).expect("discarded");
    assert_eq!(book.check_chain().expect("read").broken, None);
}
