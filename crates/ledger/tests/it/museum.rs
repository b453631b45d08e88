//! The museum: a ledger of each schema, as it was written then, is opened, raised, read and written to.
//! What is in the museum is never made again; a new schema adds a room.

use std::fs;
use std::path::Path;

use ledger::{Exit, Happened, LaneFilter, Ledger, NewEvent};
use serde_json::json;

fn visit(room: &str) -> (tempfile::TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/museum").join(room);
    fs::copy(from, dir.path().join("lane.db")).expect("copied");
    let book = Ledger::open(&dir.path().join("lane.db")).expect("an old ledger opens");
    (dir, book)
}

#[test]
fn ledgers_of_every_schema_are_raised_and_lose_nothing() {
    for (room, verdicts) in [("v1.db", 0), ("v2.db", 1)] {
        let (dir, book) = visit(room);
        book.check().expect("sound");
        let lanes = book.lanes(LaneFilter { discarded: true, ..LaneFilter::default() }).expect("reads");
        let names: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(names, ["fix", "gone"], "{room}");
        assert_eq!(lanes[0].origin, b"/home/\xffdev/pro:ject,\n");
        let runs = book.runs("aaaaaaaa").expect("reads");
        assert_eq!((runs.len(), runs[0].exit), (2, Some(Exit::Signal(9))), "{room}");
        let events = book.events(runs[0].id).expect("reads");
        let told: Vec<(&str, i64, &str)> = events
            .iter()
            .map(|event| (event.what.kind.as_str(), event.what.at, event.lane.as_str()))
            .collect();
        assert_eq!(told, [("refused", 6, "aaaaaaaa"), ("mounted", 7, "aaaaaaaa")], "{room}");
        assert_eq!(events[0].what.data, json!({ "path": "/a" }));
        let ops = book.ops(None, 10).expect("reads");
        assert_eq!(ops.iter().map(|op| op.act.verb.as_str()).collect::<Vec<_>>(), ["discard", "keep"]);
        assert_eq!(book.verdicts("aaaaaaaa").expect("reads").len(), verdicts, "{room}");

        // What was recorded before there was a chain is in it now, and the chain goes on.
        let chain = book.check_chain().expect("reads");
        assert_eq!(chain.broken, None, "{room}");
        assert_eq!(chain.links, 2 + 2 + 2 + 2 + verdicts as u64, "{room}");
        let what = Happened {
            at: 8,
            kind: "exec".into(),
            path: Some(b"/bin/sh".to_vec()),
            host: None,
            data: json!({}),
        };
        book.act(|act| act.insert_event(&NewEvent { run: runs[0].id, what })).expect("recorded");
        drop(book);
        let again = Ledger::open(&dir.path().join("lane.db")).expect("opens again");
        assert_eq!(again.events(runs[0].id).expect("reads").len(), 3);
        assert_eq!(again.check_chain().expect("reads").broken, None);
    }
}
