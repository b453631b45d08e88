//! The museum: a store of each version, as it was written then, is read, checked, restored and written to.
//! What is in the museum is never made again; a new version adds a room.

use std::fs;
use std::path::{Path, PathBuf};

use store::fsck::check;
use store::{Content, ItemKind, LaneKey, Quiescence, SnapshotId, SnapshotKind, Store};
use tree::TreePath;

use crate::world::{World, open};

fn room(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/museum").join(version)
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("valid path")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("mkdir");
    for item in fs::read_dir(from).expect("list") {
        let item = item.expect("item");
        let to = to.join(item.file_name());
        if item.file_type().expect("type").is_dir() {
            copy(&item.path(), &to);
        } else if item.file_name() != ".keep" {
            fs::write(to, fs::read(item.path()).expect("read")).expect("write");
        }
    }
}

/// A copy of a room: stores are opened where one may write.
fn visit(version: &str) -> (tempfile::TempDir, World) {
    let temp = tempfile::tempdir().expect("temporary directory");
    copy(&room(version), &temp.path().join("store"));
    let mut world = World::at(temp.path());
    world.lane = LaneKey::new("museum").expect("valid");
    (temp, world)
}

/// What the room of version 1 was made of. Not run: the room was made by it once, and is not made again.
fn furnish(world: &World) {
    let layer = world.layer();
    let fd = open(&layer);
    fs::create_dir_all(layer.join("src/deep")).expect("mkdir");
    fs::write(layer.join("src/inline"), "short").expect("write");
    fs::write(layer.join("src/blob"), "a line of text\n".repeat(40)).expect("write");
    fs::hard_link(layer.join("src/blob"), layer.join("src/deep/link")).expect("link");
    std::os::unix::fs::symlink("../blob", layer.join("src/deep/symlink")).expect("symlink");
    kernel::node::mkfifo_at(&fd, b"pipe", 0o600).expect("mkfifo");
    kernel::node::whiteout_at(&fd, b"gone").expect("whiteout");
    kernel::xattr::set_at(&fd, b"src", b"user.note", b"x").expect("xattr");
    let sparse = fs::File::create(layer.join("sparse")).expect("create");
    sparse.set_len(3 << 20).expect("set_len");
    use std::os::unix::fs::FileExt as _;
    sparse.write_at(&[7; 4096], 1 << 20).expect("write");
    for n in 0..80 {
        fs::write(layer.join(format!("src/n{n:03}")), format!("{n}")).expect("write");
    }
}

#[test]
fn a_store_of_version_1_is_read_checked_restored_and_written_to() {
    let (_temp, world) = visit("v1");
    let found = check(&world.store, &mut |_| {}).expect("check");
    assert!(found.is_clean(), "{found:#?}");
    assert_eq!((found.snapshots, found.packs), (2, 2));
    let history = world.store.history(&world.lane).expect("history");
    let ids: Vec<SnapshotId> = history.snapshots().map(|(id, _)| id).collect();
    let told: Vec<String> =
        fs::read_to_string(room("v1").join("../v1.ids")).expect("ids").lines().map(str::to_owned).collect();
    assert_eq!(ids.iter().map(SnapshotId::to_string).collect::<Vec<_>>(), told);
    assert_eq!(history.position(), Some(ids[0]));
    assert_eq!(history.resolve("the second one").expect("resolves"), ids[1]);
    let record = history.get(ids[1]).expect("known");
    assert_eq!(
        (record.kind, record.quiescence, record.sequence),
        (SnapshotKind::Named, Quiescence::Frozen, 2)
    );
    assert_eq!(record.gaps[0].reason, "a socket cannot be stored");
    assert_eq!(record.credentials, [(0, path(".env"))]);
    let manifest = world.store.manifest(history.get(ids[0]).expect("known").roots[0].top);
    let item = |name: &str| manifest.get(&path(name)).expect("get").expect("there");
    let read = |name: &str| match item(name).kind {
        ItemKind::File(content) => world.store.read(&content).expect("read"),
        other => panic!("{other:?}"),
    };
    assert_eq!(read("src/inline"), b"short");
    assert_eq!(read("src/blob"), "a line of text\n".repeat(40).into_bytes());
    assert_eq!(item("src/deep/link").group, Some(path("src/blob")));
    assert_eq!(item("src/deep/symlink").kind, ItemKind::Symlink(b"../blob".to_vec()));
    assert_eq!((item("pipe").kind, item("gone").kind), (ItemKind::Fifo, ItemKind::Whiteout));
    assert_eq!(item("src").xattrs, [(b"user.note".to_vec(), b"x".to_vec())]);
    let ItemKind::File(Content::Parts { size, .. }) = item("sparse").kind else { panic!("not in parts") };
    assert_eq!((size, read("sparse")[(1 << 20) + 5]), (3 << 20, 7));
    // Owners are those of whoever made it; everything else comes back.
    world.try_restore(ids[0]).expect("restore");
    assert_eq!(fs::read(world.layer().join("src/n079")).expect("read"), b"79");
    let now = world.snap();
    world.try_restore(ids[1]).expect("restore");
    assert_eq!(fs::read(world.layer().join("src/inline")).expect("read"), b"changed");
    world.try_restore(now).expect("restore");
    assert_eq!(fs::read(world.layer().join("src/inline")).expect("read"), b"short");
    assert!(check(&world.store, &mut |_| {}).expect("check").is_clean());
}

/// Equal entries must have the id that they had then, or nothing that is stored is found again.
#[test]
fn a_layer_like_that_of_version_1_has_the_manifest_that_it_had() {
    let (_temp, old) = visit("v1");
    let world = World::new();
    let history = old.store.history(&old.lane).expect("history");
    let top = history.snapshots().next().expect("a snapshot").1.roots[0].top;
    let items: Vec<_> =
        old.store.manifest(top).iter().expect("iter").collect::<Result<_, _>>().expect("read");
    assert_eq!(items.len(), 90);
    let mut writer = world.store.begin().expect("begin");
    assert_eq!(writer.manifest(items).expect("manifest"), top);
    drop(writer);
}

#[test]
fn the_furniture_of_version_1_still_fits_the_rooms_description() {
    let world = World::new();
    furnish(&world);
    let (_, captured) = world.try_snap().expect("snapshot");
    assert_eq!((captured.entries, captured.gaps.len()), (90, 0));
}

#[test]
fn every_room_of_the_museum_has_a_test() {
    let mut rooms: Vec<String> = fs::read_dir(room(""))
        .expect("list")
        .map(|item| item.expect("item").file_name().into_string().expect("text"))
        .filter(|name| !name.ends_with(".ids"))
        .collect();
    rooms.sort();
    assert_eq!(rooms, ["v1"]);
    assert!(Store::open(open(&room("v1"))).is_ok());
}
