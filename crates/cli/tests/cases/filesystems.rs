//! B13 and the places of layers: every filesystem, submounts, foreign owners, further roots.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use testkit::{FsKind, Listing, LoopFs, Plain, Running, TestEnv, Who, require};

use crate::home::Mounted;
use crate::world::{Made, SOON, World, each, everybody, fresh, in_the_open, word};

const KINDS: [(FsKind, u64); 4] =
    [(FsKind::Ext4, 64), (FsKind::Btrfs, 120), (FsKind::Xfs, 320), (FsKind::Tmpfs, 64)];

/// A life: change, look, keep, drop.
fn live_through(world: &World) {
    live_through_all(world);
    testkit::until("nothing is left", SOON, || world.env.remnants().is_empty());
}

fn live_through_all(world: &World) {
    let before = Plain::without(&world.project, &[".git"]);
    world.lane("a");
    world.sh("a", "echo x >> README.md; mkdir d; echo n > d/n; rm run.sh; mv src/lib.rs src/new.rs; git add -A; git commit -qm x");
    before.assert_same(&Plain::without(&world.project, &[".git"]));
    let changes = world.changes("a");
    for wanted in ["modify README.md", "add d", "add d/n", "delete run.sh", "rename src/new.rs"] {
        assert!(changes.contains(&wanted.to_owned()), "{wanted} in {changes:?}");
    }
    world.keep_all("a").expect_code(0);
    assert_eq!(world.content("d/n").unwrap(), b"n\n");
    assert!(!world.project.join("run.sh").exists());
    world.gone("a");
}

#[test]
fn b13_project_and_state_on_every_filesystem() {
    for who in Who::all() {
        for (kind, mib) in KINDS {
            let Some(fs) = LoopFs::make(kind, mib, who) else { return };
            for made in [Made::Overlay, Made::Copy] {
                // Both on it; then the project alone; then the state alone.
                live_through(&World::git(TestEnv::inside(&fs.path(), env!("CARGO_BIN_EXE_lane"), who), made));
                let env = fresh(who);
                let project = fs.path().join("app");
                let world = World::git(env, made);
                copy(&world, &project);
                let world = World { project: project.clone(), ..world };
                live_through(&world);
                drop(world);
                testkit::env::remove(&project).unwrap();
                let mut env = fresh(who);
                env.set("XDG_STATE_HOME", fs.path().join("s").to_str().unwrap());
                live_through(&World::git(env, made));
                testkit::env::remove(&fs.path().join("s")).unwrap();
            }
        }
    }
}

fn copy(world: &World, to: &Path) {
    let args = ["-a", world.project.to_str().unwrap(), to.to_str().unwrap()];
    world.env.host(world.env.root(), "cp", &args);
}

#[test]
fn layers_stand_beside_the_project_where_its_filesystem_clones_and_are_absent_inside() {
    for who in Who::all() {
        for (kind, mib) in [(FsKind::Btrfs, 120), (FsKind::Xfs, 320)] {
            let Some(fs) = LoopFs::make(kind, mib, who) else { return };
            for made in [Made::Overlay, Made::Copy] {
                let mut world = World::git(in_the_open(who), made);
                // Where the image is mounted nobody inside could look anyhow: it is shown in a better place.
                world.env.allow_remnants();
                let place = world.env.root().join("disk");
                world.env.mkdir(&place);
                let shown = Mounted::bind(&fs.path(), &place);
                let project = place.join("app");
                copy(&world, &project);
                world.env.write(&place.join("neighbour"), b"seen\n");
                let world = World { project: project.clone(), ..world };
                world.lane("a");
                let beside = place.join(".lanekeeper");
                assert_eq!(world.sh("a", "cat ../neighbour").out(), "seen\n");
                assert_eq!(std::fs::metadata(&beside).unwrap().mode() & 0o777, 0o700, "{kind:?}");
                let script = format!(
                    "ls -A {0}/ 2>/dev/null && exit 1; (echo x > {0}/x) 2>/dev/null && exit 1; exit 0",
                    beside.display()
                );
                world.sh("a", &script);
                world.lane("b");
                world.gone("a");
                assert!(beside.exists());
                world.gone("b");
                assert!(!beside.exists(), "{kind:?}: the place goes with the last lane");
                testkit::env::remove(&project).unwrap();
                std::fs::remove_file(place.join("neighbour")).unwrap();
                drop(shown);
            }
        }
    }
}

#[test]
fn writes_can_stay_in_memory() {
    everybody(|world| {
        let before = Listing::of(&world.project);
        let ran = world.ok(&["run", "-n", "a", "--upper", "tmpfs", "--", "sh", "-c", "echo x > x; cat x"]);
        assert_eq!(ran.out(), "x\n");
        before.assert_same(&Listing::of(&world.project));
        let place = format!("/dev/shm/lanekeeper-{}", world.who().uid());
        assert!(std::fs::read_dir(&place).unwrap().next().is_some());
        world.gone("a");
        assert!(std::fs::read_dir(&place).map_or(true, |mut left| left.next().is_none()));
    });
}

#[test]
fn b13_a_submount_below_the_project_gives_a_copy_and_is_shown_read_only() {
    if !testkit::who::is_root() {
        require::say("not root: nothing can be mounted below the project for this test");
        return;
    }
    everybody(|world| {
        let sub = world.project.join("sub mount");
        world.env.mkdir(&sub);
        let mount = Mounted::tmpfs(&sub);
        world.env.write(&sub.join("inside"), b"mounted\n");
        let ran = world.ok(&[
            "run",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "cat sub*/inside; (echo x > sub*/inside) 2>/dev/null && exit 1; echo y > README.md",
        ]);
        assert_eq!(ran.out(), "mounted\n");
        let shown = world.json(&["show", "a"]);
        assert_eq!(shown["lane"]["strategy"], "copy");
        assert!(word(&shown["lane"]["why"]).contains("sub mount"), "{shown}");
        assert_eq!(std::fs::read(sub.join("inside")).unwrap(), b"mounted\n");
        assert_eq!(world.changes("a"), ["modify README.md"]);
        // Asked for by name it is refused, with the mount and a remedy.
        let ran = world.run(&["run", "-n", "b", "--strategy", "overlay", "--", "true"]).expect_code(125);
        assert!(ran.err().contains("sub mount") && ran.err().contains("copy"), "{ran}");
        assert!(!ran.err().contains("EINVAL"), "{ran}");
        world.keep_all("a").expect_code(0);
        world.gone("a");
        drop(mount);
    });
}

#[test]
fn b13_a_submount_that_comes_later_is_told_and_nothing_is_lost() {
    if !testkit::who::is_root() {
        require::say("not root: nothing can be mounted below the project for this test");
        return;
    }
    everybody(|world| {
        let sub = world.project.join("sub");
        world.env.write(&sub.join("under"), b"under\n");
        world.lane("a");
        world.sh("a", "echo x > x");
        let mount = Mounted::tmpfs(&sub);
        world.env.write(&sub.join("inside"), b"mounted\n");
        let ran = world.run(&["run", "-n", "a", "--", "cat", "sub/inside"]);
        // Root mounts where the mount is not in the way; a user is told which mount is.
        match ran.code {
            Some(0) => assert_eq!(ran.out(), "mounted\n"),
            code => {
                assert_eq!(code, Some(125), "{ran}");
                assert!(ran.err().contains(sub.to_str().unwrap()), "{ran}");
            }
        }
        assert!(world.changes("a").contains(&"add x".to_owned()));
        drop(mount);
        world.sh("a", "cat x sub/under");
    });
}

#[test]
fn b13_files_of_other_owners_give_a_user_a_copy_and_root_an_overlay() {
    if !testkit::who::is_root() {
        require::say("not root: files cannot be given to somebody else for this test");
        return;
    }
    everybody(|world| {
        let foreign = world.project.join("foreign");
        std::fs::write(&foreign, b"theirs\n").unwrap();
        chown(&foreign, Some(4242), Some(4242)).unwrap();
        let ran = world.ok(&["run", "-n", "a", "--", "sh", "-c", "cat foreign; echo mine > new"]);
        assert_eq!(ran.out(), "theirs\n");
        let shown = world.json(&["show", "a"]);
        let wanted = if world.who() == Who::Root { "overlay" } else { "copy" };
        assert_eq!(shown["lane"]["strategy"], wanted, "{shown}");
        if world.who() == Who::User {
            assert!(word(&shown["lane"]["why"]).contains("4242"), "{shown}");
            let ran = world.run(&["run", "-n", "b", "--strategy", "overlay", "--", "true"]).expect_code(125);
            assert!(ran.err().contains("foreign"), "{ran}");
        }
        assert_eq!(world.changes("a"), ["add new"]);
        world.keep_all("a").expect_code(0);
        assert_eq!(std::fs::metadata(&foreign).unwrap().uid(), 4242);
    });
}

#[test]
fn b13_a_project_on_an_overlay_works_and_a_state_on_one_is_told() {
    if !testkit::who::is_root() {
        require::say("not root: an overlay cannot be mounted for this test");
        return;
    }
    for who in Who::all() {
        let mut world = World::git(in_the_open(who), Made::Overlay);
        // The mount is ours, and whoever makes a mount namespace meanwhile takes a copy of it along.
        world.env.allow_remnants();
        let root = world.env.root().to_owned();
        let made = |name: &str| {
            world.env.mkdir(&root.join(name));
            root.join(name)
        };
        let (lower, upper, work, merged) = (made("lo"), made("up"), made("wk"), made("me"));
        world.env.host(&root, "cp", &["-a", world.project.to_str().unwrap(), lower.to_str().unwrap()]);
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let status = std::process::Command::new(require::program("mount"))
            .args(["-t", "overlay", "overlay", "-o", &options])
            .arg(&merged)
            .status()
            .unwrap();
        assert!(status.success());
        let mounted = Unmount(merged.clone());
        let inner = World { project: merged.join("app"), env: world.env, made: Made::Overlay };
        live_through_all(&inner);
        // State on the overlay: an upper cannot stand there.
        let state = merged.join("state");
        let mut command =
            inner.env.lane(&inner.project, &["run", "-n", "b", "--", "sh", "-c", "echo x > x; echo h > ~/h"]);
        command.env("XDG_STATE_HOME", &state);
        let ran = Running::start(command).wait(SOON).expect_code(0);
        assert!(ran.err().contains("copy"), "{ran}");
        let mut command =
            inner.env.lane(&inner.project, &["run", "-n", "c", "--strategy", "overlay", "--", "true"]);
        command.env("XDG_STATE_HOME", &state);
        let ran = Running::start(command).wait(SOON).expect_code(125);
        assert!(ran.err().contains("overlay"), "{ran}");
        drop(mounted);
    }
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_further_root_has_its_own_layer_diff_and_keep() {
    each(|world| {
        let also = world.env.project("lib dep");
        world.env.write(&also.join("lib.txt"), b"lib\n");
        let before = Listing::of(&also);
        let also_text = also.to_str().unwrap();
        world.ok(&["new", "a", "--strategy", world.made.word(), "--also", also_text]);
        let script =
            format!("echo app > app.txt; echo changed > '{0}/lib.txt'; echo n > '{0}/n'", also.display());
        world.sh("a", &script);
        before.assert_same(&Listing::of(&also));
        let diff = world.json(&["diff", "a"]);
        let found: Vec<(String, String)> = diff["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (word(&file["root"]).to_owned(), word(&file["path"]).to_owned()))
            .collect();
        let project = world.project.to_str().unwrap().to_owned();
        for wanted in
            [(project.clone(), "app.txt"), (also_text.to_owned(), "lib.txt"), (also_text.to_owned(), "n")]
        {
            assert!(found.contains(&(wanted.0.clone(), wanted.1.to_owned())), "{wanted:?} in {found:?}");
        }
        world.keep_all("a").expect_code(0);
        assert_eq!(world.content("app.txt").unwrap(), b"app\n");
        assert_eq!(std::fs::read(also.join("lib.txt")).unwrap(), b"changed\n");
        assert_eq!(std::fs::read(also.join("n")).unwrap(), b"n\n");
        world.gone("a");
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
    });
}

#[test]
fn run_takes_a_further_root_too() {
    everybody(|world| {
        let also = world.env.project("dep");
        world.env.write(&also.join("f"), b"host\n");
        let args = [
            "run",
            "-n",
            "a",
            "--also",
            also.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "cat ../dep/f; echo lane > ../dep/f",
        ];
        assert_eq!(world.ok(&args).out(), "host\n");
        assert_eq!(std::fs::read(also.join("f")).unwrap(), b"host\n");
        // Joined or started again, it is still there.
        assert_eq!(world.ok(&["exec", "a", "--", "cat", "../dep/f"]).out(), "lane\n");
    });
}
