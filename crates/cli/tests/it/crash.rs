//! What a kill leaves is put right by the next command, and no work is lost.

use std::fs;

use crate::world::{each, once};

#[test]
fn a_lane_that_was_half_made_is_cleared_by_the_next_command() {
    each(|world| {
        world.lane("whole");
        let lanes = world.env.state().join("lanes");
        // A directory with its lock and no stamp: the maker died between two calls.
        let half = lanes.join("0half0ne");
        world.env.mkdir(&half.join("0.u"));
        world.env.write(&half.join("lock"), b"");
        let ran = world.ok(&["ls"]);
        assert!(ran.err().contains("repaired: a lane was half made (0half0ne)"), "{ran}");
        assert!(!half.exists());
        assert_eq!(world.json(&["ls"])[0]["name"], "whole");
    });
}

#[test]
fn a_lane_without_a_row_that_holds_work_is_kept_and_named() {
    each(|world| {
        world.lane("lost");
        world.write("lost", "x", b"precious\n");
        let layer = world.layer("lost");
        for name in ["lane.db", "lane.db-wal", "lane.db-shm"] {
            fs::remove_file(world.env.state().join(name)).ok();
        }
        world.ok(&["ls"]);
        assert_eq!(fs::read(layer.join("x")).unwrap(), b"precious\n");
        let checks = world.json(&["doctor"]);
        let remnants =
            checks["checks"].as_array().unwrap().iter().find(|check| check["id"] == "remnants").unwrap();
        assert_eq!(remnants["verdict"], "degraded", "{checks}");
    });
}

#[test]
fn a_discard_that_was_interrupted_is_ended() {
    each(|world| {
        world.lane("gone");
        let id = world.json(&["show", "gone"])["lane"]["id"].as_str().unwrap().to_owned();
        // Between the rename and the row.
        fs::create_dir_all(world.env.state().join("trash")).unwrap();
        world.env.who().own(&world.env.state().join("trash"));
        fs::rename(world.env.state().join("lanes").join(&id), world.env.state().join("trash").join(&id))
            .unwrap();
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        world.ok(&["recover", "gone"]);
        assert_eq!(world.json(&["ls"])[0]["name"], "gone");
        // Between the first unlink of a removal and the row.
        fs::remove_file(world.env.state().join("lanes").join(&id).join("base")).unwrap();
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        assert!(!world.env.state().join("lanes").join(&id).exists());
    });
}

#[test]
fn a_damaged_ledger_is_named_and_not_overwritten() {
    once(|world| {
        world.lane("a");
        fs::remove_file(world.env.state().join("lane.db-wal")).ok();
        world
            .env
            .write(&world.env.state().join("lane.db"), b"this is no database, and it is long enough to tell");
        let ran = world.run(&["ls"]).expect_code(1);
        assert!(ran.err().contains("lane.db") && ran.err().contains("damaged"), "{ran}");
        assert!(fs::read(world.env.state().join("lane.db")).unwrap().starts_with(b"this is no database"));
    });
}
