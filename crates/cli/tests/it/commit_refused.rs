//! `lane keep --as commit` and `--as branch` where they do nothing: each says why and what to do, and the repository is as
//! it was.

use testkit::{Listing, Plain};

use crate::commit::git;
use crate::world::{World, each, once};

/// Runs it and expects a refusal with these words, which leaves everything as it was.
fn refused(world: &World, args: &[&str], words: &[&str]) {
    let before = Listing::of(&world.project);
    let ran = world.run(args).expect_code(1);
    for word in words {
        assert!(ran.err().contains(word), "{word:?} in {ran}");
    }
    before.assert_same(&Listing::of(&world.project));
}

#[test]
fn what_is_half_done_in_the_repository_is_named() {
    once(|world| {
        git(world, &["branch", "other"]);
        world.env.write(&world.project.join("README.md"), b"# Mine\n");
        git(world, &["commit", "-qam", "mine"]);
        git(world, &["switch", "-q", "other"]);
        world.env.write(&world.project.join("README.md"), b"# Other\n");
        git(world, &["commit", "-qam", "other"]);
        world.lane("a");
        world.write("a", "new", b"x\n");
        let keep = ["keep", "a", "--as", "commit", "--yes"];
        for (begin, what, end) in [
            ("merge", "merge", "merge"),
            ("rebase", "rebase", "rebase"),
            ("cherry-pick", "cherry-pick", "cherry-pick"),
        ] {
            world
                .env
                .command(testkit::require::program("git"))
                .args([begin, "main"])
                .current_dir(&world.project)
                .output()
                .unwrap();
            refused(world, &keep, &[&format!("a {what} is half done"), &format!("git {what} --continue")]);
            git(world, &[end, "--abort"]);
        }
        world.env.write(&world.project.join(".git/index.lock"), b"");
        refused(world, &keep, &["the index of", "is locked"]);
        std::fs::remove_file(world.project.join(".git/index.lock")).unwrap();
        git(world, &["checkout", "-q", "--detach"]);
        refused(world, &keep, &["HEAD is detached", "--as branch NAME"]);
        world.ok(&["keep", "a", "--as", "branch", "fine", "--yes"]);
    });
}

#[test]
fn a_branch_that_is_checked_out_anywhere_is_not_moved_from_here() {
    once(|world| {
        let tree = world.env.project("tree");
        git(world, &["worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()]);
        world.lane("a");
        world.write("a", "new", b"x\n");
        for branch in ["main", "side"] {
            refused(world, &["keep", "a", "--as", "commit", "--to", branch, "--yes"], &["is checked out in"]);
        }
        // Not by its HEAD, but it comes back to it.
        world.env.write(&tree.join("README.md"), b"# Side\n");
        let host = |args: &[&str]| world.env.host(&tree, "git", args);
        host(&["commit", "-qam", "side"]);
        world.env.write(&world.project.join("README.md"), b"# Main\n");
        git(world, &["commit", "-qam", "main"]);
        let mut rebase = world.env.command(testkit::require::program("git"));
        rebase.args(["rebase", "main"]).current_dir(&tree).output().unwrap();
        assert!(world.project.join(".git/worktrees/tree/rebase-merge").is_dir());
        refused(world, &["keep", "a", "--as", "commit", "--to", "side", "--yes"], &["is checked out in"]);
    });
}

#[test]
fn names_that_are_taken_missing_or_lead_elsewhere_are_refused() {
    each(|world| {
        git(world, &["branch", "taken/deep"]);
        world.lane("a");
        world.write("a", "new", b"x\n");
        let as_branch = |name: &'static str| vec!["keep", "a", "--as", "branch", name, "--yes"];
        refused(
            world,
            &as_branch("taken/deep"),
            &["there is a branch 'taken/deep' already", "--to taken/deep"],
        );
        for bad in ["../x", "a..b", "x.lock", "HEAD", "a b", ".x"] {
            refused(world, &as_branch(bad), &["cannot be the name of a branch"]);
        }
        // A directory of refs cannot be a ref, too: git's own word on it.
        refused(world, &as_branch("taken"), &["taken"]);
        refused(world, &["keep", "a", "--as", "commit", "--to", "nope", "--yes"], &["no branch 'nope'"]);
        let ran = world.run(&["keep", "a", "--as", "branch"]).expect_code(2);
        assert!(ran.err().contains("--as branch NAME"), "{ran}");
        world.run(&["keep", "a", "--as", "tarball"]).expect_code(2);
        world.run(&["keep", "a", "--to", "x"]).expect_code(2);
        world.run(&["keep", "a", "--as", "branch", "x", "--hooks"]).expect_code(2);
    });
}

#[test]
fn a_directory_without_a_repository_says_so() {
    once(|world| {
        let top = world.env.make_dir("plain");
        world.env.write(&top.join("f"), b"f\n");
        world.env.ok(&top, &["new", "a"]);
        world.env.ok(&top, &["run", "-q", "-n", "a", "--", "sh", "-c", "echo x > x"]);
        let before = Plain::of(&top);
        let ran = world.env.run(&top, &["keep", "a", "--as", "commit", "--yes"]).expect_code(1);
        assert!(ran.err().contains("is no git repository"), "{ran}");
        before.assert_same(&Plain::of(&top));
    });
}

#[test]
fn without_a_name_nothing_is_committed_and_git_says_what_is_missing() {
    once(|world| {
        world.lane("a");
        world.write("a", "x", b"x\n");
        let mut command = world.env.lane(&world.project, &["keep", "a", "--as", "commit", "--yes"]);
        for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            command.env_remove(name);
        }
        world.env.host(world.env.root(), "git", &["config", "--global", "user.useConfigOnly", "true"]);
        let before = Listing::of(&world.project);
        let ran = testkit::Running::start(command).wait(std::time::Duration::from_secs(60)).expect_code(1);
        assert!(ran.err().contains("git did not tell who you are"), "{ran}");
        before.assert_same(&Listing::of(&world.project));
        // The repository's own configuration says it, as text.
        git(world, &["config", "user.name", "Own Name"]);
        git(world, &["config", "user.email", "own@example.org"]);
        let mut command = world.env.lane(&world.project, &["keep", "a", "--as", "commit", "--yes"]);
        for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            command.env_remove(name);
        }
        testkit::Running::start(command).wait(std::time::Duration::from_secs(60)).expect_code(0);
        assert_eq!(git(world, &["log", "-1", "--format=%an %ae"]), "Own Name own@example.org");
    });
}
