//! `lane keep`: what reaches the original, and what does not.

use testkit::{Listing, Plain};

use crate::world::{Made, each, once, raw};

#[test]
fn everything_kept_makes_the_original_equal_to_the_lane() {
    each(|world| {
        world.lane("all");
        world.write("all", "new/deep/file", b"new\n");
        world.write("all", "src/lib.rs", b"//! Kept.\n");
        world.write("all", raw(b"bad\xff\n"), b"odd\n");
        world.delete("all", "README.md");
        world.link("all", "src/lib.rs", "to-lib");
        world.ok(&["export", "all", "../wanted"]);
        let ran = world.ok(&["keep", "all", "--yes"]);
        assert!(ran.err().contains("kept "), "{ran}");
        Plain::without(&world.project, &[".git"]).assert_same(&Plain::of(&world.env.project("wanted")));
        assert_eq!(world.json(&["diff", "all"])["files"], serde_json::json!([]));
    });
}

#[test]
fn a_dry_run_and_a_missing_answer_write_nothing() {
    each(|world| {
        world.lane("dry");
        world.write("dry", "x", b"x\n");
        let before = Listing::of(&world.project);
        let ran = world.ok(&["keep", "dry", "--dry-run"]);
        assert!(ran.out().contains("add     x"), "{ran}");
        let plan = world.json(&["keep", "dry", "--dry-run"]);
        assert_eq!((&plan["dry_run"], &plan["kept"][0]["path"]), (&true.into(), &"x".into()));
        let ran = world.run(&["keep", "dry"]).expect_code(1);
        assert!(ran.err().contains("--yes"), "{ran}");
        before.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn only_named_paths_are_kept() {
    each(|world| {
        world.lane("some");
        world.write("some", "a", b"a\n");
        world.write("some", "b", b"b\n");
        world.write("some", "dir/c", b"c\n");
        world.ok(&["keep", "some", "a", "dir", "--yes"]);
        assert_eq!(world.content("a").as_deref(), Some(&b"a\n"[..]));
        assert_eq!(world.content("dir/c").as_deref(), Some(&b"c\n"[..]));
        assert_eq!(world.content("b"), None);
        assert_eq!(world.ok(&["diff", "some", "--name-only"]).out(), "b\n");
    });
}

#[test]
fn what_runs_by_itself_is_left_out_until_it_is_named() {
    each(|world| {
        world.lane("guard");
        world.write("guard", ".envrc", b"export X=1\n");
        world.write("guard", "plain", b"x\n");
        let ran = world.run(&["keep", "guard", "--yes"]).expect_code(1);
        assert!(
            ran.err().contains("runs by itself later: 1 path")
                && ran.err().contains(".envrc (runs by itself: a shell script"),
            "{ran}"
        );
        assert!(ran.err().contains("`lane keep guard .envrc`"), "{ran}");
        assert_eq!(world.content("plain").as_deref(), Some(&b"x\n"[..]));
        assert_eq!(world.content(".envrc"), None);
        world.ok(&["keep", "guard", ".envrc", "--yes"]);
        assert_eq!(world.content(".envrc").as_deref(), Some(&b"export X=1\n"[..]));
    });
}

#[test]
fn git_internals_stay_in_the_lane_with_one_line_and_no_effect_on_the_exit_code() {
    each(|world| {
        world.lane("git");
        world.write("git", ".git/hooks/pre-commit", b"#!/bin/sh\nevil\n");
        world.write("git", "plain", b"x\n");
        let ran = world.ok(&["keep", "git", "--yes"]);
        assert!(ran.err().contains("1 path in .git stay"), "{ran}");
        assert_eq!(world.content(".git/hooks/pre-commit"), None);
        let named = world.run(&["keep", "git", ".git/hooks/pre-commit", "--yes"]).expect_code(1);
        assert!(named.err().contains("is never kept"), "{named}");
        assert_eq!(world.content(".git/hooks/pre-commit"), None);
    });
}

#[test]
fn an_edit_that_the_user_made_meanwhile_is_never_overwritten() {
    each(|world| {
        world.lane("race");
        world.write("race", "src/lib.rs", b"//! Lane.\n");
        world.write("race", "other", b"x\n");
        world.env.write(&world.project.join("src/lib.rs"), b"//! Mine.\n");
        // Nothing ran in it, so that of an overlay nobody knows what the file held.
        let ran = world.run(&["keep", "race", "--yes"]).expect_code(1);
        let why = match world.made {
            Made::Overlay => "what both started from",
            Made::Copy => "the same lines",
        };
        assert!(ran.err().contains(&format!("src/lib.rs (conflict: {why}")), "{ran}");
        assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Mine.\n"[..]));
        assert_eq!(world.content("other").as_deref(), Some(&b"x\n"[..]));
    });
}

#[test]
fn what_was_kept_is_the_base_of_the_next_keep() {
    each(|world| {
        world.lane("twice");
        for (content, round) in [(&b"//! One.\n"[..], 1), (b"//! Two.\n", 2), (b"//! Three.\n", 3)] {
            world.write("twice", "src/lib.rs", content);
            world.write("twice", format!("new-{round}"), content);
            world.ok(&["keep", "twice", "--yes"]);
            assert_eq!(world.content("src/lib.rs").as_deref(), Some(content));
        }
    });
}

#[test]
fn what_was_kept_of_one_name_of_a_file_is_no_drift_of_its_other_names() {
    each(|world| {
        world.env.write(&world.project.join("one"), b"1\n");
        std::fs::hard_link(world.project.join("one"), world.project.join("two")).expect("linked");
        world.lane("linked");
        for name in ["one", "two"] {
            world.write("linked", name, b"written\n");
            world.ok(&["keep", "linked", name, "--yes"]);
            assert_eq!(world.content(name).as_deref(), Some(&b"written\n"[..]));
        }
        assert_eq!(world.json(&["diff", "linked"])["files"], serde_json::json!([]));
    });
}

#[test]
fn a_link_that_leads_out_of_the_project_is_never_written_through() {
    each(|world| {
        let outside = world.env.make_dir("outside");
        world.lane("link");
        world.link("link", &outside, "way-out");
        world.write("link", "fine", b"x\n");
        world.run(&["keep", "link", "--yes"]).expect_code(1);
        world.ok(&["keep", "link", "way-out", "--yes"]);
        assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
        assert!(world.project.join("way-out").is_symlink());
    });
}

#[test]
fn a_path_at_which_nothing_changed_is_an_error_and_nothing_is_kept() {
    once(|world| {
        world.lane("typo");
        world.write("typo", "x", b"x\n");
        let ran = world.run(&["keep", "typo", "y", "--yes"]).expect_code(1);
        assert!(ran.err().contains("changed nothing at"), "{ran}");
        assert_eq!(world.content("x"), None);
    });
}

#[test]
fn nothing_but_what_was_displaced_stays_and_that_can_be_forgotten() {
    each(|world| {
        world.lane("tidy");
        world.write("tidy", "x", b"x\n");
        world.delete("tidy", "README.md");
        let before = Listing::without(&world.project, &["x", "README.md"]).items().len();
        world.ok(&["keep", "tidy", "--yes"]);
        assert_eq!(Listing::without(&world.project, &["x"]).items().len(), before);
        let names = |dir: std::path::PathBuf| -> Vec<_> {
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|at| at.path()).collect()
        };
        let staging = || names(world.env.state().join("staging"));
        let held: Vec<_> = staging().into_iter().flat_map(names).collect();
        assert_eq!(held.len(), 1, "{held:?}");
        assert!(!std::fs::read(&held[0]).expect("what was displaced").is_empty());
        world.ok(&["gc", "--forget-keeps", "--yes"]);
        assert_eq!(staging(), [""; 0].map(std::path::PathBuf::from));
        let journals: Vec<_> = names(world.env.state().join("keeps")).into_iter().flat_map(names).collect();
        assert!(journals.iter().all(|file| file.ends_with("keep.lock")), "{journals:?}");
    });
}
