//! A live lane stands still under load, and not for nothing: many processes that come and go, a build, a chase that may be
//! lost, and a lane that has nothing new to say.

use testkit::Who;

use crate::still::{Live, numbers};
use crate::world::{Made, SOON, World, everybody, fresh};

#[test]
fn no_parent_is_told_of_a_stop_while_processes_come_and_go() {
    // At most 20 at a time, some 200 a second, for a bounded time; each writes something and ends well.
    let script = r#"
import os, time
stops, bad, done, alive = 0, 0, 0, set()
end = time.monotonic() + 6
open("ready", "w")
while time.monotonic() < end or alive:
    if time.monotonic() < end and len(alive) < 20:
        pid = os.fork()
        if pid == 0:
            # Some are orphaned to pid 1.
            if os.getpid() % 7 == 0 and os.fork():
                os._exit(0)
            with open("f%d" % (os.getpid() % 50), "w") as f:
                f.write("x" * 2000)
            time.sleep(0.03)
            os._exit(0)
        alive.add(pid)
        time.sleep(0.004)
    while alive:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            break
        if os.WIFSTOPPED(status):
            stops += 1
        else:
            alive.discard(pid)
            done += 1
            bad += status != 0
    time.sleep(0.001)
open("t", "w").write("%d %d %d" % (stops, bad, done))
os.rename("t", "told")
time.sleep(1000)
"#;
    everybody(|world| {
        let live = Live::python(world, script);
        live.wait_for("ready");
        live.snaps(30);
        live.wait_for("told");
        let told = numbers(&std::fs::read_to_string(live.file("told")).unwrap());
        let [stops, bad, done] = told[..] else { panic!("{told:?}") };
        assert!(stops == 0 && bad == 0 && done > 100, "{told:?}");
        live.stop();
        live.frozen();
    });
}

#[test]
fn make_builds_the_same_under_it() {
    testkit::require::program("make");
    let makefile = "all: $(foreach n,$(shell seq 60),o$n)\n\tcat $^ >sum\no%:\n\tseq 2000 | sort -R | sort -n | sha256sum >$@\n";
    everybody(|world| {
        world.lane("a");
        let script = "import time; time.sleep(1000)";
        world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "/usr/bin/python3", "-c", script]);
        let live = Live { world, name: "a" };
        std::fs::write(world.project.join("makefile.txt"), makefile).unwrap();
        let making = world.start(&["exec", "a", "--", "sh", "-c", "make -s -j4 -f makefile.txt"]);
        live.wait_for("o1");
        live.snaps(10);
        making.wait(SOON).expect_code(0);
        let sum = std::fs::read_to_string(live.file("sum")).unwrap();
        let lines: Vec<&str> = sum.lines().collect();
        assert!(lines.len() == 60 && lines.iter().all(|line| *line == lines[0]), "{sum}");
        live.stop();
        live.frozen();
    });
}

#[test]
fn nobody_is_stopped_for_a_snapshot_that_would_say_nothing_new() {
    // It is busy elsewhere, and quiet in between for as long as a checkpoint needs to come by.
    let script = r#"
import signal, time
woken = 0
def count(*_):
    global woken
    woken += 1
signal.signal(signal.SIGCONT, count)
open("made", "w").write("once")
for turn in range(5):
    end = time.monotonic() + 2.6
    while time.monotonic() < end:
        time.sleep(end - time.monotonic())
    open("/tmp/busy", "w").write("x" * turn)
open("t", "w").write(str(woken))
import os
os.rename("t", "told")
time.sleep(1000)
"#;
    testkit::require::program("python3");
    let world = World::git(fresh(Who::User), Made::Overlay);
    world.lane("a");
    world.ok(&["run", "-d", "-n", "a", "--", "/usr/bin/python3", "-c", script]);
    let live = Live { world: &world, name: "a" };
    live.wait_for("told");
    // At most one stop, for the snapshot of what it has made.
    let woken = numbers(&std::fs::read_to_string(live.file("told")).unwrap());
    assert!(woken[0] <= 1, "{woken:?}");
    live.stop();
}

#[test]
fn a_lane_that_cannot_be_made_to_stand_says_so_and_goes_on() {
    // A child is born every moment, each of the last one: whoever chases them comes too late, or makes it.
    let script = r#"
import os, time
end = time.monotonic() + 5
open("ready", "w")
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    with open("count", "a") as f:
        f.write("x")
open("over", "w")
time.sleep(1000)
"#;
    let world = World::git(fresh(Who::User), Made::Overlay);
    let live = Live::python(&world, "import time; time.sleep(1000)");
    let chain = world.start(&[
        "exec",
        "a",
        "--",
        "sh",
        "-c",
        &format!("setsid /usr/bin/python3 -c '{script}' & sleep 4"),
    ]);
    live.wait_for("ready");
    live.snaps(10);
    let taken = live.taken();
    assert!(taken.keys().all(|word| word == "frozen" || word == "running"), "{taken:?}");
    live.wait_for("over");
    chain.wait(SOON).expect_code(0);
    live.stop();
}
