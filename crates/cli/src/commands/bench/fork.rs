//! The row of `history` about forks: a lane whose layer holds a gigabyte in thirty thousand files, forked again and again.
//!
//! Invariant: every round forks a lane with everything in its own layer. The fork of the round before is dropped, and the
//! layer that it shared is put back by hand, so that it need not be written once more.

use std::fs;
use std::path::PathBuf;

use super::filled::{Filled, LANE};
use super::history::{History, pace, room};
use super::process::{Job, Outcome, Trouble};
use super::row::{Promise, Row, Unit, paired};
use super::stats;
use crate::render::report;

const FILES: usize = 30_000;
const PER_DIRECTORY: usize = 100;
const SIZE: u64 = 1 << 30;

/// `fork` of a lane at rest with much in its layer.
pub(crate) fn of_much(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let site = Filled::new(history.ground, "fork", 0)?;
    // The files, and as much again to stay free.
    let size = if room(&site.upper)? > 3 * SIZE { SIZE } else { SIZE / 16 };
    fill(&site, size)?;
    let mut fork = |round: usize| {
        let name = format!("fork-{round}");
        let took = site.lane(["fork", LANE, name.as_str()]).time()?;
        site.lane(["exec", name.as_str(), "--", "test", "-e", "d0299/f029999"]).run()?;
        site.lane(["discard", name.as_str(), "--now", "--yes"]).run()?;
        put_back(&site)?;
        site.settle()?;
        Ok(took)
    };
    let rounds = paired(pace(wanted, 21, 120), &mut [&mut fork])?;
    let note = format!("{FILES} files, {} in the layer of the lane", report::bytes(size));
    Ok(Row::within(promise, Unit::Ms, stats::median(&rounds.0[0]), rounds.0[0].len()).note(note))
}

fn fill(site: &Filled<'_>, size: u64) -> Outcome<()> {
    let each = size as usize / FILES;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = vec![0_u8; each];
    for number in 0..FILES {
        let dir = site.upper.join(format!("d{:04}", number / PER_DIRECTORY));
        if number % PER_DIRECTORY == 0 {
            fs::create_dir(&dir)?;
        }
        for word in bytes.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        fs::write(dir.join(format!("f{number:06}")), &bytes)?;
    }
    site.settle()
}

/// Makes the sealed layer, on which the lane alone stands by now, its own again.
fn put_back(site: &Filled<'_>) -> Outcome<()> {
    let lane = site.upper.parent().map(PathBuf::from).unwrap_or_default();
    let stack = lane.join("stack.0");
    let id = fs::read_link(&stack)?;
    let layer = site.state().join("layers").join(&id);
    if !layer.join("d0000").is_dir() {
        return Err(Trouble::Failed(format!("the fork left no sealed layer: {}", layer.display())));
    }
    fs::remove_file(&stack)?;
    fs::remove_dir(&site.upper)?;
    Job::new("mv", &lane).args([&layer, &site.upper]).run().map(drop)
}
