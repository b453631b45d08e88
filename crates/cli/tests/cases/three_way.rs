//! B38: the host changed in the meantime. What both sides did is put together where it goes together; where it does not,
//! the file stays as the person has it. The pairs of changes stand in `three_way_table.rs`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;

use serde_json::Value;
use testkit::Plain;

use crate::world::{SOON, World, each, everybody, word};

fn sh(world: &World, script: &str) {
    world.env.host(&world.project, "sh", &["-ec", script]).expect_code(0);
}

/// Waits until what the base was is recorded, and the last snapshot is taken.
pub(crate) fn recorded(world: &World) {
    world.ok(&["diff", "a", "--name-only"]);
    testkit::until("the base is recorded", SOON, || {
        let lanes = fs::read_dir(world.env.state().join("lanes")).unwrap().flatten();
        lanes.into_iter().all(|lane| lane.path().join("manifest.0").exists())
    });
}

/// Runs a script in lane `a`, made first where it is new.
fn work(world: &World, script: &str) {
    if !world.json(&["ls"]).as_array().unwrap().iter().any(|lane| lane["name"] == "a") {
        world.lane("a");
    }
    world.sh("a", script);
    recorded(world);
}

fn keep(world: &World, more: &[&str], code: i32) -> Value {
    let args = [&["keep", "a", "--yes", "--json"], more].concat();
    serde_json::from_slice(&world.run(&args).expect_code(code).stdout).unwrap()
}

fn text(world: &World, path: &str) -> String {
    let content = world.content(path).unwrap_or_else(|| panic!("{path} is not there: {:?}", world.made));
    String::from_utf8(content).unwrap()
}

fn lines(content: &str, wanted: &[(usize, &str)]) {
    for (number, line) in wanted {
        assert_eq!(content.lines().nth(number - 1), Some(*line), "line {number} of\n{content}");
    }
}

fn conflicts(kept: &Value) -> Vec<String> {
    let all = kept["conflicts"].as_array().unwrap().iter();
    all.map(|at| format!("{} {}", word(&at["what"]), word(&at["path"]))).collect()
}

#[test]
fn b38_disjoint_edits_are_both_there_and_the_index_is_as_it_was() {
    each(|world| {
        sh(world, "seq 100 > f; git add f; git commit -qm b");
        work(world, "sed -i '50s/.*/agent/' f");
        sh(world, "sed -i '10s/.*/staged/' f; git add f; sed -i '20s/.*/user/' f");
        let index = fs::read(world.project.join(".git/index")).unwrap();
        let staged = world.env.host(&world.project, "git", &["diff", "--cached"]).out();
        let kept = keep(world, &[], 0);
        assert_eq!(kept["merged"][0]["path"], "f");
        assert_eq!(kept["merged"][0]["content"], true);
        lines(&text(world, "f"), &[(10, "staged"), (20, "user"), (50, "agent")]);
        assert_eq!(fs::read(world.project.join(".git/index")).unwrap(), index);
        assert_eq!(world.env.host(&world.project, "git", &["diff", "--cached"]).out(), staged);
        assert_eq!(world.env.host(&world.project, "git", &["stash", "list"]).out(), "");
    });
}

#[test]
fn b38_a_lane_goes_on_after_a_merge_and_so_does_the_person() {
    each(|world| {
        sh(world, "seq 100 > f");
        work(world, "sed -i '50s/.*/agent/' f");
        sh(world, "sed -i '10s/.*/user/' f");
        keep(world, &[], 0);
        // Nothing new on the lane's side: nothing of the person's is taken back, now or after more edits of his.
        assert_eq!(keep(world, &[], 0)["kept"], serde_json::json!([]));
        sh(world, "sed -i '12s/.*/user again/' f");
        assert_eq!(keep(world, &[], 0)["kept"], serde_json::json!([]));
        // The lane goes on with its own lines, also with one that has arrived.
        work(world, "sed -i '50s/.*/agent again/; 90s/.*/agent too/' f");
        keep(world, &[], 0);
        let wanted = [(10, "user"), (12, "user again"), (50, "agent again"), (90, "agent too")];
        lines(&text(world, "f"), &wanted);
        // What was kept whole is edited by the person: the lane has nothing to say about it.
        sh(world, "seq 20 > g; git add g");
        work(world, "echo lane > new");
        keep(world, &[], 0);
        sh(world, "echo user > new");
        assert_eq!(keep(world, &[], 0)["kept"], serde_json::json!([]));
        assert_eq!(text(world, "new"), "user\n");
    });
}

#[test]
fn b38_overlapping_edits_stop_the_file_and_everything_else_is_kept() {
    each(|world| {
        sh(world, "seq 30 > f; seq 30 > g");
        work(world, "sed -i '5s/.*/agent/; 20s/.*/agent/' f; sed -i 3d g; echo apart > apart");
        sh(world, "sed -i '5s/.*/user/' f");
        let before = Plain::without(&world.project, &["apart", "g"]);
        let kept = keep(world, &[], 1);
        assert_eq!(conflicts(&kept), ["lines f"]);
        let region = serde_json::json!({"base": [5, 1], "original": [5, 1], "lane": [5, 1]});
        assert_eq!(kept["conflicts"][0]["regions"], serde_json::json!([region]));
        assert_eq!(kept["left_out"][0]["why"], "conflict");
        before.assert_same(&Plain::without(&world.project, &["apart", "g"]));
        assert_eq!(text(world, "apart"), "apart\n");
        lines(&text(world, "g"), &[(3, "4")]);
        let told = world.run(&["keep", "a", "--yes"]).expect_code(1).err();
        assert!(told.contains("the same lines were changed in the original: 5"), "{told}");
        assert!(told.contains("--conflicts markers"), "{told}");
    });
}

#[test]
fn conflicts_are_marked_or_settled_for_one_side_where_that_is_asked_for() {
    let both = "4\n<<<<<<< original\nuser\n=======\nagent\n>>>>>>> lane a\n6\n";
    for (how, code, wanted) in
        [("markers", 1, both), ("ours", 0, "4\nuser\n6\n"), ("theirs", 0, "4\nagent\n6\n")]
    {
        each(|world| {
            sh(world, "seq 30 > f; seq 9 > gone; seq 9 > edited; printf 'a\\0' > bin");
            work(
                world,
                "sed -i '5s/.*/agent/; 20s/.*/agent/' f; echo agent >> gone; rm edited; printf 'l\\0' > bin",
            );
            sh(
                world,
                "sed -i '5s/.*/user/; 28s/.*/user/' f; rm gone; echo user >> edited; printf 'u\\0' > bin",
            );
            let planned = world.run(&["keep", "a", "--dry-run", "--json", "--conflicts", how]);
            let kept = keep(world, &["--conflicts", how], code);
            let planned: Value = serde_json::from_slice(&planned.expect_code(code).stdout).unwrap();
            assert_eq!(planned["conflicts"], kept["conflicts"]);
            let mut told = conflicts(&kept);
            told.sort();
            let all = ["binary bin", "deleted-in-lane edited", "deleted-in-original gone", "lines f"];
            assert_eq!(told, all, "{how}");
            let f = text(world, "f");
            assert!(f.contains(wanted), "{how}: {f}");
            let moved = if how == "markers" { 4 } else { 0 };
            lines(&f, &[(20 + moved, "agent"), (28 + moved, "user")]);
            let there = |path: &str| world.content(path);
            match how {
                "theirs" => {
                    assert_eq!(there("gone").unwrap(), b"1\n2\n3\n4\n5\n6\n7\n8\n9\nagent\n");
                    assert_eq!(there("edited"), None);
                    assert_eq!(there("bin").unwrap(), b"l\0");
                }
                _ => {
                    assert_eq!(there("gone"), None, "{how}");
                    assert!(there("edited").unwrap().ends_with(b"user\n"), "{how}");
                    assert_eq!(there("bin").unwrap(), b"u\0", "{how}");
                }
            }
            if how == "markers" {
                // A person settles it; the lane does not ask again.
                sh(world, "grep -v '^[<=>]\\{7\\}' f > f.new; mv f.new f");
                let again = keep(world, &["--conflicts", "markers"], 1);
                assert_eq!(again["kept"], serde_json::json!([]));
            }
        });
    }
}

#[test]
fn b33_a_merge_keeps_each_lines_ending_and_follows_a_side_that_changed_them_all() {
    everybody(|world| {
        sh(
            world,
            "printf '1\\r\\n2\\n3\\r\\n4\\n5\\r\\n' > mixed; seq 9 > to-crlf; seq 9 | sed 's/$/\\r/' > to-lf; printf '1\\n2\\n3\\n4' > end",
        );
        work(
            world,
            "sed -i 's/^5/lane/' mixed; sed -i 's/^8/lane/' to-crlf; sed -i 's/\\r$//' to-lf; sed -i 's/^1/lane/' end",
        );
        sh(
            world,
            "sed -i 's/^1/user/' mixed; sed -i 's/$/\\r/' to-crlf; sed -i 's/^2/user/' to-lf; printf '1\\n2\\n3\\n4\\n' > end",
        );
        keep(world, &[], 0);
        assert_eq!(text(world, "mixed"), "user\r\n2\n3\r\n4\nlane\r\n");
        assert_eq!(text(world, "to-crlf"), "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\nlane\r\n9\r\n");
        assert_eq!(text(world, "to-lf"), "1\nuser\n3\n4\n5\n6\n7\n8\n9\n");
        assert_eq!(text(world, "end"), "lane\n2\n3\n4\n");
    });
}

#[test]
fn b38_a_program_that_is_running_or_has_a_file_open_goes_on_with_what_it_had() {
    each(|world| {
        let sleep = fs::read("/bin/sleep").unwrap();
        world.env.write(&world.project.join("prog"), &sleep);
        world.env.chmod(&world.project.join("prog"), 0o755);
        work(world, "printf tail >> prog");
        let mut child =
            world.env.command(world.project.join("prog")).arg("100").stdin(Stdio::null()).spawn().unwrap();
        let exe = format!("/proc/{}/exe", child.id());
        testkit::until("it executes", SOON, || fs::read_link(&exe).is_ok_and(|exe| exe.ends_with("prog")));
        let old = fs::metadata(world.project.join("prog")).unwrap().ino();
        keep(world, &[], 0);
        assert_ne!(fs::metadata(world.project.join("prog")).unwrap().ino(), old);
        assert!(world.content("prog").unwrap().ends_with(b"tail"));
        assert_eq!(fs::read(&exe).unwrap(), sleep, "what is executed and mapped is what it was");
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn b38_a_directory_that_a_person_renamed_is_followed_with_everything_in_it() {
    each(|world| {
        sh(
            world,
            "mkdir -p d/deep; seq 20 > d/a; seq 20 > d/deep/b; seq 5 > d/c; git add -A; git commit -qm d",
        );
        work(
            world,
            "sed -i 5d d/a; sed -i 5d d/deep/b; echo n > d/deep/new; mkdir d/made; echo m > d/made/m",
        );
        sh(world, "git mv d e; sed -i '15s/.*/user/' e/deep/b");
        let kept = keep(world, &[], 0);
        assert_eq!(conflicts(&kept), Vec::<String>::new());
        assert_eq!(text(world, "e/a").lines().count(), 19);
        let b = text(world, "e/deep/b");
        lines(&b, &[(5, "6"), (14, "user")]);
        assert_eq!((text(world, "e/deep/new").as_str(), text(world, "e/made/m").as_str()), ("n\n", "m\n"));
        assert!(!world.project.join("d").exists(), "it is not made again");
    });
}

#[test]
fn b38_what_a_person_put_into_a_directory_stays_whatever_the_lane_did_to_the_directory() {
    each(|world| {
        sh(world, "mkdir gone link moved; seq 3 > gone/a; seq 4 > link/a; seq 5 > moved/a; seq 6 > moved/b");
        work(world, "rm -r gone link; ln -s README.md link; mv moved away");
        sh(world, "echo user > gone/u; echo user > link/u; echo user > moved/u");
        let kept = keep(world, &[], 1);
        // What is in a directory that was renamed goes with it.
        for path in ["gone/u", "link/u", "away/u"] {
            assert_eq!(world.content(path).as_deref(), Some(b"user\n".as_slice()), "{path}: {kept}");
        }
        assert!(!world.project.join("moved").exists());
        assert!(world.content("gone/a").is_none(), "what only the lane touched goes");
        assert_eq!(
            (text(world, "away/a"), text(world, "away/b")),
            ("1\n2\n3\n4\n5\n".into(), "1\n2\n3\n4\n5\n6\n".into())
        );
        // And it stays when the rest is kept once more.
        keep(world, &[], 1);
        for path in ["gone/u", "link/u", "away/u"] {
            assert_eq!(text(world, path), "user\n", "{path}");
        }
    });
}

#[test]
fn a_new_file_in_a_directory_that_both_made_goes_beside_what_is_there() {
    each(|world| {
        work(world, "mkdir d; echo lane > d/l; echo same > d/s");
        sh(world, "mkdir d; echo user > d/u; echo same > d/s");
        keep(world, &[], 0);
        assert_eq!((text(world, "d/l").as_str(), text(world, "d/u").as_str()), ("lane\n", "user\n"));
        assert_eq!(keep(world, &[], 0)["kept"], serde_json::json!([]), "and nothing of it goes later");
        assert_eq!(text(world, "d/u"), "user\n");
    });
}

#[test]
fn b38_a_path_through_a_link_that_a_person_made_is_never_followed() {
    each(|world| {
        let outside = world.env.project("outside");
        world.env.mkdir(&outside);
        world.env.write(&outside.join("f"), b"outside\n");
        sh(world, "mkdir d; seq 9 > d/f");
        work(world, "sed -i 3d d/f; echo new > d/new");
        fs::remove_dir_all(world.project.join("d")).unwrap();
        world.env.link(&outside, &world.project.join("d"));
        let before = Plain::of(world.env.project("").as_path());
        keep(world, &[], 1);
        keep(world, &["--conflicts", "theirs"], 1);
        before.assert_same(&Plain::of(world.env.project("").as_path()));
    });
}

#[test]
fn a_base_that_nobody_knows_any_more_stops_the_file_unless_both_are_equal() {
    everybody(|world| {
        sh(world, "seq 30 > f; seq 30 > g");
        world.lane("a");
        let script = "sed -i 5d f; sed -i 5d g";
        world.run(&["run", "-n", "a", "--checkpoints", "none", "--", "sh", "-ec", script]).expect_code(0);
        recorded(world);
        sh(world, "sed -i 25d f; sed -i 5d g");
        let before = Plain::of(&world.project);
        let kept = keep(world, &[], 1);
        assert_eq!(conflicts(&kept), ["base-unknown f"]);
        before.assert_same(&Plain::of(&world.project));
        let told = world.run(&["keep", "a", "--yes"]).expect_code(1).err();
        assert!(told.contains("what both started from is not known any more"), "{told}");
        keep(world, &["f", "--conflicts", "theirs"], 0);
        lines(&text(world, "f"), &[(5, "6"), (25, "26")]);
    });
}

#[test]
fn modes_of_both_sides_come_together_and_attributes_stay() {
    testkit::require::program("setfattr");
    each(|world| {
        sh(world, "seq 30 > f; setfattr -n user.k -v base f; seq 30 > g; seq 30 > h");
        // Written in place: a file that is made anew has no attributes.
        work(world, "sed 5d f > new; cat new > f; rm new; chmod 600 g; sed -i 5d h");
        sh(world, "setfattr -n user.k -v user f; sed -i 25d g; chmod 640 h");
        keep(world, &[], 0);
        let mode = |path: &str| fs::metadata(world.project.join(path)).unwrap().permissions().mode() & 0o777;
        let value = world.env.host(&world.project, "getfattr", &["-n", "user.k", "--only-values", "f"]).out();
        assert_eq!(value, "user");
        lines(&text(world, "f"), &[(5, "6")]);
        assert_eq!((mode("g"), text(world, "g").lines().count()), (0o600, 29));
        assert_eq!((mode("h"), text(world, "h").lines().count()), (0o640, 29));
    });
}

#[test]
fn a_path_that_was_named_is_kept_under_the_name_that_it_has_in_the_original() {
    each(|world| {
        sh(world, "seq 30 > f; seq 30 > apart");
        work(world, "sed -i 5d f; sed -i 5d apart");
        sh(world, "mv f g");
        let kept = keep(world, &["f"], 0);
        assert_eq!(kept["merged"][0]["lane_path"], "f");
        assert_eq!(text(world, "g").lines().count(), 29);
        assert_eq!(text(world, "apart").lines().count(), 30, "it was not named");
        assert_eq!(keep(world, &["f"], 0)["kept"], serde_json::json!([]));
    });
}

#[test]
fn what_git_had_of_a_file_is_its_base_where_nobody_else_has_it() {
    each(|world| {
        sh(world, "seq 30 > f; seq 30 > dirty; seq 30 > later; git add -A; git commit -qm b");
        sh(world, "sed -i '3s/.*/x/' dirty");
        world.lane("a");
        let script = "sed -i '5s/.*/lane/' f; sed -i '5s/.*/lane/' dirty; sed -i '5s/.*/lane/' later";
        world.run(&["run", "-n", "a", "--checkpoints", "none", "--", "sh", "-ec", script]).expect_code(0);
        recorded(world);
        // Nothing of ours has what the files held; of two of them the repository has.
        for old in world.state_names("lanes") {
            let _ = fs::remove_dir_all(world.env.state().join("lanes").join(old).join("old.0"));
        }
        sh(
            world,
            "sed -i '25s/.*/user/' f; sed -i '25s/.*/user/' dirty; git add f; git commit -qm user; sed -i '20s/.*/user/' f",
        );
        sh(world, "sed -i '25s/.*/user/' later; git commit -qam more; git gc -q --prune=now");
        let kept = keep(world, &[], 1);
        assert_eq!(conflicts(&kept), ["base-unknown dirty"], "it was not what the repository has");
        lines(&text(world, "f"), &[(5, "lane"), (20, "user"), (25, "user")]);
        lines(&text(world, "later"), &[(5, "lane"), (25, "user")]);
        lines(&text(world, "dirty"), &[(3, "x"), (5, "5"), (25, "user")]);
    });
}

#[test]
fn what_git_has_through_a_filter_is_no_base() {
    everybody(|world| {
        // A filter that changes no size: only the attributes tell.
        sh(world, "git config filter.turn.clean 'tr a-z b-za'; git config filter.turn.smudge 'tr b-za a-z'");
        sh(
            world,
            "echo 'f filter=turn' > .gitattributes; printf 'one\ntwo\nthree\nfour\nfive\n' > f; git add -A; git commit -qm b",
        );
        world.lane("a");
        let script = "sed -i s/one/lane/ f";
        world.run(&["run", "-n", "a", "--checkpoints", "none", "--", "sh", "-ec", script]).expect_code(0);
        recorded(world);
        sh(world, "sed -i s/five/user/ f");
        let before = text(world, "f");
        assert_eq!(conflicts(&keep(world, &["f"], 1)), ["base-unknown f"]);
        assert_eq!(text(world, "f"), before);
    });
}

#[test]
fn a_fork_knows_what_was_kept_of_its_parent() {
    each(|world| {
        sh(world, "seq 100 > f; seq 20 > moved");
        work(world, "sed -i '50s/.*/agent/' f; sed -i '3s/.*/agent/' moved");
        sh(world, "sed -i '10s/.*/user/' f; mv moved there");
        keep(world, &[], 0);
        world.ok(&["fork", "a", "b"]);
        sh(world, "sed -i '12s/.*/user again/' f");
        let of_fork = |code| -> Value {
            serde_json::from_slice(&world.run(&["keep", "b", "--yes", "--json"]).expect_code(code).stdout)
                .unwrap()
        };
        // Nothing is new in it, and nothing of the person's is taken back.
        assert_eq!(of_fork(0)["kept"], serde_json::json!([]));
        world.sh("b", "sed -i '50s/.*/agent again/; 90s/.*/fork/' f; sed -i '15s/.*/fork/' moved");
        assert_eq!(conflicts(&of_fork(0)), Vec::<String>::new());
        lines(&text(world, "f"), &[(10, "user"), (12, "user again"), (50, "agent again"), (90, "fork")]);
        lines(&text(world, "there"), &[(3, "agent"), (15, "fork")]);
        assert!(world.content("moved").is_none(), "it is not made again");
        // And the parent goes on as it was.
        assert_eq!(keep(world, &[], 0)["kept"], serde_json::json!([]));
    });
}

#[test]
fn a_merge_that_was_undone_is_kept_again() {
    each(|world| {
        sh(world, "seq 100 > f");
        work(world, "sed -i '50s/.*/agent/' f");
        sh(world, "sed -i '10s/.*/user/' f");
        let first = keep(world, &[], 0);
        world.ok(&["undo", "--keep", "--yes"]);
        sh(world, "sed -i '80s/.*/user/' f");
        assert_eq!(keep(world, &[], 0)["kept"], first["kept"]);
        lines(&text(world, "f"), &[(10, "user"), (50, "agent"), (80, "user")]);
    });
}
