//! A kill, a full disk, a broken one and a write that is cut short at every single call that writes, of every verb that touches a history: afterwards
//! the lane is what it was before or what it was to be, every id that was printed restores, and every object is whole.

use std::collections::BTreeMap;
use std::path::PathBuf;

use testkit::{Listing, Ran, Running, Who};

use crate::view::View;
use crate::world::{Made, SOON, World, fresh, word};

/// Every call by which a file, a name or an attribute comes to be on disk.
const WRITES: &str = "?write,?pwrite64,?writev,?pwritev,?fsync,?fdatasync,?sync_file_range,?rename,?renameat,?renameat2,\
                      ?link,?linkat,?unlink,?unlinkat,?rmdir,?mkdir,?mkdirat,?mknod,?mknodat,?symlink,?symlinkat,?ftruncate,\
                      ?fallocate,?chmod,?fchmod,?fchmodat,?fchmodat2,?chown,?fchown,?lchown,?fchownat,?utimensat,?setxattr,\
                      ?lsetxattr,?fsetxattr,?removexattr,?lremovexattr,?fremovexattr,?copy_file_range,?ioctl";

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strike {
    Kill,
    NoSpace,
    Io,
    /// The write does half of what it was asked for.
    Short,
}

const SHORT_WRITE: &str = include_str!("programs/short_write.py");

impl Strike {
    fn word(self) -> &'static str {
        match self {
            Strike::Kill => "signal=KILL",
            Strike::NoSpace => "error=ENOSPC",
            Strike::Io => "error=EIO",
            Strike::Short => "short",
        }
    }
}

fn traced(world: &World, options: &[&str], args: &[&str]) -> Ran {
    let mut command = world.env.command(testkit::require::program("strace"));
    command.args(["-qq"]).args(options).arg(world.env.lane_program()).args(args).current_dir(&world.project);
    Running::start(command).wait(SOON)
}

/// Does `args` with the `number`th write to a file cut short; how many there were.
fn cut_short(world: &World, number: usize, args: &[&str]) -> (Ran, usize) {
    let out = world.env.tmp().join("writes");
    let mut command = world.env.command(testkit::require::program("python3"));
    command.args(["-c", SHORT_WRITE, &number.to_string()]).arg(&out).arg(world.env.lane_program());
    command.args(args).current_dir(&world.project);
    let ran = Running::start(command).wait(SOON);
    let count = std::fs::read_to_string(&out).unwrap_or_else(|_| panic!("{ran}")).parse().unwrap();
    (ran, count)
}

/// How often each call that can be struck so is made.
fn calls(world: &World, strike: Strike, args: &[&str]) -> BTreeMap<String, usize> {
    if strike == Strike::Short {
        let (ran, count) = cut_short(world, 0, args);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
        return BTreeMap::from([("write".to_owned(), count)]);
    }
    let out = world.env.tmp().join("calls");
    let ran = traced(world, &["-o", out.to_str().unwrap(), "-e", &format!("trace={WRITES}")], args);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
    let mut calls = BTreeMap::new();
    for line in std::fs::read_to_string(out).unwrap().lines() {
        if let Some((name, _)) = line.split_once('(') {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

/// Does `args`, struck at the `number`th `call`.
fn struck(world: &World, strike: Strike, call: &str, number: usize, args: &[&str]) -> Ran {
    if strike == Strike::Short {
        return cut_short(world, number, args).0;
    }
    let inject = format!("inject={call}:{}:when={number}", strike.word());
    traced(world, &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject], args)
}

/// Does `verb` again and again, struck at each of its calls in turn. `before` makes the lane ready and gives the verb's
/// arguments, `after` looks at what is left. Nothing may go unstruck.
pub(crate) fn at_every_call(
    world: &World,
    strikes: &[Strike],
    before: &mut dyn FnMut(usize) -> Vec<String>,
    after: &mut dyn FnMut(usize, &str, &Ran),
) {
    fn words(args: &[String]) -> Vec<&str> {
        args.iter().map(String::as_str).collect()
    }
    let mut round = 0;
    for strike in strikes {
        let counted = calls(world, *strike, &words(&before(0)));
        assert!(counted.values().sum::<usize>() > 3, "{counted:?}");
        for (call, count) in &counted {
            let mut hit = 0;
            for number in 1..=count + 1 {
                round += 1;
                let args = before(round);
                let ran = struck(world, *strike, call, number, &words(&args));
                let place = format!("{} {number} of {count} {call} of {args:?}", strike.word());
                if *strike == Strike::Kill {
                    hit += usize::from(ran.signal == Some(9));
                } else {
                    assert!(matches!(ran.code, Some(0 | 1)), "{place}: {ran}");
                }
                after(round, &place, &ran);
            }
            assert!(*strike != Strike::Kill || hit > 0, "no {call} was struck");
        }
    }
}

/// Where a lane's layer is.
fn layer(world: &World, lane: &str) -> PathBuf {
    let home = word(&world.json(&["show", lane])["lane"]["dir"]).to_owned();
    PathBuf::from(home).join(if world.made == Made::Overlay { "0.u" } else { "0.c" })
}

/// Work that gives a restore something of everything to do. `{n}` is another each time.
pub(crate) fn work(n: usize) -> String {
    format!(
        "rm -rf w README.md; mkdir -p w/d w/e{n}; echo {n} > w/f; seq {n} 300 > w/g; ln w/g w/d/g; ln -s {n} w/l; mkfifo w/p;
         echo x > w/e{n}/x; chmod {} w/f; touch -d @{n} w/d/g",
        if n.is_multiple_of(2) { "600" } else { "755" },
    )
}

/// Everything that was printed so far restores; what `log` lists beyond it may, and is whole.
pub(crate) fn all_restore(world: &World, taken: &[(String, View)]) {
    for (id, seen) in taken {
        world.restore("a", id);
        View::of(world, "a").assert_same(seen, "an id that was printed");
    }
    world.assert_whole("after all of it");
}

fn snap_is_struck(world: &World, strikes: &[Strike]) {
    world.lane("a");
    world.sh("a", &work(0));
    let mut taken = vec![(world.snap("a"), View::of(world, "a"))];
    let layer = layer(world, "a");
    let mut stands = Listing::of(&layer);
    at_every_call(
        world,
        strikes,
        &mut |round| {
            world.env.write(&layer.join("w/g"), format!("round {round}\n").repeat(100).as_bytes());
            stands = Listing::of(&layer);
            vec!["snap".into(), "a".into()]
        },
        &mut |round, place, ran| {
            let printed = ran.out().trim().to_owned();
            // An answer may get through although writing it failed once; what was printed counts.
            assert!(ran.code != Some(0) || !printed.is_empty(), "{place}: {ran}");
            world.assert_whole(place);
            let ids = world.ids("a");
            assert!(taken.iter().all(|(id, _)| ids.iter().any(|there| there.starts_with(id))), "{place}");
            if !printed.is_empty() {
                assert!(ids[0].starts_with(&printed), "{place}");
                if taken.len() < 6 {
                    taken.push((printed, View::of(world, "a")));
                }
            } else if round % 8 == 0 {
                // Whoever comes next works as if nothing had been.
                world.snap("a");
            }
        },
    );
    stands.assert_same(&Listing::of(&layer));
    all_restore(world, &taken);
}

/// `verb` gives the arguments that go from a state that nobody has recorded to the second of two that were.
fn going_back_is_struck(world: &World, strikes: &[Strike], verb: &dyn Fn(&str) -> Vec<String>) {
    world.lane("a");
    going_back_in_is_struck(world, strikes, verb);
}

/// The same of a lane `a` that is there, in whatever way it was made.
pub(crate) fn going_back_in_is_struck(world: &World, strikes: &[Strike], verb: &dyn Fn(&str) -> Vec<String>) {
    world.sh("a", &work(1));
    let first = (world.snap("a"), View::of(world, "a"));
    world.sh("a", &work(2));
    let second = (world.snap("a"), View::of(world, "a"));
    let mut dirty: Option<View> = None;
    let told = std::cell::RefCell::new(None);
    at_every_call(
        world,
        strikes,
        &mut |round| {
            world.restore("a", &second.0);
            world.sh("a", &work(10 + round));
            *told.borrow_mut() = Some(View::of(world, "a"));
            verb(&second.0)
        },
        &mut |round, place, ran| {
            let before = told.borrow_mut().take().unwrap();
            // Any command goes on with what was begun.
            world.ok(&["log", "a"]);
            let now = View::of(world, "a");
            if ran.code == Some(0) {
                now.assert_same(&second.1, place);
            } else if !now.is(&second.1) {
                now.assert_same(&before, place);
            }
            world.assert_whole(place);
            if now.is(&second.1) && round % 3 == 0 {
                // What was left is a snapshot.
                let log = world.json(&["log", "a", "--all"]);
                let rescue = log["snapshots"].as_array().unwrap().iter().find(|one| one["kind"] == "rescue");
                world.restore("a", word(&rescue.unwrap()["id"]));
                View::of(world, "a").assert_same(&before, place);
            }
            dirty = Some(before);
        },
    );
    assert!(dirty.is_some());
    all_restore(world, &[first, second]);
}

fn gc_is_struck(world: &World, strikes: &[Strike]) {
    world.lane("a");
    world.sh("a", &work(1));
    let first = (world.snap("a"), View::of(world, "a"));
    world.sh("a", &work(2));
    let second = (world.snap("a"), View::of(world, "a"));
    let layer = layer(world, "a");
    let mut left = BTreeMap::new();
    let told = std::cell::RefCell::new(None);
    at_every_call(
        world,
        strikes,
        &mut |round| {
            // Going to and fro leaves states that came by themselves, some of whose packs are needed in part.
            for (id, n) in [(&first.0, 0), (&second.0, 1)] {
                let content = format!("{round} {n}\n").repeat(3000);
                world.env.write(&layer.join("w/g"), content.as_bytes());
                world.restore("a", id);
            }
            *told.borrow_mut() = Some(Listing::of(&layer));
            ["gc", "--yes", "--budget", "0"].map(String::from).to_vec()
        },
        &mut |round, place, ran| {
            told.borrow_mut().take().unwrap().assert_same(&Listing::of(&layer));
            world.assert_whole(place);
            let ids = world.ids("a");
            assert!(ids.contains(&first.0) && ids.contains(&second.0), "{place}: {ran}");
            if round % 6 == 0 {
                // Whatever still resolves restores; a lane can be put to each.
                for id in &ids {
                    world.restore("a", id);
                    let seen = View::of(world, "a");
                    if let Some(before) = left.insert(id.clone(), seen.clone()) {
                        seen.assert_same(&before, place);
                    }
                }
            }
        },
    );
    all_restore(world, &[first, second]);
    world.run(&["gc", "--yes", "--budget", "0"]);
    assert!(world.ids("a").len() <= 4, "{:?}", world.ids("a"));
}

pub(crate) fn world(who: Who, made: Made) -> World {
    World::git(fresh(who), made)
}

/// Root where that can be.
pub(crate) fn root() -> Who {
    *Who::all().first().unwrap()
}

#[test]
fn b20_snap_killed_at_every_call() {
    snap_is_struck(&world(Who::User, Made::Overlay), &[Strike::Kill]);
}

#[test]
fn b20_snap_failing_at_every_call() {
    snap_is_struck(&world(root(), Made::Overlay), &[Strike::NoSpace, Strike::Io]);
}

#[test]
fn b20_snap_with_every_write_cut_short() {
    snap_is_struck(&world(Who::User, Made::Overlay), &[Strike::Short]);
}

#[test]
fn restore_and_undo_with_every_write_cut_short() {
    let restore = |id: &str| ["restore", "a", id, "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(Who::User, Made::Overlay), &[Strike::Short], &restore);
    let undo = |_: &str| ["undo", "a", "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(root(), Made::Overlay), &[Strike::Short], &undo);
}

#[test]
fn gc_with_every_write_cut_short() {
    gc_is_struck(&world(Who::User, Made::Overlay), &[Strike::Short]);
}

#[test]
fn restore_killed_at_every_call_of_an_ordinary_user() {
    let restore = |id: &str| ["restore", "a", id, "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(Who::User, Made::Overlay), &[Strike::Kill], &restore);
}

#[test]
fn undo_killed_at_every_call_of_root() {
    let undo = |_: &str| ["undo", "a", "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(root(), Made::Overlay), &[Strike::Kill], &undo);
}

#[test]
fn restore_of_a_copy_killed_at_every_call() {
    let restore = |id: &str| ["restore", "a", id, "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(Who::User, Made::Copy), &[Strike::Kill], &restore);
}

#[test]
fn restore_failing_at_every_call() {
    let restore = |id: &str| ["restore", "a", id, "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(Who::User, Made::Overlay), &[Strike::NoSpace], &restore);
    going_back_is_struck(&world(root(), Made::Overlay), &[Strike::Io], &restore);
}

#[test]
fn restore_of_a_live_lane_killed_at_every_call() {
    let world = world(Who::User, Made::Overlay);
    world.lane("a");
    world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "sleep", "3600"]);
    going_back_in_is_struck(&world, &[Strike::Kill], &|id| {
        ["restore", "a", id, "--yes"].map(String::from).to_vec()
    });
    assert_eq!(word(&world.json(&["show", "a"])["lane"]["state"]), "live");
    world.ok(&["stop", "a"]);
}

#[test]
fn restore_of_a_live_lane_failing_at_every_call() {
    let world = world(Who::User, Made::Overlay);
    world.lane("a");
    world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "sleep", "3600"]);
    going_back_in_is_struck(&world, &[Strike::NoSpace, Strike::Io], &|id| {
        ["restore", "a", id, "--yes"].map(String::from).to_vec()
    });
    world.ok(&["stop", "a"]);
}

#[test]
fn undo_failing_at_every_call() {
    let undo = |_: &str| ["undo", "a", "--yes"].map(String::from).to_vec();
    going_back_is_struck(&world(root(), Made::Overlay), &[Strike::NoSpace], &undo);
    going_back_is_struck(&world(Who::User, Made::Overlay), &[Strike::Io], &undo);
}

#[test]
fn gc_killed_at_every_call() {
    gc_is_struck(&world(Who::User, Made::Overlay), &[Strike::Kill]);
}

#[test]
fn gc_failing_at_every_call() {
    gc_is_struck(&world(root(), Made::Overlay), &[Strike::NoSpace, Strike::Io]);
}
