//! The list of files in ARCHITECTURE.md, made from the first sentence of each file's `//!` head, so that
//! it cannot drift from the files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::source::{self, Outcome, Source};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- files: begin (written by `cargo xtask gen`) -->\n";
const END: &str = "<!-- files: end -->";

/// Where the crates stand in the list: from the bottom floor up, then what is off the floors.
const ORDER: &[&str] = &[
    "crates/kernel",
    "crates/tree",
    "crates/workspace",
    "crates/store",
    "crates/sandbox",
    "crates/ledger",
    "crates/review",
    "crates/engine",
    "crates/cli",
    "crates/testkit",
    "xtask",
];

/// Rewrites the list.
pub fn write() -> Outcome {
    let (old, new) = pages()?;
    if old != new {
        std::fs::write(source::top().join(PAGE), new).map_err(|error| vec![format!("{PAGE}: {error}")])?;
    }
    Ok(())
}

/// Complains where the list is not what [`write`] would make.
pub fn check() -> Outcome {
    let (old, new) = pages()?;
    if old == new {
        return Ok(());
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let (old, new) = (lines(&old), lines(&new));
    let mut complaints = vec![format!("{PAGE}: the list of files is old; run `cargo xtask gen`")];
    complaints.extend(old.difference(&new).map(|line| format!("  - {line}")));
    complaints.extend(new.difference(&old).map(|line| format!("  + {line}")));
    Err(complaints)
}

/// The page as it is, and as it should be.
fn pages() -> Result<(String, String), Vec<String>> {
    let files = source::all()?;
    let page = files.iter().find(|file| file.path == PAGE);
    let old = page.ok_or_else(|| vec![format!("{PAGE} is missing")])?.text.clone();
    let outside = || vec![format!("{PAGE}: the marks around the list of files are missing")];
    let (head, rest) = old.split_once(BEGIN).ok_or_else(outside)?;
    let (_, tail) = rest.split_once(END).ok_or_else(outside)?;
    let new = format!("{head}{BEGIN}{}{END}{tail}", list(&files));
    Ok((old, new))
}

fn list(files: &[Source]) -> String {
    let mut crates: BTreeMap<usize, Vec<(&str, String)>> = BTreeMap::new();
    // A `tests.rs` is the inline tests of the file that it lies beside.
    for file in files.iter().filter(|file| file.is_rust() && !file.path.ends_with("/tests.rs")) {
        let found = ORDER.iter().position(|place| file.path.starts_with(&format!("{place}/")));
        let Some(index) = found else { continue };
        let within = &file.path[ORDER[index].len() + 1..];
        crates
            .entry(index)
            .or_default()
            .push((within.strip_prefix("src/").unwrap_or(within), head(&file.text)));
    }
    let mut text = String::new();
    for (index, mut lines) in crates {
        // A crate's own head comes first: it says what the rest is for.
        lines.sort_by_key(|(path, _)| {
            (!matches!(*path, "lib.rs" | "main.rs"), path.contains("tests/"), *path)
        });
        let _ = writeln!(text, "\n**`{}`**\n", ORDER[index]);
        for (path, sentence) in lines {
            let _ = writeln!(text, "- `{path}` {sentence}");
        }
    }
    text.push('\n');
    text
}

/// The first sentence of the `//!` head, with links between brackets made plain code.
fn head(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with("//!") && line.trim() != "//!");
    let words: Vec<&str> = lines.map(|line| line.trim_start_matches("//!").trim()).collect();
    let paragraph = words.join(" ").replace("[`", "`").replace("`]", "`");
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    paragraph[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn the_head_is_the_first_sentence_over_line_ends() {
        let text = "//! [`Act`]: one transaction\n//! or none. More.\n//!\n//! Else.\nuse x;\n";
        assert_eq!(head(text), "`Act`: one transaction or none");
    }
}
