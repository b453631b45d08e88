//! `lane ls`.

use crate::world::{each, once};

#[test]
fn a_project_without_lanes_is_an_empty_list_and_a_word_on_stderr() {
    once(|world| {
        assert_eq!(world.json(&["ls"]), serde_json::json!([]));
        let ran = world.ok(&["ls"]);
        assert!(ran.stdout.is_empty() && ran.err().contains("lane run"), "{ran}");
        assert!(world.ok(&["ls", "-q"]).stderr.is_empty());
    });
}

#[test]
fn changes_are_counted_by_kind() {
    each(|world| {
        world.lane("work");
        world.write("work", "new.txt", b"new\n");
        world.write("work", "src/lib.rs", b"//! Something.\n");
        world.delete("work", "README.md");
        let listed = world.json(&["ls"]);
        let sums = &listed[0]["changes"];
        assert_eq!(sums["total"], 3, "{listed}");
        assert_eq!(
            (&sums["added"], &sums["modified"], &sums["deleted"]),
            (&1.into(), &1.into(), &1.into()),
            "{listed}"
        );
        let table = world.ok(&["ls"]).out();
        assert!(table.contains("1 added · 1 modified · 1 deleted"), "{table}");
    });
}

#[test]
fn lanes_of_other_projects_are_listed_with_all_only() {
    once(|world| {
        world.lane("mine");
        let other = world.env.make_dir("other");
        world.env.ok(&other, &["new", "theirs"]);
        let names = |args: &[&str]| -> Vec<String> {
            let listed = world.json(args);
            listed.as_array().unwrap().iter().map(|lane| lane["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&["ls"]), ["mine"]);
        assert_eq!(names(&["ls", "--all"]), ["theirs", "mine"]);
    });
}

#[test]
fn a_lane_whose_project_is_gone_is_still_listed_with_the_problem() {
    once(|world| {
        world.lane("orphan");
        let id = world.json(&["ls"])[0]["id"].as_str().unwrap().to_owned();
        std::fs::rename(&world.project, world.project.with_file_name("moved")).unwrap();
        let listed = world.env.json(world.env.root(), &["ls", "--all"]);
        assert!(listed[0]["problem"].as_str().unwrap().contains("is gone"), "{listed}");
        world.env.ok(world.env.root(), &["discard", &id, "--now", "--yes"]);
        assert_eq!(world.env.json(world.env.root(), &["ls", "--all"]), serde_json::json!([]));
    });
}
