//! The tables of docs/walls.md, made from the attacks that the tests run and from the list of doors.

use std::fmt::Write as _;

/// The attacks, with the answers that the tests hold the walls to.
pub const TABLE: &str = "crates/cli/tests/attacks/table.toml";
/// The doors.
pub const DOORS: &str = "crates/sandbox/data/doors.toml";
/// The page.
pub const PAGE: &str = "docs/walls.md";
const BEGIN: &str = "<!-- tables: begin (written by `cargo xtask gen`) -->\n";
const END: &str = "<!-- tables: end -->";

/// The page with its tables made anew.
pub fn page(old: &str, attacks: &str, doors: &str) -> Result<String, String> {
    let (head, rest) =
        old.split_once(BEGIN).ok_or(format!("{PAGE}: the marks around the tables are missing"))?;
    let (_, tail) = rest.split_once(END).ok_or(format!("{PAGE}: the marks around the tables are missing"))?;
    Ok(format!("{head}{BEGIN}{}{}{END}{tail}", doors_of(doors)?, attacks_of(attacks)?))
}

fn list(text: &str, of: &str, key: &str) -> Result<Vec<toml::Table>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("{of}: {error}"))?;
    let rows = table.get(key).and_then(toml::Value::as_array).ok_or(format!("{of}: no {key}"))?;
    Ok(rows.iter().filter_map(|row| row.as_table().cloned()).collect())
}

fn doors_of(doors: &str) -> Result<String, String> {
    let mut text = String::from("\n## Doors\n\n| `--door` | through it a command can |\n|---|---|\n");
    for door in list(doors, DOORS, "door")? {
        let word = |key: &str| door.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {} |", word("name"), word("what"));
    }
    Ok(text)
}

fn attacks_of(attacks: &str) -> Result<String, String> {
    let rows = list(attacks, TABLE, "attack")?;
    let verdicts = |row: &toml::Table| -> (String, String) {
        let word = |key: &str| row.get(key).and_then(toml::Value::as_str);
        let answers = |key: &str| -> Vec<String> {
            let all = row.get(key).and_then(toml::Value::as_array);
            all.into_iter().flatten().filter_map(toml::Value::as_str).map(str::to_owned).collect()
        };
        // What a test of its own holds has its words; else the answers say it.
        let of = |answers: Vec<String>| match answers.iter().any(|answer| answer == "done") {
            true => "neither".to_owned(),
            false if answers == ["KeyError"] => "stopped (absent)".to_owned(),
            false => format!("stopped ({})", answers.join(" or ")),
        };
        let first = word("says").map_or_else(|| of(answers("namespaces")), str::to_owned);
        let second = word("says_landlock_only").map_or_else(|| of(answers("landlock_only")), str::to_owned);
        (first, second)
    };
    let mut text = String::new();
    let mut sums = [0usize; 2];
    let mut body = String::new();
    let mut group = String::new();
    for row in &rows {
        let word = |key: &str| row.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        if word("group") != group {
            group = word("group").to_owned();
            let _ = writeln!(body, "| **{group}** | | | |");
        }
        let (first, second) = verdicts(row);
        for (sum, verdict) in sums.iter_mut().zip([&first, &second]) {
            *sum += usize::from(verdict.starts_with("stopped"));
        }
        let _ = writeln!(body, "| `{}` | {} | {first} | {second} |", word("name"), word("does"));
    }
    let _ = write!(
        text,
        "\n## What each level stops\n\nOf {} attacks, `namespaces` stops {}, `landlock-only` {}. *Stopped* is with the answer that the \
         program gets; *neither* is that it goes through and nobody is told.\n\n| attack | what it does | `namespaces` | `landlock-only` |\n|---|---|---|---|\n{body}",
        rows.len(),
        sums[0],
        sums[1],
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, page};

    #[test]
    fn a_page_keeps_its_words_and_gets_its_tables() {
        let attacks = "[[attack]]\nname = \"a\"\ngroup = \"g\"\ndoes = \"d\"\nnamespaces = [\"EPERM\"]\nlandlock_only = [\"done\"]\n";
        let doors = "[[door]]\nname = \"n\"\nwhat = \"w\"\n";
        let page = page(&format!("head\n{BEGIN}STALE{END}tail\n"), attacks, doors).expect("a page");
        assert!(page.starts_with("head\n") && page.ends_with("tail\n") && !page.contains("STALE"));
        assert!(
            page.contains("| `a` | d | stopped (EPERM) | neither |") && page.contains("| `n` | w |"),
            "{page}"
        );
        assert!(page.contains("Of 1 attacks, `namespaces` stops 1, `landlock-only` 0."), "{page}");
    }
}
