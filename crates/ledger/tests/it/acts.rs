//! What is recorded comes back as it was, and an act is whole or absent.

use ledger::{Error, Exit, Happened, LaneFilter, LaneState, Ledger, NewEvent, NewOperation};
use serde_json::json;

use crate::sample;

fn fresh() -> (tempfile::TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let book = Ledger::open(&dir.path().join("lane.db")).expect("a new ledger");
    (dir, book)
}

#[test]
fn a_lane_comes_back_byte_for_byte() {
    let (_dir, book) = fresh();
    let lane = sample::lane("l1", "fix");
    book.insert_lane(&lane).expect("recorded");
    assert_eq!(book.lane("l1").expect("read"), Some(lane.clone()));
    assert_eq!(book.lane_by_name(&lane.origin, "fix").expect("read"), Some(lane));
    assert_eq!(book.lane_by_name(b"/elsewhere", "fix").expect("read"), None);
}

#[test]
fn a_name_is_taken_until_its_lane_is_discarded() {
    let (_dir, book) = fresh();
    let first = sample::lane("l1", "fix");
    book.insert_lane(&first).expect("recorded");
    let refused = book.insert_lane(&sample::lane("l2", "fix")).expect_err("the name is taken");
    assert!(
        matches!(refused, Error::NameTaken { ref name, ref origin } if name == "fix" && *origin == first.origin)
    );

    book.discard_lane("l1", 9).expect("discarded");
    book.insert_lane(&sample::lane("l2", "fix")).expect("the name is free again");
    assert_eq!(book.lanes(LaneFilter::default()).expect("list").len(), 1);
    assert_eq!(book.lanes(LaneFilter { discarded: true, ..LaneFilter::default() }).expect("list").len(), 2);

    let refused = book.act(|act| act.recover_lane("l1", "fix")).expect_err("the name is taken again");
    assert!(matches!(refused, Error::NameTaken { .. }), "{refused}");
    assert_eq!(book.lane("l1").expect("read").map(|lane| lane.state), Some(LaneState::Discarded));
    book.act(|act| act.recover_lane("l1", "fix-2")).expect("recovered under another name");
    let back = book.lane("l1").expect("read").expect("there");
    assert_eq!((back.state, back.discarded_at, back.name.as_str()), (LaneState::Idle, None, "fix-2"));
}

#[test]
fn the_same_name_may_stand_on_two_origins() {
    let (_dir, book) = fresh();
    book.insert_lane(&sample::lane("l1", "fix")).expect("recorded");
    let mut other = sample::lane("l2", "fix");
    other.origin = b"/other".to_vec();
    book.insert_lane(&other).expect("recorded");
    let here = LaneFilter { origin: Some(b"/other"), ..LaneFilter::default() };
    assert_eq!(book.lanes(here).expect("list"), [other]);
}

#[test]
fn changes_of_a_lane_are_recorded() {
    let (_dir, book) = fresh();
    let mut lane = sample::lane("l1", "fix");
    book.insert_lane(&lane).expect("recorded");
    book.act(|act| {
        act.set_state("l1", LaneState::Live)?;
        act.rename_lane("l1", "better")?;
        act.set_base("l1", 3, 4, "boot-2")?;
        act.set_options("l1", &json!({ "net": "host" }), &json!([]))?;
        act.set_layers("l1", b"/trash")?;
        act.set_cost("l1", 1.5, 8192)
    })
    .expect("changed");
    lane.state = LaneState::Live;
    lane.name = "better".to_owned();
    (lane.base_sec, lane.base_nsec, lane.boot_id) = (3, 4, "boot-2".to_owned());
    (lane.options, lane.roots, lane.layers) = (json!({ "net": "host" }), json!([]), b"/trash".to_vec());
    (lane.cost_ms, lane.cost_bytes) = (1.5, 8192);
    assert_eq!(book.lane("l1").expect("read"), Some(lane));
}

#[test]
fn changing_a_row_that_is_not_there_names_it() {
    let (_dir, book) = fresh();
    let lane = book.set_state("nope", LaneState::Idle).expect_err("no such lane");
    assert!(matches!(lane, Error::Missing { what: "lane", ref id, .. } if id == "nope"), "{lane}");
    let run = book.end_run(7, 1, Exit::Code(0)).expect_err("no such run");
    assert!(matches!(run, Error::Missing { what: "run", ref id, .. } if id == "7"), "{run}");
}

#[test]
fn an_act_that_fails_half_way_leaves_nothing() {
    let (_dir, book) = fresh();
    let failed = book.act(|act| {
        act.insert_lane(&sample::lane("l1", "fix"))?;
        act.insert_run(&sample::run("l1"))?;
        act.set_state("nope", LaneState::Idle)
    });
    assert!(failed.is_err());
    assert_eq!(book.lane("l1").expect("read"), None);
    assert_eq!(book.runs("l1").expect("list"), []);
}

#[test]
fn a_run_its_end_and_its_events_come_back_in_order() {
    let (_dir, book) = fresh();
    let start = sample::run("l1");
    let first = book.insert_run(&start).expect("recorded");
    let second = book.insert_run(&start).expect("recorded");
    book.end_run(first, 9, Exit::Signal(9)).expect("ended");
    book.act(|act| act.set_started(second, 12, 34, &json!({ "pid": "full" }))).expect("started");

    let runs = book.runs("l1").expect("list");
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(runs[0].start, start);
    assert_eq!((runs[0].ended_at, runs[0].exit), (Some(9), Some(Exit::Signal(9))));
    assert_eq!((runs[1].start.pid, runs[1].start.pid_start), (Some(12), Some(34)));
    assert_eq!(book.last_run("l1").expect("read").map(|run| run.id), Some(second));
    assert_eq!(book.open_runs().expect("list").iter().map(|run| run.id).collect::<Vec<_>>(), [second]);
    book.end_run(second, 10, Exit::Lost).expect("ended");
    assert_eq!(book.run(second).expect("read").and_then(|run| run.exit), Some(Exit::Lost));

    for (at, kind) in [(3, "refused"), (1, "mounted")] {
        let what = Happened { at, kind: kind.to_owned(), path: None, host: None, data: json!({ "at": at }) };
        let event = NewEvent { run: first, what };
        book.act(|act| act.insert_event(&event)).expect("recorded");
    }
    let kinds: Vec<String> = book.events(first).expect("list").into_iter().map(|e| e.what.kind).collect();
    assert_eq!(kinds, ["refused", "mounted"]);

    book.act(|act| act.delete_lane("l1")).expect("deleted");
    assert_eq!((book.runs("l1").expect("list").len(), book.events(first).expect("list").len()), (0, 0));
}

#[test]
fn operations_are_listed_newest_first_and_keep_their_way_back() {
    let (_dir, book) = fresh();
    let keep = NewOperation {
        at: 1,
        verb: "keep".to_owned(),
        lane: Some("l1".to_owned()),
        plan: json!({ "steps": 2 }),
        outcome: "begun".to_owned(),
        undo: None,
    };
    let first = book.insert_op(&keep).expect("recorded");
    let second = book.insert_op(&NewOperation { lane: None, ..keep }).expect("recorded");
    book.act(|act| act.finish_op(first, "done", Some(&json!(["a"])))).expect("finished");
    let all = book.ops(None, 10).expect("list");
    assert_eq!(all.iter().map(|op| op.id).collect::<Vec<_>>(), [second, first]);
    let one = book.ops(Some("l1"), 10).expect("list");
    assert_eq!(
        (one.len(), one[0].act.outcome.as_str(), one[0].act.undo.clone()),
        (1, "done", Some(json!(["a"])))
    );
    assert_eq!(book.ops(None, 1).expect("list").len(), 1);
}

#[test]
fn every_open_run_of_one_lane_is_lost_and_no_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let book = Ledger::open(&dir.path().join("lane.db")).expect("a new ledger");
    for id in ["l1", "l2"] {
        book.insert_lane(&sample::lane(id, id)).expect("recorded");
    }
    let ended = book.insert_run(&sample::run("l1")).expect("recorded");
    book.end_run(ended, 7, Exit::Code(3)).expect("recorded");
    for lane in ["l1", "l1", "l2"] {
        book.insert_run(&sample::run(lane)).expect("recorded");
    }
    book.act(|act| act.lose_open_runs("l1", 9)).expect("recorded");
    let exits: Vec<_> =
        book.runs("l1").expect("read").into_iter().map(|run| (run.ended_at, run.exit)).collect();
    assert_eq!(
        exits,
        [(Some(7), Some(Exit::Code(3))), (Some(9), Some(Exit::Lost)), (Some(9), Some(Exit::Lost))]
    );
    assert_eq!(book.runs("l2").expect("read")[0].exit, None);
}
