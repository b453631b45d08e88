//! $HOME as a layer of its own: with a submount, as the project, around the project, and not there at all.

use testkit::{FsKind, Listing, Running, Who, require};

use crate::world::{Made, SOON, World, fresh, in_the_open};

fn each_made(test: impl Fn(Who, Made)) {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            test(who, made);
        }
    }
}

#[test]
fn what_is_written_to_the_home_stays_in_the_lane_and_is_counted_apart() {
    each_made(|who, made| {
        let world = World::git(fresh(who), made);
        world.env.write(&world.env.home().join(".bashrc"), b"# mine\n");
        world.lane("a");
        let before = Listing::of(&world.env.home());
        let ran = world.sh("a", "echo evil >> ~/.bashrc; mkdir -p ~/.cache/x; echo y > ~/.cache/x/y");
        assert!(ran.err().contains("2 in $HOME (private to the lane, never kept)"), "{ran}");
        assert_eq!(world.sh("a", "cat ~/.bashrc").out(), "# mine\nevil\n");
        world.keep_all("a").expect_code(0);
        before.assert_same(&Listing::of(&world.env.home()));
        assert_eq!(world.changes("a"), Vec::<String>::new());
    });
}

#[test]
fn a_project_in_the_home_is_a_lane_of_its_own_there() {
    each_made(|who, made| {
        let env = in_the_open(who);
        let project = env.home().join("src/app");
        env.write(&project.join("f"), b"one\n");
        env.git_init(&project);
        let world = World::over(env, project, made);
        world.lane("a");
        let before = Listing::of(&world.env.home());
        let ran = world.sh(
            "a",
            "echo two > f; echo n > new; echo h > ~/h; git add -A; git commit -qm x; git status --porcelain",
        );
        assert_eq!(ran.out(), "");
        assert_eq!(world.changes("a"), ["modify f", "add new"]);
        before.assert_same(&Listing::of(&world.env.home()));
        world.keep_all("a").expect_code(0);
        assert_eq!(world.content("f").unwrap(), b"two\n");
        assert!(!world.env.home().join("h").exists());
    });
}

#[test]
fn the_home_itself_can_be_the_project() {
    each_made(|who, made| {
        let env = in_the_open(who);
        let home = env.home();
        env.write(&home.join("notes"), b"one\n");
        env.write(&home.join(".ssh/id"), b"key\n");
        let world = World::over(env, home.clone(), made);
        // The state directory lies in the home, as it does by default.
        let lane = |args: &[&str]| {
            let mut command = world.env.lane(&home, args);
            command.env_remove("XDG_STATE_HOME");
            Running::start(command).wait(SOON)
        };
        lane(&["new", "a", "--strategy", made.word()]).expect_code(0);
        let before = Listing::without(&home, &[".local"]);
        let script = "echo two > notes; test ! -e .ssh/id; test ! -e .local/state/lanekeeper/lane.db; mkdir -p deep/er; echo x > deep/er/x";
        lane(&["run", "-n", "a", "--", "sh", "-ec", script]).expect_code(0);
        before.assert_same(&Listing::without(&home, &[".local"]));
        let diff = lane(&["diff", "a", "--name-only"]).expect_code(0);
        assert_eq!(
            diff.out().lines().filter(|line| line.contains(".local") || line.contains(".ssh")).count(),
            0,
            "{diff}"
        );
        assert!(diff.out().contains("notes") && diff.out().contains("deep/er/x"), "{diff}");
        lane(&["keep", "a", "--yes"]).expect_code(0);
        assert_eq!(std::fs::read(home.join("notes")).unwrap(), b"two\n");
        assert_eq!(std::fs::read(home.join(".ssh/id")).unwrap(), b"key\n");
        lane(&["discard", "a", "--now", "--yes"]).expect_code(0);
    });
}

#[test]
fn a_run_works_without_any_home() {
    each_made(|who, made| {
        let world = World::git(fresh(who), made);
        let lane = |home: Option<&str>, args: &[&str]| {
            let mut command = world.env.lane(&world.project, args);
            command.env_remove("HOME");
            if let Some(home) = home {
                command.env("HOME", home);
            }
            Running::start(command).wait(SOON).expect_code(0)
        };
        lane(None, &["new", "a", "--strategy", made.word()]);
        for home in [None, Some("/nonexistent"), Some(""), Some("/")] {
            let ran = lane(
                home,
                &["run", "-n", "a", "--", "sh", "-ec", "echo x > x; ls -A /root 2>/dev/null || true"],
            );
            assert_eq!(ran.out(), "", "{home:?}: {ran}");
        }
        assert_eq!(world.changes("a"), ["add x"]);
    });
}

#[test]
fn a_home_with_a_submount_is_put_together_from_its_entries() {
    if !testkit::who::is_root() {
        require::say("not root: nothing can be mounted below the home for this test");
        return;
    }
    each_made(|who, made| {
        let world = World::git(in_the_open(who), made);
        let home = world.env.home();
        world.env.write(&home.join("work/file"), b"host\n");
        world.env.write(&home.join(".bashrc"), b"host\n");
        world.env.write(&home.join(".ssh/id"), b"key\n");
        world.env.write(&home.join(".config/gh/hosts.yml"), b"token\n");
        world.env.write(&home.join(".config/tool/rc"), b"host\n");
        world.env.write(&home.join(".cargo/credentials.toml"), b"token\n");
        world.env.write(&home.join(".cargo/registry/index"), b"host\n");
        world.env.link(".bashrc", &home.join("link"));
        world.env.mkdir(&home.join("mnt"));
        let mount = Mounted::tmpfs(&home.join("mnt"));
        world.env.write(&home.join("mnt/inside"), b"mounted\n");
        world.lane("a");
        let before = Listing::of(&home);
        let script = "cd; cat work/file .bashrc .config/tool/rc .cargo/registry/index mnt/inside
test ! -e .ssh/id; test ! -e .config/gh/hosts.yml; test ! -e .cargo/credentials.toml
echo lane > work/file; echo lane > new; mkdir -p .ssh; echo own > .ssh/id; echo lane > .cargo/registry/index; echo lane > .config/tool/rc
(echo x > mnt/inside) 2>/dev/null && exit 1; cat link; exit 0";
        let ran = world.sh("a", script);
        assert_eq!(ran.out(), "host\nhost\nhost\nhost\nmounted\nhost\n", "{ran}");
        before.assert_same(&Listing::of(&home));
        assert_eq!(world.sh("a", "cat ~/work/file ~/.cargo/registry/index").out(), "lane\nlane\n");
        drop(mount);
        // Without the mount the home is one layer again, and the lane still works.
        world.sh("a", "cat ~/.bashrc");
    });
}

/// A mount made for a test; gone with the value.
pub(crate) struct Mounted(std::path::PathBuf);

impl Mounted {
    pub(crate) fn tmpfs(at: &std::path::Path) -> Mounted {
        let status = std::process::Command::new(require::program("mount"))
            .args(["-t", "tmpfs", "-o", "size=8m,nosuid,nodev", "tmpfs"])
            .arg(at)
            .status()
            .unwrap();
        assert!(status.success());
        Mounted(at.to_owned())
    }
}

impl Mounted {
    /// Shows `from` at `at` too.
    pub(crate) fn bind(from: &std::path::Path, at: &std::path::Path) -> Mounted {
        let mut command = std::process::Command::new(require::program("mount"));
        assert!(command.arg("--bind").arg(from).arg(at).status().unwrap().success());
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_home_on_a_filesystem_of_its_own_works_as_a_layer() {
    for who in Who::all() {
        let Some(fs) = testkit::LoopFs::make(FsKind::Ext4, 48, who) else { return };
        {
            let world = World::git(fresh(who), Made::Overlay);
            let home = fs.path().join("home");
            world.env.write(&home.join("f"), b"host\n");
            let mut command = world.env.lane(
                &world.project,
                &["run", "-n", "a", "--", "sh", "-ec", "cat ~/f; echo x > ~/f; cat ~/f"],
            );
            command.env("HOME", &home);
            assert_eq!(Running::start(command).wait(SOON).expect_code(0).out(), "host\nx\n");
            assert_eq!(std::fs::read(home.join("f")).unwrap(), b"host\n");
        }
    }
}
