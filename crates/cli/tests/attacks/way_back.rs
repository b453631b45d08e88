//! The way back to the host: what a lane plants for later, and what it says about itself.

use testkit::Listing;

use crate::world::everybody;

#[test]
fn planted_hook() {
    const PLANT: &str = "
printf '#!/bin/sh\\ntouch \"$HOME/sprung\"\\n' > .git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit
git config core.fsmonitor \"touch $HOME/sprung\"; git config core.pager \"touch $HOME/sprung\"
printf 'touch $HOME/sprung\\n' > .envrc
echo work > work.txt
";
    everybody(|world| {
        let hooks = Listing::of(&world.project.join(".git/hooks"));
        let sprung = world.env.home().join("sprung");
        for level in ["namespaces", "landlock-only"] {
            let name = if level == "namespaces" { "a" } else { "b" };
            world.ok(&["run", "-n", name, "--net", "host", "--level", level, "--", "sh", "-c", PLANT]);
            for look in [&["diff", name] as &[&str], &["show", name], &["ls"]] {
                world.run(look);
            }
            // Kept is what is plain; what runs by itself needs its name.
            let kept = world.run(&["keep", name, "--yes"]);
            assert!(kept.code == Some(1) && (kept.out() + &kept.err()).contains(".envrc"), "{kept}");
            assert!(world.project.join("work.txt").exists() && !world.project.join(".envrc").exists());
            world.env.host(&world.project, "git", &["status"]);
            assert!(!sprung.exists(), "{level} {:?}", world.env.who());
            assert!(!world.project.join(".git/hooks/pre-commit").exists());
        }
        hooks.assert_same(&Listing::of(&world.project.join(".git/hooks")));
    });
}

#[test]
fn forged_checkpoint() {
    const FORGE: &str = r#"
import os, socket
where = '/run/lane/checkpoint'
said = [b'stop', b'end', b'exit', b'restore base', b'discard', b'undo', b'\x00' * 64, b'x' * 4000, b'checkpoint ../../../etc/passwd']
found = [os.path.join(top, name) for top, _, names in os.walk('/run') for name in names if os.path.exists(os.path.join(top, name))]
tried = 0
for path in found:
    for words in said:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            try:
                one = socket.socket(socket.AF_UNIX, kind)
                one.settimeout(1)
                one.connect(path)
                one.send(words)
                tried += 1
            except OSError: pass
print('tried', tried)
"#;
    everybody(|world| {
        world.ok(&["run", "-n", "a", "--", "sh", "-c", "echo one > one"]);
        world.ok(&["snap", "a", "-m", "mine"]);
        let before = world.env.json(&world.project, &["log", "a"]);
        let ran = world.python(&["run", "-n", "a"], FORGE).expect_code(0);
        assert!(ran.out().starts_with("tried "), "{ran}");
        let after = world.env.json(&world.project, &["log", "a"]);
        let ids = |log: &serde_json::Value| -> Vec<String> {
            let text = log.to_string();
            let all: serde_json::Value = serde_json::from_str(&text).unwrap();
            let list =
                all.as_array().cloned().or_else(|| all["snapshots"].as_array().cloned()).unwrap_or_default();
            list.iter().filter_map(|one| one["id"].as_str().map(str::to_owned)).collect()
        };
        let (old, new) = (ids(&before), ids(&after));
        assert!(!old.is_empty(), "{before}");
        assert!(old.iter().all(|id| new.contains(id)), "{:?}: {before} {after}", world.env.who());
        // What was there is there: the inside can only add.
        world.ok(&["diff", "a", "mine", "now"]);
        assert_eq!(world.ok(&["run", "-n", "a", "--", "cat", "one"]).out(), "one\n");
    });
}
