//! Exports: the whole result beside the origin.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use review::Error;
use review::export::{ExportOptions, export};

use crate::world::{Shape, World, change_rich, chmod, fill_rich, write};

const PLAIN: ExportOptions = ExportOptions { git: false };

#[test]
fn an_export_is_what_the_lane_shows_with_modes_times_links_and_attributes() {
    let world = World::new(fill_rich, change_rich);
    let (_, lane) = world.trees();
    let target = world.top.join("result");
    let report = export(&lane, &target, PLAIN).expect("exported");
    assert_eq!(report.not_carried, []);
    testkit::Plain::of(&world.lane()).assert_same(&testkit::Plain::of(&target));
    let (is, was) = (Shape::of(&target), Shape::of(&world.lane()));
    for name in ["", "src/keep.txt", "lib2", "link", "pipe2", "to/there/moved.bin", "tight"] {
        assert_eq!(is.get(name).mtime, was.get(name).mtime, "{name}");
    }
    let ino = |name: &str| fs::metadata(target.join(name)).expect("stat").ino();
    assert_eq!(ino("twin1"), ino("twin2"));
    assert!(fs::metadata(target.join("sparse")).expect("stat").blocks() < 64);
}

#[test]
fn what_exists_is_never_touched() {
    let world = World::new(|o| write(o.join("a"), "a"), |_| {});
    let (_, lane) = world.trees();
    let makers: [fn(&std::path::Path); 3] = [
        |p| write(p.join("mine"), "x"),
        |p| write(p.to_owned(), "x"),
        |p| symlink("nowhere", p).expect("linked"),
    ];
    for make in makers {
        let target = world.top.join("result");
        make(&target);
        assert!(matches!(export(&lane, &target, PLAIN).expect_err("refused"), Error::Exists(_)));
        let _ = fs::remove_dir_all(&target).or_else(|_| fs::remove_file(&target));
    }
    let left: Vec<_> =
        fs::read_dir(&world.top).expect("listed").map(|e| e.expect("an entry").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".lk")), "{left:?}");
}

#[test]
fn links_are_copied_as_links_and_lead_nowhere_new() {
    let world = World::new(
        |o| write(o.join("a"), "a"),
        |l| {
            symlink("/etc", l.join("abs")).expect("linked");
            symlink("../..", l.join("up")).expect("linked");
        },
    );
    let (_, lane) = world.trees();
    let target = world.top.join("result");
    export(&lane, &target, PLAIN).expect("exported");
    assert_eq!(fs::read_link(target.join("abs")).expect("read"), std::path::Path::new("/etc"));
    assert_eq!(fs::read_link(target.join("up")).expect("read"), std::path::Path::new("../.."));
}

#[test]
fn set_id_bits_sockets_and_git_innards_are_left_out_and_listed() {
    let world = World::new(
        |o| write(o.join(".git/config"), "x"),
        |l| {
            write(l.join("s"), "x");
            chmod(l.join("s"), 0o4755);
            std::os::unix::net::UnixListener::bind(l.join("sock")).expect("bound");
        },
    );
    let (_, lane) = world.trees();
    let target = world.top.join("result");
    let report = export(&lane, &target, PLAIN).expect("exported");
    let names: Vec<String> = report.not_carried.iter().map(|(path, why)| format!("{path:?} {why}")).collect();
    assert_eq!(names, ["\".git\" git's own files", "\"s\" mode 4755", "\"sock\" a socket or device"]);
    assert!(!target.join(".git").exists());
    let target = world.top.join("with-git");
    export(&lane, &target, ExportOptions { git: true }).expect("exported");
    assert!(target.join(".git/config").exists());
}

#[test]
fn a_failed_export_leaves_nothing() {
    let world = World::new(|o| write(o.join("a"), "a"), |_| {});
    let lane = tree::DirTree::open(&world.lane()).expect("open");
    /// Cannot open one file.
    struct Broken(tree::DirTree);
    impl tree::Source for Broken {
        fn entry(&self, path: &tree::TreePath) -> kernel::Result<Option<tree::Entry>> {
            self.0.entry(path)
        }
        fn list(&self, path: &tree::TreePath) -> kernel::Result<Vec<Vec<u8>>> {
            self.0.list(path)
        }
        fn open(&self, path: &tree::TreePath) -> kernel::Result<std::os::fd::OwnedFd> {
            Err(kernel::Error::new("openat2", path.as_bytes(), kernel::Errno::IO))
        }
        fn xattrs(&self, path: &tree::TreePath) -> kernel::Result<Vec<tree::source::Xattr>> {
            self.0.xattrs(path)
        }
    }
    let before = Shape::of(&world.lane());
    let count = fs::read_dir(&world.top).expect("listed").count();
    assert!(matches!(
        export(&Broken(lane), &world.top.join("result"), PLAIN).expect_err("failed"),
        Error::Read { .. }
    ));
    assert_eq!(fs::read_dir(&world.top).expect("listed").count(), count);
    before.assert_same(&Shape::of(&world.lane()), "lane");
}
