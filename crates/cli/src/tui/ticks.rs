//! [`Ticks`]: what is ticked of one lane's changes, by the numbers that the list of files gives them. The rules of ticking
//! are the engine's; here is what the boxes show.
//!
//! Invariant: it was made from the very diff that is shown, so that a keep of it is one of what was looked at.

use engine::ops::diff::{FileDiff, FileView};
pub(crate) use engine::selection::Ticked;
use engine::selection::{Lines, Selection, Take};

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

    /// The ticks of changes that are as they were are ticks of the newer diff too; answers how many were lost.
    pub(crate) fn carry(&self, newer: &mut Ticks) -> usize {
        let mut lost = 0;
        for file in self.0.files.iter().filter(|file| file.take.is_some()) {
            match newer.0.file_mut(&file.root, &file.path) {
                Some(now) if now.digest == file.digest => {
                    (now.take, now.named) = (file.take.clone(), file.named);
                }
                _ => lost += 1,
            }
        }
        lost
    }
}
