//! Several lanes in one keep: what only one of them touched is its own, what goes together is put together, and what does
//! not stays as the original has it, told of both lanes. It is one keep: whole or not at all, undone as one.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::{Value, json};
use testkit::Plain;

use crate::world::{World, each, everybody, word};

fn host(world: &World, script: &str) {
    world.env.host(&world.project, "sh", &["-ec", script]).expect_code(0);
}

/// A script in each of the lanes `a` and `b`, which are made first.
fn work(world: &World, a: &str, b: &str) {
    for (lane, script) in [("a", a), ("b", b)] {
        world.lane(lane);
        world.sh(lane, script);
    }
}

fn keep(world: &World, more: &[&str], code: i32) -> Value {
    let args = [&["keep", "a", "--with", "b", "--yes", "--json"], more].concat();
    serde_json::from_slice(&world.run(&args).expect_code(code).stdout).unwrap()
}

fn text(world: &World, path: &str) -> String {
    let content = world.content(path).unwrap_or_else(|| panic!("{path} is not there: {:?}", world.made));
    String::from_utf8(content).unwrap()
}

fn line(world: &World, path: &str, number: usize) -> String {
    text(world, path).lines().nth(number - 1).unwrap_or_default().to_owned()
}

/// Steps as `what path: lanes`.
fn steps(kept: &Value) -> Vec<String> {
    let lanes = |step: &Value| {
        let lanes = step["lanes"].as_array().unwrap().iter();
        lanes.map(word).collect::<Vec<_>>().join("+")
    };
    let all = kept["kept"].as_array().unwrap().iter();
    all.map(|step| format!("{} {}: {}", word(&step["what"]), word(&step["path"]), lanes(step))).collect()
}

/// Conflicts as `what path: lane × lanes`.
fn conflicts(kept: &Value) -> Vec<String> {
    let all = kept["conflicts"].as_array().unwrap().iter();
    let with = |at: &Value| {
        at["with"]
            .as_array()
            .map_or_else(String::new, |with| with.iter().map(word).collect::<Vec<_>>().join("+"))
    };
    all.map(|at| format!("{} {}: {} × {}", word(&at["what"]), word(&at["path"]), word(&at["of"]), with(at)))
        .collect()
}

fn left_out(kept: &Value) -> Vec<String> {
    let all = kept["left_out"].as_array().unwrap().iter();
    all.map(|at| format!("{} {}: {}", word(&at["why"]), word(&at["path"]), word(&at["lane"]))).collect()
}

/// All but git's own files.
fn seen(world: &World) -> Plain {
    Plain::without(&world.project, &[".git"])
}

#[test]
fn what_one_lane_touched_is_its_own_and_what_both_touched_apart_is_put_together() {
    each(|world| {
        host(world, "seq 50 > f; seq 9 > gone; seq 9 > same; mkdir d; seq 9 > d/x; seq 5 > moved");
        work(
            world,
            "sed -i '5s/.*/a/' f; rm gone; sed -i 3d same; mkdir new; echo a > new/a; chmod 600 README.md",
            "sed -i '40s/.*/b/' f; echo b > only; sed -i 3d same; mkdir new; echo b > new/b; mv moved away; ln -s f link",
        );
        let before = seen(world);
        let plan = keep(world, &["--dry-run"], 0);
        before.assert_same(&seen(world));
        let kept = keep(world, &[], 0);
        assert_eq!(plan["kept"], kept["kept"], "a dry run tells what is done");
        assert_eq!(kept["with"][0]["lane"], "b");
        let wanted = [
            "rename away: b",
            "modify f: a+b",
            "add link: b",
            "add new: a",
            "add new/a: a",
            "add new/b: b",
            "add only: b",
            "modify same: a",
            "mode README.md: a",
            "delete gone: a",
        ];
        assert_eq!(steps(&kept), wanted);
        assert_eq!(kept["merged"][0]["path"], "f");
        assert_eq!((line(world, "f", 5).as_str(), line(world, "f", 40).as_str()), ("a", "b"));
        assert_eq!((text(world, "new/a").as_str(), text(world, "new/b").as_str()), ("a\n", "b\n"));
        assert_eq!(text(world, "same").lines().count(), 8, "the same edit counts once");
        assert!(world.content("gone").is_none() && world.content("moved").is_none());
        assert_eq!(text(world, "away").lines().count(), 5);
        let mode = fs::metadata(world.project.join("README.md")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Nothing is left to be done, in either of them.
        let after = seen(world);
        assert_eq!(keep(world, &[], 0)["kept"], json!([]));
        for lane in ["a", "b"] {
            let alone = world.run(&["keep", lane, "--yes", "--json"]).expect_code(0);
            let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
            assert_eq!(alone["kept"], json!([]), "{lane}");
        }
        after.assert_same(&seen(world));
        // It is one keep: one record, undone as one.
        let keeps = world.json(&["undo", "--keep", "--list"]);
        assert_eq!(keeps["keeps"].as_array().unwrap().len(), 1);
        assert_eq!(keeps["keeps"][0]["with"][0]["lane"], "b");
        world.ok(&["undo", "--keep", "--yes"]);
        before.assert_same(&seen(world));
        for lane in ["a", "b"] {
            assert_eq!(world.drift(lane), Vec::<String>::new(), "{lane}");
        }
        assert_eq!(steps(&keep(world, &[], 0)), wanted, "and it can be kept again");
        after.assert_same(&seen(world));
    });
}

#[test]
fn each_lane_goes_on_after_a_keep_of_several() {
    each(|world| {
        host(world, "seq 60 > f; seq 20 > g; git add -A; git commit -qm f");
        work(world, "sed -i '5s/.*/a/' f; sed -i '3s/.*/a/' g", "sed -i '50s/.*/b/' f; mv g h");
        keep(world, &[], 0);
        assert_eq!(line(world, "h", 3), "a", "what one changed is where the other one put it");
        assert!(world.content("g").is_none());
        host(world, "sed -i '30s/.*/user/' f");
        world.sh("a", "sed -i '5s/.*/a again/; 15s/.*/a too/' f; sed -i '18s/.*/a too/' g");
        world.sh("b", "sed -i '50s/.*/b again/' f; sed -i '10s/.*/b too/' h");
        let kept = keep(world, &[], 0);
        assert_eq!(conflicts(&kept), Vec::<String>::new());
        for (number, wanted) in [(5, "a again"), (15, "a too"), (30, "user"), (50, "b again")] {
            assert_eq!(line(world, "f", number), wanted, "line {number}");
        }
        for (number, wanted) in [(3, "a"), (10, "b too"), (18, "a too")] {
            assert_eq!(line(world, "h", number), wanted, "line {number}");
        }
        assert!(world.content("g").is_none(), "it is not made again");
    });
}

/// What each of two lanes does to a project of `seq 30 > f; mkdir d; seq 9 > d/x`, and the conflict.
const CLASHES: [(&str, &str, &str, &str); 10] = [
    ("the same lines", "sed -i '5s/.*/a/' f", "sed -i '5s/.*/b/' f", "lines f: b × a"),
    ("lines that touch", "sed -i '5s/.*/a/' f", "sed -i '6s/.*/b/' f", "lines f: b × a"),
    ("delete and edit", "rm f", "sed -i 5d f", "deleted-in-original f: b × a"),
    ("edit and delete", "sed -i 5d f", "rm f", "deleted-in-lane f: b × a"),
    ("two modes", "chmod 600 f", "chmod 640 f", "mode f: b × a"),
    ("two types", "rm f; ln -s d f", "rm f; mkdir f", "type f: b × a"),
    ("a type and an edit", "rm f; ln -s d f", "sed -i 5d f", "type f: b × a"),
    ("two new files", "echo a > new", "echo b > new", "added-in-both new: b × a"),
    ("two names", "mv f g", "mv f h", "renamed-in-original h: b × a"),
    ("a directory goes", "rm -r d", "sed -i 5d d/x", "deleted-in-original d/x: b × a"),
];

#[test]
fn what_does_not_go_together_stays_as_the_original_has_it_and_is_told_of_both_lanes() {
    each(|world| {
        for (what, a, b, wanted) in CLASHES {
            host(world, "rm -rf f g h d new; seq 30 > f; mkdir d; seq 9 > d/x");
            work(world, &format!("{a}; echo a > only-a"), &format!("{b}; echo b > only-b"));
            let before = seen(world);
            let plan = keep(world, &["--dry-run"], 1);
            assert_eq!(conflicts(&plan), [wanted], "{what}: {plan}");
            let kept = keep(world, &[], 1);
            assert_eq!((&plan["kept"], &plan["left_out"]), (&kept["kept"], &kept["left_out"]), "{what}");
            assert_eq!(steps(&kept), ["add only-a: a", "add only-b: b"], "{what}");
            let out = left_out(&kept);
            for lane in ["a", "b"] {
                assert!(out.iter().any(|at| at.ends_with(&format!(": {lane}"))), "{what}: {out:?}");
            }
            fs::remove_file(world.project.join("only-a")).unwrap();
            fs::remove_file(world.project.join("only-b")).unwrap();
            before.assert_same(&seen(world));
            let told = world.run(&["keep", "a", "--with", "b", "--yes"]).expect_code(1).err();
            assert!(told.contains("lane b") && told.contains("lane a"), "{what}: {told}");
            world.gone("a");
            world.gone("b");
        }
    });
}

#[test]
fn the_words_for_conflicts_count_between_lanes() {
    everybody(|world| {
        for (how, wanted) in [("ours", "a"), ("theirs", "b"), ("markers", "<<<<<<< lane a")] {
            host(world, "seq 30 > f; seq 9 > gone");
            work(
                world,
                "sed -i '5s/.*/a/; 20s/.*/apart a/' f; rm gone",
                "sed -i '5s/.*/b/; 28s/.*/apart b/' f; sed -i 5d gone",
            );
            let open = how == "markers";
            let kept = keep(world, &["--conflicts", how], i32::from(open));
            assert!(conflicts(&kept).contains(&"lines f: b × a".to_owned()), "{how}: {kept}");
            assert_eq!(line(world, "f", 5), wanted, "{how}");
            let f = text(world, "f");
            assert!(f.contains("\napart a\n") && f.contains("\napart b\n"), "{how}: {f}");
            assert_eq!(f.contains(">>>>>>> lane b\n"), open, "{how}: {f}");
            match how {
                "ours" => assert!(world.content("gone").is_none()),
                "theirs" => assert_eq!(text(world, "gone").lines().count(), 8),
                // What has no lines stops, in both.
                _ => assert_eq!(text(world, "gone").lines().count(), 9),
            }
            world.gone("a");
            world.gone("b");
        }
    });
}

#[test]
fn a_rename_in_one_lane_takes_the_edits_of_the_other_along() {
    each(|world| {
        host(
            world,
            "mkdir -p d/deep; seq 30 > d/x; seq 30 > d/deep/y; seq 30 > f; git add -A; git commit -qm d",
        );
        work(
            world,
            "mv d e; mv f g",
            "sed -i '5s/.*/b/' d/x; sed -i '6s/.*/b/' d/deep/y; echo b > d/new; sed -i '7s/.*/b/' f",
        );
        let kept = keep(world, &[], 0);
        assert_eq!(conflicts(&kept), Vec::<String>::new(), "{kept}");
        assert!(!world.project.join("d").exists() && !world.project.join("f").exists());
        assert_eq!(
            (line(world, "e/x", 5), line(world, "e/deep/y", 6), line(world, "g", 7)),
            ("b".into(), "b".into(), "b".into())
        );
        assert_eq!(text(world, "e/new"), "b\n");
        world.ok(&["undo", "--keep", "--yes"]);
        assert!(world.project.join("d/deep/y").exists() && !world.project.join("e").exists());
        // The other way round it comes to the same.
        let args = ["keep", "b", "--with", "a", "--yes", "--json"];
        world.run(&args).expect_code(0);
        assert_eq!(
            (line(world, "e/x", 5), line(world, "e/deep/y", 6), line(world, "g", 7)),
            ("b".into(), "b".into(), "b".into())
        );
        assert_eq!(text(world, "e/new"), "b\n");
        assert!(!world.project.join("d").exists() && !world.project.join("f").exists());
    });
}

#[test]
fn a_directory_that_only_one_lane_renamed_arrives_as_itself() {
    each(|world| {
        host(world, "mkdir d; seq 30 > d/x; seq 40 > d/y; seq 30 > f");
        work(world, "mv d e; sed -i 5d e/x", "sed -i 6d f; echo b > g");
        let inode = fs::metadata(world.project.join("d")).unwrap().ino();
        keep(world, &[], 0);
        assert_eq!(fs::metadata(world.project.join("e")).unwrap().ino(), inode);
        assert_eq!((text(world, "e/x").lines().count(), text(world, "f").lines().count()), (29, 29));
    });
}

#[test]
fn edits_of_a_person_and_of_two_lanes_are_all_there() {
    each(|world| {
        host(world, "seq 60 > f; seq 30 > g");
        work(world, "sed -i '5s/.*/a/' f; sed -i '20s/.*/a/' g", "sed -i '50s/.*/b/' f; sed -i '5s/.*/b/' g");
        crate::three_way::recorded(world);
        host(world, "sed -i '30s/.*/user/' f; sed -i '5s/.*/user/' g");
        let kept = keep(world, &[], 1);
        // What meets the original alone is told as that.
        assert_eq!(conflicts(&kept), ["lines g: b × "]);
        assert_eq!(
            (line(world, "f", 5), line(world, "f", 30), line(world, "f", 50)),
            ("a".into(), "user".into(), "b".into())
        );
        assert_eq!((line(world, "g", 5), line(world, "g", 20)), ("user".into(), "a".into()));
    });
}

#[test]
fn guarded_files_need_their_path_and_paths_are_asked_of_every_lane() {
    everybody(|world| {
        work(
            world,
            "echo 'export A=1' > .envrc; echo a > plain",
            "mkdir dir; echo b > dir/b; echo b > other",
        );
        let kept = keep(world, &[], 1);
        assert_eq!(left_out(&kept), ["guarded .envrc: a"]);
        world.ok(&["undo", "--keep", "--yes"]);
        let kept = keep(world, &[".envrc", "dir"], 0);
        assert_eq!(steps(&kept), ["add .envrc: a", "add dir: b", "add dir/b: b"]);
        assert!(kept["kept"][0]["guarded"].is_string());
        assert!(world.content("plain").is_none() && world.content("other").is_none());
        let ran = world.run(&["keep", "a", "--with", "b", "nowhere", "--yes"]).expect_code(1);
        assert!(ran.err().contains("changed nothing at"), "{ran}");
    });
}

#[test]
fn hunks_selections_and_digests_of_several_lanes() {
    everybody(|world| {
        host(world, "seq 90 > f");
        work(
            world,
            "sed -i '5s/.*/a/; 30s/.*/a/' f; echo a > a",
            "sed -i '60s/.*/b/; 85s/.*/b/' f; echo b > b",
        );
        let diffs = ["a", "b"].map(|lane| world.json(&["diff", lane, "f"]));
        let id = |lane: usize, at: usize| word(&diffs[lane]["files"][0]["hunks"][at]["id"]).to_owned();
        let hunks = format!("{},{}", id(0, 0), id(1, 1));
        let kept = keep(world, &["--hunk", &hunks], 0);
        assert_eq!(steps(&kept), ["modify f: a+b"]);
        let at = |number| line(world, "f", number);
        assert_eq!((at(5), at(30), at(60), at(85)), ("a".into(), "30".into(), "60".into(), "b".into()));
        let ran = world.run(&["keep", "a", "--with", "b", "--hunk", "0123456789ab", "--yes"]).expect_code(1);
        assert!(ran.err().contains("there is no hunk"), "{ran}");
        // What is left of both is still to be kept.
        let file = world.project.parent().unwrap().join("picked.json");
        let file = file.to_str().unwrap();
        let plan = keep(world, &["f", "--dry-run", "--save-selection", file], 0);
        let saved: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(saved["selections"][1]["lane"], "b");
        let digests: Vec<String> =
            ["a", "b"].iter().map(|lane| word(&world.json(&["diff", lane])["digest"]).to_owned()).collect();
        let one = world.run(&["keep", "a", "--with", "b", "--yes", "--digest", &digests[0]]).expect_code(2);
        assert!(one.err().contains("one for each"), "{one}");
        let other = [&digests[1], &digests[0]];
        keep_refused(world, &["--digest", other[0], "--digest", other[1]]);
        let replayed = world.run(&["keep", "--selection", file, "--yes", "--json"]).expect_code(0);
        let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
        assert_eq!(plan["kept"], replayed["kept"]);
        assert_eq!((at(5), at(30), at(60), at(85)), ("a".into(), "a".into(), "b".into(), "b".into()));
        assert!(world.content("a").is_none(), "it was not ticked");
        // A lane that moved on is not kept from, and nor are the others.
        world.sh("b", "echo more >> b");
        keep_refused(world, &["--digest", &digests[0], "--digest", &digests[1]]);
        assert!(world.content("a").is_none());
    });
}

fn keep_refused(world: &World, more: &[&str]) {
    let args = [&["keep", "a", "--with", "b", "--yes"], more].concat();
    let ran = world.run(&args).expect_code(1);
    assert!(ran.err().contains("no longer what was looked at"), "{ran}");
}

#[test]
fn rules_hold_for_the_whole_and_a_check_runs_on_what_comes_of_it() {
    each(|world| {
        host(
            world,
            "seq 30 > f; mkdir -p src; printf '[keep]\\nonly = [\"f\", \"src/**\"]\\nmax_files = 3\\n' > lane.toml",
        );
        work(
            world,
            "sed -i '5s/.*/a/' f; echo a > src/a; echo a > a",
            "sed -i '20s/.*/b/' f; echo b > src/b",
        );
        let ran = world.run(&["keep", "a", "--with", "b", "--yes"]).expect_code(1);
        assert!(
            ran.err().contains("keep.only") && ran.err().contains("`lane keep a --with b PATH…`"),
            "{ran}"
        );
        keep(world, &["f", "src"], 0);
        world.ok(&["undo", "--keep", "--yes"]);
        host(world, "sed -i 's/^max_files.*/max_files = 2/' lane.toml");
        let ran = world.run(&["keep", "a", "--with", "b", "f", "src", "--yes"]).expect_code(1);
        assert!(ran.err().contains("keep.max_files"), "each alone has two: {ran}");
        // True of what both come to, and of neither alone.
        let check = "grep -qx a f && grep -qx b f && test -e src/a -a -e src/b";
        host(world, &format!("printf '[keep]\\nverify = [\"sh\", \"-c\", \"{check}\"]\\n' > lane.toml"));
        for lane in ["a", "b"] {
            let ran = world.run(&["keep", lane, "f", "src", "--yes"]).expect_code(1);
            assert!(ran.err().contains("keep.verify"), "{ran}");
        }
        let before = seen(world);
        let plan = keep(world, &["f", "src", "--dry-run"], 0);
        assert_eq!(plan["checks"][0]["holds"], false);
        keep(world, &["f", "src"], 0);
        assert_eq!((line(world, "f", 5), line(world, "f", 20)), ("a".into(), "b".into()));
        world.ok(&["undo", "--keep", "--yes"]);
        host(world, "sed -i 's/test -e/! test -e/' lane.toml");
        let refused = seen(world);
        let ran = world.run(&["keep", "a", "--with", "b", "f", "src", "--yes"]).expect_code(1);
        assert!(ran.err().contains("keep.verify") && ran.err().contains("failed"), "{ran}");
        refused.assert_same(&seen(world));
        assert_eq!(world.state_names("lanes").len(), 2, "nothing stays of the check");
        drop(before);
    });
}

#[test]
fn lanes_are_named_once_and_of_one_project() {
    everybody(|world| {
        work(world, "echo a > a", "echo b > b");
        let ran = world.run(&["keep", "a", "--with", "a", "--yes"]).expect_code(1);
        assert!(ran.err().contains("named twice"), "{ran}");
        let ran = world.run(&["keep", "a", "--with", "nobody", "--yes"]).expect_code(1);
        assert!(ran.err().contains("nobody"), "{ran}");
        // Those that are named are enough.
        world.ok(&["keep", "--with", "a", "--with", "b", "--yes"]);
        assert_eq!((text(world, "a").as_str(), text(world, "b").as_str()), ("a\n", "b\n"));
    });
}

#[test]
fn three_lanes_and_one_that_was_written_meanwhile() {
    everybody(|world| {
        host(world, "seq 60 > f");
        work(world, "sed -i '5s/.*/a/' f", "sed -i '30s/.*/b/' f");
        world.lane("c");
        world.sh("c", "sed -i '55s/.*/c/' f; echo c > c");
        let kept = keep(world, &["--with", "c"], 0);
        assert_eq!(steps(&kept), ["add c: c", "modify f: a+b+c"]);
        let at = |number| line(world, "f", number);
        assert_eq!((at(5), at(30), at(55)), ("a".into(), "b".into(), "c".into()));
        world.ok(&["undo", "--keep", "--yes"]);
        // Two of three meet: the third is put together with the original.
        world.sh("b", "sed -i '5s/.*/b/' f");
        let kept = keep(world, &["--with", "c"], 1);
        assert_eq!(conflicts(&kept), ["lines f: b × a"]);
        assert_eq!(steps(&kept), ["add c: c", "modify f: c"]);
        assert_eq!((at(5), at(55)), ("5".into(), "c".into()));
    });
}

#[test]
fn patch_and_commits_of_several_lanes() {
    everybody(|world| {
        host(world, "seq 60 > f; git add -A; git commit -qm f");
        work(world, "sed -i '5s/.*/a/' f; echo a > a", "sed -i '50s/.*/b/' f; echo b > b");
        let head = || world.env.host(&world.project, "git", &["rev-parse", "HEAD"]).out();
        let base = head();
        let patch = world.run(&["keep", "a", "--with", "b", "--as", "patch"]).expect_code(0).stdout;
        let file = world.project.parent().unwrap().join("p.patch");
        world.env.write(&file, &patch);
        host(world, "git apply ../p.patch");
        let applied = seen(world);
        host(world, "git checkout -q -- .; rm a b");
        let made = keep(world, &["--as", "branch", "both"], 0);
        assert_eq!(made["files"].as_array().unwrap().len(), 3);
        assert!(word(&made["message"]).starts_with("Keep lanes a, b: 2 added, 1 changed"), "{made}");
        assert_eq!(head(), base);
        assert!(world.content("a").is_none());
        let made = keep(world, &["--as", "commit"], 0);
        assert_eq!(made["with"][0]["lane"], "b");
        applied.assert_same(&seen(world));
        let status = world.env.host(&world.project, "git", &["status", "--porcelain"]).out();
        assert_eq!(status, "");
        host(world, "git diff --exit-code HEAD both");
    });
}
