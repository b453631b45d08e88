//! What histories take: what is thinned out and what never is, budgets, full disks, and what is left of a lane that is gone.

use std::path::Path;

use testkit::{FsKind, Listing, LoopFs, Who};

use crate::view::View;
use crate::world::{Made, SOON, World, each, everybody, fresh, once, word};

/// Kinds of all snapshots of a lane, the newest first.
fn kinds(world: &World, lane: &str) -> Vec<String> {
    let log = world.json(&["log", lane, "--all"]);
    log["snapshots"].as_array().unwrap().iter().map(|one| word(&one["kind"]).to_owned()).collect()
}

#[test]
fn b07_a_collection_never_removes_a_lane_nor_anything_of_its_work() {
    each(|world| {
        world.lane("idle");
        world.lane("trashed");
        world.lane("live");
        for lane in ["idle", "trashed"] {
            world.watched(lane, "echo w > only-untracked; git checkout -q --detach; git -c user.name=t -c user.email=t@e commit -q --allow-empty -m lost; git stash list");
            world.watched(lane, "echo more >> only-untracked");
        }
        let trashed = View::of(world, "trashed");
        world.ok(&["discard", "trashed"]);
        let mut live = world.start(&[
            "run",
            "-n",
            "live",
            "--",
            "sh",
            "-c",
            "echo ready > f; echo ready; exec sleep 1000",
        ]);
        live.wait_for("ready", SOON);
        let seen = View::of(world, "idle");
        for _ in 0..2 {
            world.run(&["gc", "--yes", "--budget", "0"]);
        }
        View::of(world, "idle").assert_same(&seen, "collected to nothing");
        let lanes = world.json(&["ls"]);
        let names: Vec<&str> = lanes.as_array().unwrap().iter().map(|lane| word(&lane["name"])).collect();
        assert_eq!(names, ["live", "idle"]);
        assert_eq!(world.ok(&["exec", "live", "--", "cat", "f"]).out(), "ready\n");
        world.ok(&["stop", "live"]);
        live.wait(SOON);
        world.ok(&["recover", "trashed"]);
        View::of(world, "trashed").assert_same(&trashed, "back from the trash");
        world.assert_whole("collected");
    });
}

#[test]
fn what_was_asked_for_stays_and_what_came_by_itself_goes_the_oldest_first() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo 0 > f");
        let asked = world.snap("a");
        let seen = View::of(world, "a");
        world.sh("a", "echo 1 > f");
        world.ok(&["snap", "a", "-m", "named"]);
        for number in 2..6 {
            world.watched("a", &format!("echo {number} > f; head -c 30000 /dev/urandom > r"));
        }
        let last = View::of(world, "a");
        let before = kinds(world, "a");
        assert!(before.iter().filter(|kind| *kind == "exit").count() >= 4, "{before:?}");
        let (planned, code) = world.told(&["gc", "--dry-run", "--budget", "0"]);
        assert_eq!(code, 1, "what was asked for takes more than nothing: {planned}");
        assert!(planned["stores"][0]["over_budget"].as_u64() > Some(0), "{planned}");
        assert_eq!(kinds(world, "a"), before, "a plan changes nothing");
        // Nobody is there to be asked.
        assert!(world.run(&["gc", "--budget", "0"]).expect_code(1).err().contains("--yes"));
        let (done, _) = world.told(&["gc", "--yes", "--budget", "0"]);
        assert_eq!(done["stores"][0]["thinned"], planned["stores"][0]["thinned"]);
        let after = kinds(world, "a");
        // The last is where the lane stands.
        assert_eq!(after, ["exit", "named", "asked", "start"], "{done}");
        // The way back leads past what is gone.
        let walk = world.json(&["log", "a"]);
        assert_eq!(walk["snapshots"].as_array().unwrap().len(), 4, "{walk}");
        world.ok(&["undo", "a", "--yes"]);
        assert_eq!(world.sh("a", "cat f").out(), "1\n");
        world.ok(&["redo", "a", "--yes"]);
        View::of(world, "a").assert_same(&last, "forth");
        world.restore("a", &asked);
        View::of(world, "a").assert_same(&seen, "asked for");
        world.restore("a", "base");
        // A copy begins where it was first recorded.
        assert_eq!(View::of(world, "a").has("f"), world.made == Made::Copy);
        world.assert_whole("collected");
    });
}

#[test]
fn b24_a_snapshot_costs_what_changed_and_a_collection_frees_what_nothing_needs() {
    everybody(|world| {
        world.lane("a");
        world.sh("a", "mkdir big; for i in $(seq 400); do head -c 20k /dev/urandom > big/$i; done");
        world.snap("a");
        let first = world.stored();
        assert!(first > 8_000_000 && first < 9_500_000, "{first}");
        for number in 0..30 {
            world.sh("a", &format!("echo {number} > f"));
            world.snap("a");
        }
        // Nodes of the manifest from the root to the one entry, and the record.
        assert!(world.stored() - first < 30 * 20_000, "{} more", world.stored() - first);
        // Nothing has changed: nothing but the record.
        let (packs, stored) = (world.packs().len(), world.stored());
        world.snap("a");
        assert_eq!((world.packs().len(), world.stored()), (packs, stored));
        // What each takes is told.
        let log = world.json(&["log", "a", "--all", "--usage"]);
        let told: Vec<(u64, u64)> = log["snapshots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["added_bytes"].as_u64().unwrap(), one["exclusive_bytes"].as_u64().unwrap()))
            .collect();
        let (newest, first) = (told[0], told[told.len() - 2]);
        assert!(newest == (0, 0) && first.0 > 8_000_000 && first.1 < 20_000, "{told:?}");
        let shown = world.json(&["show", "a"]);
        assert_eq!(shown["history"]["snapshots"], told.len());
        assert_eq!(shown["history"]["position"], log["position"]);
        assert_eq!(shown["history"]["store_bytes"], stored);
        assert_eq!(world.json(&["ls"])[0]["snapshots"], told.len());
        // What only a lane that is gone needed goes with it; another one in the store is not harmed.
        world.lane("b");
        world.sh("b", "echo b > only-b");
        let id = world.snap("b");
        let seen = View::of(world, "b");
        world.gone("a");
        assert!(world.stored() < 100_000, "{}", world.stored());
        world.assert_whole("after the other lane is gone");
        world.sh("b", "rm only-b");
        world.restore("b", &id);
        View::of(world, "b").assert_same(&seen, "in what is left of the store");
    });
}

#[test]
fn the_last_lane_takes_the_store_along_wherever_it_stands() {
    each(|world| {
        world.lane("a");
        world.lane("b");
        for lane in ["a", "b"] {
            world.watched(lane, "echo x > f");
            world.snap(lane);
        }
        world.gone("a");
        assert!(world.store().exists());
        world.gone("b");
        assert!(!world.store().exists(), "{:?}", world.env.state());
        // And a history begins anew.
        world.lane("c");
        world.sh("c", "echo y > f");
        world.snap("c");
        world.gone("c");
        assert!(!world.store().exists());
    });
    let Some(disk) = LoopFs::make(FsKind::Btrfs, 120, Who::User) else { return };
    let world = beside(&disk);
    let place = disk.path().join(".lanekeeper");
    world.lane("a");
    world.sh("a", "head -c 3000000 /dev/urandom > large; echo x > f");
    let id = world.snap("a");
    let seen = View::of(&world, "a");
    assert!(place.join("store/format").exists() && !world.store().exists());
    world.sh("a", "rm large f");
    world.restore("a", &id);
    View::of(&world, "a").assert_same(&seen, "with shared blocks");
    world.assert_whole("beside the layers");
    world.ok(&["discard", "a"]);
    world.ok(&["recover", "a"]);
    assert_eq!(world.ids("a").len(), 3);
    world.gone("a");
    assert!(!place.exists(), "nothing is left beside the project");
}

/// A project on a filesystem of its own, its state elsewhere.
fn beside(disk: &LoopFs) -> World {
    let env = fresh(Who::User);
    let project = disk.path().join("app");
    env.mkdir(&project);
    env.git_init(&project);
    env.write(&project.join("file"), b"file\n");
    World::over(env, project, Made::Overlay)
}

#[test]
fn a_store_of_others_beside_the_project_is_theirs() {
    let Some(disk) = LoopFs::make(FsKind::Btrfs, 120, Who::User) else { return };
    let (ours, theirs) =
        (beside(&disk), World::over(fresh(Who::User), disk.path().join("app"), Made::Overlay));
    let mut seen = Vec::new();
    for world in [&ours, &theirs] {
        world.lane("a");
        for number in 0..3 {
            world.watched("a", &format!("echo {number} > f"));
        }
        seen.push(View::of(world, "a"));
    }
    let before = kinds(&theirs, "a");
    ours.run(&["gc", "--yes", "--budget", "0"]);
    assert_eq!(kinds(&theirs, "a"), before, "snapshots of lanes that are not known here stay");
    assert!(kinds(&ours, "a").len() < before.len());
    theirs.assert_whole("after their neighbour has collected");
    ours.gone("a");
    theirs.assert_whole("after their neighbour has gone");
    View::of(&theirs, "a").assert_same(&seen[1], "theirs");
    theirs.ok(&["undo", "a", "--yes"]);
    theirs.gone("a");
    assert!(!disk.path().join(".lanekeeper").exists());
}

#[test]
fn a_discarded_lane_comes_back_with_its_history_and_one_that_is_gone_leaves_nothing() {
    each(|world| {
        let origin = Listing::of(&world.project);
        world.lane("a");
        world.watched("a", "echo 1 > f");
        let id = world.snap("a");
        let seen = View::of(world, "a");
        world.watched("a", "echo 2 > f");
        let log = world.ids("a");
        world.ok(&["discard", "a"]);
        world.run(&["gc", "--yes"]).expect_code(0);
        world.assert_whole("in the trash");
        world.ok(&["recover", "a"]);
        assert_eq!(world.ids("a"), log);
        world.restore("a", &id);
        View::of(world, "a").assert_same(&seen, "back from the trash");
        world.gone("a");
        assert!(!world.store().exists());
        for dir in ["lanes", "trash"] {
            assert!(std::fs::read_dir(world.state().join(dir)).unwrap().next().is_none(), "{dir}");
        }
        origin.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn a_run_that_goes_with_its_lane_leaves_no_history_even_where_one_was_asked_for() {
    everybody(|world| {
        let mut running = world.start(&[
            "run",
            "--rm",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "echo x > f; echo ready; exec sleep 1000",
        ]);
        running.wait_for("ready", SOON);
        world.ok(&["snap", "a"]);
        assert!(world.store().exists());
        world.ok(&["stop", "a"]);
        running.wait(SOON);
        assert!(!world.store().exists(), "{:?}", world.json(&["ls"]));
    });
}

#[test]
fn a_collection_beside_a_lane_that_is_written_and_recorded_harms_neither() {
    each(|world| {
        world.lane("a");
        world.lane("b");
        let script =
            "for n in $(seq 30); do echo $n > f$((n % 7)); head -c 9000 /dev/urandom > r$n; done; echo done";
        let mut taken = Vec::new();
        for round in 0..4 {
            let busy = world.start(&["run", "-q", "-n", "b", "--", "sh", "-ec", script]);
            let collector = world.start(&["gc", "--yes", "--budget", "0"]);
            world.sh("a", &format!("echo {round} > f"));
            taken.push((world.snap("a"), View::of(world, "a")));
            collector.wait(SOON);
            busy.wait(SOON).expect_code(0);
        }
        for (id, seen) in &taken {
            world.restore("a", id);
            View::of(world, "a").assert_same(seen, "taken beside a collection");
        }
        world.assert_whole("after collections beside work");
    });
}

/// A state directory on a small disk of its own, the project elsewhere.
fn on_a_small_disk(mib: u64) -> Option<(LoopFs, World)> {
    let disk = LoopFs::make(FsKind::Ext4, mib, Who::User)?;
    let mut env = fresh(Who::User);
    let state = disk.path().join("state");
    env.set("LANE_STATE", state.to_str().unwrap());
    let project = env.make_git("app");
    Some((disk, World { state: Some(state), ..World::over(env, project, Made::Overlay) }))
}

/// Fills a disk but for so many bytes.
fn fill(world: &World, disk: &Path, leave: u64) {
    let free = || {
        let stat = rustix::fs::statvfs(disk).unwrap();
        stat.f_bavail * stat.f_frsize
    };
    let mut number = 0;
    while free() > leave {
        let piece = (free() - leave).min(1 << 20);
        if piece < 4096 {
            break;
        }
        world.env.write(&disk.join(format!("filler{number}")), &vec![1; piece as usize]);
        rustix::fs::sync();
        number += 1;
    }
}

#[test]
fn b24_the_floor_holds_a_snapshot_that_is_asked_for_says_so_and_one_that_is_not_is_told_of() {
    // The floor of a filesystem of 100 MiB is 5 MiB, its budget 20 MiB.
    let Some((disk, world)) = on_a_small_disk(100) else { return };
    world.lane("a");
    world.sh("a", "echo 1 > f");
    let id = world.snap("a");
    let seen = View::of(&world, "a");
    fill(&world, &disk.path(), 4 << 20);
    // It is told at the end of the run, and afterwards.
    let ran = world.run(&["run", "-n", "a", "--", "sh", "-c", "echo 2 > f"]).expect_code(0);
    assert!(ran.err().contains("no snapshot is taken"), "{ran}");
    let log = world.json(&["log", "a"]);
    assert!(word(&log["missed"]["why"]).contains("stay free"), "{log}");
    assert_eq!(log["position"], id.as_str());
    let refused = world.run(&["snap", "a"]).expect_code(1);
    assert!(refused.err().contains("no snapshot is taken") && refused.err().contains("lane gc"), "{refused}");
    // The state that a restore leaves is recorded all the same.
    let undone = world.json(&["restore", "a", &id, "--yes"]);
    assert_eq!(undone["rescued"], true);
    View::of(&world, "a").assert_same(&seen, "on a disk that is nearly full");
    world.restore("a", word(&undone["from"]["id"]));
    assert_eq!(world.sh("a", "cat f").out(), "2\n");
    // What cannot be had is said.
    let (told, code) = world.told(&["gc", "--yes", "--keep-free", "60M"]);
    assert!(code == 1 && told["stores"][0]["short_of_free"].as_u64() > Some(50 << 20), "{told}");
    for entry in std::fs::read_dir(disk.path()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("filler") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    world.watched("a", "echo 3 > f");
    assert_eq!(world.json(&["log", "a"])["missed"], serde_json::Value::Null);
    world.assert_whole("after a full disk");
}

#[test]
fn b24_above_its_budget_a_store_is_thinned_before_an_automatic_snapshot_is_added() {
    let Some((_disk, world)) = on_a_small_disk(100) else { return };
    world.lane("a");
    world.sh("a", "echo 1 > f");
    let asked = world.snap("a");
    let seen = View::of(&world, "a");
    for number in 0..9 {
        world.watched("a", &format!("head -c 4000000 /dev/urandom > r; echo {number} > n"));
    }
    assert!(world.stored() < 26_000_000, "{}", world.stored());
    let kinds = kinds(&world, "a");
    assert!(kinds.iter().filter(|kind| *kind == "exit").count() < 8, "{kinds:?}");
    world.restore("a", &asked);
    View::of(&world, "a").assert_same(&seen, "asked for, and long ago");
    world.assert_whole("after thinning");
}

#[test]
fn b20_a_rescue_that_cannot_be_taken_leaves_the_lane_as_it_is() {
    let Some((disk, world)) = on_a_small_disk(64) else { return };
    world.lane("a");
    world.sh("a", "echo 1 > f");
    let id = world.snap("a");
    world.sh("a", "head -c 20000000 /dev/urandom > large; echo 2 > f");
    let seen = View::of(&world, "a");
    fill(&world, &disk.path(), 3 << 20);
    let refused = world.run(&["restore", "a", &id, "--yes"]).expect_code(1);
    assert!(refused.err().contains("no snapshot is taken"), "{refused}");
    View::of(&world, "a").assert_same(&seen, "refused");
    assert_eq!(world.json(&["log", "a"])["position"], id.as_str());
    world.assert_whole("after a refusal");
}

#[test]
fn a_disk_that_fills_up_anywhere_on_the_way_costs_nothing_that_was_there() {
    let Some((disk, world)) = on_a_small_disk(64) else { return };
    world.lane("a");
    world.sh("a", "mkdir d; for i in $(seq 200); do head -c 3000 /dev/urandom > d/$i; done");
    let id = world.snap("a");
    let seen = View::of(&world, "a");
    world.sh("a", "rm -r d; mkdir e; for i in $(seq 200); do head -c 3000 /dev/urandom > e/$i; done");
    let later = world.snap("a");
    let other = View::of(&world, "a");
    // Both are recorded: no rescue is needed, and what is put back may not fit.
    for leave in [0, 16, 64, 200, 400, 700, 2000] {
        fill(&world, &disk.path(), leave << 10);
        let ran = world.run(&["restore", "a", &id, "--yes"]);
        for entry in std::fs::read_dir(disk.path()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        // Where it could be neither done nor taken back, whoever comes next does.
        let now = View::of(&world, "a");
        if ran.code == Some(0) || now.is(&seen) {
            now.assert_same(&seen, &format!("with {leave} KiB free: {ran}"));
        } else {
            now.assert_same(&other, &format!("with {leave} KiB free: {ran}"));
        }
        world.restore("a", &id);
        View::of(&world, "a").assert_same(&seen, "with room");
        world.restore("a", &later);
        View::of(&world, "a").assert_same(&other, "with room");
    }
    world.assert_whole("after full disks");
}

#[test]
fn a_history_of_a_lane_that_is_nowhere_any_more_goes_with_a_collection() {
    once(|world| {
        world.lane("a");
        world.lane("b");
        for lane in ["a", "b"] {
            world.sh(lane, "head -c 300000 /dev/urandom > f");
            world.snap(lane);
        }
        // As after a kill in the middle of a removal, by hand.
        let home = world.json(&["show", "a"])["lane"]["dir"].as_str().unwrap().to_owned();
        std::fs::remove_dir_all(home).unwrap();
        let stored = world.stored();
        let planned = world.json(&["gc", "--dry-run"]);
        assert_eq!(planned["stores"][0]["histories_of_gone_lanes"].as_array().unwrap().len(), 1, "{planned}");
        let done = world.json(&["gc", "--yes"]);
        assert!(world.stored() + 250_000 < stored, "{done}");
        world.assert_whole("after it went");
    });
}
