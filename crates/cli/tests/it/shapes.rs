//! docs/json.md is true: every block in it is compared with what the program prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::Running;

use crate::world::{World, once};

/// The shapes of the page, by their headings.
fn shapes() -> BTreeMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = std::fs::read_to_string(path).expect("docs/json.md");
    let mut shapes = BTreeMap::new();
    for section in page.split("\n## `").skip(1) {
        let (name, rest) = section.split_once('`').expect("a heading");
        let block = rest.split("```json\n").nth(1).unwrap_or_else(|| panic!("no block below {name}"));
        let block = block.split("```").next().expect("closed");
        shapes.insert(
            name.to_owned(),
            serde_json::from_str(block).unwrap_or_else(|error| panic!("{name}: {error}")),
        );
    }
    shapes
}

/// Compares a value with a shape; the place of every difference.
fn check(
    shapes: &BTreeMap<String, Value>,
    shape: &Value,
    value: &Value,
    place: &str,
    wrong: &mut Vec<String>,
) {
    match shape {
        Value::String(word) => {
            let (kind, nullable) = word.strip_suffix('?').map_or((word.as_str(), false), |kind| (kind, true));
            let fits = match kind {
                _ if nullable && value.is_null() => true,
                "string" => value.is_string(),
                "number" => value.is_number(),
                "bool" => value.is_boolean(),
                "any" => true,
                name => return check(shapes, &shapes[name], value, place, wrong),
            };
            if !fits {
                wrong.push(format!("{place}: {value} is no {word}"));
            }
        }
        Value::Array(element) => match value.as_array() {
            Some(values) => {
                for (at, value) in values.iter().enumerate() {
                    check(shapes, &element[0], value, &format!("{place}[{at}]"), wrong);
                }
            }
            None => wrong.push(format!("{place}: {value} is no list")),
        },
        Value::Object(fields) => {
            let Some(values) = value.as_object() else {
                return wrong.push(format!("{place}: {value} is no object"));
            };
            for (name, shape) in fields {
                let (name, optional) =
                    name.strip_suffix('?').map_or((name.as_str(), false), |name| (name, true));
                match values.get(name) {
                    Some(value) => check(shapes, shape, value, &format!("{place}.{name}"), wrong),
                    None if optional => {}
                    None => wrong.push(format!("{place}.{name} is documented and not there")),
                }
            }
            for name in values.keys() {
                if !fields.contains_key(name) && !fields.contains_key(&format!("{name}?")) {
                    wrong.push(format!("{place}.{name} is there and not documented"));
                }
            }
        }
        other => panic!("{place}: {other} is no shape"),
    }
}

fn is(name: &str, value: &Value) {
    let shapes = shapes();
    let mut wrong = Vec::new();
    check(&shapes, &shapes[name], value, name, &mut wrong);
    assert!(wrong.is_empty(), "{}\nin {value}", wrong.join("\n"));
}

fn failed(world: &World, args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.push("--json");
    let ran = world.run(&all).expect_code(1);
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"))
}

#[test]
fn every_documented_shape_is_what_the_verbs_answer() {
    once(|world| {
        let made = world.json(&["new", "one"]);
        is("lane", &made[0]);
        world.write("one", "new", b"x\n");
        world.write("one", "src/lib.rs", b"//! Other.");
        world.write("one", crate::world::raw(b"odd\xff"), b"bytes \xff\n");
        world.write("one", ".envrc", b"export X=1\n");
        world.link("one", "new", "link");
        world.delete("one", "README.md");
        world.env.write(&world.project.join("src/lib.rs"), b"//! Host.\n");
        is("ls", &world.json(&["ls"]));
        is("show", &world.json(&["show"]));
        is("log", &world.json(&["log"]));
        is("snap", &world.json(&["snap", "-m", "one"]));
        world.write("one", "src/lib.rs", b"//! Once more.");
        is("snap", &world.json(&["snap"]));
        is("restore", &world.json(&["undo"]));
        is("restore", &world.json(&["redo"]));
        is("log", &world.json(&["log", "--all"]));
        is("log", &world.json(&["log", "--usage"]));
        is("show", &world.json(&["show"]));
        is("fork", &world.json(&["fork", "one", "two"]));
        is("fork", &world.json(&["fork", "one", "three", "--at", "one"]));
        world.write("two", "src/lib.rs", b"//! Two.");
        is("overlap", &world.json(&["overlap", "one", "two"]));
        let several = ["keep", "one", "--with", "two", "--dry-run", "--json"];
        for shape in [&["--conflicts", "ours"][..], &["--as", "patch", "-o", "../two.patch"]] {
            let planned = world.run(&[&several, shape].concat()).expect_code(1);
            let name = if shape[0] == "--as" { "patch" } else { "keep" };
            is(name, &serde_json::from_slice(&planned.stdout).expect("a document"));
        }
        for lane in ["two", "three"] {
            world.ok(&["discard", lane, "--now", "--yes"]);
        }
        let planned = world.run(&["gc", "--dry-run", "--budget", "0", "--json"]).expect_code(1);
        is("gc", &serde_json::from_slice(&planned.stdout).expect("a document"));
        is("gc", &world.json(&["gc", "--yes"]));
        is("fsck", &world.json(&["fsck"]));
        is("diff", &world.json(&["diff"]));
        is("diff", &world.json(&["diff", "--drift"]));
        is("policy", &world.json(&["policy", "show"]));
        world.env.write(
            &world.project.join("lane.toml"),
            b"[keep]\nonly = ['**']\ndeny = ['y']\nverify = 'true'\nmax_files = 50\nmax_bytes = '5M'\n",
        );
        is("policy", &world.json(&["policy", "show"]));
        let planned = world.run(&["keep", "--dry-run", "--json"]).expect_code(1);
        is("keep", &serde_json::from_slice(&planned.stdout).expect("a document"));
        let diff = world.json(&["diff"]);
        let hunks =
            diff["files"].as_array().unwrap().iter().flat_map(|file| file["hunks"].as_array().unwrap());
        let all: Vec<&str> = hunks.map(|hunk| hunk["id"].as_str().unwrap()).collect();
        let save =
            ["keep", "--hunk", &all.join(","), "--dry-run", "--json", "--save-selection", "../saved.json"];
        let planned = world.run(&save).expect_code(1);
        is("keep", &serde_json::from_slice(&planned.stdout).expect("a document"));
        let saved = std::fs::read(world.env.project("saved.json")).expect("saved");
        is("selection", &serde_json::from_slice(&saved).expect("a document"));
        let patched = ["keep", "--as", "patch", "-o", "../one.patch", "--json"];
        is("patch", &serde_json::from_slice(&world.run(&patched).expect_code(1).stdout).expect("a document"));
        let planned = world.run(&["keep", "--as", "commit", "--dry-run", "--json"]).expect_code(1);
        is("commit", &serde_json::from_slice(&planned.stdout).expect("a document"));
        is("commit", &world.json(&["keep", "new", "--as", "branch", "one", "--yes"]));
        let kept = world.run(&["keep", "--yes", "--json"]).expect_code(1);
        is("keep", &serde_json::from_slice(&kept.stdout).expect("a document"));
        is("gc", &world.json(&["gc", "--yes"]));
        is("undo-keep-list", &world.json(&["undo", "--keep", "--list"]));
        is("undo-keep", &world.json(&["undo", "--keep", "--dry-run"]));
        is("undo-keep", &world.json(&["undo", "--keep", "--yes"]));
        is("export", &world.json(&["export"]));
        is("doctor", &world.json(&["doctor"]));
        is(
            "bench",
            &world.json(&[
                "bench",
                "start",
                "--row",
                "version",
                "--row",
                "disk",
                "--rounds",
                "2",
                "--corpora",
                "/nonexistent",
            ]),
        );
        is(
            "bench",
            &world.json(&[
                "bench",
                "history",
                "--row",
                "watch",
                "--rounds",
                "1",
                "--corpora",
                "/nonexistent",
            ]),
        );
        is("discard", &world.json(&["discard"]));
        is("ls", &world.json(&["ls", "--discarded"]));
        is("lane", &world.json(&["recover"]));
        is("ran", &world.json(&["run", "-n", "one", "--", "true"]));
        is("ran", &world.json(&["run", "--rm", "--", "true"]));
        is("plan", &world.json(&["run", "--show-plan", "--", "true"]));
        is("show", &world.json(&["show", "one"]));
        is("log", &world.json(&["log", "one"]));
        is("ls", &world.json(&["ls"]));
        let limited = ["run", "-n", "one", "--timeout", "100ms", "--json", "--", "sleep", "60"];
        let limited = world.run(&limited).expect_code(124);
        is("ran", &serde_json::from_slice(&limited.stdout).expect("a document"));
        is("policy-check", &world.json(&["policy", "check"]));
        is("policy-diff", &world.json(&["policy", "diff"]));
        is("why", &world.json(&["why"]));
        is("fsck", &world.json(&["fsck"]));
        let records = world.ok(&["ledger", "--json"]).out();
        assert!(records.lines().count() > 20);
        records.lines().for_each(|line| is("ledger", &serde_json::from_str(line).expect("a document")));
        is("verify", &world.json(&["verify", "one", "--", "sh", "-c", "echo out"]));
        is("show", &world.json(&["show", "one"]));
        is("ls", &world.json(&["ls"]));
        world.ok(&["run", "-q", "-n", "one", "--", "sh", "-c", "git add new; git commit -qm new"]);
        let branch =
            world.run(&["keep", "one", "--as", "branch", "theirs", "--json", "--yes"]).expect_code(1);
        is("commit", &serde_json::from_slice(&branch.stdout).expect("a document"));
        is("stop", &world.json(&["stop", "one"]));
        let mut page = Running::start(world.env.lane(&world.project, &["web", "--json"]));
        page.wait_for("}", Duration::from_secs(60));
        is("web", &serde_json::from_str(&page.out_so_far()).expect("a document"));
        page.signal(rustix::process::Signal::TERM);
        page.wait(Duration::from_secs(60)).expect_code(0);
        is("error", &failed(world, &["show", "nonsense"]));
        is("error", &failed(world, &["export", "one", "src"]));
    });
}
