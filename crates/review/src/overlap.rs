//! Which hunks of two line diffs of one base meet. Pure.
//!
//! Invariant: two hunks meet where lines of the base that either changes overlap or touch, which is where a three-way
//! merge cannot tell them apart. Lines of context do not count.

use crate::diff::{FileDiff, Hunk, LineKind};

/// The lines of the base that a hunk changes, counted from 0: from the first to behind the last. Where it only adds
/// lines, both are the line before which they stand.
pub fn changed_lines(hunk: &Hunk) -> Vec<(u32, u32)> {
    let mut at = if hunk.old_len == 0 { hunk.old_start } else { hunk.old_start - 1 };
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut open = false;
    for line in &hunk.lines {
        if line.kind == LineKind::Context {
            (at, open) = (at + 1, false);
            continue;
        }
        if !open {
            runs.push((at, at));
            open = true;
        }
        if line.kind == LineKind::Removed {
            at += 1;
        }
        if let Some(run) = runs.last_mut() {
            run.1 = at;
        }
    }
    runs
}

/// The pairs of hunks that meet: their places in either diff.
pub fn meeting(left: &FileDiff, right: &FileDiff) -> Vec<(usize, usize)> {
    let lines = |diff: &FileDiff| -> Vec<Vec<(u32, u32)>> { diff.hunks.iter().map(changed_lines).collect() };
    let (lefts, rights) = (lines(left), lines(right));
    let mut found = Vec::new();
    for (l, ours) in lefts.iter().enumerate() {
        for (r, theirs) in rights.iter().enumerate() {
            let touch = |(a, b): &(u32, u32)| theirs.iter().any(|(c, d)| a <= d && c <= b);
            if ours.iter().any(touch) {
                found.push((l, r));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{changed_lines, meeting};
    use crate::diff::file_diff;

    fn text(lines: &[&str]) -> Vec<u8> {
        lines.concat().into_bytes()
    }

    #[test]
    fn hunks_meet_where_changed_lines_overlap_or_touch_and_not_by_their_context() {
        let base = text(&["1\n", "2\n", "3\n", "4\n", "5\n", "6\n"]);
        let diff = |lines: &[&str]| file_diff(Some(&base), Some(&text(lines)));
        let second = diff(&["1\n", "TWO\n", "3\n", "4\n", "5\n", "6\n"]);
        assert_eq!(changed_lines(&second.hunks[0]), [(1, 2)]);
        let meets = |lines: &[&str]| !meeting(&second, &diff(lines)).is_empty();
        assert!(meets(&["1\n", "zwei\n", "3\n", "4\n", "5\n", "6\n"]));
        assert!(meets(&["1\n", "2\n", "THREE\n", "4\n", "5\n", "6\n"]), "they touch");
        assert!(meets(&["1\n", "2\n", "and\n", "3\n", "4\n", "5\n", "6\n"]), "added right behind");
        assert!(!meets(&["1\n", "2\n", "3\n", "FOUR\n", "5\n", "6\n"]), "only the context is common");
        assert!(!meets(&["1\n", "2\n", "3\n", "4\n", "5\n"]));
    }

    #[test]
    fn an_added_line_stands_before_a_line_of_the_base() {
        let added = file_diff(Some(b"1\n2\n"), Some(b"0\n1\n2\n"));
        assert_eq!(changed_lines(&added.hunks[0]), [(0, 0)]);
        let new = file_diff(None, Some(b"0\n"));
        assert_eq!(changed_lines(&new.hunks[0]), [(0, 0)]);
        let end = file_diff(Some(b"1\n2\n"), Some(b"1\n2\n3\n"));
        assert_eq!(changed_lines(&end.hunks[0]), [(2, 2)]);
    }
}
