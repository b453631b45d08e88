//! Names of lanes: made from two short word lists where none is given, checked where one is.
//!
//! Invariant: a valid name is plain ASCII without a slash, so that it needs no quoting in a shell, a
//! path or a branch name, and is never taken for an option or a REF.

use crate::clock;
use crate::error::{EngineError, Result};

const FIRST: [&str; 32] = [
    "amber", "brave", "brisk", "calm", "clear", "crisp", "dapper", "eager", "early", "fair", "fleet",
    "gentle", "glad", "keen", "kind", "light", "lucid", "mellow", "merry", "neat", "noble", "plain", "proud",
    "quick", "quiet", "sharp", "silver", "still", "sunny", "swift", "tidy", "warm",
];
const SECOND: [&str; 32] = [
    "badger", "beaver", "bison", "crane", "curlew", "dove", "eagle", "ermine", "falcon", "finch", "fox",
    "gecko", "hare", "heron", "ibis", "jay", "kite", "lark", "lynx", "marten", "newt", "otter", "owl",
    "panda", "plover", "raven", "robin", "seal", "stork", "swan", "tern", "wren",
];

/// A name that `taken` does not know.
pub fn generate(taken: impl Fn(&str) -> bool) -> String {
    for _ in 0..16 {
        let name = pick(clock::random());
        if !taken(&name) {
            return name;
        }
    }
    // 1,024 names are nearly used up: the id's alphabet gives enough more.
    format!("{}-{}", pick(clock::random()), clock::new_id())
}

fn pick(bits: u64) -> String {
    let word = |list: &[&'static str; 32], shift: u32| list[usize::try_from(bits >> shift & 31).unwrap_or(0)];
    format!("{}-{}", word(&FIRST, 0), word(&SECOND, 16))
}

/// Refuses what cannot be a name.
pub fn check(name: &str) -> Result<()> {
    let bad = |why| Err(EngineError::BadName { name: name.to_owned(), why });
    if name.is_empty() {
        return bad("it is empty");
    }
    if name.len() > 64 {
        return bad("it is longer than 64 characters");
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return bad("only ASCII letters, digits, '-', '_' and '.' can stand in it");
    }
    if !name.as_bytes()[0].is_ascii_alphanumeric() {
        return bad("it does not begin with a letter or a digit");
    }
    if name.contains("..") || name.ends_with('.') || name.ends_with(".lock") {
        return bad("git would refuse it as a branch name");
    }
    if matches!(name, "base" | "now" | "origin") {
        return bad("the word names a state of every lane");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FIRST, SECOND, check, generate, pick};

    #[test]
    fn every_generated_name_is_valid() {
        for bits in 0..32u64 {
            for other in 0..32u64 {
                check(&pick(bits | other << 16)).expect("valid");
            }
        }
        assert_eq!(FIRST.len() * SECOND.len(), 1024);
    }

    #[test]
    fn a_name_is_found_when_all_pairs_are_taken() {
        let name = generate(|name| name.matches('-').count() == 1);
        check(&name).expect("valid");
    }

    #[test]
    fn names_that_need_quoting_or_mean_something_else_are_refused() {
        for bad in [
            "",
            "-x",
            ".x",
            "a b",
            "a/b",
            "ä",
            "a\n",
            "base",
            "now",
            "origin",
            "a..b",
            "a.lock",
            "x\u{202e}y",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        check("fix-auth_2.1").expect("valid");
        assert!(check(&"x".repeat(65)).is_err());
    }
}
