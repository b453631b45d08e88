//! Collection: what is needed stays, whoever writes; what is not goes; a plan is only a plan.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use store::fsck::check;
use store::gc::{Class, KeepRules, execute, plan, thin};
use store::{SnapshotId, SnapshotKind};

use crate::model::{Model, assert_same};
use crate::world::{World, new_snapshot, open};

const WAIT: Duration = Duration::from_secs(20);

fn stored(world: &World) -> u64 {
    fs::read_dir(world.dir.join("store/packs"))
        .expect("list")
        .map(|item| item.expect("item").metadata().expect("stat").len())
        .sum()
}

fn snap_as(world: &World, kind: SnapshotKind, time_ms: i64, message: &[u8]) -> SnapshotId {
    use std::os::fd::AsFd as _;
    let mut writer = world.store.begin().expect("begin");
    let mut capture = store::Capture::begin(&world.store, &world.lane, 0, &world.boot);
    let pass = store::Pass::at_rest(crate::world::format());
    capture.pass(&mut writer, open(&world.layer()).as_fd(), &pass).expect("pass");
    let captured = capture.finish(&mut writer).expect("finish");
    let new = store::NewSnapshot { kind, time_ms, message: message.to_vec(), ..new_snapshot(&captured) };
    let id = writer.finish(&world.lane, new).expect("finish").id;
    captured.remember(&world.store).expect("stamps");
    id
}

#[test]
fn what_is_thinned_out_goes_and_named_asked_and_present_snapshots_stay() {
    let world = World::new();
    let big = |n: usize| format!("{n:04} ").repeat(20_000);
    let mut ids = Vec::new();
    for (n, kind) in [
        SnapshotKind::Quiet,
        SnapshotKind::Named,
        SnapshotKind::Asked,
        SnapshotKind::Exit,
        SnapshotKind::Quiet,
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(world.layer().join("big"), big(n)).expect("write");
        ids.push(snap_as(&world, kind, n as i64 * 1000, b"name"));
    }
    let before = stored(&world);
    let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(1_000_000) };
    let planned = plan(&world.store, &rules).expect("plan");
    assert_eq!(planned.thin.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [ids[0], ids[3]]);
    assert!(!planned.is_damaged() && planned.freed > 190_000, "{planned:?}");
    // A plan changes nothing.
    assert_eq!(stored(&world), before);
    assert_eq!(world.store.history(&world.lane).expect("history").snapshots().count(), 5);
    let done = execute(&world.store, &planned, 5, WAIT, false).expect("collect");
    assert_eq!((done.thinned, done.spared), (2, 0));
    assert!(stored(&world) + 190_000 < before);
    let history = world.store.history(&world.lane).expect("history");
    assert_eq!(history.snapshots().map(|s| s.0).collect::<Vec<_>>(), [ids[1], ids[2], ids[4]]);
    assert!(history.resolve(&ids[0].to_string()).is_err());
    assert!(check(&world.store, &mut |_| {}).expect("check").is_clean());
    for (id, n) in [(ids[1], 1), (ids[2], 2), (ids[4], 4)] {
        world.restore(id);
        assert_eq!(fs::read_to_string(world.layer().join("big")).expect("read"), big(n));
    }
    assert!(plan(&world.store, &KeepRules::everything(1_000_000)).expect("plan").is_empty());
}

#[test]
fn rules_by_age_keep_the_newest_of_each_stretch_and_a_budget_takes_the_oldest() {
    let world = World::new();
    let mut ids = Vec::new();
    for n in 0..20i64 {
        fs::write(world.layer().join("f"), format!("{n} ").repeat(20_000)).expect("write");
        ids.push(snap_as(&world, SnapshotKind::Quiet, n * 10_000, b""));
    }
    let history = world.store.history(&world.lane).expect("history");
    let histories = vec![(world.lane.clone(), history)];
    let rules = KeepRules {
        classes: vec![Class { age_ms: 50_000, every_ms: 0 }, Class { age_ms: 150_000, every_ms: 50_000 }],
        ..KeepRules::everything(190_000)
    };
    let gone: HashSet<SnapshotId> = thin(&histories, &rules).into_iter().map(|(_, id)| id).collect();
    let kept: Vec<usize> = (0..20).filter(|n| !gone.contains(&ids[*n])).collect();
    // 14 to 19 are young; of the stretches 50–100 and 100–150 the newest stays; 0 to 3 are older than any class.
    assert_eq!(kept, [4, 9, 13, 14, 15, 16, 17, 18, 19]);
    let rules = KeepRules { newest: 3, classes: Vec::new(), ..KeepRules::everything(190_000) };
    assert_eq!(thin(&histories, &rules).len(), 17);
    let rules = KeepRules { pinned: HashSet::from([ids[2]]), ..rules };
    assert_eq!(thin(&histories, &rules).len(), 16);
    let planned = plan(&world.store, &KeepRules { budget: Some(400_000), ..KeepRules::everything(190_000) })
        .expect("plan");
    assert!(planned.kept <= 420_000 && planned.kept > 200_000, "{planned:?}");
    execute(&world.store, &planned, 5, WAIT, false).expect("collect");
    let left: Vec<SnapshotId> =
        world.store.history(&world.lane).expect("history").snapshots().map(|s| s.0).collect();
    assert_eq!(left, ids[20 - left.len()..]);
    assert!(left.len() >= 3);
}

#[test]
fn a_writer_in_the_middle_keeps_a_collection_waiting_and_loses_nothing_to_it() {
    use std::os::fd::AsFd as _;
    let world = World::new();
    fs::write(world.layer().join("f"), "once ".repeat(1000)).expect("write");
    let old = snap_as(&world, SnapshotKind::Quiet, 0, b"");
    fs::write(world.layer().join("f"), "other ".repeat(1000)).expect("write");
    snap_as(&world, SnapshotKind::Quiet, 1, b"");
    let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(1_000_000) };
    let planned = plan(&world.store, &rules).expect("plan");
    assert_eq!(planned.thin[0].1, old);
    // A writer begins, and finds the content of the old snapshot in the store: it writes nothing anew.
    fs::write(world.layer().join("f"), "once ".repeat(1000)).expect("write");
    let mut writer = world.store.begin().expect("begin");
    let mut capture = store::Capture::begin(&world.store, &world.lane, 0, &world.boot);
    let pass = store::Pass::at_rest(crate::world::format());
    capture.pass(&mut writer, open(&world.layer()).as_fd(), &pass).expect("pass");
    assert!(matches!(execute(&world.store, &planned, 5, Duration::ZERO, false), Err(store::Error::Busy)));
    let captured = capture.finish(&mut writer).expect("finish");
    let new = writer.finish(&world.lane, new_snapshot(&captured)).expect("finish").id;
    // Now it may go on, by the plan that did not know of this snapshot.
    execute(&world.store, &planned, 5, WAIT, false).expect("collect");
    assert!(check(&world.store, &mut |_| {}).expect("check").is_clean());
    fs::write(world.layer().join("f"), "gone").expect("write");
    world.restore(new);
    assert_eq!(fs::read_to_string(world.layer().join("f")).expect("read"), "once ".repeat(1000));
}

#[test]
fn a_sealed_layer_that_reached_the_store_later_stays_as_long_as_a_snapshot_names_it() {
    let mut world = World::new();
    world.kind = SnapshotKind::Quiet;
    fs::write(world.layer().join("f"), "in the sealed layer ".repeat(500)).expect("write");
    // The layer is named before it is stored, by a snapshot of this lane and one of a lane that was forked from it.
    let fork = store::LaneKey::new("fork").expect("valid");
    let mut new = new_snapshot(&world.try_snap().expect("snapshot").1);
    let sealed = new.roots[0].top;
    new.roots[0].layers.push(store::LayerRef { id: b"layer-1".to_vec(), manifest: None });
    let mut writer = world.store.begin().expect("begin");
    new.roots[0].top = writer.manifest([]).expect("manifest");
    writer.finish(&fork, new).expect("finish");
    world.store.begin().expect("begin").finish_layer(&world.lane, b"layer-1", sealed, 7).expect("finish");
    fs::write(world.layer().join("f"), "x").expect("write");
    world.snap();
    let collect = || {
        let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(1_000_000) };
        execute(&world.store, &plan(&world.store, &rules).expect("plan"), 5, WAIT, false).expect("collect")
    };
    assert_eq!(collect().thinned, 1);
    assert_eq!(world.store.history(&world.lane).expect("history").layers()[&b"layer-1"[..]], sealed);
    assert_eq!(world.store.manifest(sealed).count().expect("still there"), 2);
    assert!(check(&world.store, &mut |_| {}).expect("check").is_clean());
    // With the last snapshot that names it, it goes.
    world.store.forget_lane(&fork).expect("forget");
    collect();
    assert!(world.store.manifest(sealed).count().is_err());
}

#[test]
fn a_reader_that_was_there_before_a_collection_goes_on_reading_after_it() {
    let world = World::new();
    let mut tops = HashMap::new();
    for n in 0..6 {
        fs::write(world.layer().join("f"), format!("{n}").repeat(50_000)).expect("write");
        fs::write(world.layer().join("small"), format!("{n}").repeat(500)).expect("write");
        let id = snap_as(&world, if n % 2 == 0 { SnapshotKind::Quiet } else { SnapshotKind::Asked }, n, b"");
        let record = world.store.history(&world.lane).expect("history").get(id).expect("known").clone();
        tops.insert(n, record.roots[0].top);
    }
    let reader = store::Store::open(open(&world.dir.join("store"))).expect("open");
    let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(1_000_000) };
    let planned = plan(&world.store, &rules).expect("plan");
    execute(&world.store, &planned, 5, WAIT, false).expect("collect");
    for n in [1, 3, 5] {
        let entries: Vec<_> =
            reader.manifest(tops[&n]).iter().expect("iter").collect::<Result<_, _>>().expect("read");
        for (_, item) in entries {
            if let store::ItemKind::File(content) = item.kind {
                assert_eq!(reader.read(&content).expect("read")[0], b'0' + n as u8);
            }
        }
    }
}

#[test]
fn a_damaged_store_is_collected_only_on_demand() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    for n in 0..3 {
        fs::write(world.layer().join("f"), format!("{n} ").repeat(20_000)).expect("write");
        snap_as(&world, SnapshotKind::Quiet, n, b"");
    }
    // The last pack: its manifest is the last object in it.
    let planned = plan(&world.store, &KeepRules::everything(9)).expect("plan");
    assert!(planned.is_empty());
    for pack in fs::read_dir(world.dir.join("store/packs")).expect("list") {
        let pack = pack.expect("item").path();
        let mut bytes = fs::read(&pack).expect("read");
        let at = bytes.len() - 64 - 2 * 48 - 20;
        bytes[at] ^= 1;
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::write(&pack, bytes).expect("damage");
    }
    let store = store::Store::open(open(&world.dir.join("store"))).expect("open");
    let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(1_000_000) };
    let planned = plan(&store, &rules).expect("plan");
    assert!(planned.is_damaged());
    assert!(matches!(execute(&store, &planned, 5, WAIT, false), Err(store::Error::Damaged(_))));
    execute(&store, &planned, 5, WAIT, true).expect("on demand");
}

#[test]
fn what_a_snapshot_alone_needs_is_what_goes_with_it() {
    let world = World::new();
    let big = |n: usize| format!("{n:05} ").repeat(10_000);
    fs::write(world.layer().join("same"), big(99_999)).expect("write");
    let mut ids = Vec::new();
    for (n, kind) in [SnapshotKind::Asked, SnapshotKind::Quiet, SnapshotKind::Asked].into_iter().enumerate() {
        fs::write(world.layer().join("own"), big(n)).expect("write");
        ids.push(snap_as(&world, kind, n as i64, b""));
    }
    let histories = || vec![(world.lane.clone(), world.store.history(&world.lane).expect("history"))];
    let usage = world.store.usage(&histories()).expect("usage");
    let share = |id| usage.snapshots[&id];
    for id in &ids {
        assert!((60_000..61_000).contains(&share(*id).alone), "{usage:?}");
    }
    assert!(share(ids[0]).added > 120_000 && share(ids[1]).added < 61_000);
    assert_eq!(usage.size.bytes, stored(&world));
    let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(1_000_000) };
    execute(&world.store, &plan(&world.store, &rules).expect("plan"), 5, WAIT, false).expect("collect");
    let after = world.store.usage(&histories()).expect("usage");
    let gone = usage.size.bytes - after.size.bytes;
    assert!(gone >= share(ids[1]).alone && gone < share(ids[1]).alone + 1000, "{gone}");
}

#[test]
fn many_write_and_one_collects_at_the_same_time() {
    let temp = tempfile::tempdir().expect("temporary directory");
    let shared = temp.path().join("shared");
    drop(World::at(&shared));
    let store = || store::Store::open(open(&shared.join("store"))).expect("open");
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|number| {
                let dir = temp.path().join(format!("w{number}"));
                let store = &store;
                scope.spawn(move || {
                    let mut world = World::at(&dir);
                    world.store = store();
                    world.lane = store::LaneKey::new(&format!("lane-{number}")).expect("valid");
                    for round in 0..25 {
                        // All write the same content at times, so that they find each other's objects.
                        world.kind = if round % 3 == 0 { SnapshotKind::Asked } else { SnapshotKind::Quiet };
                        fs::write(world.layer().join("f"), format!("{} ", round % 5).repeat(3000))
                            .expect("write");
                        fs::write(world.layer().join("g"), format!("{number} {round} ").repeat(300))
                            .expect("write");
                        let id = world.snap();
                        if round % 8 == 7 {
                            world.restore(id);
                        }
                    }
                    world
                })
            })
            .collect();
        let collector = store();
        let mut collected = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            let rules = KeepRules { classes: Vec::new(), newest: 1, ..KeepRules::everything(i64::MAX) };
            let planned = plan(&collector, &rules).expect("plan");
            match execute(&collector, &planned, 5, Duration::from_millis(50), false) {
                Ok(done) => collected += done.thinned,
                Err(store::Error::Busy) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let found = check(&collector, &mut |_| {}).expect("check");
        assert!(found.is_clean(), "{found:#?}");
        assert!(collected > 0);
        for worker in workers {
            let world = worker.join().expect("worked");
            let history = world.store.history(&world.lane).expect("history");
            let all: Vec<_> = history.snapshots().map(|(id, record)| (id, record.sequence)).collect();
            assert!(all.len() >= 9);
            for (id, _) in all {
                world.restore(id);
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn after_any_snapshots_restores_and_collections_every_snapshot_that_resolves_is_whole(
        acts in prop::collection::vec((0u8..10, any::<prop::sample::Index>(), 0u32..6), 5..40),
    ) {
        let world = World::new();
        fs::write(world.layer().join("always"), "a".repeat(3000)).expect("write");
        let mut states: HashMap<SnapshotId, Model> = HashMap::new();
        let mut time = 0;
        for (act, index, n) in acts {
            time += 1;
            match act {
                0..=4 => {
                    let file = world.layer().join(format!("f{n}"));
                    if act == 4 {
                        let _ = fs::remove_file(file);
                    } else {
                        fs::write(file, format!("{act}{n}{time}").repeat(700 * n as usize)).expect("write");
                    }
                    let kind = if act < 2 { SnapshotKind::Quiet } else { SnapshotKind::Asked };
                    let id = snap_as(&world, kind, time, b"");
                    states.insert(id, world.model());
                }
                5..=7 => {
                    let known: Vec<SnapshotId> =
                        world.store.history(&world.lane).expect("history").snapshots().map(|s| s.0).filter(|id| states.contains_key(id)).collect();
                    if !known.is_empty() {
                        let id = known[index.index(known.len())];
                        world.restore(id);
                        assert_same(&world.model(), &states[&id]);
                    }
                }
                _ => {
                    let newest = n as usize;
                    let rules = KeepRules { classes: Vec::new(), newest, ..KeepRules::everything(i64::MAX) };
                    let planned = plan(&world.store, &rules).expect("plan");
                    execute(&world.store, &planned, time, WAIT, false).expect("collect");
                }
            }
        }
        let found = check(&world.store, &mut |_| {}).expect("check");
        prop_assert!(found.is_clean());
        let left: Vec<SnapshotId> =
            world.store.history(&world.lane).expect("history").snapshots().map(|s| s.0).collect();
        for id in left.into_iter().filter(|id| states.contains_key(id)) {
            world.restore(id);
            assert_same(&world.model(), &states[&id]);
        }
    }
}
