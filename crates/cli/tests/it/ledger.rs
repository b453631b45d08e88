//! `lane ledger`, `lane why`, the ledger's part of `lane fsck`: the record of what lanes do.

use std::time::Duration;

use serde_json::Value;
use testkit::Running;

use crate::world::{World, each, once};

fn records(world: &World, args: &[&str]) -> Vec<Value> {
    let mut all = vec!["ledger", "--json"];
    all.extend_from_slice(args);
    let ran = world.ok(&all);
    ran.out().lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
}

fn kinds(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["kind"].as_str().expect("a kind")).collect()
}

#[test]
fn a_run_is_recorded_from_its_mounts_to_what_it_wrote() {
    each(|world| {
        world.lane("work");
        let script = "echo x >new; mkdir -p ~/.cache/a ~/.ssh; echo x >~/.cache/a/b; echo x >~/.ssh/id; echo x >~/note; exit 3";
        world.run(&["run", "-n", "work", "--", "sh", "-c", script]).expect_code(3);
        let all = records(world, &["work"]);
        let of = |kind: &str| -> Vec<&Value> { all.iter().filter(|record| record["kind"] == kind).collect() };
        assert_eq!(of("operation")[0]["data"]["verb"], "new");
        let run = &of("run")[0]["run"];
        assert_eq!(of("end")[0]["exit"]["code"], 3);
        let project = world.project.to_str().expect("text");
        assert!(of("mount").iter().any(|mount| mount["path"] == project), "{all:?}");
        let mut writes: Vec<(&str, u64)> = of("writes")
            .iter()
            .map(|record| {
                let data = &record["data"];
                (data["class"].as_str().expect("a class"), data["entries"].as_u64().expect("a number"))
            })
            .collect();
        writes.sort_unstable();
        assert_eq!(writes, [("caches", 1), ("credentials", 1), ("home", 1), ("project", 1)]);
        assert!(all.iter().filter(|r| r["kind"] != "operation").all(|record| record["run"] == *run));

        // The filters.
        assert_eq!(kinds(&records(world, &["--kind", "end,run"])), ["run", "end"]);
        let below = records(world, &["--path", "."]);
        assert!(!below.is_empty() && kinds(&below).iter().all(|kind| *kind == "mount"), "{below:?}");
        assert!(records(world, &["--until", "1h"]).is_empty());
        assert_eq!(records(world, &["--since", "1h", "-n", "2"]).len(), 2);
        let replay = world.ok(&["ledger", "--replay", &run.to_string()]).out();
        assert!(replay.lines().next().is_some_and(|line| line.starts_with("+    0.000  run")), "{replay}");
        world.run(&["ledger", "--kind", "nonsense"]).expect_code(1);
        world.run(&["ledger", "--replay", "999"]).expect_code(2);
        // A discarded lane keeps its record.
        world.ok(&["discard", "work", "--now", "--yes"]);
        assert_eq!(kinds(&records(world, &["work", "--kind", "run"])), ["run"]);
    });
}

#[test]
fn a_lane_that_came_and_went_leaves_its_record() {
    each(|world| {
        world.ok(&["run", "--rm", "--", "true"]);
        let all = records(world, &["--kind", "run,mount,end,operation"]);
        assert_eq!(all.first().expect("a record")["kind"], "run");
        assert_eq!(all.last().expect("a record")["data"]["verb"], "discard");
        assert!(kinds(&all).contains(&"mount"));
        assert!(world.ok(&["fsck"]).out().contains("lane.db: whole"));
    });
}

#[test]
fn what_is_not_as_it_was_written_is_named_by_fsck() {
    once(|world| {
        world.ok(&["run", "-n", "work", "--", "true"]);
        let book = world.env.state().join("lane.db");
        let tampered = world.env.host(
            &world.project,
            "sqlite3",
            &[book.to_str().expect("text"), "UPDATE operations SET verb = 'keep' WHERE id = 1"],
        );
        tampered.expect_code(0);
        let said = world.run(&["fsck"]).expect_code(1);
        assert!(said.out().contains("the chain is broken"), "{said}");
        assert!(said.out().contains("operation 1 of lane work says something else"), "{said}");
    });
}

#[test]
fn who_follows_the_record_sees_what_others_do() {
    once(|world| {
        world.ok(&["run", "-n", "work", "--", "true"]);
        let mut follower = Running::start(world.env.lane(&world.project, &["ledger", "--follow", "-n", "1"]));
        follower.wait_for("work", Duration::from_secs(60));
        world.run(&["run", "-n", "other", "--", "sh", "-c", "exit 7"]).expect_code(7);
        follower.wait_for("exit 7", Duration::from_secs(60));
        follower.signal(rustix::process::Signal::INT);
        follower.wait(Duration::from_secs(60));
    });
}

#[test]
fn a_limit_that_was_hit_is_told_at_the_end_by_why_and_in_the_record() {
    each(|world| {
        let ran = world.run(&["run", "-n", "work", "--timeout", "200ms", "--", "sleep", "60"]);
        assert!(ran.err().contains("refused limit time"), "{ran}");
        assert!(ran.err().contains("a larger `--timeout` allows it"), "{ran}");
        let why = world.json(&["why"]);
        assert_eq!((&why["lane"], &why["refusals"][0]["what"]), (&"work".into(), &"time".into()));
        assert_eq!(kinds(&records(world, &["--kind", "limit"])), ["limit"]);
    });
}

#[test]
fn what_looks_like_a_token_is_not_shown() {
    once(|world| {
        let token = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
        world.ok(&["run", "-n", "work", "--", "true", token, "--password", "hunter2"]);
        for args in [&["ledger", "work"][..], &["ledger", "work", "--json"]] {
            let said = world.ok(args).out();
            assert!(!said.contains(token) && !said.contains("hunter2"), "{said}");
        }
        assert!(world.ok(&["ledger", "work", "--raw"]).out().contains(token));
    });
}

#[test]
fn a_supervisor_that_is_killed_leaves_what_had_happened_a_second_before() {
    each(|world| {
        let script = "echo began; sleep 600";
        let mut running =
            Running::start(world.env.lane(&world.project, &["run", "-n", "work", "--", "sh", "-c", script]));
        running.wait_for("began", Duration::from_secs(60));
        let mounts = || kinds(&records(world, &["work", "--kind", "mount"])).len();
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while mounts() == 0 && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        running.signal(rustix::process::Signal::KILL);
        running.wait(Duration::from_secs(60));
        world.ok(&["ls"]);
        assert!(mounts() > 0);
        let ends = records(world, &["work", "--kind", "end"]);
        assert_eq!(ends[0]["exit"]["lost"], true);
        assert!(world.ok(&["fsck"]).out().contains("lane.db: whole"));
    });
}

#[test]
fn a_call_that_is_refused_is_told_with_its_rule_and_the_flag_that_would_allow_it() {
    each(|world| {
        world.lane("work");
        let script = "mount -t tmpfs x /mnt; unshare -r true; chroot / true; echo done";
        let ran = world.ok(&["run", "-n", "work", "--", "sh", "-c", script]);
        assert!(ran.err().contains("refused syscall mount /mnt by mount"), "{ran}");
        let refused = records(world, &["work", "--kind", "refused"]);
        let calls: Vec<&str> = refused.iter().filter_map(|r| r["data"]["call"].as_str()).collect();
        for call in ["mount", "unshare", "chroot"] {
            assert!(calls.contains(&call), "{call} is not in {calls:?}");
        }
        assert_eq!(records(world, &["--path", "/mnt"])[0]["data"]["call"], "mount");
        let why = world.json(&["why", "work"]);
        let mount = why["refusals"].as_array().expect("a list").iter().find(|r| r["what"] == "mount /mnt");
        let mount = mount.expect("the mount");
        assert_eq!((&mount["wall"], &mount["allow"]), (&"syscall".into(), &"--nest".into()));
        // Nothing is said of it where nothing was refused.
        let quiet = world.ok(&["run", "-n", "work", "--", "true"]);
        assert!(!quiet.err().contains("refused"), "{quiet}");
    });
}

#[test]
fn a_call_that_is_refused_a_thousand_times_is_one_record_with_a_number() {
    each(|world| {
        let script = "import ctypes\nlibc = ctypes.CDLL(None)\nfor _ in range(1000): libc.umount(b'/proc')\n";
        world.ok(&["run", "-n", "work", "--", "python3", "-c", script]);
        let refused = records(world, &["--kind", "refused"]);
        let times: u64 = refused.iter().map(|r| r["data"]["times"].as_u64().unwrap_or(1)).sum();
        assert_eq!(times, 1000);
        assert!(refused.len() < 100, "{} records", refused.len());
    });
}

#[test]
fn programs_are_traced_with_their_arguments_and_parents() {
    each(|world| {
        let script = "/bin/echo one 'two three'; (sh -c '/bin/echo deep; :'); /nonexistent/x; :";
        world.ok(&["run", "-n", "work", "--trace-exec", "--", "sh", "-c", script]);
        let execs = records(world, &["--kind", "exec"]);
        let argv = |record: &Value| -> Vec<String> {
            let words = record["data"]["argv"].as_array().expect("words").iter();
            words.map(|word| word.as_str().expect("text").to_owned()).collect()
        };
        let one = execs.iter().find(|r| argv(r) == ["/bin/echo", "one", "two three"]).expect("the first");
        let inner = execs.iter().find(|r| argv(r)[0] == "sh" && argv(r)[2].starts_with("/bin/echo deep"));
        let inner = inner.expect("the shell in it");
        let deep = execs.iter().find(|r| argv(r) == ["/bin/echo", "deep"]).expect("the last");
        assert_eq!(deep["data"]["parent"], inner["data"]["pid"]);
        assert_ne!(one["data"]["parent"], inner["data"]["pid"]);
        assert!(!execs.iter().any(|r| r["path"] == "/nonexistent/x"), "what is not there was not started");
        // Without the wish nothing is traced.
        world.ok(&["run", "-n", "plain", "--", "sh", "-c", "/bin/echo x; :"]);
        assert!(records(world, &["plain", "--kind", "exec"]).is_empty());
    });
}

#[test]
fn files_of_the_project_that_were_opened_are_traced_and_attempts_on_what_is_hidden() {
    each(|world| {
        world.env.mkdir(&world.env.home().join(".ssh"));
        world.env.write(&world.env.home().join(".ssh/id_rsa"), b"key");
        let script = "cat README.md README.md src/lib.rs >/dev/null; cat ~/.ssh/id_rsa; echo x >new; cat /etc/passwd >/dev/null; :";
        let ran = world.ok(&["run", "-n", "work", "--trace-reads", "--", "sh", "-c", script]);
        assert!(ran.err().contains("opened: 3 files of the project in "), "{ran}");
        let open = records(world, &["--kind", "open"]);
        let mut paths: Vec<(String, bool)> = open
            .iter()
            .map(|r| {
                let path = r["path"].as_str().expect("a path");
                let path = path.strip_prefix(world.project.to_str().expect("text")).expect("in the project");
                (path.to_owned(), r["data"]["write"] == true)
            })
            .collect();
        paths.sort();
        let expected = [("/README.md", false), ("/new", true), ("/src/lib.rs", false)];
        assert_eq!(paths, expected.map(|(path, write)| (path.to_owned(), write)));
        let refused = records(world, &["--kind", "refused"]);
        let key = world.env.home().join(".ssh/id_rsa");
        assert!(refused.iter().any(|r| r["path"] == key.to_str().expect("text")), "{refused:?}");
    });
}
