//! The terminal under `lane review`: another size, a stop and its end, signals; and as it was afterwards.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Pty, procs, until};

use crate::review::{leave, review};
use crate::world::{World, once};

const SOON: Duration = Duration::from_secs(60);

/// An interactive bash with a prompt that is in nothing that it echoes, and a lane to look at.
fn shell(world: &World) -> Pty {
    world.lane("fix");
    world.write("fix", "a", b"a\n");
    let mut command = world.env.command(testkit::require::program("bash"));
    command.args(["--norc", "--noprofile", "-i"]).current_dir(&world.project);
    command.env("PS1", "host[$?]> ").env("HISTFILE", "").env("LANE", world.env.lane_program());
    let terminal = Pty::start(&command, world.env.who(), 24, 100);
    terminal.wait_for("host[0]>", SOON);
    terminal
}

/// The review below the shell.
fn reviewer(terminal: &Pty) -> Pid {
    let is_it = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|b| *b == 0).nth(1) == Some(b"review")
    };
    let mut found = None;
    until("the review runs", SOON, || {
        found = procs::descendants(terminal.pid()).into_iter().find(is_it);
        found.is_some()
    });
    Pid::from_raw(found.expect("it runs").cast_signed()).expect("a process")
}

/// The modes of the terminal are those of a shell: typed letters are echoed and lines are lines.
fn is_sane(terminal: &mut Pty) {
    let seen = terminal.raw().len();
    terminal.send("echo modes-$(stty -a | grep -c ' icanon ')-$(stty -a | grep -c ' echo ')-end\n");
    let later = || String::from_utf8_lossy(&terminal.raw()[seen..]).into_owned();
    until("lines and an echo", SOON, || later().contains("modes-1-1-end"));
    // Whatever was switched on was switched off, and the mouse with it.
    let all = terminal.raw();
    let last = |on: &[u8], off: &[u8]| {
        let at = |what: &[u8]| all.windows(what.len()).rposition(|part| part == what);
        assert!(at(on) < at(off), "{:?} was left on", String::from_utf8_lossy(on));
    };
    last(b"\x1b[?1049h", b"\x1b[?1049l");
    last(b"\x1b[?1000h", b"\x1b[?1000l");
    last(b"\x1b[?25l", b"\x1b[?25h");
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    once(|world| {
        world.lane("fix");
        for number in 0..60 {
            world.write("fix", format!("file{number:02}"), b"x\n");
        }
        let mut terminal = review(world, &["fix"], 24, 100);
        terminal.wait_for("file20", SOON);
        assert!(!terminal.screen().contains("file30"), "{}", terminal.screen());
        terminal.resize(50, 120);
        terminal.wait_for("file40", SOON);
        terminal.resize(12, 40);
        until("the small screen", SOON, || {
            let screen = terminal.screen();
            screen.contains("? help") && screen.contains("file00") && !screen.contains("file20")
        });
        terminal.resize(3, 10);
        terminal.wait_for("too small", SOON);
        terminal.resize(30, 100);
        terminal.wait_for("file20", SOON);
        leave(terminal);
    });
}

#[test]
fn control_z_gives_the_terminal_back_and_fg_takes_it_again() {
    once(|world| {
        let mut terminal = shell(world);
        terminal.send("\"$LANE\" review fix\n");
        terminal.wait_for("[ ] A a", SOON);
        for _ in 0..2 {
            terminal.send("\x1a");
            until("the screen is left", SOON, || !terminal.is_full_screen());
            terminal.wait_for("host[148]>", SOON);
            is_sane(&mut terminal);
            terminal.resize(30, 90);
            terminal.send("fg\n");
            until("the screen is back", SOON, || terminal.is_full_screen());
            terminal.wait_for("[ ] A a", SOON);
        }
        terminal.send("a");
        terminal.wait_for("[x] A a", SOON);
        // Sent by somebody else, it is the same.
        kill_process(reviewer(&terminal), Signal::TSTP).expect("sent");
        until("the screen is left", SOON, || !terminal.is_full_screen());
        is_sane(&mut terminal);
        terminal.send("fg\n");
        terminal.wait_for("[x] A a", SOON);
        terminal.send("q");
        terminal.wait_for("host[0]>", SOON);
        is_sane(&mut terminal);
        terminal.send("exit\n");
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn whatever_ends_it_the_terminal_is_as_it_was() {
    once(|world| {
        let mut terminal = shell(world);
        for (signal, code) in
            [(Some(Signal::TERM), 143), (Some(Signal::HUP), 129), (Some(Signal::INT), 130), (None, 0)]
        {
            terminal.send("\"$LANE\" review fix\n");
            terminal.wait_for("[ ] A a", SOON);
            match signal {
                Some(signal) => kill_process(reviewer(&terminal), signal).expect("sent"),
                // Ctrl-C is a key here.
                None => terminal.send("\x03"),
            }
            until("the screen is left", SOON, || !terminal.is_full_screen());
            terminal.wait_for(&format!("host[{code}]>"), SOON);
            is_sane(&mut terminal);
            terminal.send("clear\n");
        }
        terminal.send("exit\n");
        terminal.wait(SOON);
    });
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    once(|world| {
        world.lane("fix");
        let terminal = review(world, &[], 24, 100);
        terminal.wait_for("1 lane", SOON);
        let pid = terminal.pid();
        let alive: Vec<u32> = std::iter::once(pid).chain(procs::descendants(pid)).collect();
        drop(terminal);
        until("it has ended", SOON, || !alive.iter().any(|pid| procs::is_alive(*pid)));
    });
}

#[test]
fn no_color_means_no_colour() {
    once(|world| {
        world.lane("fix");
        world.write("fix", "a.rs", b"fn main() {}\n");
        let mut command = world.env.lane(&world.project, &["review", "fix"]);
        command.env("NO_COLOR", "1");
        let mut terminal = Pty::start(&command, world.env.who(), 24, 100);
        terminal.wait_for("[ ] A a.rs", SOON);
        terminal.send("\r");
        terminal.wait_for("fn main() {}", SOON);
        terminal.send("q");
        until("the screen is left", SOON, || !terminal.is_full_screen());
        let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
        for piece in raw.split("\x1b[").skip(1) {
            let Some((codes, _)) = piece
                .split_once('m')
                .filter(|(codes, _)| codes.bytes().all(|b| b.is_ascii_digit() || b == b';'))
            else {
                continue;
            };
            for code in codes.split(';').filter_map(|code| code.parse::<u32>().ok()) {
                let colour =
                    (30..=38).contains(&code) || (40..=48).contains(&code) || (90..=107).contains(&code);
                assert!(!colour, "colour {codes:?} in spite of NO_COLOR");
            }
        }
        assert_eq!(terminal.wait(SOON), 0);
    });
}
