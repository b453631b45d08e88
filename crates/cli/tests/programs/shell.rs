//! A person at a terminal: an interactive shell in a lane, job control inside, and the whole `lane run` as a
//! job of the person's own shell.

use std::time::{Duration, Instant};

use testkit::{Pty, procs, until};

use crate::ground::{Ground, SOON, each};

/// An interactive bash of the host, with a prompt that cannot be met in what it echoes.
fn host_shell(ground: &Ground) -> Pty {
    let mut command = ground.env.command(testkit::require::program("bash"));
    command.args(["--norc", "--noprofile", "-i"]).current_dir(&ground.project);
    command.env("PS1", "host[$?]> ").env("HISTFILE", "").env("LANE", ground.env.lane_program());
    let terminal = Pty::start(&command, ground.who(), 24, 100);
    terminal.wait_for("host[0]>", SOON);
    terminal
}

/// Presses a key after what is printed so far, and waits until `answer` stands in what comes later.
fn after(terminal: &mut Pty, keys: &str, answer: &str) {
    let seen = terminal.raw().len();
    terminal.send(keys);
    let later = || String::from_utf8_lossy(&terminal.raw()[seen..]).into_owned();
    let end = Instant::now() + SOON;
    while !later().contains(answer) {
        assert!(Instant::now() < end, "{answer:?} did not come after {keys:?} but {:?}", later());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Types a command for the host's shell, waits for its answer and for the next prompt: what is typed before that may
/// be read by the command.
fn command(terminal: &mut Pty, line: &str, answer: &str) {
    let seen = terminal.raw().len();
    terminal.send(line);
    let end = Instant::now() + SOON;
    loop {
        let later = String::from_utf8_lossy(&terminal.raw()[seen..]).into_owned();
        if later.split_once(answer).is_some_and(|(_, rest)| rest.contains("host[")) {
            return;
        }
        assert!(Instant::now() < end, "{answer:?} did not come after {line:?} but {later:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program of the project that says a word, which shows that the run has the terminal, and sleeps.
fn nap(ground: &Ground) {
    ground.write("nap", "#!/bin/sh\necho napping\nexec sleep 1000\n");
    ground.env.chmod(&ground.project.join("nap"), 0o755);
}

/// The `sleep` of this many seconds below the terminal.
fn job_of(terminal: &Pty, command: &str) -> Option<u32> {
    let all = procs::descendants(terminal.pid());
    all.into_iter().find(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words == format!("sleep\0{command}\0").into_bytes()
    })
}

#[test]
fn an_interactive_bash_in_a_lane_has_job_control_of_its_own() {
    each(|ground| {
        let script = ["run", "-n", "t", "-e", "PS1=in[$?]> ", "--", "bash", "--norc", "--noprofile", "-i"];
        let mut terminal = ground.terminal(&script);
        terminal.wait_for("in[0]>", SOON);
        assert!(!terminal.screen().contains("job control"), "{}", terminal.screen());
        terminal.resize(31, 97);
        after(&mut terminal, "stty size\n", "31 97");
        terminal.send("sleep 1000\n");
        until("sleep runs", SOON, || job_of(&terminal, "1000").is_some());
        after(&mut terminal, "\x03", "in[130]>");
        terminal.send("sleep 1001\n");
        until("sleep runs", SOON, || job_of(&terminal, "1001").is_some());
        after(&mut terminal, "\x1a", "in[148]>");
        after(&mut terminal, "jobs\n", "Stopped");
        terminal.send("fg\n");
        let is_sleeping = |terminal: &Pty| {
            job_of(terminal, "1001")
                .and_then(|pid| procs::status(pid, "State"))
                .is_some_and(|state| state.starts_with('S'))
        };
        until("sleep goes on", SOON, || is_sleeping(&terminal));
        after(&mut terminal, "\x03", "in[130]>");
        after(&mut terminal, "cat\n", "cat");
        after(&mut terminal, "\x04", "in[0]>");
        terminal.send("exit 9\n");
        assert_eq!(terminal.wait(SOON), 9);
    });
}

#[test]
fn a_stopped_run_gives_the_terminal_back_and_goes_on_with_fg() {
    each(|ground| {
        nap(ground);
        let mut terminal = host_shell(ground);
        after(&mut terminal, "stty -g > before\n", "host[0]>");
        after(&mut terminal, "$LANE run -q -n t -- ./nap\n", "napping");
        until("sleep runs", SOON, || job_of(&terminal, "1000").is_some());
        after(&mut terminal, "\x1a", "host[148]>");
        after(&mut terminal, "stty -g | cmp - before && echo equal-$((1+1))\n", "equal-2");
        after(&mut terminal, "jobs\n", "Stopped");
        until("sleep is stopped too", SOON, || {
            let pid = job_of(&terminal, "1000").unwrap();
            procs::status(pid, "State").is_some_and(|state| state.starts_with('T'))
        });
        terminal.send("fg\n");
        until("sleep goes on", SOON, || {
            let pid = job_of(&terminal, "1000").unwrap();
            procs::status(pid, "State").is_some_and(|state| state.starts_with('S'))
        });
        after(&mut terminal, "\x03", "host[130]>");
        after(&mut terminal, "stty -g | cmp - before && echo equal-$((1+2))\n", "equal-3");
        until("the lane is at rest", SOON, || job_of(&terminal, "1000").is_none());
        terminal.send("exit 0\n");
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn a_script_around_a_run_is_stopped_with_it_and_goes_on_with_it() {
    each(|ground| {
        nap(ground);
        let mut terminal = host_shell(ground);
        after(&mut terminal, "sh -c '$LANE run -q -n t -- ./nap; echo $((40+2))'\n", "napping");
        until("sleep runs", SOON, || job_of(&terminal, "1000").is_some());
        after(&mut terminal, "\x1a", "Stopped");
        after(&mut terminal, "echo $((50+5))\n", "55");
        terminal.send("fg\n");
        until("sleep goes on", SOON, || {
            let pid = job_of(&terminal, "1000").unwrap();
            procs::status(pid, "State").is_some_and(|state| state.starts_with('S'))
        });
        after(&mut terminal, "\x03", "host[");
        terminal.send("exit 0\n");
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn a_run_that_nobody_could_continue_is_not_stopped() {
    each(|ground| {
        // A leader with a terminal, as in a terminal window of its own: the kernel ignores Ctrl-Z there.
        let mut terminal =
            ground.terminal(&["run", "-q", "-n", "t", "--", "sh", "-c", "echo begun; read x; echo got-$x"]);
        terminal.wait_for("begun", SOON);
        terminal.send("\x1a");
        terminal.wait_for("^Z", SOON);
        terminal.send("on\n");
        terminal.wait_for("got-on", SOON);
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn a_run_is_a_member_of_a_pipeline() {
    each(|ground| {
        let mut terminal = host_shell(ground);
        command(
            &mut terminal,
            "printf 'b\\na\\n' | $LANE run -q -n t -- sort | tr a-z A-Z | tr '\\n' -\n",
            "A-B-",
        );
        command(&mut terminal, "echo; $LANE run -q -n t -- seq 1 100000 | head -n 1 | tr 1 Q\n", "\r\nQ\r\n");
        // Who has only a part of a terminal sees just that.
        let isatty = "for n in 0 1 2; do if [ -t $n ]; then printf y; else printf n; fi; done >&$to; echo";
        let cases = [
            ("-e to=1", "| cat", "yny"),
            ("-e to=2", "</dev/null", "nyy"),
            ("-e to=1", "", "yyy"),
            ("-e to=1", "2>/dev/null", "yyn"),
        ];
        for (wish, rest, answer) in cases {
            let answer = format!("\r\n{answer}\r");
            let line = format!("echo; $LANE run -q -n t {wish} -- sh -c '{isatty}' {rest}\n");
            command(&mut terminal, &line, &answer);
        }
        command(&mut terminal, "stty -a | grep -c ' icanon '\n", "1");
        terminal.send("exit 0\n");
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn a_full_screen_program_at_the_head_of_a_pipeline_draws_as_it_should() {
    each(|ground| {
        let mut terminal = host_shell(ground);
        // Draws on the terminal by way of stderr, as programs that let a person choose do.
        let script = "stty -opost; printf '\\033[2J\\033[Hone\\n two' >/dev/tty; read x; stty opost; echo $x";
        terminal
            .send(format!("$LANE run -q -n t -- sh -c \"{}\" | tr a-z A-Z\n", script.replace('$', "\\$")));
        until("the picture", SOON, || terminal.screen().starts_with("one\n    two"));
        command(&mut terminal, "done\n", "DONE\r\n");
        terminal.send("exit 0\n");
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn a_background_run_prints_and_ends_without_taking_the_terminal() {
    each(|ground| {
        let mut terminal = host_shell(ground);
        terminal.send("$LANE run -q -n t -- sh -c 'echo bg-$((20+2)); stty size >/dev/null; exit 3' & wait $!; echo =$?=\n");
        until("the end of the background run", Duration::from_secs(60), || {
            String::from_utf8_lossy(&terminal.raw()).contains("=3=")
        });
        assert!(terminal.screen().contains("bg-22"), "{}", terminal.screen());
        after(&mut terminal, "echo still-$((1+1))\n", "still-2");
        terminal.send("exit 0\n");
        assert_eq!(terminal.wait(SOON), 0);
    });
}
