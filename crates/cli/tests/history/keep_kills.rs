//! A kill, a full disk, a broken one and a write that is cut short at every single call of `keep` and of `undo --keep` that
//! writes: after the next command the original is exactly what it was before, or exactly what it was to be.

use testkit::{Plain, Who};

use crate::kills::{Strike, at_every_call, root, world};
use crate::world::{Made, World};

/// One of every act: something changed, new, gone, with another mode, and a new directory.
const WORK: &str = "echo kept >README.md; mkdir new; echo new >new/file; rm src/lib.rs; chmod 600 quiet";

fn ready(who: Who, made: Made) -> (World, Plain, Plain) {
    let world = world(who, made);
    world.env.write(&world.project.join("quiet"), b"quiet\n");
    world.lane("a");
    world.sh("a", WORK);
    let before = seen(&world);
    world.ok(&["keep", "a", "--yes"]);
    let kept = seen(&world);
    world.ok(&["undo", "--keep", "--yes"]);
    before.assert_same(&seen(&world));
    (world, before, kept)
}

fn seen(world: &World) -> Plain {
    Plain::without(&world.project, &[".git"])
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(ToString::to_string).collect()
}

fn keep_is_struck(who: Who, made: Made, strikes: &[Strike]) {
    let (world, before, kept) = ready(who, made);
    at_every_call(
        &world,
        strikes,
        &mut |_| {
            if seen(&world) == kept {
                world.ok(&["undo", "--keep", "--yes"]);
            }
            before.assert_same(&seen(&world));
            words(&["keep", "a", "--yes"])
        },
        &mut |_, place, ran| {
            // Any command puts it right.
            world.ok(&["ls"]);
            let now = seen(&world);
            if ran.code == Some(0) || now == kept {
                assert!(now == kept, "{place}: {ran}");
                assert_eq!(world.json(&["diff", "a"])["files"], serde_json::json!([]), "{place}");
            } else {
                before.assert_same(&now);
                let diff = world.json(&["diff", "a"]);
                assert_eq!(diff["drift"], serde_json::json!([]), "{place}: {diff}");
            }
        },
    );
}

fn undo_is_struck(who: Who, made: Made, strikes: &[Strike]) {
    let (world, before, kept) = ready(who, made);
    at_every_call(
        &world,
        strikes,
        &mut |_| {
            if seen(&world) == before {
                world.ok(&["keep", "a", "--yes"]);
            }
            kept.assert_same(&seen(&world));
            words(&["undo", "--keep", "--yes"])
        },
        &mut |_, place, ran| {
            world.ok(&["ls"]);
            let now = seen(&world);
            if ran.code == Some(0) || now == before {
                assert!(now == before, "{place}: {ran}");
                let diff = world.json(&["diff", "a"]);
                assert_eq!(diff["drift"], serde_json::json!([]), "{place}: {diff}");
            } else {
                kept.assert_same(&now);
            }
        },
    );
}

#[test]
fn b42_keep_killed_at_every_call() {
    keep_is_struck(Who::User, Made::Overlay, &[Strike::Kill]);
}

#[test]
fn b42_undo_of_a_keep_killed_at_every_call() {
    undo_is_struck(root(), Made::Overlay, &[Strike::Kill]);
}

#[test]
fn b39_keep_failing_at_every_call() {
    keep_is_struck(root(), Made::Copy, &[Strike::NoSpace, Strike::Io]);
}

#[test]
fn b39_undo_of_a_keep_failing_at_every_call() {
    undo_is_struck(Who::User, Made::Overlay, &[Strike::NoSpace, Strike::Io]);
}

#[test]
fn b39_keep_and_its_undo_with_every_write_cut_short() {
    keep_is_struck(Who::User, Made::Overlay, &[Strike::Short]);
    undo_is_struck(Who::User, Made::Overlay, &[Strike::Short]);
}
