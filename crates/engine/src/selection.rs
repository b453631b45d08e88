//! [`Selection`]: what a person ticked in the diff of a lane, as plain data that can be saved, shown and replayed. It owns
//! the document `lane.selection/1` and the rules of ticking; it reads no tree.
//!
//! Invariant: it names every change of the diff that it was made on, each with a digest, ticked or not; so it can be
//! told later what is no longer as it was looked at. A guarded file is taken only where it was ticked by itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use review::choice::{Lines, Part, Take};
use review::diff::FileDiff;
pub use review::digest::Digest;
use review::splice::{self, Extent};
pub use review::splice::{changed as changed_lines, runs as line_runs};
use tree::{Change, TreePath};

mod document;

/// What was ticked in a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The lane's name then.
    pub lane: String,
    /// The lane.
    pub lane_id: String,
    /// The digest of the whole diff.
    pub digest: Digest,
    /// Where the diff was narrowed to: root and path. Empty for everything.
    pub within: Vec<(PathBuf, TreePath)>,
    /// Every change of the diff.
    pub files: Vec<SelectedFile>,
}

/// A change of the diff, and what is taken of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedFile {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where, as in the diff.
    pub path: TreePath,
    /// What it was when it was looked at.
    pub digest: Digest,
    /// It runs by itself later.
    pub guarded: bool,
    /// A guarded file was ticked by itself.
    pub named: bool,
    /// What is taken of it.
    pub take: Option<Take>,
}

/// How much of a file is ticked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticked {
    /// Nothing.
    None,
    /// Some of it.
    Some,
    /// All of it.
    All,
}

impl Selection {
    /// The digest of these changes.
    pub fn digest_of(files: &[SelectedFile]) -> Digest {
        use std::os::unix::ffi::OsStrExt as _;
        let place = |file: &SelectedFile| file.root.clone();
        let places: Vec<PathBuf> = files.iter().map(place).collect();
        review::digest::of_list(
            files
                .iter()
                .zip(&places)
                .map(|(file, root)| (root.as_os_str().as_bytes(), &file.path, file.digest)),
        )
    }

    /// The change at a path of a root.
    pub fn file(&self, root: &Path, path: &TreePath) -> Option<&SelectedFile> {
        self.files.iter().find(|file| file.path == *path && file.root == root)
    }

    /// The change at a path of a root, to tick it.
    pub fn file_mut(&mut self, root: &Path, path: &TreePath) -> Option<&mut SelectedFile> {
        self.files.iter_mut().find(|file| file.path == *path && file.root == root)
    }

    /// Ticks everything but guarded files, which are left as they are.
    pub fn tick_all(&mut self) {
        self.files.iter_mut().filter(|file| !file.guarded).for_each(SelectedFile::tick);
    }

    /// Takes every tick away.
    pub fn clear(&mut self) {
        self.files.iter_mut().for_each(SelectedFile::clear);
    }

    /// True where nothing is ticked.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.take.is_none())
    }

    /// Ticked changes.
    pub fn count(&self) -> usize {
        self.files.iter().filter(|file| file.take.is_some()).count()
    }
}

impl SelectedFile {
    /// Ticks all of it; a guarded file is named by that.
    pub fn tick(&mut self) {
        self.take = Some(Take::Whole);
        self.named = self.guarded;
    }

    /// Takes the ticks away.
    pub fn clear(&mut self) {
        self.take = None;
        self.named = false;
    }

    /// All of it where nothing or some of it was ticked, else nothing.
    pub fn toggle(&mut self) {
        match self.take {
            Some(Take::Whole) => self.clear(),
            _ => self.tick(),
        }
    }

    /// Ticks a hunk, or takes its ticks away where all of it was ticked. False where the diff has no such hunk.
    pub fn toggle_hunk(&mut self, change: &Change, diff: &FileDiff, id: &str) -> bool {
        let Some(hunk) = diff.hunks.iter().find(|hunk| hunk.id == id) else { return false };
        let all = (1..=splice::changed(hunk)).all(|number| self.takes_line(id, number));
        let lines = if all { None } else { Some(Lines::All) };
        self.set_lines(change, diff, id, lines);
        true
    }

    /// Ticks a changed line of a hunk (numbered from 1, context not counted), or takes its tick away. False where the
    /// diff has no such line.
    pub fn toggle_line(&mut self, change: &Change, diff: &FileDiff, id: &str, number: u32) -> bool {
        let Some(hunk) = diff.hunks.iter().find(|hunk| hunk.id == id) else { return false };
        let count = splice::changed(hunk);
        if number == 0 || number > count {
            return false;
        }
        let mut numbers: BTreeSet<u32> = (1..=count).filter(|line| self.takes_line(id, *line)).collect();
        if !numbers.remove(&number) {
            numbers.insert(number);
        }
        let lines = match numbers.len() as u32 {
            0 => None,
            len if len == count => Some(Lines::All),
            _ => Some(Lines::Some(numbers)),
        };
        self.set_lines(change, diff, id, lines);
        true
    }

    /// Ticks the new mode (with attributes) of a file, or takes that tick away.
    pub fn toggle_mode(&mut self, change: &Change, diff: &FileDiff) {
        let mut part = self.part(change, diff);
        part.mode = !part.mode;
        self.set(change, diff, part);
    }

    /// Ticks the new place of a file, or takes that tick away.
    pub fn toggle_rename(&mut self, change: &Change, diff: &FileDiff) {
        let mut part = self.part(change, diff);
        part.rename = !part.rename;
        self.set(change, diff, part);
    }

    /// Takes these lines of a hunk, or none of them.
    pub fn set_lines(&mut self, change: &Change, diff: &FileDiff, id: &str, lines: Option<Lines>) {
        let mut part = self.part(change, diff);
        match lines {
            Some(lines) => drop(part.hunks.insert(id.to_owned(), lines)),
            None => drop(part.hunks.remove(id)),
        }
        self.set(change, diff, part);
    }

    /// True where a changed line is ticked.
    pub fn takes_line(&self, id: &str, number: u32) -> bool {
        match &self.take {
            None => false,
            Some(Take::Whole) => true,
            Some(Take::Part(part)) => part.hunks.get(id).is_some_and(|lines| lines.takes(number)),
        }
    }

    /// True where the new mode is ticked.
    pub fn takes_mode(&self) -> bool {
        match &self.take {
            None => false,
            Some(Take::Whole) => true,
            Some(Take::Part(part)) => part.mode,
        }
    }

    /// True where the new place is ticked.
    pub fn takes_rename(&self) -> bool {
        match &self.take {
            None => false,
            Some(Take::Whole) => true,
            Some(Take::Part(part)) => part.rename,
        }
    }

    /// How much is ticked.
    pub fn ticked(&self) -> Ticked {
        match self.take {
            None => Ticked::None,
            Some(Take::Part(_)) => Ticked::Some,
            Some(Take::Whole) => Ticked::All,
        }
    }

    /// What is taken, spelled out.
    fn part(&self, change: &Change, diff: &FileDiff) -> Part {
        match &self.take {
            Some(Take::Part(part)) => part.clone(),
            Some(Take::Whole) => Part {
                rename: true,
                mode: true,
                hunks: diff.hunks.iter().map(|hunk| (hunk.id.clone(), Lines::All)).collect(),
            },
            // A mode that is not shown as changed has no tick of its own.
            None => Part { rename: false, mode: !shows_mode(change), ..Part::default() },
        }
    }

    fn set(&mut self, change: &Change, diff: &FileDiff, part: Part) {
        let renames = change.old.is_some() && change.new.is_some() && change.path != *change.old_path();
        let is_all = splice::extent(diff, &part.hunks) == Ok(Extent::All) || diff.hunks.is_empty();
        let is_none =
            part.hunks.is_empty() && !(part.rename && renames) && !(part.mode && shows_mode(change));
        if is_none {
            self.clear();
        } else if is_all && part.mode && (part.rename || !renames) && !diff.binary {
            self.tick();
        } else {
            self.named = self.guarded;
            self.take = Some(Take::Part(part));
        }
    }
}

/// True where the mode bits of a file that is on both sides differ.
pub fn shows_mode(change: &Change) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.kind == new.kind && old.mode != new.mode,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
