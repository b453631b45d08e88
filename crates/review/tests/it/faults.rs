//! A keep that fails, or is killed, at every single step, leaves the origin as it was or finishes.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use kernel::Errno;
use review::Error;
use review::apply::{Faults, Outcome, recover, recover_with};
use tree::TreePath;

use crate::nth::{NO_EXCHANGE, Nth, PLACES, kill_me};
use crate::world::{Shape, World, change_rich, fill_rich, path, write};

/// Fails at a step and tells its number.
struct Until {
    step: &'static str,
    seen: Cell<usize>,
    number: Cell<Option<usize>>,
}

impl Until {
    fn new(step: &'static str) -> Until {
        Until { step, seen: Cell::new(0), number: Cell::new(None) }
    }

    fn number(&self) -> usize {
        self.number.get().expect("the step was reached")
    }
}

impl Faults for Until {
    fn at(&self, step: &'static str, _: &TreePath) -> Result<(), Errno> {
        if step == NO_EXCHANGE {
            return Ok(());
        }
        let now = self.seen.replace(self.seen.get() + 1);
        if step == self.step {
            self.number.set(Some(now));
            return Err(Errno::IO);
        }
        Ok(())
    }
}

#[test]
fn a_failure_at_any_step_leaves_names_inodes_modes_times_and_content_as_before() {
    for beside in PLACES {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        for at in 0.. {
            // Anew: what was taken back has a new status change time, which an old plan would refuse.
            let plan = world.plan_everything();
            let errno = if at % 2 == 0 { Errno::NOSPC } else { Errno::IO };
            let fault = Nth::new(at, || Err(errno));
            let answer = world.execute_with(&plan, beside, &Default::default(), &fault);
            if let Ok(report) = answer {
                // The last steps come after the keep is recorded as done: they fail without undoing it.
                assert!(report.leftover.is_some() || !fault.reached());
                let (base, _) = world.trees();
                recover(&world.journal(), &base).expect("recovered");
                world.assert_equal();
                world.assert_no_residue();
                assert!(at > 60, "only {at} steps");
                break;
            }
            let when = format!("step {at}, beside {beside}: {}", answer.expect_err("failed"));
            assert!(fault.reached(), "{when}");
            before.assert_same(&Shape::of(&world.origin()), &when);
            world.assert_no_residue();
        }
    }
}

#[test]
fn a_file_system_that_cannot_exchange_names_is_served_in_two_steps_and_taken_back_too() {
    struct Without(Option<&'static str>);
    impl Faults for Without {
        fn at(&self, step: &'static str, _: &TreePath) -> Result<(), Errno> {
            if step == NO_EXCHANGE || Some(step) == self.0 { Err(Errno::INVAL) } else { Ok(()) }
        }
    }
    let world = World::new(fill_rich, change_rich);
    let before = Shape::of(&world.origin());
    for step in ["put", "took", "moved", "commit"] {
        world.execute(&world.plan_everything(), &Without(Some(step))).expect_err("failed");
        before.assert_same(&Shape::of(&world.origin()), step);
        world.assert_no_residue();
    }
    // There is no such step without exchanges.
    world.execute(&world.plan_everything(), &Without(Some("swap"))).expect("kept");
    world.assert_equal();
}

#[test]
fn a_failure_while_taking_back_is_told_and_recovered_later() {
    let world = World::new(fill_rich, change_rich);
    let before = Shape::of(&world.origin());
    let plan = world.plan_everything();
    /// Fails at the first swap, and at the third step of the undoing.
    struct Twice(Cell<usize>);
    impl Faults for Twice {
        fn at(&self, step: &'static str, _: &TreePath) -> Result<(), Errno> {
            if step == "undone" {
                self.0.set(self.0.get() + 1);
            }
            if step == "moved" || (step == "undone" && self.0.get() == 3) { Err(Errno::IO) } else { Ok(()) }
        }
    }
    let error = world.execute(&plan, &Twice(Cell::new(0))).expect_err("failed");
    assert!(matches!(error, Error::NotRolledBack { .. }), "{error}");
    assert!(review::apply::is_interrupted(&world.journal()).expect("asked"));
    let (base, _) = world.trees();
    let recovered = recover(&world.journal(), &base).expect("recovered");
    assert_eq!((recovered.outcome, recovered.left.len()), (Outcome::RolledBack, 0));
    before.assert_same(&Shape::of(&world.origin()), "after recovery");
    world.assert_no_residue();
}

/// Runs a keep (or a recovery) of the world in `LANE_TEST_WORLD` and kills itself at step
/// `LANE_TEST_STEP`. Started by the tests below; does nothing without that variable.
#[test]
fn child_that_kills_itself() {
    let Some(top) = std::env::var_os("LANE_TEST_WORLD") else { return };
    let number =
        |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let world = World::open(Path::new(&top));
    let fault = Nth::new(number("LANE_TEST_STEP"), kill_me);
    if std::env::var_os("LANE_TEST_RECOVER").is_some() {
        let (base, _) = world.trees();
        recover_with(&world.journal(), &base, &fault, &mut |_| true).expect("recovered");
    } else {
        let plan = world.plan_everything();
        let beside = std::env::var_os("LANE_TEST_INSIDE").is_none();
        world.execute_with(&plan, beside, &Default::default(), &fault).expect("kept");
    }
}

/// True where the child was killed at the step, false where it came to its end before.
fn child(world: &World, step: usize, beside: bool, recovery: bool) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "faults::child_that_kills_itself"]);
    command.env("LANE_TEST_WORLD", &world.top).env("LANE_TEST_STEP", step.to_string());
    if !beside {
        command.env("LANE_TEST_INSIDE", "1");
    }
    if recovery {
        command.env("LANE_TEST_RECOVER", "1");
    }
    let output = command.output().expect("started");
    if output.status.success() {
        return false;
    }
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(output.status.signal(), Some(9), "{}", String::from_utf8_lossy(&output.stdout));
    true
}

#[test]
fn a_kill_at_any_step_is_recovered_to_before_or_after_and_recovering_twice_changes_nothing() {
    for beside in PLACES {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        let (base, _) = world.trees();
        let (mut rolled_back, mut finished) = (0, 0);
        for at in 0.. {
            if !child(&world, at, beside, false) {
                break;
            }
            match recover(&world.journal(), &base).expect("recovered") {
                recovered if recovered.outcome == Outcome::RolledBack => {
                    assert_eq!(recovered.left, []);
                    before.assert_same(
                        &Shape::of(&world.origin()),
                        &format!("killed at {at}, beside {beside}"),
                    );
                    rolled_back += 1;
                }
                recovered => {
                    assert_eq!(
                        (recovered.outcome, recovered.left.len()),
                        (Outcome::Finished, 0),
                        "killed at {at}"
                    );
                    world.assert_equal();
                    finished += 1;
                }
            }
            world.assert_no_residue();
            assert_eq!(recover(&world.journal(), &base).expect("again").outcome, Outcome::Nothing);
            if finished > 0 {
                // The origin is the lane now: later steps need a world of their own, and are few.
                break;
            }
        }
        assert!(rolled_back > 60, "only {rolled_back} steps");
        assert_eq!(finished, 1);
    }
}

#[test]
fn a_kill_at_any_step_of_the_recovery_is_recovered_too() {
    let world = World::new(fill_rich, change_rich);
    let before = Shape::of(&world.origin());
    let (base, _) = world.trees();
    // The last step before the keep is recorded as done is the one with the most to take back.
    let plan = world.plan_everything();
    let count = Until::new("commit");
    world.execute(&plan, &count).expect_err("failed");
    let last = count.number();
    let mut kills = 0;
    for at in 0.. {
        assert!(child(&world, last, true, false), "the keep is killed at its last step");
        let killed = child(&world, at, true, true);
        let recovered = recover(&world.journal(), &base).expect("recovered");
        assert_eq!(recovered.left, [], "killed in recovery at {at}");
        before.assert_same(&Shape::of(&world.origin()), &format!("killed in recovery at {at}"));
        world.assert_no_residue();
        if !killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 20, "only {kills}");
}

#[test]
fn an_edit_after_the_kill_is_left_alone_and_told() {
    let world = World::new(fill_rich, change_rich);
    let (base, _) = world.trees();
    let plan = world.plan_everything();
    let stop = Until::new("moved");
    world.execute(&plan, &stop).expect_err("failed");
    assert!(child(&world, stop.number(), true, false));
    write(world.origin().join("src/edit.txt"), "the user's edit of the kept file");
    write(world.origin().join("to/there/mine"), "the user's own, in a directory that the keep made");
    let recovered = recover(&world.journal(), &base).expect("recovered");
    assert_eq!(recovered.outcome, Outcome::RolledBack);
    let left: Vec<&TreePath> = recovered.left.iter().map(|left| &left.path).collect();
    assert!(left.contains(&&path("src/edit.txt")) && left.contains(&&path("to")), "{:?}", recovered.left);
    assert_eq!(
        fs::read(world.origin().join("src/edit.txt")).expect("read"),
        b"the user's edit of the kept file"
    );
    assert!(world.origin().join("to/there/mine").exists());
    // Everything else is as before, and what the edited file displaced is still there.
    assert!(world.origin().join("tree/a/b/c/d").exists() && world.origin().join("lib/lost.rs").exists());
    let rescue = recovered.left.iter().find_map(|left| left.rescue.clone()).expect("a rescue");
    let found = fs::read_dir(&rescue).expect("listed").any(|entry| {
        let entry = entry.expect("an entry").path();
        entry.is_file() && fs::read(entry).expect("read") == b"one\ntwo\nthree\n"
    });
    assert!(found, "the old content is in {rescue:?}");
    assert_eq!(recover(&world.journal(), &base).expect("again").outcome, Outcome::Nothing);
}
