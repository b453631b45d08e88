//! Control groups of live lanes: who is in them, that they go, and a lane of which only a part is in its group.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Running, Who, procs, until};

use crate::still::{Live, numbers};
use crate::world::{Made, SOON, World, fresh};

/// The first process among the descendants of a command that has this name.
fn descendant(of: &Running, name: &str) -> u32 {
    let is_named = |pid: &u32| procs::status(*pid, "Name").as_deref() == Some(name);
    until(name, SOON, || of.descendants().iter().any(is_named));
    of.descendants().into_iter().find(is_named).unwrap()
}

fn is_in(group: &Path, pid: u32) -> bool {
    let all = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
    all.lines().any(|line| line == pid.to_string())
}

#[test]
fn a_group_of_the_lanes_own_holds_everybody_in_it_and_goes_with_it() {
    let world = World::git(fresh(Who::all()[0]), Made::Overlay);
    let live = Live::python(&world, "import time; open('ready', 'w'); time.sleep(1000)");
    live.wait_for("ready");
    let Some(group) = live.group() else {
        // Nobody but root has one here. That root has is known where there are groups at all.
        let version_2 = std::fs::read_to_string("/proc/self/cgroup").unwrap().contains("0::/");
        assert!(world.env.who() == Who::User || !version_2, "root has no control group for a lane");
        return;
    };
    let joined = world.start(&["exec", "a", "--", "sleep", "1000"]);
    assert!(is_in(&group, descendant(&joined, "sleep")));
    live.snaps(2);
    live.stop();
    joined.wait(SOON);
    until("the group is gone", SOON, || !group.exists());
    // After a kill the next command removes it.
    world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "sleep", "1000"]);
    let group = live.group().unwrap();
    assert!(group.exists());
    let shown = world.json(&["show", "a"]);
    let runs = shown["runs"].as_array().unwrap();
    let supervisor = runs.iter().find_map(|run| run["pid"].as_u64()).unwrap();
    assert!(procs::is_alive(u32::try_from(supervisor).unwrap()));
    let pid = rustix::process::Pid::from_raw(i32::try_from(supervisor).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("nothing is left", SOON, || world.env.remnants().is_empty());
    world.ok(&["ls"]);
    assert!(!group.exists());
}

/// A group that belongs to the ordinary user, as a delegated scope does. It goes when this is dropped.
struct Scope(PathBuf);

impl Scope {
    /// `None` where no group can be made.
    fn new() -> Option<Scope> {
        let groups = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = groups.lines().find(|line| line.contains(" - cgroup2 "))?;
        let top = PathBuf::from(line.split(' ').nth(4)?);
        let scope = Scope(top.join(format!("lt-scope-{}", std::process::id())));
        std::fs::create_dir(&scope.0).ok()?;
        for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(scope.0.join(file), Some(testkit::who::USER), Some(testkit::who::USER)).unwrap();
        }
        Some(scope)
    }

    /// The same command, started in the group by the ordinary user.
    fn command(&self, inner: &Command) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = r#"u=$1; shift
            echo 0 >"$0/cgroup.procs" && exec setpriv --reuid $u --regid $u --clear-groups "$@""#;
        command.args(["-c", script]).arg(&self.0).arg(testkit::who::USER.to_string());
        command.arg(inner.get_program()).args(inner.get_args()).env_clear();
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(inner.get_current_dir().unwrap());
        command
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).ok();
    }
}

#[test]
fn a_user_in_a_scope_of_its_own_has_one_and_who_joins_from_elsewhere_stands_too() {
    const PAIR: &str = r#"
import os, sys
a, z = os.open("a" + sys.argv[1], os.O_RDWR | os.O_CREAT), os.open("z" + sys.argv[1], os.O_RDWR | os.O_CREAT)
n = 0
while True:
    n += 1
    os.pwrite(a, b"%20d" % n, 0)
    os.pwrite(z, b"%20d" % n, 0)
"#;
    if !Who::all().contains(&Who::Root) {
        testkit::require::say("not root: no scope can be handed to a user");
        return;
    }
    testkit::require::program("setpriv");
    let world = World::git(fresh(Who::User), Made::Overlay);
    let Some(scope) = Scope::new() else {
        testkit::require::say("no control groups of version 2 here");
        return;
    };
    world.lane("a");
    let run = ["run", "-d", "-n", "a", "--checkpoints", "none", "--", "/usr/bin/python3", "-c", PAIR, "1"];
    let run = scope.command(&world.env.lane(&world.project, &run));
    Running::start(run).wait(SOON).expect_code(0);
    let live = Live { world: &world, name: "a" };
    live.wait_for("z1");
    let group = live.group().unwrap();
    assert_eq!(group.parent(), Some(&*scope.0));
    // A user may not move a process from one part of the tree to another.
    let joined = world.start(&["exec", "a", "--", "/usr/bin/python3", "-c", PAIR, "2"]);
    live.wait_for("z2");
    assert!(!is_in(&group, descendant(&joined, "python3")));
    live.snaps(8);
    live.stop();
    joined.wait(SOON);
    assert!(!group.exists());
    for id in live.frozen() {
        let told = numbers(&live.in_snapshot(&id, "cat a1; echo; cat z1; echo; cat a2; echo; cat z2"));
        let [a1, z1, a2, z2] = told[..] else { panic!("{told:?}") };
        for (a, z) in [(a1, z1), (a2, z2)] {
            assert!(a - z == 0 || a - z == 1, "{id}: {told:?}");
        }
    }
}
