//! `lane diff`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::world::{each, once, raw};

/// Names that break careless programs.
const ODD: [&[u8]; 9] = [
    b"bad\xff",
    b"new\nline",
    b"tab\tq",
    b" lead",
    b"trail ",
    b"-rf",
    "caf\u{e9}".as_bytes(),
    "cafe\u{301}".as_bytes(),
    &[b'x'; 255],
];

#[test]
fn every_odd_name_comes_out_distinct_and_can_be_read_back_from_json() {
    each(|world| {
        world.lane("odd");
        for name in ODD {
            world.write("odd", raw(name), b"x\n");
        }
        let diff = world.json(&["diff", "odd"]);
        let mut found: Vec<Vec<u8>> = diff["files"].as_array().unwrap().iter().map(bytes_of).collect();
        let mut wanted: Vec<Vec<u8>> = ODD.iter().map(|name| name.to_vec()).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        let out = world.ok(&["diff", "odd", "--name-only"]);
        assert_eq!(out.out().lines().count(), ODD.len(), "{out}");
        assert!(out.out().contains(r"bad\xff") && out.out().contains(r"new\nline"), "{out}");
    });
}

fn bytes_of(file: &serde_json::Value) -> Vec<u8> {
    match file["path_bytes"].as_str() {
        Some(hex) => {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        }
        None => file["path"].as_str().unwrap().as_bytes().to_vec(),
    }
}

#[test]
fn an_unchanged_copy_up_is_no_change() {
    each(|world| {
        world.lane("noise");
        let same = world.content("src/main.rs").unwrap();
        world.write("noise", "src/main.rs", &same);
        assert_eq!(world.json(&["diff", "noise"])["files"], serde_json::json!([]));
        let ran = world.ok(&["diff", "noise"]);
        assert!(ran.stdout.is_empty() && ran.err().contains("changed nothing"), "{ran}");
    });
}

#[test]
fn hunks_have_ids_that_stay() {
    each(|world| {
        world.lane("edit");
        world.write("edit", "src/lib.rs", b"//! Something else.\n");
        let first = world.json(&["diff", "edit"]);
        let hunk = &first["files"][0]["hunks"][0];
        assert_eq!(hunk["lines"][0]["kind"], "remove", "{first}");
        assert_eq!(hunk["lines"][1]["text"], "//! Something else.", "{first}");
        world.write("edit", "other", b"x\n");
        let second = world.json(&["diff", "edit", "src"]);
        assert_eq!(second["files"][0]["hunks"][0]["id"], hunk["id"]);
        let out = world.ok(&["diff", "edit", "src"]).out();
        assert!(out.contains(hunk["id"].as_str().unwrap()) && out.contains(" -//! Nothing yet."), "{out}");
    });
}

#[test]
fn paths_narrow_from_where_the_caller_stands_and_one_without_a_change_is_an_error() {
    each(|world| {
        world.lane("two");
        world.write("two", "src/lib.rs", b"//! X.\n");
        world.write("two", "top", b"x\n");
        let src = world.project.join("src");
        let names = |dir: &std::path::Path, args: &[&str]| world.env.ok(dir, args).out();
        assert_eq!(names(&src, &["diff", "two", "lib.rs", "--name-only"]), "src/lib.rs\n");
        assert_eq!(names(&src, &["diff", "two", ".", "--name-only"]), "src/lib.rs\n");
        assert_eq!(names(&src, &["diff", "../top", "--name-only"]), "top\n");
        let ran = world.run(&["diff", "two", "README.md"]).expect_code(1);
        assert!(ran.err().contains("changed nothing at"), "{ran}");
        let ran = world.run(&["diff", "two", "/etc"]).expect_code(1);
        assert!(ran.err().contains("is not in the lane"), "{ran}");
    });
}

#[test]
fn git_applies_the_patch_to_the_original_and_gets_the_lane() {
    each(|world| {
        world.lane("patch");
        world.write("patch", "bin", &[0, 159, 146, 150, 0, 1, 2]);
        world.write("patch", "src/lib.rs", b"//! Changed\nno newline at the end");
        world.write("patch", OsStr::from_bytes(b"odd \"name\"\t\xff"), b"odd\n");
        world.delete("patch", "README.md");
        world.link("patch", "bin", "to-bin");
        world.env.chmod(
            &{
                world.write("patch", "run.sh", &world.content("run.sh").unwrap());
                world.layer("patch").join("run.sh")
            },
            0o644,
        );
        let patch = world.ok(&["diff", "patch", "--patch"]).stdout;
        let file = world.env.root().join("lane.patch");
        world.env.write(&file, &patch);
        world.ok(&["export", "patch", "../wanted"]);
        world.env.host(&world.project, "git", &["apply", file.to_str().unwrap()]);
        let got = testkit::Plain::without(&world.project, &[".git"]);
        got.assert_same(&testkit::Plain::of(&world.env.project("wanted")));
    });
}

#[test]
fn stat_counts_lines_and_a_changed_original_is_flagged() {
    each(|world| {
        world.lane("stat");
        world.write("stat", "src/lib.rs", b"//! A.\n//! B.\n");
        assert!(world.ok(&["diff", "stat", "--stat"]).out().contains("1 paths, 2 lines added, 1 removed"));
        world.env.write(&world.project.join("src/lib.rs"), b"//! Host edit.\n");
        world.env.write(&world.project.join("host-only"), b"x\n");
        let diff = world.json(&["diff", "stat"]);
        assert!(diff["files"][0]["drifted"].is_string(), "{diff}");
        let all = world.ok(&["diff", "stat", "--drift"]).out();
        assert!(all.contains("src/lib.rs") && all.contains("host-only"), "{all}");
    });
}

#[test]
fn no_colour_goes_into_a_pipe() {
    once(|world| {
        world.lane("plain");
        world.write("plain", "x", b"x\n");
        for args in [&["diff"] as &[&str], &["ls"], &["show"], &["doctor"], &["diff", "--stat"]] {
            let ran = world.ok(args);
            assert!(!ran.stdout.contains(&0x1b) && !ran.stderr.contains(&0x1b), "{ran}");
        }
    });
}
