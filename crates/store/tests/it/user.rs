//! An ordinary user: everything again, without root's powers; and entries that refuse their owner.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use testkit::who::{Who, is_root};

use crate::model;
use crate::world::World;

#[test]
fn all_of_this_holds_for_an_ordinary_user() {
    if !is_root() {
        // Everything else here runs as one already.
        return;
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = dir.path().join("it");
    // By another process: a descriptor of ours that is open for writing may be in a child that another test starts.
    let own = std::env::current_exe().expect("own path");
    assert!(Command::new("cp").args([&own, &program]).status().expect("cp").success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    Who::User.own_all(dir.path());
    let mut command = Command::new(&program);
    Who::User.apply(&mut command);
    let output = command
        // What a snapshot costs is the same for everybody, and takes its time.
        .args(["--skip", "all_of_this_holds_for_an_ordinary_user", "--skip", "growth::"])
        .env("TMPDIR", dir.path())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("start");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn entries_that_refuse_their_owner_are_captured_restored_and_left_as_they_were() {
    let world = World::new();
    let layer = world.layer();
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(layer.join(path), fs::Permissions::from_mode(mode)).expect("chmod");
    };
    fs::create_dir_all(layer.join("closed/below")).expect("mkdir");
    fs::create_dir_all(layer.join("cache/mod")).expect("mkdir");
    for path in ["closed/below/f", "cache/mod/f", "secret", "readable"] {
        fs::write(layer.join(path), format!("content of {path}")).expect("write");
    }
    kernel::xattr::set_at(crate::world::open(&layer), b"secret", b"user.x", b"1").expect("xattr");
    mode("secret", 0);
    mode("cache/mod/f", 0o444);
    mode("cache/mod", 0o555);
    mode("closed/below", 0o500);
    mode("closed", 0);
    // Root's own look needs no permission; the owner's is given it for a moment.
    let look = || {
        mode("closed", 0o700);
        mode("secret", 0o600);
        let model = model::read(&layer);
        mode("secret", 0);
        mode("closed", 0);
        model
    };
    let before = look();
    let (snapshot, captured) = world.try_snap().expect("snapshot");
    assert_eq!(captured.gaps, []);
    assert_eq!(captured.entries, 9);
    let is = |path: &str| fs::symlink_metadata(layer.join(path)).expect("stat").permissions().mode() & 0o777;
    assert_eq!((is("secret"), is("closed"), is("cache/mod")), (0, 0, 0o555));
    // Everything is changed, and put back.
    mode("closed", 0o700);
    mode("closed/below", 0o700);
    mode("cache/mod", 0o755);
    fs::remove_file(layer.join("closed/below/f")).expect("remove");
    fs::write(layer.join("cache/mod/g"), "new").expect("write");
    fs::remove_file(layer.join("secret")).expect("remove");
    fs::write(layer.join("readable"), "changed").expect("write");
    mode("closed/below", 0o500);
    mode("closed", 0);
    mode("cache/mod", 0o555);
    world.restore(snapshot.id);
    assert_eq!((is("secret"), is("closed"), is("cache/mod")), (0, 0, 0o555));
    model::assert_same(&look(), &before);
    for path in ["closed", "closed/below", "cache/mod"] {
        mode(path, 0o700);
    }
}
