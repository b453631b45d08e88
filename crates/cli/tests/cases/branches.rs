//! Commits where the branch has moved since the lane began: what the lane did is put together with what the branch has by
//! now, as files are, and with the same words for what does not go together.

use serde_json::Value;

use crate::world::{World, each, everybody, word};

fn host(world: &World, script: &str) -> String {
    world.env.host(&world.project, "sh", &["-ec", script]).expect_code(0).out()
}

/// A project with `seq 30 > f`, a file that runs and one that goes, all committed; a lane `a` that did something.
fn work(world: &World, script: &str) {
    host(
        world,
        "seq 30 > f; seq 9 > gone; printf '1\\n2\\n' > bin; git add -A; git commit -qm base --allow-empty; git branch other",
    );
    world.lane("a");
    world.sh("a", script);
    crate::three_way::recorded(world);
}

/// Commits a script on a branch, and comes back.
fn on(world: &World, branch: &str, script: &str) {
    host(
        world,
        &format!("git checkout -q {branch}; {script}; git add -A; git commit -qm moved; git checkout -q -"),
    );
}

fn keep(world: &World, more: &[&str], code: i32) -> Value {
    let args = [&["keep", "a", "--yes", "--json"], more].concat();
    serde_json::from_slice(&world.run(&args).expect_code(code).stdout).unwrap()
}

fn shown(world: &World, at: &str) -> String {
    host(world, &format!("git show {at}"))
}

fn line(text: &str, number: usize) -> &str {
    text.lines().nth(number - 1).unwrap_or_default()
}

fn conflicts(kept: &Value) -> Vec<String> {
    let all = kept["conflicts"].as_array().unwrap().iter();
    all.map(|at| format!("{} {}", word(&at["what"]), word(&at["path"]))).collect()
}

#[test]
fn a_branch_that_moved_gets_the_changes_of_both() {
    each(|world| {
        work(world, "sed -i '5s/.*/lane/' f; rm gone; echo new > new; chmod 755 f");
        on(world, "other", "sed -i '25s/.*/branch/' f; echo theirs > theirs");
        let index = host(world, "git status --porcelain; git diff --cached");
        // One bit of it is a program from now on, and named.
        let all = ["--as", "commit", "--to", "other", "f", "gone", "new"];
        let plan = keep(world, &[&all[..], &["--dry-run"]].concat(), 0);
        let made = keep(world, &all, 0);
        assert_eq!(plan["files"], made["files"]);
        assert_eq!((&made["merged"][0]["path"], conflicts(&made).len()), (&"f".into(), 0));
        let f = shown(world, "other:f");
        assert_eq!((line(&f, 5), line(&f, 25)), ("lane", "branch"));
        assert!(
            host(world, "git ls-tree -r other")
                .lines()
                .any(|at| at.starts_with("100755") && at.ends_with("\tf"))
        );
        let names = host(world, "git ls-tree --name-only other");
        assert!(
            names.contains("\nnew\n") && names.contains("\ntheirs\n") && !names.contains("gone"),
            "{names}"
        );
        assert_eq!(
            host(world, "git status --porcelain; git diff --cached"),
            index,
            "the files are not touched"
        );
        // Once more there is nothing to commit: it has all of it.
        assert_eq!(keep(world, &all, 0)["commit"], Value::Null);
    });
}

#[test]
fn what_the_branch_moved_is_followed_and_what_it_deleted_is_a_conflict() {
    everybody(|world| {
        work(world, "sed -i '5s/.*/lane/' f; sed -i 5d gone");
        on(world, "other", "git mv f sub-f; git rm -q gone");
        let made = keep(world, &["--as", "commit", "--to", "other"], 1);
        assert_eq!(conflicts(&made), ["deleted-in-original gone"]);
        assert_eq!(made["conflicts"][0]["branch"], "other");
        assert_eq!(line(&shown(world, "other:sub-f"), 5), "lane");
        let names = host(world, "git ls-tree --name-only other");
        assert!(!names.contains("gone") && !names.lines().any(|at| at == "f"), "{names}");
    });
}

#[test]
fn the_words_for_conflicts_count_in_branches_and_no_marker_comes_unasked() {
    everybody(|world| {
        for (how, code) in [("stop", 1), ("markers", 1), ("ours", 0), ("theirs", 0)] {
            work(
                world,
                "sed -i '5s/.*/lane/; 15s/.*/apart/' f; rm gone; printf 'l\\0' > bin; echo lane > both; echo l > apart",
            );
            on(
                world,
                "other",
                "sed -i '5s/.*/branch/' f; sed -i 5d gone; printf 'b\\0' > bin; echo branch > both",
            );
            let made = keep(world, &["--as", "commit", "--to", "other", "--conflicts", how], code);
            assert_eq!(
                conflicts(&made),
                ["binary bin", "added-in-both both", "lines f", "deleted-in-lane gone"],
                "{how}: {made}"
            );
            let f = shown(world, "other:f");
            let first = if how == "markers" { "<<<<<<< branch other" } else { line(&f, 5) };
            let wanted = match how {
                "theirs" => "lane",
                "markers" => "<<<<<<< branch other",
                _ => "branch",
            };
            assert_eq!((line(&f, 5), first), (wanted, wanted), "{how}");
            assert_eq!(f.contains(">>>>>>> lane a"), how == "markers", "{how}: {f}");
            assert_eq!(f.contains("apart"), how != "stop", "{how}: {f}");
            let is_lanes = how == "theirs";
            assert_eq!(shown(world, "other:both"), if is_lanes { "lane\n" } else { "branch\n" }, "{how}");
            let names = host(world, "git ls-tree --name-only other");
            assert_eq!(names.contains("gone"), !is_lanes, "{how}: {names}");
            assert!(names.contains("apart"), "what meets nothing is there: {names}");
            let told = world.run(&["keep", "a", "--as", "commit", "--to", "other", "--dry-run"]).err();
            assert!(how != "stop" || told.contains("branch other"), "{told}");
            world.gone("a");
            host(world, "git branch -qD other; git checkout -q -- .");
        }
    });
}

#[test]
fn what_a_person_is_just_editing_is_in_no_commit_and_keeps_none_from_being_made() {
    each(|world| {
        work(world, "sed -i '5s/.*/lane/' f");
        // The same line, not committed: files and lane do not go together, the branch and the lane do.
        host(world, "sed -i '5s/.*/user/; 20s/.*/user/' f");
        let before = host(world, "cat f; git status --porcelain");
        let made = keep(world, &["--as", "commit", "--to", "other"], 0);
        assert_eq!(conflicts(&made), Vec::<String>::new());
        let f = shown(world, "other:f");
        assert_eq!((line(&f, 5), line(&f, 20)), ("lane", "20"));
        let made = keep(world, &["--as", "branch", "from-base"], 0);
        assert_eq!(made["files"][0]["path"], "f");
        assert_eq!(line(&shown(world, "from-base:f"), 20), "20");
        assert_eq!(host(world, "cat f; git status --porcelain"), before);
        // On the current branch the files come along: there it is one.
        let made = keep(world, &["--as", "commit"], 1);
        assert_eq!(conflicts(&made), ["lines f"]);
        assert_eq!(host(world, "cat f; git status --porcelain"), before);
    });
}

#[test]
fn on_the_current_branch_files_and_commit_each_get_their_own() {
    each(|world| {
        work(world, "sed -i '5s/.*/lane/' f");
        // The branch moved, and the person edits on top of it.
        host(world, "sed -i '15s/.*/committed/' f; git commit -qam moved; sed -i '25s/.*/user/' f");
        keep(world, &["--as", "commit"], 0);
        let f = shown(world, "HEAD:f");
        assert_eq!((line(&f, 5), line(&f, 15), line(&f, 25)), ("lane", "committed", "25"));
        let file = String::from_utf8(world.content("f").unwrap()).unwrap();
        assert_eq!((line(&file, 5), line(&file, 15), line(&file, 25)), ("lane", "committed", "user"));
        assert_eq!(host(world, "git diff --stat --cached"), "");
        assert!(host(world, "git diff").contains("+user"), "what he edits is not committed");
    });
}
