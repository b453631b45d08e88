//! A command that means harm: what it plants, reaches for and leaves behind, tried as it would try it.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use testkit::{Running, Who, require};

use crate::world::{SOON, World, each, everybody, fresh, in_the_open};

const CONNECT: &str = r#"
import errno, socket, sys
theirs = socket.socket(socket.AF_UNIX)
try:
    theirs.connect('\0' + sys.argv[1])
    print('reached')
except OSError as error:
    print(errno.errorcode[error.errno])
own = socket.socket(socket.AF_UNIX)
own.bind('\0' + sys.argv[1] + '-own')
own.listen(1)
socket.socket(socket.AF_UNIX).connect('\0' + sys.argv[1] + '-own')
print('own')
"#;

#[test]
fn an_abstract_socket_of_the_host_is_out_of_reach_and_one_of_its_own_is_not() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "live", "-d", "--", "sleep", "1000"]);
        let name = format!("lane-test-{}-{:?}", std::process::id(), world.who());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listening = UnixListener::bind_addr(&address).unwrap();
        require::program("python3");
        for verb in [&["run", "-n", "a"] as &[&str], &["run", "-n", "b", "--net", "none"], &["exec", "live"]]
        {
            let out = world.ok(&[verb, &["--", "/usr/bin/python3", "-c", CONNECT, &name]].concat()).out();
            let lines: Vec<&str> = out.lines().collect();
            assert!(matches!(lines[..], ["EPERM" | "ECONNREFUSED", "own"]), "{verb:?}: {out}");
        }
        world.ok(&["stop", "live"]);
    });
}

/// Runs a shell script in a lane, in a mount namespace in which `from` is bound to `to` too.
fn with_second_name(
    world: &World,
    from: &std::path::Path,
    to: &std::path::Path,
    script: &str,
) -> testkit::Ran {
    let person = match world.who() {
        Who::Root => String::new(),
        Who::User => format!("setpriv --reuid {0} --regid {0} --clear-groups", world.who().uid()),
    };
    require::program("setpriv");
    let mut command = std::process::Command::new(require::program("unshare"));
    let prepare = format!("set -e; mount --bind \"$0\" \"$1\"; shift; exec {person} \"$@\"");
    command.args(["-m", "--propagation", "private", "sh", "-c", &prepare]).args([from, to]);
    command.arg(world.env.lane_program()).args(["run", "-q", "-n", "a", "--", "sh", "-c", script]);
    command.env_clear().env("PATH", require::PATH).env("HOME", world.env.home());
    command.env("XDG_STATE_HOME", world.env.state_home()).current_dir(&world.project);
    Running::start(command).wait(SOON)
}

#[test]
fn a_second_mount_of_the_home_shows_neither_credentials_nor_the_state_directory() {
    if !testkit::who::is_root() {
        require::say("not root: nothing can be mounted a second time for this test");
        return;
    }
    for who in Who::all() {
        let place = in_the_open(who);
        let world = World::git(fresh(who), crate::world::Made::Overlay);
        world.env.write(&world.env.home().join(".ssh/id"), b"PRECIOUS\n");
        world.env.write(&world.env.home().join("plain"), b"plain\n");
        world.lane("a");
        let second = place.project("second");
        std::fs::create_dir_all(&second).unwrap();
        let at = |path: &std::path::Path| {
            second.join(path.strip_prefix(world.env.root()).unwrap()).display().to_string()
        };
        let (home, state) = (at(&world.env.home()), at(&world.env.state()));
        let script = format!(
            "cat '{home}/plain'; cat '{home}/.ssh/id' '{state}/lane.db' >/dev/null 2>&1 && echo seen; ls '{state}' 2>/dev/null; true"
        );
        let ran = with_second_name(&world, world.env.root(), &second, &script).expect_code(0);
        assert_eq!(ran.out(), "plain\n", "{who:?}: {ran}");
    }
}

#[test]
fn a_link_in_the_home_hides_what_it_leads_to() {
    everybody(|world| {
        let home = world.env.home();
        world.env.write(&home.join("dotfiles/config/gcloud/token"), b"PRECIOUS\n");
        world.env.write(&home.join("dotfiles/config/plain"), b"plain\n");
        world.env.write(&home.join("vault/ssh/id"), b"PRECIOUS\n");
        std::os::unix::fs::symlink("dotfiles/config", home.join(".config")).unwrap();
        std::os::unix::fs::symlink(home.join("vault/ssh"), home.join(".ssh")).unwrap();
        world.lane("a");
        let ran = world.sh("a", "cat ~/.config/plain; grep -rs PRECIOUS ~ ~/.config/ ~/.ssh/ || true");
        assert_eq!(ran.out(), "plain\n", "{:?}: {ran}", world.who());
    });
}

#[test]
fn what_is_hidden_stays_hidden_when_a_directory_above_it_is_renamed() {
    each(|world| {
        world.env.write(&world.project.join("sub/deep/secret"), b"PRECIOUS\n");
        world.lane("a");
        let look = "mv sub sub2 2>/dev/null || true; grep -rs PRECIOUS . || true";
        for _ in 0..2 {
            let ran = world.run(&["run", "-n", "a", "--hide", "sub/deep/secret", "--", "sh", "-c", look]);
            assert_eq!(ran.out(), "", "{:?} {:?}: {ran}", world.who(), world.made);
        }
    });
}

fn names_beside(world: &World) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir(world.env.root()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_directory_nested_out_of_all_proportion_is_exported_or_refused_and_never_a_crash() {
    const DEEP: &str = r#"
import os
at = os.open('.', os.O_RDONLY)
for _ in range(1500):
    os.mkdir('d', dir_fd=at)
    below = os.open('d', os.O_RDONLY, dir_fd=at)
    os.close(at)
    at = below
os.close(os.open('end', os.O_CREAT | os.O_WRONLY, dir_fd=at))
"#;
    everybody(|world| {
        world.lane("a");
        world.python("a", DEEP);
        let before = names_beside(world);
        let ran = world.run(&["export", "a", world.env.root().join("out").to_str().unwrap()]);
        match ran.code {
            // By a program that goes down such a tree by itself.
            Some(0) => drop(world.env.host(world.env.root(), "rm", &["-r", "out"])),
            Some(1) => assert_eq!(names_beside(world), before, "{ran}"),
            other => panic!("{other:?}: {ran}"),
        }
        world.gone("a");
    });
}

#[test]
fn a_project_in_the_state_directory_is_refused_and_nothing_runs_elsewhere_instead() {
    everybody(|world| {
        world.lane("a");
        let inside = world.env.state().join("project");
        world.env.write(&inside.join("file"), b"x\n");
        let ran = world.env.run(&inside, &["run", "--rm", "--", "pwd"]);
        assert!(ran.code == Some(125) && ran.out().is_empty(), "{ran}");
        assert!(ran.err().contains("state directory"), "{ran}");
    });
}
