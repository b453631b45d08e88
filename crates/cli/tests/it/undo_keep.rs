//! `lane undo --keep`: the original is what it was before the keep, and the lane shows its changes again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{FsKind, Listing, LoopFs, Plain, Who};

use crate::world::{Made, World, each, once};

/// A lane with one of every kind of change that a keep carries.
fn changed(world: &World, name: &str) {
    world.env.write(&world.project.join("gone/a"), b"a\n");
    world.env.write(&world.project.join("gone/b"), b"b\n");
    world.env.write(&world.project.join("quiet"), b"quiet\n");
    world.lane(name);
    world.write(name, "src/lib.rs", b"//! Kept.\n");
    world.write(name, "new/deep/file", b"new\n");
    world.delete(name, "gone/a");
    world.link(name, "src/lib.rs", "to-lib");
}

/// All that a person sees of the original, and the times of what is not to change.
fn seen(world: &World) -> (Plain, Vec<(String, i64, i64)>) {
    let times = ["", "src", "gone", "gone/b", "quiet", "README.md"].map(|at| {
        let meta = fs::symlink_metadata(world.project.join(at)).expect("stat");
        (at.to_owned(), meta.mtime(), meta.mtime_nsec())
    });
    (Plain::without(&world.project, &[".git"]), times.to_vec())
}

fn files(diff: &Value) -> Vec<(Value, Value)> {
    let files = diff["files"].as_array().expect("files").iter();
    files.map(|file| (file["path"].clone(), file["kind"].clone())).collect()
}

#[test]
fn an_undone_keep_leaves_the_original_as_before_and_the_changes_in_the_lane() {
    each(|world| {
        changed(world, "one");
        let (before, shown) = (seen(world), files(&world.json(&["diff", "one"])));
        let inode = fs::metadata(world.project.join("src/lib.rs")).expect("stat").ino();
        for round in 0..2 {
            let kept = world.json(&["keep", "one", "--yes"]);
            assert_eq!(kept["complete"], true, "{kept}");
            let id = kept["id"].as_str().expect("an id").to_owned();
            assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Kept.\n"[..]));
            assert!(files(&world.json(&["diff", "one"])).is_empty());
            let undone = world.json(&["undo", "--keep", "--yes"]);
            assert_eq!((&undone["keep"]["id"], &undone["done"]), (&json!(id), &json!(true)), "{undone}");
            let now = seen(world);
            before.0.assert_same(&now.0);
            assert_eq!(now.1, before.1, "round {round}");
            assert_eq!(fs::metadata(world.project.join("src/lib.rs")).expect("stat").ino(), inode);
            let diff = world.json(&["diff", "one"]);
            assert_eq!(files(&diff), shown, "{diff}");
            assert_eq!(diff["drift"], json!([]), "{diff}");
        }
    });
}

#[test]
fn another_lane_of_the_project_sees_no_drift_after_an_undo() {
    each(|world| {
        changed(world, "one");
        world.lane("two");
        world.write("two", "src/lib.rs", b"//! Of two.\n");
        // Its base is recorded by now.
        world.write("two", "first", b"x\n");
        world.ok(&["keep", "two", "first", "--yes"]);
        world.ok(&["keep", "one", "--yes"]);
        assert!(!world.json(&["diff", "two"])["drift"].as_array().expect("a list").is_empty());
        world.ok(&["undo", "--keep", "--yes"]);
        assert_eq!(world.json(&["diff", "two"])["drift"], json!([]));
        world.ok(&["keep", "two", "--yes"]);
        assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Of two.\n"[..]));
    });
}

#[test]
fn what_was_edited_since_is_named_and_nothing_is_undone() {
    each(|world| {
        changed(world, "one");
        world.ok(&["keep", "one", "--yes"]);
        world.env.write(&world.project.join("src/lib.rs"), b"//! Mine.\n");
        world.env.write(&world.project.join("new/deep/mine"), b"mine\n");
        let before = Listing::of(&world.project);
        let ran = world.run(&["undo", "--keep", "--yes"]).expect_code(1);
        assert!(ran.err().contains("src/lib.rs") && ran.err().contains("new/deep/mine"), "{ran}");
        let ran = world.run(&["undo", "--keep", "--yes", "--json"]).expect_code(1);
        let said: Value = serde_json::from_slice(&ran.stdout).expect("a document");
        let edited: Vec<&str> =
            said["edited"].as_array().expect("a list").iter().filter_map(|at| at["path"].as_str()).collect();
        assert_eq!((edited, &said["done"]), (vec!["new/deep/mine", "src/lib.rs"], &json!(false)));
        before.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn a_keep_is_undone_once_and_every_other_id_is_refused() {
    once(|world| {
        let none = world.run(&["undo", "--keep", "--yes"]).expect_code(1);
        assert!(none.err().contains("no keep into"), "{none}");
        changed(world, "one");
        let shown = files(&world.json(&["diff", "one"]));
        world.ok(&["keep", "one", "src", "--yes"]);
        let kept = world.json(&["keep", "one", "--yes"]);
        let id = kept["id"].as_str().expect("an id").to_owned();
        let list = world.json(&["undo", "--keep", "--list"]);
        assert_eq!(
            (list["keeps"].as_array().expect("a list").len(), &list["keeps"][0]["id"]),
            (2, &json!(id))
        );
        assert_eq!(list["keeps"][0]["lane"], "one");
        let unknown = world.run(&["undo", "--keep", "nothing", "--yes"]).expect_code(1);
        assert!(unknown.err().contains("--list"), "{unknown}");
        // Without a terminal nobody is asked, and nothing is done; nor by a dry run.
        let before = Listing::of(&world.project);
        assert!(world.run(&["undo", "--keep"]).expect_code(1).err().contains("--yes"));
        let plan = world.ok(&["undo", "--keep", "--dry-run"]);
        assert!(plan.out().contains("remove    to-lib") && plan.out().contains("put-back  gone/a"), "{plan}");
        before.assert_same(&Listing::of(&world.project));
        world.ok(&["undo", "--keep", &id[..5], "--yes"]);
        let twice = world.run(&["undo", "--keep", "--yes"]).expect_code(1);
        assert!(twice.err().contains("undone already"), "{twice}");
        // The one before it stands by itself.
        let first = world.json(&["undo", "--keep", "--list"])["keeps"][1]["id"].clone();
        world.ok(&["undo", "--keep", first.as_str().expect("an id"), "--yes"]);
        assert_eq!(files(&world.json(&["diff", "one"])), shown);
        let listed = world.ok(&["undo", "--keep", "--list"]);
        assert_eq!(listed.out().matches("undone").count(), 2, "{listed}");
    });
}

#[test]
fn a_keep_outlives_its_lane_and_goes_with_the_retention_time_or_when_asked() {
    once(|world| {
        changed(world, "one");
        let before = seen(world);
        world.ok(&["keep", "one", "--yes"]);
        world.ok(&["discard", "one", "--now", "--yes"]);
        world.ok(&["undo", "--keep", "--yes"]);
        before.0.assert_same(&seen(world).0);
        let keeps = |world: &World| world.json(&["undo", "--keep", "--list"])["keeps"].clone();
        changed(world, "two");
        world.ok(&["keep", "two", "--yes"]);
        let state = world.env.state();
        let held = || fs::read_dir(state.join("staging")).map_or(0, Iterator::count);
        assert_eq!(held(), 1);
        let planned = world.json(&["gc", "--dry-run", "--forget-keeps"]);
        assert_eq!((&planned["keeps"]["count"], &planned["keeps"]["forgotten"]), (&json!(1), &json!(2)));
        assert!(planned["keeps"]["freed"].as_u64().expect("bytes") > 0);
        world.ok(&["gc", "--yes"]);
        assert_eq!((keeps(world).as_array().expect("a list").len(), held()), (2, 1));
        // Two weeks later.
        for record in fs::read_dir(state.join("keeps")).expect("listed").flatten() {
            for file in fs::read_dir(record.path()).expect("listed").flatten() {
                let old = std::time::SystemTime::now() - std::time::Duration::from_secs(15 * 86_400);
                fs::File::options()
                    .write(true)
                    .open(file.path())
                    .expect("open")
                    .set_modified(old)
                    .expect("set");
            }
        }
        let after = Listing::of(&world.project);
        world.ok(&["gc", "--yes"]);
        assert_eq!((keeps(world), held()), (json!([]), 0));
        changed(world, "three");
        world.write("three", "src/lib.rs", b"//! Three.\n");
        world.ok(&["keep", "three", "src/lib.rs", "--yes"]);
        world.ok(&["gc", "--yes", "--forget-keeps"]);
        assert_eq!((keeps(world), held()), (json!([]), 0));
        drop(after);
        assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Three.\n"[..]));
    });
}

#[test]
fn several_roots_are_kept_and_undone_as_one() {
    each(|world| {
        let lib = world.env.make_git("lib");
        let strategy = if world.made == Made::Overlay { "overlay" } else { "copy" };
        world.ok(&["new", "two", "--also", "../lib", "--strategy", strategy]);
        world.write("two", "src/lib.rs", b"//! Kept.\n");
        let second =
            world.layer("two").with_file_name(if world.made == Made::Overlay { "1.u" } else { "1.c" });
        world.env.write(&second.join("README.md"), b"kept\n");
        world.env.write(&second.join("made"), b"made\n");
        let before = (Plain::of(&world.project), Plain::of(&lib));
        let kept = world.json(&["keep", "two", "--yes"]);
        assert_eq!(fs::read(lib.join("README.md")).expect("read"), b"kept\n");
        // It is one keep, seen from both.
        let from = |dir: &Path| world.env.json(dir, &["undo", "--keep", "--list"])["keeps"][0]["id"].clone();
        assert_eq!((from(&world.project), from(&lib)), (kept["id"].clone(), kept["id"].clone()));
        world.env.write(&lib.join("made"), b"mine\n");
        let ran = world.run(&["undo", "--keep", "--yes"]).expect_code(1);
        assert!(ran.err().contains("lib/made"), "{ran}");
        assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Kept.\n"[..]));
        world.env.write(&lib.join("made"), b"made\n");
        world.ok(&["undo", "--keep", "--yes"]);
        before.0.assert_same(&Plain::of(&world.project));
        before.1.assert_same(&Plain::of(&lib));
        world.ok(&["keep", "two", "--yes"]);
        assert_eq!(fs::read(lib.join("made")).expect("read"), b"made\n");
    });
}

#[test]
fn a_keep_into_a_filesystem_without_a_place_of_ours_is_undone_from_copies() {
    let Some(disk) = LoopFs::make(FsKind::Tmpfs, 16, Who::Root) else { return };
    let mut world = World::of(Who::Root, Made::Copy);
    world.env.set("LANE_STATE", disk.path().join("state").to_str().expect("text"));
    changed(&world, "one");
    let before = seen(&world);
    world.ok(&["keep", "one", "--yes"]);
    let names: Vec<_> =
        fs::read_dir(&world.project).expect("listed").flatten().map(|at| at.file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with(".lane-")), "{names:?}");
    world.ok(&["undo", "--keep", "--yes"]);
    let now = seen(&world);
    before.0.assert_same(&now.0);
    // What could only be copied is there as of now.
    assert_eq!(now.1, before.1);
    assert_eq!(world.json(&["diff", "one"])["drift"], json!([]));
    world.ok(&["keep", "one", "--yes"]);
    world.ok(&["gc", "--yes", "--forget-keeps"]);
    let left = fs::read_dir(disk.path().join("state/keeps")).expect("listed").flatten();
    let left =
        left.flat_map(|dir| fs::read_dir(dir.path()).expect("listed").flatten().map(|at| at.file_name()));
    assert_eq!(left.collect::<Vec<_>>(), ["keep.lock"]);
}
