use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::*;
use crate::dir::DirTree;

fn equal(top: &Path, want: &Path) -> Equalled {
    let (have, want) = (DirTree::open(top).expect("open"), DirTree::open(want).expect("open"));
    make_equal(open::root_dir(top).expect("open").as_fd(), &want, &have).expect("made equal")
}

fn at(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).expect("open").set_modified(time).expect("set");
}

/// Type, mode, modification time and content of everything.
fn listing(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![top.to_path_buf()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).expect("stat");
        let content = if meta.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        let target = fs::read_link(&path).unwrap_or_default();
        let mtime = (meta.mtime(), meta.mtime_nsec());
        let name = path.strip_prefix(top).expect("below");
        found.push(format!("{name:?} {:o} {mtime:?} {content:?} {target:?}", meta.mode()));
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).expect("list").map(|entry| entry.expect("entry").path()));
        }
    }
    found.sort();
    found
}

/// Two trees that differ in every way.
fn two() -> (tempfile::TempDir, tempfile::TempDir) {
    let (a, b) = (tempfile::tempdir().expect("temporary"), tempfile::tempdir().expect("temporary"));
    for (number, top) in [a.path(), b.path()].into_iter().enumerate() {
        fs::create_dir_all(top.join("same/deep")).expect("mkdir");
        fs::write(top.join("same/deep/f"), "equal").expect("write");
        at(&top.join("same/deep/f"), 1000);
        fs::write(top.join("content"), format!("of {number}")).expect("write");
        fs::write(top.join("mode"), "x").expect("write");
        fs::set_permissions(top.join("mode"), fs::Permissions::from_mode(0o600 + number as u32 * 0o4))
            .expect("chmod");
        fs::write(top.join("time"), "x").expect("write");
        at(&top.join("time"), 2000 + number as u64);
        symlink(format!("to{number}"), top.join("link")).expect("symlink");
    }
    fs::create_dir_all(a.path().join("gone/with/all")).expect("mkdir");
    fs::write(a.path().join("gone/with/f"), "").expect("write");
    fs::create_dir_all(b.path().join("new/with")).expect("mkdir");
    fs::write(b.path().join("new/with/f"), "n").expect("write");
    fs::hard_link(b.path().join("new/with/f"), b.path().join("new/g")).expect("link");
    fs::write(a.path().join("type"), "").expect("write");
    fs::create_dir(b.path().join("type")).expect("mkdir");
    fs::write(b.path().join("type/f"), "").expect("write");
    fs::create_dir(b.path().join("shut")).expect("mkdir");
    fs::write(b.path().join("shut/f"), "s").expect("write");
    fs::set_permissions(b.path().join("shut"), fs::Permissions::from_mode(0o555)).expect("chmod");
    (a, b)
}

#[test]
fn a_directory_becomes_equal_in_every_way_and_a_second_time_touches_nothing() {
    let (a, b) = two();
    let inode = fs::metadata(a.path().join("same/deep/f")).expect("stat").ino();
    let ctime = |path: &str| {
        fs::metadata(a.path().join(path)).map(|meta| (meta.ctime(), meta.ctime_nsec())).expect("stat")
    };
    let before = ctime("same/deep/f");
    let done = equal(a.path(), b.path());
    assert_eq!(done.left, []);
    assert_eq!(listing(a.path()), listing(b.path()));
    assert_eq!(fs::metadata(a.path().join("same/deep/f")).expect("stat").ino(), inode);
    assert_eq!(ctime("same/deep/f"), before);
    let ino = |path: &str| fs::metadata(a.path().join(path)).expect("stat").ino();
    assert_eq!(ino("new/with/f"), ino("new/g"));
    assert_eq!(equal(a.path(), b.path()), Equalled::default());
}

#[test]
fn what_an_interrupted_run_left_in_its_stage_goes() {
    let (a, b) = two();
    fs::create_dir(a.path().join(".lane-restore")).expect("mkdir");
    fs::write(a.path().join(".lane-restore/half"), "half").expect("write");
    equal(a.path(), b.path());
    assert_eq!(listing(a.path()), listing(b.path()));
}
