//! The table of cases says where each is tried: a file that it names has a test named after the number, and a test that
//! is named after a number is in the table.

use crate::source::Source;

const TABLE: &str = "docs/cases.md";
const TESTS: &str = "crates/cli/tests/";

/// Complains about a row without its test, and a test without its row.
pub fn check(files: &[Source]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else {
        return vec![format!("{TABLE} is missing")];
    };
    let rows: Vec<(&str, Vec<&str>)> = table.text.lines().filter_map(row).collect();
    let mut complaints = Vec::new();
    for (case, places) in &rows {
        for place in places {
            let path = format!("{TESTS}{place}");
            let found = files.iter().find(|file| file.path == path);
            if !found.is_some_and(|file| tried(&file.text).contains(&case.to_lowercase())) {
                complaints.push(format!("{TABLE}: {case} is not tried in {path}"));
            }
        }
    }
    for file in files {
        let Some(place) = file.path.strip_prefix(TESTS) else { continue };
        for case in tried(&file.text) {
            let is_told = rows
                .iter()
                .any(|(known, places)| known.eq_ignore_ascii_case(&case) && places.contains(&place));
            if !is_told {
                complaints.push(format!("{}: the row of {} in {TABLE} does not say so", file.path, case));
            }
        }
    }
    complaints
}

/// Number and files of a row of the table.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, case, _, places, _] = cells[..] else { return None };
    is_case(&case.to_lowercase()).then(|| (case, places.split('`').skip(1).step_by(2).collect()))
}

/// The cases that tests of a file are named after: `b46_b47_what_holds` is both.
fn tried(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
    let mut cases: Vec<String> =
        names.flat_map(|name| name.split('_').take_while(|part| is_case(part))).map(str::to_owned).collect();
    cases.sort();
    cases.dedup();
    cases
}

fn is_case(word: &str) -> bool {
    word.len() == 3 && word.starts_with('b') && word[1..].bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{check, tried};
    use crate::source::Source;

    fn files(table: &str, test: &str) -> Vec<Source> {
        let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        vec![file("docs/cases.md", table), file("crates/cli/tests/cases/git.rs", test)]
    }

    #[test]
    fn a_row_and_its_test_belong_together() {
        let test = "#[test]\nfn b01_a_commit_works() {\n";
        let row = "| case | what | tests |\n|---|---|---|\n| B01 | it works | `cases/git.rs` |\n";
        assert_eq!(check(&files(row, test)), Vec::<String>::new());
        assert_eq!(check(&files(row, "fn other() {\n")).len(), 1);
        assert_eq!(check(&files("", test)).len(), 1);
        assert_eq!(check(&files(&row.replace("git.rs", "gone.rs"), test)).len(), 2);
    }

    #[test]
    fn a_test_may_be_of_several_cases_and_other_names_are_of_none() {
        assert_eq!(tried("fn b46_b47_a_wall() {\nfn bytes_of() {\n    fn b1_x() {\n"), ["b46", "b47"]);
    }
}
