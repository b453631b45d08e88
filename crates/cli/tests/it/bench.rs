//! `lane bench`: what cannot be measured is named, and the gate is shut by it.

use serde_json::Value;

use crate::world::{World, each, once};

fn bench(world: &World, args: &[&str], code: i32) -> Value {
    let mut all = vec!["bench", "start", "--json", "--scratch", "/var/tmp"];
    all.extend(args);
    let ran = world.run(&all).expect_code(code);
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"))
}

#[test]
fn a_missing_corpus_is_a_row_with_the_command_that_makes_it_and_shuts_the_gate() {
    once(|world| {
        let args = ["--corpora", "/nonexistent", "--row", "create"];
        for (gate, code) in [(false, 0), (true, 1)] {
            let extra = if gate { &["--gate"][..] } else { &[] };
            let found = bench(world, &[&args, extra].concat(), code);
            assert_eq!(found["holds"], false);
            let row = &found["rows"][0];
            assert_eq!((&row["id"], &row["verdict"]), (&"create".into(), &"missing".into()));
            let note = row["note"].as_str().expect("words");
            assert!(note.contains("scripts/corpora s100k"), "{note}");
        }
    });
}

#[test]
fn a_row_that_needs_nothing_is_measured_in_pairs_and_leaves_nothing() {
    each(|world| {
        let found = bench(world, &["--row", "version", "--rounds", "3"], 0);
        let row = &found["rows"][0];
        assert_eq!((&row["rounds"], &row["peer"]["name"]), (&3.into(), &"true".into()));
        assert!(row["ours"].as_f64().is_some_and(|ms| ms > 0.0) && row["ratio"]["low"].is_number(), "{row}");
    });
}

#[test]
fn a_row_of_snapshots_is_measured_on_lanes_of_its_own_and_leaves_nothing() {
    once(|world| {
        let scratch = world.env.make_dir("scratch");
        let args = ["bench", "history", "--json", "--row", "snap-same", "--rounds", "1", "--scratch"];
        let ran = world.run(&[&args[..], &[scratch.to_str().expect("text")]].concat()).expect_code(0);
        let found: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"));
        let row = &found["rows"][0];
        assert_eq!((&row["verdict"], &row["ours"]), (&"holds".into(), &0.0.into()), "{row}");
        assert_eq!(std::fs::read_dir(&scratch).expect("a directory").count(), 0);
    });
}

#[test]
fn looking_at_changes_is_measured_against_git_and_both_find_the_same() {
    once(|world| {
        let args = ["bench", "review", "--json", "--row", "diff-10k-lines", "--rounds", "1"];
        let ran = world.run(&[&args[..], &["--scratch", "/var/tmp"]].concat()).expect_code(0);
        let found: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"));
        let row = &found["rows"][0];
        assert_eq!(
            (&row["rounds"], &row["peer"]["name"]),
            (&1.into(), &"git diff --no-index".into()),
            "{row}"
        );
        assert!(row["note"].as_str().is_some_and(|note| note.contains("200 lines added")), "{row}");
    });
}

#[test]
fn the_faces_are_measured_on_a_terminal_and_over_a_socket() {
    once(|world| {
        let args = ["bench", "review", "--json", "--row", "review-paint", "--row", "web-answer"];
        let ran =
            world.run(&[&args[..], &["--rounds", "1", "--scratch", "/var/tmp"]].concat()).expect_code(0);
        let found: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"));
        for (at, said) in [(0, "with every sum"), (1, "the page itself")] {
            let row = &found["rows"][at];
            assert!(row["ours"].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
            assert!(row["note"].as_str().is_some_and(|note| note.contains(said)), "{row}");
        }
    });
}

#[test]
fn a_row_that_is_not_there_is_wrong_usage_and_the_others_are_named() {
    once(|world| {
        let ran = world.run(&["bench", "tax", "--row", "nonsense"]).expect_code(2);
        assert!(ran.err().contains("build-first"), "{ran}");
    });
}
