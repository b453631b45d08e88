//! A content made of another one and some of the changed lines of a diff. Pure, on bytes.
//!
//! Invariant: with every hunk taken the result is the new content, with none it is the old one, byte for byte; a
//! line that is in the result has the ending that it has in the content it came from. Only where the last line of a
//! content has no ending and another line follows it in the result is one added: that of the line before.

use std::collections::BTreeMap;

use crate::choice::Lines;
use crate::diff::{FileDiff, Hunk, LineKind};

/// What a choice asks for and a diff does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// No hunk has this id.
    Hunk(String),
    /// Several hunks have this id.
    Twice(String),
    /// The hunk has fewer changed lines than this number.
    Line(String, u32),
}

/// How much of a diff is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Nothing.
    None,
    /// Some lines.
    Some,
    /// Every line.
    All,
}

/// Changed lines of a hunk.
pub fn changed(hunk: &Hunk) -> u32 {
    hunk.lines.iter().filter(|line| line.kind != LineKind::Context).count() as u32
}

/// The runs of changed lines that unchanged ones part, as numbers of lines: what a hunk splits into.
pub fn runs(hunk: &Hunk) -> Vec<std::ops::RangeInclusive<u32>> {
    let mut runs: Vec<std::ops::RangeInclusive<u32>> = Vec::new();
    let (mut number, mut apart) = (0, true);
    for line in &hunk.lines {
        if line.kind == LineKind::Context {
            apart = true;
            continue;
        }
        number += 1;
        match runs.last_mut().filter(|_| !apart) {
            Some(run) => *run = *run.start()..=number,
            None => runs.push(number..=number),
        }
        apart = false;
    }
    runs
}

/// Looks whether everything that is asked for is in the diff, once, and says how much of it that is.
pub fn extent(diff: &FileDiff, take: &BTreeMap<String, Lines>) -> Result<Extent, Missing> {
    let (mut taken, mut all) = (0u64, 0u64);
    for (id, lines) in take {
        let mut with_id = diff.hunks.iter().filter(|hunk| hunk.id == *id);
        let Some(hunk) = with_id.next() else { return Err(Missing::Hunk(id.clone())) };
        if with_id.next().is_some() {
            return Err(Missing::Twice(id.clone()));
        }
        let count = changed(hunk);
        if let Lines::Some(numbers) = lines {
            if let Some(number) = numbers.iter().find(|number| **number == 0 || **number > count) {
                return Err(Missing::Line(id.clone(), *number));
            }
            taken += numbers.len() as u64;
        } else {
            taken += u64::from(count);
        }
    }
    for hunk in &diff.hunks {
        all += u64::from(changed(hunk));
    }
    Ok(match taken {
        0 => Extent::None,
        _ if taken == all => Extent::All,
        _ => Extent::Some,
    })
}

/// The old content with what is taken of the diff, which must be the old content's own.
pub fn splice(old: &[u8], diff: &FileDiff, take: &BTreeMap<String, Lines>) -> Vec<u8> {
    let mut out = Out { bytes: Vec::with_capacity(old.len()), crlf: None };
    let mut rest = old.split_inclusive(|byte| *byte == b'\n');
    let mut at = 0;
    for hunk in &diff.hunks {
        let from = if hunk.old_len == 0 { hunk.old_start } else { hunk.old_start - 1 };
        rest.by_ref().take((from - at) as usize).for_each(|line| out.line(line));
        let taken = take.get(&hunk.id);
        let mut number = 0;
        for line in &hunk.lines {
            let is_taken = if line.kind == LineKind::Context {
                false
            } else {
                number += 1;
                taken.is_some_and(|lines| lines.takes(number))
            };
            let stays = match line.kind {
                LineKind::Context => true,
                LineKind::Removed => !is_taken,
                LineKind::Added => is_taken,
            };
            if stays {
                out.line(&line.bytes);
            }
        }
        // What the hunk says of the old content stands in its own lines.
        rest.by_ref().take(hunk.old_len as usize).for_each(drop);
        at = from + hunk.old_len;
    }
    rest.for_each(|line| out.line(line));
    out.bytes
}

/// The result as it grows.
struct Out {
    bytes: Vec<u8>,
    /// Whether the last line with an ending ended in `\r\n`.
    crlf: Option<bool>,
}

impl Out {
    fn line(&mut self, line: &[u8]) {
        if self.bytes.last().is_some_and(|byte| *byte != b'\n') {
            // CASE(the last line of one side, unended, before a line of the other side): they must not become one line.
            let crlf = self.crlf.unwrap_or_else(|| line.ends_with(b"\r\n"));
            let ending: &[u8] = match crlf && !self.bytes.ends_with(b"\r") {
                true => b"\r\n",
                false => b"\n",
            };
            self.bytes.extend_from_slice(ending);
        }
        if line.last() == Some(&b'\n') {
            self.crlf = Some(line.ends_with(b"\r\n"));
        }
        self.bytes.extend_from_slice(line);
    }
}

#[cfg(test)]
mod tests;
