//! Copying, comparing and finding renames on plain directories.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use tree::change::{ChangeKind, ChangeSet};
use tree::compare::{CompareOptions, compare};
use tree::copy::{Copied, CopyOptions, Progress, copy_tree};
use tree::rename::find_renames;
use tree::{DirTree, TreePath};

use crate::model::Model;

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("valid path")
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
    fs::write(path, content).expect("write");
}

fn copy(from: &Path, to: &Path, options: &CopyOptions) -> Copied {
    fs::create_dir(to).expect("mkdir");
    let (from, to) = (DirTree::open(from).expect("open"), DirTree::open(to).expect("open"));
    let mut last = Progress::default();
    let copied = copy_tree(from.fd(), to.fd(), options, &mut |now| last = now).expect("copy");
    assert_eq!(last.entries, copied.files + copied.dirs + copied.others);
    copied
}

fn changes(base: &Path, lane: &Path) -> ChangeSet {
    let (base, lane) = (DirTree::open(base).expect("open"), DirTree::open(lane).expect("open"));
    let set = compare(&base, &lane, CompareOptions::default()).expect("compare");
    find_renames(set, &base, &lane)
}

fn lines(base: &Path, lane: &Path) -> Vec<String> {
    let set = changes(base, lane);
    assert!(set.gaps.is_empty(), "{:?}", set.gaps);
    set.changes
        .iter()
        .map(|change| match &change.kind {
            ChangeKind::Rename { from, modified } => {
                format!("{from:?} -> {:?}{}", change.path, if *modified { " *" } else { "" })
            }
            kind => format!("{kind:?} {:?}", change.path),
        })
        .collect()
}

#[test]
fn a_copy_is_equal_in_everything_that_counts() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let from = dir.path().join("from");
    write(&from, "a/plain", "plain");
    write(&from, "a/exec", "#!");
    write(&from, "ro/locked", "locked");
    write(&from, "big", &"0123456789".repeat(60_000));
    write(&from, "empty", "");
    fs::set_permissions(from.join("a/exec"), fs::Permissions::from_mode(0o4751)).expect("chmod");
    symlink("../nowhere", from.join("a/link")).expect("symlink");
    fs::hard_link(from.join("a/plain"), from.join("z")).expect("link");
    fs::hard_link(from.join("a/link"), from.join("zlink")).expect("link");
    let fd = DirTree::open(&from).expect("open");
    kernel::node::mkfifo_at(&fd, b"p", 0o640).expect("mkfifo");
    kernel::xattr::set_at(&fd, b"big", b"user.note", b"kept").expect("xattr");
    kernel::xattr::set_at(&fd, b"big", b"user.overlay.opaque", b"y").expect("xattr");
    kernel::xattr::set_at(&fd, b"a", b"user.note", b"of a directory").expect("xattr");
    let _listener = std::os::unix::net::UnixListener::bind(from.join("s")).expect("socket");
    let sparse = fs::File::create(from.join("sparse")).expect("create");
    sparse.write_at(b"x", 5 << 20).expect("write");
    sparse.set_len(40 << 20).expect("set_len");
    fs::set_permissions(from.join("ro"), fs::Permissions::from_mode(0o555)).expect("chmod");
    for (n, name) in ["a/plain", "a/link", "p", "a", "ro", "sparse"].iter().enumerate() {
        let (parent, last) = kernel::open::parent_beneath(&fd, name.as_bytes()).expect("open");
        kernel::meta::set_times_at(&parent, &last, (1_000_000 + n as i64, 123_456_789)).expect("times");
    }

    let to = dir.path().join("to");
    let copied = copy(&from, &to, &CopyOptions::default());
    assert_eq!(copied.skipped, [(path("s"), "a socket cannot be stored".to_owned())]);
    assert_eq!((copied.files, copied.dirs, copied.others), (6, 2, 4));
    fs::remove_file(from.join("s")).expect("unlink");
    assert_eq!(Model::read(&to).difference(&Model::read(&from)), Vec::<String>::new());
    assert!(changes(&from, &to).is_empty());
    for name in ["a/plain", "a/link", "p", "a", "ro", "sparse", "big"] {
        let (old, new) = (
            from.join(name).symlink_metadata().expect("stat"),
            to.join(name).symlink_metadata().expect("stat"),
        );
        assert_eq!(
            (old.mtime(), old.mtime_nsec(), old.nlink()),
            (new.mtime(), new.mtime_nsec(), new.nlink()),
            "{name}"
        );
    }
    let ino = |name: &str| to.join(name).symlink_metadata().expect("stat").ino();
    assert_eq!((ino("a/plain"), ino("a/link")), (ino("z"), ino("zlink")));
    assert!(to.join("sparse").metadata().expect("stat").blocks() * 512 < 1 << 20);
    let new = DirTree::open(&to).expect("open");
    assert_eq!(kernel::xattr::list_at(&new, b"big").expect("list"), [b"user.note".to_vec()]);
    assert_eq!(kernel::xattr::list_at(&new, b"a").expect("list"), [b"user.note".to_vec()]);
}

#[test]
fn what_is_to_be_skipped_is_neither_copied_nor_told_as_deleted() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let from = dir.path().join("from");
    write(&from, "a/f", "f");
    write(&from, "state/lane/huge", "huge");
    let skip = vec![path("state")];
    let copied =
        copy(&from, &dir.path().join("to"), &CopyOptions { skip: skip.clone(), ..CopyOptions::default() });
    assert_eq!((copied.files, copied.skipped.len()), (1, 0));
    assert!(!dir.path().join("to/state").exists());
    let (base, lane) =
        (DirTree::open(&from).expect("open"), DirTree::open(&dir.path().join("to")).expect("open"));
    let options = CompareOptions { skip: &skip, ..CompareOptions::default() };
    assert!(compare(&base, &lane, options).expect("compare").is_empty());
}

#[test]
fn a_socket_of_the_base_is_a_gap_and_not_a_deletion() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(&from, "f", "f");
    let _listener = std::os::unix::net::UnixListener::bind(from.join("s")).expect("socket");
    copy(&from, &to, &CopyOptions::default());
    let set = changes(&from, &to);
    assert!(set.changes.is_empty(), "{set:?}");
    assert_eq!(set.gaps, [(path("s"), "a socket cannot be stored".to_owned())]);
}

#[test]
fn a_tree_deeper_than_a_path_may_be_is_copied_compared_and_removed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let from = dir.path().join("from");
    fs::create_dir(&from).expect("mkdir");
    let mut at = kernel::open::root_dir(&from).expect("open");
    for _ in 0..1200 {
        kernel::node::mkdir_at(&at, b"level", 0o755).expect("mkdir");
        at = kernel::open::dir_beneath(&at, b"level").expect("open");
    }
    kernel::publish::write_file(&at, b"f", b"deep", 0o644).expect("write");
    let to = dir.path().join("to");
    assert_eq!(copy(&from, &to, &CopyOptions::default()).dirs, 1200);
    assert!(changes(&from, &to).is_empty());
    let far = path(&["level"; 1200].join("/"));
    let lane = DirTree::open(&to).expect("open");
    let deepest = lane.open_dir(&far).expect("open");
    kernel::publish::write_file(&deepest, b"f", b"else", 0o644).expect("write");
    assert_eq!(changes(&from, &to).changes.len(), 1);
    let root = kernel::open::root_dir(dir.path()).expect("open");
    for name in [b"from" as &[u8], b"to"] {
        assert!(tree::remove::remove_tree(root.as_fd(), name).expect("remove").is_complete());
    }
}

#[test]
fn the_quick_answer_saves_reading_and_is_believed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    write(dir.path(), "a/f", "one");
    write(dir.path(), "b/f", "two");
    let (a, b) = (
        DirTree::open(&dir.path().join("a")).expect("open"),
        DirTree::open(&dir.path().join("b")).expect("open"),
    );
    let equal = |_: &TreePath, old: &tree::Entry, new: &tree::Entry| old.size == new.size;
    let quick = CompareOptions { quick_equal: Some(&equal), ..CompareOptions::default() };
    assert!(compare(&a, &b, quick).expect("compare").is_empty());
    assert_eq!(compare(&a, &b, CompareOptions::default()).expect("compare").changes.len(), 1);
}

#[test]
fn attributes_and_modes_are_changes_and_times_are_not() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for root in [&a, &b] {
        write(root, "attr", "x");
        write(root, "mode", "x");
        write(root, "time", "x");
    }
    let fd = DirTree::open(&b).expect("open");
    kernel::xattr::set_at(&fd, b"attr", b"user.k", b"v").expect("xattr");
    kernel::meta::set_mode_at(&fd, b"mode", 0o600).expect("chmod");
    kernel::meta::set_times_at(&fd, b"time", (7, 7)).expect("times");
    assert_eq!(lines(&a, &b), ["Mode \"attr\"", "Mode \"mode\""]);
}

#[test]
fn moved_files_are_renames_and_equal_names_are_preferred() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    write(&a, "one.txt", "the same");
    write(&a, "two.txt", "the same");
    write(&a, "solo", "another content");
    write(&b, "in/two.txt", "the same");
    write(&b, "in/one.txt", "the same");
    write(&b, "in/solo2", "another content");
    write(&b, "new", "yet another one");
    assert_eq!(
        lines(&a, &b),
        [
            "Add \"in\"",
            "\"one.txt\" -> \"in/one.txt\"",
            "\"solo\" -> \"in/solo2\"",
            "\"two.txt\" -> \"in/two.txt\"",
            "Add \"new\""
        ]
    );
}

#[test]
fn empty_files_and_links_are_renamed_only_with_their_directory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    write(&a, "src/main", "content of main");
    write(&a, "src/sub/__init__", "");
    write(&a, "src/__init__", "");
    write(&a, "gone", "");
    write(&b, "lib/main", "content of main");
    write(&b, "lib/sub/__init__", "");
    write(&b, "lib/__init__", "");
    write(&b, "fresh", "");
    symlink("main", a.join("src/l")).expect("symlink");
    symlink("main", b.join("lib/l")).expect("symlink");
    assert_eq!(lines(&a, &b), ["Add \"fresh\"", "Delete \"gone\"", "\"src\" -> \"lib\""]);
}

#[test]
fn a_directory_that_moved_with_edits_is_one_rename_and_the_edits() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for n in 0..6 {
        write(&a, &format!("src/deep/{n}"), &format!("content {n}"));
        write(&b, &format!("lib/deep/{n}"), &format!("content {n}"));
    }
    fs::create_dir(a.join("src/emptydir")).expect("mkdir");
    fs::create_dir(b.join("lib/emptydir")).expect("mkdir");
    write(&b, "lib/deep/0", "content 0 and more");
    fs::remove_file(b.join("lib/deep/1")).expect("unlink");
    write(&b, "lib/deep/new", "a new one");
    fs::rename(b.join("lib/deep/2"), b.join("two")).expect("rename");
    fs::set_permissions(b.join("lib/deep/3"), fs::Permissions::from_mode(0o755)).expect("chmod");
    assert_eq!(
        lines(&a, &b),
        [
            "\"src\" -> \"lib\"",
            "\"src/deep/0\" -> \"lib/deep/0\" *",
            "\"src/deep/3\" -> \"lib/deep/3\"",
            "Add \"lib/deep/new\"",
            "Delete \"src/deep/1\"",
            "\"src/deep/2\" -> \"two\"",
        ]
    );
}

#[test]
fn files_of_one_size_are_told_apart_by_content() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for n in 100..160 {
        write(&a, &format!("old/{n}"), &format!("{n}"));
        // Another name for each, in another order, and none with the old basename.
        write(&b, &format!("spread/{}/x{}", n % 7, 259 - n), &format!("{n}"));
    }
    let told = lines(&a, &b);
    assert_eq!(told.iter().filter(|line| line.contains("->")).count(), 60, "{told:#?}");
    assert_eq!(told, lines(&a, &b));
}
