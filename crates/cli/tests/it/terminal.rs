//! What reaches a terminal: a lane's names, targets and content never drive it.

use std::time::Duration;

use testkit::Pty;

use crate::world::{World, once, raw};

const PATIENCE: Duration = Duration::from_secs(30);

fn hostile(world: &World) {
    world.lane("evil");
    world.write("evil", raw(b"a\x1b]0;PWNED\x07\x1b[2Jb"), b"x\n");
    world.write("evil", raw(b"ok\r+ harmless"), b"x\n");
    world.write("evil", "x\u{202e}txt.exe", b"x\n");
    world.write("evil", "code", b"a = 1\x1b[8m; evil()\x1b[0m\n\x1b]52;c;ZXZpbA==\x07\nzero\xe2\x80\x8bwidth\nc1 \xc2\x9b31m raw \x9b\n");
    world.link("evil", "/tmp/\x1b[31mred", "l");
    world.write("evil", raw(b".vscode/tasks\x1b[2J.json"), b"{}\n");
    world.delete("evil", "README.md");
}

/// The bytes that a terminal got, without our own colours and line ends.
fn foreign(raw: &[u8]) -> Vec<u8> {
    let mut left = Vec::new();
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(inner) = rest.strip_prefix(b"\x1b[")
            && let Some(end) = inner.iter().position(|b| !b.is_ascii_digit() && *b != b';')
            && inner[end] == b'm'
        {
            rest = &inner[end + 1..];
            continue;
        }
        left.push(byte);
        rest = after;
    }
    left
}

#[test]
fn nothing_from_a_lane_drives_the_terminal() {
    once(|world| {
        hostile(world);
        for args in [
            &["diff", "evil"] as &[&str],
            &["diff", "evil", "--stat"],
            &["diff", "evil", "--name-only"],
            &["diff", "evil", "--patch"],
            &["diff", "evil", "--json"],
            &["diff", "evil", "--drift"],
            &["keep", "evil", "--dry-run"],
            &["keep", "evil", "--yes"],
            &["show", "evil"],
            &["ls"],
            &["ls", "--json"],
            &["diff", "evil", "no\x1b[2Jsuch"],
            &["show", "no\x1b[2Jsuch"],
            &["export", "evil", "../out\x1b[2J"],
            &["diff", "--no\x1b[2Jsuch"],
            &["no\x1b]0;PWNED\x07such"],
            &["discard", "evil"],
        ] {
            assert_drives_nothing(&gather(world, args, &[]), args);
        }
    });
}

/// Nothing that a terminal got drives it, but for our own colours.
fn assert_drives_nothing(raw: &[u8], args: &[&str]) {
    let text = String::from_utf8(foreign(raw)).unwrap_or_else(|error| panic!("{args:?}: {error}"));
    for c in text.chars() {
        let fine = c == '\n'
            || c == '\r'
            || c == '\t'
            || !(c.is_control() || ('\u{200b}'..='\u{202e}').contains(&c));
        assert!(fine, "{c:?} reached the terminal with {args:?}: {text:?}");
    }
    assert!(!text.replace("\r\n", "").contains('\r'), "{args:?}: {text:?}");
}

#[test]
fn questions_about_a_hostile_lane_drive_no_terminal() {
    once(|world| {
        hostile(world);
        let args = ["keep", "evil", "-i"];
        let mut terminal = Pty::start(&world.env.lane(&world.project, &args), world.env.who(), 50, 200);
        // Help once, then hunks in pieces, then no to whatever is asked.
        terminal.send("?\ns\n".to_owned() + &"n\n".repeat(40));
        terminal.wait_for("nothing to keep", PATIENCE);
        let raw = terminal.raw();
        assert!(String::from_utf8_lossy(&raw).contains("runs by itself"));
        assert_drives_nothing(&raw, &args);
        assert_eq!(terminal.wait(PATIENCE), 0);
    });
}

/// Everything that `lane` writes to a terminal until its end.
fn gather(world: &World, args: &[&str], env: &[(&str, &str)]) -> Vec<u8> {
    const END: &str = "that was all";
    let mut command = world.env.command("/bin/sh");
    command.args(["-c", "\"$0\" \"$@\"; echo that was all"]).arg(world.env.lane_program()).args(args);
    command.current_dir(&world.project).envs(env.iter().copied());
    let terminal = Pty::start(&command, world.env.who(), 50, 200);
    let end = || terminal.raw().windows(END.len()).rposition(|part| part == END.as_bytes());
    testkit::until("the end of the output", PATIENCE, || end().is_some());
    let mut raw = terminal.raw();
    raw.truncate(end().expect("it was waited for"));
    assert_eq!(terminal.wait(PATIENCE), 0);
    raw
}

#[test]
fn a_line_with_hidden_characters_is_flagged() {
    once(|world| {
        hostile(world);
        let out = world.ok(&["diff", "evil", "code"]).out();
        assert!(out.contains("lines marked ! hold characters that a terminal hides or acts on"), "{out}");
        assert!(out.contains(r"!+a = 1\x1b[8m; evil()\x1b[0m"), "{out}");
        assert!(out.contains(r"!+zero\u{200b}width"), "{out}");
        assert!(out.contains(r"!+c1 \u{9b}31m raw \x9b"), "{out}");
    });
}

#[test]
fn a_question_on_a_terminal_is_answered_by_a_person() {
    once(|world| {
        world.lane("ask");
        world.write("ask", "x", b"x\n");
        let keep = || Pty::start(&world.env.lane(&world.project, &["keep", "ask"]), world.env.who(), 24, 100);
        let mut terminal = keep();
        terminal.wait_for("[y/N]", PATIENCE);
        terminal.send("\n");
        assert_eq!(terminal.wait(PATIENCE), 1);
        assert_eq!(world.content("x"), None);
        let mut terminal = keep();
        terminal.wait_for("[y/N]", PATIENCE);
        terminal.send("y\n");
        assert_eq!(terminal.wait(PATIENCE), 0);
        assert_eq!(world.content("x").as_deref(), Some(&b"x\n"[..]));
    });
}

#[test]
fn colour_goes_to_a_terminal_and_no_color_keeps_it_away() {
    once(|world| {
        world.lane("paint");
        assert!(gather(world, &["ls"], &[]).contains(&0x1b));
        assert!(!gather(world, &["ls"], &[("NO_COLOR", "1")]).contains(&0x1b));
    });
}
