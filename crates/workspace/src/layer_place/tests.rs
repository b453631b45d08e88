use std::path::{Path, PathBuf};

use super::{BESIDE, LayerPlace, PlaceWhy, Placed, clones_files, make_at, place, remove_at};
use crate::mountinfo::MountTable;
use crate::origin::{OriginFacts, open_dir};

/// A parent directory with a project in it, and a state directory elsewhere.
struct Scene {
    _dirs: (tempfile::TempDir, tempfile::TempDir),
    above: PathBuf,
    state: PathBuf,
    facts: OriginFacts,
}

fn scene() -> Scene {
    let (near, far) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let above = near.path().canonicalize().expect("exists");
    let project = above.join("project");
    std::fs::create_dir(&project).expect("made");
    let facts = OriginFacts::gather(&project, &MountTable::load().expect("readable")).expect("facts");
    Scene { above, state: far.path().canonicalize().expect("exists"), facts, _dirs: (near, far) }
}

impl Scene {
    /// As if the parent directory were a mount of its own, which the state directory is not on.
    fn on_another_mount(mut self) -> Scene {
        self.facts.mount_point.clone_from(&self.above);
        self
    }

    fn remember(&self, clones: &str) {
        std::fs::write(self.state.join(format!("reflink-{}", self.facts.fs_id)), clones).expect("written");
    }
}

#[test]
fn layers_stay_in_the_state_directory_on_the_same_mount() {
    let scene = scene();
    let placed = place(&scene.facts, &scene.state, None).expect("placed");
    assert_eq!(placed, Placed { place: LayerPlace::InState, why: PlaceWhy::SameMount, reflinks: None });
}

#[test]
fn a_wish_is_followed() {
    let scene = scene();
    let placed = place(&scene.facts, &scene.state, Some(Path::new("/dev/shm/x"))).expect("placed");
    assert_eq!((placed.place, placed.why), (LayerPlace::At("/dev/shm/x".into()), PlaceWhy::AskedFor));
}

#[test]
fn what_was_found_by_trying_is_remembered_and_leaves_nothing_behind() {
    let mut scene = scene().on_another_mount();
    // Another mount id than the state directory's, and than that of any directory above: no place beside.
    scene.facts.mount_id = u64::MAX;
    let placed = place(&scene.facts, &scene.state, None).expect("placed");
    assert_eq!(placed.why, PlaceWhy::NoRoomBeside);
    scene.remember("no\n");
    let placed = place(&scene.facts, &scene.state, None).expect("placed");
    assert_eq!((placed.why, placed.reflinks), (PlaceWhy::NoReflink, Some(false)));
    let before: Vec<_> = std::fs::read_dir(&scene.above).expect("listed").collect();
    let _found = clones_files(std::os::fd::AsFd::as_fd(&open_dir(&scene.above).expect("opened")));
    assert_eq!(std::fs::read_dir(&scene.above).expect("listed").count(), before.len());
}

#[test]
fn the_shared_directory_goes_with_its_last_lane() {
    let scene = scene();
    let place = scene.above.join(BESIDE);
    make_at(&place, "one").expect("made");
    make_at(&place, "two").expect("made");
    make_at(&place, "two").expect("found made");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&place).expect("there").permissions().mode() & 0o777, 0o700);
    remove_at(&place, "one").expect("removed");
    assert!(place.join("two").is_dir());
    remove_at(&place, "two").expect("removed");
    assert!(!place.exists());
    remove_at(&place, "two").expect("removed already");
}

#[test]
fn a_link_in_place_of_the_shared_directory_is_not_followed() {
    let scene = scene();
    let place = scene.above.join(BESIDE);
    std::os::unix::fs::symlink(&scene.state, &place).expect("linked");
    assert!(make_at(&place, "one").is_err());
    assert_eq!(std::fs::read_dir(&scene.state).expect("listed").count(), 0);
}

#[test]
fn no_place_is_found_inside_a_git_tree() {
    let scene = scene().on_another_mount();
    let highest = super::highest_own_dir(&scene.facts).expect("looked");
    assert_eq!(highest, Some(scene.above.clone()));
    std::fs::create_dir(scene.above.join(".git")).expect("made");
    assert_eq!(super::highest_own_dir(&scene.facts).expect("looked"), None);
}
