//! `lane run`, `exec`, `stop`, `log`: what a person and a program get to see. (What happens inside is
//! tested beside.)

use std::time::Duration;

use testkit::{Listing, Pty};

use crate::world::{each, once};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_line_before_says_what_you_got_and_the_line_after_what_changed() {
    once(|world| {
        let before = Listing::of(&world.project);
        let ran = world.run(&[
            "run",
            "-n",
            "fix-auth",
            "--",
            "sh",
            "-c",
            "echo said; echo x >new; rm README.md; exit 3",
        ]);
        let ran = ran.expect_code(3);
        assert_eq!(ran.out(), "said\n");
        let lines: Vec<String> = ran.err().lines().map(str::to_owned).collect();
        assert!(lines[0].starts_with("lane fix-auth · overlay · cloned in "), "{ran}");
        assert!(lines[0].ends_with(" · 0 B allocated · original protected · net open"), "{ran}");
        assert_eq!(lines[1], "lane fix-auth · exit 3 · 1 added · 1 deleted", "{ran}");
        assert_eq!(
            lines[2], "next: lane diff fix-auth · lane keep fix-auth · lane discard fix-auth",
            "{ran}"
        );
        assert_eq!(lines.len(), 3, "{ran}");
        before.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn the_closing_line_counts_what_diff_names_however_often_a_file_is_written() {
    each(|world| {
        world.lane("work");
        let large = "x".repeat(200_000);
        world.ok(&["run", "-n", "work", "--", "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x >new"]);
        world.ok(&["keep", "work", "new", "--yes"]);
        assert_eq!(world.content("new").as_deref(), Some(large.as_bytes()));
        // Each time the file has its old size; only now and then it has its old content.
        let closing = |script: &str, says: &str| {
            let ran = world.ok(&["exec", "work", "--", "sh", "-c", script]);
            let told = ran.err();
            let closing = told.lines().rfind(|line| line.starts_with("lane work · "));
            assert_eq!(closing, Some(format!("lane work · {says}").as_str()), "{script}: {ran}");
            let named = world.ok(&["diff", "work", "--name-only"]).out().lines().count();
            let listed = world.json(&["ls"])[0]["changes"]["total"].as_u64();
            assert_eq!(listed, Some(named as u64), "{script}");
        };
        let same = "cat new >copy; mv copy new";
        let other = "printf y | dd of=new bs=1 seek=199999 conv=notrunc 2>/dev/null";
        let back = "printf x | dd of=new bs=1 seek=199999 conv=notrunc 2>/dev/null";
        for (script, says) in [
            (same, "no changes"),
            (other, "1 modified"),
            (":", "1 modified"),
            (back, "no changes"),
            (same, "no changes"),
            ("ln new twice", "1 added"),
            ("rm twice; mv new moved", "1 renamed"),
            ("cat moved >copy; mv copy moved", "1 renamed"),
            ("mv moved new", "no changes"),
        ] {
            closing(script, says);
        }
    });
}

#[test]
fn what_was_done_in_a_lane_is_diffed_and_kept() {
    each(|world| {
        world.lane("work");
        world.ok(&[
            "run",
            "-n",
            "work",
            "--",
            "sh",
            "-c",
            "echo new >new; echo more >>src/lib.rs; mv run.sh go.sh",
        ]);
        let diff = world.ok(&["diff", "work", "--name-only"]).out();
        assert!(
            diff.contains("new\n") && diff.contains("src/lib.rs\n") && diff.contains("go.sh\n"),
            "{diff}"
        );
        world.run(&["keep", "work", "new", "src", "--yes"]).expect_code(0);
        assert_eq!(world.content("new").as_deref(), Some(&b"new\n"[..]));
        world.ok(&["exec", "work", "--", "sh", "-c", "echo again >new"]);
        world.ok(&["keep", "work", "new", "--yes"]);
        assert_eq!(world.content("new").as_deref(), Some(&b"again\n"[..]));
    });
}

#[test]
fn a_passing_lane_leaves_nothing_and_says_one_line() {
    each(|world| {
        let before = Listing::of(&world.project);
        let ran = world.ok(&["run", "--rm", "--", "true"]);
        assert!(ran.stdout.is_empty() && ran.err().lines().count() == 1, "{ran}");
        assert!(world.ok(&["run", "--rm", "-q", "--", "true"]).stderr.is_empty());
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        assert!(std::fs::read_dir(world.env.state().join("lanes")).unwrap().next().is_none());
        before.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn with_json_stdout_holds_the_answer_alone() {
    once(|world| {
        let ran =
            world.run(&["run", "-n", "j", "--json", "--", "sh", "-c", "echo said; exit 7"]).expect_code(7);
        let answer: serde_json::Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"));
        assert_eq!((&answer["exit"]["code"], &answer["exit_code"]), (&7.into(), &7.into()));
        assert!(ran.err().contains("said\n"), "{ran}");
    });
}

#[test]
fn a_plan_is_shown_and_nothing_is_made() {
    once(|world| {
        let before = Listing::of(&world.project);
        for args in [
            &["run", "--show-plan", "--", "touch", "x"] as &[&str],
            &["run", "--show-binds", "--", "touch", "x"],
        ] {
            let out = world.ok(args).out();
            assert!(out.contains("strategy  overlay") && out.contains("command   touch x"), "{out}");
        }
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        before.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn what_a_run_printed_is_shown_later_and_cannot_drive_the_terminal() {
    once(|world| {
        world.ok(&["run", "-n", "rec", "--", "printf", r"plain\n\033]0;PWNED\007\033[2Jx\n"]);
        for args in [&["log", "rec", "--transcript"] as &[&str], &["show", "rec", "--transcript"]] {
            let ran = world.ok(args);
            assert!(ran.out().starts_with("plain\n"), "{ran}");
            assert!(ran.out().contains(r"\x1b]0;PWNED\x07\x1b[2Jx"), "{ran}");
            assert!(!ran.stdout.contains(&0x1b), "{ran}");
        }
        let table = world.ok(&["log", "rec", "--runs"]).out();
        assert!(table.contains("exit 0") && table.contains("recorded") && !table.contains('\x1b'), "{table}");
    });
}

#[test]
fn a_live_lane_is_seen_joined_refused_to_discard_and_stopped() {
    once(|world| {
        world.ok(&["run", "-d", "-n", "dev", "--", "sleep", "1000"]);
        let listed = world.json(&["ls"]);
        assert_eq!(listed[0]["state"], "live");
        assert!(listed[0]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 64 << 10), "{listed}");
        world.ok(&["exec", "dev", "--", "sh", "-c", "echo x >from-exec"]);
        let ran = world.run(&["discard", "dev"]).expect_code(1);
        assert!(ran.err().contains("`lane stop dev`"), "{ran}");
        let stopped = world.json(&["stop", "dev"]);
        assert_eq!(stopped["was_live"], true, "{stopped}");
        assert_eq!(world.json(&["stop", "dev"])["was_live"], false);
        assert_eq!(world.ok(&["diff", "dev", "--name-only"]).out(), "from-exec\n");
    });
}

#[test]
fn a_failure_of_the_tool_is_125_and_names_what_failed() {
    once(|world| {
        let ran = world.run(&["-C", "/nowhere/at/all", "run", "--", "true"]).expect_code(125);
        assert!(ran.err().contains("/nowhere/at/all"), "{ran}");
        world.run(&["exec", "nonsense", "--", "true"]).expect_code(125);
        world.run(&["run", "--timeout", "soon", "--", "true"]).expect_code(2);
    });
}

#[test]
fn a_shell_on_a_terminal_has_a_terminal_inside() {
    once(|world| {
        let command = world.env.lane(&world.project, &["run", "-n", "tty"]);
        let mut terminal = Pty::start(&command, world.env.who(), 24, 100);
        terminal.wait_for("original protected", PATIENCE);
        terminal.send("test -t 0 && echo is-a-tty-$((40+2))\n");
        terminal.wait_for("is-a-tty-42", PATIENCE);
        terminal.send("exit 5\n");
        assert_eq!(terminal.wait(PATIENCE), 5);
    });
}
