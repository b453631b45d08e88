//! Power that fails at the very moment an id is printed: project and state lie on a disk of their own, whose image is copied as it is
//! then, without anything that is only in memory. The copy is mounted as a machine does that comes up again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use testkit::{Dice, FsKind, Listing, LoopFs, Plain, Running, TestEnv, Who, until};

use crate::world::{Made, SOON, World, once, word};

/// Cuts on each filesystem.
const ROUNDS: usize = 50;
/// Cuts in a row before the disk is looked at: their images are gone again before anybody writes them out.
const BATCH: usize = 10;

/// What a layer was: everything of each entry but what the disk made of it.
#[derive(Clone, PartialEq)]
struct Layer {
    plain: Plain,
    /// Times of content in nanoseconds, owners, and the number of names.
    facts: BTreeMap<Vec<u8>, (i128, (u32, u32), u64)>,
}

impl Layer {
    fn of(layer: &Path) -> Layer {
        let dirs_have_one = |mode: u32, nlink: u64| if mode & 0o170_000 == 0o040_000 { 1 } else { nlink };
        let listing = Listing::of(layer);
        let facts = listing.items().iter().filter(|(path, _)| !path.is_empty()).map(|(path, item)| {
            (path.clone(), (item.mtime_ns, item.owner, dirs_have_one(item.mode, item.nlink)))
        });
        Layer { plain: Plain::of(layer), facts: facts.collect() }
    }

    fn assert_same(&self, other: &Layer, when: &str) {
        let changed: Vec<String> =
            self.plain.changed(&other.plain).iter().map(|path| path.escape_ascii().to_string()).collect();
        assert!(changed.is_empty(), "{when}: {changed:?}");
        let differs = self.facts.iter().find(|(path, facts)| other.facts.get(*path) != Some(facts));
        assert!(differs.is_none() && self.facts.len() == other.facts.len(), "{when}: {differs:?}");
    }
}

/// Changes something of everything in a layer, by hand.
fn work(world: &World, layer: &Path, dice: &mut Dice, round: usize) {
    let text = |len: usize| format!("{round} ").repeat(len / 2).into_bytes();
    for _ in 0..3 {
        let name = format!("f{}", dice.below(8));
        world.env.write(&layer.join(&name), &text(dice.of(&[0, 100, 5000, 40_000])));
    }
    let dir = layer.join(format!("d{}", dice.below(4)));
    if dir.exists() && dice.below(3) == 0 {
        std::fs::remove_dir_all(&dir).unwrap();
    } else {
        world.env.write(&dir.join(format!("n{}", dice.below(5))), &text(300));
        let link = dir.join("link");
        if !link.exists() {
            std::fs::hard_link(layer.join("f0"), link).ok();
        }
    }
    let large = layer.join("large");
    if !large.exists() {
        world.env.write(&large, &vec![7; 1 << 20]);
    }
    let file = std::fs::File::options().write(true).open(large).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &text(4000), (dice.below(200) * 4096) as u64).unwrap();
}

/// Runs `lane --json` and copies the disk as soon as the answer is printed.
fn cut(world: &World, disk: &LoopFs, args: &[&str], image: &Path) -> serde_json::Value {
    let mut running: Running = world.start(&[args, &["--json"]].concat());
    until("an answer", SOON, || running.out_so_far().ends_with("}\n") || running.over());
    disk.copy_image(image);
    let ran = running.wait(SOON);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// What a machine that comes up again is to the store: what was known of files in the last boot is not believed, because after a
/// power failure a file may have the times of its last change without the content. Here it is one and the same boot.
fn another_boot(world: &World) {
    let stamps = std::fs::read_dir(world.env.state().join("store/stamps")).unwrap();
    stamps.for_each(|known| std::fs::remove_file(known.unwrap().path()).unwrap());
}

/// A lane on a disk that is cut off.
struct Disk {
    /// Gone before the disk that it is on.
    world: World,
    disk: LoopFs,
    kind: FsKind,
    layer: PathBuf,
    dice: Dice,
    seed: u64,
    /// Every id that anybody has been told and that no collection has thinned out: whether one may, and what it stands for.
    told: Vec<(String, bool, Layer)>,
}

impl Disk {
    /// Something is done, and power fails as its id is printed.
    fn round(&mut self, round: usize, image: &Path) {
        let Disk { world, disk, layer, dice, told, .. } = self;
        work(world, layer, dice, round);
        let now = Layer::of(layer);
        if round % 10 == 9 {
            cut(world, disk, &["gc", "--yes", "--budget", "0"], image);
            let left = world.ids("a");
            told.retain(|(id, automatic, _)| !automatic || left.contains(id));
        } else if round % 5 == 3 {
            let to = told[dice.below(told.len())].0.clone();
            let answer = cut(world, disk, &["restore", "a", &to, "--yes"], image);
            told.push((word(&answer["from"]["id"]).to_owned(), true, now));
        } else {
            let answer = cut(world, disk, &["snap", "a"], image);
            told.push((word(&answer["id"]).to_owned(), false, now));
        }
    }

    /// Everything that was told before the cut is there.
    fn comes_up(&mut self, round: usize, told: &[(String, bool, Layer)]) {
        let Disk { world, layer, dice, .. } = self;
        let place = format!("{:?}, LANE_TEST_SEED={}, cut {round}", self.kind, self.seed);
        another_boot(world);
        world.assert_whole(&place);
        let ids = world.ids("a");
        let lost: Vec<&String> = told.iter().map(|one| &one.0).filter(|id| !ids.contains(id)).collect();
        assert!(lost.is_empty(), "{place}: {lost:?} of {ids:?}");
        // The layer itself was never synced: what is left of it is anything. The last one, and any other.
        for at in [told.len() - 1, dice.below(told.len())] {
            let (id, _, was) = &told[at];
            world.restore("a", id);
            Layer::of(layer).assert_same(was, &format!("{place}: {id}"));
        }
    }
}

fn rounds(kind: FsKind, mib: u64, who: Who) {
    let Some(disk) = LoopFs::make(kind, mib, who) else { return };
    let seed = Dice::seed(&format!("{kind:?}"));
    let env = TestEnv::inside(&disk.path(), env!("CARGO_BIN_EXE_lane"), who);
    let world = World::git(env, Made::Overlay);
    world.lane("a");
    let shown = world.json(&["show", "a"]);
    let layer = PathBuf::from(word(&shown["lane"]["dir"])).join("0.u");
    world.env.write(&layer.join("f0"), b"0");
    rustix::fs::sync();
    let original = disk.image();
    let mut on = Disk { disk, kind, world, layer, dice: Dice::of_seed(seed), seed, told: Vec::new() };
    for batch in 0..ROUNDS / BATCH {
        let images = tempfile::tempdir().unwrap();
        let image = |round: usize| images.path().join(format!("{round}"));
        let rounds = batch * BATCH..(batch + 1) * BATCH;
        let cuts = rounds.clone().map(|round| {
            on.round(round, &image(round));
            on.told.clone()
        });
        let cuts: Vec<_> = cuts.collect();
        for (round, told) in rounds.zip(cuts) {
            on.disk.swap(&image(round));
            on.comes_up(round, &told);
        }
        on.disk.swap(&original);
    }
}

#[test]
fn power_cut_on_ext4() {
    rounds(FsKind::Ext4, 128, Who::User);
}

#[test]
fn power_cut_on_btrfs() {
    rounds(FsKind::Btrfs, 192, Who::Root);
}

#[test]
fn power_cut_on_xfs() {
    rounds(FsKind::Xfs, 320, Who::User);
}

#[test]
fn a_note_of_a_restore_that_a_power_failure_brings_back_undoes_no_work() {
    once(|world| {
        world.lane("a");
        world.sh("a", "echo 1 > f");
        let first = world.snap("a");
        world.sh("a", "echo 2 > f");
        let back = world.json(&["restore", "a", &first, "--yes"]);
        world.sh("a", "echo 3 > f");
        let home = PathBuf::from(word(&world.json(&["show", "a"])["lane"]["dir"]));
        let from = word(&back["from"]["id"]);
        let note = home.join("restoring");
        // As it was when the lane stood at `from`: the history had an event at its very beginning, and others.
        let text = format!("restoring 1\nfrom {from}\nto {first}\nwhy restore\nafter 0\n");
        world.env.write(&note, text.as_bytes());
        world.assert_whole("with the note");
        world.ok(&["log", "a"]);
        assert!(!note.exists());
        assert_eq!(world.sh("a", "cat f").out(), "3\n");
        // And where a collection has taken the state that was left.
        world.run(&["gc", "--yes", "--budget", "0"]);
        assert!(!world.ids("a").contains(&from.to_owned()));
        world.env.write(&note, text.replace("after 0\n", "").as_bytes());
        world.assert_whole("with the note, and without the state that was left");
        world.ok(&["log", "a"]);
        assert_eq!(world.sh("a", "cat f").out(), "3\n");
    });
}
