//! The suite `start`: what it costs to make a lane, to enter one, to leave it, to look at it and to drop it.

use std::path::Path;
use std::time::Duration;

use super::ground::{Ground, on_disk};
use super::process::{self, Job, Outcome, Trouble};
use super::row::{Figure, Pace, Promise, Row, Unit, paired};

/// Measures one row.
type Measure = fn(&Ground, &Promise, Option<usize>) -> Outcome<Row>;

/// The rows, in the order in which they are printed.
pub(crate) const ROWS: [(&str, &str, f64, Measure); 12] = [
    ("walls", "walls that do not stand in `run --rm --net none`", 0.0, walls),
    ("start", "run --rm --net none -- true, 1,000 files", 1.0, start),
    ("exec", "exec into a live lane -- true", 1.2, exec),
    ("create", "new, 100,000 files against 1,000", 1.2, create),
    ("disk", "a 300 MiB tree with eight lanes, on disk", 1.002, disk),
    ("diff", "diff --name-only, 10 of 5,000 files changed", 0.1, diff),
    ("diff-size", "diff --name-only, 10 changed of 80,000 against of 1,000", 1.5, diff_size),
    ("leave", "leaving a lane, 300 MB dirty against clean", 1.5, leave),
    ("discard", "discard, 5,000 changed files against none", 2.0, discard),
    ("memory-live", "peak memory of a live lane's supervisor, 80,000 files", 16.0 * MIB, memory_live),
    ("memory-run", "peak memory of a run in the foreground, 80,000 files", 16.0 * MIB, memory_run),
    ("version", "lane --version", 2.0, version),
];

const MIB: f64 = 1024.0 * 1024.0;
const TRUE: [&str; 6] = ["run", "--rm", "--net", "none", "--", "true"];

fn pace(wanted: Option<usize>, rounds: usize, secs: u64) -> Pace {
    Pace { rounds: wanted.unwrap_or(rounds), limit: Duration::from_secs(secs), warm_up: true }
}

fn walls(ground: &Ground, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("s1k")?;
    let names = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    let links = format!("for n in {}; do readlink /proc/self/ns/$n; done", names.join(" "));
    let outside = ground.shell(&project, &links).run()?.out;
    let script = format!("{links}; grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status");
    let inside =
        ground.lane(&project, ["run", "--rm", "--net", "none", "--", "sh", "-c", &script]).run()?.out;
    // Root has no user namespace: there the bounding set and the locked securebits stand in its place.
    let is_root = rustix::process::geteuid().is_root();
    let mut down: Vec<&str> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let (before, now) = (outside.lines().nth(at), inside.lines().nth(at));
        let differs = now.is_some_and(|now| now.starts_with(name)) && before != now;
        let as_wanted = differs || (is_root && *name == "user");
        if !as_wanted {
            down.push(name);
        }
    }
    for (name, want) in [("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapEff", "0000000000000000")] {
        let is_up = inside.lines().any(|line| {
            line.strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(':'))
                .is_some_and(|value| value.trim() == want)
        });
        if !is_up {
            down.push(name);
        }
    }
    let note = match down.is_empty() {
        true if is_root => {
            "NoNewPrivs 1, Seccomp 2, CapEff 0, every namespace but user (root has none) is another"
                .to_owned()
        }
        true => "NoNewPrivs 1, Seccomp 2, CapEff 0, every namespace is another".to_owned(),
        false => format!("not up: {}", down.join(", ")),
    };
    Ok(Row::within(promise, Unit::Count, down.len() as f64, 1).note(note))
}

fn start(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("s1k")?;
    let ours = ground.lane(&project, TRUE);
    let peer = Job::new(process::program("bwrap")?, &project).args([
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-all",
        "true",
    ]);
    let floor = Job::new(process::program("true")?, &project);
    let rounds = paired(
        pace(wanted, 101, 60),
        &mut [&mut |_| ours.time(), &mut |_| peer.time(), &mut |_| floor.time()],
    )?;
    Ok(Row::compared(promise, &rounds, "bwrap --unshare-all", Some("true")))
}

fn exec(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("s1k")?;
    let nsenter = process::program("nsenter")?;
    let live = ground.live(&project, "bench-exec")?;
    let inside = live.process()?.to_string();
    let ours = live.exec(["true"]);
    let (peer, name) = if rustix::process::geteuid().is_root() {
        (Job::new(nsenter, Path::new("/")).args(["-m", "-t", &inside, "true"]), "nsenter -m")
    } else {
        let args = ["--preserve-credentials", "-U", "-m", "-t", inside.as_str(), "true"];
        (Job::new(nsenter, Path::new("/")).args(args), "nsenter -U -m")
    };
    let floor = Job::new(process::program("true")?, &project);
    let rounds = paired(
        pace(wanted, 101, 60),
        &mut [&mut |_| ours.time(), &mut |_| peer.time(), &mut |_| floor.time()],
    )?;
    Ok(Row::compared(promise, &rounds, name, Some("true")))
}

fn create(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let (large, small) = (ground.corpus("s100k")?, ground.corpus("s1k")?);
    let make = |project: &Path| {
        let spent = ground.lane(project, ["new", "bench-create"]).time()?;
        ground.gone(project, "bench-create")?;
        Ok(spent)
    };
    let rounds = paired(pace(wanted, 41, 60), &mut [&mut |_| make(&large), &mut |_| make(&small)])?;
    Ok(Row::compared(promise, &rounds, "1,000 files", None))
}

fn disk(ground: &Ground, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("m300")?;
    let tree = on_disk(&project, Some(".git"));
    // The lanes' own directories: the book of all lanes beside them does not grow with a lane but is folded.
    let lanes = ground.state().join("lanes");
    let before = on_disk(&lanes, None);
    let names: Vec<String> = (0..8).map(|number| format!("bench-disk-{number}")).collect();
    let measured = (|| -> Outcome<u64> {
        for name in &names {
            // A lane that was really used: every byte of the tree is read in it.
            let read = ["run", "-n", name, "--", "sh", "-c", "cat d*/* >/dev/null"];
            ground.lane(&project, read).run()?;
        }
        Ok(on_disk(&lanes, None).saturating_sub(before))
    })();
    for name in &names {
        ground.gone(&project, name)?;
    }
    let added = measured?;
    let peer = Figure { name: "the tree alone".to_owned(), value: tree as f64 };
    let note = format!("eight lanes add {}", crate::render::report::bytes(added));
    Ok(Row::over(promise, Unit::Bytes, (tree + added) as f64, peer).note(note))
}

/// Appends a line to ten files of the tree, far from one another.
const CHANGE_TEN: &str = "find . -path ./.git -prune -o -type f -size -64 -print | sort | \
    awk '{ all[NR] = $0 } END { for (n = 0; n < 10; n++) print all[int(n * NR / 10) + 1] }' | \
    while read -r file; do echo changed >>\"$file\"; done";

fn diff(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let corpus = ground.corpus("s5000")?;
    let git = process::program("git")?;
    // Plain copies without .git: git would compare that too.
    let place = ground.scratch().join("diff");
    std::fs::create_dir(&place)?;
    let copy = format!(
        "cp -a --reflink=auto '{}' old && rm -rf old/.git && cp -a --reflink=auto old new && cd new && {CHANGE_TEN}",
        corpus.display()
    );
    ground.shell(&place, &copy).run()?;
    let old = place.join("old");
    ground.lane(&old, ["run", "-n", "bench-diff", "--", "sh", "-c", CHANGE_TEN]).run()?;
    let ours = ground.lane(&old, ["diff", "bench-diff", "--name-only"]);
    let said = ours.run()?.out.lines().count();
    if said != 10 {
        return Err(Trouble::Failed(format!("lane diff named {said} files instead of 10")));
    }
    // Differences are git's exit code 1.
    let peer = Job::new(git, &place).args(["diff", "--no-index", "--name-status", "old", "new"]).answers(1);
    let rounds = paired(pace(wanted, 41, 60), &mut [&mut |_| ours.time(), &mut |_| peer.time()])?;
    ground.gone(&old, "bench-diff")?;
    Ok(Row::compared(promise, &rounds, "git diff --no-index", None))
}

fn diff_size(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let (large, small) = (ground.corpus("linux")?, ground.corpus("s1k")?);
    for project in [&large, &small] {
        ground.lane(project, ["run", "-n", "bench-size", "--", "sh", "-c", CHANGE_TEN]).run()?;
    }
    let look = |project: &Path| ground.lane(project, ["diff", "bench-size", "--name-only"]).time();
    let rounds = paired(pace(wanted, 41, 60), &mut [&mut |_| look(&large), &mut |_| look(&small)]);
    for project in [&large, &small] {
        ground.gone(project, "bench-size")?;
    }
    Ok(Row::compared(promise, &rounds?, "1,000 files", None))
}

fn leave(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("s1k")?;
    let run = ["run", "-n", "bench-leave", "--", "sh", "-c", "echo x >bench-leave; echo end"];
    let after = |dirty: bool| {
        let script = if dirty { "head -c 300000000 /dev/zero >dirty" } else { ":" };
        ground.shell(ground.scratch(), script).run()?;
        let spent = ground.lane(&project, run).time_after("end")?;
        // Clean for the next leg, and not counted.
        ground.shell(ground.scratch(), "rm -f dirty; sync -f .").run()?;
        ground.gone(&project, "bench-leave")?;
        Ok(spent)
    };
    let rounds = paired(pace(wanted, 15, 90), &mut [&mut |_| after(true), &mut |_| after(false)])?;
    Ok(Row::compared(promise, &rounds, "clean", None)
        .note("from the command's last word to the end of `lane run`"))
}

fn discard(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("s5000")?;
    let drop_one = |round: usize, script: &str, kind: &str| {
        let name = format!("bench-{kind}-{round}");
        ground.lane(&project, ["run", "-n", &name, "--", "sh", "-c", script]).run()?;
        ground.lane(&project, ["discard", &name, "--yes"]).time()
    };
    let rounds = paired(
        pace(wanted, 11, 90),
        &mut [
            &mut |round| drop_one(round, "for file in d*/*; do echo changed >>$file; done", "full"),
            &mut |round| drop_one(round, ":", "empty"),
        ],
    )?;
    Ok(Row::compared(promise, &rounds, "an empty lane", None))
}

fn memory_live(ground: &Ground, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("linux")?;
    let live = ground.live(&project, "bench-memory")?;
    for _ in 0..10 {
        live.exec(["sh", "-c", "seq 1 20000; git status >/dev/null"]).run()?;
    }
    let peak = process::high_water(live.supervisor)
        .ok_or_else(|| Trouble::Failed("the supervisor is not found in /proc".to_owned()))?;
    Ok(Row::within(promise, Unit::Bytes, peak as f64, 1).note("VmHWM after ten commands joined"))
}

fn memory_run(ground: &Ground, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let project = ground.corpus("linux")?;
    let script = format!("seq 1 200000; {CHANGE_TEN}; sleep 0.2");
    let peak = ground.lane(&project, ["run", "-n", "bench-memory", "--", "sh", "-c", &script]).peak_memory();
    ground.gone(&project, "bench-memory")?;
    Ok(Row::within(promise, Unit::Bytes, peak? as f64, 1).note("VmHWM of `lane run`, report included"))
}

fn version(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let ours = ground.lane(ground.scratch(), ["--version"]);
    let peer = Job::new(process::program("true")?, ground.scratch());
    let rounds = paired(pace(wanted, 201, 30), &mut [&mut |_| ours.time(), &mut |_| peer.time()])?;
    Ok(Row::compared(promise, &rounds, "true", None))
}
