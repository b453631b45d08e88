//! Two commands at once, and one that is killed: each gives the right result or a clear error.

use std::time::{Duration, Instant};

use testkit::{Plain, Running};

use crate::world::{each, once};

const PATIENCE: Duration = Duration::from_secs(60);
/// Moments at which a keep is killed, spread over the whole of it.
const ROUNDS: u32 = 10;

#[test]
fn of_lanes_of_one_name_made_at_once_exactly_one_is_there() {
    each(|world| {
        let racers: Vec<Running> =
            (0..6).map(|_| Running::start(world.env.lane(&world.project, &["new", "same"]))).collect();
        let ran: Vec<_> = racers.into_iter().map(|racer| racer.wait(PATIENCE)).collect();
        let won = ran.iter().filter(|ran| ran.code == Some(0)).count();
        assert_eq!(won, 1, "{ran:?}");
        for ran in ran.iter().filter(|ran| ran.code != Some(0)) {
            assert!(ran.code == Some(1) && ran.err().contains("there is a lane 'same' already"), "{ran}");
        }
        assert_eq!(std::fs::read_dir(world.env.state().join("lanes")).unwrap().count(), 1);
    });
}

#[test]
fn of_two_keeps_at_once_both_end_well_or_one_says_why() {
    once(|world| {
        world.lane("both");
        for number in 0..50 {
            world.write("both", format!("f{number}"), b"x\n");
        }
        let racers: Vec<Running> = (0..2)
            .map(|_| Running::start(world.env.lane(&world.project, &["keep", "both", "--yes"])))
            .collect();
        let ran: Vec<_> = racers.into_iter().map(|racer| racer.wait(PATIENCE)).collect();
        assert!(ran.iter().any(|ran| ran.code == Some(0)), "{ran:?}");
        for ran in ran.iter().filter(|ran| ran.code != Some(0)) {
            assert!(ran.code == Some(1) && ran.err().contains("error: "), "{ran}");
        }
        assert!((0..50).all(|number| world.content(format!("f{number}")).is_some()));
        assert_eq!(world.json(&["diff", "both"])["files"], serde_json::json!([]));
    });
}

#[test]
fn a_keep_that_is_killed_at_any_moment_leaves_the_original_as_it_was_or_as_asked() {
    each(|world| {
        let before = Plain::without(&world.project, &[".git"]);
        let (mut seen_before, mut seen_after) = (0, 0);
        // The first one runs to its end and says how long that is.
        let mut whole_time = Duration::ZERO;
        for round in 0..=ROUNDS {
            let lane = format!("kill-{round}");
            world.lane(&lane);
            for number in 0..40 {
                world.write(&lane, format!("dir/f{number}"), format!("{number}\n").as_bytes());
            }
            world.write(&lane, "src/lib.rs", b"//! Kept.\n");
            world.delete(&lane, "README.md");
            let began = Instant::now();
            let mut keep = Running::start(world.env.lane(&world.project, &["keep", &lane, "--yes"]));
            if round == 0 {
                keep.wait(PATIENCE).expect_code(0);
                whole_time = began.elapsed();
            } else {
                std::thread::sleep(whole_time * round / ROUNDS);
                keep.kill9();
                keep.wait(PATIENCE);
            }
            world.ok(&["ls"]);
            let now = Plain::without(&world.project, &[".git"]);
            if before.changed(&now).is_empty() {
                seen_before += 1;
            } else {
                seen_after += 1;
                let whole = (0..40).all(|number| world.content(format!("dir/f{number}")).is_some());
                assert!(whole && world.content("README.md").is_none(), "round {round}: half kept");
                assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Kept.\n"[..]));
                world.env.host(&world.project, "git", &["checkout", "-q", "--", "."]);
                world.env.host(&world.project, "git", &["clean", "-fdq"]);
                before.assert_same(&Plain::without(&world.project, &[".git"]));
            }
            world.ok(&["discard", &lane, "--now", "--yes"]);
        }
        testkit::require::say(&format!("killed before {seen_before}, after {seen_after}"));
        let staging = world.env.state().join("staging");
        let left = || std::fs::read_dir(&staging).into_iter().flatten().count();
        // What was kept can be undone, and of the others nothing is left.
        let list = world.json(&["undo", "--keep", "--list"]);
        assert_eq!(list["keeps"].as_array().expect("a list").len(), left());
        world.ok(&["gc", "--forget-keeps", "--yes"]);
        assert_eq!(left(), 0);
    });
}
