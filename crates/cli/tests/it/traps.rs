//! Nothing executes: a lane full of traps, under a home full of traps, is looked at and kept in every shape, and none
//! springs. Each trap would leave a mark.

use std::path::PathBuf;

use testkit::Running;

use crate::world::{World, each};

/// The programs that a trap names; each leaves a mark of its own.
fn trap(world: &World, name: &str) -> String {
    let (program, mark) = (world.env.home().join(format!("traps/{name}")), marks(world).join(name));
    world.env.write(&program, format!("#!/bin/sh\ntouch {}\ncat\n", mark.display()).as_bytes());
    world.env.chmod(&program, 0o755);
    program.display().to_string()
}

fn marks(world: &World) -> PathBuf {
    world.env.make_dir("marks")
}

/// Settings that start a program, with the trap for each.
fn settings(world: &World, whose: &str) -> Vec<(String, String)> {
    let keys = [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
        "diff.external",
        "diff.z.textconv",
        "diff.z.command",
        "filter.z.clean",
        "filter.z.smudge",
        "filter.z.process",
        "merge.z.driver",
        "credential.helper",
        "gpg.program",
        "pager.log",
        "pager.diff",
        "pager.config",
        "sequence.editor",
        "uploadpack.packObjectsHook",
        "core.alternateRefsCommand",
        "interactive.diffFilter",
        "trailer.z.command",
        "receive.procReceiveRefs",
        "sendemail.sendmailCmd",
        "web.browser",
        "browser.z.cmd",
        "difftool.z.cmd",
    ];
    let mut all: Vec<(String, String)> =
        keys.iter().map(|key| ((*key).to_owned(), trap(world, &format!("{whose}-{key}")))).collect();
    for verb in ["status", "log", "diff", "config", "var", "fast-import", "rev-parse", "update-ref"] {
        all.push((format!("alias.{verb}"), format!("!{}", trap(world, &format!("{whose}-alias-{verb}")))));
    }
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("diff.noprefix", "true"),
        ("color.ui", "always"),
        ("core.autocrlf", "true"),
    ] {
        all.push((key.to_owned(), value.to_owned()));
    }
    all
}

const HOOKS: [&str; 16] = [
    "pre-commit",
    "commit-msg",
    "prepare-commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "pre-rebase",
    "pre-push",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
    "post-rewrite",
    "fsmonitor-watchman",
    "pre-receive",
    "update",
    "post-update",
];

fn plant(world: &World) {
    // In the lane: its repository, its files, what editors, shells and builds run by themselves.
    let mut script = String::from("set -e\nmkdir -p hooks .git/hooks .vscode .github/workflows .idea\n");
    for hook in HOOKS {
        let program = trap(world, &format!("lane-hook-{hook}"));
        script.push_str(&format!("cp {program} .git/hooks/{hook}; cp {program} hooks/{hook}\n"));
    }
    for (key, value) in settings(world, "lane") {
        script.push_str(&format!("git config --file .git/config '{key}' '{value}'\n"));
    }
    let run = trap(world, "lane-file");
    script.push_str(&format!(
        "git config --file .git/config core.hooksPath hooks; git config --file .git/config include.path ../.gitconfig
git config --file .gitconfig core.fsmonitor {run}; git config --file .git/config core.worktree ..
echo '* filter=z diff=z merge=z -text' > .gitattributes; mkdir -p .git/info; cp .gitattributes .git/info/attributes
echo {run} > .envrc; echo '{{\"scripts\":{{\"prepare\":\"{run}\"}}}}' > package.json; echo 'on: push' > .github/workflows/ci.yml
echo '{{\"tasks\":[{{\"command\":\"{run}\",\"runOptions\":{{\"runOn\":\"folderOpen\"}}}}]}}' > .vscode/tasks.json
cp {run} git; cp {run} diff; cp {run} less; printf 'all:\\n\\t{run}\\n' > Makefile
printf '\\033]0;title\\007\\033[2J<script>alert(1)</script>\\n' > escapes; echo x > \"$(printf '\\033[31m<b>x')\"
echo more >> README.md; printf 'caf\\303\\251\\n' >> src/lib.rs\n"
    ));
    world.ok(&["run", "-q", "-n", "a", "--", "sh", "-c", &script]);
    // Commits of the lane's own, made before its configuration was full of traps would have been simpler; so they are
    // made by a git that is told to look at none of it.
    world.ok(&[
        "run",
        "-q",
        "-n",
        "c",
        "--",
        "sh",
        "-ec",
        "printf 'two\\n' >> README.md; git add README.md; git commit -qm \"$(printf '\\033[31msubject<b>')\"",
    ]);
    let mut config = String::new();
    for (key, value) in settings(world, "committed") {
        config.push_str(&format!("git config --file .git/config '{key}' '{value}'\n"));
    }
    let hook = trap(world, "committed-hook");
    config.push_str(&format!(
        "mkdir -p .git/hooks; for h in {}; do cp {hook} .git/hooks/$h; done",
        HOOKS.join(" ")
    ));
    world.ok(&["run", "-q", "-n", "c", "--", "sh", "-ec", &config]);
}

#[test]
fn b44_no_trap_springs_in_any_shape_of_looking_and_keeping() {
    each(|world| {
        world.env.host(&world.project, "git", &["branch", "other"]);
        world.lane("a");
        world.lane("c");
        plant(world);
        // B36: the user's own settings are as hostile; of them only who the user is counts.
        for (key, value) in settings(world, "home") {
            world.env.host(
                world.env.root(),
                "git",
                &["config", "--file", world.env.home().join(".gitconfig").to_str().unwrap(), &key, &value],
            );
        }
        let hooks = world.env.make_dir("home-hooks");
        for hook in HOOKS {
            std::fs::copy(trap(world, &format!("home-hook-{hook}")), hooks.join(hook)).unwrap();
            world.env.who().own(&hooks.join(hook));
        }
        let hooks = hooks.display().to_string();
        world.env.host(world.env.root(), "git", &["config", "--global", "core.hooksPath", &hooks]);
        for entry in std::fs::read_dir(marks(world)).unwrap().flatten() {
            std::fs::remove_file(entry.path()).unwrap();
        }
        let patch = world.env.root().join("patch");
        let out = world.env.root().join("out");
        let (patch, out) = (patch.to_str().unwrap(), out.to_str().unwrap());
        for args in [
            &["ls"] as &[&str],
            &["show", "a"],
            &["log", "a"],
            &["diff", "a"],
            &["diff", "a", "--stat"],
            &["diff", "a", "--patch"],
            &["diff", "a", "--json"],
            &["diff", "a", "--drift"],
            &["keep", "a", "--dry-run"],
            &["keep", "a", "--as", "patch"],
            &["keep", "a", "--as", "patch", "-o", patch],
            &["keep", "a", "--as", "commit", "--dry-run"],
            &["keep", "a", "--as", "commit", "--to", "other", "--yes"],
            &["keep", "a", "README.md", ".gitattributes", "--as", "branch", "picked", "--yes"],
            &["keep", "c", "--as", "branch", "agent", "--dry-run"],
            &["keep", "c", "--as", "branch", "agent", "--yes"],
            &["export", "a", out],
            &["keep", "a", "--as", "commit", "--yes"],
            &["keep", "a", "--yes"],
        ] {
            let mut command = world.env.lane(&world.project, args);
            for name in [
                "GIT_PAGER",
                "PAGER",
                "GIT_EXTERNAL_DIFF",
                "GIT_EDITOR",
                "EDITOR",
                "GIT_ASKPASS",
                "GIT_SSH_COMMAND",
                "GIT_PROXY_COMMAND",
            ] {
                command.env(name, trap(world, &format!("env-{name}")));
            }
            command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "core.fsmonitor");
            command.env("GIT_CONFIG_VALUE_0", trap(world, "env-config"));
            let ran = Running::start(command).wait(std::time::Duration::from_secs(120));
            assert!(matches!(ran.code, Some(0 | 1)), "{args:?}: {ran}");
            let said =
                if args.contains(&"patch") || args.contains(&"--patch") { &ran.stderr } else { &ran.stdout };
            assert!(!said.contains(&0x1b) && !ran.stderr.contains(&0x1b), "{args:?}: {ran}");
            let sprung: Vec<_> =
                std::fs::read_dir(marks(world)).unwrap().flatten().map(|e| e.file_name()).collect();
            assert!(sprung.is_empty(), "{args:?}: {sprung:?}\n{ran}");
        }
        // It was no empty show: everything arrived where it should.
        let host = |args: &[&str]| {
            let quiet =
                ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat"];
            let mut command = world.env.command(testkit::require::program("git"));
            command.args(quiet).args(args).current_dir(&world.project).env("GIT_CONFIG_GLOBAL", "/dev/null");
            Running::start(command).wait(std::time::Duration::from_secs(60)).expect_code(0).out()
        };
        assert_eq!(host(&["rev-list", "--count", "refs/heads/other"]), "2\n");
        assert_eq!(host(&["rev-list", "--count", "refs/heads/main"]), "2\n");
        assert_eq!(host(&["rev-list", "--count", "refs/heads/agent"]), "2\n");
        assert_eq!(host(&["show", "--format=", "--name-only", "picked"]), ".gitattributes\nREADME.md\n");
        assert!(world.content("README.md").unwrap().ends_with(b"more\n"));
        for guarded in [
            ".envrc",
            "package.json",
            ".vscode/tasks.json",
            ".github/workflows/ci.yml",
            "git",
            "hooks/pre-commit",
        ] {
            assert!(!world.project.join(guarded).exists(), "{guarded}");
        }
    });
}
