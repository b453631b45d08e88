//! What looks like a credential is named by whoever makes or lists a snapshot; and what a lane was shown for its work, or kept
//! from, is in none.

use std::path::Path;

use crate::world::{each, everybody, word};

/// Files that look like credentials by name or by place, and some that only nearly do.
const LIKE: [&str; 7] = [
    ".env",
    "app/.env.production",
    "deploy/id_ed25519",
    "deploy/server.key",
    "sub/.aws/credentials",
    ".netrc",
    "x.pem",
];
const UNLIKE: [&str; 6] = [
    ".env.example",
    "deploy/id_ed25519.pub",
    "keys.txt",
    "environment",
    "aws/credentials.md",
    "server.key.md",
];

fn named(told: &serde_json::Value) -> Vec<String> {
    let mut paths: Vec<String> =
        told["credentials"].as_array().unwrap().iter().map(|one| word(&one["path"]).to_owned()).collect();
    paths.sort();
    paths
}

/// True where these bytes are in a file at or below `top`.
fn holds(top: &Path, bytes: &[u8]) -> bool {
    if top.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return std::fs::read_dir(top).unwrap().any(|entry| holds(&entry.unwrap().path(), bytes));
    }
    std::fs::read(top).is_ok_and(|text| text.windows(bytes.len()).any(|part| part == bytes))
}

#[test]
fn a_file_that_looks_like_a_credential_is_named_by_the_snapshot_that_holds_it() {
    each(|world| {
        world.lane("a");
        assert_eq!(named(&world.json(&["snap", "a"])), Vec::<String>::new());
        for path in LIKE.iter().chain(&UNLIKE) {
            let dir = Path::new(path).parent().unwrap().to_str().unwrap();
            world.sh("a", &format!("mkdir -p ./{dir}; echo text > {path}"));
        }
        let mut expected = LIKE.map(str::to_owned);
        expected.sort();
        let taken = world.json(&["snap", "a", "-m", "with them"]);
        assert_eq!(named(&taken), expected);
        let ran = world.ok(&["snap", "a"]);
        assert!(ran.err().contains("deploy/server.key looks like a credential"), "{ran}");
        assert!(world.ok(&["log", "a"]).out().contains("[7 like credentials]"));
        // Where one goes, it is not named any more, and the snapshot before says what it said.
        world.sh("a", "rm .env deploy/server.key");
        assert_eq!(named(&world.json(&["snap", "a"])).len(), LIKE.len() - 2);
        let log = world.json(&["log", "a"]);
        let old = log["snapshots"].as_array().unwrap().iter().find(|one| one["id"] == taken["id"]);
        assert_eq!(named(old.unwrap()), expected);
    });
}

#[test]
fn what_an_agent_was_shown_of_its_login_is_in_no_snapshot() {
    everybody(|world| {
        let login = world.env.home().join(".claude/.credentials.json");
        world.env.write(&login, b"{\"token\": \"GIVEN-FOR-THIS-RUN\"}\n");
        let agent = "#!/bin/sh\ncat ~/.claude/.credentials.json > /dev/null || exit 9\n\
                     echo REFRESHED-IN-THE-LANE > ~/.claude/.credentials.json\necho WRITTEN-INTO-THE-PROJECT > out\n";
        world.env.write(&world.project.join("bin/claude"), agent.as_bytes());
        world.env.chmod(&world.project.join("bin/claude"), 0o755);
        // With the snapshots that come by themselves, in its middle and at its end.
        world.ok(&["run", "-n", "a", "--", "bin/claude"]);
        let taken = world.json(&["snap", "a"]);
        assert_eq!(named(&taken), Vec::<String>::new());
        // The control: what is in a snapshot is found so.
        assert!(holds(&world.store(), b"WRITTEN-INTO-THE-PROJECT"));
        assert!(!holds(&world.store(), b"GIVEN-FOR-THIS-RUN"));
        assert!(!holds(&world.store(), b"REFRESHED-IN-THE-LANE"));
        // Going back takes nothing from the home's own part either.
        world.sh("a", "echo else > out");
        world.restore("a", word(&taken["id"]));
        assert!(!holds(&world.store(), b"REFRESHED-IN-THE-LANE"));
    });
}

#[test]
fn what_is_hidden_from_a_lane_is_in_none_of_its_snapshots() {
    everybody(|world| {
        let home = world.env.home();
        world.env.write(&home.join(".ssh/id_ed25519"), b"A-KEY-OF-THE-HOME\n");
        world.env.write(&home.join("notes"), b"one\n");
        world.env.write(&home.join("closed/plan"), b"HIDDEN-BY-NAME\n");
        let state = world.state();
        // The home itself is the project, so that what is hidden lies in the lane's own tree.
        let at_home = |args: &[&str]| world.env.ok(&home, args);
        let hidden = home.join("closed");
        let script = "echo FOUND-BY-THE-TEST > notes; cat .ssh/id_ed25519 closed/plan 2> /dev/null; mkdir -p .ssh closed || true";
        at_home(&["run", "-n", "a", "--hide", hidden.to_str().unwrap(), "--", "sh", "-c", script]);
        at_home(&["snap", "a"]);
        assert!(holds(&state.join("store"), b"FOUND-BY-THE-TEST"));
        for secret in [&b"A-KEY-OF-THE-HOME"[..], b"HIDDEN-BY-NAME"] {
            assert!(!holds(&state.join("store"), secret), "{}", secret.escape_ascii());
        }
        at_home(&["discard", "a", "--now", "--yes"]);
    });
}
