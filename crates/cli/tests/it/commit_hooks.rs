//! `lane keep --as commit --hooks`: the original's own hooks run where they were asked for, and nowhere else.

use testkit::Plain;

use crate::commit::git;
use crate::world::{World, each};

fn hook(world: &World, name: &str, script: &str) {
    let path = world.project.join(".git/hooks").join(name);
    world.env.write(&path, format!("#!/bin/sh\n{script}\n").as_bytes());
    world.env.chmod(&path, 0o755);
}

#[test]
fn no_hook_runs_unasked() {
    each(|world| {
        let mark = world.env.root().join("mark");
        for name in [
            "pre-commit",
            "commit-msg",
            "prepare-commit-msg",
            "post-commit",
            "reference-transaction",
            "post-index-change",
            "post-checkout",
            "pre-auto-gc",
            "post-rewrite",
            "post-update",
            "update",
        ] {
            hook(world, name, &format!("touch {}\nexit 1", mark.display()));
        }
        git(world, &["-c", "core.hooksPath=/dev/null", "branch", "other"]);
        let _ = std::fs::remove_file(&mark);
        world.lane("a");
        world.write("a", "x", b"x\n");
        world.write("a", "y", b"y\n");
        world.ok(&["keep", "a", "x", "--as", "commit", "--yes"]);
        world.ok(&["keep", "a", "y", "--as", "commit", "--to", "other", "--yes"]);
        world.ok(&["keep", "a", "--as", "branch", "new", "--yes"]);
        assert!(!mark.exists());
    });
}

#[test]
fn asked_for_the_hooks_see_the_commit_and_may_change_it() {
    each(|world| {
        hook(
            world,
            "pre-commit",
            "git diff --cached --name-only > ../seen; cat x > ../file; echo formatted > x; git add x",
        );
        hook(world, "commit-msg", "echo >> \"$1\"; echo 'Checked-by: hook' >> \"$1\"");
        world.env.write(&world.project.join("staged"), b"mine\n");
        git(world, &["add", "staged"]);
        world.lane("a");
        world.write("a", "x", b"x\n");
        let answer = world.json(&["keep", "a", "--as", "commit", "--hooks", "--yes", "-m", "With hooks"]);
        let read = |name: &str| std::fs::read_to_string(world.env.project(name)).unwrap();
        // The index that they see is the commit's, and the files stand already.
        assert_eq!((read("seen").as_str(), read("file").as_str()), ("x\n", "x\n"));
        assert_eq!(git(world, &["log", "-1", "--format=%B"]), "With hooks\n\nChecked-by: hook");
        assert_eq!(git(world, &["show", "HEAD:x"]), "formatted");
        assert_eq!(git(world, &["rev-parse", "HEAD"]), answer["commit"].as_str().unwrap());
        assert_eq!(git(world, &["diff", "--cached", "--name-only"]), "staged");
        assert_eq!(git(world, &["diff", "--name-only"]), "");
    });
}

#[test]
fn a_hook_that_refuses_leaves_branch_files_and_index_as_they_were() {
    each(|world| {
        world.lane("a");
        world.write("a", "README.md", b"# Lane\n");
        world.write("a", "new/x", b"x\n");
        for name in ["pre-commit", "commit-msg"] {
            hook(world, name, "echo not like this >&2; exit 1");
            let before = Plain::without(&world.project, &[".git"]);
            let (head, index) = (git(world, &["rev-parse", "HEAD"]), git(world, &["ls-files", "-s"]));
            let ran = world.run(&["keep", "a", "--as", "commit", "--hooks", "--yes"]).expect_code(1);
            assert!(ran.err().contains("not like this") && ran.err().contains(name), "{ran}");
            before.assert_same(&Plain::without(&world.project, &[".git"]));
            assert_eq!((git(world, &["rev-parse", "HEAD"]), git(world, &["ls-files", "-s"])), (head, index));
            std::fs::remove_file(world.project.join(".git/hooks").join(name)).unwrap();
        }
        world.ok(&["keep", "a", "--as", "commit", "--hooks", "--yes"]);
    });
}

#[test]
fn a_branch_that_moves_while_the_commit_is_made_is_left_where_it_went_and_the_files_go_back() {
    each(|world| {
        let commit = git(world, &["commit-tree", "-m", "meanwhile", "-p", "HEAD", "HEAD^{tree}"]);
        hook(world, "pre-commit", &format!("env -u GIT_INDEX_FILE git update-ref refs/heads/main {commit}"));
        world.lane("a");
        world.write("a", "README.md", b"# Lane\n");
        let before = Plain::without(&world.project, &[".git"]);
        let ran = world.run(&["keep", "a", "--as", "commit", "--hooks", "--yes"]).expect_code(1);
        assert!(ran.err().contains("branch 'main' moved meanwhile"), "{ran}");
        before.assert_same(&Plain::without(&world.project, &[".git"]));
        assert_eq!(git(world, &["rev-parse", "refs/heads/main"]), commit);
        assert_eq!(world.ok(&["diff", "a", "--name-only"]).out(), "README.md\n");
    });
}
