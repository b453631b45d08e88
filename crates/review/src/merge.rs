//! Three contents into one: the base, the original's, the lane's. Pure; bytes in, bytes out.
//!
//! Invariant: a content that is called clean holds every change of either side and nothing else. Where both sides
//! changed the same lines, or lines that touch, it is a conflict, and nobody chooses for the person. A line keeps its
//! own ending; where one side gave the whole file other endings, the other side's changes get those.

use std::borrow::Cow;
use std::num::NonZeroU8;

use gix_imara_diff::{Algorithm, Diff, InternedInput, sources::byte_lines};
use gix_merge::blob::Resolution;
use gix_merge::blob::builtin_driver::text::{Conflict, ConflictStyle, Labels, Merge};

/// Shortest run of marker characters; longer where a content has such lines itself.
const MARKER: usize = 7;

/// The three contents.
#[derive(Debug, Clone, Copy)]
pub struct Three<'a> {
    /// What both sides started from.
    pub base: &'a [u8],
    /// The original's, now.
    pub ours: &'a [u8],
    /// The lane's.
    pub theirs: &'a [u8],
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// Both sides' changes are in it.
    Clean(Vec<u8>),
    /// Both sides changed the same lines: where.
    Conflict(Vec<Region>),
    /// Both sides changed it, and it has no lines (a NUL byte).
    Binary,
}

/// Lines that both sides changed, each counted from 1; a length of 0 stands before the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First line and number of lines in the base.
    pub base: (u32, u32),
    /// In the original's content.
    pub ours: (u32, u32),
    /// In the lane's content.
    pub theirs: (u32, u32),
}

/// Merges.
pub fn merge(three: Three<'_>) -> Merged {
    let Three { base, ours, theirs } = three;
    // What only one side changed is that side's, text or not.
    if ours == theirs || theirs == base {
        return Merged::Clean(ours.to_vec());
    }
    if ours == base {
        return Merged::Clean(theirs.to_vec());
    }
    if [base, ours, theirs].iter().any(|content| content.contains(&0)) {
        return Merged::Binary;
    }
    let endings = Endings::of(three);
    let (base, ours, theirs) = (endings.plain(base), endings.plain(ours), endings.plain(theirs));
    let three = Three { base: &base, ours: &ours, theirs: &theirs };
    // Where lines repeat, which of them is which is a guess. It counts where two ways of guessing agree.
    let [first, second] = [Algorithm::Myers, Algorithm::Histogram]
        .map(|algorithm| run(three, algorithm, keep(MARKER), &Names::default()));
    match (first, second) {
        ((Resolution::Complete, first), (Resolution::Complete, second))
            if first == second && !could_meet(three) =>
        {
            Merged::Clean(endings.dressed(first))
        }
        _ => Merged::Conflict(regions(three)),
    }
}

/// The merge with each conflict settled for the original or for the lane; everything else is merged. `None` where the
/// contents have no lines.
pub fn settle(three: Three<'_>, for_lane: bool) -> Option<Vec<u8>> {
    let how = if for_lane { Conflict::ResolveWithTheirs } else { Conflict::ResolveWithOurs };
    render(three, how, &Names::default())
}

/// The merge with each conflict between markers: `<<<<<<<`, the original's lines, `=======`, the lane's, `>>>>>>>`.
/// `None` where the contents have no lines.
pub fn with_markers(three: Three<'_>, names: &Names) -> Option<Vec<u8>> {
    let longest = [three.base, three.ours, three.theirs].into_iter().map(longest_marker).max().unwrap_or(0);
    // Markers that the content has already are no markers to whoever looks for ours.
    render(three, keep(MARKER.max(longest + 1)), names)
}

/// What stands behind the markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// For the original's side.
    pub ours: Vec<u8>,
    /// For the lane's side.
    pub theirs: Vec<u8>,
}

impl Default for Names {
    fn default() -> Names {
        Names { ours: b"original".to_vec(), theirs: b"lane".to_vec() }
    }
}

fn render(three: Three<'_>, how: Conflict, names: &Names) -> Option<Vec<u8>> {
    let Three { base, ours, theirs } = three;
    if [base, ours, theirs].iter().any(|content| content.contains(&0)) {
        return None;
    }
    let endings = Endings::of(three);
    let (base, ours, theirs) = (endings.plain(base), endings.plain(ours), endings.plain(theirs));
    let three = Three { base: &base, ours: &ours, theirs: &theirs };
    let (resolution, merged) = run(three, Algorithm::Myers, how, names);
    let unmarked = resolution == Resolution::Complete && matches!(merge(three), Merged::Conflict(_));
    // The conflict is which line is which: the other way of telling shows it.
    let merged = if unmarked { run(three, Algorithm::Histogram, how, names).1 } else { merged };
    Some(endings.dressed(merged))
}

fn keep(marker: usize) -> Conflict {
    let marker = u8::try_from(marker).unwrap_or(u8::MAX);
    let marker_size = NonZeroU8::new(marker).unwrap_or(NonZeroU8::MIN);
    Conflict::Keep { style: ConflictStyle::Merge, marker_size }
}

fn run(three: Three<'_>, algorithm: Algorithm, how: Conflict, names: &Names) -> (Resolution, Vec<u8>) {
    let mut input = InternedInput::default();
    let merge = Merge::new(&mut input, three.ours, three.base, three.theirs, algorithm);
    let labels = Labels {
        ancestor: None,
        current: Some(names.ours.as_slice().into()),
        other: Some(names.theirs.as_slice().into()),
    };
    let mut merged = Vec::new();
    let resolution = merge.run(&mut merged, labels, how);
    (resolution, merged)
}

/// The longest run of a marker's character at the beginning of a line.
fn longest_marker(content: &[u8]) -> usize {
    let run = |line: &[u8]| match line.first() {
        Some(first @ (b'<' | b'=' | b'>')) => line.iter().take_while(|byte| *byte == first).count(),
        _ => 0,
    };
    content.split(|byte| *byte == b'\n').map(run).filter(|run| *run >= MARKER).max().unwrap_or(0)
}

/// A stretch of the base that one side changed, and what it became there.
#[derive(Debug, Clone)]
struct Edit {
    base: std::ops::Range<u32>,
    side: std::ops::Range<u32>,
}

fn edits(base: &[u8], side: &[u8]) -> Vec<Edit> {
    let input = InternedInput::new(byte_lines(base), byte_lines(side));
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    diff.hunks().map(|hunk| Edit { base: hunk.before, side: hunk.after }).collect()
}

/// True where edits of the two sides touch if one of them is seen a few lines higher or lower, at a place where it is the
/// same edit: lines that were put between equal ones have several.
fn could_meet(three: Three<'_>) -> bool {
    let lines = |content| byte_lines(content).collect::<Vec<_>>();
    let (base, ours_lines, theirs_lines) = (lines(three.base), lines(three.ours), lines(three.theirs));
    let (ours, theirs) = (edits(three.base, three.ours), edits(three.base, three.theirs));
    let mut others = theirs.iter().map(|edit| (edit, reach(edit, &base, &theirs_lines))).peekable();
    for edit in &ours {
        let mine = reach(edit, &base, &ours_lines);
        while others.next_if(|(_, other)| other.end < mine.start).is_some() {}
        let mut near = others.clone().take_while(|(_, other)| other.start <= mine.end);
        let is_same = |other: &Edit| {
            edit.base == other.base
                && ours_lines.get(index(&edit.side)) == theirs_lines.get(index(&other.side))
        };
        if near.any(|(other, reach)| reach.end >= mine.start && !is_same(other)) {
            return true;
        }
    }
    false
}

/// The stretch of the base over which an edit can be seen.
fn reach(edit: &Edit, base: &[&[u8]], side: &[&[u8]]) -> std::ops::Range<u32> {
    let (start, end) = (edit.base.start as usize, edit.base.end as usize);
    // The lines that came, or those that went, and the lines around them.
    let (block, before, after) = match (start == end, edit.side.is_empty()) {
        (true, _) => (&side[index(&edit.side)], &base[..start], &base[end..]),
        (_, true) => (&base[start..end], &base[..start], &base[end..]),
        _ => return edit.base.clone(),
    };
    let up = before.iter().rev().zip(block.iter().rev().cycle()).take_while(|(a, b)| a == b).count();
    let down = after.iter().zip(block.iter().cycle()).take_while(|(a, b)| a == b).count();
    let line = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    line(start - up)..line(end + down)
}

fn index(range: &std::ops::Range<u32>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}

/// Where edits of both sides meet.
fn regions(three: Three<'_>) -> Vec<Region> {
    let lines = |content| byte_lines(content).collect::<Vec<_>>();
    let (ours_lines, theirs_lines) = (lines(three.ours), lines(three.theirs));
    let (ours, theirs) = (edits(three.base, three.ours), edits(three.base, three.theirs));
    let mut all: Vec<(bool, Edit)> = Vec::with_capacity(ours.len() + theirs.len());
    all.extend(ours.iter().cloned().map(|edit| (false, edit)));
    all.extend(theirs.iter().cloned().map(|edit| (true, edit)));
    all.sort_by_key(|(_, edit)| (edit.base.start, edit.base.end));
    let mut found = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let (first, mut end) = (at, all[at].1.base.end);
        at += 1;
        while at < all.len() && all[at].1.base.start <= end {
            end = end.max(all[at].1.base.end);
            at += 1;
        }
        let group = &all[first..at];
        let base = group[0].1.base.start..end;
        let is_both = group.iter().any(|(lane, _)| *lane) && group.iter().any(|(lane, _)| !*lane);
        let (mine, other) = (place(&base, &ours), place(&base, &theirs));
        let same = || ours_lines.get(index(&mine)) == theirs_lines.get(index(&other));
        if is_both && !same() {
            let shown = |range: std::ops::Range<u32>| (range.start + 1, range.end - range.start);
            found.push(Region { base: shown(base), ours: shown(mine), theirs: shown(other) });
        }
    }
    if found.is_empty() {
        // No two edits meet, but what is an edit is in doubt: the whole of it is told.
        let whole = |lines: &[&[u8]]| (1, u32::try_from(lines.len()).unwrap_or(u32::MAX));
        let base = whole(&lines(three.base));
        found.push(Region { base, ours: whole(&ours_lines), theirs: whole(&theirs_lines) });
    }
    found
}

/// Where a stretch of the base, which cuts through none of the edits, stands in the edited content.
fn place(base: &std::ops::Range<u32>, edits: &[Edit]) -> std::ops::Range<u32> {
    let moved = |line: u32, edit: &Edit| line - edit.base.end + edit.side.end;
    let before = edits.iter().rev().find(|edit| {
        edit.base.end < base.start || edit.base.end == base.start && edit.base.start < base.start
    });
    let start = before.map_or(base.start, |edit| moved(base.start, edit));
    let last = edits.iter().rev().find(|edit| edit.base.end <= base.end);
    let end = last.map_or(base.end, |edit| moved(base.end, edit));
    start.min(end)..end
}

/// What the line endings of the three say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endings {
    /// They are merged as the bytes that they are.
    AsTheyAre,
    /// One side changed all of them: lines are compared without, and the result gets these.
    All { crlf: bool },
}

impl Endings {
    fn of(three: Three<'_>) -> Endings {
        let (Some(base), Some(ours), Some(theirs)) =
            (is_crlf(three.base), is_crlf(three.ours), is_crlf(three.theirs))
        else {
            return Endings::AsTheyAre;
        };
        match (base == ours, base == theirs) {
            (true, true) => Endings::AsTheyAre,
            (false, _) => Endings::All { crlf: ours },
            (true, false) => Endings::All { crlf: theirs },
        }
    }

    fn plain<'c>(self, content: &'c [u8]) -> Cow<'c, [u8]> {
        if self == Endings::AsTheyAre || !content.contains(&b'\r') {
            return Cow::Borrowed(content);
        }
        // Every newline has its `\r` here, so nothing else is lost.
        let mut plain = Vec::with_capacity(content.len());
        for (at, byte) in content.iter().enumerate() {
            if *byte != b'\r' || content.get(at + 1) != Some(&b'\n') {
                plain.push(*byte);
            }
        }
        Cow::Owned(plain)
    }

    fn dressed(self, merged: Vec<u8>) -> Vec<u8> {
        if self != (Endings::All { crlf: true }) {
            return merged;
        }
        let mut dressed = Vec::with_capacity(merged.len() + merged.len() / 16);
        for byte in merged {
            if byte == b'\n' && dressed.last() != Some(&b'\r') {
                dressed.push(b'\r');
            }
            dressed.push(byte);
        }
        dressed
    }
}

/// True where every line ends in `\r\n`, false where none does; `None` where they are mixed or there is none.
fn is_crlf(content: &[u8]) -> Option<bool> {
    let newlines = content.iter().filter(|byte| **byte == b'\n').count();
    let crlf = content.windows(2).filter(|pair| pair == b"\r\n").count();
    match (newlines, crlf) {
        (0, _) => None,
        (_, 0) => Some(false),
        (all, crlf) => (all == crlf).then_some(true),
    }
}

#[cfg(test)]
mod tests;
