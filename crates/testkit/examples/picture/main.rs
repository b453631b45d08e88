//! Draws the README's pictures of the terminal: real commands on a real terminal, its screen as an SVG. Nothing in a
//! picture is written by hand but the commands and the keys.
//!
//! `cargo run -p testkit --example picture -- LANE-PROGRAM DIRECTORY`

mod review;
mod svg;

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Pty, TestEnv, Who};

const ROWS: u16 = 60;
const COLUMNS: u16 = 104;

/// What a person types, one line each.
const TYPED: [&str; 5] = [
    r#"lane run -n tidy -- sh -c 'git mv src lib && sed -i s/helo/hello/ lib/greet.py && rm old.py && python3 lib/greet.py'"#,
    "git status --short        # the original is untouched",
    "lane diff tidy",
    "lane keep tidy lib/greet.py src",
    "lane ls",
];

fn main() {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(lane), Some(dir)) = (args.next(), args.next()) else {
        panic!("usage: picture LANE-PROGRAM DIRECTORY")
    };
    let lane = std::fs::canonicalize(lane).expect("the program");
    let write = |name: &str, picture: String| std::fs::write(dir.join(name), picture).expect("written");
    write("run.svg", run(&lane));
    write("review.svg", review::draw(&lane));
}

/// A run, what it changed, and what was kept.
fn run(lane: &Path) -> String {
    let who = Who::all().last().copied().expect("somebody");
    let env = TestEnv::new(lane, who);
    let project = env.make_git("hello");
    let files: [(&str, &[u8]); 4] = [
        ("src/greet.py", b"def greet(name):\n    return f\"helo, {name}\"\n\n\nprint(greet(\"world\"))\n"),
        ("src/deep/data.txt", b"one\ntwo\n"),
        ("old.py", b"print('nobody calls this')\n"),
        ("README.md", b"# hello\n"),
    ];
    for (path, bytes) in files {
        env.write(&project.join(path), bytes);
    }
    let git = |args: &[&str]| env.host(&project, "git", args);
    git(&["rm", "-q", "-r", "--cached", "--ignore-unmatch", "src/main.rs"]);
    let _ = std::fs::remove_file(project.join("src/main.rs"));
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "hello"]);
    let bin = env.tmp().join("bin");
    std::fs::create_dir_all(&bin).expect("made");
    std::os::unix::fs::symlink(lane, bin.join("lane")).expect("linked");

    let mut shell = env.command("bash");
    shell.args(["--norc", "--noprofile", "-i"]).current_dir(&project);
    shell.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("PS1", r"\[\e[1;32m\]$\[\e[0m\] ");
    shell.env("PROMPT_COMMAND", r"printf '\033]777;prompt\007'");
    let mut terminal = Pty::start(&shell, who, ROWS, COLUMNS);
    let patience = Duration::from_secs(30);
    for (number, line) in TYPED.iter().enumerate() {
        wait_for_prompt(&terminal, number + 1, patience);
        terminal.send(format!("{line}\n"));
        if line.contains(" keep ") {
            terminal.wait_for("[y/N]", patience);
            terminal.send("y\n");
        }
    }
    wait_for_prompt(&terminal, TYPED.len() + 1, patience);
    let raw = terminal.raw();
    terminal.send("exit\n");
    terminal.wait(patience);
    let mut parser = vt100::Parser::new(
        std::num::NonZero::new(200).expect("positive"),
        std::num::NonZero::new(COLUMNS).expect("positive"),
        0,
    );
    parser.process(&raw);
    svg::draw(&[parser.screen()])
}

/// The shell marks each prompt with a sequence that no terminal shows.
const MARK: &str = "\x1b]777;prompt\x07";

/// The prompt itself comes after the mark: only then does the shell read, and echo once.
fn wait_for_prompt(terminal: &Pty, count: usize, patience: Duration) {
    let deadline = std::time::Instant::now() + patience;
    let reads = |raw: &[u8]| {
        let text = String::from_utf8_lossy(raw).into_owned();
        text.matches(MARK).count() >= count
            && text.rsplit(MARK).next().is_some_and(|after| after.contains("$\x1b[0m "))
    };
    while !reads(&terminal.raw()) {
        assert!(std::time::Instant::now() < deadline, "the command does not end:\n{}", terminal.screen());
        std::thread::yield_now();
    }
}
