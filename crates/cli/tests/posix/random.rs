//! Random work in a lane and the same work on a plain copy: equal answers, equal trees, a diff that agrees with
//! a naive comparison, and a `keep` of everything after which the origin is equal to the lane. Once more with a
//! `keep` of some paths in between, which the lane must not notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use testkit::Plain;
use testkit::env::PATIENCE;
use testkit::running::Running;

use crate::ground::{Ground, PYTHON, Way, ways};
use crate::model::{self, Changes};

const PROGRAM: &str = include_str!("programs/random_work.py");

/// Runs of the lane, each mounted anew, and acts in each.
const PHASES: usize = 3;
const ACTS: usize = 60;

#[test]
fn random_work_in_a_lane_is_that_of_a_plain_directory_and_is_kept_whole() {
    for (way, seed) in seeds(3) {
        eprintln!("{way}: LANE_TEST_SEED={seed}");
        one(way, &seed);
    }
}

#[test]
fn random_work_that_is_kept_in_parts_stays_as_it_is_in_the_lane_and_is_kept_whole_in_the_end() {
    for (way, seed) in seeds(1) {
        eprintln!("in parts, {way}: LANE_TEST_SEED={seed}");
        in_parts(way, &seed);
    }
}

/// A seed for each way, in so many rounds; one round of the seed that was asked for.
fn seeds(rounds: usize) -> impl Iterator<Item = (Way, String)> {
    let given = std::env::var("LANE_TEST_SEED").ok();
    let rounds = if given.is_some() { 1 } else { rounds };
    let each = (0..rounds).flat_map(|_| ways());
    each.map(move |way| (way, given.clone().unwrap_or_else(fresh_seed)))
}

fn fresh_seed() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{:x}", now.as_nanos() % (1 << 48))
}

fn one(way: Way, seed: &str) {
    let ground = fixture(way, seed);
    let before = Plain::of(&ground.project);
    let times = mtimes(&ground.project);
    for phase in 0..PHASES {
        work(&ground, seed, phase);
    }
    before.assert_same(&Plain::of(&ground.project));
    let wanted = Plain::of(&ground.plain);
    diff_agrees(&ground, &before, &wanted, seed);
    keep_all(&ground, seed);
    wanted.assert_same(&Plain::of(&ground.project));
    // What was not changed was not touched.
    let changed: BTreeSet<Vec<u8>> = before.changed(&wanted).into_iter().collect();
    for (path, now) in mtimes(&ground.project) {
        if !changed.contains(&path) && before.items().contains_key(&path) {
            assert_eq!(times[&path], now, "{way} {seed}: mtime of {}", path.escape_ascii());
        }
    }
    nothing_is_left(&ground, seed);
}

fn in_parts(way: Way, seed: &str) {
    let ground = fixture(way, seed);
    for phase in 0..PHASES {
        work(&ground, seed, phase);
        keep_some(&ground, seed, phase);
        same_trees(&ground, &format!("{way} {seed}: trees after the keep in phase {phase}"));
    }
    keep_all(&ground, seed);
    Plain::of(&ground.plain).assert_same(&Plain::of(&ground.project));
    nothing_is_left(&ground, seed);
}

fn fixture(way: Way, seed: &str) -> Ground {
    let ground = Ground::new(way);
    for dir in [&ground.project, &ground.plain] {
        ground.env.host(dir, PYTHON, &["-c", PROGRAM, "fixture", seed]);
    }
    ground.make_lane();
    ground
}

/// One phase on both sides.
fn work(ground: &Ground, seed: &str, phase: usize) {
    let way = ground.way;
    let args = ["work", seed, &phase.to_string(), &ACTS.to_string()];
    let inside = ground.try_inside(PROGRAM, &args).expect_code(0);
    let mut command = ground.env.command(PYTHON);
    command.args(["-c", PROGRAM]).args(args).current_dir(&ground.plain);
    let plain = Running::start(command).wait(PATIENCE).expect_code(0);
    let differs = inside
        .out()
        .lines()
        .zip(plain.out().lines())
        .find(|(a, b)| a != b)
        .map(|(a, b)| format!("{a} / {b}"));
    assert!(differs.is_none() && inside.out() == plain.out(), "{way} {seed}: phase {phase}: {differs:?}");
    same_trees(ground, &format!("{way} {seed}: trees after phase {phase}"));
}

fn same_trees(ground: &Ground, what: &str) {
    same_text(&no_dir_times(&ground.tree()), &no_dir_times(&ground.plain_tree()), what);
}

/// The lane still stands over the origin, and holds what is there now.
fn nothing_is_left(ground: &Ground, seed: &str) {
    let left = ground.env.json(&ground.project, &["diff", "l"]);
    assert_eq!(left["files"], serde_json::json!([]), "{} {seed}: after everything was kept", ground.way);
}

/// A listing without the times of directories: a refused rename moves one in an overlay.
fn no_dir_times(listing: &str) -> String {
    let without = |line: &str| match line.split_once(" 0o4") {
        Some((name, rest)) => {
            let fields: Vec<&str> = rest.splitn(3, ' ').collect();
            format!("{name} 0o4{} {}\n", fields[0], fields[2])
        }
        None => format!("{line}\n"),
    };
    listing.lines().map(without).collect()
}

fn same_text(one: &str, two: &str, what: &str) {
    let differs: Vec<String> = one
        .lines()
        .zip(two.lines())
        .filter(|(a, b)| a != b)
        .take(3)
        .map(|(a, b)| format!("lane  {a}\nplain {b}"))
        .collect();
    assert!(
        one == two,
        "{what}: {} and {} lines\n{}",
        one.lines().count(),
        two.lines().count(),
        differs.join("\n")
    );
}

/// Modification times of the regular files.
fn mtimes(top: &Path) -> BTreeMap<Vec<u8>, i128> {
    Plain::of(top)
        .items()
        .keys()
        .filter_map(|path| {
            let meta = fs::symlink_metadata(top.join(std::ffi::OsStr::from_bytes(path))).ok()?;
            let time = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
            meta.is_file().then(|| (path.clone(), time))
        })
        .collect()
}

/// Every path that differs is told, and what is told differs.
fn diff_agrees(ground: &Ground, before: &Plain, after: &Plain, seed: &str) {
    let said = Changes::of(&ground.env.json(&ground.project, &["diff", "l"]));
    let names = ground.env.ok(&ground.project, &["diff", "l", "--name-only"]).out();
    assert_eq!(names.lines().count(), said.len(), "{} {seed}: --name-only and --json", ground.way);
    let wrong = said.compare(before, after);
    assert!(wrong.is_empty(), "{} {seed}: the diff\n{}", ground.way, wrong.join("\n"));
}

/// Keeps about a third of the changes, whatever else that takes along or leaves out.
fn keep_some(ground: &Ground, seed: &str, phase: usize) {
    let diff = ground.env.json(&ground.project, &["diff", "l"]);
    let paths = diff["files"].as_array().unwrap().iter().map(|file| model::bytes(file, "path").unwrap());
    let sum = |path: &[u8]| path.iter().map(|byte| usize::from(*byte)).sum::<usize>();
    let mut command = ground.env.lane(&ground.project, &["keep", "l", "--yes", "--set-id"]);
    for path in paths.filter(|path| (sum(path) + phase).is_multiple_of(3)) {
        command.arg(std::ffi::OsStr::from_bytes(&[b"./", path.as_slice()].concat()));
    }
    let ran = Running::start(command).wait(PATIENCE);
    assert!(matches!(ran.code, Some(0 | 1)), "{} {seed}: phase {phase}: {ran}", ground.way);
}

/// Keeps everything, every guarded path by its name, as a dry run tells them.
fn keep_all(ground: &Ground, seed: &str) {
    let keep = |named: &[Vec<u8>], more: &str| {
        let mut command = ground.env.lane(&ground.project, &["keep", "l", more, "--set-id", "--json", "."]);
        for path in named {
            command.arg(std::ffi::OsStr::from_bytes(&[b"./", path.as_slice()].concat()));
        }
        let ran = Running::start(command).wait(PATIENCE);
        let told: serde_json::Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{seed}: {error} in {ran}"));
        assert!(told["error"].is_null(), "{} {seed}: {ran}", ground.way);
        (ran.code, told["left_out"].clone())
    };
    let (_, left) = keep(&[], "--dry-run");
    let guarded = left.as_array().unwrap().iter().filter(|left| left["why"] == "guarded");
    let guarded: Vec<Vec<u8>> = guarded.map(|left| model::bytes(left, "path").unwrap()).collect();
    let (code, left) = keep(&guarded, "--yes");
    assert!(code == Some(0), "{} {seed}: left out: {left}", ground.way);
}
