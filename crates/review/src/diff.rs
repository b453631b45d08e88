//! The line diff of two byte strings. It owns hunks and their ids; it reads no file and knows no git.
//!
//! Invariant: a line keeps its own ending (`\n`, `\r\n`, none), so the old text is exactly the
//! context and removed lines with the untouched stretches between hunks, and the new text likewise.
//! Bytes are never taken for text: invalid UTF-8, a byte-order mark and lone `\r` are bytes.

use std::collections::BTreeMap;

use gix_imara_diff::{InternedInput, sources::byte_lines};

use crate::sha1::{Sha1, hex};

mod lines;

/// Unchanged lines around a change.
pub const CONTEXT: u32 = 3;

/// How far git looks for a NUL before it calls content text.
const BINARY_WINDOW: usize = 8000;

/// What a line of a hunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// In both.
    Context,
    /// Only in the old content.
    Removed,
    /// Only in the new content.
    Added,
}

/// A line of a hunk, with its own ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: LineKind,
    /// The line with its ending; without one where the content ends without one.
    pub bytes: Vec<u8>,
}

impl Line {
    /// True where the content ends with this line and has no newline there.
    pub fn lacks_newline(&self) -> bool {
        self.bytes.last() != Some(&b'\n')
    }
}

/// Changed lines that stand together, with up to [`CONTEXT`] unchanged ones around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Twelve hexadecimal digits from the file and the lines of the hunk. It stays the same when other hunks of the file
    /// come, go, or are kept. Where a file has the very same hunk several times, the place in the old content
    /// tells them apart.
    pub id: String,
    /// First line in the old content, from 1 (0 where `old_len` is 0 at the start).
    pub old_start: u32,
    /// Lines of the old content.
    pub old_len: u32,
    /// First line in the new content, from 1.
    pub new_start: u32,
    /// Lines of the new content.
    pub new_len: u32,
    /// The lines in order.
    pub lines: Vec<Line>,
}

/// The difference of two contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileDiff {
    /// Either side is binary (a NUL in its first 8000 bytes): no hunks then.
    pub binary: bool,
    /// The hunks in order.
    pub hunks: Vec<Hunk>,
    /// What an eye on the lines would miss.
    pub notes: Vec<Note>,
}

/// A change of the whole file that its lines do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Most lines end in `\r\n` now, and did not before.
    ToCrLf,
    /// Most lines ended in `\r\n` before, and do not now.
    ToLf,
    /// A UTF-8 byte-order mark was put in front.
    MarkAdded,
    /// The UTF-8 byte-order mark is gone.
    MarkRemoved,
}

fn notes(old: &[u8], new: &[u8]) -> Vec<Note> {
    let mut notes = Vec::new();
    if old.is_empty() || new.is_empty() {
        return notes;
    }
    let is_crlf = |content: &[u8]| {
        if !content.contains(&b'\r') {
            return content.contains(&b'\n').then_some(false);
        }
        let newlines = content.iter().filter(|b| **b == b'\n').count();
        let crlf = content.windows(2).filter(|pair| pair == b"\r\n").count();
        (newlines > 0).then_some(crlf * 2 > newlines)
    };
    match (is_crlf(old), is_crlf(new)) {
        (Some(false), Some(true)) => notes.push(Note::ToCrLf),
        (Some(true), Some(false)) => notes.push(Note::ToLf),
        _ => {}
    }
    let marked = |content: &[u8]| content.starts_with(b"\xef\xbb\xbf");
    match (marked(old), marked(new)) {
        (false, true) => notes.push(Note::MarkAdded),
        (true, false) => notes.push(Note::MarkRemoved),
        _ => {}
    }
    notes
}

impl FileDiff {
    /// Lines added and removed.
    pub fn counts(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        for line in self.hunks.iter().flat_map(|hunk| &hunk.lines) {
            match line.kind {
                LineKind::Added => counts.0 += 1,
                LineKind::Removed => counts.1 += 1,
                LineKind::Context => {}
            }
        }
        counts
    }
}

/// True where git would call `content` binary.
pub fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_WINDOW)].contains(&0)
}

/// The difference between two contents; `None` is a file that is not there.
pub fn file_diff(old: Option<&[u8]>, new: Option<&[u8]>) -> FileDiff {
    named_diff(b"", old, new)
}

/// As [`file_diff`], with hunk ids that also tell files apart: `name` is the file's path.
pub fn named_diff(name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> FileDiff {
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    if is_binary(old) || is_binary(new) {
        return FileDiff { binary: true, ..FileDiff::default() };
    }
    if old == new {
        return FileDiff::default();
    }
    let input = InternedInput::new(byte_lines(old), byte_lines(new));
    let mut diff = lines::compute(&input);
    diff.postprocess_lines(&input);
    let before = |i: u32| input.interner[input.before[i as usize]];
    let after = |i: u32| input.interner[input.after[i as usize]];
    let (before_len, after_len) = (input.before.len() as u32, input.after.len() as u32);

    let changes: Vec<gix_imara_diff::Hunk> = diff.hunks().collect();
    // Two changes share a hunk where their contexts touch or overlap.
    let groups = changes.chunk_by(|a, b| b.before.start - a.before.end <= 2 * CONTEXT);
    let mut hunks = Vec::new();
    let mut ids: Vec<Sha1> = Vec::new();
    for group in groups {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let lead = first.before.start.min(CONTEXT);
        let tail = (before_len - last.before.end).min(CONTEXT);
        let (old_from, old_to) = (first.before.start - lead, last.before.end + tail);
        let (new_from, new_to) = (first.after.start - lead, last.after.end + tail);
        debug_assert!(new_to <= after_len);
        let mut lines = Vec::with_capacity((old_to - old_from + new_to - new_from) as usize);
        let mut id = Sha1::new();
        id.update(&(name.len() as u64).to_be_bytes());
        id.update(name);
        let mut at = old_from;
        let mut push = |kind, bytes: &[u8]| {
            // No place: an edit further up, kept or not, must not rename hunks.
            let mark = match kind {
                LineKind::Context => b" ",
                LineKind::Removed => b"-",
                LineKind::Added => b"+",
            };
            id.update(mark);
            id.update(&(bytes.len() as u64).to_be_bytes());
            id.update(bytes);
            lines.push(Line { kind, bytes: bytes.to_vec() });
        };
        for change in group {
            (at..change.before.start).for_each(|i| push(LineKind::Context, before(i)));
            change.before.clone().for_each(|i| push(LineKind::Removed, before(i)));
            change.after.clone().for_each(|i| push(LineKind::Added, after(i)));
            at = change.before.end;
        }
        (at..old_to).for_each(|i| push(LineKind::Context, before(i)));
        let start = |from: u32, to: u32| if from == to { from } else { from + 1 };
        hunks.push(Hunk {
            id: String::new(),
            old_start: start(old_from, old_to),
            old_len: old_to - old_from,
            new_start: start(new_from, new_to),
            new_len: new_to - new_from,
            lines,
        });
        ids.push(id);
    }
    name_hunks(&mut hunks, ids);
    FileDiff { binary: false, hunks, notes: notes(old, new) }
}

/// Gives the hunks their ids.
fn name_hunks(hunks: &mut [Hunk], ids: Vec<Sha1>) {
    let short = |id: Sha1| hex(&id.finish()[..6]);
    let names: Vec<String> = ids.iter().map(|id| short(id.clone())).collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    names.iter().for_each(|name| *times.entry(name).or_default() += 1);
    for ((hunk, mut id), name) in hunks.iter_mut().zip(ids).zip(&names) {
        hunk.id = if times[name.as_str()] == 1 {
            name.clone()
        } else {
            id.update(b"@");
            id.update(&hunk.old_start.to_be_bytes());
            short(id)
        };
    }
}

#[cfg(test)]
mod tests;
