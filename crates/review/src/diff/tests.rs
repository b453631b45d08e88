use std::time::Instant;

use proptest::prelude::*;

use super::{FileDiff, LineKind, Note, file_diff, is_binary, named_diff};

/// Rebuilds the new content from the old one and the hunks, and the old one back.
fn replay(old: &[u8], diff: &FileDiff) -> (Vec<u8>, Vec<u8>) {
    let lines: Vec<&[u8]> = old.split_inclusive(|b| *b == b'\n').collect();
    let (mut new, mut back, mut at) = (Vec::new(), Vec::new(), 0usize);
    for hunk in &diff.hunks {
        let start = if hunk.old_len == 0 { hunk.old_start as usize } else { hunk.old_start as usize - 1 };
        for line in &lines[at..start] {
            new.extend_from_slice(line);
            back.extend_from_slice(line);
        }
        for line in &hunk.lines {
            if line.kind != LineKind::Removed {
                new.extend_from_slice(&line.bytes);
            }
            if line.kind != LineKind::Added {
                back.extend_from_slice(&line.bytes);
            }
        }
        at = start + hunk.old_len as usize;
    }
    for line in &lines[at..] {
        new.extend_from_slice(line);
        back.extend_from_slice(line);
    }
    (new, back)
}

fn check(old: &[u8], new: &[u8]) -> FileDiff {
    let diff = file_diff(Some(old), Some(new));
    assert!(!diff.binary);
    let (forward, back) = replay(old, &diff);
    assert_eq!(forward.escape_ascii().to_string(), new.escape_ascii().to_string());
    assert_eq!(back.escape_ascii().to_string(), old.escape_ascii().to_string());
    diff
}

#[test]
fn each_line_keeps_its_own_ending() {
    let diff = check(b"a\r\nb\r\nc\n", b"a\r\nB\r\nc\n");
    assert_eq!(diff.counts(), (1, 1));
    let all: Vec<&[u8]> = diff.hunks[0].lines.iter().map(|l| l.bytes.as_slice()).collect();
    assert_eq!(all, [b"a\r\n" as &[u8], b"b\r\n", b"B\r\n", b"c\n"]);
}

#[test]
fn a_changed_ending_is_a_changed_line() {
    assert_eq!(check(b"a\nb\n", b"a\r\nb\n").counts(), (1, 1));
    assert_eq!(check(b"a\nb", b"a\nb\n").counts(), (1, 1));
    assert!(check(b"a\nb\n", b"a\nb").hunks[0].lines.last().expect("a line").lacks_newline());
}

#[test]
fn a_byte_order_mark_lone_cr_and_invalid_utf8_are_plain_bytes() {
    assert_eq!(check(b"\xef\xbb\xbfx\r\n", b"x\r\n").counts(), (1, 1));
    assert_eq!(check(b"a\rb\rc", b"a\rB\rc").counts(), (1, 1));
    assert_eq!(check(b"\xff\xfe\n\x80\n", b"\xff\xfe\n\x81\n").counts(), (1, 1));
}

#[test]
fn binary_is_a_nul_in_the_first_8000_bytes() {
    let mut content = vec![b'x'; 9000];
    content[8000] = 0;
    assert!(!is_binary(&content));
    content[7999] = 0;
    assert!(is_binary(&content));
    assert_eq!(file_diff(Some(b"a"), Some(b"a\0")), FileDiff { binary: true, ..FileDiff::default() });
}

#[test]
fn a_change_of_the_usual_ending_or_of_the_byte_order_mark_is_noted() {
    let notes = |old: &[u8], new: &[u8]| file_diff(Some(old), Some(new)).notes;
    assert_eq!(notes(b"a\r\nb\r\nc\n", b"a\nb\nc\n"), [Note::ToLf]);
    assert_eq!(notes(b"a\nb\n", b"a\r\nb\r\n"), [Note::ToCrLf]);
    assert_eq!(notes(b"\xef\xbb\xbfa\n", b"a\n"), [Note::MarkRemoved]);
    assert_eq!(notes(b"a\n", b"\xef\xbb\xbfb\n"), [Note::MarkAdded]);
    assert_eq!(notes(b"a\r\nb\r\nc\n", b"a\r\nB\r\nc\n"), []);
    assert_eq!(notes(b"", b"a\r\n"), []);
}

#[test]
fn a_file_that_is_not_there_has_no_lines() {
    let diff = file_diff(None, Some(b"a\nb\n"));
    let hunk = &diff.hunks[0];
    assert_eq!((hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len), (0, 0, 1, 2));
    let diff = file_diff(Some(b"a\n"), None);
    let hunk = &diff.hunks[0];
    assert_eq!((hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len), (1, 1, 0, 0));
    assert!(file_diff(None, Some(b"")).hunks.is_empty());
}

#[test]
fn a_hunk_id_outlives_an_edit_further_up_and_tells_files_apart() {
    let lines = |edit: &[usize]| -> Vec<u8> {
        (0..60)
            .flat_map(|i| {
                format!("{i}{}\n", if edit.contains(&i) { " edited\nmore" } else { "" }).into_bytes()
            })
            .collect()
    };
    let old = lines(&[]);
    let one = named_diff(b"f", Some(&old), Some(&lines(&[50])));
    let two = named_diff(b"f", Some(&old), Some(&lines(&[10, 50])));
    assert_eq!((one.hunks.len(), two.hunks.len()), (1, 2));
    assert_eq!(one.hunks[0].id, two.hunks[1].id);
    assert_ne!(one.hunks[0].id, named_diff(b"g", Some(&old), Some(&lines(&[50]))).hunks[0].id);
}

#[test]
fn contexts_that_touch_share_a_hunk() {
    let text = |edit: &[usize]| -> Vec<u8> {
        (0..40)
            .flat_map(|i| format!("{i}{}\n", if edit.contains(&i) { "x" } else { "" }).into_bytes())
            .collect()
    };
    assert_eq!(check(&text(&[]), &text(&[10, 17])).hunks.len(), 1);
    assert_eq!(check(&text(&[]), &text(&[10, 18])).hunks.len(), 2);
}

#[test]
fn the_cost_of_a_diff_grows_with_the_file_and_not_with_its_square() {
    let lines = |count: usize, edited: bool| -> Vec<u8> {
        let line = |i: usize| match edited && i.is_multiple_of(100) {
            true => format!("edit {i}\n"),
            false => format!("line number {}\n", i % 9973),
        };
        (0..count).flat_map(|i| line(i).into_bytes()).collect()
    };
    let took = |count: usize| {
        let (old, new) = (lines(count, false), lines(count, true));
        // The best of three: other programs only ever make it slower.
        let run = || {
            let start = Instant::now();
            let diff = file_diff(Some(&old), Some(&new));
            assert_eq!(diff.counts(), (count as u64 / 100, count as u64 / 100));
            start.elapsed()
        };
        [run(), run(), run()].into_iter().min().unwrap_or_default()
    };
    let (small, large) = (took(10_000), took(100_000));
    assert!(large < small * 40, "{small:?} for 10,000 lines, {large:?} for 100,000");
}

proptest! {
    #[test]
    fn hunks_replay_to_the_new_content_and_back(
        old in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'\n'), Just(b'\r'), Just(0xffu8)], 0..120),
        new in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'\n'), Just(b'\r'), Just(0xffu8)], 0..120),
    ) {
        check(&old, &new);
    }

    #[test]
    fn hunks_of_large_content_replay_too_and_far_edits_are_found_one_by_one(
        edits in proptest::collection::vec((0usize..1500, 0usize..6, 1usize..40), 0..24),
    ) {
        let old: Vec<String> =
            (0..1500).map(|i| if i % 7 == 0 { "}\n".to_owned() } else { format!("line {i}\n") }).collect();
        let mut new = old.clone();
        for (at, how, many) in edits {
            let at = at.min(new.len());
            let end = (at + many).min(new.len());
            match how {
                0 => drop(new.drain(at..end)),
                1 => new[at..end].iter_mut().for_each(|line| line.insert(0, ' ')),
                2 => drop(new.splice(at..at, (0..many).map(|i| format!("new {i}\n")))),
                3 => new[at..end].reverse(),
                4 => {
                    let moved: Vec<String> = new.drain(at..end).collect();
                    let to = new.len() / 3;
                    drop(new.splice(to..to, moved));
                }
                _ => {
                    let again = new[at..end].to_vec();
                    drop(new.splice(at..at, again));
                }
            }
        }
        check(old.concat().as_bytes(), new.concat().as_bytes());
    }
}

#[test]
fn what_lies_between_lines_that_stand_once_is_compared_as_in_small_content() {
    let text = |edited: bool| -> Vec<u8> {
        let line = |i: usize| match i % 50 {
            7 if edited => format!("other {i}\n"),
            20 if edited => String::new(),
            21..24 => "}\n".to_owned(),
            30 if edited => format!("a new one\nline {i}\n"),
            _ => format!("line {i}\n"),
        };
        (0..4000).flat_map(|i| line(i).into_bytes()).collect()
    };
    let diff = check(&text(false), &text(true));
    assert_eq!((diff.counts(), diff.hunks.len()), ((160, 160), 160 + 80));
}
