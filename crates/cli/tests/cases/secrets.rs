//! Secrets: there for one command, gone after it, and in nothing that leaves a lane.

use std::time::Duration;

use testkit::Running;

use crate::world::{World, each, everybody};

const VALUE: &str = "s3cr3t/Value+0123456789";

fn with_secret(world: &World, lane: &str, script: &str) -> testkit::Ran {
    world.env.write(&world.env.root().join("key"), format!("{VALUE}\n").as_bytes());
    let wish = format!("KEY=file:{}", world.env.root().join("key").display());
    world.run(&["run", "-n", lane, "--secret", &wish, "--", "sh", "-c", script])
}

/// No file below a directory holds the value.
fn nowhere_in(dir: &std::path::Path) {
    for entry in std::fs::read_dir(dir).expect("listed").map(|entry| entry.expect("an entry")) {
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            nowhere_in(&entry.path());
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).expect("read");
            let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
            assert!(!found, "{} holds the value", entry.path().display());
        }
    }
}

#[test]
fn a_secret_is_a_file_that_can_only_be_read_and_whose_place_is_in_a_variable() {
    each(|world| {
        let script = "tr -d '\\n' <$KEY_FILE | md5sum; stat -c '%a %F' $KEY_FILE; stat -f -c %T $KEY_FILE; env | grep -c 's3cr3t'; \
                      echo x >$KEY_FILE; rm -f $KEY_FILE; echo y >/run/secrets/other; cat /run/secrets/KEY | wc -l";
        let ran = with_secret(world, "work", script).expect_code(0);
        assert_eq!(
            ran.out(),
            "b2be41114e70260e2bedbf115cd19784  -\n400 regular file\ntmpfs\n0\n1\n",
            "{ran}"
        );
        // The next command has none.
        let next =
            world.ok(&["exec", "work", "--", "sh", "-c", "ls /run/secrets 2>&1; echo ${KEY_FILE-none}"]);
        assert!(next.out().ends_with("none\n") && !next.out().contains("KEY\n"), "{next}");
        nowhere_in(&world.env.state());
        let records = world.ok(&["ledger", "work", "--json", "--kind", "secret"]).out();
        assert!(
            records.contains("mounted") && records.contains("revoked") && !records.contains(VALUE),
            "{records}"
        );
        assert_eq!(world.changes("work"), Vec::<String>::new());
    });
}

#[test]
fn a_secret_comes_from_a_variable_or_a_command_or_nothing_runs() {
    everybody(|world| {
        let ran = world.ok(&[
            "run",
            "--rm",
            "--secret",
            "A=env:HOME",
            "--secret",
            "B=cmd:printf 'x y\\n'; echo",
            "--",
            "sh",
            "-c",
            "cat $A_FILE; echo; cat $B_FILE",
        ]);
        assert_eq!(ran.out(), format!("{}\nx y\n", world.env.home().display()), "{ran}");
        for bad in ["A=file:/nonexistent", "A=env:NONE_SUCH", "A=cmd:exit 3", "A=cmd:true"] {
            let ran =
                world.run(&["run", "-n", "none", "--secret", bad, "--", "touch", "never"]).expect_code(125);
            assert!(ran.err().contains("secret A"), "{ran}");
        }
        world.run(&["run", "--secret", "A/B=env:HOME", "--", "true"]).expect_code(2);
    });
}

#[test]
fn who_still_has_a_secret_open_when_the_command_ends_finds_it_empty() {
    each(|world| {
        world.env.write(&world.env.root().join("key"), VALUE.as_bytes());
        let wish = format!("KEY=file:{}", world.env.root().join("key").display());
        // The command ends; what it left behind reads on.
        let script = "(exec 3<$KEY_FILE; touch open; while [ -s /run/secrets/KEY ]; do sleep 0.05; done; wc -c <&3 >left; ls /run/secrets >>left; echo done >>left) & \
                      while [ ! -e open ]; do sleep 0.05; done";
        world.ok(&["run", "-n", "work", "-d", "--secret", &wish, "--", "sh", "-c", script]);
        let wait = "while ! grep -q done left 2>/dev/null; do sleep 0.05; done; cat left; ls /run/secrets";
        let looked =
            Running::start(world.env.lane(&world.project, &["exec", "work", "--", "sh", "-c", wait]));
        let ran = looked.wait(Duration::from_secs(60)).expect_code(0);
        assert_eq!(ran.out(), "0\ndone\n", "{ran}");
        world.ok(&["stop", "work"]);
    });
}

#[test]
fn what_holds_a_value_is_not_recorded_kept_or_exported_and_is_named() {
    each(|world| {
        let forms = [
            ("plain", "cat $KEY_FILE"),
            ("base64", "printf 'u:' | cat - $KEY_FILE | base64"),
            ("hex", "tr -d '\\n' <$KEY_FILE | od -An -tx1 | tr -d ' \\n'"),
            (
                "url",
                "python3 -c 'import urllib.parse,sys; print(urllib.parse.quote(sys.stdin.read().strip(), safe=\"\"))' <$KEY_FILE",
            ),
            (
                "json",
                "python3 -c 'import json,sys; print(json.dumps({\"k\": sys.stdin.read().strip()}))' <$KEY_FILE",
            ),
        ];
        for (lane, form) in forms {
            with_secret(world, lane, &format!("mkdir -p deep; {form} >deep/{lane}; echo fine >fine-{lane}"))
                .expect_code(0);
            let leak = format!("deep/{lane}");
            let export = world.env.root().join(format!("out-{lane}"));
            for verb in [
                &["snap", lane][..],
                &["keep", lane, "--yes"],
                &["keep", lane, &leak, "--yes"],
                &["keep", lane, "--as", "patch", "-o", "-"],
                &["export", lane, export.to_str().expect("text")],
            ] {
                let said = world.run(verb).expect_code(1);
                assert!(said.err().contains(&leak) && said.err().contains("KEY"), "{said}");
                assert!(!said.err().contains(VALUE) && !said.out().contains(VALUE), "{said}");
            }
            assert!(world.content(&leak).is_none() && !export.exists());
            // What does not hold it is kept when it is named, and everything once the value is out.
            world.ok(&["keep", lane, &format!("fine-{lane}"), "--yes"]);
            world.ok(&["exec", lane, "--", "rm", &leak]);
            world.ok(&["snap", lane]);
            world.ok(&["discard", lane, "--now", "--yes"]);
        }
        nowhere_in(&world.env.state());
    });
}

#[test]
fn names_and_links_and_forks_are_looked_at_too() {
    everybody(|world| {
        let script = "ln -s \"$(cat $KEY_FILE)\" link";
        with_secret(world, "work", script).expect_code(0);
        let said = world.run(&["keep", "work", "--yes"]).expect_code(1);
        assert!(said.err().contains("link"), "{said}");
        world.ok(&["exec", "work", "--", "sh", "-c", "rm link"]);
        world.ok(&["fork", "work", "child"]);
        world.ok(&["exec", "child", "--", "sh", "-c", &format!("echo {VALUE} >new")]);
        let said = world.run(&["keep", "child", "--yes"]).expect_code(1);
        assert!(said.err().contains("new"), "{said}");
    });
}

#[test]
fn a_value_on_a_traced_command_line_is_not_in_the_record() {
    each(|world| {
        world.env.write(&world.env.root().join("key"), VALUE.as_bytes());
        let wish = format!("KEY=file:{}", world.env.root().join("key").display());
        let script = "/bin/echo \"$(cat $KEY_FILE)\" >/dev/null; :";
        world.ok(&["run", "-n", "work", "--trace-exec", "--secret", &wish, "--", "sh", "-c", script]);
        let records = world.ok(&["ledger", "work", "--json", "--raw"]).out();
        assert!(records.contains("[secret KEY]") && !records.contains(VALUE), "{records}");
        nowhere_in(&world.env.state());
    });
}
