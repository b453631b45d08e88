//! Merges of contents against `git merge-file`, with thousands of random contents: the same verdict and, where it is
//! clean, the same bytes.

use std::path::Path;
use std::process::Command;

use review::merge::{Merged, Three, merge};
use testkit::Dice;

/// Merges with git, which obeys no configuration but its own defaults: clean content, or the number of conflicts.
fn git(dir: &Path, three: Three<'_>) -> Result<Vec<u8>, i32> {
    for (name, content) in [("base", three.base), ("ours", three.ours), ("theirs", three.theirs)] {
        std::fs::write(dir.join(name), content).expect("write");
    }
    let output = Command::new(testkit::require::program("git"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C")
        .current_dir(dir)
        .args(["merge-file", "-p", "-q", "ours", "base", "theirs"])
        .output()
        .expect("git");
    match output.status.code() {
        Some(0) => Ok(output.stdout),
        Some(code @ 1..=127) => Err(code),
        other => panic!("git ended with {other:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn line(dice: &mut Dice) -> Vec<u8> {
    let words: [&[u8]; 7] = [b"a", b"b", b"}", b"", b"\xff\xfe", b"\ta", b"longer line"];
    words[dice.below(words.len())].to_vec()
}

fn content(dice: &mut Dice, most: usize) -> Vec<Vec<u8>> {
    (0..dice.below(most + 1)).map(|_| line(dice)).collect()
}

fn edited(dice: &mut Dice, base: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut lines = base.to_vec();
    for _ in 0..dice.below(4) {
        let at = dice.below(lines.len() + 1);
        let end = (at + dice.below(3)).min(lines.len());
        let put = content(dice, 2);
        lines.splice(at..end, put);
    }
    lines
}

fn bytes(lines: &[Vec<u8>], ending: &[u8], is_closed: bool) -> Vec<u8> {
    let mut bytes = lines.join(ending);
    if is_closed && !lines.is_empty() {
        bytes.extend_from_slice(ending);
    }
    bytes
}

#[test]
fn a_merge_has_the_verdict_and_the_clean_content_of_git() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut dice = Dice::of_seed(Dice::seed("merges"));
    let (mut clean, mut conflicts, mut asked) = (0, 0, 0);
    for round in 0..1500 {
        let base = content(&mut dice, 24);
        let (ours, theirs) = (edited(&mut dice, &base), edited(&mut dice, &base));
        let ending: &[u8] = if round % 3 == 0 { b"\r\n" } else { b"\n" };
        let mut whole = |lines: &[Vec<u8>]| bytes(lines, ending, dice.below(6) > 0);
        let (base, ours, theirs) = (whole(&base), whole(&ours), whole(&theirs));
        let three = Three { base: &base, ours: &ours, theirs: &theirs };
        let shown = || {
            let text = |content: &[u8]| content.escape_ascii().to_string();
            format!("round {round}\nbase   {}\nours   {}\ntheirs {}", text(&base), text(&ours), text(&theirs))
        };
        match (merge(three), git(dir.path(), three)) {
            (Merged::Clean(merged), Ok(wanted)) => {
                assert_eq!(merged, wanted, "{}", shown());
                clean += 1;
            }
            (Merged::Conflict(regions), Err(_)) => {
                assert!(!regions.is_empty(), "{}", shown());
                conflicts += 1;
            }
            // Lines that repeat can be told apart in several ways, and we ask a person where git does not.
            (Merged::Conflict(_), Ok(_)) => asked += 1,
            (ours, gits) => panic!("{}\n{ours:?}\ngit {gits:?}", shown()),
        }
    }
    testkit::require::say(&format!(
        "merges: {clean} clean, {conflicts} conflicts, {asked} where git has none"
    ));
    assert!(clean > 300 && conflicts > 300, "{clean} clean, {conflicts} conflicts");
    assert!(asked * 20 < clean, "{asked} of {clean} that git merges are conflicts here");
}
