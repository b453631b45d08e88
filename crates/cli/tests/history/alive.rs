//! Going back in a lane at work: what its processes see is what the snapshot says, and they go on.

use testkit::{Listing, Running, procs, until};

use crate::exact::STEPS;
use crate::still::Live;
use crate::still_kills::{kill, named};
use crate::view::View;
use crate::world::{SOON, World, each, everybody, word};

/// Counts where it is seen, and holds a file of the project open.
const AT_WORK: &str = r#"
import time
held = open("README.md")
count = open("/tmp/count", "w")
open("/tmp/ready", "w").close()
n = 0
while True:
    n += 1
    count.seek(0); count.write(str(n)); count.flush()
    time.sleep(0.01)
"#;

fn counted(world: &World) -> u64 {
    world.sh("a", "cat /tmp/count").out().trim().parse().unwrap()
}

fn live(world: &World) {
    testkit::require::program("python3");
    world.lane("a");
    world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "/usr/bin/python3", "-c", AT_WORK]);
    world.sh("a", "until test -e /tmp/ready; do sleep 0.05; done");
}

#[test]
fn a_live_lane_is_put_back_to_every_id_in_any_order_and_its_processes_go_on() {
    each(|world| {
        let origin = Listing::of(&world.project);
        live(world);
        let mut taken = vec![(world.snap("a"), View::of(world, "a"))];
        for step in STEPS {
            world.python("a", step);
            let seen = View::of(world, "a");
            taken.push((world.snap("a"), seen));
        }
        for at in [4, 9, 0, 6, 1, 8, 5, 2, 7, 3] {
            let (id, seen) = &taken[at];
            let told = world.json(&["restore", "a", id, "--yes"]);
            assert_eq!(told["left"], serde_json::json!([]), "back at step {at}");
            View::of(world, "a").assert_same(seen, &format!("back at step {at}"));
            let before = counted(world);
            testkit::until("the process goes on", crate::world::SOON, || counted(world) > before);
        }
        assert_eq!(word(&world.json(&["show", "a"])["lane"]["state"]), "live");
        world.ok(&["stop", "a"]);
        // At rest it still is what it was, and the way back is the same.
        View::of(world, "a").assert_same(&taken[3].1, "stopped");
        world.restore("a", &taken[5].0);
        View::of(world, "a").assert_same(&taken[5].1, "back at rest");
        world.assert_whole("after all of it");
        origin.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn undo_and_redo_in_a_live_lane_walk_the_same_way_there_and_back() {
    everybody(|world| {
        live(world);
        let mut seen = Vec::new();
        for number in 0..4 {
            world.sh("a", &format!("echo {number} > f; mkdir -p d; echo {number} >> d/log; rm -f gone-{number}; touch gone-{}", number + 1));
            world.snap("a");
            seen.push(View::of(world, "a"));
        }
        for at in [2, 1, 0] {
            world.ok(&["undo", "a", "--yes"]);
            View::of(world, "a").assert_same(&seen[at], &format!("undone to {at}"));
        }
        for at in [1, 2, 3] {
            world.ok(&["redo", "a", "--yes"]);
            View::of(world, "a").assert_same(&seen[at], &format!("redone to {at}"));
        }
        assert_eq!(world.run(&["redo", "a", "--yes"]).code, Some(1));
        // What was done since is not lost by a step back, and there is no way forth to what it was not.
        world.ok(&["undo", "a", "--yes"]);
        world.sh("a", "echo more > more");
        let more = View::of(world, "a");
        let undone = world.json(&["undo", "a", "--yes"]);
        assert_eq!(undone["rescued"], true, "{undone}");
        View::of(world, "a").assert_same(&seen[2], "undone what was not recorded");
        world.ok(&["restore", "a", word(&undone["from"]["id"]), "--yes"]);
        View::of(world, "a").assert_same(&more, "back at what was rescued");
        world.ok(&["stop", "a"]);
    });
}

#[test]
fn an_open_file_stays_what_it_is_over_a_restore_in_a_live_lane() {
    everybody(|world| {
        world.lane("a");
        let script = r#"
import os, time
open("f", "w").write("first")
open("ready", "w").close()
while not os.path.exists("/tmp/second"): time.sleep(0.01)
held = open("f")
open("f.new", "w").write("second"); os.rename("f.new", "f")
now = open("f")
open("/tmp/ready", "w").close()
while not os.path.exists("/tmp/look"): time.sleep(0.01)
open("/tmp/said", "w").write(held.read() + " " + now.read() + " " + open("f").read())
time.sleep(600)
"#;
        world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "/usr/bin/python3", "-c", script]);
        let lane = Live { world, name: "a" };
        lane.wait_for("ready");
        let first = world.snap("a");
        world.sh("a", "touch /tmp/second; until test -e /tmp/ready; do sleep 0.05; done");
        world.restore("a", &first);
        world.sh("a", "touch /tmp/look; until test -s /tmp/said; do sleep 0.05; done");
        assert_eq!(world.sh("a", "cat /tmp/said").out(), "first second first");
        lane.stop();
    });
}

#[test]
fn a_fork_at_work_is_put_back_too() {
    everybody(|world| {
        world.lane("parent");
        world.sh(
            "parent",
            "mkdir -p lib/deep; for i in $(seq 30); do echo $i > lib/deep/$i; done; rm README.md; echo p > p",
        );
        world.ok(&["fork", "parent", "a"]);
        world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "sleep", "3600"]);
        let first = (world.snap("a"), View::of(world, "a"));
        world.sh(
            "a",
            "rm -r lib/deep; echo other > p; echo back > README.md; mkdir lib/new; echo n > lib/new/f",
        );
        let second = (world.snap("a"), View::of(world, "a"));
        for (id, seen) in [&first, &second, &first] {
            world.restore("a", id);
            View::of(world, "a").assert_same(seen, "in a fork");
        }
        world.ok(&["stop", "a"]);
        View::of(world, "a").assert_same(&first.1, "stopped");
        world.restore("a", &second.0);
        View::of(world, "a").assert_same(&second.1, "at rest");
        world.assert_whole("a fork");
    });
}

#[test]
fn a_restore_that_is_killed_and_every_guard_with_it_leave_nobody_stopped() {
    let strace = testkit::require::program("strace");
    everybody(|world| {
        live(world);
        let id = world.snap("a");
        world.sh("a", "for n in 1 2 3 4 5 6; do echo $n > f$n; done");
        let other = (world.snap("a"), View::of(world, "a"));
        world.restore("a", &id);
        let before = View::of(world, "a");
        let mut command = world.env.command(&strace);
        let trace = world.env.tmp().join("trace");
        command.arg("-qq").arg("-o").arg(&trace).args(["-e", "trace=renameat"]);
        command.args(["-e", "inject=renameat:signal=STOP:when=4"]).arg(world.env.lane_program());
        command.args(["restore", "a", &other.0, "--yes"]).current_dir(&world.project);
        let tracer = Running::start(command);
        let said = || std::fs::read_to_string(&trace).unwrap_or_default();
        until("the restore stands in its middle", SOON, || said().contains("stopped by SIGSTOP"));
        let mut below = procs::descendants(tracer.pid()).into_iter();
        let restore = below.find(|pid| procs::status(*pid, "Name").as_deref() == Some("lane")).unwrap();
        // Looked at from the host, since any command would let it go on.
        let mut workers = procs::processes_of(world.env.root()).into_iter();
        let worker = workers.find(|found| found.command.starts_with("/usr/bin/python3")).unwrap().pid;
        let state = || procs::status(worker, "State").unwrap();
        named(world, "lane-guard").into_iter().for_each(kill);
        kill(restore);
        tracer.wait(SOON);
        let count = || std::fs::read(format!("/proc/{worker}/root/tmp/count")).unwrap();
        let before_it = count();
        until("its processes go on", SOON, || count() != before_it);
        assert!(!state().starts_with('T'), "{}", state());
        world.ok(&["log", "a"]);
        let now = View::of(world, "a");
        assert!(now.is(&other.1) || now.is(&before), "half put back");
        world.ok(&["stop", "a"]);
        world.assert_whole("after a killed restore");
    });
}
