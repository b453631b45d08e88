//! A lane's tree in which some paths show something else, taken through every consumer of a lane.

use std::fs;
use std::os::fd::AsFd as _;
use std::process::Command;

use kernel::bytes::read_all;
use review::apply::{NoFaults, Options, Places, execute};
use review::composed::{Composed, Made};
use review::export::{ExportOptions, export};
use review::plan::{Wish, plan};
use review::select::Selection;
use tree::{ChangeKind, Source as _};

use crate::world::{World, path, write, xattr};

fn world() -> World {
    World::new(
        |o| {
            write(o.join("a.txt"), "one\ntwo\nthree\n");
            write(o.join("dir/gone.txt"), "gone\n");
            write(o.join("same"), "same");
        },
        |l| {
            write(l.join("a.txt"), "ONE\ntwo\nTHREE\n");
            xattr(l.join("a.txt"), "user.of", "lane");
            fs::remove_dir_all(l.join("dir")).expect("removed");
            write(l.join("new"), "new");
        },
    )
}

fn composed(world: &World) -> Composed<'static> {
    let (base, lane) = world.trees();
    Composed::new(Box::new(lane), Box::new(base))
}

#[test]
fn made_content_is_planned_and_kept_like_a_lanes_file() {
    for beside in [true, false] {
        let world = world();
        let (base, lane) = world.trees();
        let mut tree = composed(&world);
        assert!(tree.is_plain());
        let like = lane.entry(&path("a.txt")).expect("stat").expect("there");
        let made = Made::write(base.fd(), b"ONE\ntwo\nthree\n").expect("made");
        let entry = tree.put(&path("a.txt"), made, &like, vec![(b"user.of".to_vec(), b"us".to_vec())]);
        let entry = entry.expect("put");
        assert_eq!(entry, tree.entry(&path("a.txt")).expect("stat").expect("there"));
        let mut set = world.set();
        let change = set.changes.iter_mut().find(|change| change.path == path("a.txt")).expect("changed");
        change.new = Some(entry);
        let selection = Selection::of(vec![path("a.txt"), path("new")]);
        let wish = Wish { set: &set, selection: &selection, drift: &[], set_id: false };
        let plan = plan(&wish, &base, &tree).expect("a plan");
        assert_eq!(plan.steps.len(), 2);
        let (staging, journal) = (world.beside(), world.journal());
        let places = Places { staging: beside.then_some(staging.as_path()), journal: &journal };
        execute(&plan, base.fd(), &tree, &places, &Options::default(), &NoFaults).expect("kept");
        assert_eq!(fs::read(world.origin().join("a.txt")).expect("read"), b"ONE\ntwo\nthree\n");
        assert_eq!(fs::read(world.lane().join("a.txt")).expect("read"), b"ONE\ntwo\nTHREE\n");
        assert_eq!(base.xattrs(&path("a.txt")).expect("read")[0].1, b"us");
        assert_eq!(fs::read(world.origin().join("new")).expect("read"), b"new");
        world.assert_no_residue();
    }
}

#[test]
fn listing_entry_and_content_of_a_composed_tree_agree() {
    let world = world();
    let mut tree = composed(&world);
    tree.hide(&path("new"));
    tree.show_base(&path("dir/gone.txt"), &path("dir/gone.txt"), None).expect("shown").expect("there");
    let like = tree.entry(&path("same")).expect("stat").expect("there");
    tree.put(&path("made"), Made::in_memory(b"made").expect("made"), &like, Vec::new()).expect("put");
    let names = tree.list(&path("")).expect("listed");
    assert_eq!(names, [b"a.txt".as_slice(), b"dir", b"made", b"same"]);
    assert_eq!(tree.list(&path("dir")).expect("listed"), [b"gone.txt"]);
    for (name, entry) in tree.list_entries(&path("")).expect("listed") {
        assert_eq!(tree.entry(&path("").join(&name)).expect("stat"), Some(entry));
    }
    assert_eq!(tree.entry(&path("new")).expect("stat"), None);
    assert!(tree.open(&path("new")).is_err() && tree.xattrs(&path("new")).is_err());
    // Each opening reads from the start.
    for _ in 0..2 {
        let file = fs::File::from(tree.open(&path("made")).expect("open"));
        let text = std::io::read_to_string(file).expect("read");
        assert_eq!(text, "made");
    }
    assert_eq!(read_all(tree.open(&path("dir/gone.txt")).expect("open").as_fd()).expect("read"), b"gone\n");
    let target = world.top.join("exported");
    export(&tree, &target, ExportOptions { git: false }).expect("exported");
    assert_eq!(fs::read(target.join("dir/gone.txt")).expect("read"), b"gone\n");
    assert_eq!(fs::read(target.join("made")).expect("read"), b"made");
    assert!(!target.join("new").exists());
}

#[test]
fn a_patch_of_a_composed_tree_carries_what_it_shows() {
    let world = world();
    let (base, _) = world.trees();
    let mut tree = composed(&world);
    let like = base.entry(&path("a.txt")).expect("stat").expect("there");
    let made = Made::in_memory(b"one\ntwo\nTHREE\n").expect("made");
    let entry = tree.put(&path("a.txt"), made, &like, Vec::new()).expect("put");
    let mut set = world.set();
    set.changes.retain(|change| change.path == path("a.txt"));
    set.changes[0].new = Some(entry);
    assert_eq!(set.changes[0].kind, ChangeKind::Modify);
    let mut patch = Vec::new();
    review::patch::write_patch(&set, &base, &tree, &mut patch).expect("a patch");
    write(world.top.join("p"), &patch);
    let git = Command::new("git").current_dir(world.origin()).args(["apply", "../p"]).status().expect("git");
    assert!(git.success());
    assert_eq!(fs::read(world.origin().join("a.txt")).expect("read"), b"one\ntwo\nTHREE\n");
}

#[test]
fn content_with_other_mode_and_attributes_is_not_copied() {
    let world = world();
    let (_, lane) = world.trees();
    let mut tree = composed(&world);
    crate::world::chmod(world.lane().join("a.txt"), 0o755);
    let shown = tree.undress(&path("a.txt"), &path("a.txt")).expect("stat").expect("there");
    let is = lane.entry(&path("a.txt")).expect("stat").expect("there");
    assert_eq!((shown.mode, shown.ino, shown.mtime), (0o644, is.ino, is.mtime));
    assert!(tree.xattrs(&path("a.txt")).expect("read").is_empty());
    let dressed = tree.show_base(&path("a.txt"), &path("a.txt"), Some(&path("a.txt")));
    assert_eq!(dressed.expect("stat").expect("there").mode, 0o755);
    assert_eq!(tree.xattrs(&path("a.txt")).expect("read")[0].1, b"lane");
    assert_eq!(
        read_all(tree.open(&path("a.txt")).expect("open").as_fd()).expect("read"),
        b"one\ntwo\nthree\n"
    );
}
