//! The rows of `history` about the watch over a live lane: the processor time that it takes while work goes on inside.
//!
//! Invariant: the watch is found by its place among the supervisor's children, and one that is not found is never a figure.

use std::path::Path;

use super::ground::Live;
use super::history::History;
use super::process::{self, Outcome, Trouble};
use super::row::{Figure, Promise, Row, Unit};
use crate::render::report;

pub(crate) fn of_a_build(history: &History<'_>, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    process::program("cargo")?;
    let project = history.ground.corpus("rust")?;
    watched(history, promise, &project, "cargo build --offline -q --target-dir bench-watch")
}

pub(crate) fn of_writes(history: &History<'_>, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let project = history.ground.scratch().join("written");
    std::fs::create_dir(&project)?;
    let script = "(n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); echo $n >f$((n % 500)); done)";
    watched(history, promise, &project, script)
}

/// The processor time of the watch over a live lane while a script runs in it, over that of the script.
fn watched(history: &History<'_>, promise: &Promise, project: &Path, script: &str) -> Outcome<Row> {
    let live = history.ground.live(project, "bench-watch")?;
    let watch = watcher(&live)?;
    let spent = || process::processor_time(watch).ok_or_else(gone);
    let before = spent()?;
    // The shell's own words tell what it and its children took.
    let said = live.exec(["sh", "-c", &format!("{script} && times")]).run()?.out;
    let after = spent()?;
    let peer = Figure { name: "the work itself".to_owned(), value: times(&said)? };
    // Asked for a snapshot of what was written, it is busy with that.
    history.ground.lane(project, ["snap", "bench-watch"]).run()?;
    let snapshot = report::millis(spent()? - after);
    Ok(Row::over(promise, Unit::Ms, after - before, peer)
        .note(format!("processor time; a snapshot of all that was written then took {snapshot}")))
}

/// The process that watches a live lane: the supervisor's child that has no part in what runs inside.
fn watcher(live: &Live<'_>) -> Outcome<i32> {
    // When a further command has ended, whoever helped the first one to its start has ended too.
    live.exec(["true"]).run()?;
    let inside = live.process()?;
    process::children(live.supervisor)
        .into_iter()
        .rfind(|child| !process::is_below(*child, inside) && process::processor_time(*child).is_some())
        .ok_or_else(gone)
}

fn gone() -> Trouble {
    Trouble::Failed("the process that watches the lane is not found in /proc".to_owned())
}

/// Milliseconds in the four figures of the shell's `times`: its own, then its children's.
fn times(said: &str) -> Outcome<f64> {
    let figures: Vec<f64> = said.split_whitespace().filter_map(minutes).collect();
    match figures.len() {
        4 => Ok(figures.iter().sum()),
        _ => Err(Trouble::Failed(format!("the shell told no times: {said}"))),
    }
}

/// `1m2.50s` in milliseconds.
fn minutes(word: &str) -> Option<f64> {
    let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
    Some((minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?) * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::times;

    #[test]
    fn the_times_of_a_shell_are_all_four_in_milliseconds() {
        let spent = times("0m0.50s 0m0.25s\n1m2.00s 0m0.25s\n").expect("four figures");
        assert!((spent - 63_000.0).abs() < 1e-6, "{spent}");
        assert!(times("nothing").is_err());
    }
}
