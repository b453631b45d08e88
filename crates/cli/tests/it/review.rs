//! `lane review`: what is ticked on a terminal is what is kept, and nothing else happens.

use std::time::Duration;

use testkit::{Listing, Pty, Who, procs, until};

use crate::world::{Made, World, each, once, raw};

const SOON: Duration = Duration::from_secs(60);

/// A review of the project on a terminal of its own.
pub(crate) fn review(world: &World, args: &[&str], rows: u16, cols: u16) -> Pty {
    let mut all = vec!["review"];
    all.extend(args);
    Pty::start(&world.env.lane(&world.project, &all), world.env.who(), rows, cols)
}

/// Leaves, and the terminal is as it was.
pub(crate) fn leave(mut terminal: Pty) {
    terminal.send("q");
    until("the screen is left", SOON, || !terminal.is_full_screen());
    assert_eq!(terminal.wait(SOON), 0);
}

fn numbers(changed: &[usize]) -> Vec<u8> {
    let line =
        |n: usize| if changed.contains(&n) { format!("line {n} changed\n") } else { format!("line {n}\n") };
    (1..=60).map(line).collect::<String>().into_bytes()
}

#[test]
fn lanes_files_hunks_plan_and_keep_by_keys_alone() {
    each(|world| {
        world.env.write(&world.project.join("numbers"), &numbers(&[]));
        world.lane("fix");
        world.lane("other");
        world.write("fix", "numbers", &numbers(&[5, 30, 55]));
        world.write("fix", "new.txt", b"new\n");
        let mut terminal = review(world, &[], 24, 100);
        terminal.wait_for("2 lanes", SOON);
        terminal.wait_for("1 added · 1 modified", SOON);
        // The newest lane stands above.
        terminal.send("\x1b[B\r");
        terminal.wait_for("[ ] M numbers", SOON);
        terminal.wait_for("+3 -3", SOON);
        terminal.send("\x1b[B\r");
        terminal.wait_for("@@ -2,7 +2,7 @@", SOON);
        // The second hunk, all of it; of the third one the new line alone.
        terminal.send("]\r");
        terminal.wait_for("[x] @@ -27,7", SOON);
        terminal.send("/line 55 changed\r");
        terminal.wait_for("hunk 3 of 3", SOON);
        terminal.send(" ");
        terminal.wait_for("[~] @@ -52,7", SOON);
        terminal.send("p");
        terminal.wait_for("modify  numbers (a part of it)", SOON);
        assert!(!terminal.screen().contains("new.txt"), "{}", terminal.screen());
        assert_eq!(world.content("numbers"), Some(numbers(&[])), "a plan writes nothing");
        terminal.send("y");
        terminal.wait_for("kept 1 path of lane fix", SOON);
        let mut expected = String::from_utf8(numbers(&[30])).expect("text");
        expected = expected.replace("line 55\n", "line 55\nline 55 changed\n");
        assert_eq!(world.content("numbers"), Some(expected.into_bytes()));
        assert_eq!(world.content("new.txt"), None);
        // It is taken back, and made once more.
        terminal.send("u");
        terminal.wait_for("take the keep of 1 path of lane fix back?", SOON);
        terminal.send("y");
        terminal.wait_for("the original is as it was before", SOON);
        assert_eq!(world.content("numbers"), Some(numbers(&[])));
        terminal.send("\r");
        terminal.wait_for("[ ] M numbers", SOON);
        terminal.wait_for("+3 -3", SOON);
        terminal.send("\x1b[B p");
        terminal.wait_for("modify  numbers", SOON);
        terminal.send("y");
        terminal.wait_for("kept 1 path of lane fix", SOON);
        assert_eq!(world.content("numbers"), Some(numbers(&[5, 30, 55])));
        // What was not ticked is still in the lane.
        terminal.send("\r");
        terminal.wait_for("[ ] A new.txt", SOON);
        leave(terminal);
    });
}

#[test]
fn what_runs_by_itself_is_left_out_of_all_and_kept_where_it_is_ticked() {
    each(|world| {
        world.lane("evil");
        world.write("evil", ".envrc", b"echo run\n");
        world.write("evil", "plain", b"plain\n");
        let mut terminal = review(world, &["evil"], 24, 100);
        terminal.wait_for("runs by itself (1)", SOON);
        terminal.send("ap");
        terminal.wait_for("add     plain", SOON);
        assert!(!terminal.screen().contains("envrc"), "{}", terminal.screen());
        terminal.send("y");
        terminal.wait_for("kept 1 path", SOON);
        assert_eq!((world.content(".envrc"), world.content("plain").is_some()), (None, true));
        terminal.send("\r");
        terminal.wait_for("[ ] A .envrc", SOON);
        terminal.send(" p");
        terminal.wait_for("add     .envrc", SOON);
        terminal.send("y");
        terminal.wait_for("kept 1 path", SOON);
        assert!(world.content(".envrc").is_some());
        leave(terminal);
    });
}

#[test]
fn looking_and_leaving_change_nothing() {
    each(|world| {
        world.lane("look");
        world.write("look", "README.md", b"changed\n");
        world.delete("look", "src/main.rs");
        let before = Listing::of(&world.project);
        let mut terminal = review(world, &["look"], 24, 100);
        terminal.wait_for("[ ] D src/main.rs", SOON);
        terminal.send("a\r");
        terminal.wait_for("@@", SOON);
        terminal.send("\t\x1b[Zp");
        terminal.wait_for("delete  src/main.rs", SOON);
        terminal.send("\x1b");
        terminal.wait_for("[x] D src/main.rs", SOON);
        leave(terminal);
        before.assert_same(&Listing::of(&world.project));
        assert_eq!(world.json(&["diff", "look"])["files"].as_array().map(Vec::len), Some(2));
    });
}

#[test]
fn a_keep_of_what_moved_on_is_refused_with_the_path() {
    once(|world| {
        world.lane("moving");
        world.write("moving", "a", b"one\n");
        let mut terminal = review(world, &["moving"], 24, 100);
        terminal.wait_for("[ ] A a", SOON);
        world.write("moving", "a", b"two, which nobody looked at\n");
        terminal.send("ap");
        terminal.wait_for("not done", SOON);
        assert_eq!(world.content("a"), None);
        terminal.send("xr");
        terminal.wait_for("1 ticked before have changed since", SOON);
        terminal.send("ap");
        terminal.wait_for("add     a", SOON);
        // And between the plan and its yes.
        world.write("moving", "a", b"three\n");
        terminal.send("y");
        terminal.wait_for("not done", SOON);
        assert_eq!(world.content("a"), None);
        terminal.send("x");
        leave(terminal);
    });
}

#[test]
fn an_edit_of_the_original_between_the_plan_and_its_yes_stops_it() {
    once(|world| {
        world.lane("late");
        world.write("late", "a", b"a\n");
        world.write("late", "README.md", b"the lane's\n");
        let mut terminal = review(world, &["late"], 24, 100);
        terminal.wait_for("[ ] A a", SOON);
        terminal.send("ap");
        terminal.wait_for("modify  README.md", SOON);
        world.env.write(&world.project.join("README.md"), b"the user's\n");
        terminal.send("y");
        terminal.wait_for("not done", SOON);
        terminal.wait_for("README.md: changed", SOON);
        assert_eq!(
            (world.content("a"), world.content("README.md").as_deref()),
            (None, Some(&b"the user's\n"[..]))
        );
        terminal.send("x\x1b");
        terminal.wait_for("2 of 2 ticked", SOON);
        leave(terminal);
    });
}

#[test]
fn discard_and_export_are_asked_about_and_done() {
    once(|world| {
        world.lane("one");
        world.write("one", "x", b"x\n");
        let mut terminal = review(world, &[], 24, 100);
        terminal.wait_for("1 added", SOON);
        terminal.send("x");
        terminal.wait_for("write lane one beside the original?", SOON);
        terminal.send("y");
        terminal.wait_for("lane one is in", SOON);
        assert_eq!(
            std::fs::read(world.project.with_file_name("app-one").join("x")).expect("exported"),
            b"x\n"
        );
        terminal.send(" D");
        terminal.wait_for("drop lane one?", SOON);
        terminal.send("n");
        terminal.send("D");
        terminal.wait_for("drop lane one?", SOON);
        terminal.send("y");
        terminal.wait_for("lane one discarded", SOON);
        leave(terminal);
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        world.ok(&["recover", "one"]);
    });
}

#[test]
fn the_same_file_in_two_lanes_is_compared() {
    once(|world| {
        for lane in ["left", "right"] {
            world.lane(lane);
            world.write(lane, "README.md", format!("{lane} one\nshared\n").as_bytes());
        }
        let mut terminal = review(world, &[], 24, 100);
        terminal.wait_for("2 lanes", SOON);
        terminal.send("\r");
        terminal.wait_for("[ ] M README.md", SOON);
        terminal.send("c");
        terminal.wait_for("compare with", SOON);
        terminal.send("\r");
        terminal.wait_for("right ↔ left: README.md", SOON);
        let screen = terminal.screen();
        assert!(
            screen.contains("-right one") && screen.contains("+left one") && screen.contains(" shared"),
            "{screen}"
        );
        terminal.send("\x1b");
        terminal.wait_for("[ ] @@", SOON);
        leave(terminal);
    });
}

#[test]
fn two_lanes_are_compared_file_by_file() {
    once(|world| {
        for lane in ["left", "right"] {
            world.lane(lane);
            world.write(lane, "README.md", format!("{lane} one\nshared\n").as_bytes());
            world.write(lane, "both", b"same\n");
            world.write(lane, format!("only-{lane}"), b"x\n");
        }
        let mut terminal = review(world, &[], 24, 100);
        terminal.wait_for("2 lanes", SOON);
        terminal.send("c");
        terminal.wait_for("compare with", SOON);
        terminal.send("\r");
        terminal.wait_for("4 paths, 1 changed differently", SOON);
        let screen = terminal.screen();
        for line in ["! README.md", "= both", "> only-left", "< only-right"] {
            assert!(screen.contains(line), "no {line} in {screen}");
        }
        terminal.send("\r");
        terminal.wait_for("-right one", SOON);
        terminal.send("\t");
        terminal.wait_for("right ↔ left: both", SOON);
        terminal.wait_for("no line differs", SOON);
        terminal.send("\x1b");
        terminal.wait_for("4 paths", SOON);
        leave(terminal);
    });
}

#[test]
fn b38_a_conflict_is_shown_and_settled_by_a_key_and_what_does_not_meet_is_put_together() {
    each(|world| {
        world.env.write(&world.project.join("numbers"), &numbers(&[]));
        world.env.write(&world.project.join("apart"), &numbers(&[]));
        for args in [&["add", "-A"] as &[&str], &["commit", "-q", "-m", "numbers"]] {
            world.env.host(&world.project, "git", args);
        }
        world.lane("fix");
        let edit = "sed -i 's/^line 5$/line 5 changed/' numbers apart; sed -i 's/^line 30$/line 30 changed/' numbers";
        world.ok(&["run", "-q", "-n", "fix", "--", "sh", "-c", edit]);
        let mine = String::from_utf8(numbers(&[])).expect("text").replace("line 5\n", "line 5, mine\n");
        world.env.write(&world.project.join("numbers"), mine.as_bytes());
        world.env.write(&world.project.join("apart"), &numbers(&[50]));
        let mut terminal = review(world, &["fix"], 24, 100);
        terminal.wait_for(" original ", SOON);
        terminal.send("ap");
        terminal.wait_for("1 conflict with the original:", SOON);
        let screen = terminal.screen();
        for words in [
            "modify  apart",
            "put together with what changed in the original:",
            "numbers: the same lines were changed in the original: 5",
            "stays as it is in the original",
        ] {
            assert!(screen.contains(words), "no {words} in {screen}");
        }
        terminal.send("m");
        terminal.wait_for("both versions of the lines, between markers", SOON);
        terminal.send("t");
        terminal.wait_for("the lane's side is taken", SOON);
        assert_eq!(world.content("numbers"), Some(mine.clone().into_bytes()), "a plan writes nothing");
        terminal.send("y");
        terminal.wait_for("kept 2 paths of lane fix", SOON);
        assert_eq!(world.content("numbers"), Some(numbers(&[5, 30])));
        assert_eq!(world.content("apart"), Some(numbers(&[5, 50])));
        // Not only the keep that was just made: it is in the list of the lanes' screen, too.
        terminal.send("\r");
        terminal.wait_for("esc lanes", SOON);
        terminal.send("\x1b");
        terminal.wait_for("u undo a keep", SOON);
        terminal.send("u");
        terminal.wait_for("2 paths of lane fix", SOON);
        terminal.send("\r");
        terminal.wait_for("take the keep of 2 paths of lane fix back?", SOON);
        terminal.send("y");
        terminal.wait_for("the original is as it was before", SOON);
        assert_eq!(world.content("numbers"), Some(mine.into_bytes()));
        assert_eq!(world.content("apart"), Some(numbers(&[50])));
        terminal.send("\r");
        terminal.wait_for("1 lane", SOON);
        leave(terminal);
    });
}

#[test]
fn hunks_of_several_lanes_are_kept_in_one_go() {
    each(|world| {
        world.env.write(&world.project.join("numbers"), &numbers(&[]));
        world.lane("one");
        world.lane("two");
        world.write("one", "numbers", &numbers(&[5, 30]));
        world.write("two", "numbers", &numbers(&[17, 50]));
        let mut terminal = review(world, &[], 24, 100);
        terminal.wait_for("2 lanes", SOON);
        terminal.send("\r");
        terminal.wait_for("[ ] M numbers", SOON);
        terminal.send("\r");
        terminal.wait_for("[ ] @@ -14,7", SOON);
        terminal.send(" ");
        terminal.wait_for("[x] @@ -14,7", SOON);
        terminal.send("\x1b");
        terminal.wait_for("[~] M numbers", SOON);
        terminal.send("\x1b");
        terminal.wait_for("TICKED", SOON);
        terminal.send("\x1b[B\r");
        terminal.wait_for("nothing ticked, 1 in other lanes", SOON);
        terminal.send("\r");
        terminal.wait_for("[ ] @@ -27,7", SOON);
        terminal.send("] ");
        terminal.wait_for("[x] @@ -27,7", SOON);
        terminal.send("p");
        terminal.wait_for("of one + two", SOON);
        assert_eq!(world.content("numbers"), Some(numbers(&[])), "a plan writes nothing");
        terminal.send("y");
        terminal.wait_for("kept 1 path of lanes one, two", SOON);
        assert_eq!(world.content("numbers"), Some(numbers(&[17, 30])));
        terminal.send("u");
        terminal.wait_for("y yes", SOON);
        terminal.send("y");
        terminal.wait_for("the original is as it was before", SOON);
        assert_eq!(world.content("numbers"), Some(numbers(&[])));
        leave(terminal);
    });
}

#[test]
fn what_is_not_ticked_may_change_while_the_rest_is_kept() {
    once(|world| {
        world.lane("work");
        for name in ["a", "b"] {
            world.write("work", name, b"one\n");
        }
        let mut terminal = review(world, &["work"], 24, 100);
        terminal.wait_for("[ ] A b", SOON);
        terminal.wait_for("+1 -0", SOON);
        world.write("work", "b", b"other\n");
        terminal.send(" p");
        terminal.wait_for("add     a", SOON);
        terminal.send("y");
        terminal.wait_for("kept 1 path", SOON);
        assert_eq!((world.content("a").as_deref(), world.content("b")), (Some(&b"one\n"[..]), None));
        leave(terminal);
    });
}

#[test]
fn the_mouse_ticks_and_opens() {
    once(|world| {
        world.lane("mouse");
        world.write("mouse", "a", b"a\n");
        world.write("mouse", "b", b"b\n");
        let mut terminal = review(world, &["mouse"], 24, 100);
        terminal.wait_for("[ ] A b", SOON);
        // The box in the third line, from 1; then the name beside it.
        terminal.send("\x1b[<0;2;3M\x1b[<0;2;3m");
        terminal.wait_for("[x] A b", SOON);
        terminal.send("\x1b[<0;9;3M\x1b[<0;9;3m");
        terminal.wait_for("@@ -0,0 +1,1 @@", SOON);
        terminal.send("\x1b[<65;9;3M");
        leave(terminal);
    });
}

#[test]
fn two_hundred_files_and_a_hundred_thousand_lines_are_walked_through() {
    once(|world| {
        world.lane("big");
        for number in 0..200 {
            world.write("big", format!("many/file{number:03}"), b"one\ntwo\n");
        }
        let long: String = (0..100_000).map(|n| format!("let line{n} = {n};\n")).collect();
        world.write("big", "zlong.rs", long.as_bytes());
        let mut terminal = review(world, &["big"], 30, 100);
        terminal.wait_for("A file000", SOON);
        terminal.send("\x1b[F");
        terminal.wait_for("zlong.rs", SOON);
        terminal.wait_for("+100000", SOON);
        terminal.send("\r");
        terminal.wait_for("let line0 = 0;", SOON);
        terminal.send("\x1b[F");
        terminal.wait_for("let line99999 = 99999;", SOON);
        terminal.send(" /line77777 \r");
        terminal.wait_for("let line77777 = 77777;", SOON);
        terminal.send(" p");
        terminal.wait_for("add     zlong.rs (a part of it)", SOON);
        terminal.send("y");
        terminal.wait_for("kept 1 path", SOON);
        let kept = world.content("zlong.rs").expect("kept");
        assert_eq!(kept, b"let line77777 = 77777;\nlet line99999 = 99999;\n");
        leave(terminal);
    });
}

#[test]
fn without_a_terminal_the_next_command_is_told() {
    once(|world| {
        world.lane("pipe");
        for args in [&["review"] as &[&str], &["review", "pipe"], &["review", "--json"]] {
            let ran = world.run(args).expect_code(1);
            let said = ran.err();
            assert!(said.contains("lane diff"), "{said}");
            assert!(!ran.out().contains('\x1b') && !said.contains('\x1b'), "{said}");
        }
        let mut dumb = world.env.lane(&world.project, &["review"]);
        dumb.env("TERM", "dumb");
        let mut shell = world.env.command("/bin/sh");
        shell.args(["-c", "TERM=dumb \"$0\" review; echo code $?"]).arg(world.env.lane_program());
        shell.current_dir(&world.project);
        let terminal = Pty::start(&shell, world.env.who(), 24, 100);
        terminal.wait_for("code 1", SOON);
        assert_eq!(terminal.wait(SOON), 0);
        let terminal = review(world, &["nosuch"], 24, 100);
        terminal.wait_for("nosuch", SOON);
        assert_eq!(terminal.wait(SOON), 1);
    });
}

#[test]
fn a_project_full_of_traps_is_reviewed_and_kept_and_none_fires() {
    for who in Who::all() {
        let mut world = World::of(who, Made::Overlay);
        let marks = world.env.tmp().join("marks");
        world.env.mkdir(&marks);
        let trap = world.env.tmp().join("trap");
        let script = format!("#!/bin/sh\necho fired > {}/$$\nexec cat\n", marks.display());
        world.env.write(&trap, script.as_bytes());
        world.env.chmod(&trap, 0o755);
        let trap = trap.to_str().expect("text").to_owned();
        for name in
            ["PAGER", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "LESSOPEN", "EDITOR", "VISUAL", "GIT_SSH_COMMAND"]
        {
            world.env.set(name, trap.clone());
        }
        let config = format!(
            "[core]\n\tfsmonitor = {trap}\n\thooksPath = hooks\n\tpager = {trap}\n\
             [filter \"z\"]\n\tclean = {trap}\n\tsmudge = {trap}\n[diff \"z\"]\n\ttextconv = {trap}\n\texternal = {trap}\n"
        );
        world.env.write(&world.env.home().join(".gitconfig"), config.as_bytes());
        world.lane("traps");
        world.write("traps", ".gitattributes", b"* filter=z diff=z\n");
        world.write("traps", ".git/config", config.as_bytes());
        for name in ["pre-commit", "post-checkout", "fsmonitor-watchman"] {
            world.write("traps", format!(".git/hooks/{name}"), script.as_bytes());
            world.write("traps", format!("hooks/{name}"), script.as_bytes());
        }
        world.write("traps", ".envrc", script.as_bytes());
        world.write("traps", "a.txt", b"text\n");
        world.write("traps", "<img src=x onerror=alert(1)>", b"\x1b]52;c;ZXZpbA==\x07\n");
        let mut terminal = review(&world, &["traps"], 30, 120);
        terminal.wait_for("[ ] A a.txt", SOON);
        terminal.wait_for("more in .git, which is never kept", SOON);
        terminal.send("\x1b[H\r");
        terminal.wait_for("@@", SOON);
        // Every file, one after the other.
        terminal.send("\t".repeat(12));
        terminal.wait_for("that was the last file", SOON);
        assert!(procs::descendants(terminal.pid()).len() <= 1, "only the program itself runs");
        terminal.send("\x1b");
        terminal.wait_for("[ ] A a.txt", SOON);
        terminal.send("a");
        terminal.wait_for("[x] A a.txt", SOON);
        terminal.send("p");
        terminal.wait_for("add     a.txt", SOON);
        terminal.send("y");
        terminal.wait_for("kept", SOON);
        leave(terminal);
        assert_eq!(world.content("a.txt").as_deref(), Some(&b"text\n"[..]));
        let fired: Vec<_> = std::fs::read_dir(&marks).expect("listed").collect();
        assert!(fired.is_empty(), "{fired:?}");
    }
}

#[test]
fn no_byte_of_a_lane_reaches_the_terminal_as_it_is() {
    once(|world| {
        let mut dice = testkit::Dice::of_seed(testkit::Dice::seed("review"));
        world.lane("other");
        world.lane("evil");
        let mut names = std::collections::BTreeSet::new();
        // Sequences that this program never sends, and bytes of all kinds between them.
        let pieces: [&[u8]; 12] = [
            b"\x1b[31337m",
            b"\x1b]0;31337\x07",
            b"\x1b[31337;1H",
            b"\x1bP31337\x1b\\",
            b"\x9b31337m",
            b"\r",
            b"\x07",
            b"\x7f",
            "\u{202e}".as_bytes(),
            "\u{200b}".as_bytes(),
            "\u{9b}".as_bytes(),
            "日本e\u{301}".as_bytes(),
        ];
        let mut bytes = |least: usize| {
            let mut out = Vec::new();
            while out.len() < least {
                if dice.below(3) == 0 {
                    out.extend_from_slice(pieces[dice.below(pieces.len())]);
                } else {
                    out.push(u8::try_from(dice.below(256)).expect("a byte"));
                }
            }
            out
        };
        for _ in 0..12 {
            let mut name = bytes(20);
            name.retain(|b| *b != 0 && *b != b'/');
            name.truncate(200);
            if names.insert(name.clone()) {
                let mut content = bytes(400);
                // Text, so that it is shown line by line.
                content.retain(|b| *b != 0);
                world.write("evil", raw(&name), &content);
                content.reverse();
                world.write("other", raw(&name), &content);
                // Some of them meet something else in the original.
                if names.len() % 3 == 0 {
                    world.env.write(&world.project.join(raw(&name)), &content);
                }
            }
        }
        world.link("evil", std::path::Path::new(raw(b"/tmp/\x1b[31337mred")), "link");
        world.env.link("lane-name", &world.project.join("ignored"));
        let mut terminal = review(world, &["evil"], 40, 120);
        terminal.wait_for("nothing ticked", SOON);
        terminal.wait_for("[ ] A", SOON);
        terminal.send("\x1b[H\r");
        for _ in 0..names.len() + 2 {
            terminal.send("\x1b[C\x1b[C\x1b[F\x1b[D\x1b[D\x1b[H\t");
        }
        terminal.wait_for("that was the last file", SOON);
        terminal.send("\x1b");
        terminal.wait_for("[ ] A", SOON);
        terminal.send("ap");
        // A frame comes from above: its last line says that all of it is there.
        terminal.wait_for("y keep", SOON);
        terminal.send("\x1b[F");
        terminal.wait_for("with the original:", SOON);
        terminal.send("t");
        terminal.wait_for("the lane's side is taken", SOON);
        terminal.send("s");
        terminal.wait_for("stays as it is in the original", SOON);
        terminal.send("y");
        terminal.wait_for("u takes it back", SOON);
        terminal.send("u");
        terminal.wait_for("y yes", SOON);
        terminal.send("y");
        terminal.wait_for("the original is as it was before", SOON);
        // The two lanes, path by path and line by line.
        terminal.send("\r");
        terminal.wait_for("esc lanes", SOON);
        terminal.send("\x1b");
        terminal.wait_for("2 lanes", SOON);
        terminal.send("c");
        terminal.wait_for("compare with", SOON);
        terminal.send("\r");
        terminal.wait_for("evil ↔ other", SOON);
        terminal.send("\x1b[F\x1b[H\r");
        terminal.wait_for("esc back", SOON);
        terminal.send("\t\x1b[F");
        terminal.send("\x1b");
        terminal.wait_for("only what both changed", SOON);
        terminal.send("\x1b");
        terminal.wait_for("2 lanes", SOON);
        terminal.send("q");
        until("the screen is left", SOON, || !terminal.is_full_screen());
        let all = terminal.raw();
        assert_eq!(terminal.wait(SOON), 0);
        let (text, sequences) = apart(&all);
        let text = String::from_utf8(text).expect("text");
        for c in text.chars() {
            let hostile = c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
            assert!(!hostile || c == '\n' || c == '\r', "{c:?} reached the terminal");
        }
        assert!(!text.contains('\r') || !text.contains("\r+"), "a line was written over");
        for sequence in &sequences {
            assert!(!sequence.contains("31337"), "{sequence:?} reached the terminal");
            assert!(
                sequence.ends_with(['m', 'H', 'h', 'l', 'J', 'K', 'C', 'D', 'A', 'B']),
                "{sequence:?} is not ours"
            );
        }
        assert!(text.contains("31337"), "it was shown, spelled out");
    });
}

/// What was printed, apart: text, and the control sequences between it.
fn apart(raw: &[u8]) -> (Vec<u8>, Vec<String>) {
    let (mut text, mut sequences, mut rest) = (Vec::new(), Vec::new(), raw);
    while let Some((&byte, after)) = rest.split_first() {
        let inner = rest.strip_prefix(b"\x1b[");
        let end = inner.and_then(|inner| inner.iter().position(|b| (0x40..=0x7e).contains(b)));
        if let (Some(inner), Some(end)) = (inner, end) {
            sequences.push(String::from_utf8_lossy(&inner[..=end]).into_owned());
            rest = &inner[end + 1..];
            continue;
        }
        text.push(byte);
        rest = after;
    }
    (text, sequences)
}
