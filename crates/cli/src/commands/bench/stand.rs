//! The row of `history` about how long a live lane stands still for a snapshot, by the clock of a program in it.
//!
//! Invariant: a gap counts only where it meets the time of the snapshot, and a program that tells no gap at all has
//! not been measured.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::filled::{Filled, LANE};
use super::history::History;
use super::process::{self, Outcome, Trouble};
use super::row::{Promise, Row, Unit};
use super::stats;

const FILES: usize = 5000;
const CHANGED: usize = 10;

/// Looks at the clock all the time, and writes down when it came late: two times in nanoseconds.
const CLOCK: &str = r#"
import time
told = open("late", "w", 1)
last = time.monotonic_ns()
while True:
    time.sleep(0.0002)
    now = time.monotonic_ns()
    if now - last > 1000000:
        told.write("%d %d\n" % (last, now))
        now = time.monotonic_ns()
    last = now
"#;

pub(crate) fn of_a_snap(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let python = process::program("python3")?;
    let site = Filled::new(history.ground, "stand", FILES)?;
    site.snap().run()?;
    let live = ["run", "-d", "-n", LANE, "--checkpoints", "none", "--"];
    site.lane(live).args([python.as_os_str()]).args(["-c", CLOCK]).run()?;
    let measured = measure(&site, wanted.unwrap_or(31));
    site.lane(["stop", LANE]).run()?;
    let (with, without) = measured?;
    let rounds = with.len();
    let note = format!(
        "{:.1} ms at most; {:.1} ms (median) over another command",
        with.iter().copied().fold(0.0, f64::max),
        stats::median(&without)
    );
    Ok(Row::within(promise, Unit::Ms, stats::median(&with), rounds).note(note))
}

/// The longest gaps over a snapshot, and over a command that takes none.
fn measure(site: &Filled<'_>, rounds: usize) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // The clock begins a moment after the lane stands.
    for _ in 0..500 {
        if site.upper.join("late").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for round in 0..=rounds {
        let names: Vec<String> =
            (0..CHANGED).map(|n| site.name((n * FILES / CHANGED + round) % FILES)).collect();
        let script = format!("for f in {}; do echo {round} >$f; done", names.join(" "));
        site.lane(["exec", LANE, "--", "sh", "-c", &script]).run()?;
        site.settle()?;
        let over = |args: &[&str]| {
            let from = now();
            site.lane(args.iter().copied()).run()?;
            gap(site, from, now())
        };
        let (taken, idle) = (over(&["snap", LANE])?, over(&["log", LANE])?);
        // The first one begins the guard.
        if round > 0 {
            with.push(taken);
            without.push(idle);
        }
    }
    if with.iter().all(|gap| *gap == 0.0) {
        return Err(Trouble::Failed("the clock inside tells of no gap".to_owned()));
    }
    let log: serde_json::Value = serde_json::from_str(&site.lane(["log", LANE, "--json"]).run()?.out)
        .map_err(|error| Trouble::Failed(format!("log --json: {error}")))?;
    let wrote =
        log["snapshots"].as_array().into_iter().flatten().filter(|one| one["quiescence"] == "running");
    match wrote.count() * 2 > rounds {
        true => Err(Trouble::Failed("most snapshots were taken while the lane wrote".to_owned())),
        false => Ok((with, without)),
    }
}

/// The longest gap in milliseconds that meets a span of time.
fn gap(site: &Filled<'_>, from: i64, to: i64) -> Outcome<f64> {
    let told = std::fs::read_to_string(site.upper.join("late"))?;
    Ok(longest(&told, from, to))
}

fn longest(told: &str, from: i64, to: i64) -> f64 {
    let gaps = told.lines().filter_map(|line| {
        let (begin, end) = line.split_once(' ')?;
        Some((begin.parse::<i64>().ok()?, end.parse::<i64>().ok()?))
    });
    let met = gaps.filter(|(begin, end)| *end >= from && *begin <= to).map(|(begin, end)| end - begin);
    met.max().unwrap_or(0) as f64 / 1e6
}

/// Nanoseconds of the clock that the program inside looks at.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::longest;

    #[test]
    fn only_gaps_of_the_time_count_and_the_longest_of_them() {
        let told = "10 2000010\n3000000 9000000\n20000000 21000000\n30000000 9000000000\nhalf";
        assert!((longest(told, 2_500_000, 22_000_000) - 6.0).abs() < 1e-9);
        assert!(longest(told, 22_000_000, 23_000_000).abs() < 1e-9);
    }
}
