//! The command-line programs of well-known agents start behind the walls, and get as far as they do outside.

use testkit::{Listing, Running};

use crate::ground::{Ground, SOON, each};

/// Where `scripts/corpora agents` put their programs, and that path as a lane is told of it.
fn programs(ground: &Ground) -> String {
    testkit::corpora::corpus("agents", ground.who()).join("node_modules/.bin").display().to_string()
}

fn each_agent(test: impl Fn(&Ground, &str, &str)) {
    testkit::require::program("node");
    each(|ground| {
        let at = programs(ground);
        for agent in ["claude", "codex", "gemini"] {
            test(ground, agent, &format!("{at}/{agent}"));
        }
    });
}

#[test]
fn the_agents_say_their_version_and_their_help_in_a_lane() {
    each_agent(|ground, agent, program| {
        let project = Listing::of(&ground.project);
        let home = Listing::of(&ground.env.home());
        for (option, expected) in [("--version", "."), ("--help", "Usage")] {
            let ran = ground.run(&["run", "--rm", "--net", "none", "--", program, option]).expect_code(0);
            assert!(ran.out().contains(expected), "{agent}: {ran}");
            walls_are_not_named(agent, &ran.out(), &ran.err());
        }
        project.assert_same(&Listing::of(&ground.project));
        home.assert_same(&Listing::of(&ground.env.home()));
    });
}

#[test]
fn a_first_prompt_fails_only_for_want_of_a_login_or_of_a_network() {
    each_agent(|ground, agent, program| {
        let home = Listing::of(&ground.env.home());
        let lane = ["run", "-n", agent, "--net", "none", "--", program];
        let (prompt, message): (&[&str], &str) = match agent {
            "claude" => (&["-p", "hello"], "Not logged in"),
            "gemini" => (&["-p", "hello"], "Please set an Auth method"),
            _ => (&["exec", "--skip-git-repo-check", "hello"], "failed to connect"),
        };
        let args: Vec<&str> = lane.iter().chain(prompt).copied().collect();
        let (said, end) = if agent == "codex" {
            // It asks again and again until there is a network. While it does a Ctrl-C ends it; at its first failure it may miss one.
            let mut running: Running = ground.start(&args);
            running.wait_for("Reconnecting... 3/5", SOON);
            running.signal(rustix::process::Signal::INT);
            let ran = running.wait(SOON);
            (format!("{}{}", ran.out(), ran.err()), ran.code)
        } else {
            let ran = ground.run(&args);
            (format!("{}{}", ran.out(), ran.err()), ran.code)
        };
        assert!(said.contains(message), "{agent}: {said}");
        assert!(end.is_some_and(|code| code != 0 && code != 125), "{agent}: {end:?} {said}");
        walls_are_not_named(agent, &said, "");
        home.assert_same(&Listing::of(&ground.env.home()));
        // What they wrote down about the run is in the lane, for the next run in it.
        assert_eq!(ground.changed(agent), "");
    });
}

#[test]
fn what_an_agent_notes_in_its_home_is_there_for_its_next_run_in_the_lane() {
    each(|ground| {
        let program = format!("{}/claude", programs(ground));
        ground.run(&["run", "-n", "a", "--net", "none", "--", &program, "-p", "hello"]);
        ground.sh("a", "test -s ~/.claude.json");
        assert!(!ground.env.home().join(".claude.json").exists());
        ground.sh("b", "test ! -e ~/.claude.json");
    });
}

/// The programs' own words for a wall that they ran into.
fn walls_are_not_named(agent: &str, out: &str, err: &str) {
    for word in
        ["EPERM", "EACCES", "ENOSYS", "EROFS", "Operation not permitted", "not implemented", "Read-only"]
    {
        assert!(!out.contains(word) && !err.contains(word), "{agent} met a wall ({word}): {out}\n{err}");
    }
}
