//! `lane new`.

use testkit::Listing;

use crate::world::{each, once};

#[test]
fn making_a_lane_leaves_no_trace_in_the_original() {
    each(|world| {
        let before = Listing::of(&world.project);
        world.lane("one");
        before.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn a_name_is_made_up_where_none_is_given_and_printed_alone_on_stdout() {
    once(|world| {
        let ran = world.ok(&["new"]);
        let name = ran.out().trim().to_owned();
        assert_eq!(ran.out(), format!("{name}\n"));
        assert!(name.split('-').count() == 2, "{name}");
        assert!(ran.err().contains(&format!("lane {name} · overlay · cloned in ")), "{ran}");
        assert!(ran.err().contains(" · 0 B allocated · original protected"), "{ran}");
    });
}

#[test]
fn several_lanes_are_made_at_once_and_a_taken_name_is_refused_with_the_way_out() {
    once(|world| {
        let made = world.json(&["new", "a1", "b2"]);
        assert_eq!(made.as_array().map(Vec::len), Some(2), "{made}");
        let ran = world.run(&["new", "a1"]).expect_code(1);
        assert!(ran.err().contains("there is a lane 'a1' already"), "{ran}");
        assert!(ran.err().contains("`lane discard a1`"), "{ran}");
        assert!(ran.stdout.is_empty(), "{ran}");
    });
}

#[test]
fn the_lane_stands_on_the_git_top_level_from_wherever_it_is_asked_for() {
    once(|world| {
        world.env.ok(world.project.join("src"), &["new", "deep"]);
        world
            .env
            .ok(world.env.root(), &["-C", &world.project.join("src").display().to_string(), "show", "deep"]);
        let shown = world.json(&["show", "deep"]);
        assert_eq!(shown["lane"]["origin"].as_str(), world.project.to_str());
    });
}

#[test]
fn names_that_would_need_quoting_are_refused() {
    once(|world| {
        for bad in ["a b", "../x", ".hidden", "now", "x\u{202e}y", "ok\x1b[2J"] {
            let ran = world.run(&["new", bad]).expect_code(1);
            assert!(ran.err().contains("cannot be the name of a lane"), "{ran}");
            assert!(!ran.stderr.contains(&0x1b), "{ran}");
        }
    });
}

#[test]
fn a_project_that_is_not_there_is_named() {
    once(|world| {
        let ran = world.run(&["-C", "/nowhere/at/all", "new", "x"]).expect_code(1);
        assert!(ran.err().contains("/nowhere/at/all"), "{ran}");
        assert!(ran.err().contains("hint:"), "{ran}");
    });
}

#[test]
fn a_state_directory_of_somebody_else_is_refused() {
    once(|world| {
        let open = world.env.root().join("open-to-all");
        world.env.mkdir(&open);
        world.env.chmod(&open, 0o777);
        let ran = world.run(&["--state", &open.display().to_string(), "new", "x"]).expect_code(1);
        assert!(ran.err().contains("others can write it"), "{ran}");
    });
}

#[test]
fn further_roots_must_not_overlap() {
    once(|world| {
        let other = world.env.make_dir("lib");
        world.env.write(&other.join("x"), b"x\n");
        let made = world.json(&["new", "two", "--also", "../lib"]);
        assert_eq!(made[0]["roots"].as_array().map(Vec::len), Some(2), "{made}");
        world.run(&["new", "bad", "--also", "src"]).expect_code(1);
        world.run(&["new", "bad", "--also", ".."]).expect_code(1);
    });
}
