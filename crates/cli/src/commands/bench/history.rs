//! The suite `history`: what snapshots cost, going back to one, looking at them, and watching for the moment to take one.
//!
//! The peers are a copy of the same files, which keeps nothing safe, and a repository beside them (a shadow), as tools
//! keep one for their checkpoints. The snapshots are on disk when their command ends; the peers' work is not.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::filled::{Filled, LANE, large_file};
use super::ground::{Ground, on_disk};
use super::process::{Outcome, Trouble};
use super::row::{Figure, Pace, Promise, Rounds, Row, Unit, paired};
use super::{fork, stand, stats, watch};
use crate::render::report;

/// The ground with the rounds and lanes that rows share.
#[derive(Debug)]
pub(crate) struct History<'g> {
    pub(crate) ground: &'g Ground,
    first: OnceCell<Outcome<Rounds>>,
    next: OnceCell<Outcome<Rounds>>,
    long: OnceCell<Outcome<Long<'g>>>,
}

/// Measures one row.
type Measure = fn(&History<'_>, &Promise, Option<usize>) -> Outcome<Row>;

/// The rows, in the order in which they are printed.
pub(crate) const ROWS: [(&str, &str, f64, Measure); 17] = [
    ("snap-first", "snap of 5,000 new files of 2 KiB", 0.6, snap_first),
    ("snap-first-git", "the same against a commit into a shadow repository", 0.15, snap_first_git),
    ("snap-next", "snap, 10 of 5,000 files changed", 0.25, snap_next),
    ("snap-next-git", "the same against a commit into a shadow repository", 0.5, snap_next_git),
    ("snap-same", "bytes that a snap of 5,000 unchanged files writes beside its record", 0.0, snap_same),
    ("page", "a large file with one page changed in place, stored once more", 1024.0 * 1024.0, page),
    (
        "stand",
        "the longest gap that a live lane sees over a snap, 10 of 5,000 files changed",
        25.0,
        stand::of_a_snap,
    ),
    ("restore", "restore over 10 changed of 5,000 files", 0.1, restore),
    ("restore-unsaved", "the same where the state that is left has no snapshot yet", 0.35, restore_unsaved),
    ("diff-states", "diff A B --name-only, 10 of 5,000 files changed against all", 0.5, diff_states),
    ("diff-size", "diff A B --name-only, 10 changed of 20,000 against of 1,000", 1.5, diff_size),
    ("log", "log of 1,000 snapshots", 50.0, log),
    ("snap-late", "the 1,000th snapshot of a lane against the 10th", 1.2, snap_late),
    ("grow", "what 100 late snapshots add to the store against 100 early ones", 1.2, grow),
    ("fork", "fork of a lane at rest with 1 GiB in 30,000 files", 10.0, fork::of_much),
    ("watch", "processor time of the watch over a lane that builds", 0.01, watch::of_a_build),
    (
        "watch-writes",
        "processor time of the watch over a lane that writes without end",
        0.01,
        watch::of_writes,
    ),
];

/// Rows that are measured once more on every filesystem that root can make.
pub(crate) const ON_IMAGES: [&str; 7] =
    ["snap-first", "snap-first-git", "snap-next", "snap-next-git", "page", "restore", "restore-unsaved"];

const FILES: usize = 5000;

/// A lane with about a thousand snapshots and one with about ten, alike in everything else.
#[derive(Debug)]
struct Long<'g> {
    late: Filled<'g>,
    early: Filled<'g>,
    /// Bytes that the first hundred and the last hundred snapshots of the long one added to its store.
    first_hundred: u64,
    last_hundred: u64,
}

pub(crate) fn pace(wanted: Option<usize>, rounds: usize, secs: u64) -> Pace {
    let rounds = wanted.unwrap_or(rounds);
    Pace { rounds, limit: Duration::from_secs(secs), warm_up: rounds > 5 }
}

impl<'g> History<'g> {
    pub(crate) fn new(ground: &'g Ground) -> History<'g> {
        History { ground, first: OnceCell::new(), next: OnceCell::new(), long: OnceCell::new() }
    }

    /// What a copy is made with.
    fn copy(&self) -> &'static str {
        if self.ground.clones() { "cp -a --reflink" } else { "cp -r" }
    }

    /// Rounds of a first snapshot, a copy, and a first commit of the same new files, each round with files of its own.
    fn first(&self, wanted: Option<usize>) -> Outcome<&Rounds> {
        let measured = self.first.get_or_init(|| {
            let mut sites = BTreeMap::new();
            let pace = pace(wanted, 11, 200);
            for round in usize::from(!pace.warm_up)..=pace.rounds {
                let site = Filled::new(self.ground, &format!("first-{round}"), FILES)?;
                let shadow = site.shadow()?;
                sites.insert(round, (site, shadow));
            }
            let of = |round: usize| {
                let (site, shadow) =
                    sites.get(&round).ok_or_else(|| Trouble::Failed("no lane of this round".to_owned()))?;
                site.settle()?;
                Ok::<_, Trouble>((site, shadow))
            };
            let rounds = paired(
                pace,
                &mut [
                    &mut |round| of(round)?.0.snap().time(),
                    &mut |round| of(round)?.0.copy(),
                    &mut |round| of(round)?.1.time(),
                ],
            )?;
            let site = of(1)?.0;
            site.holds(FILES)?;
            Ok(rounds)
        });
        measured.as_ref().map_err(Clone::clone)
    }

    /// Rounds of a snapshot, a copy, and a commit of the same lane after the same ten files were changed.
    fn next(&self, wanted: Option<usize>) -> Outcome<&Rounds> {
        let measured = self.next.get_or_init(|| {
            let site = Filled::new(self.ground, "next", FILES)?;
            let shadow = site.shadow()?;
            site.snap().run()?;
            shadow.run()?;
            let changed = std::cell::Cell::new(usize::MAX);
            // Whoever comes first in a round changes them for all.
            let prepare = |round: usize| {
                if changed.replace(round) != round {
                    site.change(10, round)?;
                }
                site.settle()
            };
            paired(
                pace(wanted, 31, 200),
                &mut [
                    &mut |round| prepare(round).and_then(|()| site.snap().time()),
                    &mut |round| prepare(round).and_then(|()| site.copy()),
                    &mut |round| prepare(round).and_then(|()| shadow.time()),
                ],
            )
        });
        measured.as_ref().map_err(Clone::clone)
    }

    /// The lane with the long history.
    fn long(&self) -> Outcome<&Long<'g>> {
        let measured = self.long.get_or_init(|| {
            let grown = |site: &Filled<'_>, snapshots: std::ops::Range<usize>| {
                let before = on_disk(&site.store(), None);
                for number in snapshots {
                    site.change(3, number)?;
                    site.snap().run()?;
                }
                Ok::<u64, Trouble>(on_disk(&site.store(), None).saturating_sub(before))
            };
            let late = Filled::new(self.ground, "late", FILES / 10)?;
            let early = Filled::new(self.ground, "early", FILES / 10)?;
            grown(&early, 0..9)?;
            late.snap().run()?;
            let first_hundred = grown(&late, 1..101)?;
            grown(&late, 101..899)?;
            let last_hundred = grown(&late, 899..999)?;
            Ok(Long { late, early, first_hundred, last_hundred })
        });
        measured.as_ref().map_err(Clone::clone)
    }
}

/// Rounds with the third leg in the place of the second.
fn against_third(rounds: &Rounds) -> Rounds {
    Rounds(vec![rounds.0[0].clone(), rounds.0[2].clone()])
}

fn snap_first(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let rounds = history.first(wanted)?;
    Ok(Row::compared(promise, rounds, history.copy(), None).note("with the syncs; the copy has none"))
}

fn snap_first_git(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    Ok(Row::compared(promise, &against_third(history.first(wanted)?), "git add, commit", None))
}

fn snap_next(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let rounds = history.next(wanted)?;
    Ok(Row::compared(promise, rounds, history.copy(), None).note("with the syncs; the copy has none"))
}

fn snap_next_git(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    Ok(Row::compared(promise, &against_third(history.next(wanted)?), "git add, commit", None))
}

fn snap_same(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let site = Filled::new(history.ground, "same", FILES)?;
    site.snap().run()?;
    let rounds = wanted.unwrap_or(5);
    let (mut written, mut records) = (0, 0);
    for _ in 0..rounds {
        let before = files(&site.store());
        site.snap().run()?;
        for (path, now) in files(&site.store()) {
            let is_record = path.starts_with(site.store().join("history"));
            match before.get(&path) {
                Some(then) if *then == now => {}
                Some(then) if is_record => records += now.size.saturating_sub(then.size),
                _ if is_record => records += now.size,
                _ => written += now.size,
            }
        }
    }
    let record = report::bytes(records / rounds as u64);
    Ok(Row::within(promise, Unit::Bytes, written as f64, rounds).note(format!("a record is {record}")))
}

/// What tells one state of a file from another.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Every file below a directory.
fn files(top: &Path) -> BTreeMap<PathBuf, Stamp> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() {
                open.push(entry.path());
            } else {
                let changed = (meta.ctime(), meta.ctime_nsec());
                found.insert(entry.path(), Stamp { inode: meta.ino(), size: meta.size(), changed });
            }
        }
    }
    found
}

fn page(history: &History<'_>, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    const WANTED: u64 = 1 << 30;
    let site = Filled::new(history.ground, "page", 50)?;
    // The file, and what the store keeps of it.
    let size = if room(&site.upper)? > 3 * WANTED { WANTED } else { WANTED / 16 };
    let at = site.upper.join("large");
    large_file(&at, size)?;
    site.snap().run()?;
    let used = || -> Outcome<u64> {
        site.settle()?;
        // Clones share their blocks, so that only the filesystem knows what was added.
        if history.ground.clones() {
            Ok(u64::MAX - room(&site.upper)?)
        } else {
            Ok(on_disk(&site.store(), None))
        }
    };
    let before = used()?;
    std::fs::OpenOptions::new().write(true).open(&at)?.write_all_at(&[0x5a; 4096], size / 2)?;
    site.settle()?;
    site.snap().run()?;
    let added = used()?.saturating_sub(before);
    let how =
        if history.ground.clones() { "by the room left on the filesystem" } else { "by the store's blocks" };
    let note = format!("a file of {}, {how}", report::bytes(size));
    Ok(Row::within(promise, Unit::Bytes, added as f64, 1).note(note))
}

/// Bytes that are free on the filesystem of a file.
pub(crate) fn room(at: &Path) -> Outcome<u64> {
    let stat =
        rustix::fs::statvfs(at).map_err(|error| Trouble::Failed(format!("{}: {error}", at.display())))?;
    Ok(stat.f_bfree * stat.f_frsize)
}

fn restore(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let site = Filled::new(history.ground, "restore", FILES)?;
    let a = site.snapshot()?;
    site.change(10, 0)?;
    let b = site.snapshot()?;
    // There and back: ten files are put back either way.
    let to = std::cell::Cell::new((a.as_str(), b.as_str()));
    let mut back = |_: usize| {
        site.settle()?;
        let (target, other) = to.get();
        to.set((other, target));
        site.lane(["restore", LANE, target, "--yes"]).time()
    };
    let mut copy = |_: usize| site.settle().and_then(|()| site.copy());
    let rounds = paired(pace(wanted, 31, 200), &mut [&mut back, &mut copy])?;
    Ok(Row::compared(promise, &rounds, history.copy(), None))
}

fn restore_unsaved(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let site = Filled::new(history.ground, "unsaved", FILES)?;
    let a = site.snapshot()?;
    let mut back = |round: usize| {
        site.change(10, round)?;
        site.settle()?;
        site.lane(["restore", LANE, a.as_str(), "--yes"]).time()
    };
    let mut copy = |_: usize| site.settle().and_then(|()| site.copy());
    let rounds = paired(pace(wanted, 31, 200), &mut [&mut back, &mut copy])?;
    Ok(Row::compared(promise, &rounds, history.copy(), None)
        .note("the state that is left becomes a snapshot first"))
}

fn diff_states(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let site = Filled::new(history.ground, "diff", FILES)?;
    let a = site.snapshot()?;
    site.change(10, 0)?;
    let few = site.snapshot()?;
    site.change(FILES, 0)?;
    let all = site.snapshot()?;
    let look = |b: &str| site.lane(["diff", LANE, a.as_str(), b, "--name-only"]);
    named(&look(&few).run()?.out, 10)?;
    named(&look(&all).run()?.out, FILES)?;
    let rounds =
        paired(pace(wanted, 41, 100), &mut [&mut |_| look(&few).time(), &mut |_| look(&all).time()])?;
    Ok(Row::compared(promise, &rounds, "5,000 changed", None))
}

fn diff_size(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let site = |name: &str, files: usize| {
        let site = Filled::new(history.ground, name, files)?;
        let a = site.snapshot()?;
        site.change(10, 0)?;
        let b = site.snapshot()?;
        let look = site.lane(["diff", LANE, a.as_str(), b.as_str(), "--name-only"]);
        named(&look.run()?.out, 10)?;
        Ok::<_, Trouble>(look)
    };
    let (large, small) = (site("diff-large", 20_000)?, site("diff-small", 1000)?);
    let rounds = paired(pace(wanted, 41, 100), &mut [&mut |_| large.time(), &mut |_| small.time()])?;
    Ok(Row::compared(promise, &rounds, "1,000 files", None))
}

/// A list that must be so long.
fn named(said: &str, wanted: usize) -> Outcome<()> {
    match said.lines().count() {
        count if count == wanted => Ok(()),
        count => Err(Trouble::Failed(format!("lane diff named {count} files instead of {wanted}"))),
    }
}

fn log(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let long = history.long()?;
    let look = long.late.lane(["log", LANE]);
    let said = look.run()?.out.lines().count();
    if said < 999 {
        return Err(Trouble::Failed(format!("lane log named {said} snapshots instead of 1,000")));
    }
    let rounds = paired(pace(wanted, 41, 60), &mut [&mut |_| look.time()])?;
    Ok(Row::within(promise, Unit::Ms, stats::median(&rounds.0[0]), rounds.0[0].len())
        .note(format!("{} snapshots", said - 1)))
}

fn snap_late(history: &History<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let long = history.long()?;
    let snap = |site: &Filled<'_>, round: usize| {
        site.change(3, 1000 + round)?;
        site.settle()?;
        site.snap().time()
    };
    let rounds = paired(
        pace(wanted, 31, 100),
        &mut [&mut |round| snap(&long.late, round), &mut |round| snap(&long.early, round)],
    )?;
    Ok(Row::compared(promise, &rounds, "the 10th", None).note("three of 500 files changed"))
}

fn grow(history: &History<'_>, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let long = history.long()?;
    let peer = Figure { name: "2nd to 101st".to_owned(), value: long.first_hundred as f64 };
    Ok(Row::over(promise, Unit::Bytes, long.last_hundred as f64, peer)
        .note("on disk, for 300 files of 2 KiB rewritten"))
}

#[cfg(test)]
mod tests {
    use super::{ON_IMAGES, ROWS};

    #[test]
    fn what_is_measured_on_images_is_a_row() {
        assert!(ON_IMAGES.iter().all(|id| ROWS.iter().any(|row| row.0 == *id)));
    }
}
