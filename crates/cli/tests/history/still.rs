//! A live lane stands still for its snapshots: what is in one is of one moment, and nobody inside notices.
//!
//! Judged by programs inside that would see it: writers of two files, parents that are told of a child's stop, a clock.
//! A snapshot that says `running` promises nothing and is counted; most have to say `frozen`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Who, procs, until};

use crate::world::{Made, SOON, World, everybody, fresh, word};

/// A live lane with one program at work in it.
pub(crate) struct Live<'w> {
    pub(crate) world: &'w World,
    pub(crate) name: &'static str,
}

impl<'w> Live<'w> {
    /// Starts a Python program in a lane that is to be live. No snapshot comes by itself.
    pub(crate) fn python(world: &'w World, script: &str) -> Live<'w> {
        testkit::require::program("python3");
        world.lane("a");
        world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "/usr/bin/python3", "-c", script]);
        Live { world, name: "a" }
    }

    /// Takes snapshots.
    pub(crate) fn snaps(&self, count: usize) {
        for _ in 0..count {
            self.world.ok(&["snap", self.name]);
        }
    }

    /// Ids of the snapshots that were taken while the lane was live, the oldest first, by what they say of it.
    pub(crate) fn taken(&self) -> BTreeMap<String, Vec<String>> {
        let log = self.world.json(&["log", self.name, "--all"]);
        let mut taken: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in log["snapshots"].as_array().unwrap().iter().rev().filter(|one| one["kind"] == "asked") {
            taken.entry(word(&one["quiescence"]).to_owned()).or_default().push(word(&one["id"]).to_owned());
        }
        taken
    }

    /// Those that say that everybody stood; most have to.
    pub(crate) fn frozen(&self) -> Vec<String> {
        let taken = self.taken();
        let count = |what: &str| taken.get(what).map_or(0, Vec::len);
        let (frozen, running) = (count("frozen"), count("running"));
        assert!(
            frozen > 0 && frozen >= running,
            "{frozen} snapshots of a lane that stood, {running} of one that did not"
        );
        taken["frozen"].clone()
    }

    pub(crate) fn stop(&self) {
        self.world.ok(&["stop", self.name]);
    }

    /// Where a file of the lane lies on the host.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        let shown = self.world.json(&["show", self.name]);
        let home = Path::new(word(&shown["lane"]["dir"]));
        let dir = std::fs::canonicalize(home.join("0.at")).unwrap_or_else(|_| home.to_owned());
        dir.join(if self.world.made == Made::Overlay { "0.u" } else { "0.c" }).join(path)
    }

    /// The control group of the lane, where it has one of its own.
    pub(crate) fn group(&self) -> Option<PathBuf> {
        let shown = self.world.json(&["show", self.name]);
        let file = Path::new(word(&shown["lane"]["dir"])).join("group");
        std::fs::read_to_string(file).ok().map(PathBuf::from)
    }

    /// Waits until the program has written a file of this name.
    pub(crate) fn wait_for(&self, path: &str) {
        let file = self.file(path);
        until(path, SOON, || file.exists());
    }

    /// What a command prints in the lane as it was in a snapshot. The lane is at rest.
    pub(crate) fn in_snapshot(&self, id: &str, script: &str) -> String {
        self.world.restore(self.name, id);
        self.world.sh(self.name, script).out()
    }
}

/// The test is red unless a process inside goes on writing its counter, which nobody waits for.
pub(crate) fn assert_goes_on(file: &Path, when: &str) {
    let read = || std::fs::read(file).unwrap();
    let before = read();
    until(when, Duration::from_secs(10), || read() != before);
}

/// Over every strategy and for everybody, but less often where it makes no difference.
fn worlds(test: impl Fn(&World)) {
    for (who, made) in [(Who::User, Made::Overlay), (Who::User, Made::Copy), (Who::Root, Made::Overlay)] {
        if Who::all().contains(&who) {
            test(&World::git(fresh(who), made));
        }
    }
}

pub(crate) fn numbers(text: &str) -> Vec<i64> {
    text.split_whitespace().map(|word| word.parse().unwrap_or_else(|_| panic!("{text:?}"))).collect()
}

#[test]
fn what_one_program_writes_in_order_is_in_order_in_every_snapshot() {
    // Two writers in one process, each of two files far apart in the walk, and a third that replaces its files.
    let script = r#"
import os, threading
for n in range(300):
    open("m%d" % n, "w").write("x" * 500)
def pair(name):
    a, z = os.open("a" + name, os.O_RDWR | os.O_CREAT), os.open("z" + name, os.O_RDWR | os.O_CREAT)
    n = 0
    while True:
        n += 1
        os.pwrite(a, b"%20d" % n, 0)
        os.pwrite(z, b"%20d" % n, 0)
def replaced():
    n = 0
    while True:
        n += 1
        for name in ("ar", "zr"):
            with open("t", "w") as f:
                f.write("%20d" % n)
            os.rename("t", name)
threading.Thread(target=pair, args=("1",)).start()
threading.Thread(target=replaced).start()
pair("2")
"#;
    worlds(|world| {
        let live = Live::python(world, script);
        live.wait_for("zr");
        live.wait_for("z1");
        live.wait_for("z2");
        live.snaps(8);
        live.stop();
        let mut last = 0;
        for id in live.frozen() {
            let told = numbers(&live.in_snapshot(
                &id,
                "cat a1; echo; cat z1; echo; cat a2; echo; cat z2; echo; cat ar; echo; cat zr",
            ));
            let [a1, z1, a2, z2, ar, zr] = told[..] else { panic!("{told:?}") };
            for (a, z) in [(a1, z1), (a2, z2), (ar, zr)] {
                assert!(a - z == 0 || a - z == 1, "{id}: {told:?}");
            }
            assert!(a1 > last, "{id}: {told:?}, and {last} before");
            last = a1;
        }
    });
}

#[test]
fn what_is_written_by_storing_is_in_the_snapshot_of_its_moment() {
    // The kernel dates the first store to a page, and no other until the page was written back.
    let script = r#"
import mmap, os
os.makedirs("d e\n")
def mapped(name):
    f = open(name, "w+b")
    f.write(b"\0" * 8192)
    f.flush()
    return mmap.mmap(f.fileno(), 8192)
a, z = mapped("d e\n/a"), mapped("z")
n = 0
while True:
    n += 1
    b = b"%20d" % n
    a[4096:4116] = b
    z[4096:4116] = b
    if n == 1:
        open("ready", "w")
"#;
    worlds(|world| {
        let live = Live::python(world, script);
        live.wait_for("ready");
        live.snaps(6);
        live.stop();
        let mut last = 0;
        for id in live.frozen() {
            let told = numbers(
                &live.in_snapshot(&id, "tail -c 4096 d*/a | tr -d '\\0'; echo; tail -c 4096 z | tr -d '\\0'"),
            );
            let [a, z] = told[..] else { panic!("{told:?}") };
            assert!((a - z == 0 || a - z == 1) && a > last, "{id}: {told:?}, and {last} before");
            last = a;
        }
    });
}

#[test]
fn a_directory_of_the_project_that_is_renamed_is_whole_under_one_of_its_names() {
    let script = r#"
import os
open("ready", "w")
while True:
    os.rename("src", "moved")
    os.rename("moved", "src")
"#;
    for who in Who::all() {
        let env = fresh(who);
        let project = env.make_git("app");
        std::fs::create_dir_all(project.join("src/deep")).unwrap();
        for number in 0..40 {
            std::fs::write(project.join(format!("src/deep/f{number}")), "x").unwrap();
            std::fs::write(project.join(format!("src/f{number}")), "x").unwrap();
        }
        who.own_all(&project);
        let world = World::over(env, project, Made::Overlay);
        let before = world.env.host(&world.project, "find", &["src", "-type", "f"]).out().lines().count();
        let live = Live::python(&world, script);
        live.wait_for("ready");
        live.snaps(8);
        live.stop();
        for id in live.frozen() {
            let told = live.in_snapshot(&id, "for d in src moved; do [ ! -e $d ] || find $d -type f; done");
            assert_eq!(told.lines().count(), before, "{id}: {told}");
            assert_eq!(
                told.lines().filter(|line| line.starts_with("src")).count() % before,
                0,
                "{id}: {told}"
            );
        }
    }
}

#[test]
fn a_parent_that_waits_for_a_child_which_has_its_memory_stands_too() {
    // The child opens a FIFO before it executes anything, and nobody opens the other end.
    let script = r#"
import os
os.mkfifo("fifo")
open("ready", "w")
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo spawned >spawned"], os.environ,
                     file_actions=[(os.POSIX_SPAWN_OPEN, 0, "fifo", os.O_RDONLY, 0)])
os.waitpid(pid, 0)
open("over", "w")
os.execv("/bin/sleep", ["sleep", "1000"])
"#;
    everybody(|world| {
        let live = Live::python(world, script);
        live.wait_for("ready");
        let lends = || {
            let inside = procs::processes_of(world.env.root());
            let mut parents = inside.iter().filter(|found| found.command.contains("posix_spawn"));
            parents.any(|found| procs::status(found.pid, "State").is_some_and(|state| state.starts_with('D')))
        };
        until("the parent sleeps over its child", SOON, lends);
        live.snaps(5);
        assert!(lends());
        live.frozen();
        world.ok(&["exec", live.name, "--", "sh", "-c", ": >fifo"]);
        live.wait_for("spawned");
        live.wait_for("over");
        live.stop();
    });
}

#[test]
fn a_program_that_shuts_itself_to_tracing_stands_with_the_others() {
    let script = r#"
import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
a, z = os.open("a", os.O_RDWR | os.O_CREAT), os.open("z", os.O_RDWR | os.O_CREAT)
n = 0
while True:
    n += 1
    os.pwrite(a, b"%20d" % n, 0)
    os.pwrite(z, b"%20d" % n, 0)
"#;
    everybody(|world| {
        let live = Live::python(world, script);
        live.wait_for("z");
        live.snaps(5);
        live.stop();
        for id in live.frozen() {
            let told = numbers(&live.in_snapshot(&id, "cat a; echo; cat z"));
            let [a, z] = told[..] else { panic!("{told:?}") };
            assert!(a - z == 0 || a - z == 1, "{id}: {told:?}");
        }
    });
}

#[test]
fn what_stood_before_stands_afterwards_and_what_was_traced_goes_on() {
    testkit::require::program("strace");
    let script = r#"
import os, signal, subprocess, time
stopped = subprocess.Popen(["sleep", "1000"])
os.kill(stopped.pid, signal.SIGSTOP)
os.waitpid(stopped.pid, os.WUNTRACED)
traced = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "sh", "-c", "n=0; while :; do n=$((n+1)); echo $n >traced; done"])
open("pid", "w").write(str(stopped.pid))
while True:
    time.sleep(0.01)
    state = open("/proc/%d/stat" % stopped.pid).read().split()[2]
    if state != "T":
        open("woken", "w").write(state)
"#;
    everybody(|world| {
        let live = Live::python(world, script);
        live.wait_for("traced");
        live.snaps(20);
        assert_goes_on(&live.file("traced"), "what is traced goes on");
        assert!(!live.file("woken").exists());
        live.stop();
        live.frozen();
    });
}
