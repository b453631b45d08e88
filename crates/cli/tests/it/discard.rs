//! `lane discard`: the trash, and nothing left of what is deleted for good.

use std::os::unix::fs::PermissionsExt as _;

use testkit::Listing;

use crate::world::{each, once};

#[test]
fn what_is_deleted_for_good_leaves_nothing_in_state_or_project() {
    each(|world| {
        let before = Listing::of(&world.project);
        world.lane("gone");
        world.write("gone", "x", b"x\n");
        world.ok(&["discard", "gone", "--now", "--yes"]);
        before.assert_same(&Listing::of(&world.project));
        for dir in ["lanes", "trash"] {
            let left: Vec<_> = std::fs::read_dir(world.env.state().join(dir)).into_iter().flatten().collect();
            assert!(left.is_empty(), "{dir}: {left:?}");
        }
        assert!(!world.env.root().join(".lanekeeper").exists());
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        assert_eq!(world.json(&["ls", "--discarded"]), serde_json::json!([]));
    });
}

#[test]
fn directories_that_nobody_may_enter_or_write_are_deleted_too() {
    each(|world| {
        world.lane("hard");
        world.write("hard", "deep/er/file", b"x\n");
        let layer = world.layer("hard");
        world.env.chmod(&layer.join("deep/er"), 0o555);
        world.env.chmod(&layer.join("deep"), 0o000);
        world.ok(&["discard", "hard", "--now", "--yes"]);
        assert!(std::fs::read_dir(world.env.state().join("lanes")).unwrap().next().is_none());
    });
}

#[test]
fn a_discarded_lane_comes_back_with_its_work() {
    each(|world| {
        world.lane("work");
        world.write("work", "x", b"precious\n");
        let ran = world.ok(&["discard", "work"]);
        assert!(ran.err().contains("`lane recover work` brings it back"), "{ran}");
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        assert_eq!(world.json(&["ls", "--discarded"])[0]["name"], "work");
        world.ok(&["recover", "work"]);
        assert_eq!(world.json(&["diff", "work"])["files"][0]["path"], "x");
    });
}

#[test]
fn deleting_for_good_is_asked_about_and_nothing_happens_without_an_answer() {
    once(|world| {
        world.lane("kept");
        world.write("kept", "x", b"x\n");
        let ran = world.run(&["discard", "kept", "--now"]).expect_code(1);
        assert!(ran.err().contains("--yes"), "{ran}");
        assert_eq!(world.json(&["diff", "kept"])["files"][0]["path"], "x");
    });
}

#[test]
fn one_lane_that_is_not_there_does_not_save_the_others() {
    once(|world| {
        world.lane("a");
        world.lane("b");
        let ran = world.run(&["discard", "a", "nonsense", "b"]).expect_code(1);
        assert!(ran.err().contains("nonsense"), "{ran}");
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
    });
}

#[test]
fn the_state_directory_is_closed_to_others() {
    once(|world| {
        world.lane("a");
        let mode = std::fs::metadata(world.env.state()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    });
}
