//! Snapshots that are taken without a person asking: when writing goes quiet, when a command ends, from inside.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::world::{Made, World, each, once};

const SOON: Duration = Duration::from_secs(60);

fn snapshots(world: &World, lane: &str) -> Vec<Value> {
    world.json(&["log", lane, "--all"])["snapshots"].as_array().expect("a list").clone()
}

fn kinds(world: &World, lane: &str) -> Vec<String> {
    snapshots(world, lane).iter().map(|s| s["kind"].as_str().expect("a word").to_owned()).collect()
}

fn messages(world: &World, lane: &str) -> Vec<String> {
    snapshots(world, lane).iter().map(|s| s["message"].as_str().expect("text").to_owned()).collect()
}

/// Puts the program where the inside can execute it, wherever it was built.
fn bring(world: &World) {
    fs::copy(env!("CARGO_BIN_EXE_lane"), world.project.join("lane")).expect("copied");
    world.env.who().own(&world.project.join("lane"));
}

#[test]
fn a_command_that_ends_leaves_a_snapshot_and_one_that_wrote_nothing_none() {
    each(|world| {
        if world.made == Made::Copy {
            // The first snapshot of a copy has to be asked for.
            world.lane("a");
            world.ok(&["snap", "a"]);
        }
        world.ok(&["run", "-n", "a", "--", "true"]);
        let before = kinds(world, "a").len();
        world.ok(&["run", "-n", "a", "--", "sh", "-c", "echo one > one"]);
        let found = kinds(world, "a");
        assert_eq!(found.first().map(String::as_str), Some("exit"), "{found:?}");
        assert!(found.len() > before);
        world.ok(&["run", "-n", "a", "--", "true"]);
        assert_eq!(kinds(world, "a"), found);
        // What was done is one step.
        world.ok(&["undo", "a"]);
        assert_eq!(world.json(&["diff", "a"])["files"].as_array().expect("a list").len(), 0);
        world.ok(&["redo", "a"]);
        assert_eq!(world.json(&["diff", "a"])["files"].as_array().expect("a list").len(), 1);
        // A snapshot of the same state is no step.
        world.ok(&["snap", "a", "-m", "the same"]);
        world.ok(&["undo", "a"]);
        assert_eq!(world.json(&["diff", "a"])["files"].as_array().expect("a list").len(), 0);
    });
}

#[test]
fn writing_that_goes_quiet_in_a_live_lane_leaves_a_snapshot_that_can_be_gone_back_to() {
    for who in testkit::Who::all() {
        let world = World::of(who, Made::Overlay);
        world.ok(&["run", "-d", "-n", "a", "--", "sh", "-c", "echo one > one; exec sleep 1000"]);
        testkit::until("a quiet moment", SOON, || kinds(&world, "a").contains(&"quiet".to_owned()));
        world.ok(&["exec", "a", "--", "sh", "-c", "echo two > one; echo new > two"]);
        testkit::until("the end of a command", SOON, || kinds(&world, "a").contains(&"exit".to_owned()));
        world.ok(&["stop", "a"]);
        let all = snapshots(&world, "a");
        let quiet = all.iter().find(|s| s["kind"] == "quiet").expect("one");
        world.ok(&["restore", "a", quiet["id"].as_str().expect("an id")]);
        let layer = world.layer("a");
        assert_eq!(fs::read(layer.join("one")).expect("there"), b"one\n");
        assert!(layer.join("two").symlink_metadata().is_err());
    }
}

#[test]
fn writing_that_never_goes_quiet_leaves_one_at_the_ceiling_that_says_so() {
    once(|world| {
        let script = "i=0; while :; do echo $i > file; i=$((i+1)); sleep 0.05; done";
        world.ok(&["run", "-d", "-n", "a", "--checkpoint-interval", "2s", "--", "sh", "-c", script]);
        testkit::until("the ceiling", SOON, || kinds(world, "a").contains(&"ceiling".to_owned()));
        world.ok(&["stop", "a"]);
    });
}

#[test]
fn without_checkpoints_there_are_none_and_one_that_is_asked_for_is_taken_all_the_same() {
    once(|world| {
        world.ok(&["run", "-n", "a", "--checkpoints", "none", "--", "sh", "-c", "echo one > one"]);
        assert_eq!(kinds(world, "a"), Vec::<String>::new());
        let live = "echo one > one; exec sleep 1000";
        world.ok(&["run", "-d", "-n", "b", "--checkpoints", "none", "--", "sh", "-c", live]);
        world.ok(&["snap", "b", "-m", "mine"]);
        assert_eq!(kinds(world, "b"), ["named", "start"]);
        world.ok(&["stop", "b"]);
        assert_eq!(kinds(world, "b"), ["named", "start"]);
    });
}

#[test]
fn the_inside_can_ask_for_a_snapshot_with_a_text() {
    for who in testkit::Who::all() {
        let world = World::of(who, Made::Overlay);
        bring(&world);
        let script =
            "echo one > one; ./lane checkpoint turn one && echo two > two && ./lane checkpoint 'turn two'";
        world.ok(&["run", "-n", "a", "--", "sh", "-c", script]);
        let found = messages(&world, "a");
        assert!(
            found.contains(&"turn one".to_owned()) && found.contains(&"turn two".to_owned()),
            "{found:?}"
        );
        world.ok(&["undo", "a"]);
        let all = snapshots(&world, "a");
        let one = all.iter().find(|s| s["message"] == "turn one").expect("one");
        world.ok(&["restore", "a", one["id"].as_str().expect("an id")]);
        let layer = world.layer("a");
        assert!(layer.join("one").exists() && !layer.join("two").exists());
    }
}

#[test]
fn whatever_the_inside_says_adds_snapshots_at_most() {
    once(|world| {
        world.ok(&["run", "-n", "a", "--", "sh", "-c", "echo kept > kept"]);
        world.ok(&["snap", "a", "-m", "before"]);
        let before: Vec<Value> = snapshots(world, "a").iter().map(|s| s["id"].clone()).collect();
        let script = r#"
import os, random, socket
random.seed(7)
words = [b"", b"exit", b"wait", b"snap\n", b"named\nmine", b"restore\nbase", b"S", b"J", b"L", b"gc", b"\0" * 64, b"x" * 5000]
held = []
for turn in range(1000):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    try:
        s.connect("/run/lane/checkpoint")
        word = random.choice(words) if turn % 3 else os.urandom(random.randrange(1, 4000))
        s.send(word)
    except OSError:
        pass
    # Some never listen, some never leave.
    if turn % 2:
        held.append(s)
        held = held[-200:]
print("said")
"#;
        let said = world.ok(&["exec", "a", "--", "/usr/bin/python3", "-c", script]);
        assert_eq!(said.out(), "said\n");
        let after = snapshots(world, "a");
        let ids: Vec<Value> = after.iter().map(|s| s["id"].clone()).collect();
        assert!(before.iter().all(|id| ids.contains(id)), "a snapshot is gone");
        // Eight at once, one more every two seconds, and the end of the command.
        assert!(after.len() < before.len() + 60, "{}", after.len());
        assert!(after.iter().all(|s| s["kind"] != "named" || s["message"] == "before"), "{after:?}");
        world.ok(&["restore", "a", "before"]);
        assert_eq!(fs::read(world.layer("a").join("kept")).expect("there"), b"kept\n");
    });
}

#[test]
fn outside_a_lane_there_is_nobody_to_ask() {
    once(|world| {
        let ran = world.run(&["checkpoint", "x"]).expect_code(1);
        assert!(ran.err().contains("lane snap"), "{ran}");
    });
}
