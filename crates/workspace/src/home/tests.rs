use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{LaneHome, MountMode};
use crate::error::Error;
use crate::layer_place::{BESIDE, LayerPlace};

fn state() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().canonicalize().expect("exists");
    (dir, path)
}

fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_lane_is_made_once_and_held_by_its_maker() {
    let (_dir, state) = state();
    let (home, lock) = LaneHome::create(&state, "k3").expect("made");
    assert!(matches!(LaneHome::create(&state, "k3"), Err(Error::Exists { .. })));
    assert!(LaneHome::open(&state, "k3").expect("opened").try_lock().expect("asked").is_none());
    assert_eq!(home.holder().expect("asked"), Some(std::process::id() as i32));
    drop(lock);
    assert!(home.try_lock().expect("asked").is_some());
    assert_eq!(std::fs::metadata(home.path()).expect("there").permissions().mode() & 0o777, 0o700);
    assert!(matches!(LaneHome::open(&state, "none"), Err(Error::Missing { .. })));
}

#[test]
fn removal_leaves_nothing_wherever_the_layers_are() {
    let (_dir, state) = state();
    let (_beside, above) = self::state();
    let place = above.join(BESIDE);
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    let near = home.add_root(0, &LayerPlace::InState).expect("added");
    let far = home.add_root(1, &LayerPlace::At(place.clone())).expect("added");
    assert_eq!((near.upper.clone(), far.upper.clone()), (home.path().join("0.u"), place.join("k3/1.u")));
    assert_eq!(home.layers(0).expect("found"), near);
    assert_eq!(home.layers(1).expect("found"), far);
    assert_eq!(home.root_count().expect("counted"), 2);
    assert_eq!(home.places_elsewhere().expect("listed"), [place]);
    // A tree that refuses a plain removal: what a work directory and a module cache look like.
    let stubborn = far.work.join("work/deep");
    std::fs::create_dir_all(&stubborn).expect("made");
    std::fs::set_permissions(far.work.join("work"), PermissionsExt::from_mode(0o0)).expect("closed");
    crate::base::stamp(&home, &[1, 2]).expect("stamped");
    home.remove().expect("removed");
    assert_eq!(listing(&state.join("lanes")), Vec::<String>::new());
    assert_eq!(listing(&above), Vec::<String>::new());
}

#[test]
fn a_discarded_lane_comes_back_as_it_was() {
    let (_dir, state) = state();
    let (home, lock) = LaneHome::create(&state, "k3").expect("made");
    let layers = home.add_root(0, &LayerPlace::InState).expect("added");
    std::fs::create_dir(&layers.upper).expect("made");
    std::fs::write(layers.upper.join("f"), "kept").expect("written");
    home.trash(&state).expect("moved");
    drop(lock);
    assert!(matches!(LaneHome::open(&state, "k3"), Err(Error::Missing { .. })));
    let back = LaneHome::restore(&state, "k3").expect("back");
    assert_eq!(
        std::fs::read_to_string(back.layers(0).expect("found").upper.join("f")).expect("read"),
        "kept"
    );
    assert!(LaneHome::restore(&state, "k3").is_err());
}

#[test]
fn a_lane_is_unused_until_something_is_in_a_layer() {
    let (_dir, state) = state();
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    assert!(home.is_unused().expect("looked"));
    let layers = home.add_root(0, &LayerPlace::InState).expect("added");
    std::fs::create_dir(&layers.upper).expect("made");
    let like = kernel::open::root_dir(&state).expect("opened");
    let over_home = home.home_layers("0", std::os::fd::AsFd::as_fd(&like)).expect("made");
    assert!(home.is_unused().expect("looked"));
    std::fs::write(over_home.upper.join("f"), "").expect("written");
    assert!(!home.is_unused().expect("looked"));
    assert_eq!(home.home_uppers().expect("opened").len(), 1);
    std::fs::remove_file(over_home.upper.join("f")).expect("removed");
    std::fs::write(layers.upper.join("f"), "").expect("written");
    assert!(!home.is_unused().expect("looked"));
}

#[test]
fn a_copy_is_unused_as_long_as_it_is_as_it_was_made() {
    let (_dir, state) = state();
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    let layers = home.add_root(0, &LayerPlace::InState).expect("added");
    std::fs::create_dir_all(layers.copy.join("d/e")).expect("made");
    for name in ["f", "d/g"] {
        std::fs::write(layers.copy.join(name), "x").expect("written");
    }
    let copy = kernel::open::root_dir(&layers.copy).expect("opened");
    let options = crate::manifest::RecordOptions::default();
    let go_on = std::sync::atomic::AtomicBool::new(false);
    let copy = std::os::fd::AsFd::as_fd(&copy);
    crate::manifest::record(copy, &options, home.dir(), "copied.0", &go_on).expect("recorded");
    assert!(home.is_unused().expect("looked"));
    std::fs::write(layers.copy.join("d/g"), "y").expect("written");
    assert!(!home.is_unused().expect("looked"), "a file was written");
    crate::manifest::record(copy, &options, home.dir(), "copied.0", &go_on).expect("recorded");
    assert!(home.is_unused().expect("looked"));
    std::fs::remove_file(layers.copy.join("f")).expect("removed");
    assert!(!home.is_unused().expect("looked"), "a file was deleted");
}

#[test]
fn layers_that_are_gone_are_named() {
    let (_dir, state) = state();
    let (_beside, above) = self::state();
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    let layers = home.add_root(0, &LayerPlace::At(above.join("gone"))).expect("added");
    std::fs::remove_dir_all(above.join("gone")).expect("removed");
    match home.layers(0) {
        Err(Error::LayersGone { path }) => assert_eq!(path, layers.dir),
        other => panic!("{other:?}"),
    }
    home.remove().expect("what is gone is no obstacle");
}

#[test]
fn a_user_gets_a_fresh_work_directory_and_root_keeps_his() {
    let (_dir, state) = state();
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    let layers = home.add_root(0, &LayerPlace::InState).expect("added");
    for mode in [MountMode::Root, MountMode::User] {
        home.fresh_work(&layers, mode).expect("made");
        std::fs::create_dir_all(layers.work.join("work/incompat/volatile/dirty")).expect("made");
        std::fs::create_dir_all(layers.work.join("index")).expect("made");
        home.fresh_work(&layers, mode).expect("made ready");
        assert!(!layers.work.join("work/incompat/volatile").exists());
        assert_eq!(layers.work.join("index").exists(), mode == MountMode::Root);
    }
}

#[test]
fn the_boot_of_the_last_mount_is_told_before_it_is_overwritten() {
    let (_dir, state) = state();
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    crate::base::stamp(&home, &[]).expect("stamped");
    let now = crate::base::boot_id().expect("read");
    assert_eq!(home.note_boot().expect("noted"), now);
    assert!(!home.path().join("boot").exists(), "the stamp says it already");
    std::fs::write(home.path().join("boot"), "another").expect("written");
    assert_eq!(home.note_boot().expect("noted"), "another");
    assert_eq!(home.last_boot().expect("read"), now);
}

#[test]
fn b60_our_own_part_of_a_path_stays_short() {
    let (_dir, state) = state();
    let (home, _lock) = LaneHome::create(&state, "k3").expect("made");
    let layers = home.add_root(0, &LayerPlace::InState).expect("added");
    let ours = layers.upper.strip_prefix(&state).expect("below").as_os_str().len();
    assert!(ours <= "lanes/k3/0.u".len(), "{ours}");
}
