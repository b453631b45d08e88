use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tree::dir::DirTree;
use tree::{Kind, TreePath};

use super::{Advance, Manifest, RecordOptions, Recorded, file_name, format, is_same_state, record};
use crate::error::Error;
use crate::home::LaneHome;

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

impl Manifest {
    fn told_of(&self, path: &TreePath) -> Option<Recorded> {
        self.get(path).expect("read")
    }

    fn names(&self, path: &TreePath) -> Vec<Vec<u8>> {
        self.names_in(path).expect("read")
    }

    fn paths(&self) -> Vec<TreePath> {
        self.iter().map(|told| told.expect("read").0).collect()
    }

    fn paths_below(&self, path: &TreePath) -> Vec<TreePath> {
        self.below(path).expect("read").map(|told| told.expect("read").0).collect()
    }
}

struct Scene {
    _dirs: [tempfile::TempDir; 2],
    origin: std::path::PathBuf,
    home: LaneHome,
    _lock: kernel::lock::Lock,
}

fn scene() -> Scene {
    let dirs = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let (home, lock) = LaneHome::create(dirs[0].path(), "k3").expect("made");
    Scene { origin: dirs[1].path().to_path_buf(), home, _lock: lock, _dirs: dirs }
}

impl Scene {
    fn write(&self, name: &str, text: &str) {
        let file = self.origin.join(name);
        std::fs::create_dir_all(file.parent().expect("below")).expect("made");
        std::fs::write(file, text).expect("written");
    }

    fn record(&self, options: &RecordOptions<'_>) -> crate::error::Result<Manifest> {
        let tree = DirTree::open(&self.origin).expect("opened");
        record(tree.as_fd(), options, self.home.dir(), &file_name(0), &AtomicBool::new(false))?;
        Ok(Manifest::load(self.home.dir(), 0)?.expect("published"))
    }
}

#[test]
fn what_was_recorded_is_found_again_by_path() {
    let scene = scene();
    for name in ["a/x", "a/y/z", "a-b", "a.b", "b"] {
        scene.write(name, name);
    }
    symlink("to\nwhere", scene.origin.join("link")).expect("linked");
    let manifest = scene.record(&RecordOptions::default()).expect("recorded");
    let paths = manifest.paths();
    assert_eq!(paths, ["", "a", "a/x", "a/y", "a/y/z", "a-b", "a.b", "b", "link"].map(path));
    for expected in &paths {
        let entry = manifest.told_of(expected).expect("recorded").entry;
        let real = std::fs::symlink_metadata(scene.origin.join(expected.as_path())).expect("there");
        assert_eq!(
            (entry.ino, entry.size, entry.mtime.sec),
            (real.ino(), real.size(), real.mtime()),
            "{expected:?}"
        );
        assert_eq!(
            (entry.uid, entry.gid, entry.nlink),
            (real.uid(), real.gid(), real.nlink()),
            "{expected:?}"
        );
    }
    assert_eq!(
        manifest.told_of(&path("link")).map(|r| (r.entry.kind, r.entry.target)),
        Some((Kind::Symlink, b"to\nwhere".to_vec()))
    );
    assert_eq!(manifest.told_of(&path("a/none")), None);
    assert_eq!(manifest.names(&path("a")), [b"x".to_vec(), b"y".to_vec()]);
    assert_eq!(manifest.names(&TreePath::root()).len(), 5);
    assert_eq!(manifest.names(&path("none")), Vec::<Vec<u8>>::new());
    assert_eq!(manifest.paths_below(&path("a")), ["a/x", "a/y", "a/y/z"].map(path));
}

#[test]
fn names_that_are_no_text_survive() {
    use std::os::unix::ffi::OsStrExt as _;
    let scene = scene();
    let name: &[u8] = b"\xff\n\\\"";
    std::fs::write(scene.origin.join(std::ffi::OsStr::from_bytes(name)), "").expect("written");
    let manifest = scene.record(&RecordOptions::default()).expect("recorded");
    assert_eq!(manifest.names(&TreePath::root()), [name.to_vec()]);
}

#[test]
fn what_changed_after_the_base_is_marked_as_such() {
    let scene = scene();
    scene.write("d/old", "");
    let stamp = crate::base::stamp(&scene.home, &[0]).expect("stamped");
    scene.write("d/new", "");
    let options = RecordOptions { since: Some(stamp.time), ..RecordOptions::default() };
    let manifest = scene.record(&options).expect("recorded");
    let is_later = |name: &str| manifest.told_of(&path(name)).expect("recorded").is_later;
    assert_eq!(["", "d", "d/new", "d/old"].map(is_later), [false, true, true, false]);
}

#[test]
fn skipped_directories_are_absent_and_unread_ones_are_named() {
    let scene = scene();
    scene.write("ours/lanes/x", "");
    scene.write("socket", "");
    let (skip, unread) = ([path("ours/lanes")], [path("socket")]);
    let options = RecordOptions { skip: &skip, unread: &unread, ..RecordOptions::default() };
    let manifest = scene.record(&options).expect("recorded");
    assert_eq!(manifest.names(&path("ours")), Vec::<Vec<u8>>::new());
    assert!(manifest.told_of(&path("socket")).is_some_and(|recorded| recorded.is_unread));
    assert_eq!(manifest.unread().collect::<Vec<_>>(), unread);
}

#[test]
fn a_walk_that_is_told_to_stop_publishes_nothing() {
    let scene = scene();
    scene.write("f", "");
    let tree = DirTree::open(&scene.origin).expect("opened");
    let stop = AtomicBool::new(true);
    let answer = record(tree.as_fd(), &RecordOptions::default(), scene.home.dir(), &file_name(0), &stop);
    assert!(matches!(answer, Err(Error::Stopped)));
    let left: Vec<_> = std::fs::read_dir(scene.home.path())
        .expect("listed")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["lock"]);
}

#[test]
fn every_damaged_byte_and_every_cut_is_noticed() {
    let scene = scene();
    scene.write("d/f", "text");
    // More than one page of records.
    for n in 0..200 {
        scene.write(&format!("many/{n}"), "");
    }
    scene.record(&RecordOptions::default()).expect("recorded");
    let file = scene.home.path().join("manifest.0");
    let bytes = std::fs::read(&file).expect("read");
    assert!(bytes.len() > format::PAGE);
    let reads = |bytes: &[u8]| -> bool {
        std::fs::write(&file, bytes).expect("written");
        let Ok(Some(manifest)) = Manifest::load(scene.home.dir(), 0) else { return false };
        let whole = manifest.check().is_ok();
        assert_eq!(manifest.iter().all(|told| told.is_ok()), whole);
        whole
    };
    assert!(reads(&bytes));
    for cut in (0..bytes.len()).step_by(7) {
        assert!(!reads(&bytes[..cut]), "cut at {cut}");
    }
    for at in (0..64).chain((64..bytes.len()).step_by(11)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(!reads(&damaged), "byte {at}");
    }
}

#[test]
fn what_was_kept_becomes_the_base() {
    let scene = scene();
    for name in ["d/kept", "d/other", "gone", "z"] {
        scene.write(name, "1");
    }
    let before = scene.record(&RecordOptions::default()).expect("recorded");
    scene.write("d/kept", "22");
    scene.write("d/other", "22");
    scene.write("new/deep/file", "3");
    std::fs::remove_file(scene.origin.join("gone")).expect("removed");
    let origin = DirTree::open(&scene.origin).expect("opened");
    let kept = ["d/kept", "gone", "new/deep/file"].map(path);
    before
        .advance(&Advance { paths: &kept, ..Advance::default() }, &origin, scene.home.dir(), 0)
        .expect("advanced");
    let after = Manifest::load(scene.home.dir(), 0).expect("loaded").expect("there");
    let size = |name: &str| after.told_of(&path(name)).map(|recorded| recorded.entry.size);
    assert_eq!(
        ["d/kept", "d/other", "gone", "new/deep/file", "z"].map(size),
        [Some(2), Some(1), None, Some(1), Some(1)]
    );
    assert!(after.told_of(&path("new/deep")).is_some_and(|recorded| recorded.entry.is_dir()));
}

#[test]
fn the_other_names_of_a_kept_file_are_the_base_where_nobody_else_changed_them() {
    let scene = scene();
    for (name, other) in [("a", "d/a"), ("b", "d/b")] {
        scene.write(name, "1");
        std::fs::create_dir_all(scene.origin.join("d")).expect("made");
        std::fs::hard_link(scene.origin.join(name), scene.origin.join(other)).expect("linked");
    }
    let before = scene.record(&RecordOptions::default()).expect("recorded");
    scene.write("d/b", "22");
    let origin = DirTree::open(&scene.origin).expect("opened");
    let kept = ["a", "b"].map(path);
    let also = before.other_names(&kept, &origin).expect("looked");
    assert_eq!(also, [path("d/a")]);
    for name in &kept {
        std::fs::remove_file(scene.origin.join(name.as_path())).expect("removed");
    }
    before
        .advance(&Advance { paths: &kept, also: &also, ..Advance::default() }, &origin, scene.home.dir(), 0)
        .expect("advanced");
    let after = Manifest::load(scene.home.dir(), 0).expect("loaded").expect("there");
    let is_base = |name: &str| {
        let now = tree::Source::entry(&origin, &path(name)).expect("looked").expect("there");
        is_same_state(&after.told_of(&path(name)).expect("recorded").entry, &now)
    };
    assert_eq!((is_base("d/a"), is_base("d/b")), (true, false));
}

#[test]
fn a_directory_that_was_kept_at_another_place_is_the_base_there_with_all_that_is_in_it() {
    let scene = scene();
    for name in ["old/a", "old/in/b", "replaced/c", "z"] {
        scene.write(name, "1");
    }
    let before = scene.record(&RecordOptions::default()).expect("recorded");
    std::fs::rename(scene.origin.join("old"), scene.origin.join("new")).expect("renamed");
    std::fs::remove_dir_all(scene.origin.join("replaced")).expect("removed");
    scene.write("replaced", "now a file");
    let origin = DirTree::open(&scene.origin).expect("opened");
    let (paths, whole) = (["old", "new", "replaced"].map(path), ["new"].map(path));
    let advance = Advance { paths: &paths, whole: &whole, ..Advance::default() };
    before.advance(&advance, &origin, scene.home.dir(), 0).expect("advanced");
    let after = Manifest::load(scene.home.dir(), 0).expect("loaded").expect("there");
    assert_eq!(after.paths(), ["", "new", "new/a", "new/in", "new/in/b", "replaced", "z"].map(path));
    assert_eq!(after.names(&path("new")), [b"a".to_vec(), b"in".to_vec()]);
    assert!(after.names(&path("old")).is_empty());
}

#[test]
fn owners_are_told_from_a_full_walk() {
    let scene = scene();
    scene.write("deep/down/f", "");
    let (uid, gid) = crate::origin::caller();
    if uid == 0 {
        std::os::unix::fs::chown(scene.origin.join("deep/down/f"), Some(7), Some(8)).expect("given away");
    }
    let manifest = scene.record(&RecordOptions::default()).expect("recorded");
    let found = manifest.foreign_owners(Path::new("/p")).expect("read");
    assert!(found.checked_fully);
    let expected: &[(u32, u32)] = if (uid, gid) == (0, 0) { &[(7, 8)] } else { &[] };
    assert_eq!(found.owners, expected);
}

#[test]
fn eighty_thousand_entries_load_quickly() {
    let scene = scene();
    let tree = DirTree::open(&scene.origin).expect("opened");
    let entry = tree::Source::entry(&tree, &TreePath::root()).expect("looked").expect("there");
    let mut draft = super::Draft::begin(scene.home.dir()).expect("begun");
    draft.push(&TreePath::root(), &entry, false).expect("written");
    for n in 0..80_000 {
        let name = path(&format!("drivers-of-some-kind/subsystem-{:03}-file-{n:06}.c", n / 200));
        if n == 0 {
            draft.push(&path("drivers-of-some-kind"), &entry, false).expect("written");
        }
        draft.push(&name, &entry, false).expect("written");
    }
    draft.publish("manifest.0").expect("published");
    let began = std::time::Instant::now();
    let manifest = Manifest::load(scene.home.dir(), 0).expect("loaded").expect("there");
    let found = manifest.told_of(&path("drivers-of-some-kind/subsystem-200-file-040000.c"));
    let took = began.elapsed();
    assert!(found.is_some());
    assert_eq!(manifest.len(), 80_002);
    for n in (0..80_000).step_by(997).rev() {
        let name = path(&format!("drivers-of-some-kind/subsystem-{:03}-file-{n:06}.c", n / 200));
        assert!(manifest.told_of(&name).is_some(), "{name:?}");
    }
    assert_eq!(manifest.names(&path("drivers-of-some-kind")).len(), 80_000);
    // Measured at a few milliseconds when optimised; the bound only catches a change of kind.
    assert!(took.as_millis() < 2000, "{took:?}");
}

/// Names that meet around the separator in every order.
fn names() -> impl proptest::strategy::Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a.\\-0]{1,2}(/[a.\\-0~]{1,2}){0,3}", 0..30)
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn lookups_agree_with_a_plain_map(names in names(), asked in names()) {
        let scene = scene();
        let tree = DirTree::open(&scene.origin).expect("opened");
        let entry = tree::Source::entry(&tree, &TreePath::root()).expect("looked").expect("there");
        let mut plain = std::collections::BTreeSet::from([TreePath::root()]);
        for name in names.iter().filter_map(|name| TreePath::new(name).ok()) {
            plain.extend(std::iter::successors(Some(name), TreePath::parent));
        }
        let mut draft = super::Draft::begin(scene.home.dir()).expect("begun");
        plain.iter().for_each(|path| draft.push(path, &entry, false).expect("written"));
        draft.publish("manifest.0").expect("published");
        let manifest = Manifest::load(scene.home.dir(), 0).expect("loaded").expect("there");
        let asked = asked.iter().filter_map(|name| TreePath::new(name).ok());
        for path in asked.chain(plain.iter().cloned()) {
            proptest::prop_assert_eq!(manifest.told_of(&path).is_some(), plain.contains(&path));
            let below: Vec<TreePath> = plain.iter().filter(|p| p.starts_with(&path) && **p != path).cloned().collect();
            if plain.contains(&path) {
                let children = below.iter().filter(|p| p.parent().as_ref() == Some(&path));
                proptest::prop_assert_eq!(manifest.names(&path), children.map(|p| p.name().to_vec()).collect::<Vec<_>>());
                proptest::prop_assert_eq!(manifest.paths_below(&path), below);
            }
        }
    }
}
