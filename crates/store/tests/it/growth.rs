//! A thousand snapshots of one lane: each costs what it changes, whatever came before it.

use std::fs;
use std::path::Path;

use store::Store;
use store::fsck::check;

use crate::model::assert_same;
use crate::world::{World, open};

const FILES: usize = 300;
const SNAPSHOTS: usize = 1000;
/// Files rewritten for each.
const CHANGED: usize = 3;

/// What this thread has read and written so far, and in how many calls.
fn work_done() -> [u64; 4] {
    let text = fs::read_to_string("/proc/thread-self/io").expect("the kernel's account");
    ["rchar:", "wchar:", "syscr:", "syscw:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().parse().expect("a number")
    })
}

/// Bytes of every file below a directory.
fn bytes(dir: &Path) -> u64 {
    let items = fs::read_dir(dir).expect("list").map(|item| item.expect("item"));
    items
        .map(|item| {
            let meta = item.metadata().expect("stat");
            if meta.is_dir() { bytes(&item.path()) } else { meta.len() }
        })
        .sum()
}

fn text(seed: usize) -> String {
    (0..200).map(|n| format!("{:x} ", (seed * 1000 + n).wrapping_mul(2_654_435_761))).collect()
}

#[test]
fn the_thousandth_snapshot_costs_what_the_tenth_did_and_the_store_grows_by_the_changes_alone() {
    let mut world = World::new();
    let root = world.dir.join("store");
    for dir in 0..10 {
        fs::create_dir(world.layer().join(format!("d{dir}"))).expect("mkdir");
    }
    let file = |world: &World, n: usize| world.layer().join(format!("d{}/f{n}", n % 10));
    for n in 0..FILES {
        fs::write(file(&world, n), text(n)).expect("write");
    }
    world.grow_older();
    world.snap();
    let mut sizes = vec![bytes(&root)];
    let mut costs = Vec::new();
    let mut marked = None;
    let mut changed = 0;
    for number in 0..SNAPSHOTS {
        for n in 0..CHANGED {
            let content = text(FILES + number * CHANGED + n);
            changed += content.len() as u64;
            fs::write(file(&world, (number * 7 + n * 101) % FILES), content).expect("write");
        }
        // As a command does it, which has seen nothing of this store before.
        let before = work_done();
        world.store = Store::open(open(&root)).expect("open");
        let id = world.snap();
        let after = work_done();
        costs.push([0, 1, 2, 3].map(|at| after[at] - before[at]));
        sizes.push(bytes(&root));
        if number == 500 {
            marked = Some((id, world.model()));
        }
    }
    let sum =
        |range: std::ops::Range<usize>, at: usize| costs[range].iter().map(|cost| cost[at]).sum::<u64>();
    for (at, what) in ["bytes read", "bytes written", "reads", "writes"].into_iter().enumerate() {
        // A hundred of each, since now and then one puts parts of the index together for the others.
        let (early, late) = (sum(10..110, at), sum(SNAPSHOTS - 100..SNAPSHOTS, at));
        // A history is read whole each time, which is a line for each snapshot.
        let lines = if at == 0 { 100 * bytes(&root.join("history")) } else { 0 };
        eprintln!("{what}: {early} early, {late} late");
        // The index of many packs has some parts more than that of few.
        let parts = if at == 2 { early / 3 } else { 0 };
        // On a quick machine more files are read twice, because they are younger than their dates can tell apart.
        assert!(late * 10 <= early * 14 + (lines + parts) * 10, "{what}: {early} early, {late} late");
    }
    let grown = |from: usize, to: usize| sizes[to] - sizes[from];
    let (early, late) = (grown(10, 110), grown(SNAPSHOTS - 100, SNAPSHOTS));
    eprintln!("{early} bytes early, {late} late, {} in all for {changed}", grown(0, SNAPSHOTS));
    assert!(late * 10 <= early * 12, "{early} bytes early, {late} late");
    // The changes, and for each the parts of the manifest that name them, a record, and what finds them again.
    assert!(bytes(&root.join("history")) <= SNAPSHOTS as u64 * 400);
    let grown = grown(0, SNAPSHOTS);
    assert!(grown <= changed + SNAPSHOTS as u64 * 10 * 1024, "{grown} for {changed}");
    let (id, model) = marked.expect("halfway");
    world.restore(id);
    assert_same(&world.model(), &model);
    assert!(check(&world.store, &mut |_| {}).expect("check").is_clean());
}
