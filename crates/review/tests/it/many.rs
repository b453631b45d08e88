//! Keeps of so many files that they are made and brought to the disk by several threads: nothing is different from a
//! keep of few.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};

use review::Error;
use review::apply::{Faults, NoFaults, Options};
use tree::TreePath;

use crate::world::{Shape, World, chmod, write, xattr};

/// An origin of 120 files, all of them changed, and 900 new ones of every sort.
fn world() -> World {
    World::new(
        |o| {
            for n in 0..120 {
                write(o.join(format!("old/f{n:03}")), format!("old {n}"));
            }
            if rustix::process::geteuid().is_root() {
                chown(o.join("old/f007"), Some(61_001), Some(61_001)).expect("given away");
            }
        },
        |l| {
            for n in 0..120 {
                write(l.join(format!("old/f{n:03}")), format!("new {n}"));
            }
            for n in 0..900 {
                let at = l.join(format!("d{:02}/f{n:03}", n / 50));
                write(at.clone(), format!("{n}\n").repeat(n % 60));
                match n % 30 {
                    3 => chmod(at, 0o600),
                    7 => chmod(at, 0o444),
                    11 => chmod(at, 0o666),
                    13 => xattr(at, "user.note", "kept"),
                    17 => write(at, vec![b'x'; 70_000]),
                    19 => fs::hard_link(&at, at.with_extension("twin")).expect("linked"),
                    23 => fs::File::create(&at).and_then(|file| file.set_len(40_000)).expect("a hole"),
                    _ => {}
                }
            }
        },
    )
}

#[test]
fn many_files_are_kept_as_they_are_and_taken_back() {
    let world = world();
    let before = Shape::of(&world.origin());
    world.keep_recorded("k1", true, &NoFaults).expect("kept");
    world.assert_equal();
    let (one, two) = (world.origin().join("d00/f019"), world.origin().join("d00/f019.twin"));
    assert_eq!(fs::metadata(one).expect("stat").ino(), fs::metadata(two).expect("stat").ino());
    // A replaced file keeps its owner.
    let owner = fs::metadata(world.origin().join("old/f007")).expect("stat").uid();
    assert_eq!(owner, before.get("old/f007").owner.0);
    let after = Shape::of(&world.origin());
    world.undo("k1", &NoFaults).expect("undone");
    before.assert_undone(&Shape::of(&world.origin()), &after, false, "undone");
    world.assert_no_residue();
}

#[test]
fn an_edit_of_one_of_many_is_seen_when_they_are_to_be_taken_back() {
    let world = world();
    world.keep_recorded("k1", true, &NoFaults).expect("kept");
    // Touched and not edited: its digest tells.
    let now = fs::File::options().append(true).open(world.origin().join("d01/f051")).expect("open");
    now.set_modified(std::time::SystemTime::now()).expect("touched");
    write(world.origin().join("old/f100"), "edited");
    match world.undo("k1", &NoFaults) {
        Err(Error::EditedSince { paths }) => {
            let paths: Vec<&[u8]> = paths.iter().map(|at| at.path.as_bytes()).collect();
            assert_eq!(paths, [b"old/f100"]);
        }
        other => panic!("{other:?}"),
    }
}

/// Takes a file out of the lane, or puts something else there, when the keep comes to another one.
struct Meddling<'w>(&'w World, fn(&std::path::Path));

impl Faults for Meddling<'_> {
    fn at(&self, step: &'static str, path: &TreePath) -> Result<(), kernel::Errno> {
        if step == "stage" && path.as_bytes() == b"d10/f500" {
            (self.1)(&self.0.lane());
        }
        Ok(())
    }
}

#[test]
fn a_lane_that_changes_while_many_files_are_read_stops_all_of_it() {
    let changes: [fn(&std::path::Path); 3] = [
        |lane| fs::remove_file(lane.join("d15/f760")).expect("removed"),
        |lane| write(lane.join("d15/f760"), "something longer than what was there before, by far"),
        |lane| {
            fs::remove_file(lane.join("d15/f760")).expect("removed");
            fs::create_dir(lane.join("d15/f760")).expect("made");
        },
    ];
    for change in changes {
        let world = world();
        let before = Shape::of(&world.origin());
        let plan = world.plan_everything();
        let meddling = Meddling(&world, change);
        match world.execute_with(&plan, true, &Options::default(), &meddling) {
            Err(Error::LaneMoved { path }) => assert_eq!(path.as_bytes(), b"d15/f760"),
            other => panic!("{other:?}"),
        }
        before.assert_same(&Shape::of(&world.origin()), "refused");
        world.assert_no_residue();
    }
}
