//! What a lane shows of the host: system, homes, our own state, and what `--ro`, `--bind` and `--hide` change.

use testkit::{Listing, Running, Who};

use crate::world::{Made, SOON, World, everybody, in_the_open};

/// A world in a place that lanes show, over both strategies.
fn open_each(test: impl Fn(&World)) {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            test(&World::git(in_the_open(who), made));
        }
    }
}

#[test]
fn state_and_layers_are_absent_inside() {
    open_each(|world| {
        world.lane("a");
        world.lane("b");
        let state = world.env.state();
        let script = format!(
            "ls {0}/lane.db {0}/lanes 2>&1 && exit 1; ls -A {0} 2>/dev/null || true; (echo x > {0}/x) 2>/dev/null && exit 1; chmod 755 {0} 2>/dev/null && ls -A {0}; exit 0",
            state.display()
        );
        let ran = world.sh("a", &script);
        assert!(
            !ran.out().contains("lane.db") || ran.out().contains("No such") || ran.out().contains("denied"),
            "{ran}"
        );
        let lines: Vec<&str> = ran.out().leak().lines().collect();
        assert!(lines.iter().all(|line| line.starts_with("ls: cannot")), "{lines:?}");
    });
}

#[test]
fn state_in_the_home_is_absent_inside_and_its_place_can_be_made_anew() {
    open_each(|world| {
        let mut world_state = world.env.command(world.env.lane_program());
        world_state.env_remove("XDG_STATE_HOME").current_dir(&world.project);
        world_state.args(["run", "--strategy", world.made.word(), "-n", "a", "--", "sh", "-ec"]);
        world_state.arg("test ! -e ~/.local/state/lanekeeper; mkdir -p ~/.local/state/lanekeeper; echo own > ~/.local/state/lanekeeper/x");
        Running::start(world_state).wait(SOON).expect_code(0);
        let real = world.env.home().join(".local/state/lanekeeper");
        assert!(real.join("lane.db").exists() && !real.join("x").exists());
    });
}

#[test]
fn credentials_are_absent_and_can_be_made_anew() {
    open_each(|world| {
        let home = world.env.home();
        let secrets = [
            ".ssh/id_ed25519",
            ".gnupg/private-keys-v1.d/k",
            ".aws/credentials",
            ".config/gcloud/creds.db",
            ".azure/token",
            ".kube/config",
            ".docker/config.json",
            ".pypirc",
            ".cargo/credentials.toml",
            ".git-credentials",
            ".config/gh/hosts.yml",
            ".netrc",
            ".mozilla/firefox/p/logins.json",
            ".config/google-chrome/Default/Cookies",
            ".local/share/keyrings/login.keyring",
            ".bash_history",
            ".zsh_history",
            ".python_history",
            ".claude/.credentials.json",
            ".codex/auth.json",
        ];
        for path in secrets {
            world.env.write(&home.join(path), b"secret\n");
        }
        world.env.write(&home.join(".npmrc"), b"//registry.example.org/:_authToken=secret\n");
        world.env.write(&home.join(".config/tool/settings"), b"harmless\n");
        world.env.write(&home.join(".cargo/config.toml"), b"harmless\n");
        let before = Listing::of(&home);
        world.lane("a");
        let look = "cd; for f in $(find . -type f) ; do case $f in ./.config/tool/settings|./.cargo/config.toml) cat $f;; *) echo found $f;; esac; done; grep -r secret . || true";
        let ran = world.sh("a", look);
        assert_eq!(ran.out(), "harmless\nharmless\n", "{ran}");
        let make =
            format!("cd; for f in {}; do mkdir -p $(dirname $f); echo own > $f; done", secrets.join(" "));
        world.sh("a", &make);
        // The logins of agents are there again for their agent alone.
        let (agents, others): (Vec<&str>, Vec<&str>) =
            secrets.iter().partition(|path| path.starts_with(".claude/") || path.starts_with(".codex/"));
        let again = format!("cd; cat {}; ls {} 2>/dev/null || true", others.join(" "), agents.join(" "));
        assert_eq!(world.sh("a", &again).out(), "own\n".repeat(others.len()));
        before.assert_same(&Listing::of(&home));
    });
}

#[test]
fn a_settings_file_without_a_login_is_seen() {
    everybody(|world| {
        world.env.write(&world.env.home().join(".npmrc"), b"fund=false\n");
        world.lane("a");
        assert_eq!(world.sh("a", "cat ~/.npmrc").out(), "fund=false\n");
        world.env.write(&world.env.home().join(".npmrc"), b"_authToken=x\n");
        world.try_sh("a", "cat ~/.npmrc").expect_code(1);
    });
}

#[test]
fn homes_of_other_people_are_absent() {
    open_each(|world| {
        world.lane("a");
        let ran =
            world.sh("a", "ls -A /home /root 2>/dev/null | grep -v -e '^/' -e linuxbrew -e '^$' || true");
        let own = std::path::Path::new("/home").join(world.env.home().components().nth(2).unwrap());
        let foreign: Vec<&str> = ran.out().leak().lines().filter(|name| !own.ends_with(name)).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    });
}

#[test]
fn ro_shows_bind_writes_through_and_is_announced_hide_covers() {
    open_each(|world| {
        let place = world.env.root().join("outside");
        world.env.write(&place.join("seen/file"), b"host\n");
        world.env.write(&place.join("direct/file"), b"host\n");
        world.env.write(&place.join("hidden/file"), b"host\n");
        world.env.write(&world.project.join("secret.key"), b"host\n");
        world.env.write(&world.project.join("secrets/deep"), b"host\n");
        world.lane("a");
        let at = |name: &str| place.join(name).to_str().unwrap().to_owned();
        let args = |script: &'static str| {
            let all = [
                "run",
                "-n",
                "a",
                "--ro",
                &at("seen"),
                "--bind",
                &at("direct"),
                "--hide",
                &at("hidden"),
                "--hide",
                "secret.key",
                "--hide",
                "secrets",
                "--",
                "sh",
                "-c",
                script,
            ];
            let mut command = world.env.lane(&world.project, &all);
            command.env("PLACE", &place);
            Running::start(command).wait(SOON)
        };
        let ran = args("cat $PLACE/seen/file; echo in >> $PLACE/direct/file; echo new > $PLACE/direct/new");
        assert_eq!((ran.code, ran.out().as_str()), (Some(0), "host\n"), "{ran}");
        assert!(ran.err().contains(&format!("{} writes directly to the original", at("direct"))), "{ran}");
        assert_eq!(std::fs::read(place.join("direct/file")).unwrap(), b"host\nin\n");
        for script in [
            "echo x >> $PLACE/seen/file",
            "cat $PLACE/hidden/file",
            "ls $PLACE/hidden/",
            "cat secret.key",
            "cat secrets/deep",
            "ls secrets/",
            "echo x > secret.key",
            "rm -f secret.key",
        ] {
            let ran = args(script);
            assert_ne!(ran.code, Some(0), "{script}: {ran}");
        }
        assert_eq!(std::fs::read(place.join("seen/file")).unwrap(), b"host\n");
        assert_eq!(world.changes("a"), Vec::<String>::new());
    });
}

#[test]
fn a_credential_that_is_named_with_ro_is_seen() {
    open_each(|world| {
        let home = world.env.home();
        world.env.write(&home.join(".ssh/known_hosts"), b"host key\n");
        world.env.write(&home.join(".netrc"), b"login\n");
        world.lane("a");
        let before = Listing::of(&home);
        let ssh = home.join(".ssh");
        let netrc = home.join(".netrc");
        let args = [
            "run",
            "-n",
            "a",
            "--ro",
            ssh.to_str().unwrap(),
            "--ro",
            netrc.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "cat ~/.ssh/known_hosts ~/.netrc",
        ];
        assert_eq!(world.ok(&args).out(), "host key\nlogin\n");
        before.assert_same(&Listing::of(&home));
    });
}

#[test]
fn the_plan_says_what_is_mounted_hidden_and_enforced_and_runs_nothing() {
    open_each(|world| {
        world.env.write(&world.env.home().join(".ssh/id"), b"key\n");
        let before = Listing::of(&world.project);
        let plan = world.json(&[
            "run",
            "--strategy",
            world.made.word(),
            "--net",
            "none",
            "--show-plan",
            "--",
            "touch",
            "x",
        ]);
        assert_eq!(plan["strategy"], world.made.word());
        let targets: Vec<&str> =
            plan["mounts"].as_array().unwrap().iter().map(|m| m["target"].as_str().unwrap()).collect();
        for wanted in [
            "/tmp",
            "/proc",
            "/dev",
            "/usr",
            world.project.to_str().unwrap(),
            world.env.home().to_str().unwrap(),
        ] {
            assert!(targets.contains(&wanted), "{wanted} in {targets:?}");
        }
        let ssh = world.env.home().join(".ssh");
        let hidden: Vec<&str> =
            plan["hidden"].as_array().unwrap().iter().map(|m| m["path"].as_str().unwrap()).collect();
        assert!(
            hidden.contains(&ssh.to_str().unwrap()) && hidden.contains(&world.env.state().to_str().unwrap()),
            "{hidden:?}"
        );
        assert!(
            plan["walls"]
                .as_array()
                .unwrap()
                .iter()
                .any(|wall| wall["name"] == "seccomp" && wall["status"] == "full")
        );
        before.assert_same(&Listing::of(&world.project));
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
    });
}

#[test]
fn the_view_is_private_to_each_run() {
    everybody(|world| {
        world.lane("a");
        world.sh("a", "echo x > /tmp/x; echo x > /dev/shm/x; touch /run/user/$(id -u)/x");
        world.sh("a", "test ! -e /tmp/x -a ! -e /dev/shm/x -a ! -e /run/user/$(id -u)/x; test $(ls /proc | grep -c '^[0-9]') -lt 8");
    });
}
