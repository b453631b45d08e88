//! What runs by itself later, and what does not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use review::guard::{Guard, git_internal, guarded};
use review::plan::Why;
use tree::DirTree;

use crate::world::{World, chmod, path, write};

fn guard(fill: impl FnOnce(&Path)) -> Guard {
    let dir = tempfile::tempdir().expect("a directory");
    fill(dir.path());
    Guard::new(&DirTree::open(dir.path()).expect("open")).expect("rules")
}

#[test]
fn paths_that_run_by_themselves_are_guarded_with_a_reason() {
    let guard = guard(|_| {});
    for name in [
        ".husky/pre-commit",
        ".githooks/x",
        "sub/.githooks/x",
        ".envrc",
        "deep/er/.envrc",
        ".vscode/tasks.json",
        ".vscode/settings.json",
        "app/.vscode/tasks.json",
        ".idea/runConfigurations/a.xml",
        ".devcontainer/devcontainer.json",
        ".devcontainer.json",
        ".github/workflows/ci.yml",
        ".github/workflows",
        ".GITHUB/Workflows/ci.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        ".travis.yml",
        ".claude/settings.json",
        ".claude/hooks/x.sh",
        ".cursor/mcp.json",
        ".mcp.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".gitattributes",
        "sub/.gitattributes",
        ".gitmodules",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        ".lefthook.yaml",
        ".npmrc",
        ".cargo/config.toml",
        "conf.pth",
        ".yarnrc.yml",
        "x.code-workspace",
    ] {
        let reason = guard.path(&path(name)).unwrap_or_else(|| panic!("{name} is not guarded"));
        assert!(!reason.text.is_empty());
    }
}

#[test]
fn ordinary_files_are_not_guarded() {
    let guard = guard(|_| {});
    for name in [
        "src/main.rs",
        "build.rs",
        "Makefile",
        "setup.py",
        "conftest.py",
        "package.json",
        "Cargo.toml",
        "README.md",
        "AGENTS.md",
        "CLAUDE.md",
        ".gitignore",
        ".github/ISSUE_TEMPLATE.md",
        ".github/CODEOWNERS",
        "docs/.github/workflows/ci.yml",
        "husky/x",
        ".vscode/extensions.json",
        ".idea/misc.xml",
        "vite.config.ts",
        "Dockerfile",
        ".env",
        ".envrc.example",
        "node_modules/x/.npmrc",
        "node_modules/x/.gitattributes",
        "node_modules/x/.github/workflows/ci.yml",
        "my.travis.yml",
        "src/lefthook.rs",
    ] {
        assert_eq!(guard.path(&path(name)), None, "{name}");
    }
}

#[test]
fn the_hook_directory_that_the_repository_names_is_guarded() {
    let guard = guard(|o| {
        write(
            o.join(".git/config"),
            "[core]\n\tbare = false\n\thooksPath = \"./tools/hooks/\"\n[user]\n\thooksPath = no\n",
        )
    });
    assert!(guard.path(&path("tools/hooks/pre-push")).is_some());
    assert!(guard.path(&path("tools/other")).is_none() && guard.path(&path("no")).is_none());
}

#[test]
fn git_innards_are_known_anywhere_and_in_any_case() {
    for name in [".git", ".git/config", "sub/.git/hooks/x", ".GIT/config", "a/.Git"] {
        assert!(git_internal(&path(name)), "{name}");
    }
    for name in [".gitignore", "git", ".github", "a.git/config"] {
        assert!(!git_internal(&path(name)), "{name}");
    }
}

/// The guarded paths among the changes of a world.
fn found(world: &World) -> Vec<String> {
    let (base, lane) = world.trees();
    let set = world.set();
    let hit = |change: &&tree::Change| guarded(change, &lane, &base).expect("judged").is_some();
    set.changes
        .iter()
        .filter(hit)
        .map(|change| format!("{:?}", change.path).trim_matches('"').to_owned())
        .collect()
}

#[test]
fn package_scripts_are_guarded_only_where_they_change() {
    let world = World::new(
        |o| {
            write(
                o.join("deps/package.json"),
                r#"{"scripts": {"build": "tsc"}, "dependencies": {"a": "1"}}"#,
            );
            write(o.join("scripts/package.json"), r#"{"scripts": {"build": "tsc"}}"#);
            write(o.join("broken/package.json"), "{}");
            write(o.join("node_modules/x/package.json"), "{}");
        },
        |l| {
            write(
                l.join("deps/package.json"),
                r#"{"dependencies": {"a": "2"}, "scripts": {"build": "tsc"}}"#,
            );
            write(l.join("scripts/package.json"), r#"{"scripts": {"build": "tsc", "postinstall": "evil"}}"#);
            write(l.join("broken/package.json"), "{,}");
            write(l.join("new/package.json"), r#"{"name": "x"}"#);
            write(l.join("new-scripts/package.json"), r#"{"scripts": {"prepare": "x"}}"#);
            write(l.join("node_modules/x/package.json"), r#"{"scripts": {"install": "x"}}"#);
        },
    );
    assert_eq!(found(&world), ["broken/package.json", "new-scripts/package.json", "scripts/package.json"]);
}

#[test]
fn new_executable_bits_are_guarded_and_old_ones_are_not() {
    let world = World::new(
        |o| {
            write(o.join("was"), "x");
            chmod(o.join("was"), 0o755);
            write(o.join("plain"), "x");
            write(o.join("moving"), "a file that is long enough to be found again");
            chmod(o.join("moving"), 0o755);
        },
        |l| {
            write(l.join("was"), "y");
            chmod(l.join("plain"), 0o744);
            write(l.join("new"), "x");
            chmod(l.join("new"), 0o755);
            write(l.join("new-plain"), "x");
            fs::rename(l.join("moving"), l.join("moved")).expect("renamed");
            write(l.join("target/debug/app"), "x");
            chmod(l.join("target/debug/app"), 0o755);
        },
    );
    assert_eq!(found(&world), ["new", "plain"]);
}

#[test]
fn links_out_of_the_project_and_into_git_are_guarded() {
    let world = World::new(
        |o| {
            write(o.join("a/b/c"), "x");
            symlink("/usr/bin/python3", o.join("old")).expect("linked");
        },
        |l| {
            for (name, target) in [
                ("abs", "/etc/passwd"),
                ("a/up", "../../x"),
                ("a/b/inside", "../../a/b/c"),
                ("git", ".git/hooks"),
                ("dangling", "not/there"),
                ("a/trick", "b/../../../y"),
            ] {
                symlink(target, l.join(name)).expect("linked");
            }
        },
    );
    assert_eq!(found(&world), ["a/trick", "a/up", "abs", "git"]);
}

#[test]
fn removing_a_guarded_file_or_moving_one_away_needs_its_name_too() {
    let world = World::new(
        |o| {
            write(o.join(".husky/pre-commit"), "a hook that checks things");
            write(o.join("ci/.envrc"), "export A=1 and more of that");
        },
        |l| {
            fs::remove_dir_all(l.join(".husky")).expect("removed");
            fs::rename(l.join("ci"), l.join("cj")).expect("renamed");
        },
    );
    let plan = world.plan(&[]);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert!(
        plan.skipped.iter().any(|s| s.path == path(".husky/pre-commit") && matches!(s.why, Why::Guarded(_)))
    );
    let (plan, _) = world.keep(&[".husky", "ci/.envrc", "ci", "cj"]);
    assert!(plan.is_complete(), "{:?}", plan.skipped);
    world.assert_equal();
}

#[test]
fn a_guarded_directory_is_made_for_the_file_that_was_named_and_not_for_nothing() {
    let change = |l: &Path| {
        write(l.join(".github/workflows/ci.yml"), "x");
        write(l.join(".github/workflows/other.yml"), "x");
        write(l.join("a"), "x");
    };
    let world = World::new(|_| {}, change);
    world.keep(&[]);
    assert!(!world.origin().join(".github").exists() && world.origin().join("a").exists());
    world.keep(&[".github/workflows/ci.yml"]);
    assert!(world.origin().join(".github/workflows/ci.yml").exists());
    assert!(!world.origin().join(".github/workflows/other.yml").exists());
    let world = World::new(|_| {}, change);
    let (plan, _) = world.keep(&[".github"]);
    assert_eq!((plan.steps.len(), plan.is_complete()), (0, false));
    world.keep(&[".github/workflows"]);
    assert!(world.origin().join(".github/workflows/other.yml").exists());
}
