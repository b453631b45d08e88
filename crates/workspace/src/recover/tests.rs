use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Remnant, RemnantKind, clear, remnants};
use crate::home::LaneHome;
use crate::layer_place::{BESIDE, LayerPlace};

const LONG: Duration = Duration::from_secs(1 << 40);

fn found(state: &Path, known: &[&str], keep_trash: Duration) -> Vec<(RemnantKind, String)> {
    let remnants = remnants(state, &|id| known.contains(&id), keep_trash).expect("looked");
    remnants.into_iter().map(|remnant| (remnant.kind, remnant.id)).collect()
}

/// A lane as it is after the `steps`-th step of its making, its maker dead.
fn interrupted(state: &Path, place: &Path, id: &str, steps: usize) {
    let (home, lock) = LaneHome::create(state, id).expect("made");
    if steps > 0 {
        home.add_root(0, &LayerPlace::InState).expect("added");
    }
    if steps > 1 {
        home.add_root(1, &LayerPlace::At(place.to_path_buf())).expect("added");
    }
    if steps > 2 {
        let dangling = place.with_file_name("never-made");
        std::os::unix::fs::symlink(dangling.join(id), home.path().join("2.at")).expect("linked");
    }
    if steps > 3 {
        crate::base::stamp(&home, &[1]).expect("stamped");
    }
    drop(lock);
}

fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, above) = (dir.path().join("state"), dir.path().join("above"));
    std::fs::create_dir(&state).expect("made");
    std::fs::create_dir(&above).expect("made");
    (dir, state, above.join(BESIDE))
}

#[test]
fn a_lane_whose_maker_died_at_any_step_is_found_and_leaves_nothing() {
    for steps in 0..=4 {
        let (_dir, state, place) = scene();
        interrupted(&state, &place, "k3", steps);
        let kind = if steps > 3 { RemnantKind::Unknown } else { RemnantKind::HalfMade };
        assert_eq!(found(&state, &[], LONG), [(kind, "k3".to_owned())], "step {steps}");
        for remnant in remnants(&state, &|_| false, LONG).expect("looked") {
            assert!(clear(&state, &remnant).expect("cleared"));
        }
        assert_eq!(std::fs::read_dir(state.join("lanes")).expect("listed").count(), 0, "step {steps}");
        assert!(!place.exists(), "step {steps}");
        assert_eq!(found(&state, &[], LONG), []);
    }
}

#[test]
fn a_lane_that_somebody_holds_is_no_remnant() {
    let (_dir, state, _) = scene();
    let (_home, lock) = LaneHome::create(&state, "k3").expect("made");
    assert_eq!(found(&state, &[], LONG), []);
    drop(lock);
    assert_eq!(found(&state, &[], LONG).len(), 1);
}

#[test]
fn a_lane_that_was_taken_meanwhile_is_not_cleared() {
    let (_dir, state, place) = scene();
    interrupted(&state, &place, "k3", 4);
    let remnant = remnants(&state, &|_| false, LONG).expect("looked").remove(0);
    let home = LaneHome::open(&state, "k3").expect("opened");
    let _lock = home.try_lock().expect("asked").expect("free");
    assert!(!clear(&state, &remnant).expect("refused"));
    assert!(home.path().join("base").exists());
}

#[test]
fn a_directory_between_two_calls_of_its_maker_is_left_alone() {
    let (_dir, state, _) = scene();
    std::fs::create_dir_all(state.join("lanes/k3")).expect("made");
    let maker = std::fs::File::open(state.join("lanes")).expect("opened");
    rustix::fs::flock(&maker, rustix::fs::FlockOperation::LockShared).expect("held");
    assert_eq!(found(&state, &[], LONG), []);
    // A maker that is killed there lets go: what it left is found at once.
    drop(maker);
    assert_eq!(found(&state, &[], LONG), [(RemnantKind::HalfMade, "k3".to_owned())]);
}

#[test]
fn a_whole_lane_that_is_known_stays_and_loses_only_stale_temporaries() {
    let (_dir, state, place) = scene();
    interrupted(&state, &place, "k3", 4);
    assert_eq!(found(&state, &["k3"], LONG), []);
    let temp = state.join("lanes/k3").join(".lk-tmp-1-2-3");
    std::fs::write(&temp, "half a manifest").expect("written");
    assert_eq!(found(&state, &["k3"], LONG), [(RemnantKind::Temporary, "k3".to_owned())]);
    let remnant = Remnant { kind: RemnantKind::Temporary, id: "k3".into(), path: temp.clone() };
    assert!(clear(&state, &remnant).expect("cleared"));
    assert!(!temp.exists());
    assert_eq!(found(&state, &["k3"], LONG), []);
}

#[test]
fn trash_is_kept_for_its_time() {
    let (_dir, state, place) = scene();
    interrupted(&state, &place, "k3", 4);
    LaneHome::open(&state, "k3").expect("opened").trash(&state).expect("moved");
    assert_eq!(found(&state, &[], LONG), []);
    assert_eq!(found(&state, &[], Duration::ZERO), [(RemnantKind::OldTrash, "k3".to_owned())]);
    for remnant in remnants(&state, &|_| false, Duration::ZERO).expect("looked") {
        assert!(clear(&state, &remnant).expect("cleared"));
    }
    assert!(!place.exists());
    assert_eq!(std::fs::read_dir(state.join("trash")).expect("listed").count(), 0);
}
