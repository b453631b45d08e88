//! `lane verify`: what a check says, of which state it speaks, and that nothing stays of it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Listing, Running, until};

use crate::world::{World, each, once};

const PATIENCE: Duration = Duration::from_secs(60);

fn lanes(world: &World) -> usize {
    fs::read_dir(world.env.state().join("lanes")).unwrap().count()
}

/// The newest verdict as `ls` tells it.
fn verdict(world: &World, lane: &str) -> Value {
    let all = world.json(&["ls"]);
    let found = all.as_array().unwrap().iter().find(|listed| listed["name"] == lane);
    found.unwrap_or_else(|| panic!("{lane} in {all}"))["verdict"].clone()
}

#[test]
fn a_check_sees_the_lane_and_changes_nothing_in_it_nor_in_its_history() {
    each(|world| {
        world.lane("work");
        world.write("work", "src/lib.rs", b"//! Changed.\n");
        world.write("work", "new/file", b"new\n");
        world.delete("work", "README.md");
        world.ok(&["snap", "work", "-m", "before"]);
        world.json(&["ls"]);
        let (origin, layer) = (Listing::of(&world.project), Listing::of(&world.layer("work")));
        let history = world.json(&["log", "work", "--all"]);
        let script = "cat src/lib.rs new/file; test ! -e README.md || exit 3; \
                      echo junk > junk; rm -r new; echo more >> src/lib.rs; mkdir d; mv src d/; echo x > ~/x";
        let ran = world.ok(&["verify", "work", "--", "sh", "-c", script]);
        assert_eq!(ran.out(), "//! Changed.\nnew\n", "{ran}");
        assert!(ran.err().contains("pass"), "{ran}");
        origin.assert_same(&Listing::of(&world.project));
        layer.assert_same(&Listing::of(&world.layer("work")));
        assert_eq!(world.json(&["log", "work", "--all"])["snapshots"], history["snapshots"]);
        assert_eq!(world.json(&["show", "work"])["home_changes"], 0);
        assert_eq!(world.json(&["show", "work"])["runs"], serde_json::json!([]));
        assert_eq!((lanes(world), world.json(&["ls"]).as_array().unwrap().len()), (1, 1));
        assert_eq!(world.json(&["ls", "--discarded"]), serde_json::json!([]));
    });
}

#[test]
fn the_exit_code_is_the_verdict_and_what_was_printed_is_recorded() {
    each(|world| {
        world.lane("work");
        world.ok(&["verify", "work", "--", "true"]);
        assert_eq!(verdict(world, "work")["verdict"], "pass");
        world.run(&["verify", "work", "--", "sh", "-c", "echo said; echo and >&2; exit 7"]).expect_code(1);
        let said = verdict(world, "work");
        assert_eq!(
            (&said["verdict"], &said["exit"]["code"], &said["fresh"]),
            (&"fail".into(), &7.into(), &true.into())
        );
        let shown = world.ok(&["show", "work", "--transcript=verdict"]);
        assert!(shown.out().contains("said") && shown.out().contains("and"), "{shown}");
        world.run(&["verify", "work", "--", "sh", "-c", "kill -KILL $$"]).expect_code(1);
        assert_eq!(verdict(world, "work")["exit"]["signal"], 9);
        world.run(&["verify", "work", "--", "./there-is-none"]).expect_code(1);
        assert_eq!(verdict(world, "work")["verdict"], "fail");
        world.run(&["verify", "work", "--timeout", "200ms", "--", "sleep", "60"]).expect_code(1);
        let said = verdict(world, "work");
        assert_eq!((&said["verdict"], &said["exit"]["timed_out"]), (&"timeout".into(), &true.into()));
        assert_eq!(lanes(world), 1);
        let listed = world.ok(&["ls"]);
        assert!(listed.out().contains("VERDICT") && listed.out().contains("timeout"), "{listed}");
        let ran = world.run(&["verify", "work"]).expect_code(125);
        assert!(ran.err().contains("no command") && ran.err().contains("lane verify work -- CMD"), "{ran}");
    });
}

#[test]
fn a_verdict_is_stale_once_the_lane_has_changed_and_not_before() {
    each(|world| {
        world.lane("work");
        world.write("work", "a", b"1\n");
        world.ok(&["verify", "work", "--", "true"]);
        world.json(&["diff", "work"]);
        world.ok(&["snap", "work"]);
        world.ok(&["fork", "work", "other"]);
        assert_eq!(verdict(world, "work")["fresh"], true);
        assert_eq!(verdict(world, "other"), Value::Null, "a fork was not checked");
        world.ok(&["discard", "work"]);
        world.ok(&["recover", "work"]);
        assert_eq!(verdict(world, "work")["fresh"], true);
        // The same size at once.
        world.write("work", "a", b"2\n");
        assert_eq!(verdict(world, "work")["fresh"], false);
        let listed = world.ok(&["ls"]);
        assert!(listed.out().contains("stale"), "{listed}");
        let shown = world.ok(&["show", "work"]);
        assert!(shown.out().contains("stale (pass when it was checked)"), "{shown}");
        world.ok(&["verify", "work", "--", "true"]);
        assert_eq!(verdict(world, "work")["fresh"], true);
    });
}

#[test]
fn a_check_that_is_killed_leaves_nothing_and_no_verdict() {
    each(|world| {
        world.lane("work");
        world.write("work", "a", b"1\n");
        let layer = Listing::of(&world.layer("work"));
        let check = ["verify", "work", "--", "sh", "-c", "echo > junk; echo started; sleep 100"];
        let mut running = Running::start(world.env.lane(&world.project, &check));
        running.wait_for("started", PATIENCE);
        assert_eq!(lanes(world), 2);
        running.kill9();
        running.wait(PATIENCE);
        until("its processes are gone", PATIENCE, || world.env.remnants().is_empty());
        let ran = world.ok(&["ls"]);
        assert!(ran.err().contains("repaired: a lane was half made"), "{ran}");
        assert_eq!(lanes(world), 1);
        assert_eq!(verdict(world, "work"), Value::Null);
        layer.assert_same(&Listing::of(&world.layer("work")));
        world.ok(&["run", "-n", "work", "--", "true"]);
    });
}

#[test]
fn an_interrupted_check_is_no_verdict() {
    once(|world| {
        world.lane("work");
        let check = ["verify", "work", "--", "sh", "-c", "echo started; sleep 100"];
        let mut running = Running::start(world.env.lane(&world.project, &check));
        running.wait_for("started", PATIENCE);
        running.signal(Signal::TERM);
        let ran = running.wait(PATIENCE).expect_code(125);
        assert!(ran.err().contains("came to no verdict"), "{ran}");
        assert_eq!((verdict(world, "work"), lanes(world)), (Value::Null, 1));
    });
}

#[test]
fn while_a_check_runs_others_look_and_check_and_nobody_writes() {
    each(|world| {
        world.lane("work");
        world.write("work", "a", b"1\n");
        let check = ["verify", "work", "--", "sh", "-c", "echo started; read line"];
        let mut command = world.env.lane(&world.project, &check);
        command.stdin(std::process::Stdio::piped());
        let mut running = Running::start(command);
        running.wait_for("started", PATIENCE);
        assert_eq!(world.json(&["ls"]).as_array().unwrap().len(), 1);
        assert_eq!(world.json(&["diff", "work"])["files"][0]["path"], "a");
        world.ok(&["verify", "work", "--", "true"]);
        let ran = world.run(&["discard", "work", "--now", "--yes"]).expect_code(1);
        assert!(ran.err().contains("another command works on lane 'work'"), "{ran}");
        let checks = world.json(&["doctor"]);
        let remnants = checks["checks"].as_array().unwrap().iter().find(|check| check["id"] == "remnants");
        assert_eq!(remnants.unwrap()["verdict"], "ok", "{checks}");
        running.feed(b"\n");
        running.wait(PATIENCE).expect_code(0);
        world.ok(&["discard", "work", "--now", "--yes"]);
        assert_eq!(lanes(world), 0);
    });
}

#[test]
fn of_a_live_lane_a_snapshot_is_checked_and_it_goes_on() {
    each(|world| {
        world.lane("work");
        world.ok(&[
            "run",
            "-d",
            "-n",
            "work",
            "--",
            "sh",
            "-c",
            "echo 1 > a; echo h > ~/h; while sleep 0.1; do test ! -e go || echo 2 > b; done",
        ]);
        until("it has written", PATIENCE, || world.layer("work").join("a").exists());
        until("the home too", PATIENCE, || world.json(&["show", "work"])["home_changes"] == 1);
        let script = "cat a ~/h; test ! -e b || exit 3; echo junk > junk; echo gone > ~/h";
        let said = world.json(&["verify", "work", "--", "sh", "-c", script]);
        assert_eq!(said["verdict"]["verdict"], "pass", "{said}");
        assert!(said["verdict"]["snapshot"].is_string(), "{said}");
        assert_eq!(verdict(world, "work")["fresh"], true);
        assert!(!world.layer("work").join("junk").exists());
        world.ok(&["exec", "work", "--", "touch", "go"]);
        until("it went on", PATIENCE, || world.layer("work").join("b").exists());
        assert_eq!(verdict(world, "work")["fresh"], false);
        assert_eq!(world.ok(&["exec", "work", "--", "sh", "-c", "cat ~/h"]).out(), "h\n");
        world.ok(&["stop", "work"]);
        assert_eq!(lanes(world), 1);
    });
}

#[test]
fn a_lane_that_stands_on_the_layers_of_others_is_checked_as_any_other() {
    each(|world| {
        world.lane("first");
        world.write("first", "a", b"1\n");
        world.ok(&["fork", "first", "second"]);
        world.write("second", "b", b"2\n");
        world.delete("second", "README.md");
        let ran = world.ok(&["verify", "second", "--", "sh", "-c", "cat a b; ! cat README.md; rm a b"]);
        assert_eq!(ran.out(), "1\n2\n", "{ran}");
        assert_eq!(verdict(world, "second")["fresh"], true);
        assert_eq!(world.json(&["diff", "second"])["files"].as_array().unwrap().len(), 3);
        assert_eq!(verdict(world, "first"), Value::Null);
    });
}

#[test]
fn a_check_that_is_killed_at_any_moment_leaves_the_lane_as_it_was() {
    const ROUNDS: u32 = 12;
    each(|world| {
        world.lane("work");
        world.write("work", "src/lib.rs", b"//! Changed.\n");
        world.write("work", "new", b"new\n");
        world.json(&["ls"]);
        let layer = Listing::of(&world.layer("work"));
        let check = ["verify", "work", "--", "sh", "-c", "echo junk > new; rm -r src; echo done"];
        let begun = std::time::Instant::now();
        world.ok(&check);
        let whole = begun.elapsed();
        for round in 0..ROUNDS {
            let mut running = Running::start(world.env.lane(&world.project, &check));
            std::thread::sleep(whole * round / ROUNDS);
            running.kill9();
            running.wait(PATIENCE);
            until("its processes are gone", PATIENCE, || world.env.remnants().is_empty());
            world.ok(&["ls"]);
            assert_eq!(lanes(world), 1, "round {round}");
            layer.assert_same(&Listing::of(&world.layer("work")));
        }
        world.ok(&["verify", "work", "--", "sh", "-c", "grep -q new new"]);
        assert_eq!(verdict(world, "work")["fresh"], true);
    });
}

#[test]
fn further_roots_and_hard_links_of_the_lane_are_there_for_the_check() {
    each(|world| {
        let lib = world.env.make_dir("lib");
        world.env.write(&lib.join("a"), b"1\n");
        let strategy = if world.made == crate::world::Made::Copy { "copy" } else { "overlay" };
        world.ok(&["new", "wide", "--strategy", strategy, "--also", lib.to_str().unwrap()]);
        world.ok(&["run", "-n", "wide", "--", "sh", "-c", "echo 2 > ../lib/a; echo x > one; ln one two"]);
        let script = "test $(cat ../lib/a) = 2 && test $(cat two) = x && echo 3 > ../lib/a && echo y > one";
        let ran = world.run(&["verify", "wide", "--", "sh", "-c", script]);
        assert_eq!(ran.code, Some(0), "{ran}");
        assert_eq!(std::fs::read(lib.join("a")).unwrap(), b"1\n");
        let after = world.ok(&["exec", "wide", "--", "sh", "-c", "cat ../lib/a one two; stat -c %h one"]);
        assert_eq!(after.out(), "2\nx\nx\n2\n", "{after}");
        assert_eq!(verdict(world, "wide")["fresh"], true);
    });
}
