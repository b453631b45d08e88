//! Restoring: exact, of what differs alone, and again after a kill at any step.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernel::node;
use proptest::prelude::*;
use store::restore::Act;

use crate::edit::{Edit, NAMES, apply};
use crate::model::assert_same;
use crate::world::{World, format, open};

fn edits() -> impl Strategy<Value = Edit> {
    let n = 0..NAMES.len();
    prop_oneof![
        4 => (n.clone(), prop::sample::select(vec![0usize, 1, 100, 129, 5000, 70_000])).prop_map(|(n, len)| Edit::File(n, len)),
        4 => n.clone().prop_map(Edit::Dir),
        1 => n.clone().prop_map(Edit::Symlink),
        1 => n.clone().prop_map(Edit::Fifo),
        2 => n.clone().prop_map(Edit::Whiteout),
        3 => (n.clone(), n.clone()).prop_map(|(a, b)| Edit::Link(a, b)),
        2 => n.clone().prop_map(Edit::Remove),
        2 => (n.clone(), prop::sample::select(vec![0o644u32, 0o755, 0o4711, 0o1777, 0o600, 0o700])).prop_map(|(n, m)| Edit::Mode(n, m)),
        1 => (n.clone(), 0u8..3).prop_map(|(n, v)| Edit::Xattr(n, v)),
        1 => n.clone().prop_map(Edit::Opaque),
        1 => (n.clone(), n.clone()).prop_map(|(a, b)| Edit::Rename(a, b)),
        1 => (n.clone(), any::<i32>()).prop_map(|(n, t)| Edit::Time(n, t.into())),
        1 => n.clone().prop_map(Edit::Append),
        1 => n.prop_map(Edit::Sparse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_state_is_brought_back_exactly_from_any_other(
        rounds in prop::collection::vec(prop::collection::vec(edits(), 1..12), 2..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let world = World::new();
        let mut states = Vec::new();
        let mut number = 0;
        for round in &rounds {
            for edit in round {
                number += 1;
                apply(&world.layer(), edit, number);
            }
            states.push((world.snap(), world.model()));
        }
        for index in order {
            let (id, model) = &states[index.index(states.len())];
            world.restore(*id);
            assert_same(&world.model(), model);
            // What is there is captured as the same manifest again.
            let history = world.store.history(&world.lane).expect("history");
            let top = history.get(*id).expect("known").roots[0].top;
            prop_assert_eq!(world.try_snap().expect("snapshot").1.manifest, top);
            prop_assert!(world.restore(*id).is_empty());
        }
    }
}

#[test]
fn only_what_differs_is_touched() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new();
    fs::create_dir(world.layer().join("d")).expect("mkdir");
    for n in 0..50 {
        fs::write(world.layer().join(format!("d/f{n}")), format!("{n}")).expect("write");
    }
    let first = world.snap();
    fs::write(world.layer().join("d/f7"), "changed").expect("write");
    fs::write(world.layer().join("d/new"), "new").expect("write");
    fs::remove_file(world.layer().join("d/f9")).expect("remove");
    let inodes = |world: &World| -> HashMap<String, (u64, i64, i64)> {
        fs::read_dir(world.layer().join("d"))
            .expect("list")
            .map(|item| {
                let item = item.expect("item");
                let meta = item.metadata().expect("stat");
                (item.file_name().into_string().expect("text"), (meta.ino(), meta.ctime(), meta.ctime_nsec()))
            })
            .collect()
    };
    let before = inodes(&world);
    let plan = world.restore(first);
    assert_eq!((plan.removed, plan.changed), (1, 3));
    let after = inodes(&world);
    let touched: Vec<&String> = after.keys().filter(|name| before.get(*name) != after.get(*name)).collect();
    assert_eq!(touched.len(), 2, "{touched:?}");
}

#[test]
fn a_restore_that_is_stopped_at_any_step_is_finished_by_the_same_plan_or_a_new_one() {
    let make = |world: &World| {
        let layer = world.layer();
        fs::create_dir_all(layer.join("d/e")).expect("mkdir");
        fs::write(layer.join("d/e/x"), "one".repeat(200)).expect("write");
        fs::hard_link(layer.join("d/e/x"), layer.join("d/y")).expect("link");
        fs::write(layer.join("was-file"), "w").expect("write");
        symlink("x", layer.join("l")).expect("symlink");
        let one = world.snap();
        fs::remove_dir_all(layer.join("d")).expect("remove");
        fs::write(layer.join("d"), "now a file").expect("write");
        fs::remove_file(layer.join("was-file")).expect("remove");
        fs::create_dir_all(layer.join("was-file/deep")).expect("mkdir");
        fs::write(layer.join("was-file/deep/f"), "f").expect("write");
        node::whiteout_at(open(&layer), b"gone").expect("whiteout");
        let two = world.snap();
        (one, two)
    };
    let world = World::new();
    let (one, two) = make(&world);
    let target = |id| {
        let history = world.store.history(&world.lane).expect("history");
        world.store.manifest(history.get(id).expect("known").roots[0].top)
    };
    let plan = store::restore::plan(&target(two), &target(one), &[]).expect("plan");
    let two_model = world.model();
    world.restore(one);
    let one_model = world.model();
    assert!(plan.acts.iter().any(|act| matches!(act, Act::Link { .. })));
    for stop in 0..plan.acts.len() {
        for again in [true, false] {
            world.restore(two);
            assert_same(&world.model(), &two_model);
            let left = Arc::new(AtomicUsize::new(stop));
            let failing = store::Store::open(open(&world.dir.join("store"))).expect("open");
            let failing = failing.with_steps(Box::new(move |_| {
                let over =
                    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err();
                if over { Err(kernel::Error::new("test", "", kernel::Errno::NOSPC)) } else { Ok(()) }
            }));
            use std::os::fd::AsFd as _;
            let (layer, stage) = (open(&world.layer()), open(&world.dir.join("stage")));
            let run = |store: &store::Store| {
                store::restore::execute(store, layer.as_fd(), stage.as_fd(), format(), &plan)
            };
            assert!(run(&failing).expect_err("stopped").is_full());
            if again {
                assert_eq!(run(&world.store).expect("again").left, []);
            } else {
                world.restore(one);
            }
            assert_same(&world.model(), &one_model);
            assert_eq!(fs::read_dir(world.dir.join("stage")).expect("list").count(), 0);
        }
    }
}

#[test]
fn what_a_snapshot_could_not_take_is_left_alone() {
    let world = World::new();
    let layer = world.layer();
    fs::create_dir(layer.join("run")).expect("mkdir");
    let socket = std::os::unix::net::UnixListener::bind(layer.join("run/s")).expect("bind");
    let first = world.snap();
    drop(socket);
    fs::remove_file(layer.join("run/s")).expect("remove");
    fs::write(layer.join("run/s"), "a file now").expect("write");
    let (plan, report) = world.try_restore(first).expect("restore");
    assert_eq!(plan.left_alone.len(), 1);
    assert_eq!(report.left.len(), 1);
    assert_eq!(fs::read(layer.join("run/s")).expect("read"), b"a file now");
    // A directory that goes takes its sockets along.
    fs::remove_dir_all(layer.join("run")).expect("remove");
    let without = world.snap();
    fs::create_dir(layer.join("run")).expect("mkdir");
    let _socket = std::os::unix::net::UnixListener::bind(layer.join("run/s")).expect("bind");
    world.restore(without);
    assert!(!layer.join("run").exists());
}

#[test]
fn a_file_where_a_closed_directory_was_has_its_own_mode() {
    let world = World::new();
    let at = world.layer().join("x");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    fs::write(&at, "a file").expect("write");
    mode(&at, 0o444);
    let file = world.snap();
    let model = world.model();
    fs::remove_file(&at).expect("remove");
    fs::create_dir(&at).expect("mkdir");
    fs::write(at.join("below"), "x").expect("write");
    mode(&at, 0o555);
    let dir = world.snap();
    let other = world.model();
    // Whoever is no root has to open the directory up before it can go.
    world.restore(file);
    assert_same(&world.model(), &model);
    world.restore(dir);
    assert_same(&world.model(), &other);
    mode(&at, 0o755);
}

#[test]
fn in_a_closed_directory_one_file_gets_its_mode_and_the_next_its_content() {
    let world = World::new();
    let dir = world.layer().join("d");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    fs::create_dir(&dir).expect("mkdir");
    for (name, text) in [("a", "a"), ("b", "b"), ("c", "c")] {
        fs::write(dir.join(name), text).expect("write");
    }
    mode(&dir, 0o555);
    let first = world.snap();
    let model = world.model();
    mode(&dir.join("a"), 0o600);
    mode(&dir.join("c"), 0o600);
    fs::write(dir.join("b"), "other").expect("write");
    world.restore(first);
    assert_same(&world.model(), &model);
    mode(&dir, 0o755);
}
