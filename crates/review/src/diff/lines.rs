//! [`compute`]: which lines went and which came, for [`super::named_diff`].
//!
//! The histogram algorithm looks at all that is left of a content after each change that it finds, so that its time grows
//! with lines times changes. Large content is cut first, at lines that stand once on either side and in the same order on
//! both (the longest such row of them), and each piece between two cuts is compared by itself.
//!
//! Invariant: what is neither removed nor added is equal on both sides, in the same order. Small content gives what the
//! histogram algorithm gives.

use gix_imara_diff::{Algorithm, Diff, InternedInput, Token};

/// Content of fewer lines (both sides together) is not cut.
const LARGE: usize = 2000;

/// What a line is known as where it does not stand exactly once.
const NONE: u32 = u32::MAX;
const MANY: u32 = u32::MAX - 1;

/// Compares two rows of lines.
pub(super) fn compute<T>(input: &InternedInput<T>) -> Diff {
    let (before, after) = (input.before.as_slice(), input.after.as_slice());
    if before.len() + after.len() < LARGE {
        return Diff::compute(Algorithm::Histogram, input);
    }
    let tokens = input.interner.num_tokens() as usize;
    let mut script = Script {
        removed: vec![false; before.len()],
        added: vec![false; after.len()],
        numbers: vec![NONE; tokens],
    };
    let (mut old, mut new) = (0, 0);
    for (old_at, new_at) in cuts(before, after, tokens).into_iter().chain([(before.len(), after.len())]) {
        script.piece((before, old..old_at), (after, new..new_at));
        (old, new) = (old_at + 1, new_at + 1);
    }
    script.into_diff()
}

/// Where each line stands that stands once; [`NONE`] and [`MANY`] for the others.
fn places(lines: &[Token], tokens: usize) -> Vec<u32> {
    let mut places = vec![NONE; tokens];
    for (at, token) in (0..).zip(lines) {
        let place = &mut places[token.0 as usize];
        *place = if *place == NONE { at } else { MANY };
    }
    places
}

/// The longest row of lines that stand once on either side and in the same order on both: the place of each, before and
/// after.
fn cuts(before: &[Token], after: &[Token], tokens: usize) -> Vec<(usize, usize)> {
    let (olds, news) = (places(before, tokens), places(after, tokens));
    // Of each length the row that ends earliest, by its last pair; each pair knows the one before it.
    let mut pairs: Vec<(u32, u32, u32)> = Vec::new();
    let mut ends: Vec<u32> = Vec::new();
    for (new, token) in (0..).zip(after) {
        let old = olds[token.0 as usize];
        if old >= MANY || news[token.0 as usize] >= MANY {
            continue;
        }
        let is_before = |end: &u32| pairs[*end as usize].0 < old;
        // Mostly everything is still in order.
        let length =
            if ends.last().is_none_or(is_before) { ends.len() } else { ends.partition_point(is_before) };
        let previous = length.checked_sub(1).map_or(NONE, |shorter| ends[shorter]);
        let pair = pairs.len() as u32;
        pairs.push((old, new, previous));
        if length == ends.len() {
            ends.push(pair);
        } else {
            ends[length] = pair;
        }
    }
    let mut row = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied().unwrap_or(NONE);
    while let Some((old, new, previous)) = pairs.get(at as usize) {
        row.push((*old as usize, *new as usize));
        at = *previous;
    }
    row.reverse();
    row
}

/// What is known so far.
struct Script {
    removed: Vec<bool>,
    added: Vec<bool>,
    /// The number of each line within the piece that is compared just now.
    numbers: Vec<u32>,
}

/// All lines of a side, and those of a piece.
type Part<'t> = (&'t [Token], std::ops::Range<usize>);

impl Script {
    /// Compares the lines between two cuts.
    fn piece(&mut self, (before, mut old): Part<'_>, (after, mut new): Part<'_>) {
        while !old.is_empty() && !new.is_empty() && before[old.start] == after[new.start] {
            (old.start, new.start) = (old.start + 1, new.start + 1);
        }
        while !old.is_empty() && !new.is_empty() && before[old.end - 1] == after[new.end - 1] {
            (old.end, new.end) = (old.end - 1, new.end - 1);
        }
        let mut count = 0;
        let mut number = |numbers: &mut [u32], token: &Token| {
            let number = &mut numbers[token.0 as usize];
            if *number == NONE {
                (*number, count) = (count, count + 1);
            }
            Token(*number)
        };
        let olds: Vec<Token> =
            before[old.clone()].iter().map(|token| number(&mut self.numbers, token)).collect();
        let is_shared = after[new.clone()].iter().any(|token| self.numbers[token.0 as usize] != NONE);
        if is_shared {
            let news: Vec<Token> =
                after[new.clone()].iter().map(|token| number(&mut self.numbers, token)).collect();
            let mut diff = Diff::default();
            diff.compute_with(Algorithm::Histogram, &olds, &news, count);
            for at in 0..olds.len() {
                self.removed[old.start + at] = diff.is_removed(at as u32);
            }
            for at in 0..news.len() {
                self.added[new.start + at] = diff.is_added(at as u32);
            }
        } else {
            self.removed[old.clone()].fill(true);
            self.added[new.clone()].fill(true);
        }
        for token in before[old].iter().chain(&after[new]) {
            self.numbers[token.0 as usize] = NONE;
        }
    }

    /// As the library keeps it, which makes it from nothing but two rows of lines: each line that stays gets a number of its own, and
    /// any algorithm finds those at once.
    fn into_diff(self) -> Diff {
        let kept = self.removed.iter().filter(|removed| !**removed).count() as u32;
        let row = |gone: &[bool], other: u32| {
            let mut next = 0..;
            let token = |gone: &bool| Token(if *gone { other } else { next.next().unwrap_or(other) });
            gone.iter().map(token).collect::<Vec<Token>>()
        };
        let (before, after) = (row(&self.removed, kept), row(&self.added, kept + 1));
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::MyersMinimal, &before, &after, kept + 2);
        diff
    }
}
