//! The project's text speaks of the project alone: no numbers of a tracker, no host names of package
//! registries, no paths of one machine, no word about who wrote it.
//!
//! The words themselves are put together from halves here, so that this file passes its own check.

use crate::source::Source;

/// Words that stand nowhere. The text is compared in lower case.
const NOWHERE: &[&str] = &[
    concat!("sub", "agent"),
    concat!("crates", ".io"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("py", "pi.org"),
    concat!("deb.", "debian.org"),
    concat!("archive.", "ubuntu.com"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/."),
    concat!("/var/tmp/", "target-"),
    concat!("/tmp/", "spec"),
];

/// Words that stand nowhere as whole words, spelt exactly so.
const WHOLE: &[&str] = &[concat!("C", "EO")];

/// A word of the kernel's own vocabulary that must not be used for anything else.
const SITTING: &str = concat!("ses", "sion");
/// Crates that speak of setsid(2) and terminals.
const SITTING_HOMES: &[&str] = &["crates/kernel/", "crates/sandbox/", "crates/testkit/src/pty.rs"];
/// Where it is the kernel's word anywhere else, or a name in somebody else's data.
const SITTING_ALLOWED: &[&str] = &[
    " leader",
    " keyring",
    " (setsid",
    " of its own",
    "s/",
    "_id",
    "-id",
    "id\"",
    "_bus",
    "-bus",
    " bus",
    ".json",
    "\"",
    "`",
];

/// Complains about every such word, with its line.
pub fn check(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    // One file names registries on purpose: the hosts that a lane may be allowed to reach.
    const NAMES_HOSTS: &str = "crates/egress/data/hosts.toml";
    for file in files.iter().filter(|file| file.path != "Cargo.lock" && file.path != NAMES_HOSTS) {
        for (index, line) in file.text.lines().enumerate() {
            let home = SITTING_HOMES.iter().any(|home| file.path.starts_with(home));
            let data = home || file.path.ends_with(".toml");
            if let Some(word) = offence(line, data) {
                complaints.push(format!(
                    "{}:{}: `{word}` does not belong in the project's text",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    complaints
}

fn offence(line: &str, data: bool) -> Option<String> {
    let lower = line.to_lowercase();
    if let Some(word) = NOWHERE.iter().find(|word| lower.contains(**word)) {
        return Some((*word).to_owned());
    }
    let whole = |word: &&&str| line.split(|c: char| !c.is_alphanumeric()).any(|part| part == **word);
    if let Some(word) = WHOLE.iter().find(whole) {
        return Some((*word).to_owned());
    }
    let sitting = lower.match_indices(SITTING).any(|(at, _)| {
        let rest = &lower[at + SITTING.len()..];
        !SITTING_ALLOWED.iter().any(|allowed| rest.starts_with(allowed))
    });
    if sitting && !data {
        return Some(SITTING.to_owned());
    }
    tracker_number(&lower)
}

/// A tracker's word with a number after it, or a bare number sign and number after a space or a bracket.
fn tracker_number(lower: &str) -> Option<String> {
    let digits = |rest: &str| rest.trim_start_matches('#').starts_with(|c: char| c.is_ascii_digit());
    for word in ["issue ", "issues ", "pull request "] {
        if lower.match_indices(word).any(|(at, _)| digits(&lower[at + word.len()..])) {
            return Some(format!("{word}N"));
        }
    }
    let bare = lower.match_indices('#').any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let number = lower[at + 1..].split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        matches!(before, None | Some(' ' | '('))
            && !number.is_empty()
            && number.len() < 6
            && number.chars().all(|c| c.is_ascii_digit())
    });
    bare.then(|| "#N".to_owned())
}

#[cfg(test)]
mod tests {
    use super::offence;

    #[test]
    fn numbers_of_a_tracker_are_found_and_colours_and_attributes_are_not() {
        for bad in [concat!("see issue", " 2"), concat!("as said (#", "12)"), concat!("#", "3 is done")] {
            assert!(offence(bad, false).is_some(), "{bad}");
        }
        for good in ["#[test]", "a #ffffff colour", "r#\"x\"#", "${#list[@]}", "# 3 things", "&#39;"] {
            assert_eq!(offence(good, false), None, "{good}");
        }
    }

    #[test]
    fn the_kernels_word_for_a_group_of_process_groups_may_stand() {
        assert_eq!(offence(concat!("the ses", "sion leader"), false), None);
        assert!(offence(concat!("an earlier ses", "sion"), false).is_some());
        assert_eq!(offence(concat!("path = \"~/.x/ses", "sions\""), true), None);
    }
}
