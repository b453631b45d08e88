//! B38, as a whole: everything that a lane can do to a file or directory, by everything that can have become of it in the
//! original meanwhile. The same table stands in docs/keep.md.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::Value;

use crate::three_way::recorded;
use crate::world::{World, each, word};

/// What a lane does, in the shell, in the directory of the cell.
const LANE: [(&str, &str); 7] = [
    ("adds a file", "echo lane > sub/new"),
    ("changes it", "sed -i 's/^5$/lane/' f"),
    ("deletes it", "rm f"),
    ("gives it another mode", "chmod 600 f"),
    ("makes it a link", "ln -sfn dir/x f"),
    ("renames it", "mv f g"),
    ("makes a directory a file", "rm -r dir; echo lane > dir"),
];

/// What becomes of it in the original: of the directory that the file is added to, of the file, of the directory.
const ORIGINAL: [(&str, [&str; 3]); 9] = [
    ("the same", [":", ":", ":"]),
    ("changed", ["echo user > sub/new", "sed -i 's/^15$/user/' f", "sed -i 's/^5$/user/' dir/x"]),
    ("another mode", ["chmod 700 sub", "chmod 640 f", "chmod 700 dir"]),
    ("deleted", ["rm -r sub", "rm f", "rm -r dir"]),
    ("renamed", ["mv sub other", "mv f h", "mv dir other"]),
    (
        "another type",
        ["rm -r sub; echo user > sub", "rm f; mkdir f; echo user > f/z", "rm -r dir; mkfifo dir"],
    ),
    ("a link", ["rm -r sub; ln -s dir sub", "ln -sfn dir/y f", "rm -r dir; ln -s sub dir"]),
    ("read-only", ["chmod 555 sub .", "chmod 555 .", "chmod 555 ."]),
    ("in use", [":", ":", ":"]),
];

/// What comes of it. `kept`: the lane's change arrives as it is; `both`: the changes of both are there; `there`: nothing is
/// left to be done; anything else is the conflict that stops it, and the original stays as it is.
const TABLE: [[&str; 9]; 7] = [
    ["kept", "added-in-both", "kept", "kept", "both", "not-in-directory", "not-in-directory", "kept", "kept"],
    ["kept", "both", "both", "deleted-in-original", "both", "type", "type", "kept", "kept"],
    [
        "kept",
        "deleted-in-lane",
        "deleted-in-lane",
        "there",
        "there",
        "deleted-in-lane",
        "deleted-in-lane",
        "kept",
        "kept",
    ],
    ["kept", "both", "mode", "deleted-in-original", "both", "type", "type", "kept", "kept"],
    ["kept", "type", "type", "deleted-in-original", "renamed-in-original", "type", "type", "kept", "kept"],
    ["kept", "both", "both", "kept", "kept", "type", "type", "kept", "kept"],
    [
        "kept",
        "deleted-in-lane",
        "type",
        "deleted-in-original",
        "renamed-in-original",
        "type",
        "type",
        "kept",
        "kept",
    ],
];

/// What stands in the cell afterwards, beside what both sides left alone: for `kept` by row, for `both` by row and column.
fn wanted(row: usize, column: usize) -> Vec<&'static str> {
    match (row, TABLE[row][column], column) {
        // The directory is made again, for the new file alone.
        (0, "kept", 3) => vec!["-sub/k", "sub/new 644 1:lane"],
        (0, "kept", 2) => vec!["sub 700", "sub/new 644 1:lane"],
        (0, "kept", 7) => vec![" 555", "sub 555", "sub/new 644 1:lane"],
        (0, "kept", _) => vec!["sub/new 644 1:lane"],
        (0, "both", _) => {
            vec!["-sub", "-sub/k", "other 755", "other/k 644", "other/new 644 1:lane"]
        }
        (1, "kept", 7) => vec![" 555", "f 644 5:lane"],
        (1, "kept", _) => vec!["f 644 5:lane"],
        (1, "both", 1) => vec!["f 644 5:lane 15:user"],
        (1, "both", 2) => vec!["f 640 5:lane"],
        (1, "both", _) => vec!["-f", "h 644 5:lane"],
        (2, "kept", 7) => vec![" 555", "-f"],
        (2, _, 4) => vec!["-f", "h 644"],
        (2, ..) => vec!["-f"],
        (3, "kept", 7) => vec![" 555", "f 600"],
        (3, "kept", _) => vec!["f 600"],
        (3, "both", 1) => vec!["f 600 15:user"],
        (3, "both", _) => vec!["-f", "h 600"],
        (4, "kept", 7) => vec![" 555", "f -> dir/x"],
        (4, ..) => vec!["f -> dir/x"],
        (5, "kept", 7) => vec![" 555", "-f", "g 644"],
        // Both names are there: nobody's file is lost.
        (5, "kept", 4) => vec!["-f", "g 644", "h 644"],
        (5, "kept", _) => vec!["-f", "g 644"],
        (5, "both", 1) => vec!["-f", "g 644 15:user"],
        (5, "both", _) => vec!["-f", "g 640"],
        (6, "kept", 7) => vec![" 555", "-dir/x", "-dir/y", "dir 644 1:lane"],
        _ => vec!["-dir/x", "-dir/y", "dir 644 1:lane"],
    }
}

fn cell(row: usize, column: usize) -> String {
    format!("c{row}{column}")
}

/// A directory as lines: path, mode, and the lines that are not the numbers from 1 on; a link by its target.
fn facts(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let at = top.join(&path);
        let meta = fs::symlink_metadata(&at).unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        let text = if meta.is_symlink() {
            format!("{path} -> {}", fs::read_link(&at).unwrap().display())
        } else if meta.file_type().is_fifo() {
            format!("{path} {mode:o} fifo")
        } else if meta.is_dir() {
            for entry in fs::read_dir(&at).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                open.push(if path.is_empty() { name } else { format!("{path}/{name}") });
            }
            format!("{path} {mode:o}")
        } else {
            let content = fs::read_to_string(&at).unwrap();
            // Each file has a line of its own, so that none is taken for another one's new name.
            let is_base = |at: usize, line: &str| line == (at + 1).to_string() || line.starts_with('#');
            let others = content.lines().enumerate().filter(|(at, line)| !is_base(*at, line));
            let others: Vec<String> = others.map(|(at, line)| format!(" {}:{line}", at + 1)).collect();
            format!("{path} {mode:o}{}", others.concat())
        };
        found.insert(path, text);
    }
    found
}

/// What differs from `before`, as [`wanted`] says it.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let gone = before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("-{path}"));
    let new =
        after.iter().filter(|(path, text)| before.get(*path) != Some(text)).map(|(_, text)| text.clone());
    let mut found: Vec<String> = gone.chain(new).collect();
    found.sort();
    found
}

fn sh(world: &World, script: &str) {
    world.env.host(&world.project, "sh", &["-ec", script]).expect_code(0);
}

/// What the keep said of a cell: the conflicts, by their words.
fn conflicts(kept: &Value, cell: &str) -> Vec<String> {
    let inside = |at: &&Value| word(&at["path"]).starts_with(&format!("{cell}/"));
    kept["conflicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(inside)
        .map(|at| word(&at["what"]).to_owned())
        .collect()
}

#[test]
fn b38_every_change_of_a_lane_meets_every_state_of_the_original_as_the_table_says() {
    each(|world| {
        let cells: Vec<(usize, usize)> =
            (0..LANE.len()).flat_map(|row| (0..ORIGINAL.len()).map(move |column| (row, column))).collect();
        for (row, column) in &cells {
            let name = cell(*row, *column);
            sh(
                world,
                &format!(
                    "mkdir {name}; cd {name}; mkdir sub dir; echo 1 > sub/k; seq 20 > f; seq 9 > dir/x; seq 9 > dir/y; echo '# {name} f' >> f; echo '# {name} x' >> dir/x; echo '# {name} y' >> dir/y; chmod 755 . sub dir; chmod 644 f sub/k dir/x dir/y"
                ),
            );
        }
        let base = facts(&world.project.join("c00"));
        sh(world, "git add -A; git commit -qm cells");
        world.lane("a");
        let work: Vec<String> = cells
            .iter()
            .map(|(row, column)| format!("(cd {}; {})", cell(*row, *column), LANE[*row].1))
            .collect();
        world.sh("a", &format!("umask 022; {}", work.join("; ")));
        recorded(world);
        let mut open = Vec::new();
        for (row, column) in &cells {
            let name = cell(*row, *column);
            let which = match row {
                0 => 0,
                6 => 2,
                _ => 1,
            };
            sh(world, &format!("umask 022; cd {name}; {}", ORIGINAL[*column].1[which]));
            if ORIGINAL[*column].0 == "in use" {
                let file = world.project.join(&name).join(["sub/k", "f", "dir/x"][which]);
                open.push((File::open(&file).unwrap(), fs::read(&file).unwrap()));
            }
        }
        let before: BTreeMap<String, BTreeMap<String, String>> = cells
            .iter()
            .map(|(row, column)| cell(*row, *column))
            .map(|name| (name.clone(), facts(&world.project.join(&name))))
            .collect();
        let planned = world.run(&["keep", "a", "--dry-run", "--json"]).expect_code(1);
        for name in before.keys() {
            assert_eq!(before[name], facts(&world.project.join(name)), "{name}: a plan writes nothing");
        }
        let kept = world.run(&["keep", "a", "--yes", "--json"]).expect_code(1);
        let (planned, kept): (Value, Value) =
            (serde_json::from_slice(&planned.stdout).unwrap(), serde_json::from_slice(&kept.stdout).unwrap());
        assert_eq!(planned["conflicts"], kept["conflicts"]);
        assert_eq!(planned["merged"], kept["merged"]);
        let mut wrong = Vec::new();
        for (row, column) in &cells {
            let name = cell(*row, *column);
            let now = facts(&world.project.join(&name));
            let outcome = TABLE[*row][*column];
            let told = conflicts(&kept, &name);
            let is_settled = matches!(outcome, "kept" | "both" | "there");
            let found = differences(&base, &now);
            let right = if is_settled {
                let mut wanted = wanted(*row, *column);
                wanted.sort_unstable();
                told.is_empty() && found == wanted
            } else {
                told.iter().any(|what| what == outcome) && now == before[&name]
            };
            if !right {
                wrong.push(format!(
                    "{name}: the lane {}, the original {}: {outcome}\n  told {told:?}\n  found {found:?}\n  before {:?}",
                    LANE[*row].0,
                    ORIGINAL[*column].0,
                    differences(&base, &before[&name])
                ));
            }
        }
        assert!(wrong.is_empty(), "{:?} {:?}\n{}", world.who(), world.made, wrong.join("\n"));
        for (mut file, was) in open {
            let mut now = Vec::new();
            file.read_to_end(&mut now).unwrap();
            assert_eq!(now, was, "whoever has a file open keeps what it had");
        }
        // Once more: what arrived is not to be kept again, and what stopped has stopped still.
        let again = world.run(&["keep", "a", "--yes", "--json"]).expect_code(1);
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["kept"], serde_json::json!([]), "{:?} {:?}", world.who(), world.made);
        assert_eq!(again["conflicts"], kept["conflicts"]);
        sh(world, "chmod -R u+rwX .");
    });
}

#[test]
fn the_table_of_the_documents_is_this_one() {
    let text = include_str!("../../../../docs/keep.md");
    let row = |words: &[&str]| format!("| {} |", words.join(" | "));
    let head: Vec<&str> = std::iter::once("the lane").chain(ORIGINAL.iter().map(|column| column.0)).collect();
    let mut wanted = vec![row(&head), row(&vec!["---"; head.len()])];
    for (at, (name, _)) in LANE.iter().enumerate() {
        let words: Vec<&str> = std::iter::once(*name).chain(TABLE[at]).collect();
        wanted.push(row(&words));
    }
    let wanted = wanted.join("\n");
    assert!(text.contains(&wanted), "docs/keep.md should hold\n{wanted}");
}
