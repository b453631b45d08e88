//! B46, B47: where a wall cannot be built nothing runs, and the reason is told.

use testkit::{Ran, Running, Who, require};

use crate::world::{SOON, World, everybody, word};

/// Runs `lane` behind `wrapper`, a shell line that ends by executing `"$0" "$@"`.
fn behind(world: &World, wrapper: &str, args: &[&str]) -> Ran {
    let mut command = world.env.command("/bin/sh");
    command.args(["-c", wrapper]).arg(world.env.lane_program()).args(args).current_dir(&world.project);
    Running::start(command).wait(SOON)
}

/// A seccomp filter that refuses one call with EPERM, put by Python before `"$0" "$@"`.
fn without_call(number: u32) -> String {
    // Load the number; is it this one? EPERM, else allow.
    format!(
        r#"exec /usr/bin/python3 -c '
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
op = lambda code, jt, jf, k: struct.pack("HBBI", code, jt, jf, k)
prog = op(0x20, 0, 0, 0) + op(0x15, 0, 1, {number}) + op(0x06, 0, 0, 0x00050001) + op(0x06, 0, 0, 0x7fff0000)
buf = ctypes.create_string_buffer(prog)
fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(prog) // 8, ctypes.addressof(buf)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, fprog, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])' "$0" "$@""#
    )
}

/// Nothing was executed, and what failed is said with its call.
fn assert_refused(world: &World, ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(125), "{ran}");
    assert!(!world.env.home().join("executed").exists(), "{ran}");
    assert!(words.iter().any(|word| ran.err().contains(word)), "{words:?}: {ran}");
    assert!(!ran.err().contains("panicked"), "{ran}");
}

#[test]
fn b46_b47_a_wall_that_cannot_be_built_stops_the_run_before_anything_is_executed() {
    require::program("python3");
    everybody(|world| {
        let home = world.env.home();
        let home = home.to_str().unwrap();
        let script = format!("touch {home}/executed");
        for (call, number) in [
            ("clone3", 435),
            ("seccomp", 317),
            ("fsopen", 430),
            ("move_mount", 429),
            ("mount_setattr", 442),
            ("pivot_root", 155),
            ("capset", 126),
        ] {
            world.lane("a");
            let args = ["run", "-n", "a", "--bind", home, "--", "sh", "-c", &script];
            let ran = behind(world, &without_call(number), &args);
            assert_refused(world, &ran, &[call, "user namespace", "namespace"]);
            testkit::until("nothing is left", SOON, || world.env.remnants().is_empty());
            // And without the obstacle the very same lane works.
            world.sh("a", "true");
            world.gone("a");
        }
    });
}

#[test]
fn b46_without_user_namespaces_a_user_is_told_and_nothing_runs() {
    if !testkit::who::is_root() {
        require::say("not root: the limit of user namespaces cannot be set for this test");
        return;
    }
    require::program("setpriv");
    for who in Who::all() {
        let world = World::git(crate::world::fresh(who), crate::world::Made::Overlay);
        world.lane("a");
        let home = world.env.home();
        let script = format!("touch {}/executed", home.display());
        // A user namespace in which no further one may be made: as a user this is a machine without them.
        let mut command = std::process::Command::new(require::program("unshare"));
        let wrapper = "echo 0 > /proc/sys/user/max_user_namespaces || exit 9; exec \"$0\" \"$@\"";
        command
            .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", wrapper])
            .arg(world.env.lane_program());
        command.args(["run", "-n", "a", "--bind"]).arg(&home).args(["--", "sh", "-c", &script]);
        command
            .env_clear()
            .env("PATH", require::PATH)
            .env("HOME", &home)
            .env("XDG_STATE_HOME", world.env.state_home());
        command.current_dir(&world.project).stdin(std::process::Stdio::null());
        who.apply(&mut command);
        let ran = Running::start(command).wait(SOON);
        assert_ne!(ran.code, Some(9), "{ran}");
        assert_refused(&world, &ran, &["namespace", "mount", "clone3"]);
    }
}

#[test]
fn b47_walls_that_stood_are_in_the_record_of_each_run() {
    everybody(|world| {
        world.ok(&["run", "-n", "a", "--net", "none", "--", "true"]);
        let shown = world.json(&["show", "a"]);
        let walls = shown["runs"][0]["walls"].as_array().unwrap();
        let of = |name: &str| {
            walls
                .iter()
                .find(|wall| wall["name"] == name)
                .map(|wall| word(&wall["status"]))
                .unwrap_or("missing")
        };
        assert_eq!(
            (of("seccomp"), of("no_new_privs"), of("namespaces"), of("network")),
            ("full", "full", "full", "full"),
            "{shown}"
        );
        assert_eq!(of("user namespace"), if world.who() == Who::Root { "none" } else { "full" });
        assert_eq!(of("landlock"), "full");
        world.ok(&["run", "-n", "a", "--net", "host", "--", "true"]);
        let shown = world.json(&["show", "a"]);
        let last =
            &shown["runs"].as_array().unwrap().iter().max_by_key(|run| run["id"].as_i64()).unwrap()["walls"];
        assert!(
            last.as_array().unwrap().iter().any(|wall| wall["name"] == "network" && wall["status"] == "none"),
            "{last}"
        );
    });
}

#[test]
fn b46_doctor_names_the_step_that_fails() {
    require::program("python3");
    everybody(|world| {
        let healthy = world.json(&["doctor"]);
        assert_eq!(healthy["ready"], true, "{healthy}");
        let ran = behind(world, &without_call(430), &["doctor", "--json"]);
        let sick: serde_json::Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        assert_eq!(sick["ready"], false, "{sick}");
        let text = sick.to_string();
        assert!(
            text.contains("fsopen") || text.contains("EPERM") || text.contains("Operation not permitted"),
            "{text}"
        );
    });
}

#[test]
fn b46_flags_that_are_locked_on_a_mount_are_kept() {
    if !testkit::who::is_root() {
        require::say("not root: a mount with locked flags cannot be made for this test");
        return;
    }
    everybody(|world| {
        let place = world.env.root().join("locked");
        world.env.mkdir(&place);
        let mount = crate::home::Mounted::tmpfs(&place);
        world.env.write(&place.join("f"), b"x\n");
        world.lane("a");
        for flag in ["--ro", "--bind"] {
            let args = ["run", "-n", "a", flag, place.to_str().unwrap(), "--", "cat", "../../locked/f"];
            let ran = world.ok(&args);
            assert_eq!(ran.out(), "x\n", "{ran}");
        }
        drop(mount);
    });
}

#[test]
fn b46_root_of_a_user_namespace_is_walled_as_an_ordinary_user() {
    require::program("unshare");
    for who in Who::all() {
        let world = World::git(crate::world::fresh(who), crate::world::Made::Overlay);
        let mut command = world.env.command(require::program("unshare"));
        command.args(["--user", "--map-root-user"]).arg(world.env.lane_program()).current_dir(&world.project);
        command.args(["run", "-n", "a", "--net", "none", "--", "sh", "-ec"]);
        command.arg("id -u; echo x > x; mv src moved; echo h > ~/h; grep CapEff /proc/self/status; git status --porcelain | head -1");
        let ran = Running::start(command).wait(SOON).expect_code(0);
        assert!(ran.out().starts_with("0\nCapEff:\t0000000000000000\n"), "{ran}");
        let shown = world.json(&["show", "a"]);
        assert_eq!(shown["lane"]["strategy"], "overlay", "{shown}");
        let walls = shown["runs"][0]["walls"].as_array().unwrap();
        assert!(
            walls.iter().any(|wall| wall["name"] == "user namespace" && wall["status"] == "full"),
            "{shown}"
        );
        assert!(!world.project.join("x").exists());
        // The same person finds what was done there, by his own name.
        let changes = world.changes("a");
        assert!(
            changes.contains(&"add x".to_owned()) && changes.iter().any(|line| line.contains("moved")),
            "{changes:?}"
        );
    }
}
