use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DotGit, GitFacts, Head, facts, head};

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(args)
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// A repository with one commit, at its canonical path.
fn repository() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let main = dir.path().canonicalize().expect("exists").join("main");
    std::fs::create_dir(&main).expect("made");
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
    (dir, main)
}

fn branch(name: &str, commit: &str) -> Option<Head> {
    Some(Head { reference: Some(name.into()), commit: Some(commit.to_owned()) })
}

#[test]
fn an_ordinary_repository_keeps_all_inside() {
    let (_dir, main) = repository();
    let found = facts(&main);
    assert_eq!(found, GitFacts { top: Some(main.clone()), dot_git: DotGit::Dir, ..GitFacts::default() });
    assert_eq!(head(&found), branch("refs/heads/main", &git(&main, &["rev-parse", "HEAD"])));
}

#[test]
fn b01_a_linked_worktree_names_its_private_and_its_common_directory() {
    let (_dir, main) = repository();
    let tree = main.with_file_name("wt");
    git(&main, &["worktree", "add", "-q", "../wt", "-b", "topic"]);
    let found = facts(&tree);
    let gitdir = main.join(".git/worktrees/wt");
    assert_eq!(
        found,
        GitFacts {
            top: Some(tree.clone()),
            dot_git: DotGit::File { gitdir: gitdir.clone() },
            outside_gitdir: Some(gitdir),
            common_dir: Some(main.join(".git")),
        }
    );
    assert_eq!(head(&found), branch("refs/heads/topic", &git(&tree, &["rev-parse", "HEAD"])));
}

#[test]
fn a_packed_branch_is_found() {
    let (_dir, main) = repository();
    git(&main, &["pack-refs", "--all"]);
    assert_eq!(head(&facts(&main)), branch("refs/heads/main", &git(&main, &["rev-parse", "HEAD"])));
}

#[test]
fn a_detached_head_has_a_commit_and_no_branch() {
    let (_dir, main) = repository();
    git(&main, &["checkout", "-q", "--detach"]);
    let commit = git(&main, &["rev-parse", "HEAD"]);
    assert_eq!(head(&facts(&main)), Some(Head { reference: None, commit: Some(commit) }));
}

#[test]
fn a_branch_without_a_commit_has_none() {
    let dir = tempfile::tempdir().expect("a directory");
    git(dir.path(), &["init", "-q"]);
    assert_eq!(
        head(&facts(dir.path())),
        Some(Head { reference: Some("refs/heads/main".into()), commit: None })
    );
}

#[test]
fn a_project_below_the_top_level_sees_the_repository_outside() {
    let (_dir, main) = repository();
    let sub = main.join("sub");
    std::fs::create_dir(&sub).expect("made");
    let found = facts(&sub);
    assert_eq!((found.top, found.common_dir), (Some(main.clone()), Some(main.join(".git"))));
}

#[test]
fn hostile_pointers_give_nothing_and_do_not_hang() {
    let dir = tempfile::tempdir().expect("a directory");
    let top = dir.path();
    std::fs::create_dir(top.join(".git")).expect("made");
    rustix::fs::mknodat(rustix::fs::CWD, top.join(".git/HEAD"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a fifo");
    assert_eq!(head(&facts(top)), None);
    std::fs::remove_file(top.join(".git/HEAD")).expect("gone");
    std::fs::write(top.join(".git/HEAD"), "ref: refs/../../secret\n").expect("written");
    std::fs::write(top.join("secret"), "0".repeat(40)).expect("written");
    assert_eq!(head(&facts(top)).and_then(|head| head.commit), None);
}
