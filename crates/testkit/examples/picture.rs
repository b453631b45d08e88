//! Draws the README's picture: real commands on a real terminal, its screen as an SVG. Nothing in the
//! picture is written by hand but the commands.
//!
//! `cargo run -p testkit --example picture -- LANE-PROGRAM OUT.svg`

use std::fmt::Write as _;
use std::path::PathBuf;
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
    let (Some(lane), Some(out)) = (args.next(), args.next()) else {
        panic!("usage: picture LANE-PROGRAM OUT.svg")
    };
    let lane = std::fs::canonicalize(lane).expect("the program");
    let who = Who::all().last().copied().expect("somebody");
    let env = TestEnv::new(&lane, who);
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
    std::os::unix::fs::symlink(&lane, bin.join("lane")).expect("linked");

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
    let svg = draw(&raw);
    std::fs::write(&out, svg).expect("written");
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

/// The screen as an SVG.
fn draw(raw: &[u8]) -> String {
    let mut parser = vt100::Parser::new(
        std::num::NonZero::new(200).expect("positive"),
        std::num::NonZero::new(COLUMNS).expect("positive"),
        0,
    );
    parser.process(raw);
    let screen = parser.screen();
    let mut lines: Vec<String> = Vec::new();
    for row in 0..200u16 {
        let mut line = String::new();
        for column in 0..COLUMNS {
            let Some(cell) = screen.cell(row, column) else { continue };
            let shown = if cell.contents().is_empty() { " " } else { cell.contents() };
            let style = match (cell.fgcolor(), cell.bold(), cell.dim()) {
                (vt100::Color::Idx(index), bold, _) => format!("fill=\"{}\"{}", colour(index), weight(bold)),
                (_, _, true) => "fill=\"#8b949e\"".to_owned(),
                (_, bold, _) => weight(bold).trim().to_owned(),
            };
            let _ = write!(line, "<tspan {style}>{}</tspan>", escaped(shown));
        }
        lines.push(merged(&line));
    }
    // The prompt that waits for the next command.
    let is_blank = |line: &String| {
        line.split('>')
            .skip(1)
            .all(|part| part.split('<').next().unwrap_or("").trim().trim_end_matches('$').is_empty())
    };
    while lines.last().is_some_and(is_blank) {
        lines.pop();
    }
    let (width, height) = (f64::from(COLUMNS) * 8.43 + 32.0, lines.len() as f64 * 19.0 + 32.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#e6edf3\">\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let _ =
            writeln!(svg, "<text x=\"16\" y=\"{}\" xml:space=\"preserve\">{line}</text>", 28 + index * 19);
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Joins neighbouring pieces of one style.
fn merged(line: &str) -> String {
    let mut out = String::new();
    let mut last = String::new();
    for piece in line.split("<tspan ").skip(1) {
        let (style, rest) = piece.split_once('>').expect("a tag");
        let text = rest.strip_suffix("</tspan>").expect("its end");
        if style != last || out.is_empty() {
            if !out.is_empty() {
                out.push_str("</tspan>");
            }
            let _ = write!(out, "<tspan {style}>");
            last = style.to_owned();
        }
        out.push_str(text);
    }
    out.push_str("</tspan>");
    out
}

fn weight(bold: bool) -> &'static str {
    if bold { " font-weight=\"bold\"" } else { "" }
}

fn colour(index: u8) -> &'static str {
    match index % 8 {
        0 => "#8b949e",
        1 => "#ff7b72",
        2 => "#7ee787",
        3 => "#e3b341",
        4 => "#79c0ff",
        5 => "#d2a8ff",
        6 => "#56d4dd",
        _ => "#e6edf3",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
