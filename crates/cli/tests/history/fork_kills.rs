//! A kill, a full disk, a broken one and a write that is cut short at every single call of `fork` that writes: the lane that is forked is what it was, and
//! there is a whole new lane of that name or none.

use testkit::Who;

use crate::kills::{Strike, all_restore, at_every_call, going_back_in_is_struck, root, work, world};
use crate::view::View;
use crate::world::{Made, World, word};

/// Forks, struck at every call: the lane that is forked shows the same, and there is a whole fork of that name or none.
fn fork_is_struck(world: &World, strikes: &[Strike], live: bool) {
    world.lane("a");
    world.sh("a", &work(1));
    let first = (world.snap("a"), View::of(world, "a"));
    if live {
        world.ok(&["run", "-d", "-q", "-n", "a", "--checkpoints", "none", "--", "sleep", "10000"]);
    }
    let (mut made, mut not) = (0, 0);
    let told = std::cell::RefCell::new(None);
    at_every_call(
        world,
        strikes,
        &mut |round| {
            if round == 1 {
                // What was counted was made.
                world.gone("b");
            }
            if !live {
                world.sh(
                    "a",
                    &format!("echo {round} > w/f; rm -rf w/n; mkdir w/n; echo {round} > w/n/{round}"),
                );
                *told.borrow_mut() = Some(View::of(world, "a"));
            }
            ["fork", "a", "b"].map(String::from).to_vec()
        },
        &mut |round, place, ran| {
            let before = told.borrow_mut().take();
            let before = before.as_ref().unwrap_or(&first.1);
            let names: Vec<String> = world
                .json(&["ls"])
                .as_array()
                .unwrap()
                .iter()
                .map(|lane| word(&lane["name"]).to_owned())
                .collect();
            let is_made = names.iter().any(|name| name == "b");
            assert!(names.len() == 1 + usize::from(is_made), "{place}: {names:?}");
            assert!(ran.code != Some(0) || is_made, "{place}: {ran}");
            // No half lane is anywhere.
            let lanes = std::fs::read_dir(world.state().join("lanes")).unwrap().count();
            assert_eq!(lanes, names.len(), "{place}");
            if !live {
                View::of(world, "a").assert_same(before, place);
            }
            if is_made {
                made += 1;
                View::of(world, "b").assert_same(before, place);
                if round % 5 == 0 {
                    if world.made == Made::Copy {
                        // A copy begins with the tree that it is.
                        world.snap("b");
                    }
                    world.sh("b", "echo other > w/f; rm -r w/d");
                    world.snap("b");
                    world.ok(&["undo", "b", "--yes"]);
                    View::of(world, "b").assert_same(before, place);
                }
                world.gone("b");
            } else {
                not += 1;
            }
            if round % 7 == 0 {
                world.assert_whole(place);
            }
        },
    );
    // A write that is cut short is gone on with.
    let all = strikes == [Strike::Short];
    assert!(made > 0 && (not > 0) != all, "{made} were made and {not} were not");
    if live {
        world.ok(&["stop", "a"]);
    }
    all_restore(world, &[first]);
    world.gone("a");
    let left: Vec<_> = std::fs::read_dir(world.state().join("layers"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name != "lock")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn fork_killed_at_every_call_of_an_ordinary_user() {
    fork_is_struck(&world(Who::User, Made::Overlay), &[Strike::Kill], false);
}

#[test]
fn fork_killed_at_every_call_of_root() {
    fork_is_struck(&world(root(), Made::Overlay), &[Strike::Kill], false);
}

#[test]
fn fork_of_a_copy_killed_at_every_call() {
    fork_is_struck(&world(Who::User, Made::Copy), &[Strike::Kill], false);
}

#[test]
fn fork_of_a_live_lane_killed_at_every_call() {
    fork_is_struck(&world(Who::User, Made::Overlay), &[Strike::Kill], true);
}

#[test]
fn fork_failing_at_every_call() {
    fork_is_struck(&world(Who::User, Made::Overlay), &[Strike::NoSpace], false);
    fork_is_struck(&world(root(), Made::Overlay), &[Strike::Io], false);
}

#[test]
fn fork_with_every_write_cut_short() {
    fork_is_struck(&world(Who::User, Made::Overlay), &[Strike::Short], false);
    fork_is_struck(&world(root(), Made::Copy), &[Strike::Short], false);
}

/// Going back in a lane whose layers another one stands on, too.
fn going_back_in_a_fork_is_struck(world: &World, strikes: &[Strike]) {
    world.lane("p");
    world.sh("p", &format!("mkdir k; echo k > k/k; echo x > more; {}", work(7)));
    let seen = View::of(world, "p");
    world.ok(&["fork", "p", "a"]);
    let restore = |id: &str| ["restore", "a", id, "--yes"].map(String::from).to_vec();
    going_back_in_is_struck(world, strikes, &restore);
    View::of(world, "p").assert_same(&seen, "the other lane");
}

#[test]
fn restore_in_a_fork_killed_at_every_call() {
    going_back_in_a_fork_is_struck(&world(Who::User, Made::Overlay), &[Strike::Kill]);
}

#[test]
fn restore_in_a_fork_failing_at_every_call() {
    going_back_in_a_fork_is_struck(&world(root(), Made::Overlay), &[Strike::NoSpace]);
}
