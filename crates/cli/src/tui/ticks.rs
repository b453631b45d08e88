//! [`Ticks`]: what is ticked of one lane's changes, by the numbers that the list of files gives them. The rules of ticking
//! are the engine's; here is what the boxes show.
//!
//! Invariant: it was made from the very diff that is shown, and knows of each file that was looked at what that was, so
//! that a keep of it is one of what was looked at.

use std::collections::HashMap;

use engine::ops::diff::{FileDiff, FileView};
pub(crate) use engine::selection::Ticked;
use engine::selection::{Digest, Lines, SelectedFile, Selection, Take};
use tree::TreePath;

use super::fact::Changes;

/// The box.
pub(crate) fn sign(ticked: Ticked) -> &'static str {
    match ticked {
        Ticked::None => "[ ]",
        Ticked::Some => "[~]",
        Ticked::All => "[x]",
    }
}

/// The ticks of one lane.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ticks(Selection);

impl Ticks {
    /// The ticks of a diff: its files have the same numbers there and here.
    pub(crate) fn of(selection: Selection) -> Ticks {
        Ticks(selection)
    }

    /// The ticks as the engine takes them.
    pub(crate) fn selection(&self) -> &Selection {
        &self.0
    }

    /// Files of which something is ticked.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }

    /// How much of a file is ticked.
    pub(crate) fn file(&self, file: usize) -> Ticked {
        self.0.files.get(file).map_or(Ticked::None, |file| file.ticked())
    }

    /// How much of a hunk is ticked.
    pub(crate) fn hunk(&self, file: usize, hunk: &str) -> Ticked {
        match self.0.files.get(file).and_then(|file| file.take.as_ref()) {
            None => Ticked::None,
            Some(Take::Whole) => Ticked::All,
            Some(Take::Part(part)) => match part.hunks.get(hunk) {
                None => Ticked::None,
                Some(Lines::All) => Ticked::All,
                Some(Lines::Some(_)) => Ticked::Some,
            },
        }
    }

    /// Whether a changed line is ticked; numbers begin with 1 in each hunk.
    pub(crate) fn line(&self, file: usize, hunk: &str, number: u32) -> bool {
        self.0.files.get(file).is_some_and(|file| file.takes_line(hunk, number))
    }

    /// Whether the new place and the new mode are ticked.
    pub(crate) fn dress(&self, file: usize) -> (bool, bool) {
        self.0.files.get(file).map_or((false, false), |file| (file.takes_rename(), file.takes_mode()))
    }

    /// Ticks a whole file, by itself.
    pub(crate) fn tick(&mut self, file: usize) {
        if let Some(file) = self.0.files.get_mut(file) {
            file.tick();
        }
    }

    /// Ticks a whole file, or takes all of its ticks away.
    pub(crate) fn flip(&mut self, file: usize) {
        if let Some(file) = self.0.files.get_mut(file) {
            file.toggle();
        }
    }

    /// Takes every tick away.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Ticks a hunk that is not ticked as a whole, or takes its tick away.
    pub(crate) fn flip_hunk(&mut self, number: usize, file: &FileView, diff: &FileDiff, hunk: &str) {
        if let Some(ticks) = self.0.files.get_mut(number) {
            ticks.toggle_hunk(&file.change, diff, hunk);
        }
    }

    /// Ticks a changed line, or takes its tick away.
    pub(crate) fn flip_line(
        &mut self,
        number: usize,
        file: &FileView,
        diff: &FileDiff,
        hunk: &str,
        line: u32,
    ) {
        if let Some(ticks) = self.0.files.get_mut(number) {
            ticks.toggle_line(&file.change, diff, hunk, line);
        }
    }

    /// Ticks the rename of a file, or takes its tick away.
    pub(crate) fn flip_rename(&mut self, number: usize, file: &FileView, diff: &FileDiff) {
        if let Some(ticks) = self.0.files.get_mut(number) {
            ticks.toggle_rename(&file.change, diff);
        }
    }

    /// Ticks the new mode of a file, or takes its tick away.
    pub(crate) fn flip_mode(&mut self, number: usize, file: &FileView, diff: &FileDiff) {
        if let Some(ticks) = self.0.files.get_mut(number) {
            ticks.toggle_mode(&file.change, diff);
        }
    }

    /// Ticks a whole file, or takes all of its ticks away, as it is said.
    pub(crate) fn set(&mut self, file: usize, on: bool) {
        if let Some(file) = self.0.files.get_mut(file) {
            if on { file.tick() } else { file.clear() }
        }
    }

    /// The content of a file is shown, and this is what it is. True where parts of it were ticked that are no parts of this.
    pub(crate) fn looked(&mut self, file: usize, digest: Digest) -> bool {
        let Some(file) = self.0.files.get_mut(file) else { return false };
        let is_other = file.digest != Digest::UNKNOWN && file.digest != digest;
        file.digest = digest;
        let is_lost = is_other && matches!(file.take, Some(Take::Part(_)));
        if is_lost {
            file.clear();
        }
        is_lost
    }

    /// Ticks that were set aside when the lane was left are ticks again; answers how many are on what is gone.
    pub(crate) fn take_back(&mut self, aside: Selection) -> usize {
        let mut lost = 0;
        for file in aside.files.into_iter().filter(|file| file.take.is_some()) {
            match self.0.file_mut(&file.root, &file.path) {
                Some(now) => *now = file,
                None => lost += 1,
            }
        }
        lost
    }

    /// A file was read in passing, and this is what it was. What was known already binds.
    pub(crate) fn saw(&mut self, file: usize, digest: Digest) {
        if let Some(file) = self.0.files.get_mut(file).filter(|file| file.digest == Digest::UNKNOWN) {
            file.digest = digest;
        }
    }
}

impl Changes {
    /// The ticks of changes that are as they were are ticks of the newer diff too; answers how many were lost.
    pub(crate) fn carry(&self, newer: &mut Changes) -> usize {
        let places: HashMap<(usize, &TreePath), usize> = newer
            .files
            .iter()
            .enumerate()
            .map(|(at, file)| ((file.root_index, &file.change.path), at))
            .collect();
        let mut lost = 0;
        let ticked = self.ticks.0.files.iter().zip(&self.files).filter(|(file, _)| file.take.is_some());
        for (file, view) in ticked {
            let now = places.get(&(view.root_index, &view.change.path)).copied();
            let now = now.and_then(|at| Some((newer.ticks.0.files.get_mut(at)?, newer.files.get(at)?)));
            match now {
                Some((now, now_view)) if is_same((file, view), (now, now_view)) => {
                    (now.take, now.named) = (file.take.clone(), file.named);
                    // It is bound to what was looked at, and not to what is found there the next time.
                    if now.digest == Digest::UNKNOWN {
                        now.digest = file.digest;
                    }
                }
                _ => lost += 1,
            }
        }
        lost
    }
}

/// Told by the digests where both are known, and else by what the two trees say of it.
fn is_same((was, was_view): (&SelectedFile, &FileView), (now, now_view): (&SelectedFile, &FileView)) -> bool {
    if was.digest == Digest::UNKNOWN || now.digest == Digest::UNKNOWN {
        return was_view.change == now_view.change;
    }
    was.digest == now.digest
}
