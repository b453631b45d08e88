//! Snapshots under a shell with job control: it hears of no stop, its stopped job stays stopped, and Ctrl-Z at any moment
//! works.

use std::time::Duration;

use testkit::{Pty, Who};

use crate::world::{Made, SOON, World, fresh};

/// A shell on a terminal, in a lane that is made for it or in one that is live.
fn shell(world: &World, joins: bool) -> Pty {
    testkit::require::program("bash");
    let args: &[&str] = match joins {
        true => &["exec", "a", "--", "bash", "--norc", "-i"],
        false => &["run", "-q", "-n", "a", "--checkpoints", "none", "--", "bash", "--norc", "-i"],
    };
    let mut pty = Pty::start(&world.env.lane(&world.project, args), world.env.who(), 40, 100);
    type_line(&mut pty, "PS1='<\\j>'\" \"; set +o history");
    pty.wait_for("<0> ", SOON);
    pty
}

fn type_line(pty: &mut Pty, line: &str) {
    pty.send(format!("{line}\r"));
}

fn snaps(world: &World, count: usize) {
    for _ in 0..count {
        world.ok(&["snap", "a"]);
    }
}

fn count(pty: &Pty, word: &str) -> usize {
    let raw = pty.raw();
    raw.windows(word.len()).filter(|window| *window == word.as_bytes()).count()
}

fn each_shell(test: impl Fn(&World, Pty)) {
    for who in Who::all() {
        for joins in [false, true] {
            let world = World::git(fresh(who), Made::Overlay);
            world.lane("a");
            if joins {
                world.ok(&["run", "-d", "-n", "a", "--checkpoints", "none", "--", "sleep", "1000"]);
            }
            test(&world, shell(&world, joins));
            world.run(&["stop", "a"]);
        }
    }
}

#[test]
fn a_shell_hears_nothing_of_a_hundred_snapshots_and_its_jobs_stay_what_they_are() {
    each_shell(|world, mut pty| {
        type_line(&mut pty, "sh -c 'echo here$((0)); exec cat'");
        pty.wait_for("\nhere0", SOON);
        pty.send(b"\x1a");
        pty.wait_for("<1> ", SOON);
        type_line(&mut pty, "sh -c 'while :; do /bin/true; done' &");
        pty.wait_for("<2> ", SOON);
        let stopped = count(&pty, "Stopped");
        assert_eq!(stopped, 1, "{}", pty.screen());
        // In the foreground a job that forks all the time, and one that is a pipeline.
        type_line(
            &mut pty,
            "for i in 1 2 3; do while [ ! -e go$i ]; do /bin/true; done | cat; echo fore$i; done; echo over; jobs",
        );
        // Root's lane has a control group, which no shell can notice.
        let each = if world.env.who() == Who::User { 33 } else { 10 };
        for turn in ["go1", "go2", "go3"] {
            snaps(world, each);
            world.ok(&["exec", "a", "--", "touch", turn]);
        }
        snaps(world, 1);
        pty.wait_for("\nover", SOON);
        pty.wait_for("Running", SOON);
        // The list of jobs says it once more.
        assert_eq!(count(&pty, "Stopped"), stopped + 1, "{}", pty.screen());
        type_line(&mut pty, "kill %2; fg %1");
        // It reads again, and ends with its input.
        pty.send("again\r");
        pty.wait_for("again", SOON);
        pty.send(b"\x04");
        type_line(&mut pty, "exit; exit");
        assert_eq!(pty.wait(SOON), 0);
        let log = world.json(&["log", "a", "--all"]);
        let said = |what: &str| {
            log["snapshots"].as_array().unwrap().iter().filter(|one| one["quiescence"] == what).count()
        };
        assert!(said("frozen") * 2 >= 3 * each, "{} stood, {} did not", said("frozen"), said("running"));
    });
}

#[test]
fn control_z_is_not_lost_at_any_moment_of_a_snapshot() {
    each_shell(|world, mut pty| {
        for turn in 0..12u64 {
            type_line(&mut pty, &format!("sh -c 'echo turn$((0 + {turn})); exec sleep 1000'"));
            pty.wait_for(&format!("\nturn{turn}"), SOON);
            let snap = world.start(&["snap", "a"]);
            std::thread::sleep(Duration::from_millis(4 * turn));
            pty.send(b"\x1a");
            pty.wait_for(&format!("<{}> ", turn + 1), SOON);
            snap.wait(SOON).expect_code(0);
        }
        type_line(&mut pty, "kill %{1..12}; kill -CONT %{1..12}; wait; exit; exit");
        pty.wait(SOON);
    });
}
