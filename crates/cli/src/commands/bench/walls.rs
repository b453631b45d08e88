//! The suite `walls`: what the walls themselves cost, against a bare user namespace with the same overlay in the same rounds.

use std::time::Duration;

use super::ground::Ground;
use super::process::{self, Outcome};
use super::row::{Leg, Pace, Promise, Row, paired};
use super::tax::Bare;

/// Measures one row.
type Measure = fn(&Ground, &Promise, Option<usize>) -> Outcome<Row>;

/// The rows: name, words, target, and the way to measure.
pub(crate) const ROWS: [(&str, &str, f64, Measure); 3] = [
    ("walls-forks", "a loop of 1,000 programs, as configure runs them, live lane", 1.10, forks),
    ("walls-opens", "reading 5,000 files, live lane", 1.10, opens),
    ("walls-status", "git status of 80,000 files, live lane", 1.05, status),
];

/// Every program is forked by the shell and looked for along the path.
const FORKS: &str = "i=0; while [ $i -lt 1000 ]; do env true; i=$((i + 1)); done";

fn pace(wanted: Option<usize>, rounds: usize, secs: u64) -> Pace {
    let rounds = wanted.unwrap_or(rounds);
    Pace { rounds, limit: Duration::from_secs(secs), warm_up: rounds > 5 }
}

/// A script in a live lane and in a bare overlay that stays mounted, with the outside as the floor.
fn against_bare(
    ground: &Ground,
    project: &std::path::Path,
    script: &str,
    promise: &Promise,
    pace: Pace,
) -> Outcome<Row> {
    let live = ground.live(project, "bench-walls")?;
    let inside = live.exec(["sh", "-c", script]);
    let standing = Bare::new(ground)?.standing(project)?;
    let there = format!("cd '{}' && {script}", project.display());
    let bare = standing.exec(&["sh", "-c", &there])?;
    let outside = ground.shell(project, script);
    // What is read for the first time is another row.
    inside.run()?;
    bare.run()?;
    let mut legs: [Leg<'_>; 3] = [&mut |_| inside.time(), &mut |_| bare.time(), &mut |_| outside.time()];
    let rounds = paired(pace, &mut legs)?;
    Ok(Row::compared(promise, &rounds, "bare overlay", Some("native")))
}

fn forks(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("rust")?;
    against_bare(ground, &project, FORKS, promise, pace(wanted, 15, 120))
}

fn opens(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("linux")?;
    let read = "find kernel fs -type f | head -5000 | xargs cat > /dev/null";
    against_bare(ground, &project, read, promise, pace(wanted, 15, 120))
}

fn status(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    process::program("git")?;
    let project = ground.corpus("linux")?;
    against_bare(ground, &project, "git status --porcelain", promise, pace(wanted, 15, 120))
}
