//! A directory rename is killed at every step: its notifier, its supervisor, its caller. The tree is then as it
//! was before or as it is after, never between, and nothing is lost.
//!
//! The kill is asked for by a file beside the journal; only builds with debug assertions look for it.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use testkit::env::PATIENCE;
use testkit::{Who, procs, until};

use crate::ground::{Ground, LISTING, user_overlay};

/// An act in a directory that [`FIXTURE`] made, and whether it is expected to fail.
struct Act {
    name: &'static str,
    program: &'static str,
    /// The errno that a caller sees, 0 for none.
    errno: i32,
}

const MOVE: Act = Act { name: "move", program: "renameat2('src', 'into/lib', 0)", errno: 0 };
const REPLACE: Act = Act { name: "replace", program: "renameat2('src', 'empty', 0)", errno: 0 };
const EXCHANGE: Act = Act { name: "exchange", program: "renameat2('src', 'into', 2)", errno: 0 };
const EXCHANGE_FILE: Act =
    Act { name: "exchange with a file", program: "renameat2('src', 'file', 2)", errno: 0 };
const FILE_EXCHANGE: Act =
    Act { name: "exchange of a file", program: "renameat2('file', 'src', 2)", errno: 0 };
/// A file of a group that the lane cannot map stops the move half-way (EOVERFLOW).
const REFUSED: Act = Act { name: "refused", program: "renameat2('stuck', 'lib', 0)", errno: 75 };
const REFUSED_EXCHANGE: Act =
    Act { name: "refused exchange", program: "renameat2('stuck', 'src', 2)", errno: 75 };

/// Directories `c0` and so on, one for each kill.
const FIXTURE: &str = r#"
import os, sys
T = 1_000_000_000_123_456_789
for n in range(90):
    os.makedirs(f"c{n}/src/a/b"); os.makedirs(f"c{n}/into/x"); os.makedirs(f"c{n}/stuck/in"); os.mkdir(f"c{n}/empty")
    for name in ("file", "src/f", "src/a/g", "src/a/b/h", "into/i", "into/x/j", "stuck/k", "stuck/in/l", "stuck/z"):
        with open(f"c{n}/{name}", "w") as file: file.write(name)
        os.utime(f"c{n}/{name}", ns=(T, T))
    os.symlink("f", f"c{n}/src/l"); os.utime(f"c{n}/src/l", ns=(T, T), follow_symlinks=False)
    os.setxattr(f"c{n}/src/a", "user.color", b"red")
    os.chmod(f"c{n}/src/a", 0o2750); os.chmod(f"c{n}/src/a/b", 0o500); os.chmod(f"c{n}/src", 0o711)
    for name in ("src/a/b", "src/a", "src", "into/x", "into", "stuck/in", "stuck", "empty"):
        os.utime(f"c{n}/{name}", ns=(T, T))
"#;

const CALL: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def renameat2(old, new, flags):
    if libc.renameat2(-100, old.encode(), -100, new.encode(), flags) != 0:
        return ctypes.get_errno()
    return 0
"#;

/// A project of many equal directories.
fn ground(act: &Act) -> Option<Ground> {
    if act.errno != 0 && !testkit::who::is_root() {
        testkit::require::say("not root: no file of a foreign group can be made, this act is left out");
        return None;
    }
    let ground = Ground::new(user_overlay());
    for dir in [&ground.project, &ground.plain] {
        ground.env.host(dir, crate::ground::PYTHON, &["-c", FIXTURE]);
    }
    ground.make_lane();
    if act.errno != 0 {
        // After the lane was made: it would have refused to be one.
        for n in 0..90 {
            let stuck = ground.project.join(format!("c{n}/stuck/z"));
            std::os::unix::fs::lchown(&stuck, Some(Who::User.uid()), Some(0)).unwrap();
        }
    }
    Some(ground)
}

/// Asks for kills, one a line: whom and before which step.
fn fault(ground: &Ground, text: &str) {
    let file = ground.home().join("rename-fault");
    ground.env.write(&file, text.as_bytes());
}

/// True where a kill that was asked for has not struck, because there was no such step; it is withdrawn then.
fn missed(ground: &Ground) -> bool {
    let file = ground.home().join("rename-fault");
    let left = fs::read(&file).is_ok_and(|text| !text.is_empty());
    fs::remove_file(&file).ok();
    left
}

/// The listings of directory `n` before and after the act.
struct Wanted {
    before: String,
    after: String,
}

fn wanted(ground: &Ground, act: &Act) -> Wanted {
    let list = |dir: &str| ground.natively(&format!("import os; os.chdir({dir:?})\n{LISTING}")).out();
    let before = list("c0");
    if act.errno != 0 {
        return Wanted { after: before.clone(), before };
    }
    ground.natively(&format!("{CALL}\nos.chdir('c1')\nassert {} == 0", act.program));
    Wanted { before, after: list("c1") }
}

fn listing(ground: &Ground, n: usize) -> String {
    ground.inside(&format!("import os; os.chdir('c{n}')\n{LISTING}")).out()
}

fn no_trace(ground: &Ground) {
    let home = ground.home();
    assert!(!home.join("rename").exists(), "a journal is left");
}

fn program(act: &Act, n: usize) -> String {
    format!("{CALL}\nos.chdir('c{n}')\nprint({})", act.program)
}

/// The notifier is killed before every step of `act`: the caller sees what it would have seen, nothing more.
fn notifier_killed_everywhere(act: &Act) {
    let Some(ground) = ground(act) else { return };
    let wanted = wanted(&ground, act);
    let mut steps = 0;
    for step in 1..90 {
        fault(&ground, &format!("notifier {step}"));
        let ran = ground.try_inside(&program(act, step), &[]).expect_code(0);
        assert_eq!(ran.out(), format!("{}\n", act.errno), "{} killed at step {step}: {ran}", act.name);
        let seen = listing(&ground, step);
        assert!(
            seen == wanted.after,
            "{} killed at step {step}:\n{seen}\nwanted\n{}",
            act.name,
            wanted.after
        );
        no_trace(&ground);
        if missed(&ground) {
            break;
        }
        steps = step;
    }
    assert!(steps > 10, "only {steps} steps");
}

/// The supervisor (and the notifier with it) is killed before every step: the next command brings the tree to
/// before or after.
fn supervisor_killed_everywhere(act: &Act) {
    let Some(ground) = ground(act) else { return };
    let wanted = wanted(&ground, act);
    let mut ends = BTreeSet::new();
    for step in 1..90 {
        fault(&ground, &format!("supervisor {step}"));
        let ran = ground.try_inside(&program(act, step), &[]);
        if missed(&ground) {
            break;
        }
        assert_eq!(ran.signal, Some(9), "{ran}");
        ground.env.ok(&ground.project, &["diff", "l", "--name-only"]);
        no_trace(&ground);
        let seen = listing(&ground, step);
        assert!(
            seen == wanted.after || seen == wanted.before,
            "{} killed at step {step}:\n{seen}\nwanted\n{}or\n{}",
            act.name,
            wanted.before,
            wanted.after
        );
        ends.insert(seen == wanted.after);
    }
    let both = if act.errno == 0 { 2 } else { 1 };
    assert_eq!(ends.len(), both, "{}: both ends are reached", act.name);
}

#[test]
fn a_move_survives_the_death_of_its_notifier_at_every_step() {
    notifier_killed_everywhere(&MOVE);
}

#[test]
fn a_move_onto_an_empty_directory_survives_the_death_of_its_notifier_at_every_step() {
    notifier_killed_everywhere(&REPLACE);
}

#[test]
fn an_exchange_survives_the_death_of_its_notifier_at_every_step() {
    notifier_killed_everywhere(&EXCHANGE);
}

#[test]
fn an_exchange_with_a_file_survives_the_death_of_its_notifier_at_every_step() {
    notifier_killed_everywhere(&EXCHANGE_FILE);
    notifier_killed_everywhere(&FILE_EXCHANGE);
}

#[test]
fn a_move_that_fails_half_way_is_undone_whatever_dies_at_every_step() {
    notifier_killed_everywhere(&REFUSED);
    notifier_killed_everywhere(&REFUSED_EXCHANGE);
}

#[test]
fn a_move_is_finished_or_undone_by_the_next_command_after_the_supervisor_died_at_every_step() {
    supervisor_killed_everywhere(&MOVE);
}

#[test]
fn an_exchange_is_finished_or_undone_by_the_next_command_after_the_supervisor_died_at_every_step() {
    supervisor_killed_everywhere(&EXCHANGE);
}

#[test]
fn an_exchange_with_a_file_is_finished_or_undone_by_the_next_command_after_the_supervisor_died() {
    supervisor_killed_everywhere(&EXCHANGE_FILE);
}

#[test]
fn a_failing_exchange_is_undone_by_the_next_command_after_the_supervisor_died_at_every_step() {
    supervisor_killed_everywhere(&REFUSED_EXCHANGE);
}

#[test]
fn a_recovery_that_is_killed_itself_is_ended_by_the_next() {
    for act in [&MOVE, &EXCHANGE] {
        let Some(ground) = ground(act) else { return };
        let wanted = wanted(&ground, act);
        let mut n = 2;
        for first in [8, 16, 22, 30] {
            for second in (1..60).step_by(2) {
                fault(&ground, &format!("supervisor {first}\nnotifier {second}"));
                let ran = ground.try_inside(&program(act, n), &[]);
                if ran.signal != Some(9) {
                    // This act has fewer steps.
                    assert!(missed(&ground), "{ran}");
                    break;
                }
                ground.env.run(&ground.project, &["ls"]);
                ground.env.run(&ground.project, &["diff", "l", "--name-only"]);
                let over = missed(&ground);
                let seen = listing(&ground, n);
                no_trace(&ground);
                assert!(
                    seen == wanted.after || seen == wanted.before,
                    "{} killed at step {first}, its recovery at {second}:\n{seen}",
                    act.name
                );
                n += 1;
                if over {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_rename_whose_caller_is_killed_is_finished() {
    let ground = ground(&MOVE).unwrap();
    let wanted = wanted(&ground, &MOVE);
    for (n, step) in [1, 5, 12, 16, 20].into_iter().enumerate() {
        fault(&ground, &format!("caller {step}"));
        // The parent's own rename waits until the notifier is free again.
        let program = format!(
            "{CALL}\nos.chdir('c{n}')\npid = os.fork()\nif pid == 0:\n    {}\n    os._exit(7)\n\
             print(os.waitpid(pid, 0)[1])\nrenameat2('file', 'other', 0); renameat2('other', 'file', 0)\n\
             print(sorted(os.listdir('.')))",
            MOVE.program
        );
        let out = ground.inside(&program).out();
        assert!(!missed(&ground), "{step}");
        assert_eq!(out, "9\n['empty', 'file', 'into', 'stuck']\n", "{step}");
        assert!(listing(&ground, n) == wanted.after, "{step}");
    }
}

#[test]
fn a_rename_is_finished_before_a_lane_ends_under_it() {
    let ground = ground(&MOVE).unwrap();
    let wanted = wanted(&ground, &MOVE);
    fault(&ground, "caller 9");
    let ran = ground.try_inside(&program(&MOVE, 0), &[]);
    assert_eq!(ran.code, Some(137), "{ran}");
    no_trace(&ground);
    assert!(listing(&ground, 0) == wanted.after);
}

#[test]
fn a_notifier_that_is_killed_at_any_moment_is_not_noticed_by_those_who_rename() {
    let ground = ground(&MOVE).unwrap();
    let work = r#"
import os, sys
for turn in range(100000):
    for old, new in (("src", "lib"), ("lib", "src"), ("into", "src/into"), ("src/into", "into"), ("file", "f"), ("f", "file")):
        os.rename(f"c{turn % 90}/{old}", f"c{turn % 90}/{new}")
    if os.path.exists("enough"):
        os.remove("enough")
        break
    print("turn", flush=True)
print("whole")
"#;
    let mut running = ground.start(work);
    running.wait_for("turn", PATIENCE);
    let supervisor = running.pid();
    let ours = fs::read_link("/proc/self/ns/pid").unwrap();
    let inside = fs::read_link("/proc/self/ns/mnt").unwrap();
    // A child of the supervisor in our pid namespace and another mount namespace.
    let find = || {
        procs::descendants(supervisor).into_iter().find(|pid| {
            let link = |name: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
            link("pid").as_ref() == Some(&ours) && link("mnt").is_some_and(|mnt| mnt != inside)
        })
    };
    let mut killed = BTreeSet::new();
    let mut heard = 0;
    until("eight notifiers were killed", PATIENCE, || {
        // One that is killed again and again over one and the same call gives that call up: let each do something.
        let said = running.out_so_far().len();
        if said > heard
            && let Some(pid) = find()
            && killed.insert(pid)
        {
            kill_process(i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap(), Signal::KILL).ok();
            heard = said;
        }
        assert!(!running.over(), "{}", running.err_so_far());
        killed.len() >= 8
    });
    // Through the view: what appears in a lower directory that was looked at may stay unseen.
    ground.env.ok(&ground.project, &["exec", "l", "-q", "--", "/usr/bin/touch", "enough"]);
    let ran = running.wait(PATIENCE).expect_code(0);
    assert!(ran.out().ends_with("whole\n"), "{ran}");
    no_trace(&ground);
    let wanted = ground.plain_tree();
    let without_times = |text: &str| {
        text.lines().map(|line| line.split(" 0o").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(without_times(&ground.tree()), without_times(&wanted));
}
