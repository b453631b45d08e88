//! The table of the module, tried on real files: what the host does × what is recorded × what the lane did.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tree::dir::DirTree;
use tree::{Change, ChangeKind, Entry, Time, TreePath};

use super::{Drift, drift, drift_all};
use crate::base::{Base, root_ino, stamp};
use crate::home::LaneHome;
use crate::manifest::{RecordOptions, file_name, record};

/// When the background walk came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
    BeforeTheEdit,
    AfterTheEdit,
    Never,
}
use Walked::{AfterTheEdit, BeforeTheEdit, Never};

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

struct Scene {
    _dirs: [tempfile::TempDir; 2],
    origin: PathBuf,
    home: LaneHome,
    _lock: kernel::lock::Lock,
    base_time: Time,
    before: Vec<(TreePath, Entry)>,
}

/// A project of a few files, and a lane whose base has just been taken.
fn scene() -> Scene {
    let dirs = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let origin = dirs[1].path().join("p");
    for file in ["top", "d/f", "d/sub/g", "d/sub/h", "e/x"] {
        let file = origin.join(file);
        std::fs::create_dir_all(file.parent().expect("below")).expect("made");
        std::fs::write(file, "base").expect("written");
    }
    let (home, lock) = LaneHome::create(dirs[0].path(), "k3").expect("made");
    let base_time = stamp(&home, &[root_ino(&origin).expect("looked")]).expect("stamped").time;
    let mut before = Vec::new();
    let tree = DirTree::open(&origin).expect("opened");
    tree::walk::walk(tree.as_fd(), &mut |path, entry| {
        before.push((path.clone(), entry.clone()));
        tree::walk::Visit::Enter
    });
    let scene = Scene { origin, home, _lock: lock, base_time, before, _dirs: dirs };
    scene.wait_for_the_next_tick();
    scene
}

impl Scene {
    /// Where the kernel keeps coarse times, an edit in the tick of the stamp could not be told from one before.
    fn wait_for_the_next_tick(&self) {
        let file = self.home.path().join("tick");
        loop {
            std::fs::write(&file, "x").expect("written");
            let stat = kernel::meta::stat_at(&self.home.dir().fd, b"tick").expect("looked");
            if (Time { sec: stat.ctime.0, nsec: stat.ctime.1 }) > self.base_time {
                return;
            }
        }
    }

    fn walk(&self) {
        let tree = DirTree::open(&self.origin).expect("opened");
        let options = RecordOptions { since: Some(self.base_time), ..RecordOptions::default() };
        record(tree.as_fd(), &options, self.home.dir(), &file_name(0), &AtomicBool::new(false))
            .expect("recorded");
    }

    fn change(&self, kind: ChangeKind, name: &str) -> Change {
        let path = path(name);
        let old_path = if let ChangeKind::Rename { from, .. } = &kind { from } else { &path };
        let old = self.before.iter().find(|(known, _)| known == old_path).map(|(_, entry)| entry.clone());
        Change { old, new: None, kind, path }
    }

    fn drift(&self, changes: Vec<Change>) -> Vec<(String, Drift)> {
        let base = Base::load(&self.home, 0).expect("loaded");
        let origin = DirTree::open(&self.origin).expect("opened");
        named(drift(&changes, &base, &origin).expect("judged"))
    }

    fn drift_all(&self) -> Vec<(String, Drift)> {
        let base = Base::load(&self.home, 0).expect("loaded");
        let origin = DirTree::open(&self.origin).expect("opened");
        named(drift_all(&base, &origin, &[]).expect("judged"))
    }
}

fn named(found: Vec<super::Drifted>) -> Vec<(String, Drift)> {
    found.into_iter().map(|d| (String::from_utf8_lossy(d.path.as_bytes()).into_owned(), d.what)).collect()
}

fn rename_from(from: &str) -> ChangeKind {
    ChangeKind::Rename { from: path(from), modified: false }
}

/// The lane did `kind` at `name`; the host does `edit` at some time around the walk.
fn check(walked: Walked, edit: impl Fn(&Path), kind: ChangeKind, name: &str, expected: &[(&str, Drift)]) {
    let scene = scene();
    if walked == BeforeTheEdit {
        scene.walk();
    }
    edit(&scene.origin);
    if walked == AfterTheEdit {
        scene.walk();
    }
    let expected: Vec<(String, Drift)> =
        expected.iter().map(|(name, what)| ((*name).to_owned(), *what)).collect();
    let found = scene.drift(vec![scene.change(kind.clone(), name)]);
    // What an edit closed is opened again, so that the test leaves nothing.
    let _may_be_gone =
        std::fs::set_permissions(scene.origin.join("d"), std::os::unix::fs::PermissionsExt::from_mode(0o755));
    assert_eq!(found, expected, "{walked:?} {kind:?} {name}");
}

fn write(name: &'static str) -> impl Fn(&Path) {
    move |origin| std::fs::write(origin.join(name), "host").expect("written")
}

fn replace(name: &'static str) -> impl Fn(&Path) {
    move |origin| {
        std::fs::write(origin.join("new~"), "host").expect("written");
        std::fs::rename(origin.join("new~"), origin.join(name)).expect("renamed");
    }
}

fn remove(name: &'static str) -> impl Fn(&Path) {
    move |origin| std::fs::remove_file(origin.join(name)).expect("removed")
}

fn recreate_d(origin: &Path) {
    // Moved out of the project instead of removed, so that no inode number is given out again.
    std::fs::rename(origin.join("d"), origin.with_file_name("gone")).expect("moved away");
    std::fs::create_dir_all(origin.join("d/sub")).expect("made");
    std::fs::write(origin.join("d/f"), "host").expect("written");
}

/// Puts another directory, made long before, in the place of `d`: nothing below it has a later time.
fn swap_d(origin: &Path) {
    std::fs::rename(origin.join("d"), origin.join("d.old")).expect("renamed");
    std::fs::rename(origin.join("e"), origin.join("d")).expect("renamed");
}

fn nothing(_: &Path) {}

#[test]
fn nothing_drifts_where_the_host_does_nothing() {
    for walked in [BeforeTheEdit, Never] {
        for kind in [ChangeKind::Modify, ChangeKind::Mode, ChangeKind::Delete, ChangeKind::Retype] {
            check(walked, nothing, kind, "d/sub/g", &[]);
        }
        check(walked, nothing, ChangeKind::Add, "d/new", &[]);
        check(walked, nothing, ChangeKind::Add, "brand/new", &[]);
        check(walked, nothing, ChangeKind::Mode, "d", &[]);
        check(walked, nothing, rename_from("d/f"), "moved", &[]);
        check(walked, nothing, rename_from("d"), "moved", &[]);
    }
}

#[test]
fn a_write_in_place_is_modified_or_base_unknown() {
    check(BeforeTheEdit, write("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::Modified)]);
    check(AfterTheEdit, write("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
    check(Never, write("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
}

#[test]
fn an_atomic_replacement_is_replaced_or_base_unknown() {
    check(BeforeTheEdit, replace("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::Replaced)]);
    check(AfterTheEdit, replace("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
    check(Never, replace("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
}

#[test]
fn an_edit_that_keeps_size_and_mtime_is_seen_by_its_ctime() {
    let sneaky = |origin: &Path| {
        let file = std::fs::File::options().write(true).open(origin.join("d/f")).expect("opened");
        let mtime = file.metadata().and_then(|meta| meta.modified()).expect("told");
        std::io::Write::write_all(&mut &file, b"HOST").expect("written");
        file.set_modified(mtime).expect("set");
    };
    check(BeforeTheEdit, sneaky, ChangeKind::Modify, "d/f", &[("d/f", Drift::Modified)]);
    check(Never, sneaky, ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
}

#[test]
fn a_deletion_is_deleted_and_two_deletions_agree() {
    check(BeforeTheEdit, remove("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::Deleted)]);
    check(BeforeTheEdit, remove("d/f"), ChangeKind::Add, "d/f", &[("d/f", Drift::Deleted)]);
    check(Never, remove("d/f"), ChangeKind::Modify, "d/f", &[("d/f", Drift::Deleted)]);
    for walked in [BeforeTheEdit, AfterTheEdit, Never] {
        check(walked, remove("d/f"), ChangeKind::Delete, "d/f", &[]);
    }
}

#[test]
fn a_name_that_both_made_is_created() {
    check(BeforeTheEdit, write("d/new"), ChangeKind::Add, "d/new", &[("d/new", Drift::Created)]);
    // By now the comparison calls the lane's file a modification of the host's.
    check(BeforeTheEdit, write("d/new"), ChangeKind::Modify, "d/new", &[("d/new", Drift::Created)]);
    check(AfterTheEdit, write("d/new"), ChangeKind::Modify, "d/new", &[("d/new", Drift::BaseUnknown)]);
    check(Never, write("d/new"), ChangeKind::Add, "d/new", &[("d/new", Drift::Created)]);
    check(Never, write("d/new"), ChangeKind::Modify, "d/new", &[("d/new", Drift::BaseUnknown)]);
    check(BeforeTheEdit, write("moved"), rename_from("d/f"), "moved", &[("moved", Drift::Created)]);
}

#[test]
fn a_new_neighbour_is_no_drift_of_the_files_beside_it() {
    for walked in [BeforeTheEdit, AfterTheEdit, Never] {
        check(walked, write("d/neighbour"), ChangeKind::Modify, "d/f", &[]);
        check(walked, write("d/neighbour"), ChangeKind::Modify, "d/sub/g", &[]);
        check(walked, write("neighbour"), ChangeKind::Modify, "d/f", &[]);
        check(walked, write("d/neighbour"), ChangeKind::Add, "d/new", &[]);
    }
}

#[test]
fn a_directory_made_anew_has_drifted_with_everything_below_it() {
    check(BeforeTheEdit, recreate_d, ChangeKind::Modify, "d/f", &[("d/f", Drift::Replaced)]);
    check(BeforeTheEdit, recreate_d, ChangeKind::Modify, "d/sub/g", &[("d/sub/g", Drift::Deleted)]);
    check(AfterTheEdit, recreate_d, ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
    check(Never, recreate_d, ChangeKind::Modify, "d/f", &[("d/f", Drift::BaseUnknown)]);
}

#[test]
fn a_directory_swapped_for_an_old_one_does_not_pass_for_the_base() {
    check(BeforeTheEdit, swap_d, ChangeKind::Modify, "d/x", &[("d/x", Drift::Created)]);
    check(AfterTheEdit, swap_d, ChangeKind::Modify, "d/x", &[("d/x", Drift::BaseUnknown)]);
    check(Never, swap_d, ChangeKind::Modify, "d/x", &[("d/x", Drift::BaseUnknown)]);
}

#[test]
fn another_project_under_the_same_path_is_not_the_base() {
    let replace_root = |origin: &Path| {
        std::fs::rename(origin, origin.with_file_name("old")).expect("renamed");
        std::fs::create_dir(origin).expect("made");
        std::fs::rename(origin.with_file_name("old").join("d"), origin.join("d")).expect("renamed");
    };
    check(AfterTheEdit, replace_root, ChangeKind::Modify, "d/sub/g", &[("d/sub/g", Drift::BaseUnknown)]);
    check(Never, replace_root, ChangeKind::Modify, "d/sub/g", &[("d/sub/g", Drift::BaseUnknown)]);
}

#[test]
fn what_the_host_put_into_a_directory_that_the_lane_removed_is_named() {
    check(BeforeTheEdit, write("d/extra"), ChangeKind::Delete, "d", &[("d/extra", Drift::Created)]);
    check(BeforeTheEdit, write("d/sub/extra"), rename_from("d"), "moved", &[("d/sub/extra", Drift::Created)]);
    check(BeforeTheEdit, write("d/sub/g"), rename_from("d"), "moved", &[("d/sub/g", Drift::Modified)]);
    check(BeforeTheEdit, remove("d/sub/g"), rename_from("d"), "moved", &[("d/sub/g", Drift::Deleted)]);
    check(Never, write("d/sub/g"), rename_from("d"), "moved", &[("d/sub/g", Drift::BaseUnknown)]);
}

#[test]
fn a_mode_of_a_directory_is_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let chmod = |origin: &Path| {
        std::fs::set_permissions(origin.join("d"), PermissionsExt::from_mode(0o700)).expect("set")
    };
    check(BeforeTheEdit, chmod, ChangeKind::Mode, "d", &[("d", Drift::Modified)]);
    check(BeforeTheEdit, chmod, ChangeKind::Modify, "d/f", &[]);
    check(Never, chmod, ChangeKind::Mode, "d", &[("d", Drift::BaseUnknown)]);
}

#[test]
fn a_retype_by_the_host_is_replaced() {
    let retype = |origin: &Path| {
        std::fs::remove_file(origin.join("top")).expect("removed");
        std::os::unix::fs::symlink("d/f", origin.join("top")).expect("linked");
    };
    check(BeforeTheEdit, retype, ChangeKind::Modify, "top", &[("top", Drift::Replaced)]);
    check(AfterTheEdit, retype, ChangeKind::Modify, "top", &[("top", Drift::BaseUnknown)]);
}

#[test]
fn the_whole_origin_is_compared_with_the_manifest() {
    let scene = scene();
    assert_eq!(scene.drift_all(), []);
    scene.walk();
    assert_eq!(scene.drift_all(), []);
    write("d/f")(&scene.origin);
    write("d/made")(&scene.origin);
    replace("top")(&scene.origin);
    remove("d/sub/h")(&scene.origin);
    let expected = [
        ("d/f", Drift::Modified),
        ("d/made", Drift::Created),
        ("d/sub/h", Drift::Deleted),
        ("top", Drift::Replaced),
    ];
    assert_eq!(scene.drift_all(), expected.map(|(name, what)| (name.to_owned(), what)));
}

#[test]
fn without_a_manifest_the_whole_origin_is_judged_by_time() {
    let scene = scene();
    write("d/f")(&scene.origin);
    assert_eq!(scene.drift_all(), [("d/f".to_owned(), Drift::BaseUnknown)]);
}

#[test]
fn below_a_directory_that_the_host_closed_nothing_is_known() {
    use std::os::unix::fs::PermissionsExt;
    let close = |origin: &Path| {
        std::fs::set_permissions(origin.join("d"), PermissionsExt::from_mode(0o0)).expect("set")
    };
    // Root sees through it, and sees that the file is as it was.
    let is_root = rustix::process::geteuid().is_root();
    let expected: &[(&str, Drift)] = if is_root { &[] } else { &[("d/f", Drift::BaseUnknown)] };
    check(BeforeTheEdit, close, ChangeKind::Modify, "d/f", expected);
    check(Never, close, ChangeKind::Modify, "d/f", expected);
}
