//! Undoing a keep: the origin is what it was, or it is refused and nothing changes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use review::Error;
use review::apply::{KeptRoot, NoFaults, UndoWhat, forget, kept, plan_undo};
use tree::TreePath;

use crate::world::{Shape, World, change_rich, chmod, fill_rich, path, write};

/// Every staging place: beside the origin, and in it.
const PLACES: [bool; 2] = [true, false];

fn small() -> World {
    World::new(
        |o| {
            write(o.join("edit"), "old");
            write(o.join("gone/a"), "a");
            write(o.join("lib/x"), "x");
            write(o.join("quiet"), "quiet");
        },
        |l| {
            write(l.join("edit"), "the lane's");
            fs::remove_dir_all(l.join("gone")).expect("removed");
            fs::rename(l.join("lib"), l.join("moved")).expect("renamed");
            write(l.join("new/in/file"), "new");
            chmod(l.join("quiet"), 0o600);
        },
    )
}

fn edited(world: &World, id: &str) -> Vec<TreePath> {
    match world.undo(id, &NoFaults) {
        Err(Error::EditedSince { paths }) => paths.into_iter().map(|at| at.path).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn undoing_a_keep_of_every_kind_of_change_gives_back_what_was_there() {
    for beside in PLACES {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        world.keep_recorded("k1", beside, &NoFaults).expect("kept");
        world.assert_equal();
        let after = Shape::of(&world.origin());
        let steps = world.undo("k1", &NoFaults).expect("undone");
        assert!(steps.len() > 20, "{steps:?}");
        let when = format!("beside {beside}");
        before.assert_undone(&Shape::of(&world.origin()), &after, !beside, &when);
        world.assert_no_residue();
        assert_eq!(fs::read_dir(world.beside()).expect("listed").count(), 0);
        // The same can be kept again, and undone again.
        world.keep_recorded("k2", beside, &NoFaults).expect("kept");
        world.assert_equal();
        world.undo("k2", &NoFaults).expect("undone");
        before.assert_undone(&Shape::of(&world.origin()), &after, true, &when);
    }
}

#[test]
fn a_keep_is_undone_once_and_no_other_one_is_known() {
    for beside in PLACES {
        let world = small();
        world.keep_recorded("k1", beside, &NoFaults).expect("kept");
        assert!(matches!(world.undo("k2", &NoFaults), Err(Error::NoSuchKeep { .. })));
        assert!(matches!(world.undo("../k1", &NoFaults), Err(Error::NoSuchKeep { .. })));
        world.undo("k1", &NoFaults).expect("undone");
        let before = Shape::of(&world.origin());
        assert!(matches!(world.undo("k1", &NoFaults), Err(Error::AlreadyUndone { .. })));
        before.assert_same(&Shape::of(&world.origin()), "refused");
    }
}

/// What is done, where it is to be seen, and the doing.
type Edit = (&'static str, &'static str, &'static dyn Fn(&World));

#[test]
fn what_the_user_edited_since_is_named_and_nothing_is_undone() {
    for beside in PLACES {
        let edits: [Edit; 9] = [
            ("content", "edit", &|world| write(world.origin().join("edit"), "mine, after it")),
            ("content of the same length and time", "edit", &|world| {
                let at = world.origin().join("edit");
                let was = fs::metadata(&at).expect("stat").modified().expect("a time");
                write(at.clone(), "the LANE'S");
                fs::File::options().write(true).open(at).expect("open").set_modified(was).expect("set");
            }),
            ("a mode", "edit", &|world| chmod(world.origin().join("edit"), 0o640)),
            ("another file", "edit", &|world| {
                fs::copy(world.origin().join("edit"), world.origin().join("e2")).expect("copied");
                fs::rename(world.origin().join("e2"), world.origin().join("edit")).expect("renamed");
            }),
            ("a file in a new directory", "new/in/mine", &|world| {
                write(world.origin().join("new/in/mine"), "mine")
            }),
            ("a file less in a new directory", "new/in/file", &|world| {
                fs::remove_file(world.origin().join("new/in/file")).expect("removed")
            }),
            ("a name that was taken away", "gone", &|world| write(world.origin().join("gone"), "mine")),
            ("the mode that was kept", "quiet", &|world| chmod(world.origin().join("quiet"), 0o644)),
            ("a directory moved on", "moved", &|world| {
                fs::rename(world.origin().join("moved"), world.origin().join("further")).expect("renamed")
            }),
        ];
        for (what, at, edit) in edits {
            let world = small();
            world.keep_recorded("k1", beside, &NoFaults).expect("kept");
            edit(&world);
            let before = Shape::of(&world.origin());
            assert_eq!(edited(&world, "k1"), [path(at)], "{what}, beside {beside}");
            let (base, _) = world.trees();
            let plan = plan_undo("k1", &[KeptRoot { origin: base.fd(), journal: &world.journal() }]);
            assert_eq!(plan.expect("planned").edited.len(), 1, "{what}");
            before.assert_same(&Shape::of(&world.origin()), what);
            world.assert_no_residue();
        }
    }
}

#[test]
fn what_is_no_edit_of_what_was_kept_is_no_reason_to_refuse() {
    let world = small();
    world.keep_recorded("k1", true, &NoFaults).expect("kept");
    // A backup by hard links, other files, and work in a directory that was only moved.
    fs::hard_link(world.origin().join("edit"), world.origin().join("backup")).expect("linked");
    write(world.origin().join("mine"), "mine");
    write(world.origin().join("moved/mine"), "mine");
    world.undo("k1", &NoFaults).expect("undone");
    let read = |at: &str| fs::read_to_string(world.origin().join(at)).expect("read");
    assert_eq!((read("edit"), read("backup")), ("old".to_owned(), "the lane's".to_owned()));
    assert_eq!((read("lib/mine"), read("mine")), ("mine".to_owned(), "mine".to_owned()));
    assert!(!world.origin().join("new").exists() && !world.origin().join("moved").exists());
}

#[test]
fn files_that_come_back_are_new_for_build_tools_and_all_others_keep_their_times() {
    let world = small();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for at in ["edit", "gone/a", "lib/x", "quiet"] {
        let file = fs::File::options().write(true).open(world.origin().join(at)).expect("open");
        file.set_modified(old).expect("set");
        if at == "lib/x" {
            let file = fs::File::options().write(true).open(world.lane().join("moved/x")).expect("open");
            file.set_modified(old).expect("set");
        }
    }
    let before = Shape::of(&world.origin());
    world.keep_recorded("k1", true, &NoFaults).expect("kept");
    let kept = Shape::of(&world.origin());
    let since = fs::metadata(world.origin().join("edit")).expect("stat").modified().expect("a time");
    world.undo("k1", &NoFaults).expect("undone");
    before.assert_undone(&Shape::of(&world.origin()), &kept, false, "undone");
    let time = |at: &str| fs::metadata(world.origin().join(at)).expect("stat").modified().expect("a time");
    assert!(time("edit") >= since && time("gone/a") >= since);
    assert_eq!((time("lib/x"), time("quiet")), (old, old));
}

#[test]
fn keeps_are_undone_one_after_the_other_and_an_older_one_not_below_a_newer() {
    let world = small();
    let first = Shape::of(&world.origin());
    world.keep_recorded("k1", true, &NoFaults).expect("kept");
    let middle = Shape::of(&world.origin());
    write(world.lane().join("edit"), "the lane's next");
    let plan = world.plan(&["edit"]);
    world.keep_plan(&plan, "k2", true, &NoFaults).expect("kept");
    let last = Shape::of(&world.origin());
    assert_eq!(edited(&world, "k1"), [path("edit")]);
    world.undo("k2", &NoFaults).expect("undone");
    middle.assert_undone(&Shape::of(&world.origin()), &last, false, "the second");
    // The inode of the first keep came back with another time, but its content is known.
    let at = world.origin().join("edit");
    assert_eq!(fs::read(&at).expect("read"), b"the lane's");
    let list = kept(&world.journal()).expect("listed");
    assert_eq!(list.len(), 2);
    assert!(list.iter().all(|one| one.about == b"about it" && one.is_undone == (one.id == "k2")));
    match world.undo("k1", &NoFaults) {
        Ok(steps) => {
            assert!(steps.iter().any(|step| step.what == UndoWhat::MoveBack && step.path == path("lib")));
            first.assert_undone(&Shape::of(&world.origin()), &middle, false, "the first");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn forgetting_a_keep_leaves_the_origin_and_nothing_else() {
    for beside in PLACES {
        let world = small();
        world.keep_recorded("k1", beside, &NoFaults).expect("kept");
        let held = kept(&world.journal()).expect("listed")[0].displaced.clone().expect("a place");
        assert!(held.is_dir() && !held.starts_with(world.origin()), "{held:?}");
        let after = Shape::of(&world.origin());
        forget(&world.journal(), "k1").expect("forgotten");
        after.assert_same(&Shape::of(&world.origin()), "forgotten");
        assert!(!held.exists());
        let names: Vec<_> = fs::read_dir(world.journal())
            .expect("listed")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["keep.lock"]);
        assert_eq!(fs::read_dir(world.beside()).expect("listed").count(), 0);
        assert!(matches!(world.undo("k1", &NoFaults), Err(Error::NoSuchKeep { .. })));
    }
}

#[test]
fn a_record_that_is_damaged_or_whose_place_is_gone_is_told_and_hurts_no_other() {
    let world = small();
    world.keep_recorded("k1", true, &NoFaults).expect("kept");
    write(world.lane().join("edit"), "more");
    let plan = world.plan(&["edit"]);
    world.keep_plan(&plan, "k2", true, &NoFaults).expect("kept");
    let record = world.journal().join("kept.k1");
    let mut bytes = fs::read(&record).expect("read");
    bytes[60] ^= 1;
    fs::write(&record, bytes).expect("written");
    let before = Shape::of(&world.origin());
    assert!(matches!(world.undo("k1", &NoFaults), Err(Error::RecordDamaged { .. })));
    let list = kept(&world.journal()).expect("listed");
    assert!(list.iter().any(|one| one.id == "k1" && one.problem.is_some()));
    before.assert_same(&Shape::of(&world.origin()), "damaged");
    let held = list.iter().find(|one| one.id == "k2").and_then(|one| one.displaced.clone()).expect("a place");
    let aside = world.top.join("aside");
    fs::rename(&held, &aside).expect("renamed");
    assert!(matches!(world.undo("k2", &NoFaults), Err(Error::RecordDamaged { .. })));
    before.assert_same(&Shape::of(&world.origin()), "gone");
    fs::rename(&aside, &held).expect("renamed");
    world.undo("k2", &NoFaults).expect("undone");
    assert_eq!(fs::read(world.origin().join("edit")).expect("read"), b"the lane's");
}

#[test]
fn a_file_too_large_for_a_digest_is_undone_and_its_edits_are_seen() {
    for edit in [false, true] {
        let world = World::new(
            |o| write(o.join("big"), vec![1; 20 << 20]),
            |l| write(l.join("big"), vec![2; 20 << 20]),
        );
        world.keep_recorded("k1", true, &NoFaults).expect("kept");
        let at = world.origin().join("big");
        if edit {
            use std::os::unix::fs::FileExt as _;
            fs::File::options().write(true).open(&at).expect("open").write_at(b"x", 9).expect("written");
            assert_eq!(edited(&world, "k1"), [path("big")]);
            assert_eq!(fs::read(&at).expect("read")[9], b'x');
        } else {
            world.undo("k1", &NoFaults).expect("undone");
            assert_eq!(fs::read(&at).expect("read"), vec![1; 20 << 20]);
        }
    }
}

#[test]
fn modes_owners_and_names_of_one_file_survive_where_only_copies_could_be_held() {
    let world = World::new(
        |o| {
            write(o.join("tool"), "#!/bin/sh\n");
            chmod(o.join("tool"), 0o750);
            write(o.join("d/a"), "twins");
            fs::hard_link(o.join("d/a"), o.join("d/b")).expect("linked");
            chmod(o.join("d"), 0o711);
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(o.join("tool"), Some(61001), Some(61001)).expect("chown");
                std::os::unix::fs::chown(o.join("d/a"), Some(61001), Some(61001)).expect("chown");
            }
        },
        |l| {
            fs::remove_file(l.join("tool")).expect("removed");
            fs::remove_dir_all(l.join("d")).expect("removed");
        },
    );
    let before = Shape::of(&world.origin());
    world.keep_recorded("k1", false, &NoFaults).expect("kept");
    let kept = Shape::of(&world.origin());
    world.undo("k1", &NoFaults).expect("undone");
    before.assert_undone(&Shape::of(&world.origin()), &kept, true, "copies");
    let stat = |at: &str| fs::metadata(world.origin().join(at)).expect("stat");
    assert_eq!(stat("d/a").ino(), stat("d/b").ino());
    assert_eq!(stat("tool").permissions().mode() & 0o7777, 0o750);
}
