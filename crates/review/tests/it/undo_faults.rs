//! Keeping in such a way that it can be undone, and undoing it: failing, killed, and met by an edit of the user at every
//! single step, in one root and in two.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel::Errno;
use review::Error;
use review::apply::{
    Faults, KeptRoot, Naming, NoFaults, Options, Outcome, Places, Root, execute_all, recover, undo,
};

use crate::nth::{Nth, PLACES, kill_me};
use crate::world::{Shape, World, change_rich, fill_rich, write};

#[test]
fn a_failure_at_any_step_of_an_undo_leaves_what_was_kept() {
    for beside in PLACES {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        world.keep_recorded("k1", beside, &NoFaults).expect("kept");
        let kept = Shape::of(&world.origin());
        for at in 0.. {
            let errno = if at % 2 == 0 { Errno::NOSPC } else { Errno::IO };
            let fault = Nth::new(at, || Err(errno));
            let answer = world.undo("k1", &fault);
            let when = format!("step {at}, beside {beside}: {:?}", answer.as_ref().err());
            if answer.is_ok() {
                // The last steps come after it is recorded as done: they fail without changing that.
                let (base, _) = world.trees();
                recover(&world.journal(), &base).expect("recovered");
                before.assert_undone(&Shape::of(&world.origin()), &kept, true, &when);
                world.assert_no_residue();
                assert!(at > 50, "only {at} steps");
                break;
            }
            assert!(fault.reached(), "{when}");
            kept.assert_same(&Shape::of(&world.origin()), &when);
            world.assert_no_residue();
        }
    }
}

/// What the child does.
const KEEP: &str = "keep";
const UNDO: &str = "undo";
const KEEP_TWO: &str = "keep two";
const UNDO_TWO: &str = "undo two";

/// Does what `LANE_TEST_UNDO` says in the world `LANE_TEST_WORLD` and kills itself at step `LANE_TEST_STEP`. Started by
/// the tests below; does nothing without that variable.
#[test]
fn child_that_kills_itself() {
    let Ok(what) = std::env::var("LANE_TEST_UNDO") else { return };
    let world = World::open(Path::new(&std::env::var_os("LANE_TEST_WORLD").expect("a world")));
    let step = std::env::var("LANE_TEST_STEP").expect("a step").parse().expect("a number");
    let beside = std::env::var_os("LANE_TEST_INSIDE").is_none();
    let fault = Nth::new(step, kill_me);
    match what.as_str() {
        KEEP => world.keep_recorded("k1", beside, &fault).expect("kept"),
        UNDO => drop(world.undo("k1", &fault).expect("undone")),
        KEEP_TWO => Two(world).keep(&fault),
        UNDO_TWO => Two(world).undo(&fault),
        other => panic!("{other}"),
    }
}

/// True where the child was killed at the step, false where it came to its end before.
fn child(world: &World, what: &str, step: usize, beside: bool) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "undo_faults::child_that_kills_itself"]);
    command.env("LANE_TEST_WORLD", &world.top).env("LANE_TEST_STEP", step.to_string());
    command.env("LANE_TEST_UNDO", what);
    if !beside {
        command.env("LANE_TEST_INSIDE", "1");
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
fn a_keep_that_can_be_undone_is_killed_at_any_step_and_is_whole_or_did_not_happen() {
    for beside in PLACES {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        let (base, _) = world.trees();
        let (mut rolled_back, mut finished) = (0, 0);
        for at in 0.. {
            if !child(&world, KEEP, at, beside) {
                break;
            }
            let when = format!("killed at {at}, beside {beside}");
            let recovered = recover(&world.journal(), &base).expect("recovered");
            assert_eq!((recovered.left.len(), recovered.is_undo), (0, false), "{when}");
            if recovered.outcome == Outcome::RolledBack {
                before.assert_same(&Shape::of(&world.origin()), &when);
                assert!(review::apply::kept(&world.journal()).expect("listed").is_empty(), "{when}");
                assert!(!world.journal().join("old.k1").exists(), "{when}");
                rolled_back += 1;
            } else {
                world.assert_equal();
                let kept = Shape::of(&world.origin());
                finished += 1;
                // What was killed after the word was said can be undone like any other.
                world.undo("k1", &NoFaults).expect("undone");
                before.assert_undone(&Shape::of(&world.origin()), &kept, !beside, &when);
                break;
            }
            world.assert_no_residue();
        }
        assert!(rolled_back > 60 && finished == 1, "{rolled_back} {finished}");
    }
}

#[test]
fn an_undo_is_killed_at_any_step_and_is_whole_or_did_not_happen() {
    for beside in PLACES {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        world.keep_recorded("k1", beside, &NoFaults).expect("kept");
        let kept = Shape::of(&world.origin());
        let (base, _) = world.trees();
        let (mut rolled_back, mut finished) = (0, false);
        for at in 0.. {
            if !child(&world, UNDO, at, beside) {
                break;
            }
            let when = format!("killed at {at}, beside {beside}");
            let recovered = recover(&world.journal(), &base).expect("recovered");
            assert_eq!(recovered.left, [], "{when}");
            world.assert_no_residue();
            if recovered.outcome == Outcome::Finished {
                before.assert_undone(&Shape::of(&world.origin()), &kept, !beside, &when);
                assert!(matches!(world.undo("k1", &NoFaults), Err(Error::AlreadyUndone { .. })), "{when}");
                assert_eq!(fs::read_dir(world.beside()).expect("listed").count(), 0, "{when}");
                assert!(!world.journal().join("old.k1").exists(), "{when}");
                finished = true;
                break;
            }
            // Before its first word nothing is there to be recovered.
            kept.assert_same(&Shape::of(&world.origin()), &when);
            rolled_back += 1;
        }
        assert!(rolled_back > 40 && finished, "{rolled_back}");
    }
}

/// A world and a second one in it, whose roots are written together.
struct Two(World);

impl Two {
    fn new() -> Two {
        let world = World::new(fill_rich, change_rich);
        World::at(
            &world.top.join("second"),
            |o| {
                write(o.join("edit"), "old");
                write(o.join("gone"), "gone");
            },
            |l| {
                write(l.join("edit"), "new");
                fs::remove_file(l.join("gone")).expect("removed");
                write(l.join("made/file"), "made");
            },
        );
        Two(world)
    }

    fn second(&self) -> World {
        World::open(&self.0.top.join("second"))
    }

    fn shapes(&self) -> (Shape, Shape) {
        (Shape::of(&self.0.origin()), Shape::of(&self.second().origin()))
    }

    fn try_keep(&self, faults: &dyn Faults) -> review::Result<()> {
        let (one, two) = (&self.0, self.second());
        let plans = (one.plan_everything(), two.plan_everything());
        let trees = (one.trees(), two.trees());
        let paths = (one.origin(), two.origin());
        let (places_one, places_two) = ((one.beside(), one.journal()), (two.beside(), two.journal()));
        let roots = [
            Root {
                plan: &plans.0,
                origin: trees.0.0.fd(),
                path: &paths.0,
                lane: &trees.0.1,
                places: Places { staging: Some(&places_one.0), journal: &places_one.1 },
            },
            Root {
                plan: &plans.1,
                origin: trees.1.0.fd(),
                path: &paths.1,
                lane: &trees.1.1,
                places: Places { staging: Some(&places_two.0), journal: &places_two.1 },
            },
        ];
        execute_all(&roots, Some(Naming { id: "k1", about: b"" }), &Options::default(), faults, &mut |_| true)
            .map(drop)
    }

    fn keep(&self, faults: &dyn Faults) {
        self.try_keep(faults).expect("kept");
    }

    fn try_undo(&self, faults: &dyn Faults) -> review::Result<()> {
        let (one, two) = (&self.0, self.second());
        let trees = (one.trees().0, two.trees().0);
        let journals = (one.journal(), two.journal());
        let roots = [
            KeptRoot { origin: trees.0.fd(), journal: &journals.0 },
            KeptRoot { origin: trees.1.fd(), journal: &journals.1 },
        ];
        undo("k1", &roots, faults, &mut |_| true).map(drop)
    }

    fn undo(&self, faults: &dyn Faults) {
        self.try_undo(faults).expect("undone");
    }

    /// What the next command does that comes by the first root.
    fn recover(&self) -> Outcome {
        let recovered = recover(&self.0.journal(), &self.0.trees().0).expect("recovered");
        assert_eq!(recovered.left, []);
        // One that comes by the second finds it done, or goes by the first one's word.
        let second = self.second();
        recover(&second.journal(), &second.trees().0).expect("recovered");
        self.0.assert_no_residue();
        second.assert_no_residue();
        recovered.outcome
    }
}

#[test]
fn two_roots_are_kept_and_undone_together_or_not_at_all_whatever_fails() {
    let two = Two::new();
    let before = two.shapes();
    for at in 0.. {
        let fault = Nth::new(at, || Err(Errno::IO));
        let answer = two.try_keep(&fault);
        if answer.is_ok() {
            two.recover();
            break;
        }
        assert!(fault.reached());
        before.0.assert_same(&two.shapes().0, &format!("first, step {at}"));
        before.1.assert_same(&two.shapes().1, &format!("second, step {at}"));
    }
    two.0.assert_equal();
    two.second().assert_equal();
    let kept = two.shapes();
    for at in 0.. {
        let fault = Nth::new(at, || Err(Errno::NOSPC));
        let answer = two.try_undo(&fault);
        if answer.is_ok() {
            two.recover();
            break;
        }
        assert!(fault.reached(), "{answer:?}");
        kept.0.assert_same(&two.shapes().0, &format!("first, step {at} of the undo"));
        kept.1.assert_same(&two.shapes().1, &format!("second, step {at} of the undo"));
    }
    before.0.assert_undone(&two.shapes().0, &kept.0, false, "first");
    before.1.assert_undone(&two.shapes().1, &kept.1, false, "second");
}

#[test]
fn two_roots_are_kept_and_undone_together_or_not_at_all_whenever_it_is_killed() {
    let two = Two::new();
    let before = two.shapes();
    let mut kept = None;
    let mut kills = 0;
    for at in 0.. {
        if !child(&two.0, KEEP_TWO, at, true) {
            break;
        }
        kills += 1;
        let when = format!("killed at {at}");
        if two.recover() == Outcome::Finished {
            two.0.assert_equal();
            two.second().assert_equal();
            kept = Some(two.shapes());
            break;
        }
        before.0.assert_same(&two.shapes().0, &when);
        before.1.assert_same(&two.shapes().1, &when);
    }
    assert!(kills > 80, "{kills}");
    let kept = kept.expect("one came after the word was said");
    let mut finished = false;
    for at in 0.. {
        if !child(&two.0, UNDO_TWO, at, true) {
            break;
        }
        let when = format!("the undo killed at {at}");
        if two.recover() == Outcome::Finished {
            before.0.assert_undone(&two.shapes().0, &kept.0, false, &when);
            before.1.assert_undone(&two.shapes().1, &kept.1, false, &when);
            finished = true;
            break;
        }
        kept.0.assert_same(&two.shapes().0, &when);
        kept.1.assert_same(&two.shapes().1, &when);
    }
    assert!(finished);
}

/// At step `at`, whatever it is, the user writes into `file`.
fn edit_at(at: usize, world: &World, file: &'static str) -> Nth<impl Fn() -> Result<(), Errno> + use<>> {
    let path = world.origin().join(file);
    Nth::new(at, move || {
        // As an editor that writes in place, and only where the file is there at that moment.
        if let Ok(mut file) = fs::File::options().append(true).open(&path) {
            use std::io::Write as _;
            file.write_all(b"the user's word\n").expect("written");
        }
        Ok(())
    })
}

/// The user's word must be in the origin, or be among what the keep displaced and can be undone to.
fn has_word(world: &World, file: &str) -> bool {
    fs::read(world.origin().join(file))
        .is_ok_and(|content| content.windows(15).any(|part| part == b"the user's word"))
}

#[test]
fn an_edit_of_the_user_at_any_step_of_a_keep_stops_it_or_stays() {
    const FILE: &str = "src/edit.txt";
    let mut stopped = 0;
    for at in 0.. {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        let fault = edit_at(at, &world, FILE);
        let answer = world.keep_recorded("k1", true, &fault);
        if !fault.reached() {
            assert!(at > 60);
            break;
        }
        let when = format!("step {at}: {:?}", answer.as_ref().err());
        if answer.is_err() {
            stopped += 1;
            assert!(has_word(&world, FILE), "{when}");
            // All but the edited file is as before.
            fs::write(world.origin().join(FILE), "one\ntwo\nthree\n").expect("written");
            let now = Shape::of(&world.origin());
            before.assert_undone(&now, &Shape::default(), false, &when);
        } else {
            // It came after the last look: either to what was kept, or to nothing.
            assert!(has_word(&world, FILE), "{when}");
            fs::write(world.origin().join(FILE), "one\nTWO\nthree\n").expect("written");
            world.assert_equal();
        }
        world.assert_no_residue();
    }
    assert!(stopped > 20, "{stopped}");
}

#[test]
fn an_edit_of_the_user_at_any_step_of_an_undo_stops_it_or_stays() {
    const FILE: &str = "src/edit.txt";
    let mut stopped = 0;
    for at in 0.. {
        let world = World::new(fill_rich, change_rich);
        let before = Shape::of(&world.origin());
        world.keep_recorded("k1", true, &NoFaults).expect("kept");
        let kept = Shape::of(&world.origin());
        let fault = edit_at(at, &world, FILE);
        let answer = world.undo("k1", &fault);
        if !fault.reached() {
            assert!(at > 40);
            break;
        }
        let when = format!("step {at}: {:?}", answer.as_ref().err());
        assert!(has_word(&world, FILE), "{when}");
        if answer.is_err() {
            stopped += 1;
            fs::write(world.origin().join(FILE), "one\nTWO\nthree\n").expect("written");
            world.assert_equal();
            kept.assert_undone(&Shape::of(&world.origin()), &Shape::default(), false, &when);
        } else {
            fs::write(world.origin().join(FILE), "one\ntwo\nthree\n").expect("written");
            before.assert_undone(&Shape::of(&world.origin()), &kept, false, &when);
        }
        world.assert_no_residue();
    }
    assert!(stopped > 20, "{stopped}");
}
