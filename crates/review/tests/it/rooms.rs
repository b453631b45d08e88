//! Full disks, file size limits and other file systems.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel::Errno;
use review::Error;
use review::apply::{Faults, NoFaults, Outcome, recover};
use testkit::{FsKind, LoopFs, Who};
use tree::TreePath;

use crate::world::{Shape, World, write};

/// Does something once, when the staging directory has been made.
struct Then<F: Fn()>(F);

impl<F: Fn()> Faults for Then<F> {
    fn at(&self, step: &'static str, _: &TreePath) -> Result<(), Errno> {
        if step == "staging" {
            (self.0)();
        }
        Ok(())
    }
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 7u32;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

/// Writes until nothing more fits.
fn fill_up(file: &Path) {
    use std::io::Write as _;
    let mut out = fs::File::create(file).expect("created");
    for size in [1 << 16, 1 << 12] {
        while out.write_all(&noise(size)).is_ok() {}
    }
}

fn trees_at(top: &Path) -> World {
    World::at(
        top,
        |o| {
            write(o.join("orig"), noise(300 << 10));
            write(o.join("gone"), "gone");
        },
        |l| {
            write(l.join("orig"), noise(400 << 10));
            fs::remove_file(l.join("gone")).expect("removed");
            write(l.join("also/new"), "new");
        },
    )
}

#[test]
fn a_disk_that_is_too_full_is_told_before_anything_is_written_with_what_is_missing() {
    let Some(disk) = LoopFs::make(FsKind::Tmpfs, 2, Who::Root) else { return };
    let world = trees_at(&disk.path());
    let plan = world.plan_everything();
    fill_up(&disk.path().join("fill"));
    let before = Shape::of(&world.origin());
    match world.fails(&plan) {
        Error::NoRoom { what: "bytes", needed, free, missing, .. } => {
            assert!(needed >= 400 << 10 && missing == needed - free, "{needed} {free} {missing}");
        }
        other => panic!("{other}"),
    }
    before.assert_same(&Shape::of(&world.origin()), "full");
}

#[test]
fn a_disk_that_fills_up_meanwhile_leaves_every_file_as_it_was() {
    for (kind, mib) in [(FsKind::Tmpfs, 2), (FsKind::Ext4, 16)] {
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = trees_at(&disk.path());
        let plan = world.plan_everything();
        let before = Shape::of(&world.origin());
        let error = world.execute(&plan, &Then(|| fill_up(&disk.path().join("fill")))).expect_err("full");
        assert!(
            matches!(&error, Error::Step { source, .. } if source.errno == Errno::NOSPC),
            "{kind:?}: {error}"
        );
        before.assert_same(&Shape::of(&world.origin()), "filled up");
        world.assert_no_residue();
        fs::remove_file(disk.path().join("fill")).expect("removed");
        world.keep_everything();
        world.assert_equal();
    }
}

#[test]
fn a_disk_without_inodes_is_told_before_anything_is_written() {
    let Some(disk) = LoopFs::make(FsKind::Tmpfs, 8, Who::Root) else { return };
    let world = trees_at(&disk.path());
    let plan = world.plan_everything();
    let before = Shape::of(&world.origin());
    let used = fs::read_dir(disk.path()).expect("listed").count() + 12;
    let limit = format!("remount,size=8m,nr_inodes={used}");
    let done = Command::new("mount").args(["-o", &limit]).arg(disk.path()).status().expect("mount runs");
    assert!(done.success());
    while fs::write(disk.path().join(format!("i{}", fs::read_dir(disk.path()).expect("listed").count())), "")
        .is_ok()
    {}
    let error = world.fails(&plan);
    assert!(matches!(error, Error::NoRoom { what: "inodes", .. }), "{error}");
    before.assert_same(&Shape::of(&world.origin()), "no inodes");
}

#[test]
fn a_file_size_limit_stops_the_keep_and_nothing_is_lost() {
    for ignored in [true, false] {
        let keep = tempfile::tempdir().expect("a directory");
        let world = trees_at(keep.path());
        let before = Shape::of(&world.origin());
        let own = std::env::current_exe().expect("this test");
        let trap = if ignored { "trap '' XFSZ;" } else { "" };
        // The shell counts in blocks of 512 or 1024 bytes; 100 is far below 400 KiB in both.
        let script = format!(
            "{trap} ulimit -c 0; ulimit -f 100; exec \"$0\" --exact rooms::child_that_keeps_under_a_limit"
        );
        let status =
            Command::new("sh").args(["-c", &script]).arg(own).env("LANE_TEST_LIMITED", keep.path()).output();
        let status = status.expect("started");
        use std::os::unix::process::ExitStatusExt as _;
        if ignored {
            assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
            world.assert_no_residue();
        } else {
            assert_eq!(status.status.signal(), Some(25), "SIGXFSZ");
            let (base, _) = world.trees();
            assert_eq!(recover(&world.journal(), &base).expect("recovered").outcome, Outcome::RolledBack);
            world.assert_no_residue();
        }
        before.assert_same(&Shape::of(&world.origin()), "limited");
    }
}

/// Started by the test above; does nothing by itself.
#[test]
fn child_that_keeps_under_a_limit() {
    let Some(top) = std::env::var_os("LANE_TEST_LIMITED") else { return };
    let world = World::open(Path::new(&top));
    let error = world.fails(&world.plan_everything());
    assert!(matches!(&error, Error::Step { source, .. } if source.errno == Errno::FBIG), "{error}");
}

#[test]
fn blocks_are_shared_where_the_file_system_can_and_then_no_room_is_asked_for() {
    for (kind, mib) in [(FsKind::Btrfs, 128), (FsKind::Xfs, 320)] {
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = World::at(
            &disk.path(),
            |o| write(o.join("a"), "a"),
            |l| {
                for part in 0..mib / 4 {
                    // Until less is left than what is there already.
                    let name = l.join("big");
                    use std::io::Write as _;
                    let mut file = fs::File::options().append(true).create(true).open(name).expect("open");
                    file.write_all(&noise((2 << 20) + part as usize)).expect("written");
                    file.sync_all().expect("synced");
                    let stat = rustix::fs::statvfs(disk.path()).expect("statvfs");
                    if stat.f_bavail * stat.f_frsize < file.metadata().expect("stat").len() {
                        break;
                    }
                }
                write(l.join("a"), "b".repeat(10_000));
            },
        );
        let plan = world.plan_everything();
        let report = world.execute(&plan, &NoFaults).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(report.reflinked, 2, "{kind:?}");
        world.assert_equal();
        world.assert_no_residue();
    }
}

#[test]
fn everything_works_on_every_file_system_and_fails_whole_on_it() {
    for (kind, mib) in [(FsKind::Tmpfs, 16), (FsKind::Btrfs, 128), (FsKind::Xfs, 320)] {
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = World::at(&disk.path(), crate::world::fill_rich, crate::world::change_rich);
        let before = Shape::of(&world.origin());
        let plan = world.plan_everything();
        struct Last;
        impl Faults for Last {
            fn at(&self, step: &'static str, _: &TreePath) -> Result<(), Errno> {
                if step == "commit" { Err(Errno::IO) } else { Ok(()) }
            }
        }
        world.execute(&plan, &Last).expect_err("failed");
        before.assert_same(&Shape::of(&world.origin()), &format!("{kind:?}"));
        world.keep_everything();
        world.assert_equal();
    }
}

#[test]
fn another_file_system_inside_the_origin_is_refused_whole() {
    let Some(disk) = LoopFs::make(FsKind::Tmpfs, 2, Who::Root) else { return };
    let keep = tempfile::tempdir().expect("a directory");
    // The staging directory is on the other one.
    let world = trees_at(keep.path());
    let plan = world.plan_everything();
    let (base, lane) = world.trees();
    let (staging, journal) = (disk.path(), world.journal());
    let places = review::apply::Places { staging: Some(&staging), journal: &journal };
    let error = review::apply::execute(&plan, &base, &lane, &places, &Default::default(), &NoFaults)
        .expect_err("refused");
    assert!(matches!(error, Error::OtherFilesystem { .. }), "{error}");
}

/// The rest of this binary, as somebody who may not do everything.
#[test]
fn all_of_this_holds_for_an_ordinary_user_too() {
    if !testkit::who::is_root() || std::env::var_os("LANE_TEST_AS_USER").is_some() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["keeps::", "faults::", "exports::", "patches::"]).env("LANE_TEST_AS_USER", "1");
    command.current_dir("/").env("HOME", "/nonexistent");
    Who::User.apply(&mut command);
    let output = command.output().expect("the ordinary user can reach this binary");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
