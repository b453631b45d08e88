//! Every id that was printed restores exactly what was seen when it was printed; and only what the lane itself did goes.

use std::time::Duration;

use testkit::{Listing, Running};

use crate::view::View;
use crate::world::{World, each, everybody, once, word};

/// Steps of work, one on top of the other, that touch everything that a layer can hold.
pub(crate) const STEPS: [&str; 9] = [
    // Files of every size, empty ones, modes, times to the nanosecond.
    r#"
import os
os.makedirs("work/deep/er", exist_ok=True)
for n, size in enumerate((0, 1, 127, 128, 129, 4096, 70000, 3 << 20)):
    with open(f"work/size{n}", "wb") as f:
        f.write(bytes((n + i * 7) % 251 for i in range(min(size, 70000))) * (max(size, 1) // max(min(size, 70000), 1) or 1))
os.chmod("work/size1", 0o755)
os.chmod("work/size2", 0o600)
os.utime("work/size3", ns=(1_000_000_001, 1_234_567_890_123_456_789))
os.utime("work/deep", ns=(5, 987_654_321_012_345_678))
open("README.md", "a").write("changed\n")
"#,
    // Links of both kinds, FIFOs, attributes, holes.
    r#"
import os
os.symlink("size1", "work/link")
os.symlink(b"no\xff where", b"work/dangling")
os.mkfifo("work/pipe", 0o640)
os.link("work/size4", "work/deep/other-name")
os.link("work/size4", "work/third-name")
os.setxattr("work/size5", "user.colour", b"blue\0\xff")
os.setxattr("work", "user.note", b"on a directory")
with open("work/holes", "wb") as f:
    f.seek(5 << 20); f.write(b"end"); f.truncate(9 << 20)
"#,
    // Names.
    r#"
import os
for n in (b"bad\xff", b"new\nline", b"tab\tq", b" lead", b"trail ", b"-rf", b"caf\xc3\xa9", b"cafe\xcc\x81", b"x" * 255, b"\x1b[31m"):
    open(b"work/" + n, "wb").write(n)
    os.makedirs(b"work/dirs/" + n)
"#,
    // Deletions, of the project's own files too; a directory that is another one now.
    r#"
import os, shutil
os.unlink("README.md")
os.unlink("work/size0")
os.unlink("work/third-name")
shutil.rmtree("src")
os.mkdir("src")
open("src/new.rs", "w").write("// another\n")
"#,
    // Types that change.
    r#"
import os, shutil
shutil.rmtree("work/deep")
open("work/deep", "w").write("a file where a directory was")
os.unlink("work/size1"); os.mkdir("work/size1"); open("work/size1/in", "w").write("x")
os.unlink("work/link"); os.symlink("elsewhere", "work/link")
os.unlink("work/pipe"); open("work/pipe", "w").write("no pipe")
"#,
    // In place, inside a large file; through one of two names; attributes that go.
    r#"
import os
with open("work/size7", "r+b") as f:
    f.seek(1 << 20); f.write(b"page" * 1024)
os.link("work/size5", "work/again")
open("work/again", "ab").write(b"appended through the other name")
os.removexattr("work", "user.note")
"#,
    // Nothing but metadata.
    r#"
import os
os.chmod("work/size6", 0o400)
os.chmod("work/dirs", 0o700)
os.utime("work/size7", ns=(7, 1_600_000_000_000_000_001))
"#,
    // Renames.
    r#"
import os
os.rename("work/dirs", "moved")
os.rename("work/size7", "moved/seven")
if os.path.isdir("src"): os.rename("src", "source")
"#,
    // Everything goes.
    r#"
import os, shutil
for name in os.listdir("."):
    if name == ".git": continue
    shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)
"#,
];

#[test]
fn every_printed_id_restores_exactly_in_any_order() {
    each(|world| {
        let origin = Listing::of(&world.project);
        world.lane("a");
        let mut taken = vec![(world.snap("a"), View::of(world, "a"))];
        for step in STEPS {
            world.python("a", step);
            let seen = View::of(world, "a");
            taken.push((world.snap("a"), seen));
            View::of(world, "a").assert_same(&taken.last().unwrap().1, "after a snapshot");
        }
        for at in [4, 9, 0, 6, 1, 8, 5, 2, 7, 3] {
            let (id, seen) = &taken[at];
            world.restore("a", id);
            View::of(world, "a").assert_same(seen, &format!("back at step {at}"));
        }
        world.assert_whole("after all of it");
        origin.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn two_hundred_snapshots_are_all_there_and_each_is_what_it_was() {
    once(|world| {
        world.lane("a");
        world.sh("a", "seq 2000 > base; mkdir many; for i in $(seq 60); do echo $i > many/$i; done");
        let mut ids = Vec::new();
        for number in 0..200 {
            // One write by hand in the layer: what is taken is a lane at rest.
            let home = world.json(&["show", "a"])["lane"]["dir"].as_str().unwrap().to_owned();
            world.env.write(
                &std::path::Path::new(&home).join("0.u").join(format!("many/{}", number % 60 + 1)),
                format!("round {number}\n").as_bytes(),
            );
            ids.push(world.snap("a"));
        }
        let log = world.ids("a");
        assert!(ids.iter().all(|id| log.contains(id)), "{} of {}", log.len(), ids.len());
        assert_eq!(log.len(), 201);
        // Each is found by its front, as it was printed.
        for number in [0, 1, 59, 60, 61, 150, 199] {
            world.restore("a", &ids[number][..12]);
            let last = |slot: usize| (0..=number).rev().find(|n| n % 60 == slot);
            let expected: String = (0..60)
                .map(|slot| last(slot).map_or_else(|| format!("{}\n", slot + 1), |n| format!("round {n}\n")))
                .collect();
            let seen = world.sh("a", "for i in $(seq 60); do cat many/$i; done").out();
            assert_eq!(seen, expected, "back at {number}");
        }
        let walk: Vec<String> = world.json(&["log", "a"])["snapshots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| word(&one["id"]).to_owned())
            .collect();
        assert!(walk.contains(&ids[0]) && walk.len() >= 200, "{}", walk.len());
        world.assert_whole("after two hundred");
    });
}

#[test]
fn undo_and_redo_walk_the_same_way_there_and_back() {
    each(|world| {
        world.lane("a");
        let mut seen = Vec::new();
        for number in 0..4 {
            world.sh("a", &format!("echo {number} > f; mkdir d{number}; echo x > d{number}/x"));
            world.snap("a");
            seen.push(View::of(world, "a"));
        }
        for at in [2, 1, 0] {
            world.ok(&["undo", "a", "--yes"]);
            View::of(world, "a").assert_same(&seen[at], &format!("undone to {at}"));
        }
        for at in [1, 2, 3] {
            world.ok(&["redo", "a", "--yes"]);
            View::of(world, "a").assert_same(&seen[at], &format!("redone to {at}"));
        }
        assert_eq!(world.run(&["redo", "a", "--yes"]).code, Some(1));
        // What was done since is one step, and can be returned to.
        world.sh("a", "echo unsaved > f; rm -r d0");
        let unsaved = View::of(world, "a");
        let undone = world.json(&["undo", "a", "--yes"]);
        assert_eq!(undone["rescued"], true, "{undone}");
        View::of(world, "a").assert_same(&seen[3], "undone what was not recorded");
        world.restore("a", word(&undone["from"]["id"]));
        View::of(world, "a").assert_same(&unsaved, "returned to it");
    });
}

#[test]
fn b20_a_restore_that_would_remove_nearly_everything_is_asked_about_and_works_without_git() {
    for who in testkit::Who::all() {
        let env = crate::world::fresh(who);
        let project = env.make_many("plain", 40);
        let world = World::over(env, project, crate::world::Made::Overlay);
        world.lane("a");
        let empty = world.snap("a");
        world.sh("a", "mkdir new; for i in $(seq 80); do echo $i > new/$i; done");
        let seen = View::of(&world, "a");
        let (told, code) = world.told(&["restore", "a", &empty]);
        assert!(code == 1 && word(&told["error"]["hint"]).contains("--yes"), "{told}");
        View::of(&world, "a").assert_same(&seen, "asked, not done");
        let back = world.json(&["restore", "a", &empty, "--yes"]);
        assert!(!View::of(&world, "a").has("new"));
        world.restore("a", word(&back["from"]["id"]));
        View::of(&world, "a").assert_same(&seen, "and back");
    }
}

#[test]
fn b20_what_cannot_be_read_is_told_and_stays_when_going_back() {
    // Root reads everything.
    once(|world| {
        world.lane("a");
        world.sh("a", "echo open > open; echo closed > closed");
        let before = world.snap("a");
        let home = world.json(&["show", "a"])["lane"]["dir"].as_str().unwrap().to_owned();
        let closed = std::path::Path::new(&home).join("0.u/closed");
        if testkit::who::is_root() {
            // Not even its owner's: somebody else's, as after a mistake outside.
            std::os::unix::fs::chown(&closed, Some(0), Some(0)).unwrap();
            world.env.chmod(&closed, 0o600);
        }
        world.sh("a", "echo more > open");
        if testkit::who::is_root() {
            let ran = world.run(&["snap", "a"]).expect_code(1);
            assert!(ran.err().contains("closed") && ran.out().len() > 12, "{ran}");
        }
        world.ok(&["restore", "a", &before, "--yes"]);
        assert_eq!(world.sh("a", "cat open").out(), "open\n");
        assert!(closed.exists());
    });
}

#[test]
fn b21_going_back_removes_what_the_lane_made_and_nothing_else() {
    each(|world| {
        let output = world.project.join("output/result.jsonl");
        world.env.write(&output, b"big\n");
        world.env.write(&world.project.join("ignored.log"), b"mine\n");
        world.env.write(&world.project.join(".gitignore"), b"*.log\noutput\n");
        world.lane("a");
        let start = world.snap("a");
        world.sh("a", "echo x > new.txt; echo y > lane.log; mkdir output/more; echo z > output/more/z");
        // Meanwhile somebody works in the project itself.
        world.env.write(&world.project.join("output/later"), b"later\n");
        let origin = Listing::of(&world.project);
        let back = world.json(&["restore", "a", &start, "--yes"]);
        assert_eq!(back["rescued"], true, "{back}");
        let seen = View::of(world, "a");
        for gone in ["new.txt", "lane.log", "output/more"] {
            assert!(!seen.has(gone), "{gone}");
        }
        assert!(seen.has("output/result.jsonl") && seen.has("ignored.log"));
        // A copy does not see what comes later; an overlay does, and has not removed it.
        assert_eq!(seen.has("output/later"), world.made == crate::world::Made::Overlay);
        origin.assert_same(&Listing::of(&world.project));
        world.restore("a", word(&back["from"]["id"]));
        assert_eq!(world.sh("a", "cat new.txt lane.log output/more/z").out(), "x\ny\nz\n");
        origin.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn b26_a_name_of_any_bytes_is_recorded_shown_and_put_back() {
    each(|world| {
        world.lane("a");
        world.python("a", STEPS[0]);
        let before = world.snap("a");
        world.python("a", STEPS[2]);
        let seen = View::of(world, "a");
        let ran = world.ok(&["snap", "a", "-m", "na\u{ef}ve \u{202e}name"]);
        assert!(!ran.err().contains('\u{202e}'), "{ran}");
        world.restore("a", &before);
        let diff = world.json(&["diff", "a", "now", "na\u{ef}ve \u{202e}name"]);
        let paths: Vec<&str> =
            diff["files"].as_array().unwrap().iter().map(|file| word(&file["path"])).collect();
        assert!(paths.contains(&"work/bad\\xff") && paths.contains(&"work/new\nline"), "{paths:?}");
        world.restore("a", "na\u{ef}ve \u{202e}name");
        View::of(world, "a").assert_same(&seen, "by its name");
        let log = world.ok(&["log", "a", "--all"]).out();
        assert!(!log.contains('\u{202e}') && !log.contains('\x1b'), "{log:?}");
    });
}

#[test]
fn b27_a_fifo_is_put_back_a_socket_is_told_and_a_device_stops_nobody() {
    each(|world| {
        world.lane("a");
        let make = "import os, socket; os.mkfifo('pipe', 0o622); s = socket.socket(socket.AF_UNIX); s.bind('sock'); open('f', 'w').write('1')";
        world.python("a", make);
        let patience = Duration::from_secs(20);
        let taken = Running::start(world.env.lane(&world.project, &["snap", "a", "--json"])).wait(patience);
        assert_eq!(taken.code, Some(1), "a socket is in no snapshot, and that is told: {taken}");
        let taken: serde_json::Value = serde_json::from_slice(&taken.stdout).unwrap();
        let gaps = taken["gaps"].as_array().unwrap();
        assert!(gaps.len() == 1 && gaps[0]["path"] == "sock", "{taken}");
        let seen = View::of(world, "a");
        world.sh("a", "rm pipe; echo 2 > f");
        let args = ["restore", "a", word(&taken["id"]), "--yes"];
        Running::start(world.env.lane(&world.project, &args)).wait(patience).expect_code(0);
        View::of(world, "a").assert_same(&seen, "with its pipe, and the socket that was never touched");
        // In a pass for nothing: nobody hangs on the pipe afterwards.
        Running::start(world.env.lane(&world.project, &["diff", "a"])).wait(patience).expect_code(1);
    });
    // A device by hand in the layer, which only root can make.
    if testkit::who::is_root() {
        let world = World::git(crate::world::fresh(testkit::Who::Root), crate::world::Made::Copy);
        world.lane("a");
        let home = world.json(&["show", "a"])["lane"]["dir"].as_str().unwrap().to_owned();
        let place = std::path::Path::new(&home).join("0.c/null");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &place,
            rustix::fs::FileType::CharacterDevice,
            0o666.into(),
            rustix::fs::makedev(1, 3),
        )
        .unwrap();
        let (told, code) = world.told(&["snap", "a"]);
        assert!(code == 1 && told["gaps"][0]["path"] == "null", "{told}");
    }
}

#[test]
fn b30_a_build_tool_sees_the_truth_after_going_back() {
    testkit::require::program("make");
    each(|world| {
        world
            .env
            .write(&world.project.join("Makefile"), b"out: source\n\tcp source out\n\techo built >> count\n");
        world.env.write(&world.project.join("source"), b"v1\n");
        world.lane("a");
        world.sh("a", "make -s out");
        let built = world.snap("a");
        let seen = View::of(world, "a");
        // Within the same second, as a program would.
        world.sh("a", "echo v2 > source; make -s out; test \"$(cat out)\" = v2");
        let later = world.snap("a");
        world.restore("a", &built);
        View::of(world, "a").assert_same(&seen, "directories and nanoseconds included");
        // Nothing is built for nothing, and nothing that is old counts as new.
        world.sh("a", "make -q out; test \"$(cat out)\" = v1; test $(wc -l < count) = 1");
        world.sh("a", "echo v3 > source; make -s out; test \"$(cat out)\" = v3");
        world.restore("a", &later);
        world.sh("a", "make -q out; test \"$(cat out)\" = v2; test $(wc -l < count) = 2");
    });
}

#[test]
fn b32_what_is_stored_shares_no_file_that_can_be_written_and_links_lead_where_they_led() {
    each(|world| {
        // A package store outside the project, with hard links into it.
        let store = world.env.root().join("p/packages");
        world.env.write(&store.join("i.js"), b"original\n");
        world.env.mkdir(&world.project.join("node_modules"));
        std::fs::hard_link(store.join("i.js"), world.project.join("node_modules/i.js")).unwrap();
        let origin = Listing::of(&world.project);
        world.lane("a");
        world.sh("a", "echo lane >> node_modules/i.js; echo one > x; ln x y; ln x z");
        let id = world.snap("a");
        let seen = View::of(world, "a");
        // In place, through one of the names, and a link that parts.
        world.sh("a", "echo two >> y; rm z; echo alone > z");
        let other = View::of(world, "a");
        world.restore("a", &id);
        View::of(world, "a").assert_same(&seen, "with its links");
        assert_eq!(world.sh("a", "echo three >> z; cat x").out(), "one\nthree\n");
        world.assert_whole("after a write in place through a restored link");
        world.restore("a", &id);
        View::of(world, "a").assert_same(&seen, "again");
        assert!(!seen.is(&other));
        assert_eq!(std::fs::read(store.join("i.js")).unwrap(), b"original\n");
        origin.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn a_directory_that_refuses_its_owner_is_worked_in_and_refuses_him_afterwards() {
    everybody(|world| {
        world.lane("a");
        world
            .sh("a", "mkdir -p closed/deep; echo 1 > closed/deep/f; chmod 500 closed/deep; chmod 300 closed");
        let id = world.snap("a");
        world.sh("a", "chmod 700 closed closed/deep; echo 2 > closed/deep/f; echo new > closed/deep/g; chmod 0 closed/deep; chmod 0 closed");
        let later = world.snap("a");
        world.restore("a", &id);
        let modes = "stat -c %a closed; chmod 700 closed; stat -c %a closed/deep; chmod 700 closed/deep; cat closed/deep/*";
        assert_eq!(world.sh("a", modes).out(), "300\n500\n1\n");
        world.restore("a", &later);
        assert_eq!(world.sh("a", modes).out(), "0\n0\n2\nnew\n");
    });
}

#[test]
fn in_a_directory_that_refuses_its_owner_one_entry_is_dressed_and_another_put() {
    each(|world| {
        world.lane("a");
        world.sh(
            "a",
            "mkdir -p s/in; for n in a b c; do echo 1 > s/$n; echo 1 > s/in/$n; done; chmod 555 s/in s",
        );
        let first = (world.snap("a"), View::of(world, "a"));
        world.sh("a", "for n in s s/in; do chmod 600 $n/a; echo 2 > $n/c; done");
        let second = (world.snap("a"), View::of(world, "a"));
        for (id, seen) in [&first, &second, &first, &second] {
            let told = world.json(&["restore", "a", id, "--yes"]);
            assert_eq!(told["left"], serde_json::json!([]));
            View::of(world, "a").assert_same(seen, "a directory that refuses its owner");
        }
    });
}
