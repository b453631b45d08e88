//! Variables, names and addresses, and what agents are given of their own.

use std::os::unix::fs::PermissionsExt as _;

use testkit::{Running, Who, require};

use crate::world::{SOON, World, each, everybody, in_the_open};

#[test]
fn doors_and_secrets_of_the_caller_stay_outside_unless_named() {
    each(|world| {
        world.lane("a");
        let doors = [
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "DOCKER_HOST",
            "GPG_AGENT_INFO",
            "TMUX",
        ];
        let secrets = ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_API_KEY", "DATABASE_URL", "NPM_TOKEN"];
        let run = |args: &[&str]| {
            let mut command = world.env.lane(&world.project, &["run", "-n", "a"]);
            command.args(args).args(["--", "env"]);
            for name in doors.iter().chain(&secrets) {
                command.env(name, "host-value");
            }
            command.env("EDITOR", "vi");
            Running::start(command).wait(SOON).expect_code(0).out()
        };
        let plain = run(&[]);
        assert!(!plain.contains("host-value"), "{plain}");
        assert!(plain.contains("EDITOR=vi\n") && plain.contains("LANE=a\n"), "{plain}");
        assert!(plain.contains(&format!("XDG_RUNTIME_DIR=/run/user/{}\n", world.who().uid())), "{plain}");
        assert!(!plain.contains("TMPDIR="), "{plain}");
        let named = run(&["--env", "GITHUB_TOKEN", "--env", "MY_API_KEY=own=value", "--env", "NEW=\nx"]);
        assert!(
            named.contains("GITHUB_TOKEN=host-value\n") && named.contains("MY_API_KEY=own=value\n"),
            "{named}"
        );
        assert!(named.contains("NEW=\nx\n"), "{named}");
        assert!(!named.contains("NPM_TOKEN"), "{named}");
    });
}

#[test]
fn a_joined_command_gets_no_door_and_no_secret_either() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
        let mut command = world.env.lane(&world.project, &["exec", "a", "--env", "A=1", "--", "env"]);
        command.env("SSH_AUTH_SOCK", "/x").env("A_TOKEN", "x");
        let out = Running::start(command).wait(SOON).expect_code(0).out();
        assert!(!out.contains("SSH_AUTH_SOCK") && !out.contains("A_TOKEN") && out.contains("A=1\n"), "{out}");
        world.ok(&["stop", "a"]);
    });
}

#[test]
fn the_command_starts_where_its_caller_stands() {
    each(|world| {
        world.lane("a");
        let below = world.project.join("src");
        let ran = world.env.ok(&below, &["run", "-n", "a", "--", "sh", "-c", "pwd; echo $PWD"]);
        assert_eq!(ran.out(), format!("{0}\n{0}\n", below.display()));
        let ran = world.ok(&["run", "-n", "a", "--", "/bin/pwd"]);
        assert_eq!(ran.out(), format!("{}\n", world.project.display()));
    });
}

/// Runs `lane` as `who` in a mount namespace of its own in which `prepare` (shell, as root) was done.
fn elsewhere(world: &World, prepare: &str, args: &[&str]) -> testkit::Ran {
    let who = world.who();
    let mut command = std::process::Command::new(require::program("unshare"));
    let person = if who == Who::Root {
        String::new()
    } else {
        format!("setpriv --reuid {0} --regid {0} --clear-groups", who.uid())
    };
    let script = format!("set -e; mount --make-rprivate /; {prepare}\nexec {person} \"$0\" \"$@\"");
    command.args(["-m", "sh", "-c", &script]).arg(world.env.lane_program()).args(args);
    command.env_clear().env("PATH", require::PATH).env("HOME", world.env.home()).env("USER", "tester");
    command
        .env("XDG_STATE_HOME", world.env.state_home())
        .current_dir(&world.project)
        .stdin(std::process::Stdio::null());
    require::program("setpriv");
    Running::start(command).wait(SOON)
}

/// A writable view of /etc, so that its files can be replaced for one process tree.
const OWN_ETC: &str = "mkdir -p $XDG_STATE_HOME/../etc; mount -t tmpfs tmpfs $XDG_STATE_HOME/../etc; mkdir $XDG_STATE_HOME/../etc/u $XDG_STATE_HOME/../etc/w
mount -t overlay overlay -o lowerdir=/etc,upperdir=$XDG_STATE_HOME/../etc/u,workdir=$XDG_STATE_HOME/../etc/w /etc; umount -l $XDG_STATE_HOME/../etc";

#[test]
fn b55_resolv_conf_is_there_as_a_file_as_a_link_into_run_and_missing_where_it_dangles() {
    if !testkit::who::is_root() {
        testkit::require::say("not root: another /etc cannot be made for this test");
        return;
    }
    everybody(|world| {
        world.lane("a");
        let show = "cat /etc/resolv.conf || echo none; echo --; head -1 /etc/hosts || true";
        let run = |prepare: &str, net: &str| {
            let prepare = format!("{OWN_ETC}\n{prepare}");
            elsewhere(world, &prepare, &["run", "-q", "-n", "a", "--net", net, "--", "sh", "-c", show])
                .expect_code(0)
                .out()
        };
        let regular = "rm -f /etc/resolv.conf; echo nameserver 192.0.2.1 > /etc/resolv.conf";
        assert!(run(regular, "host").starts_with("nameserver 192.0.2.1\n--\n"));
        assert!(run(regular, "none").starts_with("nameserver 127.0.0.1\n--\n127.0.0.1\tlocalhost"));
        let link = "mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/resolve; echo nameserver 192.0.2.2 > /run/systemd/resolve/stub-resolv.conf
rm -f /etc/resolv.conf; ln -s ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf";
        assert!(run(link, "host").starts_with("nameserver 192.0.2.2\n--\n"));
        assert!(run(link, "none").starts_with("nameserver 127.0.0.1\n--\n127.0.0.1\tlocalhost"));
        let aside = "rm -f /etc/resolv.conf; ln -s resolv.real /etc/resolv.conf; echo nameserver 192.0.2.3 > /etc/resolv.real";
        assert!(run(aside, "host").starts_with("nameserver 192.0.2.3\n--\n"));
        let dangling = "rm -f /etc/resolv.conf; ln -s /run/no/such /etc/resolv.conf";
        assert!(run(dangling, "host").starts_with("none\n--\n"));
        let missing = "rm -f /etc/resolv.conf /etc/hosts";
        assert!(run(missing, "host").starts_with("none\n--\n"));
        // A pipe in its place does not hang the start.
        let pipe = "rm -f /etc/resolv.conf; mkfifo /etc/resolv.conf";
        let args = &["run", "-q", "-n", "a", "--", "true"];
        elsewhere(world, &format!("{OWN_ETC}\n{pipe}"), args).expect_code(0);
    });
}

#[test]
fn without_a_network_there_is_the_lanes_own_loopback_and_nothing_else() {
    everybody(|world| {
        world.lane("a");
        let script = "import socket, os
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
assert [name for _, name in socket.if_nameindex()] == ['lo'], socket.if_nameindex()
try: socket.create_connection(('192.0.2.1', 80), 1); print('out')
except OSError as error: print(error.errno)
print(socket.gethostbyname('localhost'), socket.gethostbyname(socket.gethostname()))";
        let ran = world.ok(&["run", "-n", "a", "--net", "none", "--", "/usr/bin/python3", "-c", script]);
        assert_eq!(ran.out(), "1\n127.0.0.1 127.0.0.1\n", "{ran}");
        assert!(ran.err().contains("net none"), "{ran}");
        assert!(world.ok(&["run", "-n", "a", "--", "true"]).err().contains("net open"));
    });
}

#[test]
fn an_agents_own_login_is_shared_and_said_and_nobody_elses() {
    for who in Who::all() {
        let env = in_the_open(who);
        let program = env.home().join("bin/claude");
        env.write(&program, b"#!/bin/sh\ncat ~/.claude/.credentials.json; ls ~/.codex ~/.ssh 2>&1; echo $ANTHROPIC_API_KEY; echo changed > ~/.claude/.credentials.json\n");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        env.write(&env.home().join(".claude/.credentials.json"), b"login\n");
        env.write(&env.home().join(".codex/auth.json"), b"other\n");
        env.write(&env.home().join(".ssh/id"), b"key\n");
        let world = World::git(env, crate::world::Made::Overlay);
        let mut command = world.env.lane(&world.project, &["run", "-n", "a", "--"]);
        command.arg(&program).env("ANTHROPIC_API_KEY", "wanted").env("OPENAI_API_KEY", "not");
        let ran = Running::start(command).wait(SOON).expect_code(0);
        assert!(ran.err().contains("shared for claude: ~/.claude/.credentials.json"), "{ran}");
        assert!(
            ran.out().starts_with("login\n")
                && ran.out().contains("wanted")
                && !ran.out().contains("auth.json"),
            "{ran}"
        );
        assert_eq!(std::fs::read(world.env.home().join(".claude/.credentials.json")).unwrap(), b"login\n");
        // Any other program sees none of it.
        let ran = world.run(&["run", "-n", "a", "--", "sh", "-c", "cat ~/.codex/auth.json ~/.ssh/id"]);
        assert_eq!(ran.out(), "", "{ran}");
        let ran =
            world.ok(&["run", "-n", "b", "--preset", "codex", "--", "sh", "-c", "cat ~/.codex/auth.json"]);
        assert_eq!(ran.out(), "other\n");
        assert!(ran.err().contains("shared for codex"), "{ran}");
    }
}
