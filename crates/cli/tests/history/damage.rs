//! Damage: what is hit is named with everything that needs it, and harms nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::view::View;
use crate::world::{World, everybody, once, word};

/// Overwrites bytes of a file that nobody may write.
fn spoil(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    let owner = fs::metadata(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, owner.permissions()).unwrap();
}

/// A lane with three snapshots, each with a file of its own in a pack of its own: what was seen, and the ids.
fn three(world: &World) -> Vec<(String, View)> {
    world.lane("a");
    let mut taken = Vec::new();
    for number in 0..3 {
        world.sh("a", &format!("seq {number}000 {number}900 > f{number}"));
        taken.push((world.snap("a"), View::of(world, "a")));
    }
    taken
}

/// Where the content of a file of step `number` lies: its pack, and where in it.
fn place(world: &World, number: usize) -> (std::path::PathBuf, usize) {
    let content: String = (number * 1000..=number * 1000 + 900).map(|n| format!("{n}\n")).collect();
    for pack in world.packs() {
        let bytes = fs::read(&pack).unwrap();
        if let Some(at) = bytes.windows(content.len()).position(|window| window == content.as_bytes()) {
            return (pack, at);
        }
    }
    panic!("the content of step {number} is in no pack");
}

#[test]
fn a_flipped_bit_is_named_with_its_pack_its_place_and_who_needs_it_and_the_others_restore() {
    everybody(|world| {
        let taken = three(world);
        let (pack, at) = place(world, 1);
        spoil(&pack, |bytes| bytes[at + 17] ^= 4);
        let (told, code) = world.told(&["fsck"]);
        assert_eq!(code, 1, "{told}");
        let findings = told["stores"][0]["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{told:#}");
        let finding = &findings[0];
        assert_eq!(word(&finding["what"]), "object");
        assert_eq!(word(&finding["file"]), pack.file_name().unwrap().to_str().unwrap());
        assert_eq!(finding["offset"], at);
        let needed: Vec<(&str, &str, &str)> = finding["needed_by"]
            .as_array()
            .unwrap()
            .iter()
            .map(|need| (word(&need["lane"]), word(&need["snapshot"]), word(&need["path"])))
            .collect();
        let (second, third) = (taken[1].0.as_str(), taken[2].0.as_str());
        assert_eq!(needed, [("a", second, "f1"), ("a", third, "f1")]);
        let said = world.run(&["fsck"]).expect_code(1).out();
        assert!(said.contains("f1") && said.contains(&second[..12]), "{said}");

        // The lane is at the third, which is damaged in the store and whole in the lane.
        let now = View::of(world, "a");
        world.restore("a", &taken[0].0);
        View::of(world, "a").assert_same(&taken[0].1, "not hit");
        // What is hit is not gone to, and the lane stays where it is, and usable.
        let refused = world.run(&["restore", "a", second, "--yes"]).expect_code(1);
        assert!(refused.err().contains("lane fsck"), "{refused}");
        View::of(world, "a").assert_same(&taken[0].1, "refused");
        world.sh("a", "echo on > g");
        world.snap("a");
        assert!(world.run(&["log", "a"]).code == Some(0));
        drop(now);
    });
}

#[test]
fn what_a_lane_still_holds_is_stored_again_and_every_snapshot_that_needs_it_is_whole() {
    everybody(|world| {
        let taken = three(world);
        for number in 0..3 {
            let (pack, at) = place(world, number);
            spoil(&pack, |bytes| bytes[at + 170 * number] ^= 0x80);
        }
        let (told, code) = world.told(&["fsck"]);
        assert!(code == 1 && told["stores"][0]["findings"].as_array().unwrap().len() == 3, "{told:#}");
        let (told, code) = world.told(&["fsck", "--repair"]);
        assert!(code == 0 && told["stores"][0]["repaired"] == true, "{told:#}");
        for (id, seen) in &taken {
            world.restore("a", id);
            View::of(world, "a").assert_same(seen, "stored again");
        }
        // A collection leaves the better copy.
        world.ok(&["gc", "--yes"]);
        for (id, seen) in &taken {
            world.restore("a", id);
            View::of(world, "a").assert_same(seen, "collected");
        }
        world.assert_whole("in the end");
    });
}

#[test]
fn a_cut_tail_and_a_lost_pack_cost_what_was_in_them() {
    everybody(|world| {
        let taken = three(world);
        // What the lane stands at it could store again.
        world.restore("a", &taken[1].0);
        let (pack, at) = place(world, 2);
        spoil(&pack, |bytes| bytes.truncate(at + 100));
        let (told, code) = world.told(&["fsck"]);
        assert_eq!(code, 1, "{told}");
        for number in [0, 1] {
            world.restore("a", &taken[number].0);
            View::of(world, "a").assert_same(&taken[number].1, &format!("step {number} beside a cut pack"));
        }
        assert_eq!(world.run(&["restore", "a", &taken[2].0, "--yes"]).code, Some(1));
        View::of(world, "a").assert_same(&taken[1].1, "refused");
        fs::remove_file(&pack).unwrap();
        let (told, code) = world.told(&["fsck"]);
        let lost = told["stores"][0]["findings"].as_array().unwrap();
        assert!(code == 1 && lost.iter().all(|finding| finding["what"] == "object"), "{told:#}");
        assert!(lost.iter().any(|finding| finding["needs"].as_u64() > Some(0)), "{told:#}");
        world.restore("a", &taken[0].0);
        View::of(world, "a").assert_same(&taken[0].1, "beside a lost pack");
        // A damaged store is collected only on demand.
        let (told, code) = world.told(&["gc", "--yes", "--budget", "0"]);
        assert!(code == 1 && word(&told["stores"][0]["problem"]).contains("damaged"), "{told}");
        world.run(&["gc", "--yes", "--despite-damage"]);
        world.restore("a", &taken[1].0);
        View::of(world, "a").assert_same(&taken[1].1, "after a collection despite damage");
    });
}

#[test]
fn a_lane_whose_own_state_was_lost_from_the_store_goes_back_all_the_same() {
    everybody(|world| {
        let taken = three(world);
        let (pack, _) = place(world, 2);
        fs::remove_file(&pack).unwrap();
        assert_eq!(world.run(&["fsck"]).code, Some(1));
        world.restore("a", &taken[0].0);
        View::of(world, "a").assert_same(&taken[0].1, "back");
        // And forth: what it left is a snapshot again.
        world.restore("a", &taken[2].0);
        View::of(world, "a").assert_same(&taken[2].1, "forth");
        world.assert_whole("stored again");
    });
}

#[test]
fn every_pack_flipped_in_turn_harms_only_snapshots_that_are_named() {
    once(|world| {
        let taken = three(world);
        for pack in world.packs() {
            let whole = fs::read(&pack).unwrap();
            for at in (70..whole.len()).step_by(whole.len() / 5 + 1) {
                spoil(&pack, |bytes| bytes[at] ^= 0x10);
                let (told, _) = world.told(&["fsck"]);
                let hit: Vec<String> = told["stores"][0]["findings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .flat_map(|finding| finding["needed_by"].as_array().unwrap())
                    .map(|need| word(&need["snapshot"]).to_owned())
                    .collect();
                for (id, seen) in taken.iter().filter(|(id, _)| !hit.contains(id)) {
                    let ran = world.run(&["restore", "a", id, "--yes"]);
                    // Where the state that is left cannot be compared any more, nothing is done.
                    if ran.code == Some(0) {
                        View::of(world, "a").assert_same(seen, "not named as damaged");
                    } else {
                        assert!(!hit.is_empty(), "{ran}");
                    }
                }
                spoil(&pack, |bytes| *bytes = whole.clone());
                for (id, seen) in &taken {
                    world.restore("a", id);
                    View::of(world, "a").assert_same(seen, "whole again");
                }
            }
        }
        world.assert_whole("whole again");
    });
}

#[test]
fn a_damaged_index_costs_nothing_and_is_made_again() {
    everybody(|world| {
        world.lane("a");
        let mut taken = Vec::new();
        for number in 0..20 {
            world.sh("a", &format!("seq {number} 400 > f"));
            taken.push(world.snap("a"));
        }
        let index = fs::read_dir(world.store().join("index")).unwrap().next().unwrap().unwrap().path();
        spoil(&index, |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
        });
        let (told, code) = world.told(&["fsck"]);
        assert!(code == 1 && told["stores"][0]["findings"][0]["what"] == "index", "{told}");
        world.restore("a", &taken[3]);
        assert!(world.sh("a", "cat f").out().starts_with("3\n"));
        let (told, code) = world.told(&["fsck", "--repair"]);
        assert!(code == 0 && told["stores"][0]["repaired"] == true, "{told}");
        world.assert_whole("repaired");
        // All of what is derived may go at any time.
        for dir in ["index", "stamps"] {
            for entry in fs::read_dir(world.store().join(dir)).unwrap().flatten() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        world.restore("a", &taken[7]);
        assert!(world.sh("a", "cat f").out().starts_with("7\n"));
        world.assert_whole("without what is derived");
    });
}

#[test]
fn a_torn_history_loses_what_was_torn_and_says_so() {
    everybody(|world| {
        let taken = three(world);
        let id = word(&world.json(&["show", "a"])["lane"]["id"]).to_owned();
        let log = world.store().join("history").join(format!("{id}.log"));
        let whole = fs::read(&log).unwrap();
        // An append that was interrupted: nobody was told of it.
        spoil(&log, |bytes| bytes.truncate(whole.len() - 30));
        world.assert_whole("a torn tail");
        world.restore("a", &taken[0].0);
        View::of(world, "a").assert_same(&taken[0].1, "before a torn tail");
        spoil(&log, |bytes| *bytes = whole.clone());
        // A record in the middle that is no record.
        spoil(&log, |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
        });
        let (told, code) = world.told(&["fsck"]);
        let findings = told["stores"][0]["findings"].as_array().unwrap();
        assert!(code == 1 && findings.iter().any(|finding| finding["what"] == "history"), "{told:#}");
        let ran = world.run(&["log", "a", "--all"]).expect_code(1);
        assert!(ran.err().contains("cannot be read"), "{ran}");
        let there = world.told(&["log", "a", "--all"]).0;
        let there: Vec<&str> =
            there["snapshots"].as_array().unwrap().iter().map(|one| word(&one["id"])).collect();
        for (id, seen) in taken.iter().filter(|(id, _)| there.contains(&id.as_str())) {
            world.restore("a", id);
            View::of(world, "a").assert_same(seen, "beside a lost record");
        }
    });
}

#[test]
fn a_store_of_a_later_version_is_left_alone_and_does_not_keep_a_lane_from_working() {
    once(|world| {
        three(world);
        let format = world.store().join("format");
        spoil(&format, |bytes| *bytes = b"lanekeeper store\nversion 7\n".to_vec());
        let (told, code) = world.told(&["fsck"]);
        assert!(code == 1 && word(&told["stores"][0]["problem"]).contains("version 7"), "{told}");
        assert_eq!(world.run(&["gc", "--yes"]).code, Some(1));
        assert_eq!(world.run(&["snap", "a"]).code, Some(1));
        world.sh("a", "echo still > works");
        assert_eq!(world.json(&["diff", "a"])["files"].as_array().unwrap().len(), 4);
    });
}
