//! Presets: an agent finds its own login, no other program does, it is said, and nothing of it is written.

use testkit::{Listing, TestEnv, Who};

use crate::ground::{Ground, each};

/// Every preset with a program name and what it shows.
const SHOWN: [(&str, &str); 8] = [
    ("claude", ".claude/.credentials.json"),
    ("codex", ".codex/auth.json"),
    ("gemini", ".gemini/oauth_creds.json"),
    ("opencode", ".local/share/opencode/auth.json"),
    ("aider", ".aider.conf.yml"),
    ("cursor-agent", ".config/cursor/auth.json"),
    ("copilot", ".copilot/config.json"),
    ("copilot", ".config/github-copilot/apps.json"),
];

/// A script that says the content of the file that it is given, changes it, and says it again.
const AGENT: &str = "#!/bin/sh\ncat \"$1\"\necho refreshed > \"$1\"\ncat \"$1\"\n";

fn logged_in(env: &TestEnv) {
    for (_, path) in SHOWN {
        env.write(&env.home().join(path), b"openai-api-key: token\n");
    }
}

/// A program of the project with the name of an agent.
fn agent(ground: &Ground, name: &str) {
    ground.write(format!("bin/{name}"), AGENT);
    ground.env.chmod(&ground.project.join("bin").join(name), 0o755);
}

#[test]
fn a_login_is_shown_to_its_own_agent_alone_is_announced_and_its_writes_stay_in_the_lane() {
    each(|ground| {
        logged_in(&ground.env);
        for (name, path) in SHOWN {
            agent(ground, name);
            let home = Listing::of(&ground.env.home());
            let file = ground.env.home().join(path).display().to_string();
            let lane = format!("of-{name}-{}", path.len());
            let program = format!("bin/{name}");
            let ran = ground.inside(&lane, &[&program, &file]);
            assert_eq!(ran.out(), "openai-api-key: token\nrefreshed\n", "{name}: {ran}");
            let top = path.trim_end_matches("/apps.json");
            assert!(ran.err().contains(&format!("~/{top}")) && ran.err().contains(name), "{name}: {ran}");
            // The next run of the agent in the lane goes on with what it wrote.
            assert_eq!(ground.inside(&lane, &[&program, &file]).out(), "refreshed\nrefreshed\n");
            // Another program in that very lane does not see it, nor what the agent wrote into it.
            let ran =
                ground.sh(&lane, &format!("test ! -e {file}; ls -A ~/.claude ~/.codex 2>/dev/null || true"));
            assert!(!ran.out().contains("credentials") && !ran.out().contains("auth"), "{ran}");
            assert!(!ran.err().contains(top), "{ran}");
            home.assert_same(&Listing::of(&ground.env.home()));
            ground.gone(&lane);
        }
    });
}

#[test]
fn an_agent_does_not_see_another_agent_s_login_nor_anybody_else_s_credentials() {
    each(|ground| {
        logged_in(&ground.env);
        ground.env.write(&ground.env.home().join(".ssh/id_ed25519"), b"key\n");
        ground
            .write("bin/claude", "#!/bin/sh\nfor path; do test -e \"$path\" && echo \"$path\"; done; true\n");
        ground.env.chmod(&ground.project.join("bin/claude"), 0o755);
        let home = ground.env.home();
        let paths: Vec<String> = SHOWN
            .iter()
            .map(|(_, path)| *path)
            .chain([".ssh/id_ed25519"])
            .map(|path| home.join(path).display().to_string())
            .collect();
        let mut command = vec!["bin/claude"];
        command.extend(paths.iter().map(String::as_str));
        let ran = ground.inside("a", &command);
        assert_eq!(ran.out(), format!("{}\n", paths[0]), "{ran}");
    });
}

#[test]
fn a_preset_that_is_named_counts_for_any_program_and_one_that_is_not_known_stops_the_run() {
    each(|ground| {
        logged_in(&ground.env);
        let script = "cat ~/.codex/auth.json; test ! -e ~/.claude/.credentials.json";
        let ran = ground.run(&["run", "--rm", "--preset", "codex", "--", "sh", "-ec", script]).expect_code(0);
        assert_eq!(ran.out(), "openai-api-key: token\n");
        assert!(ran.err().contains("~/.codex/auth.json"), "{ran}");
        let ran = ground.run(&["run", "--preset", "nobody", "--", "true"]).expect_code(125);
        assert!(ran.err().contains("nobody") && ran.err().contains("codex"), "{ran}");
    });
}

#[test]
fn keys_in_the_environment_reach_the_agent_that_they_are_for_and_no_other() {
    for who in Who::all() {
        let mut env = crate::ground::in_the_open(who);
        env.set("ANTHROPIC_API_KEY", "one");
        env.set("OPENAI_API_KEY", "two");
        let project = env.make_git("app");
        let ground = Ground { env, project };
        let print = "#!/bin/sh\necho \"$ANTHROPIC_API_KEY,$OPENAI_API_KEY\"\n";
        for (name, expected) in [("claude", "one,\n"), ("codex", ",two\n"), ("other", ",\n")] {
            ground.write(format!("bin/{name}"), print);
            ground.env.chmod(&ground.project.join("bin").join(name), 0o755);
            assert_eq!(ground.inside("a", &[&format!("bin/{name}")]).out(), expected);
        }
    }
}
