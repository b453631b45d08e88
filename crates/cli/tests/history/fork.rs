//! Forks: the new lane has everything that the other one has, and from there on each goes its own way, whatever becomes of the
//! other; and every verb gives the same answers for a lane that stands on the layers of others as for any other one.

use serde_json::Value;
use testkit::{FsKind, LoopFs, TestEnv, Who};

use crate::exact::STEPS;
use crate::view::View;
use crate::world::{Made, SOON, World, each, fresh, word};

/// Forks; the answer.
fn fork(world: &World, parent: &str, child: &str) -> Value {
    world.json(&["fork", parent, child])
}

/// Lines of `diff --name-only`.
fn changed(world: &World, lane: &str) -> String {
    world.ok(&["diff", lane, "--stat"]).out()
}

/// Sealed layers in the state directory.
fn layers(world: &World) -> Vec<String> {
    let dir = std::fs::read_dir(world.state().join("layers")).into_iter().flatten().flatten();
    let mut names: Vec<String> = dir.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "lock");
    names.sort();
    names
}

#[test]
fn a_fork_has_what_the_other_had_after_every_kind_of_work() {
    each(|world| {
        world.lane("a");
        let mut last = "a".to_owned();
        for (n, step) in STEPS.iter().enumerate() {
            world.python(&last, step);
            let seen = View::of(world, &last);
            let told = changed(world, &last);
            let next = format!("n{n}");
            fork(world, &last, &next);
            for lane in [&last, &next] {
                View::of(world, lane).assert_same(&seen, &format!("{lane} after step {n}"));
                assert_eq!(changed(world, lane), told, "{lane} after step {n}");
            }
            last = next;
        }
    });
}

#[test]
fn what_is_written_on_one_side_is_not_seen_on_the_other() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo 1 > f; mkdir d; echo 1 > d/f; rm README.md; echo more >> src/lib.rs");
        let answer = fork(world, "a", "b");
        assert_eq!(answer["roots"][0]["shared"], world.made == Made::Overlay, "{answer}");
        let before = View::of(world, "b");
        world.sh("a", "echo 2 > f; rm -r d; echo back > README.md; echo a > only-a");
        View::of(world, "b").assert_same(&before, "written in the parent");
        let parent = View::of(world, "a");
        assert_eq!(answer["lane"]["forked_from"], "a");
        assert!(world.ok(&["show", "b"]).out().contains("from a"));
        world.sh("b", "test $(cat f) = 1; test ! -e only-a; rm f; mkdir f; echo 3 > d/g; mv src source; echo b > only-b");
        View::of(world, "a").assert_same(&parent, "written in the child");
        let child = View::of(world, "b");
        // Discarding either harms neither.
        world.gone("a");
        View::of(world, "b").assert_same(&child, "without the parent");
        fork(world, "b", "c");
        world.gone("b");
        View::of(world, "c").assert_same(&child, "without those before");
        world.gone("c");
        assert_eq!(layers(world), Vec::<String>::new());
    });
}

#[test]
fn history_of_a_fork_goes_back_to_where_it_was_forked_and_to_the_base() {
    each(|world| {
        world.lane("a");
        let base = View::of(world, "a");
        world
            .sh("a", "echo 1 > f; mkdir d; echo 1 > d/f; rm README.md; rm -r src; mkdir src; echo x > src/x");
        let kept = world.snap("a");
        world.sh("a", "echo 2 >> f");
        let forked = View::of(world, "a");
        fork(world, "a", "b");
        if world.made == Made::Copy {
            // A copy begins with the tree that it is.
            world.snap("b");
        }
        world.sh("b", "echo 3 >> f; rm d/f; mkdir src/deep");
        let third = View::of(world, "b");
        let id = world.snap("b");
        // The parent's history is as it was, over the layers that it shares now.
        assert_eq!(world.ids("a").len(), 2);
        world.sh("a", "echo 4 >> f");
        let fourth = world.snap("a");
        assert_eq!(word(&world.json(&["log", "a"])["position"]), fourth);
        world.ok(&["undo", "a", "--yes"]);
        world.restore("a", &kept);
        world.restore("a", &fourth);
        assert_eq!(world.sh("a", "cat f").out(), "1\n2\n4\n");
        assert_eq!(world.sh("b", "cat f").out(), "1\n2\n3\n");

        world.ok(&["undo", "b", "--yes"]);
        View::of(world, "b").assert_same(&forked, "undone to the fork");
        let log = world.json(&["log", "b", "--all"]);
        if world.made == Made::Overlay {
            world.ok(&["undo", "b", "--yes"]);
            View::of(world, "b").assert_same(&base, "undone to the base");
            world.ok(&["redo", "b"]);
            View::of(world, "b").assert_same(&forked, "and forth again");
            let kinds: Vec<&str> =
                log["snapshots"].as_array().unwrap().iter().map(|one| word(&one["kind"])).collect();
            assert_eq!(kinds, ["asked", "fork", "start"], "{log:#}");
        }
        world.ok(&["redo", "b"]);
        View::of(world, "b").assert_same(&third, "and forth to the end");
        world.restore("b", &world.ids("b").pop().unwrap());
        world.restore("b", &id);
        View::of(world, "b").assert_same(&third, "restored");
        world.assert_whole("after all of it");
    });
}

#[test]
fn diff_keep_and_export_of_a_fork_are_those_of_a_lane_that_did_all_of_it() {
    each(|world| {
        let first = "echo 1 > f; mkdir -p d/e; echo 1 > d/e/f; rm README.md; mv src source; chmod 700 d";
        let second = "echo 2 >> f; rm -r d/e; mkdir d/e; echo 2 > d/e/g; echo new > README.md; mv source/lib.rs lib.rs; ln -s f l";
        world.lane("plain");
        world.sh("plain", first);
        world.sh("plain", second);
        world.lane("a");
        world.sh("a", first);
        fork(world, "a", "b");
        world.sh("b", second);
        let of = |lane: &str| {
            let mut told = world.json(&["diff", lane]);
            for name in ["lane", "lane_id", "digest"] {
                told.as_object_mut().unwrap().remove(name);
            }
            told
        };
        assert_eq!(of("b")["files"], of("plain")["files"]);
        let sums = |lane: &str| {
            let ls = world.json(&["ls"]);
            let of = |one: &&Value| one["name"] == lane;
            ls.as_array().unwrap().iter().find(of).unwrap()["changes"].clone()
        };
        assert_eq!(sums("b"), sums("plain"));
        // Against a snapshot too.
        let seen = View::of(world, "b");
        let id = world.snap("b");
        world.sh("b", "echo 3 > f; rm d/e/g");
        let told = world.ok(&["diff", "b", &id, "now", "--name-only"]).out();
        assert_eq!(told.lines().collect::<Vec<_>>(), ["d/e/g", "f"], "{told}");
        let told = world.ok(&["diff", "b", "base", &id, "--name-only"]).out();
        assert!(told.contains("README.md") && told.contains("d/e/g") && told.contains("lib.rs"), "{told}");
        world.restore("b", &id);
        View::of(world, "b").assert_same(&seen, "put back");

        let out = world.env.tmp().join("out");
        world.ok(&["export", "b", out.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(out.join("d/e/g")).unwrap(), "2\n");
        assert!(out.join("lib.rs").is_file() && !out.join("src").exists());

        world.ok(&["keep", "b", "--yes"]);
        assert_eq!(std::fs::read_to_string(world.project.join("f")).unwrap(), "1\n2\n");
        assert!(world.project.join("lib.rs").is_file() && !world.project.join("src").exists());
        assert_eq!(sums("b")["total"], 0);
        // The parent still has what it had.
        assert_eq!(world.sh("a", "cat f; test ! -e README.md; cat d/e/f; test -d source").out(), "1\n1\n");
    });
}

#[test]
fn twenty_forks_in_a_row_stand_on_a_bounded_stack() {
    each(|world| {
        world.lane("n0");
        for n in 1..=20 {
            let last = format!("n{}", n - 1);
            world.sh(
                &last,
                &format!(
                    "echo {n} >> log; mkdir d{n}; echo {n} > d{n}/f; rm -rf d{}; echo {n} > same",
                    n - 2
                ),
            );
            let answer = fork(world, &last, &format!("n{n}"));
            let squashed = answer["roots"][0]["squashed"].as_u64().unwrap();
            assert_eq!(squashed > 0, n == 17 && world.made == Made::Overlay, "{n}: {answer}");
            if n > 1 && n != 11 {
                world.gone(&last);
            }
        }
        let seen = "seq 20 | cmp - log; test $(cat same) = 20; test -e d19/f; test -e d20/f; test ! -e d18";
        world.sh("n20", seen);
        world.sh("n10", "test ! -e same || test $(cat same) = 11");

        assert!(layers(world).len() <= 16 + 5, "{:?}", layers(world));
        let id = world.snap("n20");
        world.sh("n20", "rm -r d19; echo x > d20/f");
        world.restore("n20", &id);
        world.sh("n20", seen);
        world.assert_whole("after all of it");
        for lane in ["n0", "n10", "n20"] {
            world.gone(lane);
        }
        assert_eq!(layers(world), Vec::<String>::new());
    });
}

#[test]
fn hard_links_attributes_and_times_are_in_the_fork() {
    each(|world| {
        world.lane("a");
        world.python(
            "a",
            r#"
import os
os.mkdir("w"); open("w/one", "w").write("1"); os.link("w/one", "w/two"); os.link("w/one", "three")
open("w/x", "w").write("x"); os.setxattr("w/x", "user.colour", b"blue\0"); os.setxattr("w", "user.d", b"d")
os.utime("w/x", ns=(5, 1_234_567_890_123_456_789)); os.utime("w", ns=(7, 987_654_321_012_345_678))
"#,
        );
        let seen = View::of(world, "a");
        let answer = fork(world, "a", "b");
        let is_overlay = world.made == Made::Overlay;
        let why = if is_overlay { "hard-links" } else { "copy" };
        let root = &answer["roots"][0];
        assert_eq!((&root["copied"], &root["shared"]), (&why.into(), &is_overlay.into()), "{answer}");
        View::of(world, "b").assert_same(&seen, "in the fork");
        View::of(world, "a").assert_same(&seen, "in the parent");
        world.sh("b", "echo more >> three; cmp w/one three");
        world.sh("a", "test $(cat w/two) = 1");
        if world.made == Made::Overlay {
            world.ok(&["undo", "b", "--yes"]);
            View::of(world, "b").assert_same(&seen, "undone to the fork");
        }
        // Once more from both, in which nothing but those files is above what is shared, and then something more.
        for lane in ["a", "b"] {
            let next = format!("{lane}2");
            world.sh(lane, "echo 4 >> w/two");
            let seen = View::of(world, lane);
            fork(world, lane, &next);
            View::of(world, &next).assert_same(&seen, "forked once more");
            world.sh(&next, "test w/one -ef three; echo 5 > five; ln w/x y; rm w/two");
            let seen = View::of(world, &next);
            world.snap(&next);
            let last = format!("{lane}3");
            fork(world, &next, &last);
            if world.made == Made::Copy {
                // A copy begins with the tree that it is.
                world.snap(&last);
            }
            world.gone(&next);
            View::of(world, &last).assert_same(&seen, "a fork of the fork");
            world.sh(&last, "test w/x -ef y; rm -r w; mkdir w; echo z > w/one");
            world.ok(&["undo", &last, "--yes"]);
            View::of(world, &last).assert_same(&seen, "undone in it");
        }
        world.assert_whole("after all of it");
    });
}

#[test]
fn what_was_written_to_the_home_is_there_too() {
    each(|world| {
        world.lane("a");
        world.sh("a", "mkdir -p ~/.cache/x; echo 1 > ~/.cache/x/f; echo c > ~/.conf");
        fork(world, "a", "b");
        world.sh("b", "test $(cat ~/.cache/x/f) = 1; echo 2 > ~/.cache/x/f; rm ~/.conf");
        world.sh("a", "test $(cat ~/.cache/x/f) = 1; test $(cat ~/.conf) = c");
        assert!(!world.env.home().join(".conf").exists());
    });
}

#[test]
fn a_live_lane_is_forked_as_it_is_at_that_moment() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo 1 > f; rm README.md; mkdir d; echo x > d/x; ln f d/link");
        world.ok(&["run", "-d", "-q", "-n", "a", "--", "sh", "-ec", "echo 2 >> f; exec sleep 1000"]);
        world.ok(&["exec", "a", "--", "sh", "-ec", "while ! grep -q 2 f; do sleep 0.01; done; rm d/x"]);
        let answer = fork(world, "a", "b");
        assert_eq!(answer["snapshot"]["kind"], "fork", "{answer}");
        world.sh(
            "b",
            "printf '1\\n2\\n' | cmp - f; test ! -e README.md; test ! -e d/x; test f -ef d/link; echo 3 > f",
        );
        world.ok(&["exec", "a", "--", "sh", "-ec", "printf '1\\n2\\n' | cmp - f; echo still > live"]);
        world.ok(&["stop", "a"]);
        world.sh("b", "test ! -e live");
        assert!(changed(world, "b").contains("README.md"));
        world.assert_whole("after all of it");
        world.gone("a");
        world.snap("b");
        world.ok(&["undo", "b", "--yes"]);
        world.sh("b", "printf '1\\n2\\n' | cmp - f; test f -ef d/link");
    });
}

#[test]
fn a_snapshot_is_forked_by_its_id_and_by_its_name() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo 1 > f; rm -r src; mkdir src; echo n > src/n");
        world.ok(&["snap", "a", "-m", "good"]);
        let good = View::of(world, "a");
        world.sh("a", "echo 2 > f; rm README.md");
        let bad = world.snap("a");
        let there = View::of(world, "a");
        world.sh("a", "rm -r *");
        world.ok(&["fork", "a", "b", "--at", "good"]);
        world.ok(&["fork", "a@good", "c"]);
        world.ok(&["fork", "a", "d", "--at", &bad[..8]]);
        for lane in ["b", "c"] {
            View::of(world, lane).assert_same(&good, lane);
        }
        View::of(world, "d").assert_same(&there, "d");
        assert!(changed(world, "d").contains("README.md"), "{}", changed(world, "d"));
        world.gone("a");
        world.sh("d", "echo 3 > f");
        world.snap("d");
        world.ok(&["undo", "d", "--yes"]);
        View::of(world, "d").assert_same(&there, "d, back where it was forked");
        world.assert_whole("after all of it");
        let ran = world.run(&["fork", "b", "x", "--at", "nonsense"]).expect_code(1);
        assert!(ran.err().contains("nonsense"), "{ran}");
        world.run(&["fork", "b", "c"]).expect_code(1);
        let ran = world.run(&["show", "x"]).expect_code(1);
        assert!(ran.err().contains("no lane 'x'"), "{ran}");
    });
}

#[test]
fn several_forks_of_one_lane_at_once_are_all_whole() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo 1 > f; mkdir d; echo 1 > d/f; rm README.md");
        let seen = View::of(world, "a");
        let names = ["b", "c", "d", "e", "f"];
        let started: Vec<_> = names.iter().map(|name| world.start(&["fork", "a", name])).collect();
        for running in started {
            running.wait(SOON).expect_code(0);
        }
        // And while others are dropped.
        let dropped: Vec<_> =
            ["c", "e"].iter().map(|name| world.start(&["discard", name, "--now", "--yes"])).collect();
        let more = world.start(&["fork", "b", "g"]);
        more.wait(SOON).expect_code(0);
        for running in dropped {
            running.wait(SOON).expect_code(0);
        }
        for lane in ["a", "b", "d", "f", "g"] {
            View::of(world, lane).assert_same(&seen, lane);
        }
        assert!(layers(world).len() <= 1, "{:?}", layers(world));
    });
}

#[test]
fn further_roots_are_forked_together() {
    each(|world| {
        let lib = world.env.make_git("lib");
        let also = lib.to_str().unwrap();
        world.ok(&["new", "a", "--strategy", world.made.word(), "--also", also]);
        world.sh("a", &format!("echo 1 > f; echo 2 > {also}/g; rm {also}/README.md"));
        let answer = fork(world, "a", "b");
        assert_eq!(answer["roots"].as_array().unwrap().len(), 2, "{answer}");
        let check = format!("test $(cat f) = 1; test $(cat {also}/g) = 2; test ! -e {also}/README.md");
        world.sh("b", &format!("{check}; echo 3 > {also}/g"));
        world.sh("a", &check);
        let id = world.snap("b");
        world.ok(&["fork", "b", "c", "--at", &id]);
        world.gone("a");
        world.gone("b");
        world.sh("c", &format!("test $(cat f) = 1; test $(cat {also}/g) = 3; test ! -e {also}/README.md"));
        assert!(lib.join("README.md").is_file() && !lib.join("g").exists());
    });
}

#[test]
fn a_fork_comes_back_from_the_trash_and_a_collection_leaves_its_layers_alone() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo 1 > f; mkdir d; echo 1 > d/f; rm README.md");
        fork(world, "a", "b");
        world.sh("b", "echo 2 >> f; rm d/f");
        let (a, b) = (View::of(world, "a"), View::of(world, "b"));
        world.ok(&["discard", "a"]);
        world.run(&["gc", "--yes", "--budget", "0"]);
        View::of(world, "b").assert_same(&b, "with the other in the trash");
        world.ok(&["discard", "b"]);
        world.run(&["gc", "--yes", "--budget", "0"]);
        world.ok(&["ls"]);
        for (lane, seen) in [("b", &b), ("a", &a)] {
            world.ok(&["recover", lane]);
            View::of(world, lane).assert_same(seen, "recovered");
        }
        world.gone("a");
        View::of(world, "b").assert_same(&b, "alone");
        world.gone("b");
        assert_eq!(layers(world), Vec::<String>::new());
    });
}

#[test]
fn what_both_stand_on_is_counted_for_neither() {
    each(|world| {
        if world.made == Made::Copy {
            return;
        }
        world.lane("a");
        world.sh("a", "head -c 3000000 /dev/urandom > large");
        let takes = |lane: &str| {
            let ls = world.json(&["ls"]);
            let one = ls.as_array().unwrap().iter().find(|one| one["name"] == lane).unwrap();
            one["exclusive_bytes"].as_u64().unwrap()
        };
        assert!(takes("a") >= 3_000_000);
        fork(world, "a", "b");
        assert!(takes("a") < 100_000 && takes("b") < 100_000, "{} {}", takes("a"), takes("b"));
        // Going back in one copies nothing of it.
        world.sh("b", "echo 1 > f");
        let id = world.snap("b");
        world.sh("b", "rm large README.md; mkdir d; echo 2 > f");
        world.restore("b", &id);
        world
            .sh("b", "test $(cat f) = 1; test -e README.md; test ! -e d; test $(stat -c %s large) = 3000000");
        assert!(takes("b") < 100_000, "{}", takes("b"));
        // The base is shown by no layer above others.
        world.restore("b", "base");
        world.sh("b", "test ! -e large; test ! -e f");
        world.sh("a", "test $(stat -c %s large) = 3000000");
        world.gone("b");
        assert!(takes("a") >= 3_000_000, "{}", takes("a"));
    });
}

#[test]
fn checkpoints_in_a_fork_lead_back_to_where_it_was_forked() {
    each(|world| {
        if world.made == Made::Copy {
            // A copy gets no snapshot by itself until one was asked for.
            return;
        }
        world.lane("a");
        world.watched("a", "echo 1 > f; mkdir d; echo 1 > d/f");
        fork(world, "a", "b");
        let forked = View::of(world, "b");
        world.watched("b", "echo 2 > f; rm -r d");
        // Files of the parent are known: they are not stored once more, nor are they a difference.
        world.ok(&["undo", "b", "--yes"]);
        View::of(world, "b").assert_same(&forked, "undone");
        let log = world.json(&["log", "b", "--all"]);
        let kinds: Vec<&str> =
            log["snapshots"].as_array().unwrap().iter().map(|one| word(&one["kind"])).collect();
        assert_eq!(kinds, ["exit", "fork", "start"], "{log:#}");
        assert_eq!(log["snapshots"][1]["message"], "from a");
        world.watched("b", "true");
        assert_eq!(world.ids("b").len(), 3, "nothing was written: nothing is recorded");
        world.watched("a", "true");
        assert_eq!(world.ids("a").len(), 2, "a fork is no change");
    });
}

#[test]
fn forks_on_every_filesystem_with_the_layers_beside_the_state_or_beside_the_project() {
    const KINDS: [(FsKind, u64); 4] =
        [(FsKind::Ext4, 64), (FsKind::Btrfs, 120), (FsKind::Xfs, 320), (FsKind::Tmpfs, 64)];
    for who in Who::all() {
        for (kind, mib) in KINDS {
            let Some(fs) = LoopFs::make(kind, mib, who) else { return };
            let here =
                World::git(TestEnv::inside(&fs.path(), env!("CARGO_BIN_EXE_lane"), who), Made::Overlay);
            forks(&here);
            drop(here);
            // The project alone is on it.
            let world = World::git(fresh(who), Made::Overlay);
            let project = fs.path().join("app");
            world.env.host("/", "cp", &["-a", world.project.to_str().unwrap(), project.to_str().unwrap()]);
            let world = World { project: project.clone(), ..world };
            forks(&world);
            drop(world);
            assert!(!fs.path().join(".lanekeeper").exists(), "{kind:?}");
        }
    }
}

/// A family of lanes, and its end.
fn forks(world: &World) {
    world.lane("a");
    world.sh("a", "mkdir d; echo 1 > d/f; ln d/f d/g; rm README.md; head -c 200000 /dev/urandom > large");
    let seen = View::of(world, "a");
    let answer = fork(world, "a", "b");
    assert_eq!(answer["roots"][0]["shared"], true, "{answer}");
    View::of(world, "b").assert_same(&seen, "forked");
    let id = world.snap("b");
    world.sh("b", "test d/f -ef d/g; echo 2 >> d/f; rm large; mv d e");
    let second = View::of(world, "b");
    fork(world, "b", "c");
    world.gone("a");
    View::of(world, "c").assert_same(&second, "a fork of the fork");
    world.restore("b", &id);
    View::of(world, "b").assert_same(&seen, "put back");
    world.ok(&["fork", "b", "d", "--at", &id]);
    View::of(world, "d").assert_same(&seen, "from a snapshot");
    world.assert_whole("after all of it");
    for lane in ["b", "c", "d"] {
        world.gone(lane);
    }
    assert_eq!(layers(world), Vec::<String>::new());
}
