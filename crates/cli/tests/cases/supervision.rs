//! B52: how a command's end, its signals and its children are passed on.

use rustix::process::Signal;
use testkit::Running;

use crate::world::{SOON, World, each, everybody};

#[test]
fn b52_exit_codes_are_the_commands_own() {
    each(|world| {
        world.lane("a");
        for (command, code) in [
            (&["sh", "-c", "exit 37"] as &[&str], 37),
            (&["sh", "-c", "kill -TERM $$"], 143),
            (&["sh", "-c", "kill -KILL $$"], 137),
            (&["/nonexistent"], 127),
            (&["no-such-program-anywhere"], 127),
            (&["/etc/passwd"], 126),
            (&["/etc"], 126),
            (&["true"], 0),
            (&["sh", "-c", "exit 255"], 255),
        ] {
            let mut args = vec!["run", "-n", "a", "--"];
            args.extend(command);
            world.run(&args).expect_code(code);
        }
    });
}

#[test]
fn b52_a_joined_command_passes_its_code_too() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
        for (script, code) in [("exit 37", 37), ("kill -TERM $$", 143)] {
            world.run(&["exec", "a", "--", "sh", "-c", script]).expect_code(code);
        }
        world.run(&["exec", "a", "--", "/nonexistent"]).expect_code(127);
        world.run(&["exec", "a", "--", "/etc/passwd"]).expect_code(126);
        world.ok(&["stop", "a"]);
    });
}

#[test]
fn b52_a_failure_of_the_tool_itself_is_125_and_runs_nothing() {
    each(|world| {
        world.lane("a");
        let mark = world.env.home().join("mark");
        let bind = world.env.home();
        for broken in [
            &["run", "-n", "a", "--ro", "/no/such/path"] as &[&str],
            &["run", "-n", "a", "--preset", "nobody"],
            &["run", "-n", "bad name"],
            &["exec", "missing"],
        ] {
            let mut command = world.env.lane(&world.project, broken);
            if broken[0] == "run" {
                command.arg("--bind").arg(&bind);
            }
            command.args(["--", "touch"]).arg(&mark);
            Running::start(command).wait(SOON).expect_code(125);
            assert!(!mark.exists(), "{broken:?}");
        }
    });
}

#[test]
fn b52_signals_reach_the_command_and_its_answer_comes_back() {
    each(|world| {
        world.lane("a");
        for (signal, name, code) in [
            (Signal::INT, "INT", 11),
            (Signal::TERM, "TERM", 12),
            (Signal::HUP, "HUP", 13),
            (Signal::USR1, "USR1", 14),
        ] {
            let script = format!(
                "trap 'echo got {name}; exit {code}' {name}; echo ready; while :; do sleep 0.05; done"
            );
            let mut running = world.start(&["run", "-n", "a", "--", "sh", "-c", &script]);
            running.wait_for("ready", SOON);
            running.signal(signal);
            let ran = running.wait(SOON).expect_code(code);
            assert!(ran.out().ends_with(&format!("got {name}\n")), "{ran}");
        }
    });
}

#[test]
fn b52_a_signal_without_a_handler_ends_the_command_as_its_code_says() {
    everybody(|world| {
        world.lane("a");
        for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1), (Signal::USR1, 10)] {
            let mut running =
                world.start(&["run", "-n", "a", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
            running.wait_for("ready", SOON);
            running.signal(signal);
            running.wait(SOON).expect_code(128 + number);
        }
    });
}

#[test]
fn b52_orphans_are_reaped() {
    everybody(|world| {
        world.lane("a");
        let script = "for i in 1 2 3 4 5; do (true &) ; done
n=0; while [ $n -lt 500 ]; do
  z=0; for s in /proc/[0-9]*/stat; do read -r line < $s 2>/dev/null || continue; case $line in *') Z '*) z=1;; esac; done
  [ $z = 0 ] && echo clean && exit 0; n=$((n+1)); sleep 0.01
done; exit 1";
        assert_eq!(world.sh("a", script).out(), "clean\n");
    });
}

#[test]
fn b52_what_is_left_in_the_background_gets_term_and_then_kill() {
    each(|world| {
        world.lane("a");
        let script = "(trap 'echo bye > bye; exit' TERM; echo > one; while :; do sleep 0.02; done) &
(trap '' TERM; echo > two; while :; do sleep 0.02; done) &
setsid sh -c 'echo > three; exec sleep 1000' &
while ! [ -e one -a -e two -a -e three ]; do sleep 0.01; done";
        let began = std::time::Instant::now();
        world.sh("a", script);
        let took = began.elapsed();
        assert!(took.as_secs_f64() > 1.9, "KILL came after {took:?}");
        assert!(world.changes("a").contains(&"add bye".to_owned()), "{:?}", world.changes("a"));
        world.env.assert_nothing_is_left();
    });
}

#[test]
fn b52_a_run_whose_children_end_when_asked_does_not_wait() {
    everybody(|world| {
        world.lane("a");
        let began = std::time::Instant::now();
        world.sh("a", "sleep 1000 & sleep 1000 & true");
        assert!(began.elapsed().as_secs_f64() < 1.9, "{:?}", began.elapsed());
        world.env.assert_nothing_is_left();
    });
}

#[test]
fn b52_the_time_limit_ends_everything_with_124() {
    each(|world| {
        world.lane("a");
        let ran =
            world.run(&["run", "-n", "a", "--timeout", "300ms", "--", "sh", "-c", "sleep 1000 & sleep 1000"]);
        assert_eq!(ran.code, Some(124), "{ran}");
        let stubborn = "trap '' TERM; while :; do sleep 0.05; done";
        world.run(&["run", "-n", "a", "--timeout", "100ms", "--", "sh", "-c", stubborn]).expect_code(124);
        world.env.assert_nothing_is_left();
        world.run(&["run", "-n", "a", "--timeout", "60s", "--", "sh", "-c", "exit 3"]).expect_code(3);
    });
}

#[test]
fn b52_a_time_limit_holds_for_an_unattended_lane_too() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--timeout", "300ms", "--", "sleep", "1000"]);
        testkit::until("the lane has ended", SOON, || world.json(&["show", "a"])["lane"]["state"] == "idle");
        world.env.assert_nothing_is_left();
    });
}

#[test]
fn b52_the_death_of_pid_1_ends_the_lane_and_is_told() {
    each(|world| {
        world.lane("a");
        let mut running =
            world.start(&["run", "-n", "a", "--", "sh", "-c", "echo ready; sleep 1000 & sleep 1000"]);
        running.wait_for("ready", SOON);
        // The supervisor's children: pid 1 of the lane is the one in another pid namespace.
        let ours = std::fs::read_link("/proc/self/ns/pid").unwrap();
        let inner = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/ns/pid_for_children")).is_ok_and(|link| link != ours)
                || std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|link| link != ours)
        };
        let one = running.descendants().into_iter().find(inner).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(one as i32).unwrap(), Signal::KILL)
            .unwrap();
        let ran = running.wait(SOON);
        assert!(matches!(ran.code, Some(125 | 137)), "{ran}");
        testkit::until("nothing is left", SOON, || world.env.remnants().is_empty());
        world.sh("a", "true");
    });
}

#[test]
fn b52_a_caller_that_ignores_hangups_keeps_its_command_alive() {
    everybody(|world: &World| {
        world.lane("a");
        let mut command = world.env.command("/bin/sh");
        command
            .args(["-c", r#"trap '' HUP; exec "$0" "$@""#])
            .arg(world.env.lane_program())
            .current_dir(&world.project);
        command.args([
            "run",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "echo ready; while ! [ -e /tmp/go ]; do sleep 0.02; done; echo end",
        ]);
        let mut running = Running::start(command);
        running.wait_for("ready", SOON);
        running.signal(Signal::HUP);
        world.ok(&["exec", "a", "--", "touch", "/tmp/go"]);
        let ran = running.wait(SOON).expect_code(0);
        assert!(ran.out().ends_with("end\n"), "{ran}");
    });
}

#[test]
fn b52_the_commands_code_comes_back_though_the_project_was_moved_meanwhile() {
    each(|world| {
        world.lane("a");
        let script = "trap 'exit 37' USR1; echo ready; while :; do sleep 0.02; done";
        let mut running = world.start(&["run", "-n", "a", "--", "sh", "-c", script]);
        running.wait_for("ready", SOON);
        let away = world.env.project("away");
        std::fs::rename(&world.project, &away).unwrap();
        running.signal(Signal::USR1);
        let ran = running.wait(SOON);
        std::fs::rename(&away, &world.project).unwrap();
        assert_eq!(ran.code, Some(37), "{ran}");
    });
}

#[test]
fn b52_a_caller_that_ignores_its_children_or_blocks_signals_gets_the_code_all_the_same() {
    testkit::require::program("python3");
    everybody(|world| {
        for before in [
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
            "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
            "os.umask(0o077)",
        ] {
            let script = format!("import os, signal, sys\n{before}\nos.execv(sys.argv[1], sys.argv[1:])");
            let mut command = world.env.command("/usr/bin/python3");
            command.args(["-c", &script]).arg(world.env.lane_program()).current_dir(&world.project);
            command.args(["run", "--rm", "--", "sh", "-c", "(exit 3); [ $? = 3 ] && kill -USR1 $$; exit 5"]);
            let ran = Running::start(command).wait(SOON);
            assert_eq!(ran.code, Some(138), "{before}: {ran}");
        }
    });
}
