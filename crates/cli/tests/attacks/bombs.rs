//! Bombs, each with bounds of its own so that a wall that does not hold harms nobody: processes, memory, disk, files.

use testkit::{Who, require};

use crate::world::{World, everybody};

/// What comes before each bomb: it ends by itself, whatever the walls do.
const BOUNDED: &str = "
import os, resource, signal, sys, time
signal.alarm(60)
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
";

fn bomb(world: &World, args: &[&str], script: &str) -> testkit::Ran {
    world.python(&[&["run", "-n", "a"], args].concat(), &format!("{BOUNDED}{script}"))
}

/// What a run says of its limits.
fn limits_of(world: &World) -> (String, String) {
    let shown = world.env.json(&world.project, &["show", "a"]);
    let runs = shown["runs"].as_array().unwrap();
    let last = runs.iter().max_by_key(|run| run["id"].as_i64()).unwrap();
    let wall = last["walls"].as_array().unwrap().iter().find(|wall| wall["name"] == "limits").unwrap();
    (wall["status"].as_str().unwrap().to_owned(), wall["detail"].as_str().unwrap().to_owned())
}

#[test]
fn fork_bomb() {
    const BOMB: &str = "
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, error.errno)
else:
    print(made, 'all')
";
    everybody(|world| {
        let ran = bomb(world, &["--pids", "60"], BOMB).expect_code(0);
        let made: usize = ran.out().split(' ').next().unwrap().parse().unwrap();
        let (status, detail) = limits_of(world);
        assert!(status == "full" && detail.contains("pids 60: enforced"), "{detail}");
        // The numbers of a pid namespace are a coarser measure.
        let most = if detail.contains("pid_max") { 360 } else { 60 };
        assert!(made < most && ran.out().contains(" 11"), "{:?}: {ran}", world.env.who());
        let joined = "for i in $(seq 1 300); do sleep 3 & done 2>/dev/null; ls /proc | grep -c '^[0-9]'";
        if detail.contains("RLIMIT_NPROC") || detail.contains("control group") {
            world.ok(&["run", "-n", "a", "-d", "--pids", "60", "--", "sleep", "1000"]);
            let ran = world.run(&["exec", "a", "--", "/bin/bash", "-c", joined]);
            let there: usize = ran.out().trim().parse().unwrap_or(0);
            assert!(there <= 62, "{:?}: {ran}", world.env.who());
            world.ok(&["stop", "a"]);
        }
    });
}

#[test]
fn memory_bomb() {
    const BOMB: &str = "
held = []
for _ in range(120):
    held.append(bytearray(os.urandom(4096)) * 1024)
    time.sleep(0.02)
print('took', len(held) * 4)
";
    everybody(|world| {
        let ran = bomb(world, &["--memory", "96M"], BOMB);
        assert_eq!(ran.code, Some(137), "{:?}: {ran}", world.env.who());
        assert!(
            ran.err().contains("memory limit of 96.0 MiB hit") && ran.err().contains("--memory raises it"),
            "{ran}"
        );
        let (_, detail) = limits_of(world);
        assert!(
            detail.contains("memory 100663296 bytes: enforced") || detail.contains("watched"),
            "{detail}"
        );
    });
}

#[test]
fn memory_bomb_in_files() {
    const BOMB: &str = "
for number in range(60):
    with open('/dev/shm/f%d' % number if number % 2 else '/tmp/f%d' % number, 'wb') as file: file.write(os.urandom(4096) * 1024)
    time.sleep(0.03)
print('wrote all')
time.sleep(20)
";
    everybody(|world| {
        let ran = bomb(world, &["--memory", "96M"], BOMB);
        assert!(ran.code != Some(0), "{:?}: {ran}", world.env.who());
        assert!(ran.err().contains("memory limit of 96.0 MiB hit"), "{:?}: {ran}", world.env.who());
    });
}

#[test]
fn disk_bomb() {
    const BOMB: &str = "
for number in range(200):
    with open('f%d' % number, 'wb') as file: file.write(os.urandom(1 << 20))
    time.sleep(0.03)
print('wrote all')
time.sleep(20)
";
    everybody(|world| {
        for level in ["namespaces", "landlock-only"] {
            let name = if level == "namespaces" { "a" } else { "b" };
            let args = ["run", "-n", name, "--net", "host", "--level", level, "--disk", "20M"];
            let ran = world.python(&args, &format!("{BOUNDED}{BOMB}"));
            assert!(ran.err().contains("disk limit of 20.0 MiB hit"), "{level} {:?}: {ran}", world.env.who());
            assert!(!ran.out().contains("wrote all"), "{ran}");
        }
        let (status, detail) = limits_of(world);
        assert!(status == "partial" && detail.contains("watched"), "{detail}");
    });
}

#[test]
fn one_large_file() {
    const BOMB: &str = "
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = open('large', 'wb', buffering=0)
try:
    for _ in range(64): file.write(bytes(1 << 20))
    print('wrote all')
except OSError as error:
    print(error.errno, file.tell())
";
    everybody(|world| {
        let ran = bomb(world, &["--disk", "20M"], BOMB);
        assert!(
            ran.out().starts_with("27 20971520") || ran.err().contains("disk limit"),
            "{:?}: {ran}",
            world.env.who()
        );
        assert!(world.project.join("large").symlink_metadata().is_err());
    });
}

#[test]
fn inode_bomb() {
    const BOMB: &str = "
for number in range(20000):
    open('f%d' % number, 'w').close()
    if number % 100 == 0: time.sleep(0.05)
print('made all')
";
    everybody(|world| {
        let ran = bomb(world, &["--disk", "1G,2K"], BOMB);
        assert!(ran.err().contains("inodes limit of 2000 hit"), "{:?}: {ran}", world.env.who());
    });
}

#[test]
fn more_processors() {
    const BOMB: &str = "
before = len(os.sched_getaffinity(0))
try: os.sched_setaffinity(0, range(os.cpu_count()))
except OSError: pass
print(before, len(os.sched_getaffinity(0)))
began, used = time.monotonic(), time.process_time()
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        end = time.monotonic() + 2
        while time.monotonic() < end: pass
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
times = os.times()
print(round((times.children_user + times.children_system) / (time.monotonic() - began) * 100))
";
    everybody(|world| {
        let ran = bomb(world, &["--cpus", "1"], BOMB).expect_code(0);
        let (_, detail) = limits_of(world);
        let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
        if detail.contains("whole processors") {
            assert_eq!(lines[0], "1 1", "{ran}");
        }
        let percent: u32 = lines[1].parse().unwrap();
        assert!(percent <= 125, "{:?} {detail}: {ran}", world.env.who());
    });
}

#[test]
fn a_limit_that_nothing_can_hold_stops_the_run() {
    if !testkit::who::is_root() {
        require::say("not root: whether a user has groups of his own is not known here");
    }
    let world = World::new(Who::User);
    let ran = world.run(&[
        "run",
        "-n",
        "a",
        "--net",
        "host",
        "--level",
        "landlock-only",
        "--pids",
        "10",
        "--",
        "touch",
        "ran",
    ]);
    // In a delegated group it can be held.
    if ran.code != Some(0) {
        assert_eq!(ran.code, Some(125), "{ran}");
        assert!(ran.err().contains("pids cannot be limited here"), "{ran}");
    }
}

#[test]
fn nothing_is_left_of_groups_after_a_kill_and_the_next_command() {
    let groups = || {
        let mut found = Vec::new();
        for top in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let below = std::fs::read_dir(top.path()).into_iter().flatten().flatten();
            found.extend(
                below.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("-limits")),
            );
        }
        found
    };
    everybody(|world| {
        let args = ["run", "-n", "a", "--memory", "64M", "--pids", "50", "--", "sleep", "1000"];
        let mut running = testkit::Running::start(world.env.lane(&world.project, &args));
        testkit::until("it runs", crate::world::SOON, || {
            running
                .descendants()
                .iter()
                .any(|pid| testkit::procs::status(*pid, "Name").is_some_and(|name| name == "sleep"))
        });
        running.kill9();
        testkit::until("it is gone", crate::world::SOON, || world.env.remnants().is_empty());
        world.ok(&["ls"]);
        world.ok(&["discard", "a", "--now", "--yes"]);
        let id = world.env.root().display().to_string();
        testkit::until(&format!("no group of {id} is left"), crate::world::SOON, || groups().is_empty());
    });
}
