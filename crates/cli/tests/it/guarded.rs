//! Files that run by themselves later: a section of their own in every face, and never covered by a blanket yes.

use crate::world::{World, each, once};

/// A lane with an ordinary change and several that run by themselves.
fn filled(world: &World) {
    world.env.write(&world.project.join("Makefile"), b"all:\n");
    world.lane("work");
    world.write("work", "src/lib.rs", b"//! Changed.\n");
    world.write("work", "Makefile", b"all:\n\techo\n");
    world.write("work", ".github/workflows/ci.yml", b"on: push\n");
    world.write("work", "run", b"#!/bin/sh\n");
    world.link("work", "../src/lib.rs", "bin/python3");
    world.write("work", "lane.toml", b"[keep]\n");
}

const GUARDED: [&str; 5] = [".github/workflows/ci.yml", "Makefile", "bin/python3", "lane.toml", "run"];

#[test]
fn every_face_shows_them_in_a_section_of_their_own_with_the_reason() {
    each(|world| {
        filled(world);
        for args in [&["diff", "work"][..], &["diff", "work", "--stat"], &["show", "work"]] {
            let ran = world.ok(args);
            let out = ran.out();
            let (before, after) = out.split_once("runs by itself later").unwrap_or_else(|| panic!("{ran}"));
            for (path, why) in GUARDED.iter().zip(["CI", "make runs", "interpreter", "may be kept", "#!"]) {
                assert!(after.contains(path) && after.contains(why), "{path} in {ran}");
                assert!(!before.contains(path), "{path} in {ran}");
            }
            assert!(args[0] == "show" || before.contains("src/lib.rs"), "{ran}");
        }
        let shown = world.json(&["show", "work"]);
        let named: Vec<_> =
            shown["guarded"].as_array().unwrap().iter().map(|at| at["path"].as_str().unwrap()).collect();
        assert!(GUARDED.iter().all(|path| named.contains(path)), "{shown}");
        assert!(!named.contains(&"src/lib.rs"), "{shown}");
    });
}

#[test]
fn a_blanket_yes_leaves_them_out_and_naming_a_path_keeps_it() {
    each(|world| {
        filled(world);
        let ran = world.run(&["keep", "work", "--yes"]).expect_code(1);
        let (_, after) = ran
            .err()
            .split_once("left out, because it runs by itself later")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap_or_else(|| panic!("{ran}"));
        for path in GUARDED {
            assert!(after.contains(path), "{path} in {ran}");
        }
        assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Changed.\n"[..]));
        assert_eq!(world.content("Makefile").as_deref(), Some(&b"all:\n"[..]));
        assert!(world.content("run").is_none() && !world.project.join("bin").exists());
        // A directory that only holds one of them names none.
        world.run(&["keep", "work", ".github", "--yes"]).expect_code(1);
        assert!(!world.project.join(".github").exists());
        let planned = world.ok(&["keep", "work", "Makefile", "run", "--dry-run"]);
        let (_, after) = planned
            .out()
            .split_once("runs by itself later, and was named")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap_or_else(|| panic!("{planned}"));
        assert!(after.contains("Makefile") && after.contains("[make runs its commands]"), "{planned}");
        let named =
            ["keep", "work", "Makefile", "run", "bin/python3", ".github/workflows", "lane.toml", "--yes"];
        world.ok(&named);
        assert_eq!(world.content("Makefile").as_deref(), Some(&b"all:\n\techo\n"[..]));
        assert!(world.project.join("bin/python3").is_symlink());
        assert_eq!(world.json(&["diff", "work"])["files"], serde_json::json!([]));
    });
}

#[test]
fn what_cannot_be_read_stops_no_face() {
    once(|world| {
        world.lane("work");
        world.write("work", "closed", b"x\n");
        world.env.chmod(&world.layer("work").join("closed"), 0o000);
        world.write("work", "open", b"x\n");
        world.ok(&["show", "work"]);
        let named = world.run(&["diff", "work", "--name-only"]);
        assert!(named.out().contains("open"), "{named}");
        world.run(&["keep", "work", "open", "--yes"]).expect_code(0);
        assert!(world.content("open").is_some());
    });
}
