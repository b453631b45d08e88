//! Real filesystems: shared blocks where there are any, full disks, and power that fails the moment an id is told.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use store::fsck::check;
use store::{SnapshotId, Store};
use testkit::loopfs::{FsKind, LoopFs};
use testkit::who::Who;

use crate::model::{Model, assert_same};
use crate::world::{World, open};

/// Every kind with a size that it can be made in.
const KINDS: [(FsKind, u64); 4] =
    [(FsKind::Ext4, 96), (FsKind::Btrfs, 160), (FsKind::Xfs, 320), (FsKind::Tmpfs, 96)];

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn fill(layer: &Path) {
    fs::create_dir_all(layer.join("d")).expect("mkdir");
    for n in 0..40 {
        fs::write(layer.join(format!("d/f{n}")), noise(100 * n, n as u64)).expect("write");
    }
    fs::write(layer.join("large"), noise(5 << 20, 7)).expect("write");
    let sparse = fs::File::create(layer.join("sparse")).expect("create");
    sparse.set_len(40 << 20).expect("set_len");
    sparse.write_at(&noise(300_000, 9), 8 << 20).expect("write");
    sparse.write_at(&noise(3, 9), 39 << 20).expect("write");
}

fn allocated(dir: &Path) -> u64 {
    let items = fs::read_dir(dir).expect("list").map(|item| item.expect("item"));
    items
        .map(|item| {
            let meta = item.metadata().expect("stat");
            if meta.is_dir() { allocated(&item.path()) } else { meta.blocks() * 512 }
        })
        .sum()
}

fn clean(store: &Store) {
    let found = check(store, &mut |_| {}).expect("check");
    assert!(found.is_clean(), "{found:#?}");
}

#[test]
fn large_and_sparse_files_come_back_with_their_holes_on_every_filesystem() {
    let mut manifests = Vec::new();
    for (kind, mib) in KINDS {
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = World::at(&disk.path());
        fill(&world.layer());
        let first = world.snap();
        let whole = world.model();
        let shares = matches!(kind, FsKind::Btrfs | FsKind::Xfs);
        assert_eq!(
            fs::read_dir(disk.path().join("store/large")).expect("list").count() > 0,
            shares,
            "{kind:?}"
        );
        let before = allocated(&disk.path().join("store"));
        let large = fs::File::options().write(true).open(world.layer().join("large")).expect("open");
        large.write_at(&noise(4096, 11), 3 << 20).expect("write");
        large.sync_all().expect("sync");
        let second = world.snap();
        if !shares {
            // A shared file counts whole in each of its names, so that this can be told only where parts are copied.
            let more = allocated(&disk.path().join("store")) - before;
            assert!(more < 700 * 1024, "{kind:?}: {more}");
        }
        let changed = world.model();
        world.restore(first);
        assert_same(&world.model(), &whole);
        world.restore(second);
        assert_same(&world.model(), &changed);
        clean(&world.store);
        let history = world.store.history(&world.lane).expect("history");
        let manifest = world.store.manifest(history.get(first).expect("known").roots[0].top);
        let item = manifest.get(&tree::TreePath::new("large").expect("valid")).expect("get").expect("there");
        manifests.push(item.kind);
    }
    // What a large file is called does not depend on how it is kept.
    assert!(manifests.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn a_store_through_a_mapping_in_memory_is_seen_though_it_has_no_date() {
    use std::os::unix::fs::MetadataExt as _;
    let Some(disk) = LoopFs::make(FsKind::Tmpfs, 16, Who::Root) else { return };
    let world = World::at(&disk.path());
    let file = world.layer().join("mapped");
    fs::write(&file, vec![b'a'; 8192]).expect("write");
    // Another program maps it, and stores into it when it is told to.
    let script = "import mmap,sys\nf=open(sys.argv[1],'r+b');m=mmap.mmap(f.fileno(),0);m[0:1]=b'b'\n\
                  print('ready',flush=True);sys.stdin.readline();m[1:2]=b'c';print('done',flush=True);sys.stdin.readline()";
    let mut child = std::process::Command::new(testkit::require::program("python3"))
        .args(["-c", script])
        .arg(&file)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    use std::io::{BufRead as _, Write as _};
    let mut said = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut tell = child.stdin.take().expect("piped");
    assert_eq!(said.next().expect("a line").expect("text"), "ready");
    world.grow_older();
    world.snap();
    let before = fs::metadata(&file).expect("stat");
    writeln!(tell).expect("tell");
    assert_eq!(said.next().expect("a line").expect("text"), "done");
    let after = fs::metadata(&file).expect("stat");
    assert_eq!((before.ctime(), before.ctime_nsec()), (after.ctime(), after.ctime_nsec()));
    let id = world.snap();
    writeln!(tell).expect("tell");
    assert!(child.wait().expect("ends").success());
    fs::write(&file, "else").expect("write");
    world.restore(id);
    assert_eq!(fs::read(&file).expect("read")[..3], *b"bca");
}

#[test]
fn a_shared_file_that_was_damaged_is_named_and_does_not_come_back_wrong() {
    for (kind, mib) in [(FsKind::Btrfs, 160), (FsKind::Xfs, 320)] {
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = World::at(&disk.path());
        fs::write(world.layer().join("large"), noise(2 << 20, 7)).expect("write");
        let id = world.snap();
        fs::write(world.layer().join("large"), "small now").expect("write");
        let front = fs::read_dir(disk.path().join("store/large"))
            .expect("list")
            .next()
            .expect("one")
            .expect("item")
            .path();
        let file = fs::read_dir(front).expect("list").next().expect("one").expect("item").path();
        testkit::who::Who::Root.own(&file);
        let file = fs::File::options().write(true).open(&file).expect("root may");
        file.write_at(b"damage", 1 << 20).expect("write");
        let found = check(&world.store, &mut |_| {}).expect("check");
        assert!(!found.is_clean());
        let told = format!("{found:?}");
        assert!(told.contains("large/") && told.contains("\"large\""), "{told}");
        assert!(matches!(world.try_restore(id), Err(store::Error::Damaged(_))));
        assert_eq!(fs::read_to_string(world.layer().join("large")).expect("read"), "small now");
    }
}

#[test]
fn a_full_disk_ends_a_snapshot_and_loses_nothing() {
    for (kind, mib) in [(FsKind::Ext4, 24), (FsKind::Tmpfs, 16), (FsKind::Btrfs, 120)] {
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = World::at(&disk.path());
        fs::write(world.layer().join("f"), noise(200_000, 1)).expect("write");
        let first = world.snap();
        let whole = world.model();
        fs::write(world.layer().join("g"), noise(900_000, 2)).expect("write");
        fs::write(world.layer().join("h"), noise(900_000, 3)).expect("write");
        // All that is left, but for a little.
        let ballast = fs::File::create(disk.path().join("ballast")).expect("create");
        let mut at = 0;
        for size in [1 << 20, 64 << 10, 4096] {
            while ballast.write_at(&noise(size, at + 1), at).is_ok_and(|put| put == size) {
                at += size as u64;
            }
        }
        ballast.set_len(at.saturating_sub(300 << 10)).expect("set_len");
        ballast.sync_all().ok();
        drop(ballast);
        let answer = world.try_snap();
        assert!(matches!(&answer, Err(error) if error.is_full()), "{kind:?}: {answer:?}");
        let history = world.store.history(&world.lane).expect("history");
        assert_eq!(history.snapshots().map(|s| s.0).collect::<Vec<_>>(), [first]);
        clean(&world.store);
        fs::remove_file(disk.path().join("ballast")).expect("remove");
        // Space comes back when the filesystem has written down that it is free.
        rustix::fs::sync();
        let second = world.snap();
        world.restore(first);
        assert_same(&world.model(), &whole);
        world.restore(second);
        clean(&world.store);
    }
}

#[test]
fn power_that_fails_when_an_id_is_told_loses_nothing_that_it_stands_for() {
    const ROUNDS: u64 = 6;
    for (kind, mib) in KINDS.into_iter().filter(|(kind, _)| *kind != FsKind::Tmpfs) {
        let images = tempfile::tempdir().expect("temporary directory");
        let mut told: Vec<(SnapshotId, Model)> = Vec::new();
        let Some(disk) = LoopFs::make(kind, mib, Who::Root) else { return };
        let world = World::at(&disk.path());
        fill(&world.layer());
        rustix::fs::sync();
        for round in 0..ROUNDS {
            fs::write(world.layer().join("d/f3"), noise(5000, round + 100)).expect("write");
            fs::write(world.layer().join(format!("d/new{round}")), noise(20_000, round)).expect("write");
            let large = fs::File::options().write(true).open(world.layer().join("large")).expect("open");
            large.write_at(&noise(10_000, round), round * 500_000).expect("write");
            let (snapshot, _) = world.try_snap().expect("snapshot");
            disk.copy_image(&images.path().join(format!("{round}")));
            told.push((snapshot.id, world.model()));
        }
        drop(world);
        drop(disk);
        for round in 0..ROUNDS as usize {
            let image = images.path().join(format!("{round}"));
            let Some(disk) = LoopFs::of_image(kind, &image) else { return };
            let mut world = World::at(&disk.path());
            world.boot = format!("boot after round {round}");
            clean(&world.store);
            let history = world.store.history(&world.lane).expect("history");
            assert_eq!(history.position(), Some(told[round].0), "{kind:?}");
            // The layer itself was never synced: what is left of it is anything.
            for (id, model) in &told[..=round] {
                let (_, report) = world.try_restore(*id).expect("restore");
                assert_eq!(report.left, []);
                assert_same(&world.model(), model);
            }
            drop(world);
            drop(disk);
            fs::remove_file(&image).expect("remove");
        }
        open(images.path());
    }
}
