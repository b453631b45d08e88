//! The file `format`: what kind of store this is, as text that a person can read.
//!
//! ```text
//! lanekeeper store
//! version 1
//! incompat
//! ro-compat
//! ```
//!
//! Invariant: a program that does not know a word behind `incompat` reads nothing, one that does not know a word behind
//! `ro-compat` writes nothing. Lines that begin otherwise are for later versions to add and mean nothing to this one.

use crate::error::FormatProblem;

/// The file's name.
pub(crate) const NAME: &[u8] = b"format";

const TITLE: &str = "lanekeeper store";
const VERSION: &str = "1";
/// Features of either kind that this program knows. None yet.
const KNOWN_INCOMPAT: &[&str] = &[];
const KNOWN_RO_COMPAT: &[&str] = &[];

/// The file of a new store.
pub(crate) fn text() -> String {
    format!("{TITLE}\nversion {VERSION}\nincompat\nro-compat\n")
}

/// What may be done with the store that this file stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permitted {
    /// Why nothing may be written.
    pub(crate) read_only: Option<FormatProblem>,
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Permitted, FormatProblem> {
    let text = std::str::from_utf8(bytes).map_err(|_| FormatProblem::NotAStore)?;
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return Err(FormatProblem::NotAStore);
    }
    let (mut version, mut read_only) = (None, None);
    for line in lines {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("version") => version = words.next(),
            Some("incompat") => {
                if let Some(unknown) = unknown(words, KNOWN_INCOMPAT) {
                    return Err(FormatProblem::Incompat(unknown));
                }
            }
            Some("ro-compat") => {
                read_only = unknown(words, KNOWN_RO_COMPAT).map(FormatProblem::ReadOnly);
            }
            _ => {}
        }
    }
    match version {
        Some(VERSION) => Ok(Permitted { read_only }),
        Some(other) => Err(FormatProblem::Version(other.to_owned())),
        None => Err(FormatProblem::NotAStore),
    }
}

fn unknown<'a>(words: impl Iterator<Item = &'a str>, known: &[&str]) -> Option<String> {
    let unknown: Vec<&str> = words.filter(|word| !known.contains(word)).collect();
    (!unknown.is_empty()).then(|| unknown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_this_version_may_be_written_and_later_features_say_what_may_not() {
        assert_eq!(parse(text().as_bytes()), Ok(Permitted { read_only: None }));
        let with = |words: &str| parse(format!("{TITLE}\nversion 1\n{words}\n").as_bytes());
        assert_eq!(with("hint something"), Ok(Permitted { read_only: None }));
        assert_eq!(with("incompat zstd"), Err(FormatProblem::Incompat("zstd".to_owned())));
        let reading = with("ro-compat tags").expect("may be read");
        assert_eq!(reading.read_only, Some(FormatProblem::ReadOnly("tags".to_owned())));
        assert_eq!(parse(b"lanekeeper store\nversion 2\n"), Err(FormatProblem::Version("2".to_owned())));
        for bad in [b"" as &[u8], b"\xff", b"lanekeeper store\n", b"else\nversion 1\n"] {
            assert_eq!(parse(bad), Err(FormatProblem::NotAStore));
        }
    }
}
