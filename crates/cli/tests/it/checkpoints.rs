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

/// A thousand messages that nobody should send, in every way that a socket offers; says what was answered and how long it took.
const FORGER: &str = r#"
import array, json, os, random, socket, time
random.seed(7)
begun = time.monotonic()
words = [b"", b"exit", b"wait", b"snap\n", b"named\nmine", b"rescue\nmine", b"last\nmine", b"start\n", b"restore\nbase", b"gc", b"\0" * 64,
         b"x" * 4096, b"x" * 4097, b"x" * 100_000, b"\x1b[2J\xff\n", b"../../lane.db", b"{\"id\": 1}"]
held, answers, sent = [], {}, 0
def hear(s):
    try:
        said = s.recv(65536)
        word = said.split(b" ")[0].decode("latin1")
        answers[word] = max(answers.get(word, 0), len(said))
    except OSError:
        pass
turn = 0
while sent < 1000:
    turn += 1
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if turn % 10 else random.choice([socket.SOCK_STREAM, socket.SOCK_DGRAM]))
    # Where many come at once, a place has to be waited for.
    s.settimeout(20)
    try:
        s.connect("/run/lane/checkpoint")
        s.setblocking(False)
        word = random.choice(words) if turn % 3 else os.urandom(random.randrange(1, 4000))
        if turn % 7 == 0:
            # With descriptors that nobody asked for.
            with open("/proc/self/status") as f:
                s.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno()] * 3))])
        elif turn % 11 == 0:
            # Several at once, though one is heard.
            for _ in range(5): s.send(word)
        else:
            s.send(word)
        sent += 1
    except OSError:
        pass
    # Some never listen, some never say anything more, some never leave.
    if turn % 2:
        held.append(s)
        if len(held) > 200: hear(held.pop(0))
    if turn % 100 == 50:
        idle = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        idle.setblocking(False)
        try: idle.connect("/run/lane/checkpoint")
        except OSError: pass
        held.append(idle)
for s in held: hear(s)
print(json.dumps({"answers": answers, "sent": sent, "seconds": time.monotonic() - begun}))
"#;

#[test]
fn a_thousand_forged_messages_add_snapshots_at_most_and_keep_nobody_waiting() {
    for who in testkit::Who::all() {
        let world = World::of(who, Made::Overlay);
        bring(&world);
        world.ok(&["run", "-n", "a", "--", "sh", "-c", "echo kept > kept"]);
        world.ok(&["snap", "a", "-m", "before"]);
        world.ok(&["run", "-d", "-n", "a", "--", "sleep", "1000"]);
        let before = snapshots(&world, "a");
        let start = |args: &[&str]| testkit::Running::start(world.env.lane(&world.project, args));
        let forger = start(&["exec", "a", "--", "/usr/bin/python3", "-c", FORGER]);
        // Meanwhile everything else goes on.
        for meanwhile in 1..=2 {
            let mine = start(&["snap", "a", "-m", &format!("mine {meanwhile}")]).wait(SOON);
            assert_eq!(mine.code, Some(0), "{mine}");
            start(&["exec", "a", "--", "cat", "kept"]).wait(SOON).expect_code(0);
        }
        let said = forger.wait(SOON).expect_code(0);
        let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(said["sent"], 1000, "{said}");
        // One word, or the front of an id: nothing is read from a history.
        for (word, length) in said["answers"].as_object().expect("an object") {
            assert!(matches!(word.as_str(), "ok" | "busy" | "failed" | ""), "{said}");
            assert!(length.as_u64().expect("a number") <= 15, "{said}");
        }
        let after = snapshots(&world, "a");
        let find = |id: &Value| after.iter().find(|s| s["id"] == *id);
        for old in &before {
            let mut now = find(&old["id"]).unwrap_or_else(|| panic!("{old} is gone")).clone();
            now["position"] = old["position"].clone();
            assert_eq!(now, *old);
        }
        let new: Vec<&Value> =
            after.iter().filter(|s| before.iter().all(|old| old["id"] != s["id"])).collect();
        let kind = |s: &Value| s["kind"].as_str().expect("a word").to_owned();
        let asked = new.iter().filter(|s| kind(s) == "asked").count();
        // Eight at once, and then one every two seconds.
        let seconds = said["seconds"].as_f64().expect("a number");
        assert!(asked > 0 && asked as f64 <= 8.0 + seconds / 2.0 + 1.0, "{asked} in {seconds} s");
        for one in new {
            let mine = one["message"].as_str().expect("text").starts_with("mine ");
            let fine = matches!(kind(one).as_str(), "asked" | "quiet" | "ceiling" | "exit" | "exec");
            assert!(fine || mine && kind(one) == "named", "{one}");
        }
        // Whoever asks as he should is heard again.
        testkit::until("a checkpoint after the flood", SOON, || {
            start(&["exec", "a", "--", "./lane", "checkpoint", "honest"]).wait(SOON).code == Some(0)
        });
        assert!(messages(&world, "a").contains(&"honest".to_owned()));
        world.ok(&["stop", "a"]);
        world.ok(&["restore", "a", "before"]);
        assert_eq!(fs::read(world.layer("a").join("kept")).expect("there"), b"kept\n");
        let told = world.json(&["fsck"]);
        assert_eq!(told["clean"], true, "{told:#}");
    }
}

#[test]
fn outside_a_lane_there_is_nobody_to_ask() {
    once(|world| {
        let ran = world.run(&["checkpoint", "x"]).expect_code(1);
        assert!(ran.err().contains("lane snap"), "{ran}");
    });
}
