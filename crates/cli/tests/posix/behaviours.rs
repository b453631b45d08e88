//! Each behaviour once in a plain directory and once in a lane. What differs must stand in the table of
//! docs/limits.md, and what stands there must differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use testkit::env::PATIENCE;
use testkit::running::Running;

use crate::ground::{Ground, PYTHON, Way, ways};

const PROGRAM: &str = concat!(
    include_str!("programs/common.py"),
    include_str!("programs/metadata.py"),
    include_str!("programs/data.py"),
    include_str!("programs/names.py"),
    include_str!("programs/renames.py"),
    "\nmain()\n",
);

const LIMITS: &str = include_str!("../../../../docs/limits.md");

/// The heading of the table, a column for each way.
const COLUMNS: [&str; 4] = ["overlay as user", "overlay as root", "copy as user", "copy as root"];

type Results = BTreeMap<String, Value>;

#[test]
fn every_behaviour_is_that_of_a_plain_directory_or_stands_in_the_table() {
    let table = table();
    let mut wrong = Vec::new();
    for way in ways() {
        let (plain, lane) = both(way);
        assert_eq!(plain.keys().collect::<Vec<_>>(), lane.keys().collect::<Vec<_>>());
        let documented = &table[&way.to_string()];
        for (name, was) in &plain {
            let differs = *was != lane[name];
            if differs && !documented.contains(name) {
                wrong.push(format!("{way}: {name} differs\n    plain {was}\n    lane  {}", lane[name]));
            } else if !differs && documented.contains(name) {
                wrong.push(format!("{way}: {name} does not differ any more"));
            }
        }
        for name in documented.iter().filter(|name| !plain.contains_key(*name)) {
            wrong.push(format!("{way}: {name} stands in the table and is not tried"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn at_least_fifty_behaviours_are_tried_and_none_fails_in_a_plain_directory() {
    let ground = Ground::new(ways()[0]);
    let plain = results(&ground, &["run"]);
    assert!(plain.len() >= 50, "{}", plain.len());
    for (name, result) in plain {
        let text = result.to_string();
        assert!(!text.starts_with("\"error") && !text.starts_with("\"died"), "{name}: {text}");
    }
}

/// The results in a plain directory and in a lane.
fn both(way: Way) -> (Results, Results) {
    let ground = Ground::new(way);
    let plain = results(&ground, &["run"]);
    ground.env.host(
        &ground.project,
        PYTHON,
        &["-c", PROGRAM, "setup", &ground.project.display().to_string()],
    );
    ground.make_lane();
    let ran = ground.try_inside(PROGRAM, &["run", &ground.project.display().to_string()]).expect_code(0);
    (plain, serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}")))
}

fn results(ground: &Ground, args: &[&str]) -> Results {
    let top = ground.plain.display().to_string();
    ground.env.host(&ground.plain, PYTHON, &["-c", PROGRAM, "setup", &top]);
    let mut command = ground.env.command(PYTHON);
    command.args(["-c", PROGRAM]).args(args).arg(&top).current_dir(&ground.plain);
    let ran = Running::start(command).wait(PATIENCE).expect_code(0);
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"))
}

/// The names in the table that differ, for each way.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> =
        COLUMNS.iter().map(|way| ((*way).to_owned(), BTreeSet::new())).collect();
    let mut rows = 0;
    for line in LIMITS.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        // name, plain directory, then the ways.
        if cells.len() != 2 + COLUMNS.len() {
            continue;
        }
        rows += 1;
        let name = cells[0].trim_matches('`').to_owned();
        assert!(cells[2..].iter().any(|cell| *cell != "same"), "{name} differs nowhere");
        for (way, cell) in COLUMNS.iter().zip(&cells[2..]) {
            if *cell != "same" {
                found.get_mut(*way).expect("a column").insert(name.clone());
            }
        }
    }
    assert!(rows > 0, "the table in docs/limits.md was not found");
    found
}
