use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Extent, Missing, changed, extent, runs, splice};
use crate::choice::Lines;
use crate::diff::{FileDiff, LineKind, file_diff};

type Take = BTreeMap<String, Lines>;

fn all(diff: &FileDiff) -> Take {
    diff.hunks.iter().map(|hunk| (hunk.id.clone(), Lines::All)).collect()
}

fn some(id: &str, numbers: &[u32]) -> Take {
    BTreeMap::from([(id.to_owned(), Lines::Some(numbers.iter().copied().collect()))])
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// What is left to take of `new` once `base` has become the old content.
fn rest(base: &[u8], new: &[u8]) -> FileDiff {
    file_diff(Some(base), Some(new))
}

#[test]
fn a_single_line_is_taken_or_not() {
    let (old, new) = (b"a\nb\nc\nd\n", b"a\nB\nc\nnew\nd\n");
    let diff = file_diff(Some(old), Some(new));
    let id = &diff.hunks[0].id;
    assert_eq!(changed(&diff.hunks[0]), 3);
    assert_eq!(runs(&diff.hunks[0]), [1..=2, 3..=3]);
    assert_eq!(text(&splice(old, &diff, &some(id, &[1]))), "a\\nc\\nd\\n");
    assert_eq!(text(&splice(old, &diff, &some(id, &[2]))), "a\\nb\\nB\\nc\\nd\\n");
    assert_eq!(text(&splice(old, &diff, &some(id, &[3]))), "a\\nb\\nc\\nnew\\nd\\n");
    assert_eq!(splice(old, &diff, &some(id, &[1, 2, 3])), new);
    assert_eq!(splice(old, &diff, &some(id, &[])), old);
}

#[test]
fn each_line_keeps_its_own_ending_in_a_mixed_file() {
    let old = b"\xef\xbb\xbfone\r\ntwo\nthree\r\nfour\r";
    let new = b"\xef\xbb\xbfone\r\nTWO\r\nthree\r\nfour\r\nfive";
    let diff = file_diff(Some(old), Some(new));
    let id = &diff.hunks[0].id;
    assert_eq!(splice(old, &diff, &some(id, &[1, 2])), b"\xef\xbb\xbfone\r\nTWO\r\nthree\r\nfour\r");
    assert_eq!(splice(old, &diff, &all(&diff)), new);
}

#[test]
fn a_line_without_an_ending_never_runs_into_the_next_one() {
    let (old, new) = (b"a\r\nb", b"a\r\nb\r\nc\r\n");
    let diff = file_diff(Some(old), Some(new));
    // Removed `b`, added `b\r\n` and `c\r\n`: only the last one is taken.
    assert_eq!(text(&splice(old, &diff, &some(&diff.hunks[0].id, &[3]))), "a\\r\\nb\\r\\nc\\r\\n");
    let (old, new) = (b"b", b"c");
    let diff = file_diff(Some(old), Some(new));
    assert_eq!(text(&splice(old, &diff, &some(&diff.hunks[0].id, &[2]))), "b\\nc");
}

#[test]
fn what_the_diff_does_not_have_is_named() {
    let mut diff = file_diff(Some(b"a\n"), Some(b"b\n"));
    let id = diff.hunks[0].id.clone();
    assert_eq!(extent(&diff, &some("other", &[])), Err(Missing::Hunk("other".to_owned())));
    assert_eq!(extent(&diff, &some(&id, &[3])), Err(Missing::Line(id.clone(), 3)));
    assert_eq!(extent(&diff, &some(&id, &[0])), Err(Missing::Line(id.clone(), 0)));
    assert_eq!(extent(&diff, &some(&id, &[])), Ok(Extent::None));
    assert_eq!(extent(&diff, &some(&id, &[2])), Ok(Extent::Some));
    assert_eq!(extent(&diff, &some(&id, &[1, 2])), Ok(Extent::All));
    diff.hunks.push(diff.hunks[0].clone());
    assert_eq!(extent(&diff, &all(&diff)), Err(Missing::Twice(id)));
}

/// Content of few different lines, so that lines repeat, with every kind of ending and odd bytes. Long enough for
/// several hunks.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => Just(&b"a\n"[..]),
        4 => Just(&b"b\n"[..]),
        3 => Just(&b"a\r\n"[..]),
        2 => Just(&b"\n"[..]),
        2 => Just(&b"\r\n"[..]),
        1 => Just(&b"c\rd\n"[..]),
        1 => Just(&b"\xff\xfe\n"[..]),
        1 => Just(&b"\xef\xbb\xbf\n"[..]),
        1 => Just(&b"long line that is there once in a while\n"[..]),
    ];
    let end = prop_oneof![
        3 => Just(&b""[..]),
        1 => Just(&b"a"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"\xff"[..]),
    ];
    let mark = prop_oneof![4 => Just(&b""[..]), 1 => Just(&b"\xef\xbb\xbf"[..])];
    (mark, prop::collection::vec(line, 0..60), end)
        .prop_map(|(mark, lines, end)| [mark, &lines.concat(), end].concat())
}

/// Two contents of which the second is the first one edited in places.
fn edited() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let other = prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, content()), 0..6);
    (content(), other).prop_map(|(old, edits)| {
        let mut lines: Vec<Vec<u8>> = old.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        for (at, how, other) in edits {
            let line = other.split_inclusive(|b| *b == b'\n').next().unwrap_or(b"x\n").to_vec();
            if lines.is_empty() {
                lines.push(line);
                continue;
            }
            let at = at.index(lines.len());
            match how {
                0 => lines.insert(at, line),
                1 => drop(lines.remove(at)),
                2 => lines[at] = line,
                // The end is edited often: it is where endings are missing.
                _ => lines.push(line),
            }
        }
        (old, lines.concat())
    })
}

/// A subset of the lines of a diff.
fn subset(diff: &FileDiff, dice: &[bool]) -> Take {
    let mut dice = dice.iter().copied().cycle();
    let mut take = Take::new();
    for hunk in &diff.hunks {
        let numbers: BTreeSet<u32> = (1..=changed(hunk)).filter(|_| dice.next().unwrap_or(false)).collect();
        take.insert(hunk.id.clone(), Lines::Some(numbers));
    }
    take
}

/// Whole hunks only.
fn hunks(diff: &FileDiff, dice: &[bool]) -> Take {
    let chosen = diff.hunks.iter().zip(dice.iter().cycle()).filter(|(_, take)| **take);
    chosen.map(|(hunk, _)| (hunk.id.clone(), Lines::All)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn all_hunks_are_the_new_content_and_none_the_old((old, new) in edited()) {
        let diff = file_diff(Some(&old), Some(&new));
        prop_assert_eq!(text(&splice(&old, &diff, &all(&diff))), text(&new));
        prop_assert_eq!(text(&splice(&old, &diff, &Take::new())), text(&old));
        let back = file_diff(Some(&new), Some(&old));
        prop_assert_eq!(text(&splice(&new, &back, &all(&back))), text(&old));
    }

    #[test]
    fn contents_that_have_nothing_in_common_splice_as_well(old in content(), new in content()) {
        let diff = file_diff(Some(&old), Some(&new));
        prop_assert_eq!(text(&splice(&old, &diff, &all(&diff))), text(&new));
        prop_assert_eq!(text(&splice(&old, &diff, &Take::new())), text(&old));
    }

    #[test]
    fn ids_are_distinct_and_the_rest_after_a_part_leads_to_the_new_content(
        (old, new) in edited(), dice in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let diff = file_diff(Some(&old), Some(&new));
        let ids: BTreeSet<&String> = diff.hunks.iter().map(|hunk| &hunk.id).collect();
        prop_assert_eq!(ids.len(), diff.hunks.len());
        let part = splice(&old, &diff, &subset(&diff, &dice));
        let left = rest(&part, &new);
        prop_assert_eq!(text(&splice(&part, &left, &all(&left))), text(&new));
    }

    /// One hunk after the other, each found again by its id in what is left to take: in every order the same as at once.
    #[test]
    fn any_subset_of_hunks_in_any_order_gives_the_same_content(
        (old, new) in edited(), dice in prop::collection::vec(any::<bool>(), 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let diff = file_diff(Some(&old), Some(&new));
        let take = hunks(&diff, &dice);
        let at_once = splice(&old, &diff, &take);
        // The part that is taken is itself a diff; taken apart in any order it leads to the same content.
        let goal = file_diff(Some(&old), Some(&at_once));
        prop_assert_eq!(text(&splice(&old, &goal, &all(&goal))), text(&at_once));
        let mut now = old.clone();
        for pick in order.iter().cycle().take(200) {
            let left = rest(&now, &at_once);
            if left.hunks.is_empty() {
                break;
            }
            let hunk = &left.hunks[pick.index(left.hunks.len())];
            now = splice(&now, &left, &BTreeMap::from([(hunk.id.clone(), Lines::All)]));
        }
        prop_assert_eq!(text(&now), text(&at_once));
    }

    /// Hunks taken one by one, each by the id that the first diff gave it: in every order the same as all at once, or
    /// refused because the id means nothing any more (the file has the same hunk several times).
    #[test]
    fn hunks_taken_by_their_first_ids_in_any_order_are_those_taken_at_once(
        (old, new) in edited(), dice in prop::collection::vec(any::<bool>(), 1..12), order in any::<u64>(),
    ) {
        let diff = file_diff(Some(&old), Some(&new));
        let take = hunks(&diff, &dice);
        let mut ids: Vec<&String> = take.keys().collect();
        ids.sort_by_key(|id| id.bytes().fold(order, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)));
        let mut now = old.clone();
        let mut refused = false;
        for id in ids {
            let left = rest(&now, &new);
            let one = Take::from([(id.clone(), Lines::All)]);
            match extent(&left, &one) {
                Ok(_) => now = splice(&now, &left, &one),
                Err(_) => refused = true,
            }
        }
        if !refused {
            prop_assert_eq!(text(&now), text(&splice(&old, &diff, &take)));
        }
    }

    /// A hunk that is left keeps its id when another one of the file was taken, unless the file has it twice.
    #[test]
    fn the_id_of_a_hunk_outlives_the_taking_of_others(
        edits in prop::collection::btree_set(0usize..12, 1..6), dice in prop::collection::vec(any::<bool>(), 6),
    ) {
        let line = |i: usize, edit: bool| format!("line {i}{}\r\n", if edit { "!\r\nadded" } else { "" });
        let text_with = |edits: &BTreeSet<usize>| -> Vec<u8> {
            (0..240).flat_map(|i| line(i, i % 20 == 0 && edits.contains(&(i / 20))).into_bytes()).collect()
        };
        let (old, new) = (text_with(&BTreeSet::new()), text_with(&edits));
        let diff = file_diff(Some(&old), Some(&new));
        let take = hunks(&diff, &dice);
        let now = splice(&old, &diff, &take);
        let left: Vec<String> = rest(&now, &new).hunks.into_iter().map(|hunk| hunk.id).collect();
        let wanted: Vec<String> =
            diff.hunks.into_iter().map(|hunk| hunk.id).filter(|id| !take.contains_key(id)).collect();
        prop_assert_eq!(left, wanted);
    }

    /// The lines of a part are lines of either content, each with its own ending: nothing is made up but an ending
    /// that was missing.
    #[test]
    fn a_part_holds_only_lines_of_either_content(
        (old, new) in edited(), dice in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let diff = file_diff(Some(&old), Some(&new));
        let take = subset(&diff, &dice);
        let part = splice(&old, &diff, &take);
        let lines = |content: &[u8]| -> BTreeSet<Vec<u8>> {
            content.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
        };
        let (mut known, last) = (lines(&old), [&old, &new]);
        known.extend(lines(&new));
        for end in last {
            let line = end.split_inclusive(|b| *b == b'\n').next_back().unwrap_or_default();
            known.extend([[line, b"\n"].concat(), [line, b"\r\n"].concat()]);
        }
        for line in lines(&part) {
            prop_assert!(known.contains(&line), "{}", text(&line));
        }
        let count = |kind| -> usize {
            diff.hunks.iter().flat_map(|hunk| {
                let mut number = 0;
                let lines = &take[&hunk.id];
                hunk.lines.iter().filter(move |line| {
                    number += u32::from(line.kind != LineKind::Context);
                    line.kind == kind && lines.takes(number)
                })
            }).count()
        };
        let of = |content: &[u8]| content.split_inclusive(|b| *b == b'\n').count();
        prop_assert_eq!(of(&part), of(&old) + count(LineKind::Added) - count(LineKind::Removed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A NUL behind the first 8000 bytes is text like any other byte.
    #[test]
    fn nul_bytes_far_into_a_content_splice_like_others(
        (old, new) in edited(), dice in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let with_nul = |content: &[u8]| -> Vec<u8> {
            let far: Vec<u8> = content.iter().map(|byte| if *byte == b'a' { 0 } else { *byte }).collect();
            [b"x\n".repeat(4000), far].concat()
        };
        let (old, new) = (with_nul(&old), with_nul(&new));
        let diff = file_diff(Some(&old), Some(&new));
        prop_assert!(!diff.binary);
        prop_assert_eq!(splice(&old, &diff, &all(&diff)), new.clone());
        let part = splice(&old, &diff, &subset(&diff, &dice));
        let left = rest(&part, &new);
        prop_assert_eq!(splice(&part, &left, &all(&left)), new);
    }
}
