//! `--out`: what a command hands out, to which it can only add, and which replaces nothing on the host.

use crate::world::{each, everybody};

#[test]
fn what_a_command_puts_out_stands_on_the_host_when_it_has_ended() {
    each(|world| {
        let out = world.env.root().join("results");
        let script = "echo one >$LANE_OUT/a; mkdir -p /out/deep/er; echo two >/out/deep/er/b; chmod +x /out/a; ln -s /etc/passwd /out/link; mkfifo /out/pipe; echo x >new";
        let ran =
            world.run(&["run", "-n", "work", "--out", out.to_str().expect("text"), "--", "sh", "-c", script]);
        assert!(ran.err().contains("handed out: 2 files, 8 B, to"), "{ran}");
        assert_eq!(std::fs::read(out.join("a")).expect("there"), b"one\n");
        assert_eq!(std::fs::read(out.join("deep/er/b")).expect("there"), b"two\n");
        for other in ["link", "pipe"] {
            assert!(out.join(other).symlink_metadata().is_err(), "{other}");
        }
        // They are no changes of the project.
        assert_eq!(world.changes("work"), ["add new"]);
        let records = world.ok(&["ledger", "work", "--json", "--kind", "artifact"]).out();
        assert_eq!(records.lines().count(), 2, "{records}");
        assert!(records.contains("\"bytes\":4") && records.contains("blake3"), "{records}");
        // Once more: nothing of it is replaced, and that is told.
        let again = world.run(&[
            "run",
            "-n",
            "work",
            "--out",
            out.to_str().expect("text"),
            "--",
            "sh",
            "-c",
            "echo other >/out/a; echo c >/out/c",
        ]);
        assert!(again.err().contains("not handed out: a"), "{again}");
        assert_eq!(std::fs::read(out.join("a")).expect("there"), b"one\n");
        assert_eq!(std::fs::read(out.join("c")).expect("there"), b"c\n");
        // A lane that goes with its run hands out all the same.
        world.ok(&["run", "--rm", "--out", out.to_str().expect("text"), "--", "sh", "-c", "echo d >/out/d"]);
        assert_eq!(std::fs::read(out.join("d")).expect("there"), b"d\n");
    });
}

#[test]
fn inside_it_can_only_be_added_to() {
    everybody(|world| {
        let out = world.env.root().join("results");
        let script = "echo one >/out/a; rm /out/a; mv /out/a /out/b; true >/out/a; truncate -s 0 /out/a; ln /out/a /out/c; mkdir /out/d; rmdir /out/d; echo two >>/out/a; cat /out/a; ls /out";
        let ran = world.run(&["run", "--rm", "--out", out.to_str().expect("text"), "--", "sh", "-c", script]);
        assert_eq!(ran.out(), "one\ntwo\na\nc\nd\n", "{ran}");
    });
}

#[test]
fn a_place_in_the_project_is_refused_and_a_value_of_a_secret_is_not_handed_out() {
    everybody(|world| {
        let inside = world.project.join("results");
        world.run(&["run", "--rm", "--out", inside.to_str().expect("text"), "--", "true"]).expect_code(125);
        assert!(!inside.exists());
        let out = world.env.root().join("results");
        let value = "s3cr3t/Value+0123456789";
        world.env.write(&world.env.root().join("key"), value.as_bytes());
        let wish = format!("KEY=file:{}", world.env.root().join("key").display());
        let ran = world.run(&[
            "run",
            "--rm",
            "--secret",
            &wish,
            "--out",
            out.to_str().expect("text"),
            "--",
            "sh",
            "-c",
            "cat $KEY_FILE >/out/leak; echo x >/out/fine",
        ]);
        assert!(ran.err().contains("not handed out: leak (it holds the value of the secret KEY)"), "{ran}");
        assert!(out.join("fine").exists() && !out.join("leak").exists());
    });
}
