//! Coming in, room, the end of a store, and pins that come late.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsFd as _;
use std::time::Duration;

use store::gc::{KeepRules, execute_but, plan};
use store::{Capture, Error, LaneKey, NewSnapshot, Pass, Quiescence, SnapshotKind, Store, clear_remains};

use crate::world::{BOOT, World, format, open};

const WAIT: Duration = Duration::from_secs(20);

/// A snapshot of a lane without roots.
fn empty() -> NewSnapshot {
    NewSnapshot {
        parent: None,
        time_ms: 1,
        kind: SnapshotKind::Start,
        quiescence: Quiescence::AtRest,
        message: Vec::new(),
        roots: Vec::new(),
        gaps: Vec::new(),
        credentials: Vec::new(),
    }
}

fn key(name: &str) -> LaneKey {
    LaneKey::new(name).expect("valid")
}

#[test]
fn a_store_ends_with_its_last_lane_and_not_before() {
    let world = World::new();
    fs::write(world.layer().join("f"), "f".repeat(500)).expect("write");
    world.snap();
    let end = || Store::open(open(&world.dir.join("store"))).expect("open");
    assert!(!end().end_if_empty(open(&world.dir).as_fd(), b"store", WAIT).expect("end"));
    // One that came in and has taken nothing yet counts as well.
    assert!(world.store.enter(&key("other")).expect("enter"));
    world.store.forget_lane(&world.lane).expect("forget");
    assert!(!end().end_if_empty(open(&world.dir).as_fd(), b"store", WAIT).expect("end"));
    world.store.forget_lane(&key("other")).expect("forget");
    // And so does one that writes.
    let writer = world.store.begin().expect("begin");
    assert!(!end().end_if_empty(open(&world.dir).as_fd(), b"store", Duration::ZERO).expect("end"));
    drop(writer);
    assert!(end().end_if_empty(open(&world.dir).as_fd(), b"store", WAIT).expect("end"));
    assert!(!world.dir.join("store").exists());
    // Who has it open finds out before he writes into nothing.
    assert!(!world.store.enter(&world.lane).expect("enter"));
}

#[test]
fn whoever_comes_in_while_a_store_ends_is_in_a_store() {
    for round in 0..40 {
        let world = World::new();
        std::thread::scope(|scope| {
            let dir = &world.dir;
            let ender = scope.spawn(move || {
                let store = Store::open(open(&dir.join("store"))).expect("open");
                store.end_if_empty(open(dir).as_fd(), b"store", WAIT)
            });
            let comer = scope.spawn(move || {
                // Not so many tries: on a busy machine they may all fall into one pause of the other's.
                let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
                while std::time::Instant::now() < patience {
                    std::thread::yield_now();
                    let _ = fs::create_dir(dir.join("store"));
                    let Ok(dir) = kernel::open::root_dir(&dir.join("store")) else { continue };
                    let Ok(store) = Store::create(dir) else { continue };
                    if store.enter(&key("comer")).expect("enter") {
                        return store;
                    }
                }
                panic!("never came in");
            });
            // A store that was filled again under his hands is not whole, and he is told or leaves it.
            let _ = ender.join().expect("no panic");
            let store = comer.join().expect("no panic");
            let at = Store::open(open(&world.dir.join("store"))).expect("open");
            assert_eq!(at.lanes().expect("lanes"), [key("comer")], "round {round}");
            store.begin().expect("begin").finish(&key("comer"), empty()).expect("finish");
            assert_eq!(at.history(&key("comer")).expect("history").snapshots().count(), 1);
        });
    }
}

#[test]
fn a_lane_that_was_forgotten_while_it_was_captured_stays_forgotten() {
    let world = World::new();
    fs::write(world.layer().join("f"), "f".repeat(500)).expect("write");
    let id = world.snap();
    let mut writer = world.store.begin().expect("begin");
    writer.entered();
    world.store.forget_lane(&world.lane).expect("forget");
    assert!(matches!(writer.finish(&world.lane, empty()), Err(Error::Forgotten(_))));
    assert!(matches!(world.store.record_move(&world.lane, id, 1, b"undo"), Err(Error::Forgotten(_))));
    assert_eq!(world.store.lanes().expect("lanes"), []);
    assert!(!world.store.knows(&world.lane).expect("asked"));
}

#[test]
fn a_store_that_ended_half_is_cleared_or_becomes_one_again() {
    let world = World::new();
    let above = open(&world.dir);
    // A store is not touched.
    assert!(!clear_remains(above.as_fd(), b"store").expect("clear"));
    fs::remove_file(world.dir.join("store/format")).expect("remove");
    assert!(!world.store.enter(&world.lane).expect("enter"));
    let again = Store::create(open(&world.dir.join("store"))).expect("create");
    assert!(again.enter(&world.lane).expect("enter"));
    fs::remove_file(world.dir.join("store/format")).expect("remove");
    assert!(clear_remains(above.as_fd(), b"store").expect("clear"));
    assert!(!world.dir.join("store").exists());
    assert!(clear_remains(above.as_fd(), b"store").expect("clear"));
}

#[test]
fn a_writer_leaves_the_room_that_it_was_told_to_and_nothing_of_it_stays() {
    let world = World::new();
    fs::write(world.layer().join("f"), "f".repeat(500)).expect("write");
    let id = world.snap();
    let before = world.store.size().expect("size");
    assert!(before.packs == 1 && before.bytes > 500, "{before:?}");
    for bytes in [300, 3 << 20] {
        fs::write(world.layer().join("g"), vec![7; bytes]).expect("write");
        let free = kernel::meta::room(&world.store).expect("room").free;
        let mut writer = world.store.begin().expect("begin");
        // Others write to this disk, too.
        writer.leave_free(free * 2);
        let mut capture = Capture::begin(&world.store, &world.lane, 0, BOOT);
        let answer = capture
            .pass(&mut writer, open(&world.layer()).as_fd(), &Pass::at_rest(format()))
            .and_then(|()| capture.finish(&mut writer))
            .and_then(|captured| writer.finish(&world.lane, crate::world::new_snapshot(&captured)));
        assert!(matches!(answer, Err(Error::NoRoom { floor, .. }) if floor == free * 2), "{answer:?}");
    }
    assert_eq!(world.store.size().expect("size"), before);
    assert_eq!(world.store.history(&world.lane).expect("history").position(), Some(id));
    // Where nothing is new, nothing is in the way.
    fs::remove_file(world.layer().join("g")).expect("remove");
    world.restore(id);
    let mut writer = world.store.begin().expect("begin");
    writer.leave_free(u64::MAX);
    let mut capture = Capture::begin(&world.store, &world.lane, 0, BOOT);
    capture.pass(&mut writer, open(&world.layer()).as_fd(), &Pass::at_rest(format())).expect("pass");
    let captured = capture.finish(&mut writer).expect("finish");
    writer.finish(&world.lane, crate::world::new_snapshot(&captured)).expect("finish");
}

#[test]
fn what_is_pinned_after_the_plan_stays_and_the_one_before_is_found_past_what_went() {
    let mut world = World::new();
    world.kind = SnapshotKind::Quiet;
    let mut ids = Vec::new();
    for n in 0..5 {
        fs::write(world.layer().join("f"), format!("{n} ").repeat(500)).expect("write");
        ids.push(world.snap());
    }
    let history = world.store.history(&world.lane).expect("history");
    assert_eq!(history.before(ids[4]), Some(ids[3]));
    let rules = KeepRules { classes: Vec::new(), ..KeepRules::everything(i64::MAX) };
    let planned = plan(&world.store, &rules).expect("plan");
    assert_eq!(planned.thin.len(), 4);
    let mut late = || HashSet::from([ids[1]]);
    let done = execute_but(&world.store, &planned, 5, WAIT, false, &mut late).expect("collect");
    assert_eq!(done.thinned, 3);
    let history = world.store.history(&world.lane).expect("history");
    assert_eq!(history.snapshots().map(|(id, _)| id).collect::<Vec<_>>(), [ids[1], ids[4]]);
    assert_eq!(history.before(ids[4]), Some(ids[1]));
    assert_eq!(history.before(ids[1]), None);
    assert!(store::fsck::check(&world.store, &mut |_| {}).expect("check").is_clean());
    world.restore(ids[1]);
    assert_eq!(fs::read_to_string(world.layer().join("f")).expect("read"), "1 ".repeat(500));
}
