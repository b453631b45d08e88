//! [`Choice`]: what a person ticked, as plain data: whole changes, and parts of files by hunk and by line. It knows
//! nothing of content; what it names is looked up in a diff by those who carry it out.
//!
//! Invariant: paths are exact. Nothing is covered by a directory above it but what only goes along with a renamed one.

use std::collections::{BTreeMap, BTreeSet};

use tree::TreePath;

/// What is ticked in one root, by the path that a list of changes shows ([`crate::flat::Pair::path`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// The root in the ids of hunks: its path, empty for the first one.
    pub root: Vec<u8>,
    /// What is taken of each ticked change; of others nothing is.
    pub files: BTreeMap<TreePath, Take>,
    /// Guarded paths that are taken all the same, because a person named them.
    pub named: Vec<TreePath>,
}

/// What is taken of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// All of it.
    Whole,
    /// Some of it; of files only.
    Part(Part),
}

/// Some of the change of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// It moves to its new path.
    pub rename: bool,
    /// It gets its new mode and attributes.
    pub mode: bool,
    /// What is taken of its hunks, by their ids.
    pub hunks: BTreeMap<String, Lines>,
}

/// What is taken of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lines {
    /// All of it.
    All,
    /// These of its changed lines, which are numbered from 1 in the order in which the hunk shows them, context not
    /// counted. An added line that is not among them is left out, a removed one stays.
    Some(BTreeSet<u32>),
}

impl Lines {
    /// True where the changed line with this number is taken.
    pub fn takes(&self, number: u32) -> bool {
        match self {
            Lines::All => true,
            Lines::Some(numbers) => numbers.contains(&number),
        }
    }
}

impl Choice {
    /// True where nothing is ticked.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
