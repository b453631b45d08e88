//! The policy: rules of the original and of the user, which no lane loosens, and which a keep names when it is refused.

use serde_json::json;

use crate::world::{World, each, once};

fn rules(world: &World, text: &str) {
    world.env.write(&world.project.join("lane.toml"), text.as_bytes());
}

fn of_user(world: &World, text: &str) {
    let dir = world.env.home().join(".config/lanekeeper");
    world.env.mkdir(&dir);
    world.env.write(&dir.join("policy.toml"), text.as_bytes());
}

#[test]
fn a_path_that_the_rules_do_not_allow_stops_the_keep_and_the_rule_is_named() {
    each(|world| {
        rules(world, "[keep]\nonly = [\n  \"src/**\",\n]\ndeny = ['src/secret/']\n");
        world.lane("work");
        world.write("work", "src/new/deep.rs", b"x\n");
        world.write("work", "docs/page.md", b"x\n");
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        for word in ["keep.only of", "lane.toml (line 2)", "docs/page.md", "src/**", "lane keep work PATH"] {
            assert!(ran.err().contains(word), "{word} in {ran}");
        }
        assert_eq!((world.content("src/new/deep.rs"), world.content("docs/page.md")), (None, None));
        // A directory that only holds what is allowed may be made.
        world.ok(&["keep", "work", "src", "--yes"]);
        assert!(world.content("src/new/deep.rs").is_some());
        world.write("work", "src/secret/key", b"x\n");
        let ran = world.run(&["keep", "work", "src", "--yes"]).expect_code(1);
        assert!(ran.err().contains("keep.deny of") && ran.err().contains("src/secret/key"), "{ran}");
        let ran = world.run(&["keep", "work", "docs", "--dry-run"]).expect_code(1);
        assert!(ran.err().contains("keep.only"), "{ran}");
    });
}

#[test]
fn a_directory_that_moves_is_held_to_the_rules_at_both_places() {
    each(|world| {
        world.env.write(&world.project.join("docs/a.md"), b"a text that is long enough to be found again\n");
        world.env.write(&world.project.join("docs/b.md"), b"another text that is long enough as well\n");
        rules(world, "[keep]\nonly = ['src/**']\n");
        world.lane("work");
        for name in ["a.md", "b.md"] {
            let text = world.content(format!("docs/{name}")).unwrap();
            world.write("work", format!("src/docs/{name}"), &text);
            world.delete("work", &format!("docs/{name}"));
        }
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(ran.err().contains("keep.only") && ran.err().contains("docs/a.md"), "{ran}");
        assert!(world.content("docs/a.md").is_some());
        rules(world, "[keep]\nonly = ['src/**', 'docs/']\n");
        world.ok(&["keep", "work", "--yes"]);
        assert!(world.content("docs/a.md").is_none() && world.content("src/docs/b.md").is_some());
    });
}

#[test]
fn limits_count_files_and_bytes_and_the_users_own_rules_hold_too() {
    once(|world| {
        world.lane("work");
        for number in 0..3 {
            world.write("work", format!("dir/f{number}"), &[b'x'; 1000]);
        }
        rules(world, "[keep]\nmax_files = 2\n");
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(
            ran.err().contains("keep.max_files") && ran.err().contains("3 files, and 2 at most"),
            "{ran}"
        );
        rules(world, "[keep]\nmax_files = 3\n");
        of_user(world, "[keep]\nmax_bytes = '2K'\n");
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(
            ran.err().contains("keep.max_bytes of") && ran.err().contains("policy.toml (line 2)"),
            "{ran}"
        );
        world.ok(&["keep", "work", "dir/f0", "dir/f1", "--yes"]);
        of_user(world, "[keep]\nmax_bytes = 1000\n");
        world.ok(&["keep", "work", "--yes"]);
        assert!(world.content("dir/f2").is_some());
    });
}

#[test]
fn a_lane_does_not_loosen_the_rules_of_its_own_keep() {
    each(|world| {
        rules(world, "[keep]\ndeny = ['private/**']\n");
        world.lane("work");
        world.write("work", "lane.toml", b"[keep]\n");
        world.write("work", ".lane.toml", b"nonsense\n");
        world.write("work", "private/x", b"x\n");
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(ran.err().contains("keep.deny"), "{ran}");
        let ran = world.run(&["keep", "work", "lane.toml", "private", "--yes"]).expect_code(1);
        assert!(ran.err().contains("keep.deny"), "{ran}");
        assert_eq!(world.content("private/x"), None);
    });
}

#[test]
fn what_a_file_says_wrong_is_named_with_file_line_and_key_and_nothing_is_kept() {
    once(|world| {
        world.lane("work");
        world.write("work", "x", b"x\n");
        rules(world, "# rules\n[keep]\nonyl = ['src/**']\n");
        for args in [&["keep", "work", "--yes"][..], &["policy", "show"]] {
            let ran = world.run(args).expect_code(1);
            for word in ["lane.toml (line 3)", "onyl"] {
                assert!(ran.err().contains(word), "{word} in {ran}");
            }
        }
        assert_eq!(world.content("x"), None);
        // What a link leads to is not the project's.
        std::fs::remove_file(world.project.join("lane.toml")).unwrap();
        world.env.link("/etc/hostname", &world.project.join("lane.toml"));
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(ran.err().contains("lane.toml cannot be used"), "{ran}");
        std::fs::remove_file(world.project.join("lane.toml")).unwrap();
        of_user(world, "[keep]\nverify = 3\n");
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(ran.err().contains("policy.toml (line 2)"), "{ran}");
        assert_eq!(world.content("x"), None);
    });
}

#[test]
fn a_lane_has_to_pass_before_it_is_kept_and_passes_once() {
    each(|world| {
        rules(world, "[keep]\nverify = \"grep -q good verdict.txt\"\n");
        world.lane("work");
        world.write("work", "verdict.txt", b"bad\n");
        let planned = world.run(&["keep", "work", "--dry-run", "--json"]).expect_code(0);
        let planned: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
        assert_eq!(
            (&planned["checks"][0]["holds"], &planned["checks"][0]["line"]),
            (&json!(false), &json!(2))
        );
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        for word in [
            "keep.verify of",
            "lane.toml (line 2)",
            "`grep -q good verdict.txt` failed",
            "--transcript=verdict",
        ] {
            assert!(ran.err().contains(word), "{word} in {ran}");
        }
        assert_eq!(world.content("verdict.txt"), None);
        assert_eq!(world.json(&["ls"])[0]["verdict"]["verdict"], "fail");
        world.write("work", "verdict.txt", b"good\n");
        let ran = world.ok(&["keep", "work", "--yes"]);
        assert!(ran.err().contains("checking: grep -q good verdict.txt"), "{ran}");
        assert_eq!(world.content("verdict.txt").as_deref(), Some(&b"good\n"[..]));
        // A verdict on the same state counts, and one on another does not.
        world.write("work", "verdict.txt", b"still good\n");
        let ran = world.ok(&["verify", "work"]);
        assert!(ran.err().contains("pass"), "{ran}");
        let ran = world.ok(&["keep", "work", "--yes"]);
        assert!(!ran.err().contains("checking"), "{ran}");
        world.write("work", "other.txt", b"x\n");
        let ran = world.ok(&["keep", "work", "--yes"]);
        assert!(ran.err().contains("checking"), "{ran}");
    });
}

#[test]
fn a_check_counts_only_while_the_original_that_it_saw_is_as_it_was() {
    once(|world| {
        rules(world, "[keep]\nverify = ['sh', '-c', '! test -e src/broken']\n");
        world.lane("work");
        world.write("work", "new", b"x\n");
        world.ok(&["verify", "work"]);
        world.env.write(&world.project.join("src/broken"), b"the lane shows it, too\n");
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(ran.err().contains("checking") && ran.err().contains("failed"), "{ran}");
        assert_eq!(world.content("new"), None);
        std::fs::remove_file(world.project.join("src/broken")).unwrap();
        world.ok(&["keep", "work", "--yes"]);
    });
}

#[test]
fn a_live_lane_is_checked_by_a_snapshot_before_it_is_kept() {
    once(|world| {
        rules(world, "[keep]\nverify = 'test -e done'\n");
        world.lane("work");
        world.ok(&["run", "-d", "-n", "work", "--", "sh", "-c", "echo x > new; sleep 1000"]);
        testkit::until("it has written", std::time::Duration::from_secs(30), || {
            world.layer("work").join("new").exists()
        });
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(ran.err().contains("`test -e done` failed"), "{ran}");
        world.ok(&["exec", "work", "--", "touch", "done"]);
        world.ok(&["keep", "work", "--yes"]);
        assert!(world.content("new").is_some());
        world.ok(&["stop", "work"]);
    });
}

#[test]
fn what_holds_and_where_it_stands_is_shown() {
    once(|world| {
        let ran = world.ok(&["policy", "show"]);
        assert!(ran.err().contains("no rule holds") && ran.err().contains("policy.toml"), "{ran}");
        rules(world, "[keep]\nonly = ['src/**']\nverify = 'make check'\n");
        of_user(world, "[keep]\nmax_bytes = '1M'\n");
        let ran = world.ok(&["policy", "show"]);
        for word in [
            "lane.toml · this project",
            "policy.toml · all projects",
            "src/**",
            "make check",
            "1.0 MiB",
            "(line 2)",
        ] {
            assert!(ran.out().contains(word), "{word} in {ran}");
        }
        let shown = world.json(&["policy", "show"]);
        let project = shown["files"]
            .as_array()
            .unwrap()
            .iter()
            .find(|file| file["there"] == true && file["scope"] == "project");
        assert_eq!(project.unwrap()["verify"]["argv"], json!(["/bin/sh", "-c", "make check"]));
    });
}

#[test]
fn files_of_rules_are_looked_at_and_compared_without_a_keep() {
    once(|world| {
        world.ok(&["policy", "check"]);
        world.env.write(&world.project.join("lane.toml"), b"[keep]\nmax_files = 3\n");
        let checked = world.json(&["policy", "check"]);
        let project = checked["files"].as_array().expect("a list").iter().find(|file| file["there"] == true);
        assert_eq!(project.expect("a file")["blake3"].as_str().map(str::len), Some(64));
        let compared = world.json(&["policy", "diff"]);
        assert_eq!(compared["rules"][0]["rule"], "keep.max_files");
        assert_eq!(
            (&compared["rules"][0]["user"], &compared["rules"][0]["project"]),
            (&serde_json::Value::Null, &"3".into())
        );
        // A run says which files held.
        world.ok(&["run", "-n", "work", "--", "true"]);
        let records = world.ok(&["ledger", "work", "--kind", "policy", "--json"]).out();
        assert!(records.contains("lane.toml") && records.contains("blake3"), "{records}");
        world.env.write(&world.project.join("lane.toml"), b"[keep]\nmax_flies = 3\n");
        let said = world.run(&["policy", "check"]).expect_code(1);
        assert!(said.out().contains("lane.toml:2 refused"), "{said}");
        world.run(&["policy", "check", "/nonexistent.toml"]).expect_code(1);
        world.run(&["policy", "diff"]).expect_code(1);
    });
}

#[test]
fn what_cannot_be_granted_says_why() {
    once(|world| {
        world.lane("work");
        let said = world.run(&["policy", "grant", "work", "net:example.com"]).expect_code(1);
        assert!(said.err().contains("it is not live"), "{said}");
        let said = world.run(&["policy", "grant", "work", "everything"]).expect_code(1);
        assert!(said.err().contains("net:HOST"), "{said}");
    });
}

#[test]
fn rules_about_what_runs_may_use_are_defaults_and_maxima_and_only_tighten() {
    once(|world| {
        rules(world, "[limits]\npids = 90\nmax_pids = 100\nmax_time = \"1m\"\n");
        let pids = |name: &str, args: &[&str]| {
            world.ok(&[&["run", "-n", name], args, &["--", "true"]].concat());
            let shown = world.json(&["show", name]);
            let walls = shown["runs"][0]["walls"].as_array().unwrap().clone();
            let wall = walls.iter().find(|wall| wall["name"] == "limits").unwrap().clone();
            wall["detail"].as_str().unwrap().split(':').next().unwrap().to_owned()
        };
        assert_eq!(pids("default", &[]), "pids 90");
        assert_eq!(pids("flag", &["--pids", "95"]), "pids 95");
        for (flag, value) in [("--pids", "101"), ("--timeout", "2m")] {
            let ran = world.run(&["run", "--rm", flag, value, "--", "echo", "ran"]).expect_code(125);
            assert!(
                ran.out().is_empty() && ran.err().contains("lane.toml") && ran.err().contains(flag),
                "{ran}"
            );
        }
        // A file of the user does not loosen it.
        of_user(world, "[limits]\npids = 95\nmax_pids = 200\n");
        assert_eq!(pids("both", &[]), "pids 90");
        world.run(&["run", "--rm", "--pids", "150", "--", "true"]).expect_code(125);
        of_user(world, "[limits]\npids = 10\n");
        assert_eq!(pids("less", &[]), "pids 10");
        let shown = world.json(&["policy", "show"]).to_string();
        assert!(shown.contains("max_pids") && shown.contains("\"value\":60000"), "{shown}");
    });
}
