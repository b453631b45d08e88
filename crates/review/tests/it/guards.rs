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
        "lane.toml",
        ".hg/hgrc",
        "sub/.jj/repo/config.toml",
        "rust-toolchain.toml",
        ".venv/bin/activate",
        "sub/.venv/bin/python",
        ".bashrc",
        "build.rs",
        "crates/a/build.rs",
        "Makefile",
        "sub/makefile",
        "CMakeLists.txt",
        "setup.py",
        "tests/conftest.py",
        "tox.ini",
        "Rakefile",
        "x.gemspec",
        "build.gradle.kts",
        "pom.xml",
        "App.csproj",
        "Dockerfile",
        "Dockerfile.dev",
        "compose.yaml",
        "web/vite.config.ts",
        "eslint.config.mjs",
        "jest.config.js",
        "vendor/x/build.rs",
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
        ".env",
        ".envrc.example",
        "node_modules/x/.npmrc",
        "node_modules/x/.gitattributes",
        "node_modules/x/.github/workflows/ci.yml",
        "my.travis.yml",
        "src/lefthook.rs",
        "src/build.rs.txt",
        "src/app/app.config.ts",
        "docs/lane.toml",
        "home/.bashrc",
        "node_modules/x/Makefile",
        ".venv/lib/python3/site-packages/x/setup.py",
        "target/debug/build/x/Makefile",
    ] {
        assert_eq!(guard.path(&path(name)), None, "{name}");
    }
}

#[test]
fn what_starts_by_itself_is_guarded_also_where_packages_are_installed() {
    let guard = guard(|_| {});
    let name = ".venv/lib/python3/site-packages/evil.pth";
    assert!(guard.path(&path(name)).is_some());
}

#[test]
fn a_directory_is_no_build_script_because_of_its_name() {
    let world = World::new(
        |_| {},
        |l| {
            write(l.join("build/x"), "x");
            write(l.join("dune/x"), "x");
            write(l.join("other/BUILD"), "x");
        },
    );
    assert_eq!(found(&world), ["other/BUILD"]);
}

#[test]
fn a_first_line_that_names_a_program_is_guarded_where_it_is_new() {
    let world = World::new(
        |o| {
            write(o.join("same"), "#!/bin/sh\necho 1\n");
            write(o.join("other"), "#!/bin/sh\necho 1\n");
            write(o.join("plain"), "echo 1\n");
            write(o.join("gone"), "#!/bin/sh\necho 1\n");
        },
        |l| {
            write(l.join("same"), "#!/bin/sh\necho 2\n");
            write(l.join("other"), "#!/tmp/evil\necho 1\n");
            write(l.join("plain"), "#!/bin/sh\necho 1\n");
            write(l.join("gone"), "echo 1\n");
            write(l.join("new"), "#!/usr/bin/env python3\n");
            write(l.join("no"), "# !/bin/sh\n");
            write(l.join("short"), "#");
            write(l.join("target/x"), "#!/bin/sh\n");
        },
    );
    assert_eq!(found(&world), ["new", "other", "plain"]);
}

#[test]
fn links_that_stand_in_for_programs_are_guarded_and_others_are_not() {
    let world = World::new(
        |o| {
            write(o.join("tool.sh"), "x");
            chmod(o.join("tool.sh"), 0o755);
            write(o.join("src/x"), "x");
            symlink("../src/x", o.join("src/python")).expect("linked");
        },
        |l| {
            fs::remove_file(l.join("tool.sh")).expect("removed");
            for (name, target) in [
                ("tool.sh", "src/x"),
                ("a/python3.12", "../src/x"),
                ("a/node", "../src/x"),
                ("bin/mine", "../src/x"),
                ("node_modules/.bin/tsc", "../../src/x"),
                ("node_modules/.bin/node", "../../src/x"),
                ("a/current", "../src/x"),
            ] {
                fs::create_dir_all(l.join(name).parent().expect("a parent")).expect("made");
                symlink(target, l.join(name)).expect("linked");
            }
        },
    );
    assert_eq!(found(&world), ["a/node", "a/python3.12", "bin/mine", "node_modules/.bin/node", "tool.sh"]);
}

#[test]
fn manifests_are_guarded_only_where_keys_that_name_commands_change() {
    let world = World::new(
        |o| {
            write(o.join("Cargo.toml"), "[package]\nname = 'a'\n[dependencies]\n");
            write(o.join("b/Cargo.toml"), "[package]\nname = 'b'\n");
            write(o.join("pyproject.toml"), "[project]\nname = 'a'\n[tool.hatch.build]\nx = 1\n");
            write(o.join("p/pyproject.toml"), "[project]\nname = 'a'\n");
            write(o.join("composer.json"), "{}");
        },
        |l| {
            write(l.join("Cargo.toml"), "[package]\nname = 'a'\n[dependencies]\nserde = '1'\n");
            write(l.join("b/Cargo.toml"), "[package]\nname = 'b'\nbuild = 'src/other.rs'\n");
            write(l.join("c/Cargo.toml"), "[package]\nname = 'c'\n[lib]\nproc-macro = true\n");
            write(
                l.join("pyproject.toml"),
                "[project]\nname = 'b'\n[tool.hatch.build]\nx = 1\nhooks.x = 1\n",
            );
            write(l.join("p/pyproject.toml"), "[project]\nname = 'b'\n");
            write(l.join("q/pyproject.toml"), "[project\n");
            write(l.join("composer.json"), "{\"scripts\": {\"post-install-cmd\": \"x\"}}");
        },
    );
    let names = ["b/Cargo.toml", "c/Cargo.toml", "composer.json", "pyproject.toml", "q/pyproject.toml"];
    assert_eq!(found(&world), names);
}

#[test]
fn a_directory_that_git_takes_for_a_repository_is_guarded() {
    let world = World::new(
        |_| {},
        |l| {
            for name in
                ["bare/HEAD", "bare/config", "bare/hooks/post-checkout", "bare/refs/x", "bare/objects/x"]
            {
                write(l.join(name), "x");
            }
            write(l.join("app/config"), "x");
            write(l.join("app/hooks/useState"), "x");
        },
    );
    assert_eq!(found(&world), ["bare/HEAD", "bare/config", "bare/hooks/post-checkout"]);
}

#[test]
fn the_page_of_guarded_files_is_what_the_rules_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guarded.md");
    let text = fs::read_to_string(&path).expect("docs/guarded.md");
    let (_, rules) = text.split_once("<!-- rules -->\n").expect("a mark");
    let page = review::guard::page().expect("rules");
    assert!(rules == page, "docs/guarded.md should go on after its mark with:\n{page}");
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
