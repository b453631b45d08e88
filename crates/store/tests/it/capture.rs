//! Capturing: what is in a snapshot, what a second one costs, and what is listed as missing.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use store::{ItemKind, ObjectKind, SnapshotKind};
use tree::TreePath;

use crate::world::{World, open};

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("valid path")
}

fn fill(dir: &Path, count: usize) {
    for n in 0..count {
        let below = dir.join(format!("d{:02}", n % 50));
        fs::create_dir_all(&below).expect("mkdir");
        fs::write(below.join(format!("f{n:05}")), format!("{n} ").repeat(400)).expect("write");
    }
}

fn sizes(dir: &Path) -> (usize, u64) {
    let items: Vec<_> = fs::read_dir(dir).expect("list").map(|item| item.expect("item")).collect();
    (items.len(), items.iter().map(|item| item.metadata().expect("stat").len()).sum())
}

#[test]
fn a_layer_that_has_not_changed_costs_one_record_and_nothing_else() {
    let world = World::new();
    fill(&world.layer(), 300);
    let first = world.snap();
    // Twice, because what was written just before the first one is read once more.
    world.grow_older();
    world.snap();
    let listing = || testkit::listing::Listing::without(&world.dir.join("store"), &["history", "lock"]);
    let before = listing();
    let (snapshot, captured) = world.try_snap().expect("snapshot");
    assert_eq!(captured.read, 0);
    before.assert_same(&listing());
    assert_ne!(snapshot.id, first);
    assert_eq!(snapshot.record.sequence, 3);
    let history = world.store.history(&world.lane).expect("history");
    let tops: Vec<_> = history.snapshots().map(|(_, record)| record.roots[0].top).collect();
    assert!(tops.windows(2).all(|two| two[0] == two[1]));
    assert_eq!(history.position(), Some(snapshot.id));
    assert_eq!(
        history.get(snapshot.id).and_then(|record| record.parent),
        history.snapshots().nth(1).map(|s| s.0)
    );
}

#[test]
fn ten_changed_files_cost_their_own_bytes_and_a_few_nodes() {
    let world = World::new();
    fill(&world.layer(), 2000);
    world.snap();
    let before = sizes(&world.dir.join("store/packs")).1;
    for n in 0..10 {
        fs::write(world.layer().join(format!("d{:02}/f{:05}", n * 3, n * 3)), format!("new {n}").repeat(300))
            .expect("write");
    }
    world.snap();
    let added = sizes(&world.dir.join("store/packs")).1 - before;
    assert!(added < 10 * 2000 + 64 * 1024, "{added}");
}

#[test]
fn equal_layers_have_equal_manifests_whatever_way_they_came_about() {
    let (one, two) = (World::new(), World::new());
    for world in [&one, &two] {
        fill(&world.layer(), 500);
    }
    let status =
        std::process::Command::new("cp").arg("-a").arg(one.layer().join(".")).arg(two.layer()).status();
    assert!(status.expect("cp").success());
    // The other one goes a longer way.
    two.snap();
    fs::remove_dir_all(two.layer().join("d07")).expect("remove");
    two.snap();
    let status =
        std::process::Command::new("cp").arg("-a").arg(one.layer().join(".")).arg(two.layer()).status();
    assert!(status.expect("cp").success());
    let top = |world: &World| world.try_snap().expect("snapshot").0.record.roots[0].top;
    assert_eq!(top(&one), top(&two));
}

#[test]
fn strange_names_and_types_are_stored_and_what_cannot_be_is_listed() {
    let world = World::new();
    let layer = world.layer();
    let long = vec![b'x'; 255];
    let names: Vec<&[u8]> = vec![b"bad\xff", b"new\nline", b"tab\tq", b" lead", b"trail ", b"-rf", &long];
    for name in &names {
        fs::write(layer.join(std::ffi::OsStr::from_bytes(name)), b"x").expect("write");
    }
    let fd = open(&layer);
    kernel::node::mkfifo_at(&fd, b"pipe", 0o640).expect("mkfifo");
    kernel::node::whiteout_at(&fd, b"gone").expect("whiteout");
    std::os::unix::fs::symlink("../\u{e9}", layer.join("link")).expect("symlink");
    let _socket = std::os::unix::net::UnixListener::bind(layer.join("sock")).expect("bind");
    let (snapshot, captured) = world.try_snap().expect("snapshot");
    assert_eq!(captured.gaps, [(path("sock"), "a socket cannot be stored".to_owned())]);
    assert!(snapshot.record.is_partial());
    let manifest = world.store.manifest(captured.manifest);
    for name in names {
        assert!(manifest.get(&TreePath::root().join(name)).expect("get").is_some());
    }
    let kind = |name: &str| manifest.get(&path(name)).expect("get").map(|item| item.kind);
    assert_eq!(kind("pipe"), Some(ItemKind::Fifo));
    assert_eq!(kind("gone"), Some(ItemKind::Whiteout));
    assert_eq!(kind("link"), Some(ItemKind::Symlink("../\u{e9}".as_bytes().to_vec())));
    assert_eq!(kind("sock"), None);
}

#[test]
fn a_tree_deeper_than_any_path_that_is_stored_is_listed_where_it_is_cut_off() {
    let world = World::new();
    let name = vec![b'n'; 250];
    let mut at = open(&world.layer());
    for _ in 0..300 {
        kernel::node::mkdir_at(&at, &name, 0o755).expect("mkdir");
        at = kernel::open::dir_beneath(&at, &name).expect("open");
    }
    fs::write(world.layer().join("beside"), "x").expect("write");
    let (snapshot, captured) = world.try_snap().expect("snapshot");
    assert_eq!(
        (captured.gaps.len(), captured.gaps[0].1.as_str()),
        (1, "what lies below has a path that is too long")
    );
    assert_eq!(captured.entries, 1 + 261 + 1);
    assert!(store::fsck::check(&world.store, &mut |_| {}).expect("check").is_clean());
    world.try_restore(snapshot.id).expect("restore");
    let layer = open(&world.dir);
    use std::os::fd::AsFd as _;
    assert!(tree::remove::remove_tree(layer.as_fd(), b"layer").expect("remove").is_complete());
}

#[test]
fn a_file_written_back_to_its_old_size_and_time_is_read_again() {
    let world = World::new();
    let file = world.layer().join("f");
    fs::write(&file, "one").expect("write");
    let time = fs::metadata(&file).expect("stat").modified().expect("time");
    let a = world.try_snap().expect("snapshot").1.manifest;
    fs::write(&file, "two").expect("write");
    fs::File::options().write(true).open(&file).expect("open").set_modified(time).expect("set time");
    let b = world.try_snap().expect("snapshot").1.manifest;
    let differences: Vec<_> = world.store.manifest(a).diff(&world.store.manifest(b)).expect("diff").collect();
    assert!(differences.iter().any(|d| d.as_ref().expect("read").0 == path("f")));
}

#[test]
fn what_was_known_before_another_boot_is_read_again() {
    let mut world = World::new();
    fill(&world.layer(), 20);
    world.grow_older();
    world.snap();
    assert_eq!(world.try_snap().expect("snapshot").1.read, 0);
    world.boot = "another".to_owned();
    assert_eq!(world.try_snap().expect("snapshot").1.read, 20);
    assert_eq!(world.try_snap().expect("snapshot").1.read, 0);
}

#[test]
fn credentials_are_named_and_skipped_paths_are_not_there() {
    let world = World::new();
    fs::create_dir(world.layer().join("cache")).expect("mkdir");
    fs::write(world.layer().join("cache/x"), "x").expect("write");
    fs::write(world.layer().join(".env"), "TOKEN=1").expect("write");
    let mut writer = world.store.begin().expect("begin");
    let mut capture = store::Capture::begin(&world.store, &world.lane, 0, &world.boot);
    let skip = [path("cache")];
    let pass = store::Pass { skip: &skip, ..store::Pass::at_rest(crate::world::format()) };
    use std::os::fd::AsFd as _;
    capture.pass(&mut writer, open(&world.layer()).as_fd(), &pass).expect("pass");
    assert_eq!(capture.credentials(&|path| path.name() == b".env"), [path(".env")]);
    let captured = capture.finish(&mut writer).expect("finish");
    assert_eq!((captured.entries, captured.gaps.len()), (2, 0));
    drop(writer);
}

#[test]
fn a_second_pass_reads_only_what_changed_since_the_first_and_what_it_was_told_to() {
    use std::collections::HashSet;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new();
    fill(&world.layer(), 200);
    world.grow_older();
    let mut writer = world.store.begin().expect("begin");
    let mut capture = store::Capture::begin(&world.store, &world.lane, 0, &world.boot);
    let layer = open(&world.layer());
    let at_rest = store::Pass::at_rest(crate::world::format());
    capture.pass(&mut writer, layer.as_fd(), &at_rest).expect("pass");
    fs::write(world.layer().join("d01/f00001"), "changed meanwhile").expect("write");
    let mapped = fs::metadata(world.layer().join("d02/f00002")).expect("stat");
    let reread = HashSet::from([(dev(mapped.dev()), mapped.ino())]);
    let pass = store::Pass { reread: &reread, ..at_rest };
    capture.pass(&mut writer, layer.as_fd(), &pass).expect("pass");
    let captured = capture.finish(&mut writer).expect("finish");
    assert_eq!(captured.read, 2);
    let id = writer.finish(&world.lane, crate::world::new_snapshot(&captured)).expect("finish").id;
    captured.remember(&world.store).expect("stamps");
    let manifest = world.store.manifest(captured.manifest);
    let item = manifest.get(&path("d01/f00001")).expect("get").expect("there");
    let ItemKind::File(content) = item.kind else { panic!("no file") };
    assert_eq!(world.store.read(&content).expect("read"), b"changed meanwhile");
    // The mapped file is not believed by the next snapshot either.
    world.grow_older();
    let next = world.try_snap().expect("snapshot");
    assert!(next.1.read >= 1);
    assert_eq!(next.0.record.parent, Some(id));
}

fn dev(raw: u64) -> u64 {
    u64::from(rustix::fs::major(raw)) << 32 | u64::from(rustix::fs::minor(raw))
}

#[test]
fn references_are_prefixes_or_names_and_ambiguity_is_told() {
    let world = World::new();
    let ids: Vec<_> = (0..3).map(|_| world.snap()).collect();
    let mut writer = world.store.begin().expect("begin");
    let manifest = writer.manifest([]).expect("manifest");
    let record = world.store.history(&world.lane).expect("history").get(ids[0]).expect("known").clone();
    let mut new = store::NewSnapshot {
        parent: None,
        time_ms: 5,
        kind: SnapshotKind::Named,
        quiescence: record.quiescence,
        message: b"before the refactoring".to_vec(),
        roots: record.roots,
        gaps: Vec::new(),
        credentials: Vec::new(),
    };
    new.roots[0].top = manifest;
    let named = writer.finish(&world.lane, new.clone()).expect("finish").id;
    let history = world.store.history(&world.lane).expect("history");
    assert_eq!(history.resolve(&ids[1].to_string()[..12]).expect("resolves"), ids[1]);
    assert_eq!(history.resolve("before the refactoring").expect("resolves"), named);
    assert!(matches!(history.resolve("zzzz"), Err(store::Error::NoSuchSnapshot(_))));
    world.store.begin().expect("begin").finish(&world.lane, new).expect("finish");
    let history = world.store.history(&world.lane).expect("history");
    let answer = history.resolve("before the refactoring");
    assert!(matches!(answer, Err(store::Error::Ambiguous { found, .. }) if found.len() == 2));
}

#[test]
fn many_snapshots_are_found_through_merged_indexes_and_without_them() {
    let world = World::new();
    fill(&world.layer(), 60);
    let mut tops = Vec::new();
    for n in 0..70 {
        fs::write(
            world.layer().join(format!("d{:02}/f{:05}", n % 50, n % 50)),
            format!("round {n} ").repeat(40),
        )
        .expect("write");
        tops.push((world.try_snap().expect("snapshot").1.manifest, n));
    }
    assert!(sizes(&world.dir.join("store/index")).0 >= 1);
    let check = |store: &store::Store| {
        for (top, n) in &tops {
            let item =
                store.manifest(*top).get(&path(&format!("d{:02}/f{:05}", n % 50, n % 50))).expect("get");
            let Some(ItemKind::File(content)) = item.map(|item| item.kind) else { panic!("no file") };
            assert_eq!(store.read(&content).expect("read"), format!("round {n} ").repeat(40).as_bytes());
            assert!(matches!(content.object(), Some((ObjectKind::Blob, _))));
        }
    };
    check(&world.store);
    for item in fs::read_dir(world.dir.join("store/index")).expect("list") {
        let file = item.expect("item").path();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
        let mut bytes = fs::read(&file).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0x55);
        fs::write(&file, bytes).expect("damage");
    }
    check(&store::Store::open(open(&world.dir.join("store"))).expect("open"));
    fs::remove_dir_all(world.dir.join("store/index")).expect("remove");
    fs::create_dir(world.dir.join("store/index")).expect("mkdir");
    check(&store::Store::open(open(&world.dir.join("store"))).expect("open"));
}
