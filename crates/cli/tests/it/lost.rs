//! What a discard says would be lost: what is neither kept, nor exported, nor in a commit of the original.

use serde_json::{Value, json};
use testkit::Plain;

use crate::world::{World, each, once};

/// What a discard to the trash tells; the lane is back afterwards.
fn lost(world: &World, lane: &str) -> Value {
    let told = world.json(&["discard", lane]);
    world.ok(&["recover", lane]);
    told[0]["only_here"].clone()
}

#[test]
fn what_was_kept_or_exported_is_not_called_lost() {
    each(|world| {
        world.lane("work");
        assert_eq!(
            lost(world, "work"),
            json!({"changes": 0, "first": [], "commits": [], "home": 0, "snapshots": 0})
        );
        world.write("work", "a", b"only in the lane\n");
        world.write("work", "dir/b", b"only in the lane, too\n");
        world.delete("work", "README.md");
        let told = lost(world, "work");
        assert_eq!(told["changes"], 3, "{told}");
        let first: Vec<_> =
            told["first"].as_array().unwrap().iter().map(|at| at["path"].as_str().unwrap()).collect();
        assert_eq!(first, ["README.md", "a", "dir/b"]);
        world.ok(&["keep", "work", "a", "--yes"]);
        assert_eq!(lost(world, "work")["changes"], 2);
        let target = world.env.root().join("p/out");
        world.ok(&["export", "work", target.to_str().unwrap()]);
        assert_eq!(lost(world, "work")["changes"], 0);
        // The export has another content now, and the lane another deletion.
        world.env.write(&target.join("dir/b"), b"only in the lane, Too\n");
        assert_eq!(lost(world, "work")["first"][0]["path"], "dir/b");
        std::fs::remove_dir_all(&target).unwrap();
        assert_eq!(lost(world, "work")["changes"], 2);
    });
}

#[test]
fn content_that_a_commit_of_the_original_has_is_not_called_lost() {
    each(|world| {
        world.lane("work");
        world.write("work", "a", b"this will be committed\n");
        world.write("work", "b", b"this will not\n");
        assert_eq!(lost(world, "work")["changes"], 2);
        // On a branch that is not checked out.
        let top = &world.project;
        world.env.host(top, "git", &["checkout", "-q", "-b", "side"]);
        world.env.write(&top.join("a"), b"this will be committed\n");
        world.env.host(top, "git", &["add", "a"]);
        world.env.host(top, "git", &["commit", "-q", "-m", "side"]);
        world.env.host(top, "git", &["checkout", "-q", "-"]);
        assert!(!top.join("a").exists());
        let told = lost(world, "work");
        assert_eq!((&told["changes"], &told["first"][0]["path"]), (&json!(1), &json!("b")));
        world.env.host(top, "git", &["gc", "-q"]);
        assert_eq!(lost(world, "work")["changes"], 1);
    });
}

#[test]
fn commits_of_the_lane_are_named_until_the_original_has_them() {
    each(|world| {
        world.lane("work");
        let commit =
            "git -c user.name=a -c user.email=a@a commit -q --allow-empty -m inside && git rev-parse HEAD";
        let ran = world.ok(&["run", "-n", "work", "--", "sh", "-c", commit]);
        let id = ran.out().trim().to_owned();
        let told = lost(world, "work");
        assert_eq!(told["commits"].as_array().unwrap().len(), 1, "{told}");
        assert_eq!(told["commits"][0]["id"], id.as_str());
        assert!(told["commits"][0]["ref"].as_str().unwrap().starts_with("refs/heads/"), "{told}");
        let said = world.ok(&["discard", "work"]);
        assert!(said.err().contains(&format!("nowhere else: commit {}", &id[..12])), "{said}");
        world.ok(&["recover", "work"]);
        // The same commit, made once more outside.
        let made = "git -c user.name=a -c user.email=a@a commit -q --allow-empty -m inside";
        world.env.host(&world.project, "sh", &["-c", made]);
        let head = world.env.host(&world.project, "git", &["rev-parse", "HEAD"]).out();
        assert_eq!(head.trim(), id, "dates are fixed");
        assert_eq!(lost(world, "work")["commits"], json!([]));
    });
}

#[test]
fn a_discard_says_what_is_lost_and_recover_brings_all_of_it_back() {
    each(|world| {
        world.lane("work");
        for number in 0..7 {
            world.write("work", format!("f{number}"), b"x\n");
        }
        world.ok(&["snap", "work", "-m", "one"]);
        world.ok(&["run", "-n", "work", "--", "sh", "-c", "echo h > ~/h"]);
        let before = (world.json(&["diff", "work"])["files"].clone(), Plain::of(&world.layer("work")));
        let ran = world.ok(&["discard", "work"]);
        for word in [
            "`lane recover work` brings it back",
            "nowhere else: 7 changes (f0, f1, f2, f3, f4 and 2 more)",
            "1 in its $HOME",
        ] {
            assert!(ran.err().contains(word), "{word} in {ran}");
        }
        world.ok(&["recover", "work"]);
        assert_eq!(world.json(&["diff", "work"])["files"], before.0);
        before.1.assert_same(&Plain::of(&world.layer("work")));
        assert_eq!(world.json(&["show", "work"])["home_changes"], 1);
        assert_eq!(world.json(&["diff", "work", "one"])["files"], json!([]));
        let quiet = world.ok(&["discard", "work", "-q"]);
        assert_eq!(quiet.err(), "", "{quiet}");
        world.ok(&["recover", "work"]);
        let asked = world.run(&["discard", "work", "--now"]).expect_code(1);
        assert!(asked.err().contains("nowhere else: 7 changes"), "{asked}");
        let gone = world.json(&["discard", "work", "--now", "--yes"]);
        assert_eq!((&gone[0]["only_here"]["changes"], &gone[0]["recoverable"]), (&json!(7), &json!(false)));
    });
}

#[test]
fn a_lane_that_cannot_be_read_is_dropped_all_the_same() {
    once(|world| {
        world.lane("work");
        let layer = world.layer("work");
        std::fs::remove_dir_all(&layer).unwrap();
        let told = world.json(&["discard", "work", "--now", "--yes"]);
        assert_eq!(told[0]["only_here"], Value::Null);
        assert_eq!(world.json(&["ls"]), json!([]));
    });
}
