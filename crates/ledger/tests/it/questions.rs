//! Questions to the book, held against the same question asked of every record in turn.

use std::ops::ControlFlow;

use ledger::{Exit, Happened, Ledger, NewOperation, NewVerdict, Query, Record, Slip, slips, verdict::Word};
use serde_json::json;

use crate::sample;

const PATHS: [&[u8]; 6] = [b"/p", b"/p/a", b"/p/a/b\xff", b"/p/ab", b"/p0", b"/q"];
const HOSTS: [&str; 5] = ["example.com", "api.Example.com", "badexample.com", "10.0.0.1", "com"];

fn filled() -> (tempfile::TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let book = Ledger::open(&dir.path().join("lane.db")).expect("a new ledger");
    for (number, id) in ["l1", "l2", "l3"].into_iter().enumerate() {
        let base = number as i64 * 50;
        book.insert_lane(&sample::lane(id, id)).expect("recorded");
        let run = book.insert_run(&ledger::NewRun { started_at: base, ..sample::run(id) }).expect("recorded");
        let mut events = Vec::new();
        for n in 0..60usize {
            events.push(Happened {
                at: base + n as i64,
                kind: ["exec", "refused", "host", "open"][n % 4].to_owned(),
                path: (n % 4 != 2).then(|| PATHS[n % PATHS.len()].to_vec()),
                host: (n % 4 == 2).then(|| HOSTS[n % HOSTS.len()].to_owned()),
                data: json!({ "n": n }),
            });
        }
        book.act(|act| act.insert_events(run, &events)).expect("recorded");
        book.end_run(run, base + 60, Exit::Code(0)).expect("ended");
        let operation = NewOperation {
            at: base + 61,
            verb: "keep".into(),
            lane: Some(id.into()),
            plan: json!({}),
            outcome: "done".into(),
            undo: None,
        };
        book.act(|act| act.insert_op(&operation)).expect("recorded");
    }
    let verdict = NewVerdict {
        lane: "l2".into(),
        argv: vec![b"true".to_vec()],
        word: Word::Pass,
        exit: None,
        started_at: 1,
        ended_at: 70,
        state: None,
        snapshot: None,
        transcript: None,
    };
    book.act(|act| act.insert_verdict(&verdict)).expect("recorded");
    (dir, book)
}

fn ask(book: &Ledger, query: &Query) -> Vec<Record> {
    let mut found = Vec::new();
    let mut each = |record| {
        found.push(record);
        ControlFlow::Continue(())
    };
    book.query(query, &mut each).expect("answered");
    found
}

/// The question, asked of one record.
fn holds(query: &Query, record: &Record) -> bool {
    let (kind, run) = match record {
        Record::Operation(_) => ("operation", None),
        Record::Began(run) => ("run", Some(run.id)),
        Record::Ended(run) => ("end", Some(run.id)),
        Record::Verdict(_) => ("verdict", None),
        Record::Event(event) => (event.what.kind.as_str(), Some(event.run)),
    };
    let event = match record {
        Record::Event(event) => Some(&event.what),
        _ => None,
    };
    let below = |path: &[u8], top: &[u8]| {
        path == top || path.strip_prefix(top).is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    let named = |host: &str, top: &str| {
        let (host, top) = (host.to_ascii_lowercase(), top.to_ascii_lowercase());
        host == top || host.strip_suffix(&top).is_some_and(|rest| rest.ends_with('.'))
    };
    (query.lanes.is_empty() || record.lane().is_some_and(|lane| query.lanes.iter().any(|l| l == lane)))
        && query.run.is_none_or(|wished| run == Some(wished))
        && query.since.is_none_or(|since| record.at() >= since)
        && query.until.is_none_or(|until| record.at() < until)
        && (query.kinds.is_empty() || query.kinds.iter().any(|k| k == kind))
        && query.path.as_ref().is_none_or(|top| {
            event.and_then(|event| event.path.as_ref()).is_some_and(|path| below(path, top))
        })
        && query.host.as_ref().is_none_or(|top| {
            event.and_then(|event| event.host.as_ref()).is_some_and(|host| named(host, top))
        })
}

#[test]
fn every_filter_and_their_pairs_answer_as_a_look_at_every_record_does() {
    let (_dir, book) = filled();
    let all = ask(&book, &Query::default());
    assert_eq!(all.len(), 3 * (60 + 3) + 1);
    assert!(all.windows(2).all(|pair| pair[0].at() <= pair[1].at()), "in order of time");
    let none = Query::default;
    let parts: Vec<Query> = vec![
        Query { lanes: vec!["l2".into()], ..none() },
        Query { lanes: vec!["l1".into(), "l3".into()], ..none() },
        Query { run: Some(2), ..none() },
        Query { since: Some(55), ..none() },
        Query { until: Some(70), ..none() },
        Query { kinds: vec!["refused".into()], ..none() },
        Query { kinds: vec!["operation".into(), "exec".into()], ..none() },
        Query { kinds: vec!["end".into(), "verdict".into()], ..none() },
        Query { path: Some(b"/p".to_vec()), ..none() },
        Query { path: Some(b"/p/a/".to_vec()), ..none() },
        Query { host: Some("example.com".into()), ..none() },
        Query { host: Some("10.0.0.1".into()), ..none() },
    ];
    let both = |a: &Query, b: &Query| Query {
        lanes: if a.lanes.is_empty() { b.lanes.clone() } else { a.lanes.clone() },
        run: a.run.or(b.run),
        since: a.since.or(b.since),
        until: a.until.or(b.until),
        kinds: if a.kinds.is_empty() { b.kinds.clone() } else { a.kinds.clone() },
        path: a.path.clone().or(b.path.clone()),
        host: a.host.clone().or(b.host.clone()),
        newest: None,
    };
    let mut answers = 0;
    for a in &parts {
        for b in &parts {
            let query = both(a, b);
            let plain = Query {
                path: query.path.as_ref().map(|p| p.strip_suffix(b"/").unwrap_or(p).to_vec()),
                ..query.clone()
            };
            let expected: Vec<Record> = all.iter().filter(|record| holds(&plain, record)).cloned().collect();
            assert_eq!(ask(&book, &query), expected, "{query:?}");
            answers += usize::from(!expected.is_empty());
            for newest in [1, 7] {
                let some = ask(&book, &Query { newest: Some(newest), ..query.clone() });
                let from = expected.len().saturating_sub(newest as usize);
                assert_eq!(some, expected[from..], "{query:?}, the newest {newest}");
            }
        }
    }
    assert!(answers > 40, "only {answers} of the questions had an answer");
}

#[test]
fn who_follows_hears_everything_once_also_from_slips() {
    let (dir, book) = filled();
    let mut cursor = book.cursor().expect("an end");
    let follow = |cursor: &mut ledger::Cursor, query: &Query| {
        let mut found = Vec::new();
        let mut each = |record| {
            found.push(record);
            ControlFlow::Continue(())
        };
        book.follow(query, cursor, &mut each).expect("followed");
        found
    };
    assert_eq!(follow(&mut cursor, &Query::default()), []);
    let path = dir.path().join("lane.db");
    let start = ledger::NewRun { started_at: 500, pid: Some(9), ..sample::run("l1") };
    slips::append(&path, &Slip::Joined { run: Box::new(start) }).expect("appended");
    let event = |at| Happened { at, kind: "exec".into(), path: None, host: None, data: json!({}) };
    let happened = |events| Slip::Happened { lane: "l1".into(), pid: 9, started_at: 500, events };
    slips::append(&path, &happened(vec![event(501), event(502)])).expect("appended");
    let heard = follow(&mut cursor, &Query::default());
    assert_eq!(heard.iter().map(Record::at).collect::<Vec<_>>(), [500, 501, 502]);
    let left = Slip::Left { lane: "l1".into(), pid: 9, started_at: 500, at: 504, exit: Exit::Code(0) };
    slips::append(&path, &happened(vec![event(503)])).expect("appended");
    slips::append(&path, &left).expect("appended");
    let heard = follow(&mut cursor, &Query::default());
    assert_eq!(heard.iter().map(Record::at).collect::<Vec<_>>(), [503, 504]);
    assert!(matches!(heard[1], Record::Ended(_)));
    assert_eq!(follow(&mut cursor, &Query::default()), []);
    assert_eq!(book.check_chain().expect("read").broken, None);
}

#[test]
fn slips_of_events_that_are_met_again_after_a_kill_are_recorded_once() {
    let (dir, book) = filled();
    let path = dir.path().join("lane.db");
    let event = |at| Happened { at, kind: "exec".into(), path: None, host: None, data: json!({}) };
    let run = book.runs("l1").expect("reads")[0].clone();
    let happened = |events| Slip::Happened {
        lane: "l1".into(),
        pid: run.start.pid.expect("a pid"),
        started_at: run.start.started_at,
        events,
    };
    slips::append(&path, &happened(vec![event(600)])).expect("appended");
    let text = std::fs::read(dir.path().join("lane.db-slips")).expect("reads");
    drop(Ledger::open(&path).expect("opens"));
    // As a kill between the commit and the removal leaves it, with one more behind.
    std::fs::write(dir.path().join("lane.db-slips"), &text).expect("writes");
    slips::append(&path, &happened(vec![event(601)])).expect("appended");
    let book = Ledger::open(&path).expect("opens");
    let late: Vec<i64> =
        book.events(run.id).expect("reads").iter().map(|e| e.what.at).filter(|at| *at >= 600).collect();
    assert_eq!(late, [600, 601]);
}
