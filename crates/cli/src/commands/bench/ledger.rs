//! The suite `ledger`: what it costs to record what happens in runs, and to ask a record of a million happenings.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use super::ground::Ground;
use super::history::pace;
use super::process::{Outcome, Trouble};
use super::row::{Promise, Row, Unit, paired};
use super::stats;

/// Measures one row.
type Measure = fn(&Ground, &Promise, Option<usize>) -> Outcome<Row>;

/// The rows, in the order in which they are printed.
pub(crate) const ROWS: [(&str, &str, f64, Measure); 3] = [
    ("record-100k", "100,000 happenings, a busy minute's, taken from slips into the record", 6000.0, record),
    ("query-million", "the slowest of five questions to a record of a million happenings", 100.0, query),
    ("trace-exec", "a shell loop that starts 300 programs, traced", 2.0, traced),
];

const LANE: &str = "work";
/// Happenings of one slip.
const SLIP: usize = 2000;

/// A project whose lane has a run that things are said of.
struct Book<'g> {
    ground: &'g Ground,
    project: PathBuf,
    lane: String,
}

impl<'g> Book<'g> {
    fn new(ground: &'g Ground, name: &str) -> Outcome<Book<'g>> {
        let project = ground.scratch().join(name);
        fs::create_dir_all(&project)?;
        ground.lane(&project, ["run", "-q", "-n", LANE, "--", "true"]).run()?;
        let shown = ground.lane(&project, ["show", LANE, "--json"]).run()?.out;
        let shown: serde_json::Value =
            serde_json::from_str(&shown).map_err(|error| Trouble::Failed(error.to_string()))?;
        let lane = shown["lane"]["id"].as_str().unwrap_or_default().to_owned();
        Ok(Book { ground, project, lane })
    }

    /// Puts happenings on slips, as a run does.
    fn say(&self, from: usize, count: usize) -> Outcome<()> {
        let slips = self.ground.state().join("lane.db-slips");
        let mut file = fs::OpenOptions::new().append(true).create(true).open(slips)?;
        for first in (from..from + count).step_by(SLIP) {
            let events: Vec<serde_json::Value> =
                (first..(first + SLIP).min(from + count)).map(event).collect();
            let slip =
                json!({ "happened": { "lane": self.lane, "pid": 1, "started_at": 1, "events": events } });
            file.write_all(format!("{slip}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Has them taken into the record.
    fn take(&self) -> Outcome<f64> {
        let began = Instant::now();
        self.ground.lane(&self.project, ["ledger", "-q", "-n", "1"]).run()?;
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }
}

/// One of a thousand is a refusal, every tenth a host, the rest programs.
fn event(n: usize) -> serde_json::Value {
    let at = 1_700_000_000_000_u64 + n as u64;
    let hex = |text: String| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    match n {
        n if n % 1000 == 7 => {
            json!({ "at": at, "kind": "refused", "path": hex(format!("/mnt/{n}")),
                    "data": { "wall": "syscall", "rule": "mounts", "call": "mount", "program": "sh", "pid": n } })
        }
        n if n % 10 == 3 => {
            json!({ "at": at, "kind": "host", "host": format!("h{}.example.com", n % 5000),
                    "data": { "rule": "open", "port": 443, "sent": n, "received": n } })
        }
        _ => json!({ "at": at, "kind": "exec", "path": hex(format!("/usr/bin/tool{}", n % 300)),
                     "data": { "pid": n, "parent": n / 2, "argv": ["tool", "--flag", format!("src/file{n}.rs")], "cut": false } }),
    }
}

fn record(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let book = Book::new(ground, "record")?;
    let rounds = wanted.unwrap_or(5);
    let mut spent = Vec::new();
    for round in 0..rounds {
        book.say(round * 100_000, 100_000)?;
        spent.push(book.take()?);
    }
    Ok(Row::within(promise, Unit::Ms, stats::median(&spent), rounds)
        .note("on top of the writing of the slips, which is a write a second"))
}

fn query(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let book = Book::new(ground, "million")?;
    for part in 0..10 {
        book.say(part * 100_000, 100_000)?;
        book.take()?;
    }
    let questions: [(&str, &[&str]); 5] = [
        ("newest", &["-n", "200"]),
        ("refused", &["--kind", "refused", "-n", "200"]),
        ("path", &["--path", "/mnt/500007"]),
        ("host", &["--host", "h1203.example.com", "-n", "200"]),
        ("time", &["--since", "2023-11-14T22:20:00Z", "--until", "2023-11-14T22:20:01Z", "--kind", "host"]),
    ];
    let pace = pace(wanted, 11, 60);
    let (mut slowest, mut said) = (0.0_f64, Vec::new());
    for (name, question) in questions {
        let mut all = vec!["ledger", LANE, "--json"];
        all.extend_from_slice(question);
        let job = ground.lane(&book.project, all);
        if job.run()?.out.is_empty() {
            return Err(Trouble::Failed(format!("the question {name} has no answer")));
        }
        let mut spent = Vec::new();
        for _ in 0..pace.rounds {
            spent.push(job.time()?);
        }
        let median = stats::median(&spent);
        slowest = slowest.max(median);
        said.push(format!("{name} {median:.1} ms"));
    }
    Ok(Row::within(promise, Unit::Ms, slowest, pace.rounds).note(said.join(", ")))
}

fn traced(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.scratch().join("traced");
    fs::create_dir_all(&project)?;
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let job = |flags: &[&str]| {
        let mut all = vec!["run", "-q", "--rm"];
        all.extend_from_slice(flags);
        all.extend(["--", "sh", "-c", script]);
        ground.lane(&project, all)
    };
    let (ours, plain) = (job(&["--trace-exec"]), job(&[]));
    let rounds = paired(pace(wanted, 15, 90), &mut [&mut |_| ours.time(), &mut |_| plain.time()])?;
    Ok(Row::compared(promise, &rounds, "the same, not traced", None))
}
