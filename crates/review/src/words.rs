//! Which words of changed lines changed: within a run of removed lines and the added ones that follow it. For who shows
//! lines; nothing is kept by it.
//!
//! Invariant: what is not marked is, in its order, the same bytes on both sides. Runs that are long, or that have too
//! little in common, have no marks: there it says nothing that the lines do not say.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, InternedInput};

use crate::diff::{Hunk, LineKind};

/// No more lines of one kind are looked at together.
const LINES: usize = 200;
/// No more bytes of one side.
const BYTES: usize = 32 << 10;
/// One part in so many has to be the same.
const ALIKE: usize = 3;

/// Removed lines and the added ones that stand for them, by their places in the hunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    /// The removed ones.
    pub removed: Range<usize>,
    /// The added ones, right behind them.
    pub added: Range<usize>,
}

/// The run that a changed line is in; `None` where it stands alone, or among too many.
pub fn run(hunk: &Hunk, line: usize) -> Option<Run> {
    let lines = &hunk.lines;
    let is = |at: usize, kind| lines.get(at).is_some_and(|line| line.kind == kind);
    let back = |from: usize, kind| {
        let mut at = from;
        while at > 0 && is(at - 1, kind) && from - at <= LINES {
            at -= 1;
        }
        at
    };
    let forth = |from: usize, kind| {
        let mut at = from;
        while is(at, kind) && at - from <= LINES {
            at += 1;
        }
        at
    };
    let split = match lines.get(line)?.kind {
        LineKind::Context => return None,
        LineKind::Removed => forth(line, LineKind::Removed),
        LineKind::Added => back(line, LineKind::Added),
    };
    let (start, end) = (back(split, LineKind::Removed), forth(split, LineKind::Added));
    let few = |range: &Range<usize>| !range.is_empty() && range.len() <= LINES;
    let run = Run { removed: start..split, added: split..end };
    (few(&run.removed) && few(&run.added)).then_some(run)
}

/// The changed bytes of each line of a run, the removed lines first.
pub fn marks(hunk: &Hunk, run: &Run) -> Vec<Vec<Range<usize>>> {
    let side = |range: &Range<usize>| -> Vec<&[u8]> {
        hunk.lines[range.clone()].iter().map(|line| line.bytes.as_slice()).collect()
    };
    let (removed, added) = (side(&run.removed), side(&run.added));
    let none = || vec![Vec::new(); removed.len() + added.len()];
    let bytes = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
    if bytes(&removed).max(bytes(&added)) > BYTES {
        return none();
    }
    let (old, new) = (words(&removed), words(&added));
    let text = |lines: &[&[u8]], (line, range): &(usize, Range<usize>)| lines[*line][range.clone()].to_vec();
    let mut input = InternedInput::default();
    input.update_before(old.iter().map(|word| text(&removed, word)));
    input.update_after(new.iter().map(|word| text(&added, word)));
    let diff = Diff::compute(Algorithm::Myers, &input);
    let mut found = none();
    let (mut gone, mut come) = (vec![false; old.len()], vec![false; new.len()]);
    for hunk in diff.hunks() {
        hunk.before.for_each(|at| gone[at as usize] = true);
        hunk.after.for_each(|at| come[at as usize] = true);
    }
    let is_word = |bytes: &[u8]| bytes.iter().any(|b| !b.is_ascii_whitespace());
    let weigh = |words: &[(usize, Range<usize>)], lines: &[&[u8]], marked: &[bool]| {
        let all = words.iter().zip(marked).filter(|((line, range), _)| is_word(&lines[*line][range.clone()]));
        all.fold((0, 0), |(all, same), ((_, range), marked)| {
            (all + range.len(), same + if *marked { 0 } else { range.len() })
        })
    };
    let ((all, same), (all_new, _)) = (weigh(&old, &removed, &gone), weigh(&new, &added, &come));
    if same * ALIKE < all.max(all_new) {
        return none();
    }
    mark(&old, &removed, &gone, &mut found[..removed.len()]);
    mark(&new, &added, &come, &mut found[removed.len()..]);
    found
}

fn mark(words: &[(usize, Range<usize>)], lines: &[&[u8]], marked: &[bool], found: &mut [Vec<Range<usize>>]) {
    for ((line, range), _) in words.iter().zip(marked).filter(|(_, marked)| **marked) {
        match found[*line].last_mut() {
            // Words with nothing but space between them are one mark.
            Some(last) if lines[*line][last.end..range.start].iter().all(u8::is_ascii_whitespace) => {
                last.end = range.end;
            }
            _ => found[*line].push(range.clone()),
        }
    }
}

/// Words, spaces and single signs, each with its line.
fn words(lines: &[&[u8]]) -> Vec<(usize, Range<usize>)> {
    let kind = |b: u8| match b {
        b if b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80 => 0,
        b if b.is_ascii_whitespace() => 1,
        _ => 2,
    };
    let mut all = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let mut at = 0;
        for piece in line.chunk_by(|a, b| kind(*a) == kind(*b) && kind(*a) < 2) {
            all.push((number, at..at + piece.len()));
            at += piece.len();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{marks, run};
    use crate::diff::{FileDiff, LineKind, file_diff};

    /// The marked parts of each line, in brackets.
    fn shown(old: &str, new: &str) -> Vec<String> {
        let FileDiff { hunks, .. } = file_diff(Some(old.as_bytes()), Some(new.as_bytes()));
        let hunk = &hunks[0];
        let first = hunk.lines.iter().position(|line| line.kind != LineKind::Context).expect("a change");
        let Some(run) = run(hunk, first) else { return Vec::new() };
        let marks = marks(hunk, &run);
        let lines = run.removed.clone().chain(run.added.clone());
        lines
            .zip(marks)
            .map(|(line, marks)| {
                let text = String::from_utf8(hunk.lines[line].bytes.clone()).expect("text");
                let mut out = String::new();
                let mut at = 0;
                for mark in marks {
                    out.push_str(&format!("{}[{}]", &text[at..mark.start], &text[mark.clone()]));
                    at = mark.end;
                }
                out + text[at..].trim_end()
            })
            .collect()
    }

    #[test]
    fn changed_words_are_marked_and_nothing_else() {
        assert_eq!(
            shown("let a = first(x, y);\n", "let a = second(x, y);\n"),
            ["let a = [first](x, y);", "let a = [second](x, y);"]
        );
        assert_eq!(
            shown("one two three four\n", "one 2 3 four\n"),
            ["one [two three] four", "one [2 3] four"]
        );
    }

    #[test]
    fn a_line_that_became_two_is_marked_over_both() {
        let found = shown("call(alpha, beta, gamma);\n", "call(alpha, beta,\n     gamma, delta);\n");
        assert_eq!(found[0], "call(alpha, beta,[ ]gamma);");
        assert!(found[2].contains("[, delta]"), "{found:?}");
    }

    #[test]
    fn lines_with_little_in_common_have_no_marks() {
        assert_eq!(
            shown("alpha beta gamma\n", "quite another text\n"),
            ["alpha beta gamma", "quite another text"]
        );
    }

    #[test]
    fn a_line_without_another_side_and_one_among_too_many_have_no_run() {
        let added = file_diff(Some(b"a\n"), Some(b"a\nb\n"));
        assert_eq!(run(&added.hunks[0], 1), None);
        assert_eq!(run(&added.hunks[0], 0), None);
        let many: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let other = many.replace("line", "row");
        let replaced = file_diff(Some(many.as_bytes()), Some(other.as_bytes()));
        assert!((0..2000).step_by(97).all(|line| run(&replaced.hunks[0], line).is_none()));
    }

    proptest! {
        #[test]
        fn what_is_not_marked_is_the_same_on_both_sides(
            old in "[ab ,\\n]{1,40}",
            new in "[ab ,\\n]{1,40}",
        ) {
            let diff = file_diff(Some(old.as_bytes()), Some(new.as_bytes()));
            for hunk in &diff.hunks {
                for line in 0..hunk.lines.len() {
                    let Some(run) = run(hunk, line) else { continue };
                    prop_assert!(run.removed.contains(&line) || run.added.contains(&line));
                    let marks = marks(hunk, &run);
                    prop_assert_eq!(marks.len(), run.removed.len() + run.added.len());
                    if marks.iter().all(Vec::is_empty) { continue; }
                    let rest = |lines: std::ops::Range<usize>, marks: &[Vec<std::ops::Range<usize>>]| {
                        let mut rest = Vec::new();
                        for (line, marks) in lines.zip(marks) {
                            let bytes = &hunk.lines[line].bytes;
                            for (at, byte) in bytes.iter().enumerate() {
                                if !marks.iter().any(|mark| mark.contains(&at)) && !byte.is_ascii_whitespace() {
                                    rest.push(*byte);
                                }
                            }
                        }
                        rest
                    };
                    let split = run.removed.len();
                    prop_assert_eq!(rest(run.removed.clone(), &marks[..split]), rest(run.added.clone(), &marks[split..]));
                }
            }
        }
    }
}
