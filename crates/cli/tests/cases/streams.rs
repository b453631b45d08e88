//! B52: what a command reads and prints passes through unchanged, apart, and to its end.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rustix::process::Signal;
use testkit::Running;

use crate::world::{SOON, each, everybody};

const MANY: usize = 10 << 20;

/// Bytes of every value in no simple order.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..MANY).map(|_| next()).collect()
}

#[test]
fn b52_ten_mebibytes_pass_through_each_stream_unchanged() {
    everybody(|world| {
        world.lane("a");
        let (input, errors) = (bytes(1), bytes(2));
        world.env.write(&world.project.join("errors"), &errors);
        let mut command = world
            .env
            .lane(&world.project, &["run", "-q", "-n", "a", "--", "sh", "-c", "cat errors >&2 & cat; wait"]);
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.feed(&input);
        let ran = running.wait(SOON).expect_code(0);
        assert!(ran.stdout == input, "stdout: {} bytes", ran.stdout.len());
        assert!(ran.stderr == errors, "stderr: {} bytes", ran.stderr.len());
    });
}

#[test]
fn b52_a_file_as_input_and_files_as_output_hold_the_same_bytes() {
    each(|world| {
        world.lane("a");
        let input = bytes(3);
        let path = |name: &str| world.env.root().join(name);
        world.env.write(&path("in"), &input);
        let mut command =
            world.env.lane(&world.project, &["run", "-q", "-n", "a", "--", "sh", "-c", "tee /dev/stderr"]);
        command.stdin(std::fs::File::open(path("in")).unwrap());
        command.stdout(std::fs::File::create(path("out")).unwrap());
        command.stderr(std::fs::File::create(path("err")).unwrap());
        assert!(command.status().unwrap().success());
        assert!(std::fs::read(path("out")).unwrap() == input);
        assert!(std::fs::read(path("err")).unwrap() == input);
    });
}

#[test]
fn b52_stdout_and_stderr_stay_apart() {
    each(|world| {
        world.lane("a");
        let ran = world.run(&[
            "run",
            "-q",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; printf 'no newline'",
        ]);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("out\nno newline", "err\n"));
    });
}

#[test]
fn b52_closed_streams_are_no_trouble() {
    everybody(|world| {
        world.lane("a");
        for (closing, wanted) in [("<&-", "in=0\n"), ("0<&- 2>&-", "in=0\n")] {
            let mut command = world.env.command("/bin/sh");
            command.args(["-c", &format!(r#"exec "$0" "$@" {closing}"#)]).arg(world.env.lane_program());
            command
                .args(["run", "-q", "-n", "a", "--", "sh", "-c", "echo in=$(cat | wc -c)"])
                .current_dir(&world.project);
            assert_eq!(Running::start(command).wait(SOON).expect_code(0).out(), wanted, "{closing}");
        }
        let mut command = world.env.command("/bin/sh");
        command.args(["-c", r#"exec "$0" "$@" >&-"#]).arg(world.env.lane_program());
        command.args(["run", "-q", "-n", "a", "--", "sh", "-c", "touch made"]).current_dir(&world.project);
        Running::start(command).wait(SOON).expect_code(0);
        assert_eq!(world.changes("a"), ["add made"]);
    });
}

#[test]
fn b52_a_reader_that_leaves_early_gives_the_command_sigpipe() {
    each(|world| {
        world.lane("a");
        let script = r#""$0" run -q -n a -- sh -c 'yes; echo $? > code' | head -1; true"#;
        let mut command = world.env.command("/bin/sh");
        command.args(["-c", script]).arg(world.env.lane_program()).current_dir(&world.project);
        assert_eq!(Running::start(command).wait(SOON).expect_code(0).out(), "y\n");
        assert_eq!(world.sh("a", "cat code").out(), "141\n");
    });
}

#[test]
fn b52_a_command_that_does_not_read_its_input_ends_when_it_ends() {
    everybody(|world| {
        world.lane("a");
        let mut command = world.env.lane(&world.project, &["run", "-n", "a", "--", "true"]);
        command.stdin(Stdio::piped());
        let running = Running::start(command);
        // The pipe stays open and empty: nobody waits for it.
        running.wait(SOON).expect_code(0);
    });
}

#[test]
fn b52_a_reader_that_stalls_does_not_hold_up_signals_or_the_time_limit() {
    everybody(|world| {
        world.lane("a");
        for limit in [false, true] {
            let mut args = vec!["run", "-q", "-n", "a"];
            if limit {
                args.extend(["--timeout", "500ms"]);
            }
            args.extend(["--", "sh", "-c", "echo > started; yes"]);
            let mut command = world.env.lane(&world.project, &args);
            let (reader, writer) = std::io::pipe().unwrap();
            command.stdout(writer).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            drop(command);
            // The pipe is full when its size does not grow any more and nobody reads.
            let waiting = || rustix::io::ioctl_fionread(&reader).unwrap_or(0);
            testkit::until("the pipe is full", SOON, || waiting() >= 60_000);
            if !limit {
                let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
                rustix::process::kill_process(pid, Signal::TERM).unwrap();
            }
            let mut status = None;
            testkit::until("the run has ended", SOON, || {
                status = child.try_wait().unwrap();
                status.is_some()
            });
            assert_eq!(status.unwrap().code(), Some(if limit { 124 } else { 143 }));
            drop(reader);
            world.env.assert_nothing_is_left();
        }
    });
}

#[test]
fn b52_input_comes_as_it_is_written_and_ends_with_its_writer() {
    everybody(|world| {
        world.lane("a");
        let script = "while read -r line; do echo got $line; done; echo end";
        let mut command = world.env.lane(&world.project, &["run", "-q", "-n", "a", "--", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for word in ["one", "two"] {
            writeln!(to, "{word}").unwrap();
            let mut answer = vec![0; 4 + word.len() + 1];
            from.read_exact(&mut answer).unwrap();
            assert_eq!(answer, format!("got {word}\n").as_bytes());
        }
        drop(to);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "end\n");
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn b52_what_goes_to_one_place_over_both_streams_keeps_its_order() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "b", "-d", "--", "sleep", "1000"]);
        let script = "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
        let wanted: String = (0..300).map(|at| format!("o{at}\ne{at}\n")).collect();
        for verb in [&["run", "-q", "-n", "a"] as &[&str], &["-q", "exec", "b"]] {
            let mut command = world.env.command("/bin/sh");
            command
                .args(["-c", r#"exec "$0" "$@" 2>&1"#])
                .arg(world.env.lane_program())
                .current_dir(&world.project);
            command.args(verb).args(["--", "sh", "-c", script]);
            let ran = Running::start(command).wait(SOON).expect_code(0);
            assert!(ran.out() == wanted, "{verb:?}: {ran}");
        }
        world.ok(&["stop", "b"]);
    });
}

#[test]
fn b52_without_a_command_a_shell_reads_what_it_is_given() {
    everybody(|world| {
        world.lane("a");
        let mut command = world.env.lane(&world.project, &["run", "-q", "-n", "a"]);
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.feed(b"echo said; cat README.md; exit 9\n");
        assert_eq!(running.wait(SOON).expect_code(9).out(), "said\n# A project\n");
    });
}
