//! Layers on other filesystems than the state directory's, projects on filesystems that clone, full disks
//! and mounts below a project: on real filesystems, which only root can mount.

use std::path::{Path, PathBuf};

use testkit::loopfs::{FsKind, LoopFs};
use testkit::who::Who;
use workspace::layer_place::BESIDE;
use workspace::{
    Abilities, LayerPlace, MountTable, OriginFacts, PlaceWhy, Placed, Reason, Strategy, choose, place,
};

use crate::lane::{Lane, Scratch, Way, lane_of, lines, shell, ways};

struct Scene {
    dir: Scratch,
    state: PathBuf,
    origin: PathBuf,
    facts: OriginFacts,
    placed: Placed,
}

/// A project on a filesystem, the state directory elsewhere.
fn scene(top: &Path, script: &str) -> Scene {
    let dir = Scratch::new();
    let state = dir.path();
    let origin = top.join("work/project");
    std::fs::create_dir_all(&origin).expect("made");
    shell(&origin, script);
    let facts = OriginFacts::gather(&origin, &MountTable::load().expect("readable")).expect("facts");
    let placed = place(&facts, &state, None).expect("placed");
    Scene { dir, state, origin, facts, placed }
}

impl Scene {
    fn lane(self, way: Way) -> Lane {
        lane_of(way, &self.origin, &self.state, &self.placed.place, self.dir)
    }
}

const KINDS: [(FsKind, u64, bool); 4] = [
    (FsKind::Btrfs, 120, true),
    (FsKind::Xfs, 320, true),
    (FsKind::Ext4, 64, false),
    (FsKind::Tmpfs, 64, false),
];

#[test]
fn layers_go_beside_the_project_where_its_filesystem_clones_and_leave_nothing() {
    for (kind, size, clones) in KINDS {
        let Some(fs) = LoopFs::make(kind, size, Who::Root) else { return };
        for way in ways() {
            let scene = scene(&fs.path(), "head -c 8000000 /dev/urandom > big; echo x > f");
            let beside = fs.path().join(BESIDE);
            let expected = match clones {
                true => Placed {
                    place: LayerPlace::At(beside.clone()),
                    why: PlaceWhy::Reflink,
                    reflinks: Some(true),
                },
                false => {
                    Placed { place: LayerPlace::InState, why: PlaceWhy::NoReflink, reflinks: Some(false) }
                }
            };
            assert_eq!(scene.placed, expected, "{kind:?}");
            // The second time it is remembered.
            assert_eq!(place(&scene.facts, &scene.state, None).expect("placed"), expected, "{kind:?}");
            let lane = scene.lane(way);
            let cost = lane.work.prepare(&mut |_| ()).expect("prepared");
            if way == Way::Copy {
                assert_eq!(cost.files, 2);
                assert_eq!((cost.cloned == 2, cost.allocated == 0), (clones, clones), "{kind:?} {cost:?}");
                let exclusive = lane.work.exclusive_bytes(&|_| false).expect("measured");
                assert_eq!(exclusive < 1_000_000, clones, "{kind:?} {exclusive}");
            }
            lane.run("echo more >> big; mkdir d; mv f d/f");
            assert_eq!(lines(&lane.changes()), ["M big", "A d", "R f -> d/f"], "{kind:?} {way:?}");
            lane.home.remove().expect("removed");
            assert!(!beside.exists(), "{kind:?} {way:?}");
            std::fs::remove_dir_all(fs.path().join("work")).expect("removed");
        }
    }
}

#[test]
fn a_copy_that_does_not_fit_fails_whole_and_frees_the_disk() {
    let Some(fs) = LoopFs::make(FsKind::Tmpfs, 4, Who::Root) else { return };
    let dir = Scratch::new();
    let top = dir.path();
    let (origin, state) = (top.join("project"), top.join("state"));
    std::fs::create_dir(&origin).expect("made");
    std::fs::create_dir(&state).expect("made");
    shell(&origin, "head -c 8000000 /dev/urandom > big");
    let lane = lane_of(Way::Copy, &origin, &state, &LayerPlace::At(fs.path().join("layers")), dir);
    let error = lane.work.prepare(&mut |_| ()).expect_err("it does not fit");
    assert!(error.to_string().contains("No space left"), "{error}");
    // By name, not by free blocks: another test's child may hold a descriptor for an instant.
    let left: Vec<_> = std::fs::read_dir(fs.path().join("layers/k3")).expect("listed").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn b13_a_mount_below_the_project_is_named_and_leads_to_a_copy_without_it() {
    let Some(fs) = LoopFs::make(FsKind::Tmpfs, 4, Who::Root) else { return };
    shell(&fs.path(), "echo mounted > inside");
    // The directory that the filesystem is mounted in is the project.
    let origin = fs.path().parent().expect("above").to_path_buf();
    shell(&origin, "echo x > f");
    let facts = OriginFacts::gather(&origin, &MountTable::load().expect("readable")).expect("facts");
    assert_eq!(facts.submounts, [fs.path()]);
    let can = Abilities { is_root: true, overlay_user: Ok(()), overlay_root: Ok(()), reflink: false };
    let choice = choose(&facts, &can, None).expect("copy serves");
    assert_eq!(choice.rejected, [(Strategy::Overlay, Reason::Submounts(vec![fs.path()]))]);
    let dir = Scratch::new();
    let state = dir.path();
    let lane = lane_of(Way::Copy, &origin, &state, &LayerPlace::InState, dir);
    let cost = lane.work.prepare(&mut |_| ()).expect("prepared");
    assert_eq!(cost.left_out.iter().map(|(path, _)| path.as_bytes()).collect::<Vec<_>>(), [b"m"]);
    lane.run("echo y > f");
    assert_eq!(lines(&lane.changes()), ["M f"]);
}
