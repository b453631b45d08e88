//! What is generated: the list of files in ARCHITECTURE.md, made from the first sentence of each file's `//!` head, so that
//! it cannot drift from the files, and the pages that are made from tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::source::{self, Outcome, Source};
use crate::{attacks, syscalls};

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

/// Rewrites what is generated.
pub fn write() -> Outcome {
    for made in pages()? {
        if made.old != made.new {
            let page = made.page;
            std::fs::write(source::top().join(page), made.new)
                .map_err(|error| vec![format!("{page}: {error}")])?;
        }
    }
    Ok(())
}

/// Complains where something is not what [`write`] would make.
pub fn check() -> Outcome {
    let mut complaints = Vec::new();
    for Made { page, old, new } in pages()? {
        if old == new {
            continue;
        }
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let (old, new) = (lines(&old), lines(&new));
        complaints.push(format!("{page}: what is generated in it is old; run `cargo xtask gen`"));
        complaints.extend(old.difference(&new).map(|line| format!("  - {line}")));
        complaints.extend(new.difference(&old).map(|line| format!("  + {line}")));
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints) }
}

/// A page as it is, and as it should be.
struct Made {
    page: &'static str,
    old: String,
    new: String,
}

fn pages() -> Result<Vec<Made>, Vec<String>> {
    let files = source::all()?;
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.clone());
    let table = text(syscalls::TABLE).ok_or_else(|| vec![format!("{} is missing", syscalls::TABLE)])?;
    let calls = Made {
        page: syscalls::PAGE,
        old: text(syscalls::PAGE).unwrap_or_default(),
        new: syscalls::page(&table).map_err(|error| vec![error])?,
    };
    let needed = |path: &str| text(path).ok_or_else(|| vec![format!("{path} is missing")]);
    let old = needed(attacks::PAGE)?;
    let new = attacks::page(&old, &needed(attacks::TABLE)?, &needed(attacks::DOORS)?);
    let walls = Made { page: attacks::PAGE, old, new: new.map_err(|error| vec![error])? };
    let old = text(PAGE).ok_or_else(|| vec![format!("{PAGE} is missing")])?;
    let outside = || vec![format!("{PAGE}: the marks around the list of files are missing")];
    let (head, rest) = old.split_once(BEGIN).ok_or_else(outside)?;
    let (_, tail) = rest.split_once(END).ok_or_else(outside)?;
    let new = format!("{head}{BEGIN}{}{END}{tail}", list(&files));
    Ok(vec![Made { page: PAGE, old, new }, calls, walls])
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
