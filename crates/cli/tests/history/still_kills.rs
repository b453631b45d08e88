//! Whoever is killed while a lane stands still: it goes on, and without anybody's help.
//!
//! The guard is killed at every call that it makes, the watch and the supervisor at moments that are swept.

use std::time::Duration;

use testkit::{Running, Who, procs, until};

use crate::still::{Live, assert_goes_on};
use crate::world::{Made, SOON, World, fresh};

/// Several processes at work, one of them with threads, that count in files.
const WORK: &str = r#"
import os, threading, time
def count(name):
    f = os.open(name, os.O_RDWR | os.O_CREAT)
    n = 0
    while True:
        n += 1
        os.pwrite(f, b"%20d" % n, 0)
        time.sleep(0.0005)
for n in range(3):
    if os.fork() == 0:
        count("n%d" % n)
threading.Thread(target=count, args=("thread",)).start()
count("whole")
"#;
const COUNTS: [&str; 5] = ["n0", "n1", "n2", "thread", "whole"];

fn begin(world: &World) -> Live<'_> {
    let live = Live::python(world, WORK);
    for file in COUNTS {
        live.wait_for(file);
    }
    // The guard is started by the first one.
    live.snaps(1);
    live
}

fn assert_all_go_on(live: &Live<'_>, when: &str) {
    for name in COUNTS {
        assert_goes_on(&live.file(name), &format!("{when}: {name}"));
    }
}

/// Living processes by name that have something of this world's state open.
pub(crate) fn named(world: &World, name: &str) -> Vec<u32> {
    let state = std::fs::canonicalize(world.state()).unwrap();
    let holds = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| to.starts_with(&state))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| procs::status(*pid, "Name").as_deref() == Some(name) && holds(pid)).collect()
}

fn one(world: &World, name: &str) -> u32 {
    match named(world, name)[..] {
        [pid] => pid,
        ref several => panic!("{several:?} are called {name}"),
    }
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have ended by itself.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn a_guard_that_is_killed_at_any_of_its_calls_leaves_nobody_stopped() {
    for who in Who::all() {
        let world = World::git(fresh(who), Made::Overlay);
        let live = begin(&world);
        // A group of the lane's own is stopped by a write, without one each process by a signal.
        let stops = if live.group().is_some() { "write" } else { "pidfd_send_signal" };
        for call in ["pwrite64", stops, "unlinkat", "sendmsg", "memfd_create", "recvmsg"] {
            let mut struck = 0;
            for number in 1..=40 {
                let guard = named(&world, "lane-guard").pop();
                let guard = match guard {
                    Some(guard) => guard,
                    None => {
                        live.snaps(1);
                        one(&world, "lane-guard")
                    }
                };
                let inject = format!("inject={call}:signal=KILL:when={number}");
                let mut tracer = std::process::Command::new(testkit::require::program("strace"));
                tracer.args(["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
                tracer.args(["-p", &guard.to_string()]);
                let mut tracer = Running::start(tracer);
                // The guard waits for words: the call in which it does may be struck at once.
                until("the tracer is there", SOON, || {
                    tracer.over() || tracer.err_so_far().contains("attached")
                });
                world.ok(&["snap", "a"]);
                let was_struck = !procs::is_alive(guard);
                if !was_struck {
                    tracer.signal(rustix::process::Signal::INT);
                }
                tracer.wait(SOON);
                assert_all_go_on(&live, &format!("{call} {number}"));
                if !was_struck {
                    break;
                }
                struck += 1;
            }
            assert!(struck > 0, "{call} was never struck");
            assert!(struck < 40, "{call} was struck without end");
        }
        live.stop();
    }
}

#[test]
fn a_watch_that_is_killed_and_its_guard_with_it_leave_nobody_stopped() {
    for who in Who::all() {
        for with_guard in [false, true] {
            for moment in 0..8u64 {
                let world = World::git(fresh(who), Made::Overlay);
                let live = begin(&world);
                let (watch, guard) = (one(&world, "lane-watch"), one(&world, "lane-guard"));
                let snap = world.start(&["snap", "a"]);
                std::thread::sleep(Duration::from_millis(3 * moment));
                kill(watch);
                if with_guard {
                    kill(guard);
                }
                // Nothing is asked of `lane` before.
                let paths: Vec<_> = COUNTS.iter().map(|name| live_file(&world, name)).collect();
                for path in &paths {
                    assert_goes_on(path, &format!("moment {moment}, guard {with_guard}"));
                }
                snap.wait(SOON);
                until("the guard is gone", SOON, || !procs::is_alive(guard));
                live.stop();
            }
        }
    }
}

/// Where a file of the lane lies, without a command of `lane`.
fn live_file(world: &World, name: &str) -> std::path::PathBuf {
    let lanes = std::fs::read_dir(world.state().join("lanes")).unwrap();
    let layers = lanes.flatten().map(|lane| lane.path().join("0.u"));
    layers.map(|layer| layer.join(name)).find(|path| path.exists()).unwrap()
}

#[test]
fn a_supervisor_that_is_killed_takes_the_lane_along_and_a_command_that_had_joined_ends() {
    for who in Who::all() {
        for moment in 0..8u64 {
            let world = World::git(fresh(who), Made::Overlay);
            begin(&world);
            let watch = one(&world, "lane-watch");
            let guard = one(&world, "lane-guard");
            let supervisor: u32 = procs::status(watch, "PPid").unwrap().parse().unwrap();
            let joined = world.start(&["exec", "a", "--", "sleep", "1000"]);
            let sleeps = |pid: &u32| procs::status(*pid, "Name").as_deref() == Some("sleep");
            until("it joined", SOON, || procs::descendants(joined.pid()).iter().any(sleeps));
            let snap = world.start(&["snap", "a"]);
            std::thread::sleep(Duration::from_millis(3 * moment));
            // All three at once: nobody is left that could let go.
            for pid in [guard, watch, supervisor] {
                kill(pid);
            }
            joined.wait(SOON);
            snap.wait(SOON);
            until("nothing is left", SOON, || world.env.remnants().is_empty());
            world.run(&["ls"]).expect_code(0);
        }
    }
}
