//! A snapshot as a tree: over its base it shows what the layer on disk shows, and what a mount would show.

use std::fs;
use std::os::fd::AsFd as _;

use kernel::{bytes, node, xattr};
use tree::compare::{CompareOptions, compare};
use tree::{ChangeKind, DirTree, Source, TreePath, Union};

use crate::world::{World, format, open};

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("valid path")
}

/// Everything that a source shows, as lines.
fn listing(source: &dyn Source) -> Vec<String> {
    let mut lines = Vec::new();
    let mut dirs = vec![TreePath::root()];
    while let Some(dir) = dirs.pop() {
        let listed = source.list_entries(&dir).expect("list");
        let names = source.list(&dir).expect("list");
        assert_eq!(listed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
        for (name, entry) in listed {
            let at = dir.join(&name);
            let found = source.entry(&at).expect("entry").expect("there");
            assert_eq!(found.kind, entry.kind);
            let content = if entry.is_file() {
                String::from_utf8_lossy(&bytes::read_all(source.open(&at).expect("open")).expect("read"))
                    .into_owned()
            } else {
                entry.target.escape_ascii().to_string()
            };
            let xattrs = if entry.is_dir() || entry.is_file() {
                source.xattrs(&at).expect("xattrs")
            } else {
                Vec::new()
            };
            let (mode, mtime) =
                if entry.kind == tree::Kind::Symlink { (0, entry.mtime) } else { (entry.mode, entry.mtime) };
            lines.push(format!(
                "{at:?} {:?} {mode:o} {mtime:?} {content} {xattrs:?} {}",
                entry.kind,
                if entry.is_dir() { 0 } else { entry.nlink }
            ));
            if entry.is_dir() {
                dirs.push(at);
            }
        }
    }
    lines.sort();
    lines
}

fn make() -> (World, std::path::PathBuf) {
    let world = World::new();
    let base = world.dir.join("base");
    for file in ["d/one", "d/two", "d/sub/x", "gone/x", "f", "opaque/old", "deep/a/b/c/d"] {
        fs::create_dir_all(base.join(file).parent().expect("parent")).expect("mkdir");
        fs::write(base.join(file), format!("base {file}")).expect("write");
    }
    let layer = world.layer();
    for file in ["d/two", "d/three", "opaque/new", "d/sub/y/z", "deep/a/new"] {
        fs::create_dir_all(layer.join(file).parent().expect("parent")).expect("mkdir");
        fs::write(layer.join(file), format!("layer {file}").repeat(50)).expect("write");
    }
    fs::hard_link(layer.join("d/two"), layer.join("d/link")).expect("link");
    std::os::unix::fs::symlink("two", layer.join("d/s")).expect("symlink");
    node::whiteout_at(open(&layer), b"gone").expect("whiteout");
    node::whiteout_at(open(&layer.join("d")), b"one").expect("whiteout");
    xattr::set(open(&layer.join("opaque")), &format().mark(b"opaque"), b"y").expect("mark");
    xattr::set_at(open(&layer), b"d", b"user.note", b"x").expect("xattr");
    (world, base)
}

#[test]
fn a_snapshot_over_its_base_shows_what_the_layer_over_it_shows() {
    let (world, base) = make();
    let (_, captured) = world.try_snap().expect("snapshot");
    let base_tree = || Box::new(DirTree::open(&base).expect("open"));
    let union = Union::over(open(&world.layer()), base_tree(), format());
    let manifest = world.store.manifest(captured.manifest);
    let snapshot = manifest.over(base_tree());
    assert_eq!(listing(&*snapshot), listing(&union));
    assert_eq!(snapshot.entry(&path("gone")).expect("entry"), None);
    assert_eq!(snapshot.entry(&path("d/one")).expect("entry"), None);
    assert_eq!(snapshot.list(&path("opaque")).expect("list"), [b"new".to_vec()]);
    let changes = compare(&union, &*snapshot, CompareOptions::default()).expect("compare");
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn two_snapshots_are_compared_without_reading_what_is_equal() {
    let (world, base) = make();
    let one = world.try_snap().expect("snapshot").1.manifest;
    fs::write(world.layer().join("d/three"), "changed").expect("write");
    fs::write(world.layer().join("d/four"), "new").expect("write");
    let two = world.try_snap().expect("snapshot").1.manifest;
    let base_tree = || Box::new(DirTree::open(&base).expect("open"));
    let (one, two) = (world.store.manifest(one), world.store.manifest(two));
    let (old, new) = (one.over(base_tree()), two.over(base_tree()));
    let changes = compare(&*old, &*new, CompareOptions::default()).expect("compare");
    let told: Vec<_> =
        changes.changes.iter().map(|change| (change.path.clone(), change.kind.clone())).collect();
    assert_eq!(told, [(path("d/four"), ChangeKind::Add), (path("d/three"), ChangeKind::Modify)]);
}

#[test]
fn a_copy_is_a_tree_by_itself() {
    let (world, base) = make();
    fs::remove_dir_all(world.layer()).expect("remove");
    assert!(
        std::process::Command::new("cp")
            .arg("-a")
            .args([&base, &world.layer()])
            .status()
            .expect("cp")
            .success()
    );
    let (_, captured) = world.try_snap().expect("snapshot");
    let manifest = world.store.manifest(captured.manifest);
    let layer = DirTree::from_fd(kernel::open::dir_beneath(open(&world.layer()).as_fd(), b"").expect("open"));
    assert_eq!(listing(&*manifest.tree()), listing(&layer));
}

#[test]
fn the_base_of_a_changed_path_stays_what_it_was_when_the_change_was_first_seen() {
    let (world, base) = make();
    let source = DirTree::open(&base).expect("open");
    let paths =
        |names: &[&str]| names.iter().map(|name| path(name)).collect::<std::collections::BTreeSet<_>>();
    let mut writer = world.store.begin().expect("begin");
    let none = std::collections::BTreeSet::new();
    let first = writer.base_contents(&source, None, paths(&["d/two", "new", "d"]), &none).expect("base");
    let captured = world.try_snap().expect("another writer meanwhile").1;
    writer.finish(&world.lane, crate::world::new_snapshot(&captured)).expect("finish");
    fs::write(base.join("d/two"), "the host has edited it since").expect("write");
    let mut writer = world.store.begin().expect("begin");
    let both = paths(&["d/two", "f"]);
    let second = writer.base_contents(&source, Some(first.manifest), both.clone(), &none).expect("base");
    writer.finish(&world.lane, crate::world::new_snapshot(&captured)).expect("finish");
    let mut writer = world.store.begin().expect("begin");
    let third = writer.base_contents(&source, Some(second.manifest), both, &paths(&["d/two"])).expect("base");
    writer.finish(&world.lane, crate::world::new_snapshot(&captured)).expect("finish");
    assert_eq!((first.gaps.len(), second.gaps.len(), third.gaps.len()), (0, 0, 0));
    let manifest = world.store.manifest(second.manifest);
    let read_in = |manifest: store::Manifest<'_>, name: &str| {
        let item = manifest.get(&path(name)).expect("get").expect("there");
        let store::ItemKind::File(content) = item.kind else { panic!("no file") };
        String::from_utf8(world.store.read(&content).expect("read")).expect("text")
    };
    let read = |name: &str| read_in(manifest, name);
    assert_eq!((read("d/two").as_str(), read("f").as_str()), ("base d/two", "base f"));
    let anew = read_in(world.store.manifest(third.manifest), "d/two");
    assert_eq!(anew, "the host has edited it since", "what is named as stale is stored anew");
    assert_eq!(manifest.count().expect("count"), 3);
}
