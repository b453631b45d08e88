//! A kill, a full disk, a broken one and a write that is cut short at every single call of `keep` and of `undo --keep` that
//! writes: after the next command the original is exactly what it was before, or exactly what it was to be.

use testkit::{Plain, Who};

use crate::kills::{Strike, at_every_call, root, world};
use crate::world::{Made, World};

/// One of every act: something changed, new, gone, with another mode, and a new directory.
const WORK: &str = "echo kept >README.md; mkdir new; echo new >new/file; rm src/lib.rs; chmod 600 quiet";
/// The same by two lanes, with a file that both change.
const PARTS: [&str; 2] = [
    "echo kept >README.md; mkdir new; echo new >new/file; sed -i 's/^2$/a/' both",
    "rm src/lib.rs; chmod 600 quiet; sed -i 's/^8$/b/' both",
];

const ONE: &[&str] = &["keep", "a", "--yes"];
const SEVERAL: &[&str] = &["keep", "a", "--with", "b", "--yes"];

fn ready(who: Who, made: Made, keep: &[&str]) -> (World, Plain, Plain) {
    let world = world(who, made);
    world.env.write(&world.project.join("quiet"), b"quiet\n");
    world.env.write(&world.project.join("both"), b"1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    for (lane, work) in if keep == ONE { vec![("a", WORK)] } else { vec![("a", PARTS[0]), ("b", PARTS[1])] } {
        world.lane(lane);
        world.sh(lane, work);
    }
    let before = seen(&world);
    world.ok(keep);
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

fn lanes(keep: &[&str]) -> &'static [&'static str] {
    if keep == ONE { &["a"] } else { &["a", "b"] }
}

fn keep_is_struck(who: Who, made: Made, keep: &'static [&'static str], strikes: &[Strike]) {
    let (world, before, kept) = ready(who, made, keep);
    at_every_call(
        &world,
        strikes,
        &mut |_| {
            if seen(&world) == kept {
                world.ok(&["undo", "--keep", "--yes"]);
            }
            before.assert_same(&seen(&world));
            words(keep)
        },
        &mut |_, place, ran| {
            // Any command puts it right.
            world.ok(&["ls"]);
            let now = seen(&world);
            if ran.code == Some(0) || now == kept {
                assert!(now == kept, "{place}: {ran}");
                // Of a file that several changed each lane has less than the original.
                let again = world.json(&[keep, &["--dry-run"]].concat());
                assert_eq!(again["kept"], serde_json::json!([]), "{place}");
                for lane in lanes(keep) {
                    let left = world.json(&["diff", lane])["files"].as_array().map_or(0, Vec::len);
                    assert_eq!(left, usize::from(keep != ONE), "{place}");
                }
            } else {
                before.assert_same(&now);
                for lane in lanes(keep) {
                    let diff = world.json(&["diff", lane]);
                    assert_eq!(diff["drift"], serde_json::json!([]), "{place}: {diff}");
                }
            }
        },
    );
}

fn undo_is_struck(who: Who, made: Made, keep: &'static [&'static str], strikes: &[Strike]) {
    let (world, before, kept) = ready(who, made, keep);
    at_every_call(
        &world,
        strikes,
        &mut |_| {
            if seen(&world) == before {
                world.ok(keep);
            }
            kept.assert_same(&seen(&world));
            words(&["undo", "--keep", "--yes"])
        },
        &mut |_, place, ran| {
            world.ok(&["ls"]);
            let now = seen(&world);
            if ran.code == Some(0) || now == before {
                assert!(now == before, "{place}: {ran}");
                for lane in lanes(keep) {
                    let diff = world.json(&["diff", lane]);
                    assert_eq!(diff["drift"], serde_json::json!([]), "{place}: {diff}");
                }
            } else {
                kept.assert_same(&now);
            }
        },
    );
}

#[test]
fn b42_keep_killed_at_every_call() {
    keep_is_struck(Who::User, Made::Overlay, ONE, &[Strike::Kill]);
}

#[test]
fn b42_undo_of_a_keep_killed_at_every_call() {
    undo_is_struck(root(), Made::Overlay, ONE, &[Strike::Kill]);
}

#[test]
fn b39_keep_failing_at_every_call() {
    keep_is_struck(root(), Made::Copy, ONE, &[Strike::NoSpace, Strike::Io]);
}

#[test]
fn b39_undo_of_a_keep_failing_at_every_call() {
    undo_is_struck(Who::User, Made::Overlay, ONE, &[Strike::NoSpace, Strike::Io]);
}

#[test]
fn b39_keep_and_its_undo_with_every_write_cut_short() {
    keep_is_struck(Who::User, Made::Overlay, ONE, &[Strike::Short]);
    undo_is_struck(Who::User, Made::Overlay, ONE, &[Strike::Short]);
}

#[test]
fn b42_keep_of_several_lanes_killed_at_every_call() {
    keep_is_struck(Who::User, Made::Overlay, SEVERAL, &[Strike::Kill]);
}

#[test]
fn b42_keep_of_several_copies_killed_at_every_call_and_its_undo() {
    keep_is_struck(root(), Made::Copy, SEVERAL, &[Strike::Kill]);
    undo_is_struck(root(), Made::Copy, SEVERAL, &[Strike::Kill]);
}

#[test]
fn b39_keep_of_several_lanes_failing_at_every_call() {
    keep_is_struck(root(), Made::Overlay, SEVERAL, &[Strike::NoSpace, Strike::Io]);
}
