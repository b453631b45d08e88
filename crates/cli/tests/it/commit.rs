//! `lane keep --as commit`: what is in the commit, and what of the original stays as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use testkit::{Listing, Plain};

use crate::world::{World, each, once, raw};

/// Runs git in the project and expects success.
pub(crate) fn git(world: &World, args: &[&str]) -> String {
    world.env.host(&world.project, "git", args).out().trim_end().to_owned()
}

/// Does what the answer says takes it back.
pub(crate) fn take_back(world: &World, answer: &serde_json::Value) {
    let words: Vec<&str> =
        answer["undo"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[0], "git");
    git(world, &words[1..]);
}

pub(crate) fn paths(answer: &serde_json::Value, list: &str) -> Vec<String> {
    answer[list].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_selection_becomes_one_commit_and_its_files_come_along() {
    each(|world| {
        world.lane("all");
        world.write("all", "README.md", b"# Better\n");
        world.write("all", "new/deep/file", b"new\n");
        world.write("all", raw(b"bad\xff\n\"name"), b"odd\n");
        world.write("all", "binary", &[0, 1, 2, 255]);
        world.delete("all", "src/lib.rs");
        world.link("all", "run.sh", "to-run");
        world.ok(&["export", "all", "../wanted"]);
        let before = git(world, &["rev-parse", "HEAD"]);
        let answer = world.json(&["keep", "all", "--as", "commit", "--yes"]);
        assert_eq!((&answer["complete"], &answer["with_files"]), (&true.into(), &true.into()));
        assert_eq!(answer["parent"], before.as_str());
        assert_eq!(git(world, &["rev-parse", "HEAD"]), answer["commit"].as_str().unwrap());
        assert_eq!(git(world, &["rev-list", "--count", "HEAD"]), "2");
        assert_eq!(git(world, &["status", "--porcelain"]), "");
        assert_eq!(
            git(world, &["log", "-1", "--format=%an <%ae> %cn"]),
            "Tester <tester@example.org> Tester"
        );
        assert_eq!(git(world, &["log", "-1", "--format=%s"]), "Keep lane all: 4 added, 1 changed, 1 deleted");
        git(world, &["fsck", "--strict", "--no-dangling"]);
        let wanted = world.env.project("wanted");
        Plain::without(&world.project, &[".git"]).assert_same(&Plain::of(&wanted));
        // A fresh checkout of the commit has it all, byte by byte.
        let fresh = world.env.project("fresh");
        git(world, &["-c", "core.autocrlf=false", "clone", "-q", ".", fresh.to_str().unwrap()]);
        Plain::without(&fresh, &[".git"]).assert_same(&Plain::of(&wanted));
        assert_eq!(world.json(&["diff", "all"])["files"], serde_json::json!([]));
        take_back(world, &answer);
        assert_eq!(git(world, &["rev-parse", "HEAD"]), before);
        assert_eq!(git(world, &["status", "--porcelain"]), "");
    });
}

#[test]
fn what_else_was_edited_and_staged_stays_exactly_so() {
    each(|world| {
        world.env.write(&world.project.join("staged"), b"staged\n");
        git(world, &["add", "staged"]);
        world.env.write(&world.project.join("staged"), b"staged and edited\n");
        world.env.write(&world.project.join("src/main.rs"), b"// mine\n");
        world.env.write(&world.project.join("untracked"), b"mine\n");
        world.lane("a");
        world.write("a", "README.md", b"# Lane\n");
        let cached = git(world, &["diff", "--cached"]);
        let edits = git(world, &["diff"]);
        let untouched = Plain::without(&world.project, &[".git", "README.md"]);
        let answer = world.json(&["keep", "a", "--as", "commit", "--yes", "-m", "Mine: only the title"]);
        assert_eq!(paths(&answer, "files"), ["README.md"]);
        assert_eq!(
            git(world, &["show", "--format=%B", "--name-only", "HEAD"]),
            "Mine: only the title\n\n\nREADME.md"
        );
        assert_eq!(git(world, &["diff", "--cached"]), cached);
        assert_eq!(git(world, &["diff"]), edits);
        untouched.assert_same(&Plain::without(&world.project, &[".git", "README.md"]));
    });
}

#[test]
fn a_dry_run_and_a_missing_answer_leave_no_trace_in_the_repository_or_the_state() {
    each(|world| {
        world.lane("dry");
        world.write("dry", "x", b"x\n");
        let before = Listing::of(&world.project);
        let ran = world.ok(&["keep", "dry", "--as", "commit", "--dry-run"]);
        assert!(ran.out().contains("add     x"), "{ran}");
        let ran = world.run(&["keep", "dry", "--as", "commit"]).expect_code(1);
        assert!(ran.err().contains("--yes"), "{ran}");
        world.ok(&["keep", "dry", "--as", "branch", "b", "--dry-run"]);
        before.assert_same(&Listing::of(&world.project));
        let left: Vec<_> = fs::read_dir(world.env.state().join("scratch")).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn on_another_branch_only_the_branch_moves() {
    each(|world| {
        git(world, &["branch", "other"]);
        world.lane("a");
        world.write("a", "README.md", b"# Lane\n");
        world.write("a", "new", b"new\n");
        let working = Listing::without(&world.project, &[".git"]);
        let index = fs::read(world.project.join(".git/index")).unwrap();
        let (main, other) =
            (git(world, &["rev-parse", "refs/heads/main"]), git(world, &["rev-parse", "other"]));
        let answer = world.json(&["keep", "a", "README.md", "--as", "commit", "--to", "other", "--yes"]);
        assert_eq!(answer["branch"], "refs/heads/other");
        working.assert_same(&Listing::without(&world.project, &[".git"]));
        assert_eq!(fs::read(world.project.join(".git/index")).unwrap(), index);
        assert_eq!(git(world, &["rev-parse", "refs/heads/main"]), main);
        assert_eq!(git(world, &["rev-parse", "other~"]), other);
        assert_eq!(git(world, &["show", "other:README.md"]), "# Lane");
        assert_eq!(git(world, &["ls-tree", "--name-only", "other", "new"]), "");
        // Nothing was kept: the lane's changes are still changes.
        assert_eq!(world.ok(&["diff", "a", "--name-only"]).out(), "README.md\nnew\n");
        take_back(world, &answer);
        assert_eq!(git(world, &["rev-parse", "other"]), other);
    });
}

#[test]
fn a_file_that_the_branch_has_otherwise_is_left_out_and_nobodys_work_is_undone() {
    each(|world| {
        // An edit of the user's that is in no commit, made before the lane was.
        world.env.write(&world.project.join("src/lib.rs"), b"//! Mine, not committed.\n");
        world.lane("a");
        world.write("a", "src/lib.rs", b"//! Mine, not committed.\n//! Lane.\n");
        world.write("a", "fine", b"x\n");
        let ran = world.run(&["keep", "a", "--as", "commit", "--yes"]).expect_code(1);
        assert!(
            ran.err().contains("src/lib.rs") && ran.err().contains("the same lines were changed in branch"),
            "{ran}"
        );
        assert_eq!(world.content("src/lib.rs").unwrap(), b"//! Mine, not committed.\n");
        assert_eq!(git(world, &["show", "--format=", "--name-only", "HEAD"]), "fine");
        assert_eq!(git(world, &["show", "HEAD:src/lib.rs"]), "//! Nothing yet.");
        // And a branch that has gone on: what it has there was not what the lane changed.
        git(world, &["stash", "-q"]);
        git(world, &["branch", "other"]);
        world.env.write(&world.project.join("README.md"), b"# Other\n");
        git(world, &["commit", "-qam", "other"]);
        git(world, &["branch", "-f", "other"]);
        git(world, &["reset", "-q", "--hard", "HEAD~"]);
        world.lane("b");
        world.write("b", "README.md", b"# Lane\n");
        let ran = world.run(&["keep", "b", "--as", "commit", "--to", "other", "--yes"]).expect_code(1);
        assert!(ran.err().contains("nothing to commit"), "{ran}");
        assert_eq!(git(world, &["show", "other:README.md"]), "# Other");
    });
}

#[test]
fn the_first_commit_of_a_repository_holds_the_selection_alone() {
    once(|world| {
        let top = world.env.make_dir("fresh");
        world.env.host(&top, "git", &["init", "-q", "-b", "trunk", "."]);
        world.env.write(&top.join("mine"), b"mine\n");
        world.env.ok(&top, &["new", "a"]);
        world.env.ok(&top, &["run", "-q", "-n", "a", "--", "sh", "-c", "echo x > x"]);
        let answer = world.env.json(&top, &["keep", "a", "--as", "commit", "--yes"]);
        assert_eq!(
            (&answer["branch"], &answer["parent"]),
            (&"refs/heads/trunk".into(), &serde_json::Value::Null)
        );
        let host = |args: &[&str]| world.env.host(&top, "git", args).out();
        assert_eq!(host(&["ls-tree", "-r", "--name-only", "trunk"]), "x\n");
        assert_eq!(host(&["status", "--porcelain"]), "?? mine\n");
        let words: Vec<&str> =
            answer["undo"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
        host(&words[1..]);
        assert_eq!(host(&["for-each-ref"]), "");
    });
}

#[test]
fn a_repository_of_sha256_and_a_linked_worktree_are_committed_to_like_any_other() {
    once(|world| {
        let top = world.env.make_dir("sha256");
        let host = |dir: &std::path::Path, args: &[&str]| world.env.host(dir, "git", args).out();
        host(&top, &["init", "-q", "-b", "main", "--object-format=sha256", "."]);
        world.env.write(&top.join("f"), b"1\n");
        host(&top, &["add", "-A"]);
        host(&top, &["commit", "-qm", "first"]);
        let tree = world.env.project("tree");
        host(&world.project, &["worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()]);
        for (dir, name) in [(&top, "f"), (&tree, "README.md")] {
            world.env.ok(dir, &["new", "a"]);
            let script = format!("echo more >> {name}; git commit -qam inside; echo extra > extra");
            world.env.ok(dir, &["run", "-q", "-n", "a", "--", "sh", "-c", &script]);
            let answer = world.env.json(dir, &["keep", "a", "extra", "--as", "commit", "--yes"]);
            assert_eq!(host(dir, &["rev-parse", "HEAD"]).trim_end(), answer["commit"].as_str().unwrap());
            let branch = world.env.json(dir, &["keep", "a", "--as", "branch", "agent", "--yes"]);
            assert_eq!(branch["commits"][0]["subject"], "inside");
            assert_eq!(host(dir, &["log", "-1", "--format=%s", "agent"]), "inside\n");
            assert_eq!(host(dir, &["status", "--porcelain"]), "");
            host(dir, &["fsck", "--strict", "--no-dangling"]);
        }
    });
}

#[test]
fn the_bytes_are_the_lanes_whatever_conversion_is_configured() {
    each(|world| {
        git(world, &["config", "core.autocrlf", "true"]);
        world.env.write(&world.project.join(".gitattributes"), b"*.txt text eol=crlf\n");
        world.env.write(&world.project.join("win.txt"), b"one\r\ntwo\r\n");
        git(world, &["add", "-A"]);
        git(world, &["commit", "-qm", "text"]);
        assert_eq!(
            world.env.host(&world.project, "git", &["cat-file", "blob", "HEAD:win.txt"]).stdout,
            b"one\ntwo\n"
        );
        world.lane("a");
        world.write("a", "win.txt", b"one\r\ntwo\r\nthree\r\n");
        world.write("a", "mixed", b"a\r\nb\nc\r");
        let answer = world.json(&["keep", "a", "--as", "commit", "--yes"]);
        let blob = |at: &str| world.env.host(&world.project, "git", &["cat-file", "blob", at]).stdout;
        assert_eq!(blob("HEAD:win.txt"), b"one\r\ntwo\r\nthree\r\n");
        assert_eq!(blob("HEAD:mixed"), b"a\r\nb\nc\r");
        assert_eq!(answer["notes"], serde_json::json!([{ "path": "win.txt", "what": "line-endings" }]));
    });
}

#[test]
fn executable_bits_are_taken_where_they_are_named_and_directories_without_files_are_listed() {
    each(|world| {
        world.lane("a");
        world.write("a", "run.sh", b"#!/bin/sh\necho other\n");
        world.write("a", "tool", b"#!/bin/sh\n");
        world.env.chmod(&world.layer("a").join("tool"), 0o755);
        world.env.mkdir(&world.layer("a").join("empty"));
        let ran = world.run(&["keep", "a", "--as", "commit", "--yes"]).expect_code(1);
        assert!(ran.err().contains("tool (runs by itself"), "{ran}");
        assert!(ran.err().contains("not in the commit: empty: a directory without files"), "{ran}");
        assert_eq!(git(world, &["ls-tree", "HEAD", "run.sh", "tool"]).split(' ').next(), Some("100755"));
        assert!(world.project.join("empty").is_dir() && !world.project.join("tool").exists());
        world.ok(&["keep", "a", "tool", "--as", "commit", "--yes"]);
        assert!(git(world, &["ls-tree", "HEAD", "tool"]).starts_with("100755 "));
        // On another branch there is no working tree that could hold it.
        git(world, &["branch", "other"]);
        world.env.mkdir(&world.layer("a").join("void"));
        world.write("a", "more", b"x\n");
        let args = ["keep", "a", "--as", "commit", "--to", "other", "--yes"];
        assert!(world.run(&args).expect_code(1).err().contains("not in the commit: void"));
    });
}

fn ignored(answer: &serde_json::Value) -> Vec<String> {
    let left = answer["left_out"].as_array().unwrap().iter().filter(|left| left["why"] == "ignored");
    left.map(|left| left["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn ignored_files_are_committed_only_where_they_are_named() {
    each(|world| {
        world.env.write(&world.env.home().join(".config/git/ignore"), b"*.swp\n");
        world.env.write(&world.project.join(".git/info/exclude"), b"*.own\n");
        world.lane("a");
        world.write("a", "target/debug/out", b"o\n");
        world.write("a", "x.swp", b"s\n");
        world.write("a", "x.own", b"s\n");
        // The rules are those that will be: the lane's own, where they are kept.
        world.write("a", "sub/.gitignore", b"*.log\n!keep.log\n");
        world.write("a", "sub/a.log", b"l\n");
        world.write("a", "sub/keep.log", b"l\n");
        world.write("a", ":(top)x", b"odd\n");
        let answer = world.json(&["keep", "a", "--as", "commit", "--yes"]);
        assert_eq!(paths(&answer, "files"), [":(top)x", "sub/.gitignore", "sub/keep.log"]);
        let wanted = ["sub/a.log", "target", "target/debug", "target/debug/out", "x.own", "x.swp"];
        assert_eq!(ignored(&answer), wanted);
        assert!(answer["complete"] == true && world.content("x.swp").is_none());
        let answer = world.json(&["keep", "a", "target", "x.swp", "--as", "commit", "--yes"]);
        assert_eq!(paths(&answer, "files"), ["target/debug/out", "x.swp"]);
        let answer = world.json(&["keep", "a", "sub", "--as", "commit", "--yes"]);
        assert_eq!(
            (ignored(&answer), &answer["commit"]),
            (vec!["sub/a.log".to_owned()], &serde_json::Value::Null)
        );
    });
}

#[test]
fn a_rename_is_one_and_a_whole_directory_moves() {
    each(|world| {
        for n in 0..5 {
            world.env.write(&world.project.join(format!("old/f{n}")), format!("content {n}\n").as_bytes());
        }
        git(world, &["add", "-A"]);
        git(world, &["commit", "-qm", "files"]);
        world.lane("a");
        world.ok(&[
            "run",
            "-q",
            "-n",
            "a",
            "--",
            "sh",
            "-c",
            "mv old moved; echo x >> moved/f3; mv README.md GUIDE.md",
        ]);
        world.json(&["keep", "a", "--as", "commit", "--yes"]);
        let status = git(world, &["show", "--format=", "--name-status", "-M", "HEAD"]);
        assert!(
            status.contains("R100\tREADME.md\tGUIDE.md") && status.contains("R100\told/f0\tmoved/f0"),
            "{status}"
        );
        assert_eq!(git(world, &["status", "--porcelain"]), "");
        assert!(!world.project.join("old").exists() && world.content("moved/f3").unwrap().ends_with(b"x\n"));
    });
}

#[test]
fn submodules_and_repositories_inside_are_left_to_themselves() {
    once(|world| {
        let module = world.env.make_git("module");
        let url = module.to_str().unwrap();
        git(world, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
        git(world, &["commit", "-qm", "module"]);
        let nested = world.project.join("nested");
        world.env.write(&nested.join("f"), b"f\n");
        world.env.git_init(&nested);
        world.lane("a");
        world.write("a", "sub/README.md", b"# Changed\n");
        world.write("a", "nested/f", b"changed\n");
        world.write("a", "plain", b"x\n");
        let ran = world.run(&["keep", "a", "--as", "commit", "--yes"]).expect_code(1);
        assert!(ran.err().contains("sub/README.md") && ran.err().contains("submodule"), "{ran}");
        assert!(ran.err().contains("nested/f") && ran.err().contains("a repository of its own"), "{ran}");
        assert_eq!(git(world, &["show", "--format=", "--name-only", "HEAD"]), "plain");
        assert!(git(world, &["ls-tree", "HEAD", "sub"]).starts_with("160000 "));
        assert_eq!(world.content("nested/f").unwrap(), b"f\n");
    });
}

#[test]
fn names_of_any_bytes_are_committed_as_they_are() {
    each(|world| {
        world.lane("a");
        let names = testkit::project::odd_names();
        for name in &names {
            world.write("a", raw(name), name);
        }
        world.json(&["keep", "a", "--as", "commit", "--yes"]);
        let out = world.env.host(&world.project, "git", &["ls-tree", "-z", "--name-only", "HEAD"]).stdout;
        let have: Vec<&[u8]> = out.split(|b| *b == 0).collect();
        for name in &names {
            assert!(have.contains(&name.as_slice()), "{}", name.escape_ascii());
        }
        assert_eq!(git(world, &["status", "--porcelain"]), "");
        // Nothing of them drives a terminal.
        let ran = world.ok(&["keep", "a", "--as", "commit", "--dry-run"]);
        assert!(!ran.stdout.contains(&0x1b) && !ran.stderr.contains(&0x1b), "{ran}");
    });
}

#[test]
fn an_index_entry_of_its_own_is_left_and_told() {
    once(|world| {
        // Staged only, and the file put back: the lane stands on the file, the branch has the same, the index has not.
        world.env.write(&world.project.join("README.md"), b"# Staged\n");
        git(world, &["add", "README.md"]);
        world.env.write(&world.project.join("README.md"), b"# A project\n");
        world.lane("a");
        world.write("a", "README.md", b"# Lane\n");
        let ran = world.ok(&["keep", "a", "--as", "commit", "--yes"]);
        assert!(ran.err().contains("README.md: the index has another version"), "{ran}");
        assert_eq!(git(world, &["show", ":README.md"]), "# Staged");
        assert_eq!(git(world, &["show", "HEAD:README.md"]), "# Lane");
    });
}

#[test]
fn modes_that_the_lane_did_not_touch_stay_what_the_branch_says() {
    once(|world| {
        // In the index it is executable, on disk it is not: as on a filesystem without such bits.
        git(world, &["config", "core.fileMode", "false"]);
        git(world, &["update-index", "--chmod=+x", "README.md"]);
        git(world, &["commit", "-qm", "executable"]);
        world.lane("a");
        world.write("a", "README.md", b"# Lane\n");
        let mode = fs::metadata(world.project.join("README.md")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0);
        world.json(&["keep", "a", "--as", "commit", "--yes"]);
        assert!(git(world, &["ls-tree", "HEAD", "README.md"]).starts_with("100755 "));
    });
}

#[test]
fn chosen_hunks_alone_are_committed_and_the_rest_stays_in_the_lane() {
    each(|world| {
        let lines = |words: [&str; 3]| -> Vec<u8> {
            let filler = "same\n".repeat(20);
            words.map(|word| format!("{word}\n")).join(&filler).into_bytes()
        };
        world.env.write(&world.project.join("f"), &lines(["one", "two", "three"]));
        git(world, &["add", "f"]);
        git(world, &["commit", "-qm", "f"]);
        world.lane("a");
        world.write("a", "f", &lines(["ONE", "two", "THREE"]));
        let diff = world.json(&["diff", "a"]);
        let hunk = diff["files"][0]["hunks"][0]["id"].as_str().unwrap().to_owned();
        git(world, &["branch", "other"]);
        world.json(&["keep", "a", "--hunk", &hunk, "--as", "commit", "--to", "other", "--yes"]);
        world.json(&["keep", "a", "--hunk", &hunk, "--as", "commit", "--yes"]);
        for branch in ["other:f", "refs/heads/main:f"] {
            let blob = world.env.host(&world.project, "git", &["cat-file", "blob", branch]).stdout;
            assert_eq!(blob, lines(["ONE", "two", "three"]));
        }
        assert_eq!(world.content("f").unwrap(), lines(["ONE", "two", "three"]));
        assert_eq!(git(world, &["status", "--porcelain"]), "");
        let left = world.json(&["diff", "a"]);
        assert_eq!(left["files"][0]["hunks"].as_array().unwrap().len(), 1);
        let ran = world.ok(&["keep", "a", "--as", "patch"]);
        assert!(ran.out().contains("+THREE") && !ran.out().contains("+ONE"), "{ran}");
    });
}

#[test]
fn the_rules_for_keeps_hold_in_every_shape() {
    once(|world| {
        world.env.write(
            &world.project.join("lane.toml"),
            b"[keep]\ndeny = ['secret/**']\nverify = 'test ! -e bad'\n",
        );
        git(world, &["add", "lane.toml"]);
        git(world, &["commit", "-qm", "rules"]);
        git(world, &["branch", "other"]);
        world.lane("a");
        world.ok(&[
            "run",
            "-q",
            "-n",
            "a",
            "--",
            "sh",
            "-ec",
            "mkdir secret; echo x > secret/x; git add secret; git commit -qm secret",
        ]);
        let refs = git(world, &["for-each-ref"]);
        let shapes: [&[&str]; 4] = [
            &["--as", "patch"],
            &["--as", "commit", "--yes"],
            &["--as", "commit", "--to", "other", "--yes"],
            &["--as", "branch", "b", "--yes"],
        ];
        let all = |words: &str| {
            for shape in shapes {
                let ran = world.run(&[&["keep", "a"], shape].concat()).expect_code(1);
                assert!(ran.err().contains(words), "{shape:?}: {ran}");
                assert!(ran.out().is_empty(), "{shape:?}: {ran}");
            }
            assert_eq!(git(world, &["for-each-ref"]), refs);
            assert_eq!(git(world, &["status", "--porcelain"]), "");
        };
        all("secret/**");
        world.ok(&[
            "run",
            "-q",
            "-n",
            "a",
            "--",
            "sh",
            "-ec",
            "git rm -rqf secret; git commit -qm gone; echo x > bad; git add bad; git commit -qm bad",
        ]);
        all("test ! -e bad");
    });
}
