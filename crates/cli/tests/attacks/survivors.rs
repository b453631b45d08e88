//! Processes that try to outlive their run.

use std::time::Duration;

use testkit::{Running, Who, until};

use crate::world::{SOON, World, everybody};

/// Forks twice, in a session of its own, ignores what asks it to end, and writes on. It ends by itself after a minute.
const DAEMON: &str = r#"
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (1, 2, 3, 13, 15): signal.signal(number, signal.SIG_IGN)
        for fd in (0, 1, 2): os.close(fd)
        end = time.monotonic() + 60
        open('alive', 'w').close()
        while time.monotonic() < end: time.sleep(0.05)
        os._exit(0)
    os._exit(0)
os.wait()
while not os.path.exists('alive'): time.sleep(0.01)
"#;

#[test]
fn survive_by_double_fork() {
    everybody(|world| {
        for level in ["namespaces", "landlock-only"] {
            let name = if level == "namespaces" { "a" } else { "b" };
            let args = ["run", "-n", name, "--net", "host", "--level", level];
            world.python(&args, DAEMON).expect_code(0);
            until(&format!("{level}: nothing of it is left"), SOON, || daemons(world).is_empty());
        }
    });
}

/// Processes of the world that run the daemon.
fn daemons(world: &World) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let is_daemon = line.windows(18).any(|part| part == b"open('alive', 'w')");
        let owner = std::os::unix::fs::MetadataExt::uid(&match entry.metadata() {
            Ok(meta) => meta,
            Err(_) => continue,
        });
        if is_daemon
            && owner == world.env.who().uid()
            && !line.starts_with(world.env.lane_program().as_os_str().as_encoded_bytes())
        {
            found.push(pid);
        }
    }
    found
}

#[test]
fn survive_a_kill() {
    everybody(|world| {
        let script = format!("{DAEMON}\ntime.sleep(1000)");
        let args = ["run", "-n", "a", "--", "/usr/bin/python3", "-c", &script];
        let mut running = Running::start(world.env.lane(&world.project, &args));
        until("the daemon runs", SOON, || daemons(world).len() >= 2);
        running.kill9();
        until("everything is gone with the supervisor", SOON, || daemons(world).is_empty());
        world.ok(&["ls"]);
    });
    // Without a pid namespace it does survive, which the level's line says; here it ends itself.
    let mut world = World::new(Who::User);
    world.env.allow_remnants();
    let args = [
        "run",
        "-n",
        "b",
        "--net",
        "host",
        "--level",
        "landlock-only",
        "--",
        "/usr/bin/python3",
        "-c",
        DAEMON,
    ];
    let ran = Running::start(world.env.lane(&world.project, &args)).wait(Duration::from_secs(60));
    assert!(ran.err().contains("processes may survive"), "{ran}");
}
