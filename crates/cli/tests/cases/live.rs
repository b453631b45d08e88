//! Live lanes: unattended, joined, stopped; several at once; the same one at once.

use std::process::Stdio;

use testkit::Running;

use crate::world::{SOON, each, everybody, word};

#[test]
fn b52_a_server_lives_until_stop_and_other_commands_reach_it() {
    each(|world| {
        world.lane("a");
        let server = "import http.server, os
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
open('/tmp/port', 'w').write(str(server.server_port)); os.rename('/tmp/port', '/tmp/port.ready')
server.serve_forever()";
        for net in ["none", "host"] {
            world.ok(&["run", "-n", "a", "-d", "--net", net, "--", "/usr/bin/python3", "-c", server]);
            assert_eq!(word(&world.json(&["show", "a"])["lane"]["state"]), "live");
            let client = "while ! [ -e /tmp/port.ready ]; do sleep 0.02; done
exec /usr/bin/python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:\" + sys.argv[1] + \"/README.md\").read().decode())' $(cat /tmp/port.ready)";
            assert!(world.ok(&["exec", "a", "--", "sh", "-c", client]).out().contains("# A project"));
            world.ok(&["stop", "a"]);
            assert_eq!(word(&world.json(&["show", "a"])["lane"]["state"]), "idle");
            world.env.assert_nothing_is_left();
        }
    });
}

#[test]
fn b52_a_live_lane_goes_on_after_its_command_until_it_is_stopped() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "true"]);
        world.ok(&["exec", "a", "--", "sh", "-c", "echo shared > /tmp/x"]);
        assert_eq!(world.ok(&["exec", "a", "--", "cat", "/tmp/x"]).out(), "shared\n");
        let ran = world.run(&["discard", "a", "--now"]).expect_code(1);
        assert!(ran.err().contains("lane stop a") || ran.err().contains("--yes"), "{ran}");
        world.ok(&["stop", "a"]);
        world.env.assert_nothing_is_left();
        let ran = world.ok(&["stop", "a"]);
        assert!(!ran.err().contains("panicked"), "{ran}");
        world.gone("a");
    });
}

#[test]
fn discarding_a_live_lane_for_good_ends_its_processes_first() {
    each(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sh", "-c", "sleep 1000 & sleep 1000"]);
        world.gone("a");
        world.env.assert_nothing_is_left();
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
    });
}

#[test]
fn a_second_run_joins_the_live_lane() {
    each(|world| {
        world.lane("a");
        let mut first = world.start(&[
            "run",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "echo 1 > /tmp/x; echo ready; while ! [ -e /tmp/go ]; do sleep 0.02; done",
        ]);
        first.wait_for("ready", SOON);
        let second =
            world.ok(&["run", "-n", "a", "--", "sh", "-c", "cat /tmp/x; echo two > two; touch /tmp/go"]);
        assert_eq!(second.out(), "1\n");
        first.wait(SOON).expect_code(0);
        assert_eq!(world.changes("a"), ["add two"]);
    });
}

#[test]
fn the_end_of_the_lane_ends_what_had_joined_it() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
        let mut joined = world.start(&["exec", "a", "--", "sh", "-c", "echo ready; sleep 1000"]);
        joined.wait_for("ready", SOON);
        world.ok(&["stop", "a"]);
        let ran = joined.wait(SOON);
        assert!(matches!(ran.code, Some(125 | 137 | 143)), "{ran}");
        world.env.assert_nothing_is_left();
    });
}

#[test]
fn the_end_of_a_joined_client_ends_its_command_alone() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
        let mut joined = world.start(&["exec", "a", "--", "sh", "-c", "echo ready; exec sleep 2000"]);
        joined.wait_for("ready", SOON);
        joined.kill9();
        joined.wait(SOON);
        let find = "for c in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $c; echo; done 2>/dev/null | grep -c '^sleep 2000' || true";
        testkit::until("the command has ended", SOON, || {
            world.ok(&["exec", "a", "--", "sh", "-c", find]).out() == "0\n"
        });
        let still = find.replace("2000", "1000");
        assert_eq!(world.ok(&["exec", "a", "--", "sh", "-c", &still]).out(), "1\n");
        world.ok(&["stop", "a"]);
    });
}

/// Starts the same command twice at once; both must succeed.
fn at_once(world: &crate::world::World, args: &[&str], count: usize) {
    let running: Vec<Running> = (0..count).map(|_| world.start(args)).collect();
    for running in running {
        running.wait(SOON).expect_code(0);
    }
}

#[test]
fn two_runs_of_one_name_at_once_share_the_lane_whether_it_is_new_or_not() {
    for who in testkit::Who::all() {
        for made in ["overlay", "copy"] {
            let world = crate::world::World::git(crate::world::fresh(who), crate::world::Made::Overlay);
            for round in 0..4 {
                let name = format!("lane{round}");
                let script = "echo x >> /dev/null; echo $$ > f.$(cat /proc/sys/kernel/random/uuid)";
                if round % 2 == 0 {
                    world.ok(&["new", &name, "--strategy", made]);
                }
                at_once(&world, &["run", "-n", &name, "--", "sh", "-c", script], 3);
                assert_eq!(world.changes(&name).len(), 3, "{:?}", world.changes(&name));
            }
            let lanes = world.json(&["ls"]);
            assert_eq!(lanes.as_array().unwrap().len(), 4, "{lanes}");
            world.env.assert_nothing_is_left();
        }
    }
}

#[test]
fn one_upper_is_never_mounted_twice() {
    everybody(|world| {
        world.lane("a");
        // Each run looks at how many lane roots are mounted over the project: the kernel would not object.
        let script = "mkdir /tmp/alone 2>/dev/null && echo first; sleep 0.05; true";
        let firsts: usize = (0..3)
            .map(|_| {
                let running: Vec<Running> = (0..4)
                    .map(|_| world.start(&["run", "-q", "-n", "a", "--", "sh", "-c", script]))
                    .collect();
                let spaces: Vec<String> =
                    running.into_iter().map(|running| running.wait(SOON).expect_code(0).out()).collect();
                spaces.iter().filter(|out| *out == "first\n").count()
            })
            .sum();
        assert!(firsts >= 3, "{firsts}");
        // While the lane is live nobody else gets its lock.
        let mut first = world.start(&[
            "run",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "echo ready; while ! [ -e /tmp/go ]; do sleep 0.02; done",
        ]);
        first.wait_for("ready", SOON);
        let namespace = "readlink /proc/self/ns/mnt";
        let one = world.ok(&["run", "-q", "-n", "a", "--", "sh", "-c", namespace]).out();
        let two = world.ok(&["exec", "-q", "a", "--", "sh", "-c", namespace]).out();
        assert_eq!(one, two);
        world.ok(&["exec", "a", "--", "touch", "/tmp/go"]);
        first.wait(SOON).expect_code(0);
    });
}

#[test]
fn b03_twelve_lanes_made_at_once_all_work() {
    each(|world| {
        let names: Vec<String> = (0..12).map(|at| format!("l{at}")).collect();
        let made: Vec<Running> =
            names.iter().map(|name| world.start(&["new", name, "--strategy", world.made.word()])).collect();
        made.into_iter().for_each(|running| drop(running.wait(SOON).expect_code(0)));
        let ran: Vec<Running> = names
            .iter()
            .map(|name| {
                world.start(&[
                    "run",
                    "-n",
                    name,
                    "--",
                    "sh",
                    "-c",
                    "echo $LANE > mine; git status --porcelain",
                ])
            })
            .collect();
        for running in ran {
            assert_eq!(running.wait(SOON).expect_code(0).out(), "?? mine\n");
        }
        for name in &names {
            assert_eq!(world.changes(name), ["add mine"]);
        }
        assert_eq!(world.json(&["ls"]).as_array().unwrap().len(), 12);
        let mut args = vec!["discard", "--now", "--yes"];
        args.extend(names.iter().map(String::as_str));
        world.ok(&args);
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
    });
}

#[test]
fn unattended_output_is_recorded_and_the_callers_pipe_is_let_go() {
    everybody(|world| {
        world.lane("a");
        let mut command = world.env.lane(
            &world.project,
            &["run", "-n", "a", "-d", "--", "sh", "-c", "echo spoken; touch /tmp/said; sleep 1000"],
        );
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Waits for the end of both pipes: nobody who stays behind holds them.
        let output = command.output().unwrap();
        assert!(output.status.success());
        testkit::until("it was said", SOON, || {
            world.run(&["exec", "a", "--", "test", "-e", "/tmp/said"]).code == Some(0)
        });
        world.ok(&["stop", "a"]);
        let shown = world.json(&["show", "a"]);
        let run = shown["runs"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|run| run["id"].as_u64())
            .min()
            .unwrap()
            .to_string();
        assert!(world.ok(&["log", "a", "--transcript", &run]).out().contains("spoken"));
        // One that printed nothing is told as that.
        world.sh("a", "true");
        assert!(world.ok(&["show", "a", "--transcript"]).err().contains("printed nothing"));
    });
}

#[test]
fn a_lane_can_be_started_again_the_moment_it_was_stopped_under_a_joined_command() {
    each(|world| {
        world.lane("a");
        for round in 0..6 {
            world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
            let mut joined = world.start(&["exec", "a", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
            joined.wait_for("ready", SOON);
            world.ok(&["stop", "a"]);
            // The joined command is gone with the lane: its layers are free.
            world.ok(&["run", "-q", "-n", "a", "--", "sh", "-c", &format!("echo {round} > f; ln -f f g")]);
            joined.wait(SOON);
        }
        assert_eq!(world.sh("a", "cat f g").out(), "5\n5\n");
    });
}

#[test]
fn a_run_waits_for_those_who_joined_it_and_a_signal_ends_them() {
    everybody(|world| {
        world.lane("a");
        let mut first = world.start(&[
            "run",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "echo ready; while ! [ -e /tmp/go ]; do sleep 0.02; done; exit 5",
        ]);
        first.wait_for("ready", SOON);
        let mut second =
            world.start(&["exec", "a", "--", "sh", "-c", "touch /tmp/go; echo joined; sleep 1000"]);
        second.wait_for("joined", SOON);
        first.wait_for("goes on for 1 more that joined it", SOON);
        first.signal(rustix::process::Signal::TERM);
        first.wait(SOON).expect_code(5);
        assert!(matches!(second.wait(SOON).code, Some(125 | 137 | 143)));
        world.env.assert_nothing_is_left();
    });
}
