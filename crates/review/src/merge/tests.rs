use proptest::prelude::*;

use super::*;

fn three<'a>(base: &'a str, ours: &'a str, theirs: &'a str) -> Three<'a> {
    Three { base: base.as_bytes(), ours: ours.as_bytes(), theirs: theirs.as_bytes() }
}

fn clean(base: &str, ours: &str, theirs: &str) -> String {
    match merge(three(base, ours, theirs)) {
        Merged::Clean(merged) => String::from_utf8(merged).expect("text"),
        other => panic!("{base:?} {ours:?} {theirs:?}: {other:?}"),
    }
}

fn region(base: (u32, u32), ours: (u32, u32), theirs: (u32, u32)) -> Region {
    Region { base, ours, theirs }
}

#[test]
fn changes_in_different_places_are_both_there() {
    assert_eq!(clean("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n"), "one\n2\n3\n4\nfive\n");
    assert_eq!(clean("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n"), "0\n1\n2\n");
}

#[test]
fn the_same_change_on_both_sides_is_there_once() {
    assert_eq!(clean("1\n2\n3\n4\n", "1\nB\n3\n4\n", "1\nB\n3\n4\n5\n"), "1\nB\n3\n4\n5\n");
}

#[test]
fn the_same_line_changed_twice_is_a_conflict_and_its_place_is_told() {
    let found = merge(three("1\n2\n3\n4\n5\n", "0\n1\n2\nours\n4\n5\n", "1\n2\ntheirs\nmore\n4\n5\n"));
    assert_eq!(found, Merged::Conflict(vec![region((3, 1), (4, 1), (3, 2))]));
}

#[test]
fn lines_that_touch_are_a_conflict() {
    let found = merge(three("1\n2\n3\n", "A\n2\n3\n", "1\nB\n3\n"));
    assert_eq!(found, Merged::Conflict(vec![region((1, 2), (1, 2), (1, 2))]));
}

#[test]
fn a_binary_content_is_whichever_side_changed_it_and_a_conflict_where_both_did() {
    assert_eq!(merge(three("a\0", "a\0", "b\0")), Merged::Clean(b"b\0".to_vec()));
    assert_eq!(merge(three("a\0", "b\0", "a\0")), Merged::Clean(b"b\0".to_vec()));
    assert_eq!(merge(three("a\0", "b\0", "c\0")), Merged::Binary);
    assert_eq!(merge(three("1\n2\n3\n", "0\n2\n3\n", "1\n2\n\0\n")), Merged::Binary);
    assert_eq!(settle(three("a\0", "b\0", "c\0"), true), None);
    assert_eq!(with_markers(three("a\0", "b\0", "c\0"), &Names::default()), None);
}

#[test]
fn each_line_keeps_its_own_ending() {
    let merged = clean("1\r\n2\n3\r\n4\n5\r\n", "one\r\n2\n3\r\n4\n5\r\n", "1\r\n2\n3\r\n4\nfive\n");
    assert_eq!(merged, "one\r\n2\n3\r\n4\nfive\n");
    assert_eq!(clean("1\n2\n3\n4", "one\n2\n3\n4", "1\n2\n3\n4\n"), "one\n2\n3\n4\n");
}

#[test]
fn where_one_side_changed_all_endings_the_other_sides_changes_get_them() {
    assert_eq!(clean("1\n2\n3\n", "1\r\n2\r\n3\r\n", "1\n2\nthree\n"), "1\r\n2\r\nthree\r\n");
    assert_eq!(clean("1\n2\n3\n", "one\n2\n3\n", "1\r\n2\r\n3\r\n"), "one\r\n2\r\n3\r\n");
    assert_eq!(clean("1\r\n2\r\n3\r\n", "1\n2\n3\n", "1\r\n2\r\n3\r\n4\r\n"), "1\n2\n3\n4\n");
    // Changed lines conflict still, and once.
    let found = merge(three("1\n2\n3\n", "1\r\nours\r\n3\r\n", "1\ntheirs\n3\n"));
    assert_eq!(found, Merged::Conflict(vec![region((2, 1), (2, 1), (2, 1))]));
}

#[test]
fn a_lone_carriage_return_is_a_byte_like_any_other() {
    assert_eq!(clean("a\rb\n2\n3\n", "a\rB\n2\n3\n", "a\rb\n2\nthree\n"), "a\rB\n2\nthree\n");
    assert_eq!(clean("a\rb\n2\n3\n", "a\rb\r\n2\r\n3\r\n", "a\rb\n2\nthree\n"), "a\rb\r\n2\r\nthree\r\n");
}

#[test]
fn markers_name_both_sides_and_are_longer_than_what_the_content_has() {
    let names = Names { ours: b"original".to_vec(), theirs: b"lane x".to_vec() };
    let text = with_markers(three("1\n2\n3\n", "1\nA\n3\n", "1\nB\n3\n"), &names).expect("text");
    let wanted = "1\n<<<<<<< original\nA\n=======\nB\n>>>>>>> lane x\n3\n";
    assert_eq!(String::from_utf8(text).expect("text"), wanted);
    let text = with_markers(three("=======\n2\n", "=======\nA\n", "=======\nB\n"), &names).expect("text");
    let wanted = "=======\n<<<<<<<< original\nA\n========\nB\n>>>>>>>> lane x\n";
    assert_eq!(String::from_utf8(text).expect("text"), wanted);
    let crlf = with_markers(three("1\n2\n3\n", "1\r\nA\r\n3\r\n", "1\nB\n3\n"), &names).expect("text");
    let wanted = "1\r\n<<<<<<< original\r\nA\r\n=======\r\nB\r\n>>>>>>> lane x\r\n3\r\n";
    assert_eq!(String::from_utf8(crlf).expect("text"), wanted);
}

#[test]
fn a_side_that_is_chosen_wins_where_both_changed_the_same_and_nowhere_else() {
    let text = three("1\n2\n3\n4\n5\n", "1\nA\n3\n4\nfive\n", "one\n2\n3\nB\n5\n");
    assert!(matches!(merge(text), Merged::Conflict(_)), "touching lines");
    let settled = |for_lane| String::from_utf8(settle(text, for_lane).expect("text")).expect("text");
    assert_eq!(
        (settled(false).as_str(), settled(true).as_str()),
        ("1\nA\n3\n4\nfive\n", "one\n2\n3\nB\n5\n")
    );
    let apart = three("1\n2\n3\n4\n5\n6\n", "1\nA\n3\n4\n5\n6\n", "1\nB\n3\n4\n5\nsix\n");
    assert_eq!(settle(apart, false).as_deref(), Some(b"1\nA\n3\n4\n5\nsix\n".as_slice()));
}

/// A content of few different lines, so that changes meet and lines repeat.
fn content() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let line = prop_oneof![
        4 => "[abc]".prop_map(|text| [text.as_bytes(), b"\n"].concat()),
        1 => "[ab]".prop_map(|text| [text.as_bytes(), b"\r\n"].concat()),
        1 => Just(b"\xff\xfe\n".to_vec()),
        1 => Just(b"<<<<<<< x\n".to_vec()),
    ];
    prop::collection::vec(line, 0..12)
}

/// Edits as (place, lines taken, lines put).
fn edited() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    prop::collection::vec((0usize..12, 0usize..3, "[xyz]?".prop_map(|text| text.into_bytes())), 0..3)
}

fn apply(base: &[Vec<u8>], edits: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut lines = base.to_vec();
    for (at, take, put) in edits {
        let at = (*at).min(lines.len());
        let end = (at + take).min(lines.len());
        let put = if put.is_empty() { Vec::new() } else { vec![[put.as_slice(), b"\n"].concat()] };
        lines.splice(at..end, put);
    }
    lines.concat()
}

proptest! {
    #[test]
    fn one_sided_changes_are_taken_whole(base in content(), side in edited()) {
        let (base, side) = (base.concat(), apply(&base, &side));
        let side = side.as_slice();
        for (ours, theirs) in [(side, base.as_slice()), (base.as_slice(), side), (side, side)] {
            prop_assert_eq!(merge(Three { base: &base, ours, theirs }), Merged::Clean(side.to_vec()));
        }
    }

    #[test]
    fn the_sides_may_be_exchanged(base in content(), ours in edited(), theirs in edited()) {
        let (ours, theirs) = (apply(&base, &ours), apply(&base, &theirs));
        let base = base.concat();
        let there = merge(Three { base: &base, ours: &ours, theirs: &theirs });
        let back = merge(Three { base: &base, ours: &theirs, theirs: &ours });
        match (there, back) {
            (Merged::Conflict(there), Merged::Conflict(back)) => {
                prop_assert!(!there.is_empty(), "a conflict has a place");
                let back: Vec<Region> =
                    back.iter().map(|at| Region { base: at.base, ours: at.theirs, theirs: at.ours }).collect();
                prop_assert_eq!(there, back);
            }
            (there, back) => prop_assert_eq!(there, back),
        }
    }
}
