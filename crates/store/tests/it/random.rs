//! Random work on several lanes of one store, held against a naive model: what every layer was, read whole, whenever a snapshot
//! of it was taken. Steps fail now and then, and machines are started anew.
//!
//! `LANE_TEST_SEED` and `LANE_TEST_OPERATIONS` do the same again, or more of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kernel::Errno;
use store::fsck::check;
use store::gc::{KeepRules, execute, plan};
use store::{SnapshotId, SnapshotKind, Store};
use testkit::Dice;

use crate::edit::{Edit, NAMES, apply};
use crate::model::{Model, assert_same};
use crate::world::{World, open};

/// Everything that is done, edits and all, by each of the two persons that tests run as.
const OPERATIONS: usize = 10_000;
const LANES: [&str; 3] = ["one", "two", "three"];
/// A lane with more snapshots than this that nobody may thin out is dropped and begun anew.
const FULL: usize = 40;
const WAIT: Duration = Duration::from_secs(20);

/// What happens to a layer next.
fn edit(dice: &mut Dice) -> Edit {
    let n = dice.below(NAMES.len());
    match dice.below(26) {
        0..=3 => Edit::File(n, dice.of(&[0, 1, 100, 129, 5000, 70_000])),
        4..=7 => Edit::Dir(n),
        8 => Edit::Symlink(n),
        9 => Edit::Fifo(n),
        10 | 11 => Edit::Whiteout(n),
        12..=14 => Edit::Link(n, dice.below(NAMES.len())),
        15 | 16 => Edit::Remove(n),
        17 | 18 => Edit::Mode(n, dice.of(&[0o644, 0o755, 0o4711, 0o1777, 0o600, 0o555])),
        19 => Edit::Xattr(n, dice.of(&[0, 1, 2])),
        20 => Edit::Opaque(n),
        21 => Edit::Rename(n, dice.below(NAMES.len())),
        22 => Edit::Time(n, dice.of(&[-5, 0, 1, 86_400, 1 << 33])),
        23 | 24 => Edit::Append(n),
        _ => Edit::Sparse(n),
    }
}

/// One lane, and the model of it.
struct Lane {
    world: World,
    /// Every snapshot that there should be, in their order: whether a program may thin it out, and what the layer was.
    taken: Vec<(SnapshotId, bool, Model)>,
    stands: Option<SnapshotId>,
}

impl Lane {
    fn ids(&self) -> Vec<SnapshotId> {
        self.world.store.history(&self.world.lane).expect("history").snapshots().map(|one| one.0).collect()
    }

    fn model_of(&self, id: SnapshotId) -> &Model {
        &self.taken.iter().find(|one| one.0 == id).expect("known").2
    }

    /// What was done has left these snapshots; a new one, if there is, is of `model`.
    fn learn(&mut self, model: &Model) -> Option<SnapshotId> {
        let history = self.world.store.history(&self.world.lane).expect("history");
        let found: Vec<SnapshotId> = history.snapshots().map(|one| one.0).collect();
        let known: Vec<SnapshotId> = self.taken.iter().map(|one| one.0).collect();
        assert!(found.starts_with(&known) && found.len() <= known.len() + 1, "{found:?} after {known:?}");
        let new = found.get(known.len()).copied();
        if let Some(id) = new {
            self.taken.push((id, self.world.kind.is_automatic(), model.clone()));
            self.stands = Some(id);
        }
        assert_eq!(history.position(), self.stands.or(new));
        new
    }

    fn snap(&mut self, kind: SnapshotKind) {
        self.world.kind = kind;
        let before = self.world.model();
        let told = self.world.try_snap().map(|taken| taken.0.id);
        assert_same(&self.world.model(), &before);
        let new = self.learn(&before);
        if let Ok(id) = told {
            assert_eq!(new, Some(id));
        }
    }

    /// Goes back; where that is stopped in the middle, once more.
    fn restore(&mut self, id: SnapshotId) {
        self.world.kind = SnapshotKind::Rescue;
        let before = self.world.model();
        let told = self.world.try_restore(id);
        match told {
            Ok((_, report)) => {
                assert_eq!(report.left, []);
                self.stands = Some(id);
                // The rescue came before the move.
                self.learn_rescue(&before, id);
            }
            Err(_) => {
                self.learn(&before);
                self.healthy();
                let between = self.world.model();
                let (_, report) = self.world.try_restore(id).expect("nothing fails any more");
                assert_eq!(report.left, []);
                self.learn_rescue(&between, id);
            }
        }
        assert_same(&self.world.model(), self.model_of(id));
    }

    fn learn_rescue(&mut self, before: &Model, to: SnapshotId) {
        let found = self.ids();
        assert_eq!(found.len(), self.taken.len() + 1);
        self.taken.push((*found.last().expect("one"), true, before.clone()));
        self.stands = Some(to);
        self.learn(before);
    }

    /// The store as somebody opens it who comes anew.
    fn healthy(&mut self) {
        let root = self.world.dir.parent().expect("a directory above").join("store");
        self.world.store = Store::open(open(&root)).expect("open");
    }

    /// The same, but one step after so many fails.
    fn ailing(&mut self, after: usize, errno: Errno) {
        self.healthy();
        let root = self.world.dir.parent().expect("a directory above").join("store");
        let left = AtomicUsize::new(after);
        self.world.store =
            Store::open(open(&root)).expect("open").with_steps(Box::new(move |step| {
                match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| Some(n.wrapping_sub(1))) {
                    Ok(0) => Err(kernel::Error::new(step.name(), "", errno)),
                    _ => Ok(()),
                }
            }));
    }
}

/// Everything that was done, by name, how often.
type Done = BTreeMap<&'static str, usize>;

struct Work {
    home: World,
    lanes: Vec<Lane>,
    dice: Dice,
    /// Each thing that is done has a number, which is its time too.
    number: i64,
    done: Done,
}

impl Work {
    fn begin(seed: u64) -> Work {
        let home = World::new();
        let begin = |name| Lane { world: home.beside(name), taken: Vec::new(), stands: None };
        let lanes = LANES.map(begin).into_iter().collect();
        Work { home, lanes, dice: Dice::of_seed(seed), number: 0, done: Done::new() }
    }

    fn step(&mut self) {
        self.number += 1;
        let number = self.number;
        let at = self.dice.below(self.lanes.len());
        for lane in &mut self.lanes {
            lane.world.time_ms = number;
        }
        let act = self.dice.below(100);
        let what = match act {
            0..=77 => {
                let edit = edit(&mut self.dice);
                apply(&self.lanes[at].world.layer(), &edit, usize::try_from(number).expect("small"));
                "edit"
            }
            78..=87 => {
                let kind = self.dice.of(&[
                    SnapshotKind::Quiet,
                    SnapshotKind::Exit,
                    SnapshotKind::Quiet,
                    SnapshotKind::Asked,
                ]);
                self.lanes[at].snap(kind);
                "snap"
            }
            88 | 89 => {
                let (after, errno) = (self.dice.below(12), self.dice.of(&[Errno::NOSPC, Errno::IO]));
                self.lanes[at].ailing(after, errno);
                self.lanes[at].snap(SnapshotKind::Quiet);
                self.lanes[at].healthy();
                "snap with a fault"
            }
            90..=94 => self.restore(at, None),
            95 => {
                let fault = (self.dice.below(30), self.dice.of(&[Errno::NOSPC, Errno::IO]));
                self.restore(at, Some(fault))
            }
            96 | 97 => self.collect(),
            98 => {
                let lane = &mut self.lanes[at];
                if self.dice.below(2) == 0 {
                    lane.world.boot = format!("boot at {number}");
                }
                lane.healthy();
                "start anew"
            }
            _ => self.look(at),
        };
        *self.done.entry(what).or_default() += 1;
    }

    fn restore(&mut self, at: usize, fault: Option<(usize, Errno)>) -> &'static str {
        let lane = &mut self.lanes[at];
        if lane.taken.is_empty() {
            lane.snap(SnapshotKind::Asked);
            return "snap";
        }
        let id = lane.taken[self.dice.below(lane.taken.len())].0;
        if let Some((after, errno)) = fault {
            lane.ailing(after, errno);
        }
        lane.restore(id);
        lane.healthy();
        if fault.is_some() { "restore with a fault" } else { "restore" }
    }

    /// Thins out what came by itself, all but the newest so many.
    fn collect(&mut self) -> &'static str {
        let newest = self.dice.below(12);
        let rules = KeepRules { classes: Vec::new(), newest, ..KeepRules::everything(i64::MAX) };
        let layers: Vec<Model> = self.lanes.iter().map(|lane| lane.world.model()).collect();
        for lane in &mut self.lanes {
            let (count, stands) = (lane.taken.len(), lane.stands);
            let mut number = 0;
            lane.taken.retain(|(id, automatic, _)| {
                number += 1;
                !automatic || Some(*id) == stands || count - number < newest
            });
        }
        let planned = plan(&self.home.store, &rules).expect("plan");
        execute(&self.home.store, &planned, self.number, WAIT, false).expect("collect");
        for (lane, before) in self.lanes.iter().zip(layers) {
            assert_same(&lane.world.model(), &before);
            assert_eq!(lane.ids(), lane.taken.iter().map(|one| one.0).collect::<Vec<_>>());
        }
        "gc"
    }

    /// The whole store is sound; a lane that holds much is dropped.
    fn look(&mut self, at: usize) -> &'static str {
        let found = check(&self.home.store, &mut |_| {}).expect("check");
        assert!(found.is_clean(), "{found:#?}");
        let lane = &mut self.lanes[at];
        if lane.taken.len() < FULL {
            return "fsck";
        }
        // Half of what it holds is gone to first.
        for number in 0..lane.taken.len() / 2 {
            lane.restore(lane.taken[number * 2].0);
        }
        self.home.store.forget_lane(&lane.world.lane).expect("forget");
        testkit::env::remove(&lane.world.dir).expect("remove");
        *lane = Lane { world: self.home.beside(LANES[at]), taken: Vec::new(), stands: None };
        "drop"
    }

    fn end(mut self) {
        for lane in &mut self.lanes {
            let ids: Vec<SnapshotId> = lane.taken.iter().map(|one| one.0).collect();
            for id in ids {
                lane.restore(id);
            }
        }
        let found = check(&self.home.store, &mut |_| {}).expect("check");
        assert!(found.is_clean(), "{found:#?}");
    }
}

#[test]
fn after_ten_thousand_operations_every_snapshot_is_what_the_model_says() {
    let mut work = Work::begin(Dice::seed("a store"));
    let count = Dice::count("LANE_TEST_OPERATIONS", OPERATIONS);
    for _ in 0..count {
        work.step();
    }
    eprintln!("{:?}", work.done);
    work.end();
}
