//! What a keep does to the origin when nothing goes wrong, and what it refuses.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use review::Error;
use review::apply::{Faults, NoFaults, Options};
use review::plan::{Drifted, Step, Why};
use tree::TreePath;

use crate::world::{Shape, World, change_rich, chmod, fill_rich, path, write, xattr};

#[test]
fn everything_that_is_named_makes_the_origin_equal_to_the_lane() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.keep_everything();
    assert!(plan.is_complete(), "{:?}", plan.skipped);
    world.assert_equal();
    assert!(world.set().is_empty(), "{:?}", world.set());
    let (one, two) = (fs::metadata(world.origin().join("twin1")), fs::metadata(world.origin().join("twin2")));
    assert_eq!(one.expect("stat").ino(), two.expect("stat").ino(), "a link group stays one");
    assert!(fs::metadata(world.origin().join("sparse")).expect("stat").blocks() < 64, "holes stay holes");
}

#[test]
fn the_staging_directory_may_stand_in_the_origin_and_leaves_no_trace() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    world.execute_with(&plan, false, &Options::default(), &NoFaults).expect("kept");
    world.assert_no_residue();
    world.assert_equal();
}

#[test]
fn untouched_files_keep_inode_and_time_and_changed_ones_get_the_time_of_writing() {
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let world = World::new(
        |o| {
            fill_rich(o);
            for name in ["src/keep.txt", "src/edit.txt", "src/mode.sh", "src"] {
                fs::File::open(o.join(name)).expect("open").set_modified(old).expect("set");
            }
        },
        |l| {
            write(l.join("src/edit.txt"), "edited");
            fs::File::options()
                .write(true)
                .open(l.join("src/edit.txt"))
                .expect("open")
                .set_modified(old)
                .expect("set");
            chmod(l.join("src/mode.sh"), 0o700);
        },
    );
    let before = Shape::of(&world.origin());
    world.keep_everything();
    let after = Shape::of(&world.origin());
    assert_eq!(before.get("src/keep.txt"), after.get("src/keep.txt"));
    assert_eq!(before.get("src").mtime, after.get("src").mtime, "no name came or went");
    assert_eq!(before.get("src/mode.sh").mtime, after.get("src/mode.sh").mtime);
    assert_eq!(before.get("src/mode.sh").ino, after.get("src/mode.sh").ino);
    assert!(after.get("src/edit.txt").mtime.0 > 1_500_000_000);
}

#[test]
fn times_are_the_lanes_where_that_was_asked_for() {
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    let world = World::new(
        |o| write(o.join("a"), "a"),
        |l| {
            write(l.join("a"), "b");
            write(l.join("d/n"), "n");
            for name in ["a", "d/n", "d"] {
                fs::File::open(l.join(name)).expect("open").set_modified(old).expect("set");
            }
        },
    );
    let plan = world.plan_everything();
    world.execute_with(&plan, true, &Options { keep_times: true }, &NoFaults).expect("kept");
    for name in ["a", "d/n", "d"] {
        assert_eq!(
            fs::metadata(world.origin().join(name)).expect("stat").modified().expect("time"),
            old,
            "{name}"
        );
    }
}

#[test]
fn a_renamed_directory_is_renamed_and_what_it_holds_keeps_its_inodes() {
    let world = World::new(fill_rich, change_rich);
    let before = Shape::of(&world.origin());
    let plan = world.keep_everything();
    assert!(
        plan.steps.iter().any(|step| matches!(step, Step::MoveDir { to, .. } if to.as_bytes() == b"lib2"))
    );
    let after = Shape::of(&world.origin());
    assert_eq!(before.get("lib").ino, after.get("lib2").ino);
    assert_eq!(before.get("lib/part0.rs"), after.get("lib2/part0.rs"));
    assert_eq!(before.get("lib/inner/x.rs"), after.get("lib2/inner/x.rs"));
    assert_eq!(before.get("moved.bin").ino, after.get("to/there/moved.bin").ino);
    assert!(!world.origin().join("lib").exists());
}

#[test]
fn a_guarded_file_is_left_out_of_everything_and_kept_by_its_name() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan(&[]);
    assert!(!plan.is_complete());
    let guarded: Vec<&TreePath> =
        plan.skipped.iter().filter(|s| matches!(s.why, Why::Guarded(_))).map(|s| &s.path).collect();
    assert_eq!(guarded, [&path(".envrc"), &path("src/mode.sh")]);
    world.execute(&plan, &NoFaults).expect("kept");
    assert_eq!(fs::read(world.origin().join(".envrc")).expect("read"), b"export A=1\n");
    let (plan, _) = world.keep(&[".envrc"]);
    assert!(plan.is_complete());
    assert_eq!(fs::read(world.origin().join(".envrc")).expect("read"), b"export A=2\n");
}

#[test]
fn a_path_takes_what_is_below_it_and_the_directories_above_it_only() {
    let world = World::new(fill_rich, change_rich);
    let (plan, _) = world.keep(&["to/there/moved.bin"]);
    let steps: Vec<&TreePath> = plan.steps.iter().map(Step::path).collect();
    assert_eq!(steps, [&path("to/there/moved.bin"), &path("to"), &path("to/there")]);
    assert!(!world.origin().join("moved.bin").exists());
    assert_eq!(fs::read(world.origin().join("src/edit.txt")).expect("read"), b"one\ntwo\nthree\n");
    world.keep(&["f2d/q"]);
    assert_eq!(fs::read(world.origin().join("f2d/q/r")).expect("read"), b"r");
    let plan = world.plan(&["nothing/here"]);
    assert_eq!((plan.steps.len(), plan.unmatched.as_slice()), (0, [path("nothing/here")].as_slice()));
}

#[test]
fn a_rename_is_selected_by_either_side() {
    for side in ["moved.bin", "to"] {
        let world = World::new(fill_rich, change_rich);
        world.keep(&[side]);
        assert!(!world.origin().join("moved.bin").exists(), "{side}");
        assert!(world.origin().join("to/there/moved.bin").exists(), "{side}");
    }
    for side in ["lib", "lib2"] {
        let world = World::new(fill_rich, change_rich);
        world.keep(&[side]);
        assert!(!world.origin().join("lib").exists(), "{side}");
        testkit::Plain::of(&world.lane().join("lib2"))
            .assert_same(&testkit::Plain::of(&world.origin().join("lib2")));
    }
    let world = World::new(fill_rich, change_rich);
    world.keep(&["lib2/part0.rs"]);
    assert!(!world.origin().join("lib/part0.rs").exists() && world.origin().join("lib/part3.rs").exists());
    assert!(world.origin().join("lib2/part0.rs").exists() && !world.origin().join("lib2/part3.rs").exists());
}

#[test]
fn git_innards_are_outside_and_do_not_make_a_keep_incomplete() {
    let world = World::new(
        |o| {
            write(o.join(".git/config"), "[core]\n");
            write(o.join("sub/.git/HEAD"), "ref: x");
            write(o.join("a"), "a");
        },
        |l| {
            write(l.join(".git/config"), "[core]\n\tfsmonitor = /bin/evil\n");
            write(l.join(".git/hooks/pre-commit"), "evil");
            write(l.join("sub/.git/HEAD"), "ref: y");
            write(l.join("a"), "b");
        },
    );
    let (plan, _) = world.keep(&[".git", ".git/hooks/pre-commit", "sub/.git/HEAD", "a"]);
    assert!(plan.is_complete());
    assert!(plan.skipped.iter().all(|skipped| skipped.why == Why::GitInternal) && plan.skipped.len() >= 3);
    assert_eq!(fs::read(world.origin().join(".git/config")).expect("read"), b"[core]\n");
    assert!(!world.origin().join(".git/hooks").exists());
    assert_eq!(fs::read(world.origin().join("a")).expect("read"), b"b");
}

#[test]
fn a_directory_that_holds_something_left_out_stays() {
    let world = World::new(
        |o| {
            write(o.join("conf/.envrc"), "a");
            write(o.join("conf/x"), "x");
            write(o.join("swap/.envrc"), "a");
            write(o.join("swap/x"), "x");
        },
        |l| {
            fs::remove_dir_all(l.join("conf")).expect("removed");
            fs::remove_dir_all(l.join("swap")).expect("removed");
            write(l.join("swap"), "a file now");
        },
    );
    let (plan, _) = world.keep(&[]);
    let why = |name: &str| plan.skipped.iter().find(|s| s.path == path(name)).map(|s| s.why.clone());
    assert_eq!(why("conf"), Some(Why::Holds(path("conf/.envrc"))));
    assert_eq!(why("swap"), Some(Why::Holds(path("swap/.envrc"))));
    assert_eq!(why("swap/x"), Some(Why::NeedsParent(path("swap"))));
    assert!(!world.origin().join("conf/x").exists() && world.origin().join("conf/.envrc").exists());
    assert!(world.origin().join("swap/x").exists());
}

#[test]
fn set_id_bits_come_only_where_they_were_asked_for() {
    let make = || {
        World::new(
            |o| write(o.join("plain"), "x"),
            |l| {
                write(l.join("new"), "x");
                chmod(l.join("new"), 0o4644);
                chmod(l.join("plain"), 0o2644);
                fs::create_dir(l.join("dir")).expect("made");
                chmod(l.join("dir"), 0o2755);
            },
        )
    };
    let mode = |world: &World, name: &str| {
        fs::metadata(world.origin().join(name)).expect("stat").permissions().mode() & 0o7777
    };
    let world = make();
    let (plan, _) = world.keep(&[]);
    assert_eq!((mode(&world, "new"), mode(&world, "plain"), mode(&world, "dir")), (0o644, 0o644, 0o2755));
    assert_eq!(plan.set_id_dropped, [path("new")]);
    assert_eq!(plan.skipped.iter().map(|s| s.why.clone()).collect::<Vec<_>>(), [Why::SetId]);
    let world = make();
    let plan = world.plan_of(&[], &[], true);
    world.execute(&plan, &NoFaults).expect("kept");
    assert_eq!((mode(&world, "new"), mode(&world, "plain")), (0o4644, 0o2644));
}

#[test]
fn drifted_paths_are_left_out_and_the_rest_is_kept() {
    let world = World::new(fill_rich, change_rich);
    let drift = [
        Drifted { path: path("src/edit.txt"), why: Why::Drifted("modified".to_owned()) },
        Drifted { path: path("lib/part3.rs"), why: Why::Drifted("modified".to_owned()) },
    ];
    let plan = world.plan_of(&[], &drift, false);
    world.execute(&plan, &NoFaults).expect("kept");
    assert!(
        plan.skipped
            .iter()
            .any(|s| s.path == path("src/edit.txt") && s.why == Why::Drifted("modified".to_owned()))
    );
    assert_eq!(fs::read(world.origin().join("src/edit.txt")).expect("read"), b"one\ntwo\nthree\n");
    assert!(world.origin().join("lib/part3.rs").exists() && !world.origin().join("lib2/part3.rs").exists());
    assert!(world.origin().join("lib2/part0.rs").exists() && !world.origin().join("lib/part0.rs").exists());
    assert!(!world.origin().join("tree").exists());
}

#[test]
fn an_origin_that_changed_after_the_plan_is_refused_whole() {
    type Act = fn(&std::path::Path);
    let acts: [(&str, Act); 6] = [
        ("src/edit.txt", |o| write(o.join("src/edit.txt"), "user")),
        ("src/gone.txt", |o| chmod(o.join("src/gone.txt"), 0o600)),
        ("tree/a/new", |o| write(o.join("tree/a/new"), "user")),
        ("made", |o| write(o.join("made"), "user")),
        ("attr", |o| chmod(o.join("attr"), 0o640)),
        ("moved.bin", |o| {
            fs::remove_file(o.join("moved.bin")).expect("removed");
            write(o.join("moved.bin"), "moved content that is long enough");
        }),
    ];
    for (name, act) in acts {
        let world = World::new(fill_rich, change_rich);
        let plan = world.plan_everything();
        act(&world.origin());
        let before = Shape::of(&world.origin());
        match world.fails(&plan) {
            Error::OriginMoved { paths } => assert_eq!(paths, [path(name)]),
            other => panic!("{name}: {other}"),
        }
        before.assert_same(&Shape::of(&world.origin()), name);
        world.assert_no_residue();
    }
}

#[test]
fn a_lane_that_changed_after_the_plan_is_refused_whole() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    let before = Shape::of(&world.origin());
    write(world.lane().join("src/edit.txt"), "changed again");
    assert!(matches!(world.fails(&plan), Error::LaneMoved { path: p } if p == path("src/edit.txt")));
    before.assert_same(&Shape::of(&world.origin()), "lane moved");
    world.assert_no_residue();
}

#[test]
fn a_directory_of_the_origin_that_became_a_link_is_refused_and_nothing_is_written() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    let outside = world.top.join("outside");
    fs::rename(world.origin().join("src"), &outside).expect("moved");
    symlink(&outside, world.origin().join("src")).expect("linked");
    let (before, away) = (Shape::of(&world.origin()), Shape::of(&outside));
    let error = world.fails(&plan);
    assert!(matches!(error, Error::NotBeneath { .. }), "{error}");
    before.assert_same(&Shape::of(&world.origin()), "link");
    away.assert_same(&Shape::of(&outside), "outside");
    world.assert_no_residue();
}

/// Does something to the origin at one step, as a user who is faster than we are.
struct Meanwhile<F: Fn()>(&'static str, &'static str, F);

impl<F: Fn()> Faults for Meanwhile<F> {
    fn at(&self, step: &'static str, at: &TreePath) -> Result<(), kernel::Errno> {
        if step == self.0 && at.as_bytes() == self.1.as_bytes() {
            (self.2)();
        }
        Ok(())
    }
}

#[test]
fn an_edit_between_the_last_look_and_the_rename_is_put_back_untouched() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    let file = world.origin().join("src/edit.txt");
    let edit = || {
        write(world.origin().join("src/.edit.swp"), "the user's own");
        fs::rename(world.origin().join("src/.edit.swp"), &file).expect("saved");
    };
    let error = world.execute(&plan, &Meanwhile("swap, checked", "src/edit.txt", edit)).expect_err("refused");
    assert!(matches!(error, Error::OriginMoved { ref paths } if *paths == [path("src/edit.txt")]), "{error}");
    assert_eq!(fs::read(&file).expect("read"), b"the user's own");
    assert!(world.origin().join("tree/a/b/c/d").exists() && world.origin().join("lib/part0.rs").exists());
    world.assert_no_residue();
}

#[test]
fn a_write_through_a_descriptor_that_was_open_all_along_takes_the_keep_back() {
    use std::io::Write as _;
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    let open = fs::File::options().append(true).open(world.origin().join("src/edit.txt")).expect("open");
    let late = || (&open).write_all(b"late").expect("written");
    let error = world.execute(&plan, &Meanwhile("moved", "", late)).expect_err("refused");
    assert!(matches!(error, Error::OriginMoved { ref paths } if *paths == [path("src/edit.txt")]), "{error}");
    assert_eq!(fs::read(world.origin().join("src/edit.txt")).expect("read"), b"one\ntwo\nthree\nlate");
    assert!(world.origin().join("tree/a/b/c/d").exists());
    world.assert_no_residue();
}

#[test]
fn a_name_that_was_taken_meanwhile_is_never_overwritten() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    let taken = || write(world.origin().join("made"), "the user's own");
    let error = world.execute(&plan, &Meanwhile("put", "made", taken)).expect_err("refused");
    assert!(matches!(error, Error::OriginMoved { ref paths } if *paths == [path("made")]), "{error}");
    assert_eq!(fs::read(world.origin().join("made")).expect("read"), b"the user's own");
    assert!(world.origin().join("tree/a/b/c/d").exists());
}

#[test]
fn a_file_put_into_a_directory_that_is_being_removed_saves_the_directory() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan_everything();
    let late = || write(world.origin().join("tree/a/b/mine"), "the user's own");
    // The last look at the directory has passed when this step is told.
    let error = world.execute(&plan, &Meanwhile("take", "tree", late)).expect_err("refused");
    assert!(matches!(error, Error::OriginMoved { .. }), "{error}");
    assert_eq!(fs::read(world.origin().join("tree/a/b/mine")).expect("read"), b"the user's own");
    assert!(world.origin().join("tree/a/b/c/d").exists());
}

#[test]
fn marks_of_the_layer_format_never_reach_the_origin() {
    let world = World::new(
        |o| write(o.join("a"), "a"),
        |l| {
            fs::create_dir(l.join("d")).expect("made");
            write(l.join("d/f"), "f");
            // As the agent wrote it, an overlay shows it unescaped.
            xattr(l.join("d"), "user.overlay.overlay.opaque", "y");
            xattr(l.join("d"), "user.plain", "kept");
        },
    );
    let (_, report) = world.keep(&[]);
    assert_eq!(report.not_carried.len(), 1, "{:?}", report.not_carried);
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(world.origin().join("d"), &mut names[..]).expect("listed");
    assert_eq!(&names[..length], b"user.plain\0");
}

#[test]
fn a_journal_that_is_open_stops_the_next_keep() {
    let world = World::new(fill_rich, change_rich);
    let plan = world.plan(&[]);
    write(world.journal().join("keep.journal"), "damaged");
    assert!(matches!(world.fails(&plan), Error::JournalOpen { .. }));
    let (base, _) = world.trees();
    let error = review::apply::recover(&world.journal(), &base).expect_err("damaged");
    assert!(matches!(error, Error::JournalDamaged { ref moved_to, .. } if moved_to.exists()), "{error}");
    let recovered = review::apply::recover(&world.journal(), &base).expect("nothing left");
    assert_eq!(recovered.outcome, review::apply::Outcome::Nothing);
    world.execute(&plan, &NoFaults).expect("kept");
}
