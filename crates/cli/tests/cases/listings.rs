//! Zero residue: project, home, state and mounts before and after runs that end in every way.

use testkit::{FsKind, Listing, LoopFs, Running, TestEnv, Who};

use crate::world::{Made, SOON, World, each, fresh, host_mounts};

/// What must be as it was: the project and the home, with every inode and time.
struct Before {
    project: Listing,
    home: Listing,
    mounts: Vec<String>,
}

impl Before {
    fn of(world: &World) -> Before {
        Before {
            project: Listing::of(&world.project),
            home: Listing::of(&world.env.home()),
            mounts: host_mounts(&world.env),
        }
    }

    fn assert_same(&self, world: &World) {
        testkit::until("nothing is left behind", SOON, || world.env.remnants().is_empty());
        self.project.assert_same(&Listing::of(&world.project));
        self.home.assert_same(&Listing::of(&world.env.home()));
        assert_eq!(host_mounts(&world.env), self.mounts);
    }
}

/// Files, directories, modes, links and deletions, in project and home.
const BUSY: &str = "echo x >> README.md; echo n > new; mkdir -p a/b; echo c > a/b/c; rm run.sh; chmod 600 src/lib.rs; mv src moved
ln -sf x main; touch -d @1 moved/main.rs; mkdir -p ~/.config; echo h > ~/.config/h; echo p > ~/.profile; rm -f ~/old; git add -A; git commit -qm lane";

fn furnished(env: TestEnv, made: Made) -> World {
    let world = World::git(env, made);
    world.env.write(&world.env.home().join("old"), b"x\n");
    world.env.write(&world.env.home().join(".profile"), b"x\n");
    world
}

#[test]
fn b43_nothing_appears_in_project_or_home_after_runs_that_end_normally() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            let world = furnished(fresh(who), made);
            let before = Before::of(&world);
            world.lane("a");
            before.assert_same(&world);
            world.sh("a", BUSY);
            before.assert_same(&world);
            world.try_sh("a", "exit 3").expect_code(3);
            world.ok(&["diff", "a", "--patch"]);
            world.ok(&["show", "a"]);
            world.ok(&["run", "--rm", "--strategy", made.word(), "--", "sh", "-c", BUSY]);
            before.assert_same(&world);
            world.gone("a");
            before.assert_same(&world);
            for below in ["lanes", "trash"] {
                assert_eq!(world.state_names(below), Vec::<String>::new());
            }
            assert_eq!(world.env.host(&world.project, "git", &["status", "--porcelain"]).out(), "");
        }
    }
}

#[test]
fn b43_protected_names_that_are_not_there_are_not_made() {
    each(|world| {
        let before = Before::of(world);
        world.lane("a");
        let hide = [
            "run",
            "-n",
            "a",
            "--hide",
            ".idea",
            "--hide",
            ".bashrc",
            "--hide",
            "no/such/dir",
            "--",
            "ls",
            "-A",
        ];
        let out = world.ok(&hide).out();
        assert!(!out.contains(".idea") && !out.contains(".bashrc"), "{out}");
        before.assert_same(world);
        let plain = world.changes("a");
        assert_eq!(plain, Vec::<String>::new());
    });
}

#[test]
fn b43_nothing_appears_after_a_kill_of_the_supervisor() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            let world = furnished(fresh(who), made);
            let before = Before::of(&world);
            world.lane("a");
            let script = format!("{BUSY}; echo ready; sleep 1000");
            let mut running = world.start(&["run", "-n", "a", "--", "sh", "-c", &script]);
            running.wait_for("ready", SOON);
            running.kill9();
            running.wait(SOON);
            before.assert_same(&world);
            // The next command puts it right, and the work is still there.
            assert!(world.changes("a").contains(&"add new".to_owned()));
            before.assert_same(&world);
            world.gone("a");
            before.assert_same(&world);
            for below in ["lanes", "trash"] {
                assert_eq!(world.state_names(below), Vec::<String>::new());
            }
        }
    }
}

#[test]
fn b43_nothing_appears_after_an_end_by_the_memory_killer_or_a_full_disk() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            for kind in [FsKind::Tmpfs, FsKind::Ext4] {
                let Some(fs) = LoopFs::make(kind, 24, who) else { return };
                let mut env = fresh(who);
                env.set("XDG_STATE_HOME", fs.path().to_str().unwrap());
                let world = furnished(env, made);
                let before = Before::of(&world);
                world.lane("a");
                let fill = "echo begun > begun; cat /dev/zero > big || echo full; cat /dev/zero > ~/big || echo full; kill -KILL $$";
                let ran = world.run(&["run", "-n", "a", "--", "sh", "-c", fill]);
                assert_eq!(ran.out(), "full\nfull\n", "{kind:?}: {ran}");
                assert_eq!(ran.code, Some(137), "{kind:?}: {ran}");
                before.assert_same(&world);
                // A full state directory does not keep anybody from looking and dropping.
                let diff = world.json(&["diff", "a"]);
                assert!(
                    diff["files"].as_array().unwrap().iter().any(|file| file["path"] == "begun"),
                    "{diff}"
                );
                world.gone("a");
                before.assert_same(&world);
                let left: Vec<_> =
                    std::fs::read_dir(fs.path().join("lanekeeper/lanes")).into_iter().flatten().collect();
                assert!(left.is_empty(), "{left:?}");
                world.lane("b");
                world.sh("b", "echo x > x");
                world.gone("b");
            }
        }
    }
}

#[test]
fn b43_making_a_lane_on_a_full_disk_fails_whole_and_leaves_nothing() {
    for who in Who::all() {
        let Some(fs) = LoopFs::make(FsKind::Tmpfs, 4, who) else { return };
        let mut env = fresh(who);
        env.set("XDG_STATE_HOME", fs.path().to_str().unwrap());
        let world = World::git(env, Made::Copy);
        world.env.write(&world.project.join("big"), &vec![7; 6 << 20]);
        let before = Before::of(&world);
        let ran = world.run(&["new", "a", "--strategy", "copy"]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.err().contains("No space left") || ran.err().contains("full"), "{ran}");
        before.assert_same(&world);
        let left: Vec<_> =
            std::fs::read_dir(fs.path().join("lanekeeper/lanes")).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
    }
}

#[test]
fn the_state_directory_holds_the_same_files_before_and_after_a_lanes_life() {
    each(|world| {
        let names = || {
            let mut found: Vec<Vec<u8>> = Listing::of(&world.env.state()).items().keys().cloned().collect();
            found.retain(|name| !name.starts_with(b"lane.db-") && !name.starts_with(b"spare"));
            found
        };
        // What is put by for the next lane: two empty directories of a lane at the most.
        let spare_is_empty = || {
            let spare = world.env.state().join("spare");
            let put_by: Vec<_> = std::fs::read_dir(&spare).into_iter().flatten().flatten().collect();
            assert!(put_by.len() <= 2, "{put_by:?}");
            for lane in put_by {
                for entry in std::fs::read_dir(lane.path()).unwrap().flatten() {
                    let name = entry.file_name();
                    match name.to_str() {
                        Some("lock" | "base.old") => {}
                        Some("0.u" | "0.w") => {
                            assert_eq!(std::fs::read_dir(entry.path()).unwrap().count(), 0);
                        }
                        _ => panic!("{name:?} in a spare directory"),
                    }
                }
            }
        };
        world.lane("first");
        world.sh("first", "echo x > x");
        world.gone("first");
        // What was probed is remembered.
        world.ok(&["run", "--rm", "--", "true"]);
        let before = names();
        for _ in 0..2 {
            world.lane("a");
            world.sh("a", BUSY);
            world.gone("a");
            world.ok(&["run", "--rm", "--strategy", world.made.word(), "--", "true"]);
        }
        let mut running = Running::start(
            world.env.lane(&world.project, &["run", "--rm", "--", "sh", "-c", "echo ready; sleep 1000"]),
        );
        running.wait_for("ready", SOON);
        running.kill9();
        running.wait(SOON);
        testkit::until("nothing is left behind", SOON, || world.env.remnants().is_empty());
        let lanes = world.json(&["ls"]);
        for lane in lanes.as_array().unwrap() {
            world.gone(crate::world::word(&lane["name"]));
        }
        assert_eq!(names(), before);
        spare_is_empty();
    });
}
