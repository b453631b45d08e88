//! Random work in a lane, with snapshots, restores, undo, redo and collections in between, held against a naive model: a plain
//! directory in which the same work is done, and a copy of it for each snapshot. `crates/store/tests/it/random.rs` does ten
//! thousand operations on the store alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use testkit::{Dice, Ran, Running, Who};

use crate::view::View;
use crate::world::{Made, SOON, World, fresh, word};

/// The same acts on equal trees, for the same seed.
const WORK: &str = include_str!("../posix/programs/random_work.py");
const PYTHON: &str = "/usr/bin/python3";

/// In each of the ways of making a lane.
const ROUNDS: usize = 12;
/// Edits in a row.
const ACTS: usize = 30;

/// A state that a snapshot is said to hold.
#[derive(Clone)]
struct State {
    /// The plain directory as it was.
    copy: PathBuf,
    /// The lane as a program inside saw it, times and all, where one has looked.
    seen: Option<View>,
    /// A collection may take it.
    automatic: bool,
}

struct Random<'w> {
    world: &'w World,
    dice: Dice,
    seed: String,
    /// The plain directory.
    twin: PathBuf,
    states: BTreeMap<String, State>,
    copies: usize,
    /// The verbs so far, for whoever reads of a failure.
    story: Vec<String>,
}

impl Random<'_> {
    fn host(&self, program: &str, args: &[&str]) -> Ran {
        self.world.env.host(self.world.env.root(), program, args)
    }

    /// Does the same on both sides, and expects the same answers.
    fn work(&mut self, round: usize) {
        let checkpoints = self.dice.of(&["none", "none", "all", "exit"]);
        let before = self.state();
        let script = ["-c", WORK, "work", &self.seed, &round.to_string(), &ACTS.to_string()];
        let options = ["run", "-q", "-n", "a", "--checkpoints", checkpoints, "--", PYTHON];
        let inside = self.world.run(&[&options[..], &script].concat()).expect_code(0);
        let mut command = self.world.env.command(PYTHON);
        command.args(script).current_dir(&self.twin);
        let plain = Running::start(command).wait(SOON).expect_code(0);
        assert_eq!(inside.out(), plain.out(), "{self}");
        self.told(format!("work, --checkpoints {checkpoints}"));
        self.learn(&before);
        self.same("after work");
    }

    fn told(&mut self, what: String) {
        self.story.push(what);
    }

    /// The present state of the plain directory, kept.
    fn state(&mut self) -> State {
        self.copies += 1;
        let copy = self.world.env.root().join(format!("copies/{}", self.copies));
        self.host("cp", &["-a", self.twin.to_str().unwrap(), copy.to_str().unwrap()]);
        State { copy, seen: None, automatic: true }
    }

    /// Snapshots that have come: of the state before what was done, or of the one after it.
    fn learn(&mut self, before: &State) {
        let log = self.world.json(&["log", "a", "--all"]);
        for one in log["snapshots"].as_array().unwrap() {
            let id = word(&one["id"]);
            if self.states.contains_key(id) {
                continue;
            }
            let state = match word(&one["kind"]) {
                "exec" | "start" | "rescue" => before.clone(),
                "exit" | "asked" | "named" => self.state(),
                // In the middle of it: a state that nobody else has seen.
                _ => continue,
            };
            let automatic = !matches!(word(&one["kind"]), "asked" | "named" | "start");
            self.states.insert(id.to_owned(), State { automatic, ..state });
        }
    }

    /// The lane is what the plain directory is.
    fn same(&self, when: &str) {
        let (lane, twin) = (View::of(self.world, "a"), View::of_plain(self.world, &self.twin));
        lane.assert_alike(&twin, &format!("{when}, {self}"));
    }

    fn snap(&mut self) {
        let id = self.world.snap("a");
        self.told(format!("snap {}", &id[..12]));
        let before = self.state();
        self.learn(&before);
        let seen = View::of(self.world, "a");
        let state = self.states.get_mut(&id).unwrap_or_else(|| panic!("{id} is in no log"));
        state.seen = Some(seen);
    }

    /// A verb that goes back, or forth; nothing where there is no way.
    fn go(&mut self, args: &[&str]) -> bool {
        let before = self.state();
        let (told, code) = self.world.told(args);
        self.told(format!("{args:?}: {code}"));
        if code != 0 {
            // No step, and nothing was done.
            assert!(args[0] != "restore" && code == 1, "{self}: {told:#}");
            self.learn(&before);
            self.same("after no step");
            return false;
        }
        let to = word(&told["to"]["id"]).to_owned();
        self.learn(&before);
        if let Some(state) = self.states.get(&to).cloned() {
            let twin = self.twin.to_str().unwrap();
            testkit::env::remove(&self.twin).unwrap();
            self.host("cp", &["-a", state.copy.to_str().unwrap(), twin]);
            self.same("after going back");
            if let Some(seen) = state.seen {
                View::of(self.world, "a").assert_same_but_links(&seen, &format!("to the nanosecond, {self}"));
            }
        } else {
            // One that was taken in the middle of work: back to what is known.
            let known = self.states.keys().next().unwrap().clone();
            return self.go(&["restore", "a", &known, "--yes"]);
        }
        true
    }

    /// A step back, and what it was taken from again.
    fn swing(&mut self) {
        let left = View::of(self.world, "a");
        if self.go(&["undo", "a", "--yes"]) && self.dice.below(2) == 0 {
            self.go(&["redo", "a", "--yes"]);
            View::of(self.world, "a").assert_same_but_links(&left, &format!("to and fro, {self}"));
        }
    }

    fn collect(&mut self) {
        // 1 where what nobody may take is more than the budget.
        let ran = self.world.run(&["gc", "--yes", "--budget", "0"]);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran}, {self}");
        self.told("gc".into());
        let left = self.world.ids("a");
        let gone = |(id, state): &(&String, &State)| !state.automatic && !left.contains(id);
        let lost: Vec<&String> = self.states.iter().filter(gone).map(|(id, _)| id).collect();
        assert!(lost.is_empty(), "{lost:?}, {self}");
        self.states.retain(|id, _| left.contains(id));
        self.same("after a collection");
    }

    fn verb(&mut self) {
        match self.dice.below(10) {
            0..=2 => self.snap(),
            3..=5 => {
                let ids: Vec<String> = self.states.keys().cloned().collect();
                let id = &ids[self.dice.below(ids.len())];
                self.go(&["restore", "a", id, "--yes"]);
            }
            6..=8 => self.swing(),
            _ => self.collect(),
        }
    }
}

impl std::fmt::Display for Random<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let World { made, env, .. } = self.world;
        write!(f, "{made:?} as {:?}, LANE_TEST_SEED={}: {:?}", env.who(), self.seed, self.story)
    }
}

fn one(world: &World) {
    let seed = Dice::seed(&format!("{:?} as {:?}", world.made, world.env.who()));
    let twin = world.env.root().join("p/twin");
    let copies = world.env.root().join("copies");
    for dir in [&twin, &copies] {
        world.env.mkdir(dir);
    }
    for dir in [&world.project, &twin] {
        world.env.host(dir, PYTHON, &["-c", WORK, "fixture", &seed.to_string()]);
    }
    let mut random = Random {
        world,
        dice: Dice::of_seed(seed),
        seed: seed.to_string(),
        twin,
        states: BTreeMap::new(),
        copies: 0,
        story: Vec::new(),
    };
    world.lane("a");
    random.snap();
    for round in 0..Dice::count("LANE_TEST_ROUNDS", ROUNDS) {
        random.work(round);
        random.verb();
    }
    let ids: Vec<String> = random.states.keys().cloned().collect();
    for id in ids {
        random.go(&["restore", "a", &id, "--yes"]);
    }
    world.assert_whole(&format!("after all of it, {random}"));
}

fn worlds(who: Who, made: Made) {
    let env = fresh(who);
    let project = env.make_dir("app");
    one(&World::over(env, project, made));
}

#[test]
fn random_work_and_every_way_back_over_an_overlay_of_an_ordinary_user() {
    worlds(Who::User, Made::Overlay);
}

#[test]
fn random_work_and_every_way_back_over_an_overlay_of_root() {
    if let Some(who) = Who::all().into_iter().find(|who| *who == Who::Root) {
        worlds(who, Made::Overlay);
    }
}

#[test]
fn random_work_and_every_way_back_in_a_copy() {
    worlds(Who::User, Made::Copy);
}
