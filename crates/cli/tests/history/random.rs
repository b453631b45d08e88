//! Random work in lanes, with snapshots, restores, undo, redo, forks and collections in between, held against a naive model: a plain
//! directory in which the same work is done, and a copy of it for each snapshot. `crates/store/tests/it/random.rs` does ten
//! thousand operations on the store alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use testkit::{Dice, Running, Who};

use crate::view::View;
use crate::world::{Made, SOON, World, fresh, word};

/// The same acts on equal trees, for the same seed.
const WORK: &str = include_str!("../posix/programs/random_work.py");
const PYTHON: &str = "/usr/bin/python3";

/// In each of the ways of making a lane.
const ROUNDS: usize = 12;
/// Edits in a row.
const ACTS: usize = 30;
/// Lanes at a time.
const MOST: usize = 4;

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

/// A lane and its plain directory.
struct Side {
    lane: String,
    twin: PathBuf,
    states: BTreeMap<String, State>,
    /// What the lane was when it was made, and what it is without any change, where that is known.
    begun: State,
    base: Option<State>,
}

struct Random<'w> {
    world: &'w World,
    dice: Dice,
    seed: String,
    sides: Vec<Side>,
    /// The one that is at work.
    at: usize,
    copies: usize,
    /// Snapshots of states that nobody else has seen.
    unknown: BTreeSet<String>,
    /// The lane that is live, if one is.
    live: Option<String>,
    /// The verbs so far, for whoever reads of a failure.
    story: Vec<String>,
}

impl Random<'_> {
    fn side(&self) -> &Side {
        &self.sides[self.at]
    }

    fn lane(&self) -> String {
        self.side().lane.clone()
    }

    /// Does the same on both sides, and expects the same answers.
    fn work(&mut self, round: usize) {
        let checkpoints = self.dice.of(&["none", "none", "all", "exit"]);
        let before = self.state();
        let (lane, twin) = (self.lane(), self.side().twin.clone());
        let script = ["-c", WORK, "work", &self.seed, &round.to_string(), &ACTS.to_string()];
        let options = ["run", "-q", "-n", &lane, "--checkpoints", checkpoints, "--", PYTHON];
        let inside = self.world.run(&[&options[..], &script].concat()).expect_code(0);
        let mut command = self.world.env.command(PYTHON);
        command.args(script).current_dir(twin);
        let plain = Running::start(command).wait(SOON).expect_code(0);
        assert_eq!(inside.out(), plain.out(), "{self}");
        self.told(format!("{lane}: work {round}, --checkpoints {checkpoints}"));
        self.learn(&before);
        self.same("after work");
    }

    /// Somebody is in the lane for a while, so that what follows is done beside him.
    fn wake(&mut self) {
        let lane = self.lane();
        self.world.ok(&["run", "-d", "-q", "-n", &lane, "--checkpoints", "none", "--", "sleep", "1000"]);
        self.told(format!("{lane} is live"));
        self.live = Some(lane);
    }

    /// Nobody is in any lane.
    fn rest(&mut self) {
        if let Some(lane) = self.live.take() {
            self.world.ok(&["stop", &lane]);
            self.told(format!("{lane} is at rest"));
        }
    }

    fn told(&mut self, what: String) {
        self.story.push(what);
    }

    /// A copy of a directory.
    fn copy(&self, from: &Path, to: &Path) {
        self.world.env.host(
            self.world.env.root(),
            "cp",
            &["-a", from.to_str().unwrap(), to.to_str().unwrap()],
        );
    }

    /// The present state of the plain directory, kept.
    fn state(&mut self) -> State {
        self.copies += 1;
        let copy = self.world.env.root().join(format!("copies/{}", self.copies));
        self.copy(&self.side().twin, &copy);
        State { copy, seen: None, automatic: true }
    }

    /// Snapshots that have come: of the state before what was done, or of the one after it.
    fn learn(&mut self, before: &State) {
        let log = self.world.json(&["log", &self.lane(), "--all"]);
        for one in log["snapshots"].as_array().unwrap() {
            let (id, kind) = (word(&one["id"]), word(&one["kind"]));
            if self.side().states.contains_key(id) {
                continue;
            }
            let state = match kind {
                "exec" => Some(before.clone()),
                "exit" | "asked" | "named" => Some(self.state()),
                // Of what this one began with; in a live lane, for another one.
                "fork" if !self.story.last().is_some_and(|last| last.starts_with("fork ")) => {
                    Some(self.side().begun.clone())
                }
                "fork" => Some(before.clone()),
                "start" => self.side().base.clone(),
                // In the middle of work: a state that nobody else has seen.
                _ => None,
            };
            let automatic = !matches!(kind, "asked" | "named" | "start");
            if let Some(state) = state {
                self.sides[self.at].states.insert(id.to_owned(), State { automatic, ..state });
            }
        }
    }

    /// A state that was left, and what a live lane came to, whose layer says the same in other words.
    fn learn_rescues(&mut self, rescued: bool, before: &State, to: &str) {
        let log = self.world.json(&["log", &self.lane(), "--all"]);
        let states = &self.side().states;
        let rescues = log["snapshots"].as_array().unwrap().iter().filter(|one| one["kind"] == "rescue");
        let ids = rescues.map(|one| word(&one["id"]).to_owned());
        let mut new: Vec<String> =
            ids.filter(|id| !states.contains_key(id) && !self.unknown.contains(id)).collect();
        // The newest is the first.
        if let Some(left) = new.pop_if(|_| rescued) {
            self.sides[self.at].states.insert(left, State { automatic: true, ..before.clone() });
        }
        match self.side().states.get(to).cloned() {
            Some(reached) => {
                let reached = State { automatic: true, seen: None, ..reached };
                self.sides[self.at].states.extend(new.into_iter().map(|id| (id, reached.clone())));
            }
            None => self.unknown.extend(new),
        }
    }

    /// The lane is what the plain directory is.
    fn same(&self, when: &str) {
        let side = self.side();
        let (lane, twin) = (View::of(self.world, &side.lane), View::of_plain(self.world, &side.twin));
        lane.assert_alike(&twin, &format!("{} {when}, {self}", side.lane));
    }

    fn snap(&mut self) {
        let lane = self.lane();
        let id = self.world.snap(&lane);
        self.told(format!("snap {lane}: {}", &id[..12]));
        let before = self.state();
        self.learn(&before);
        let seen = View::of(self.world, &lane);
        let state = self.sides[self.at].states.get_mut(&id).unwrap_or_else(|| panic!("{id} is in no log"));
        state.seen = Some(seen);
    }

    /// A verb that goes back, or forth; nothing where there is no way.
    fn go(&mut self, verb: &str, more: &[&str]) -> bool {
        let before = self.state();
        let lane = self.lane();
        let args = [&[verb, &lane][..], more, &["--yes"]].concat();
        let (told, code) = self.world.told(&args);
        self.told(format!("{args:?}: {code}"));
        if code != 0 {
            // No step, and nothing was done.
            assert!(verb != "restore" && code == 1, "{self}: {told:#}");
            self.learn_rescues(true, &before, "");
            self.learn(&before);
            self.same("after no step");
            return false;
        }
        let to = word(&told["to"]["id"]).to_owned();
        self.learn_rescues(told["rescued"] == true, &before, &to);
        self.learn(&before);
        let Some(state) = self.side().states.get(&to).cloned() else {
            // One that was taken in the middle of work: back to what is known.
            let known = self.side().states.keys().next().unwrap().clone();
            return self.go("restore", &[&known]);
        };
        let twin = self.side().twin.clone();
        testkit::env::remove(&twin).unwrap();
        self.copy(&state.copy, &twin);
        self.same("after going back");
        if let Some(seen) = state.seen {
            let now = View::of(self.world, &lane);
            now.assert_same_but_links(&seen, &format!("{lane} to the nanosecond, {self}"));
        }
        true
    }

    /// A step back, and what it was taken from again.
    fn swing(&mut self) {
        let lane = self.lane();
        let left = View::of(self.world, &lane);
        if self.go("undo", &[]) && self.dice.below(2) == 0 {
            self.go("redo", &[]);
            let now = View::of(self.world, &lane);
            now.assert_same_but_links(&left, &format!("{lane} to and fro, {self}"));
        }
    }

    /// A new lane of this one, or of what it was.
    fn fork(&mut self) {
        let (parent, number) = (self.lane(), self.story.len());
        let name = format!("fork{number}");
        let twin = self.world.env.root().join(format!("p/twin{number}"));
        let ids: Vec<String> = self.side().states.keys().cloned().collect();
        let at = (self.dice.below(2) == 0).then(|| ids[self.dice.below(ids.len())].clone());
        let before = self.state();
        match &at {
            Some(id) => {
                self.world.ok(&["fork", &parent, &name, "--at", id]);
                self.copy(&self.side().states[id].copy, &twin);
            }
            None => {
                self.world.ok(&["fork", &parent, &name]);
                self.copy(&self.side().twin, &twin);
            }
        }
        self.told(format!("fork {parent} {name} of {at:?}"));
        self.learn(&before);
        self.same("after it was forked");
        let base = self.side().base.clone().filter(|_| self.world.made == Made::Overlay);
        let side = Side { lane: name, twin, states: BTreeMap::new(), begun: before, base };
        self.sides.push(side);
        self.at = self.sides.len() - 1;
        self.sides[self.at].begun = self.state();
        self.same("as a fork");
        self.snap();
        if self.sides.len() > MOST {
            // The first one goes, on whose layers others may stand.
            self.rest();
            let gone = self.sides.remove(0);
            self.at -= 1;
            self.world.gone(&gone.lane);
            self.told(format!("discard {}", gone.lane));
            self.every("after another one was dropped");
        }
    }

    /// Every lane is what its plain directory is.
    fn every(&mut self, when: &str) {
        let at = self.at;
        for number in 0..self.sides.len() {
            self.at = number;
            self.same(when);
        }
        self.at = at;
    }

    fn collect(&mut self) {
        // 1 where what nobody may take is more than the budget.
        let ran = self.world.run(&["gc", "--yes", "--budget", "0"]);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran}, {self}");
        self.told("gc".into());
        for number in 0..self.sides.len() {
            let left = self.world.ids(&self.sides[number].lane);
            let states = &self.sides[number].states;
            let gone = |(id, state): &(&String, &State)| !state.automatic && !left.contains(id);
            let lost: Vec<&String> = states.iter().filter(gone).map(|(id, _)| id).collect();
            assert!(lost.is_empty(), "{lost:?}, {self}");
            self.sides[number].states.retain(|id, _| left.contains(id));
        }
        self.every("after a collection");
    }

    fn verb(&mut self) {
        match self.dice.below(12) {
            0..=2 => self.snap(),
            3..=5 => {
                let ids: Vec<String> = self.side().states.keys().cloned().collect();
                let id = &ids[self.dice.below(ids.len())];
                self.go("restore", &[id]);
            }
            6..=8 => self.swing(),
            9 | 10 => self.fork(),
            _ => self.collect(),
        }
    }
}

impl std::fmt::Display for Random<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let World { made, env, .. } = self.world;
        write!(f, "{made:?} as {:?}, LANE_TEST_SEED={}: {:#?}", env.who(), self.seed, self.story)
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
    let base = State { copy: copies.join("0"), seen: None, automatic: false };
    let begun = base.clone();
    let side = Side { lane: "a".into(), twin, states: BTreeMap::new(), begun, base: Some(base.clone()) };
    let mut random = Random {
        world,
        dice: Dice::of_seed(seed),
        seed: seed.to_string(),
        sides: vec![side],
        at: 0,
        copies: 0,
        unknown: BTreeSet::new(),
        live: None,
        story: Vec::new(),
    };
    random.copy(&random.side().twin, &base.copy);
    world.lane("a");
    random.snap();
    for round in 0..Dice::count("LANE_TEST_ROUNDS", ROUNDS) {
        random.at = random.dice.below(random.sides.len());
        if random.dice.below(3) == 0 {
            random.wake();
        }
        random.work(round);
        random.verb();
        random.rest();
    }
    for at in 0..random.sides.len() {
        random.at = at;
        let ids: Vec<String> = random.side().states.keys().cloned().collect();
        for id in ids {
            random.go("restore", &[&id]);
        }
    }
    random.every("after all of it");
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
