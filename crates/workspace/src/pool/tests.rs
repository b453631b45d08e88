use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use super::{Pool, parse};
use crate::home::LaneHome;
use crate::layer_place::{BESIDE, LayerPlace};

fn state() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().canonicalize().expect("exists");
    (dir, path)
}

fn listing(dir: &Path) -> Vec<String> {
    let Ok(names) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A lane that stands on these layers.
fn lane(state: &Path, id: &str, ids: &[String]) -> LaneHome {
    let (home, _) = LaneHome::create(state, id).expect("made");
    home.add_root(0, &LayerPlace::InState).expect("added").set_sealed(ids).expect("named");
    home
}

fn made(pool: &Pool, lane: &str, place: &LayerPlace) -> String {
    let like = kernel::open::root_dir(Path::new("/tmp")).expect("opened");
    let held = pool.hold().expect("held");
    pool.make(&held, lane, place, like.as_fd()).expect("made")
}

const NOBODY: &dyn Fn(&str) -> bool = &|_| false;

#[test]
fn a_layer_goes_with_the_last_lane_that_stands_on_it() {
    let (_dir, state) = state();
    let pool = Pool::of(&state);
    let ids = vec![made(&pool, "k3", &LayerPlace::InState), made(&pool, "k3", &LayerPlace::InState)];
    assert_eq!(ids, ["k3-1", "k3-2"]);
    let (parent, child) = (lane(&state, "k3", &ids), lane(&state, "m4", &ids[1..]));
    assert_eq!(pool.users().expect("looked"), [("k3-1".to_owned(), 1), ("k3-2".to_owned(), 2)].into());
    parent.trash(&state).expect("trashed");
    assert_eq!(pool.sweep(NOBODY).expect("swept"), 0);
    LaneHome::open_trashed(&state, "k3").expect("opened").remove().expect("removed");
    assert_eq!(listing(pool.path()), ["k3-2", "lock"]);
    child.remove().expect("removed");
    assert_eq!(listing(pool.path()), ["lock"]);
}

#[test]
fn layers_beside_a_project_leave_nothing_there() {
    let (_dir, state) = state();
    let (_beside, above) = self::state();
    let place = LayerPlace::At(above.join(BESIDE));
    let pool = Pool::of(&state);
    let id = made(&pool, "k3", &place);
    let path = pool.layer(&id).expect("found");
    assert_eq!(path, above.join(BESIDE).join("layers").join("k3-1"));
    std::fs::create_dir_all(path.join("a/b")).expect("made");
    let home = lane(&state, "k3", &[id]);
    home.remove().expect("removed");
    assert_eq!((listing(pool.path()), listing(&above)), (vec!["lock".to_owned()], vec![]));
}

#[test]
fn a_sweep_takes_what_no_lane_names_and_what_was_half_deleted_and_nothing_else() {
    let (_dir, state) = state();
    let pool = Pool::of(&state);
    assert_eq!(pool.sweep(NOBODY).expect("nothing there"), 0);
    let ids: Vec<String> = (0..4).map(|_| made(&pool, "k3", &LayerPlace::InState)).collect();
    let _home = lane(&state, "k3", &ids[..1]);
    std::fs::rename(pool.path().join(&ids[1]), pool.path().join("k3-2.gone")).expect("renamed");
    assert_eq!(pool.sweep(&|id| id == "k3-3").expect("swept"), 2);
    assert_eq!(listing(pool.path()), ["k3-1", "k3-3", "lock"]);
}

#[test]
fn a_layer_in_the_making_is_left_alone() {
    let (_dir, state) = state();
    let pool = Pool::of(&state);
    let held = pool.hold().expect("held");
    let like = kernel::open::root_dir(&state).expect("opened");
    pool.make(&held, "k3", &LayerPlace::InState, like.as_fd()).expect("made");
    assert_eq!(pool.sweep(NOBODY).expect("swept"), 0);
    drop(held);
    assert_eq!(pool.sweep(NOBODY).expect("swept"), 1);
}

#[test]
fn a_stack_is_a_list_of_names_and_nothing_else_is() {
    assert_eq!(parse(b"k3-12,m4-1"), Some(vec!["k3-12".to_owned(), "m4-1".to_owned()]));
    for bad in [b"".as_slice(), b"k3-1,", b"../x", b"a/b", b"-x", b"k3-1.gone", b"\xff"] {
        assert_eq!(parse(bad), None, "{}", bad.escape_ascii());
    }
}
