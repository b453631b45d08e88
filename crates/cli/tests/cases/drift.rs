//! Edits of the host below a lane: found and named at run, exec, diff and keep, never overwritten.

use std::os::unix::fs::PermissionsExt as _;

use testkit::Plain;

use crate::world::{World, each, everybody};

/// What a person does in the original while a lane stands: in words, the path that both sides touched, the act.
type Edit = (&'static str, &'static str, fn(&World));

fn edits() -> Vec<Edit> {
    vec![
        ("in place", "README.md", |world| {
            use std::io::Write as _;
            std::fs::File::options()
                .append(true)
                .open(world.project.join("README.md"))
                .unwrap()
                .write_all(b"host\n")
                .unwrap();
        }),
        ("replaced by rename", "README.md", |world| {
            world.env.write(&world.project.join("tmp"), b"host\n");
            std::fs::rename(world.project.join("tmp"), world.project.join("README.md")).unwrap();
        }),
        ("deleted", "README.md", |world| std::fs::remove_file(world.project.join("README.md")).unwrap()),
        ("made anew with its directory", "src/lib.rs", |world| {
            std::fs::remove_dir_all(world.project.join("src")).unwrap();
            world.env.write(&world.project.join("src/lib.rs"), b"host\n");
        }),
        ("created", "fresh", |world| world.env.write(&world.project.join("fresh"), b"host\n")),
        ("another mode", "README.md", |world| {
            std::fs::set_permissions(world.project.join("README.md"), std::fs::Permissions::from_mode(0o600))
                .unwrap();
        }),
        ("its directory moved away and back by another", "src/lib.rs", |world| {
            std::fs::rename(world.project.join("src"), world.project.join("away")).unwrap();
            world.env.write(&world.project.join("src/lib.rs"), b"host\n");
        }),
    ]
}

#[test]
fn host_edits_are_named_at_run_exec_diff_and_keep_and_never_overwritten() {
    for (how, path, edit) in edits() {
        each(|world| {
            world.lane("a");
            world.sh("a", &format!("mkdir -p $(dirname {path}); echo lane > {path}; echo apart > apart"));
            // Recorded or not, the answer must be right; here the record is there.
            let record = world.env.state().join("lanes");
            testkit::until("the base is recorded", crate::world::SOON, || {
                std::fs::read_dir(&record)
                    .unwrap()
                    .flatten()
                    .any(|lane| lane.path().join("manifest.0").exists())
            });
            // The last snapshot is waited for: it is what knows the content that was there.
            world.ok(&["diff", "a", "--name-only"]);
            edit(world);
            let drift = world.drift("a");
            assert!(drift.iter().any(|line| line.ends_with(&format!(" {path}"))), "{how}: {drift:?}");
            for args in [&["run", "-n", "a", "--", "true"] as &[&str], &["exec", "a", "--", "true"]] {
                let ran = world.ok(args);
                assert!(ran.err().contains(path), "{how}: {ran}");
            }
            if how == "another mode" {
                // A mode and a content go together.
                world.ok(&["keep", "a", "--yes"]);
                assert_eq!(world.content(path).unwrap(), b"lane\n");
                let mode = std::fs::metadata(world.project.join(path)).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600);
                return;
            }
            let before = Plain::without(&world.project, &["apart"]);
            let ran = world.run(&["keep", "a", "--yes"]).expect_code(1);
            assert!(ran.err().contains(path) || ran.out().contains(path), "{how}: {ran}");
            before.assert_same(&Plain::without(&world.project, &["apart"]));
            assert_eq!(world.content("apart").unwrap(), b"apart\n", "{how}: the rest is kept");
        });
    }
}

#[test]
fn host_edits_are_named_to_whoever_joins_a_live_lane() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sh", "-c", "echo lane > README.md; sleep 1000"]);
        testkit::until("it wrote", crate::world::SOON, || world.changes("a") == ["modify README.md"]);
        world.env.write(&world.project.join("README.md"), b"host\n");
        let ran = world.ok(&["exec", "a", "--", "true"]);
        assert!(ran.err().contains("README.md"), "{ran}");
        world.ok(&["stop", "a"]);
    });
}

#[test]
fn edits_beside_the_lanes_own_are_no_drift_of_its_changes_and_are_listed_on_request() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo lane > mine");
        world.env.write(&world.project.join("theirs"), b"host\n");
        world.env.write(&world.project.join("src/lib.rs"), b"host\n");
        assert_eq!(world.drift("a"), Vec::<String>::new());
        let all = world.json(&["diff", "a", "--drift"]);
        let paths: Vec<&str> =
            all["drift"].as_array().unwrap().iter().map(|at| at["path"].as_str().unwrap()).collect();
        assert!(paths.contains(&"theirs") && paths.contains(&"src/lib.rs"), "{paths:?}");
        world.keep_all("a").expect_code(0);
        assert_eq!(world.content("mine").unwrap(), b"lane\n");
        assert_eq!(world.content("theirs").unwrap(), b"host\n");
    });
}

#[test]
fn a_lane_started_again_sees_what_the_host_made_meanwhile() {
    everybody(|world| {
        world.lane("a");
        world.sh("a", "echo lane > mine");
        std::fs::remove_dir_all(world.project.join("src")).unwrap();
        world.env.write(&world.project.join("src/other.rs"), b"host\n");
        world.env.write(&world.project.join("README.md"), b"host\n");
        assert_eq!(world.sh("a", "ls src; cat README.md mine").out(), "other.rs\nhost\nlane\n");
    });
}

#[test]
fn a_project_that_is_gone_is_told_and_the_lane_is_kept() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo lane > mine");
        let away = world.env.project("away");
        std::fs::rename(&world.project, &away).unwrap();
        world.env.mkdir(&world.project);
        let ran = world.run(&["run", "-n", "a", "--", "cat", "README.md"]);
        // Another directory under the old name: everything below it has drifted.
        assert!(
            ran.code != Some(0) || !ran.out().contains("A project") || world.made.word() == "copy",
            "{ran}"
        );
        std::fs::remove_dir_all(&world.project).unwrap();
        std::fs::rename(&away, &world.project).unwrap();
        assert_eq!(world.sh("a", "cat mine").out(), "lane\n");
    });
}
