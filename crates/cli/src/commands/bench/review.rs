//! The suite `review`: what it costs to look at changes and to keep them.
//!
//! The peer of a keep is a copy of the same files that is brought to the disk, as a keep is when its command ends: the keep
//! has its plan, its journal, and what it takes to undo it in its time. The peer of a diff is git on the same two trees,
//! with no configuration of anybody's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::faces;
use super::filled::{Filled, LANE};
use super::ground::Ground;
use super::history::pace;
use super::process::{self, Job, Outcome, Trouble};
use super::row::{Promise, Row, paired};

/// Measures one row.
type Measure = fn(&Ground, &Promise, Option<usize>) -> Outcome<Row>;

/// The rows, in the order in which they are printed.
pub(crate) const ROWS: [(&str, &str, f64, Measure); 7] = [
    ("keep-5000", "keep of 5,000 new files of 2 KiB, its plan and its syncs included", 1.0, keep_many),
    ("diff-10k-lines", "diff of a file of 10,000 lines, 200 of them changed", 1.0, diff_lines),
    ("diff-2000-files", "diff of 2,000 changed files", 1.0, diff_files),
    (
        "review-paint",
        "first screen of `review`, 20 lanes, 2,000 files changed in one of them",
        100.0,
        faces::first_paint,
    ),
    ("review-open", "first screen of `review LANE`, 2,000 files changed in it", 100.0, faces::open_lane),
    ("review-key", "a key pressed in `review` while it is at work, the worst of 40", 16.0, faces::key_press),
    (
        "web-answer",
        "first answer on the page of `web`, 20 lanes, 2,000 files changed in one of them",
        100.0,
        faces::first_answer,
    ),
];

const FILES: usize = 5000;

fn keep_many(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    process::program("rsync")?;
    let pace = pace(wanted, 11, 200);
    let mut sites = BTreeMap::new();
    for round in usize::from(!pace.warm_up)..=pace.rounds {
        sites.insert(round, Filled::new(ground, &format!("keep-{round}"), FILES)?);
    }
    let of = |round: usize| {
        let site = sites.get(&round).ok_or_else(|| Trouble::Failed("no lane of this round".to_owned()))?;
        site.settle()?;
        Ok::<_, Trouble>(site)
    };
    let rounds = paired(
        pace,
        &mut [&mut |round| of(round)?.lane(["keep", LANE, "--yes"]).time(), &mut |round| {
            let site = of(round)?;
            let to = site.upper.with_file_name("copied");
            let copy = "rsync -a \"$FROM/\" \"$TO/\" && sync -f \"$TO\"";
            ground.shell(ground.scratch(), copy).env("FROM", &site.upper).env("TO", &to).time()
        }],
    )?;
    // What was measured is what was promised.
    let site = of(1)?;
    let kept = (0..FILES).filter(|n| site.project().join(site.name(*n)).is_file()).count();
    if kept != FILES {
        return Err(Trouble::Failed(format!("{kept} files of {FILES} were kept")));
    }
    Ok(Row::compared(promise, &rounds, "rsync -a, sync -f", None).note("it can be undone; the copy cannot"))
}

/// Two trees, one of them a lane of the other.
struct Changed<'g> {
    ground: &'g Ground,
    dir: PathBuf,
    lane: PathBuf,
}

impl<'g> Changed<'g> {
    /// `old` and `new` give the files by number.
    fn new(
        ground: &'g Ground,
        name: &str,
        files: usize,
        old: &dyn Fn(usize) -> String,
        new: &dyn Fn(usize) -> String,
    ) -> Outcome<Changed<'g>> {
        process::program("git")?;
        let dir = ground.scratch().join(name);
        let changed = Changed { ground, lane: dir.join("b"), dir };
        let at = |top: &Path, n: usize| top.join(format!("d{:03}", n / 50)).join(format!("f{n:05}.txt"));
        for n in 0..files {
            for (top, text) in [(changed.project(), old(n)), (changed.lane.clone(), new(n))] {
                let file = at(&top, n);
                fs::create_dir_all(file.parent().unwrap_or(&top))?;
                fs::write(file, text)?;
            }
        }
        // What lies in a directory for temporary files is not there inside, unless it is named.
        changed
            .job(["run", "-n", LANE, "--checkpoints", "none", "--ro"])
            .args([&changed.lane])
            .args(["--", "cp", "-r"])
            .args([changed.lane.join("."), PathBuf::from(".")])
            .run()?;
        Job::new("sync", &changed.dir).args(["-f", "."]).run()?;
        Ok(changed)
    }

    fn project(&self) -> PathBuf {
        self.dir.join("a")
    }

    fn job<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Job {
        self.ground.lane(&self.project(), args)
    }

    /// Rounds of both, with as many lines added in both answers.
    fn measure(&self, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
        let ours = self.job(["diff", LANE, "--patch"]);
        let git = ["diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "a", "b"];
        let git = Job::new("git", &self.dir).args(git).answers(1);
        let git = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let added = |said: &str| {
            said.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")).count()
        };
        let (one, other) = (added(&ours.run()?.out), added(&git.run()?.out));
        if one != other || one == 0 {
            return Err(Trouble::Failed(format!("{one} lines added, {other} by git")));
        }
        let rounds = paired(pace(wanted, 21, 100), &mut [&mut |_| ours.time(), &mut |_| git.time()])?;
        Ok(Row::compared(promise, &rounds, "git diff --no-index", None).note(format!("{one} lines added")))
    }
}

fn diff_lines(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let text = |changed: bool| {
        let mut text = String::new();
        for n in 0..10_000_usize {
            let mark = if changed && n % 50 == 7 { "other" } else { "line" };
            let _ = writeln!(text, "{mark} {n} of a file with {:x}", n.wrapping_mul(0x9e37_79b9) >> 7);
        }
        text
    };
    Changed::new(ground, "lines", 1, &|_| text(false), &|_| text(true))?.measure(promise, wanted)
}

fn diff_files(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let text = |file: usize, changed: bool| {
        let mut text = String::new();
        for n in 0..80_usize {
            let mark = if changed && n == 40 { "other" } else { "line" };
            let _ = writeln!(text, "{mark} {n} of file {file}");
        }
        text
    };
    Changed::new(ground, "files", 2000, &|n| text(n, false), &|n| text(n, true))?.measure(promise, wanted)
}
