//! `lane keep` of parts: hunks by id, selections that are saved and replayed, digests, and the questions of `-i`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Listing, Plain, Pty, Running};

use crate::world::{World, each, once, raw};

const PATIENCE: Duration = Duration::from_secs(30);

/// Forty lines with this ending, some of them edited.
fn page(edit: &[usize], ending: &str) -> Vec<u8> {
    (0..40)
        .flat_map(|i| format!("{i}{}{ending}", if edit.contains(&i) { "!" } else { "" }).into_bytes())
        .collect()
}

/// A file whose lines end in every way.
fn mixed(edit: &[usize]) -> Vec<u8> {
    [b"\xef\xbb\xbfmark\r\n".as_slice(), &page(edit, "\r\n"), b"lf\nbytes \xff\n", &page(edit, "\n"), b"end"]
        .concat()
}

fn ids(world: &World, lane: &str, path: &str) -> Vec<String> {
    let diff = world.json(&["diff", lane]);
    let file = diff["files"].as_array().unwrap().iter().find(|file| file["path"] == path);
    let hunks = file.unwrap_or_else(|| panic!("{path} in {diff}"))["hunks"].as_array().unwrap().clone();
    hunks.iter().map(|hunk| hunk["id"].as_str().unwrap().to_owned()).collect()
}

fn mode(world: &World, path: &str) -> u32 {
    std::fs::metadata(world.project.join(path)).unwrap().permissions().mode() & 0o7777
}

fn save(world: &World, name: &str, document: &Value) -> String {
    let file = world.env.project(name);
    world.env.write(&file, document.to_string().as_bytes());
    file.to_str().unwrap().to_owned()
}

#[test]
fn hunks_are_kept_one_by_one_and_their_ids_outlive_the_keeping_of_others() {
    each(|world| {
        world.env.write(&world.project.join("mixed"), &mixed(&[]));
        world.lane("parts");
        world.write("parts", "mixed", &mixed(&[2, 20]));
        world.write("parts", "other", b"other\n");
        let ids = ids(world, "parts", "mixed");
        assert_eq!(ids.len(), 4);
        let ran = world.ok(&["keep", "parts", "--hunk", &ids[1], "--yes"]);
        assert!(ran.err().contains("kept 1 path"), "{ran}");
        let kept = |edits: [&[usize]; 2]| {
            [
                b"\xef\xbb\xbfmark\r\n".as_slice(),
                &page(edits[0], "\r\n"),
                b"lf\nbytes \xff\n",
                &page(edits[1], "\n"),
                b"end",
            ]
            .concat()
        };
        assert_eq!(world.content("mixed").unwrap(), kept([&[20], &[]]));
        assert_eq!(world.content("other"), None);
        // What was not kept is still in the lane, and is no drift.
        let diff = world.json(&["diff", "parts", "mixed"]);
        assert_eq!(diff["files"][0]["hunks"].as_array().unwrap().len(), 3, "{diff}");
        assert_eq!((&diff["drift"], &diff["files"][0]["drifted"]), (&json!([]), &Value::Null));
        let answer = world.json(&["keep", "parts", "--hunk", &format!("{},{}", ids[3], ids[0]), "--yes"]);
        assert_eq!(answer["kept"][0]["part"], true, "{answer}");
        assert_eq!(world.content("mixed").unwrap(), kept([&[2, 20], &[20]]));
        let ran = world.run(&["keep", "parts", "--hunk", &ids[0], "--yes"]).expect_code(1);
        assert!(ran.err().contains(&format!("there is no hunk {}", ids[0])), "{ran}");
        world.ok(&["keep", "parts", "--yes"]);
        assert_eq!(world.content("mixed").unwrap(), mixed(&[2, 20]));
        assert_eq!(world.json(&["diff", "parts"])["files"], json!([]));
    });
}

#[test]
fn a_hunk_takes_neither_the_mode_nor_names_a_guarded_file() {
    each(|world| {
        world.env.write(&world.project.join("tool"), &page(&[], "\n"));
        world.env.write(&world.project.join(".envrc"), &page(&[], "\n"));
        world.lane("modes");
        world.write("modes", "tool", &page(&[1, 20], "\n"));
        world.write("modes", ".envrc", &page(&[1, 20], "\n"));
        world.env.chmod(&world.layer("modes").join("tool"), 0o755);
        let (tool, envrc) = (ids(world, "modes", "tool"), ids(world, "modes", ".envrc"));
        let before = mode(world, "tool");
        let args = ["keep", "modes", "--hunk", &tool[0], "--hunk", &envrc[0], "--yes"];
        let ran = world.run(&args).expect_code(1);
        assert!(ran.err().contains(".envrc (runs by itself"), "{ran}");
        assert_eq!(world.content("tool").unwrap(), page(&[1], "\n"));
        assert_eq!((mode(world, "tool"), world.content(".envrc").unwrap()), (before, page(&[], "\n")));
        world.ok(&["keep", "modes", ".envrc", "--hunk", &envrc[1], "--yes"]);
        assert_eq!(world.content(".envrc").unwrap(), page(&[20], "\n"));
    });
}

#[test]
fn all_hunks_that_a_diff_shows_make_the_original_equal_to_the_lane() {
    each(|world| {
        for name in ["edit", "gone", "nul"] {
            world.env.write(&world.project.join(name), &page(&[], "\r\n"));
        }
        world.env.link("edit", &world.project.join("link"));
        world.lane("all");
        world.write("all", "edit", &page(&[1, 20, 39], "\n"));
        world.delete("all", "gone");
        world.write("all", "new/er", b"\xff\xfe no end");
        if world.made == crate::world::Made::Copy {
            std::fs::remove_file(world.layer("all").join("link")).unwrap();
        }
        world.link("all", "gone", "link");
        world.ok(&["export", "all", "../wanted"]);
        let diff = world.json(&["diff", "all"]);
        let hunks =
            diff["files"].as_array().unwrap().iter().flat_map(|file| file["hunks"].as_array().unwrap());
        let ids: Vec<&str> = hunks.map(|hunk| hunk["id"].as_str().unwrap()).collect();
        let mut args = vec!["keep", "all", "--yes"];
        ids.iter().for_each(|id| args.extend(["--hunk", id]));
        world.ok(&args);
        Plain::without(&world.project, &[".git"]).assert_same(&Plain::of(&world.env.project("wanted")));
        assert_eq!(world.json(&["diff", "all"])["files"], json!([]));
    });
}

#[test]
fn a_selection_is_saved_shown_and_replayed() {
    each(|world| {
        world.env.write(&world.project.join("a"), &page(&[], "\n"));
        world.lane("saved");
        world.write("saved", "a", &page(&[1, 20], "\n"));
        world.write("saved", raw(b"odd\xff"), b"odd\n");
        world.write("saved", "new", b"new\n");
        world.write("saved", ".envrc", b"x\n");
        let before = Listing::of(&world.project);
        let id = &ids(world, "saved", "a")[1];
        world.ok(&["keep", "saved", "new", "--hunk", id, "--dry-run", "--save-selection", "../one.json"]);
        before.assert_same(&Listing::of(&world.project));
        let saved = world.env.project("one.json");
        let document: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
        assert_eq!(document["format"], "lane.selection/1");
        assert_eq!(document["digest"], world.json(&["diff", "saved"])["digest"]);
        let takes: Vec<&str> =
            document["files"].as_array().unwrap().iter().map(|file| file["take"].as_str().unwrap()).collect();
        assert_eq!(takes, ["none", "part", "whole", "none"], "{document}");
        let shown = world.json(&["keep", "saved", "--selection", "../one.json", "--dry-run"]);
        assert_eq!(shown["kept"].as_array().unwrap().len(), 2, "{shown}");
        world.ok(&["keep", "saved", "--selection", "../one.json", "--yes"]);
        assert_eq!(world.content("a").unwrap(), page(&[20], "\n"));
        assert_eq!(world.content("new").as_deref(), Some(&b"new\n"[..]));
        assert_eq!(world.content(raw(b"odd\xff")), None);
        // The keep itself has moved the original on.
        let ran = world.run(&["keep", "saved", "--selection", "../one.json", "--yes"]).expect_code(1);
        assert!(ran.err().contains("a: changed") && ran.err().contains("new: gone"), "{ran}");
        // All that can be kept, with odd names, and without what runs by itself.
        world.run(&["keep", "saved", "--dry-run", "--save-selection", "../all.json"]).expect_code(1);
        world.ok(&["keep", "saved", "--selection", "../all.json", "--yes"]);
        assert_eq!(world.content(raw(b"odd\xff")).as_deref(), Some(&b"odd\n"[..]));
        assert_eq!(world.ok(&["diff", "saved", "--name-only"]).out(), ".envrc\n");
    });
}

#[test]
fn a_lane_that_moved_on_is_not_kept_and_what_moved_is_listed() {
    each(|world| {
        world.env.write(&world.project.join("host"), b"base\n");
        world.lane("moving");
        for name in ["same", "edited", "gone", "host"] {
            world.write("moving", name, b"looked at\n");
        }
        let digest = world.json(&["diff", "moving"])["digest"].as_str().unwrap().to_owned();
        world.ok(&[
            "keep",
            "moving",
            "same",
            "--digest",
            &digest,
            "--dry-run",
            "--save-selection",
            "../s.json",
        ]);
        world.write("moving", "edited", b"swapped!!\n");
        std::fs::remove_file(world.layer("moving").join("gone")).unwrap();
        world.write("moving", "later", b"x\n");
        world.env.write(&world.project.join("host"), b"mine\n");
        let before = Listing::of(&world.project);
        for how in [["--digest", digest.as_str()], ["--selection", "../s.json"]] {
            let ran = world.run(&["keep", "moving", how[0], how[1], "--yes", "--json"]).expect_code(1);
            let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
            assert_eq!(answer["error"]["kind"], "conflict", "{ran}");
            let mut causes: Vec<String> = answer["error"]["causes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|cause| cause.as_str().unwrap().rsplit('/').next().unwrap().to_owned())
                .collect();
            causes.sort();
            assert_eq!(causes, ["edited: changed", "gone: gone", "host: changed", "later: new"], "{ran}");
        }
        before.assert_same(&Listing::of(&world.project));
        let fresh = world.json(&["diff", "moving"])["digest"].as_str().unwrap().to_owned();
        world.ok(&["keep", "moving", "same", "--digest", &fresh, "--yes"]);
        assert_eq!(world.content("same").as_deref(), Some(&b"looked at\n"[..]));
    });
}

#[test]
fn a_digest_of_a_narrowed_diff_speaks_of_that_alone() {
    once(|world| {
        world.lane("narrow");
        world.write("narrow", "src/lib.rs", b"//! Narrow.\n");
        world.write("narrow", "log", b"1\n");
        let digest = world.json(&["diff", "narrow", "src"])["digest"].as_str().unwrap().to_owned();
        world.write("narrow", "log", b"2\n");
        world.ok(&["keep", "narrow", "src", "--digest", &digest, "--yes"]);
        assert_eq!(world.content("src/lib.rs").as_deref(), Some(&b"//! Narrow.\n"[..]));
        let unknown = "0".repeat(64);
        let ran = world.run(&["keep", "narrow", "--digest", &unknown, "--yes"]).expect_code(1);
        assert!(ran.err().contains("no longer what was looked at"), "{ran}");
        assert_eq!(world.content("log"), None);
        world.run(&["keep", "narrow", "--digest", "nonsense", "--yes"]).expect_code(2);
    });
}

#[test]
fn a_selection_is_made_of_a_diff_by_a_program_line_by_line() {
    each(|world| {
        world.env.write(&world.project.join("list"), b"a\nb\nc\n");
        world.lane("made");
        world.write("made", "list", b"a\nB\nc\nd\ne\n");
        world.write("made", ".envrc", b"x\n");
        let diff = world.json(&["diff", "made"]);
        let files: Vec<Value> = diff["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| {
                let mut ticked =
                    json!({"root": file["root"], "path": file["path"], "digest": file["digest"], "take": "whole"});
                if file["path"] == "list" {
                    // The new line `e`, and not the others.
                    let hunk = &file["hunks"][0];
                    let lines = hunk["lines"].as_array().unwrap();
                    let line = lines.iter().find(|line| line["text"] == "e").unwrap();
                    ticked["take"] = "part".into();
                    ticked["hunks"] = json!([{"id": hunk["id"], "lines": [line["number"]]}]);
                }
                ticked
            })
            .collect();
        let mut document = json!({
            "format": "lane.selection/1", "lane": "made", "lane_id": diff["lane_id"], "digest": diff["digest"], "files": files,
        });
        let file = save(world, "made.json", &document);
        // Ticked, but not named: what runs by itself stays.
        let ran = world.run(&["keep", "--selection", &file, "--yes"]).expect_code(1);
        assert!(ran.err().contains(".envrc (runs by itself"), "{ran}");
        assert_eq!(world.content("list").as_deref(), Some(&b"a\nb\nc\ne\n"[..]));
        assert_eq!(world.content(".envrc"), None);
        document["files"][0]["path"] = "elsewhere".into();
        let ran =
            world.run(&["keep", "--selection", &save(world, "bad.json", &document), "--yes"]).expect_code(1);
        assert!(ran.err().contains("the selection cannot be used"), "{ran}");
        world.lane("other");
        let ran = world.run(&["keep", "other", "--selection", &file, "--yes"]).expect_code(1);
        assert!(ran.err().contains("made on lane 'made'"), "{ran}");
    });
}

#[test]
fn a_selection_is_read_from_stdin() {
    once(|world| {
        world.lane("piped");
        world.write("piped", "new", b"new\n");
        world.ok(&["keep", "piped", "--dry-run", "--save-selection", "../piped.json"]);
        let saved = std::fs::read(world.env.project("piped.json")).unwrap();
        let mut command = world.env.lane(&world.project, &["keep", "piped", "--selection", "-", "--yes"]);
        command.stdin(std::process::Stdio::piped());
        let mut running = Running::start(command);
        running.feed(&saved);
        running.wait(PATIENCE).expect_code(0);
        assert_eq!(world.content("new").as_deref(), Some(&b"new\n"[..]));
    });
}

#[test]
fn a_live_lane_is_kept_as_it_was_looked_at_or_not_at_all() {
    each(|world| {
        world.env.write(&world.project.join("old"), b"old\n");
        world.lane("live");
        world.ok(&["run", "-d", "-n", "live", "--", "sleep", "600"]);
        let script = "echo one >twin; ln twin other; printf 'x\\r\\ny' >ends; chmod 640 ends; rm old; mkdir d; : >d/empty";
        world.ok(&["exec", "live", "--", "sh", "-c", script]);
        world.ok(&["export", "live", "../wanted"]);
        let digest = || world.json(&["diff", "live"])["digest"].as_str().unwrap().to_owned();
        let stale = digest();
        // The same length and the same date: only the bytes tell.
        let swap = "touch -r twin stamp; printf 'two\\n' >twin; touch -r stamp twin; rm stamp";
        world.ok(&["exec", "live", "--", "sh", "-c", swap]);
        let before = Listing::of(&world.project);
        let ran = world.run(&["keep", "live", "--digest", &stale, "--yes"]).expect_code(1);
        assert!(ran.err().contains("twin: changed") && ran.err().contains("other: changed"), "{ran}");
        before.assert_same(&Listing::of(&world.project));
        world.ok(&["exec", "live", "--", "sh", "-c", "printf 'one\\n' >twin"]);
        assert_eq!(digest(), stale);
        world.ok(&["keep", "live", "--digest", &stale, "--yes"]);
        Plain::without(&world.project, &[".git"]).assert_same(&Plain::of(&world.env.project("wanted")));
        assert_eq!(std::fs::metadata(world.project.join("twin")).unwrap().nlink(), 2);
        world.ok(&["stop", "live"]);
    });
}

#[test]
fn parts_of_what_real_programs_renamed_and_deleted_are_kept_and_the_rest_afterwards() {
    each(|world| {
        for i in 0..4 {
            world
                .env
                .write(&world.project.join(format!("lib/part{i}")), &[b"part\n", &*page(&[], "\n")].concat());
        }
        world.env.write(&world.project.join("lib/first"), &[b"first\n", &*page(&[], "\r\n")].concat());
        world.env.write(&world.project.join("gone/a"), b"1\n2\n3\n");
        world.env.write(&world.project.join("gone/b"), b"b\n");
        world.lane("real");
        let script = "mv lib lib2; sed -i -e 's/^3$/3!/' -e 's/^30$/30!/' lib2/part1; sed -i 's/^9\\r$/9!\\r/' lib2/first; rm -r gone";
        world.ok(&["exec", "real", "--", "sh", "-c", script]);
        world.ok(&["export", "real", "../wanted"]);
        let diff = world.json(&["diff", "real"]);
        let files = diff["files"].as_array().unwrap();
        let renamed: Vec<&str> = files
            .iter()
            .filter(|file| file["kind"] == "rename")
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        assert_eq!(renamed, ["lib2", "lib2/first", "lib2/part1"], "{diff}");
        // A hunk of a renamed file, without the rename: it goes to the file's old place.
        let part = ids(world, "real", "lib2/part1");
        world.ok(&["keep", "real", "--hunk", &part[1], "--yes"]);
        let kept = world.content("lib/part1").unwrap();
        assert!(kept.ends_with(&page(&[30], "\n")), "{}", kept.escape_ascii());
        assert!(!world.project.join("lib2").exists());
        // One line of a deleted file.
        let diff = world.json(&["diff", "real"]);
        let files: Vec<Value> = diff["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| {
                let mut ticked =
                    json!({"root": file["root"], "path": file["path"], "digest": file["digest"], "take": "none"});
                if file["path"] == "gone/a" {
                    ticked["take"] = "part".into();
                    ticked["hunks"] = json!([{"id": file["hunks"][0]["id"], "lines": [2]}]);
                }
                ticked
            })
            .collect();
        let document = json!({
            "format": "lane.selection/1", "lane": "real", "lane_id": diff["lane_id"], "digest": diff["digest"], "files": files,
        });
        world.ok(&["keep", "--selection", &save(world, "lines.json", &document), "--yes"]);
        assert_eq!(world.content("gone/a").as_deref(), Some(&b"1\n3\n"[..]));
        assert!(world.project.join("gone/b").exists());
        // The rest of it all.
        world.ok(&["keep", "real", "--yes"]);
        Plain::without(&world.project, &[".git"]).assert_same(&Plain::of(&world.env.project("wanted")));
        assert_eq!(world.json(&["diff", "real"])["files"], json!([]));
    });
}

#[test]
fn a_hunk_of_a_further_root_is_kept_there() {
    each(|world| {
        let sibling = world.env.make_dir("lib");
        for dir in [&world.project, &sibling] {
            world.env.write(&dir.join("same"), &page(&[], "\n"));
        }
        let strategy = if world.made == crate::world::Made::Overlay { "overlay" } else { "copy" };
        world.ok(&["new", "two", "--also", "../lib", "--strategy", strategy]);
        world.ok(&[
            "exec",
            "two",
            "--",
            "sh",
            "-c",
            "sed -i 's/^3$/3!/' same; sed -i 's/^3$/3!/' ../lib/same",
        ]);
        let diff = world.json(&["diff", "two"]);
        let id = |at: usize| diff["files"][at]["hunks"][0]["id"].as_str().unwrap().to_owned();
        // The same change of the same path: only the root tells them apart.
        assert_ne!(id(0), id(1), "{diff}");
        world.ok(&["keep", "two", "--hunk", &id(1), "--yes"]);
        assert_eq!(std::fs::read(sibling.join("same")).unwrap(), page(&[3], "\n"));
        assert_eq!(world.content("same").unwrap(), page(&[], "\n"));
    });
}

/// Some hunks are kept, then the original is edited, then the rest is kept: nothing of either side is lost.
#[test]
fn what_was_left_of_a_file_is_merged_with_what_was_edited_after_a_part_was_kept() {
    each(|world| {
        for drifted in [false, true] {
            let (name, lane) = if drifted { ("late", "l") } else { ("early", "e") };
            world.env.write(&world.project.join(name), &page(&[], "\r\n"));
            world.lane(lane);
            world.write(lane, name, &page(&[3, 15, 27], "\r\n"));
            // Its base is recorded by the first command that runs in it.
            world.ok(&["exec", lane, "--", "true"]);
            world.ok(&["snap", lane]);
            if drifted {
                // The part itself is merged with an edit.
                world.env.write(&world.project.join(name), &page(&[38], "\r\n"));
            }
            let first = ids(world, lane, name);
            world.ok(&["keep", lane, "--hunk", &first[1], "--yes"]);
            let mine: &[usize] = if drifted { &[38] } else { &[] };
            assert_eq!(world.content(name).unwrap(), page(&[mine, &[15]].concat(), "\r\n"));
            world.env.write(&world.project.join(name), &page(&[mine, &[15, 33]].concat(), "\r\n"));
            world.ok(&["keep", lane, "--yes"]);
            assert_eq!(world.content(name).unwrap(), page(&[mine, &[3, 15, 27, 33]].concat(), "\r\n"));
        }
    });
}

#[test]
fn a_kept_hunk_is_taken_back_and_kept_again() {
    each(|world| {
        world.env.write(&world.project.join("a"), &page(&[], "\r\n"));
        world.lane("back");
        world.write("back", "a", &page(&[1, 20], "\r\n"));
        let first = ids(world, "back", "a");
        for _ in 0..2 {
            world.ok(&["keep", "back", "--hunk", &first[0], "--yes"]);
            assert_eq!(world.content("a").unwrap(), page(&[1], "\r\n"));
            assert_eq!(ids(world, "back", "a"), first[1..]);
            world.ok(&["undo", "--keep", "--yes"]);
            assert_eq!(world.content("a").unwrap(), page(&[], "\r\n"));
            assert_eq!(ids(world, "back", "a"), first);
        }
        world.ok(&["keep", "back", "--hunk", &first.join(","), "--yes"]);
        assert_eq!(world.content("a").unwrap(), page(&[1, 20], "\r\n"));
        assert_eq!(world.json(&["diff", "back"])["files"], json!([]));
    });
}

/// Answers the questions of `keep -i`, each once its text stands at the end of the screen.
fn answer(world: &World, args: &[&str], answers: &[(&str, &str)]) -> (i32, String) {
    let command = world.env.lane(&world.project, args);
    let mut pty = Pty::start(&command, world.env.who(), 60, 120);
    let mut seen = 0;
    for (question, letter) in answers {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let raw = String::from_utf8_lossy(&pty.raw()).into_owned();
            if let Some(at) = raw[seen..].find(question) {
                seen += at + question.len();
                break;
            }
            assert!(std::time::Instant::now() < deadline, "no {question:?} after {seen} bytes of {raw}");
            std::thread::sleep(Duration::from_millis(5));
        }
        pty.send(format!("{letter}\n"));
    }
    pty.wait_for("kept ", PATIENCE);
    let screen = pty.screen();
    (pty.wait(PATIENCE), screen)
}

#[test]
fn questions_are_asked_hunk_by_hunk_and_a_guarded_file_by_itself() {
    each(|world| {
        for name in ["a", "b", "tool"] {
            world.env.write(&world.project.join(name), &page(&[], "\n"));
            world.env.chmod(&world.project.join(name), 0o644);
        }
        world.lane("asked");
        world.write("asked", ".envrc", b"export A=1\n");
        world.write("asked", "a", &page(&[1, 3, 20], "\n"));
        world.write("asked", "b", &page(&[1, 20, 35], "\n"));
        world.write("asked", "new", b"1\n2\n3\n");
        world.write("asked", "tool", &page(&[1], "\n"));
        world.env.chmod(&world.layer("asked").join("tool"), 0o664);
        world.write("asked", "z", b"z\n");
        let (code, screen) = answer(
            world,
            &["keep", "asked", "-i"],
            &[
                (".envrc: keep this file, which runs by itself [y,n,s,q,?]? ", "n"),
                // Two edits with one line between them: one hunk, split in two.
                ("a: keep hunk 1 of 2 [y,n,a,d,s,A,q,?]? ", "?"),
                ("a: keep hunk 1 of 2", "s"),
                ("a: keep this part of the hunk", "n"),
                ("a: keep this part of the hunk", "y"),
                ("a: keep hunk 2 of 2", "y"),
                ("b: keep hunk 1 of 3", "n"),
                ("b: keep hunk 2 of 3", "a"),
                ("new: keep this hunk", "s"),
                ("new: keep this part of the hunk", "y"),
                ("new: keep this part of the hunk", "n"),
                ("new: keep this part of the hunk", "y"),
                ("tool: keep the new mode", "y"),
                ("tool: keep this hunk", "n"),
                ("z: keep this hunk", "q"),
                ("[y/N] ", "y"),
            ],
        );
        assert_eq!(code, 0, "{screen}");
        assert_eq!(world.content("a").unwrap(), page(&[3, 20], "\n"));
        assert_eq!(world.content("b").unwrap(), page(&[20, 35], "\n"));
        assert_eq!(world.content("new").as_deref(), Some(&b"1\n3\n"[..]));
        assert_eq!((world.content("tool").unwrap(), mode(world, "tool")), (page(&[], "\n"), 0o664));
        assert_eq!((world.content("z"), world.content(".envrc")), (None, None));
    });
}

#[test]
fn everything_that_follows_covers_no_guarded_file() {
    once(|world| {
        world.lane("all");
        world.write("all", "0", b"0\n");
        world.write("all", ".vscode/tasks.json", b"{}\n");
        world.write("all", "z", b"z\n");
        let (code, screen) = answer(
            world,
            &["keep", "all", "-i"],
            &[
                (".vscode", "n"),
                ("tasks.json: keep this file, which runs by itself", "n"),
                ("0: keep this hunk", "A"),
                ("[y/N] ", "y"),
            ],
        );
        assert_eq!(code, 0, "{screen}");
        assert_eq!(world.content("z").as_deref(), Some(&b"z\n"[..]));
        assert_eq!(world.content(".vscode/tasks.json"), None);
    });
}

#[test]
fn without_a_terminal_nothing_is_asked_and_nothing_is_kept() {
    once(|world| {
        world.lane("mute");
        world.write("mute", "new", b"new\n");
        let ran = world.run(&["keep", "mute", "-i"]).expect_code(2);
        assert!(ran.err().contains("--hunk"), "{ran}");
        assert_eq!(world.content("new"), None);
    });
}
