//! [`Change`] and [`ChangeSet`]: what differs between a base and a lane. Changes are objects, not text.
//!
//! Invariant: a change set is sorted by path and names each path once. A removed, replaced or retyped
//! directory is followed by one `Delete` for each base entry below it that is gone.
//! A change never says that two equal entries differ: noise is dropped before it is made. Times are
//! not compared. The root of the tree is never a change.
//!
//! Renamed directories: a `Rename` of a directory is made only where nothing stood at its path in the
//! base and `from` is gone from the lane. Every base entry below `from` that no change names as its
//! [`Change::old_path`] stands unchanged at the same place below the new path. What differs inside has a
//! change of its own, and all of them name true base paths: a file whose content or mode differs is itself
//! a `Rename` from its full base path, a lost one a `Delete` at its base path, a new one an `Add`. So
//! `Modify`, `Mode` and `Retype` never stand below a renamed directory, and nobody has to map paths.

use crate::entry::Entry;
use crate::path::TreePath;

/// What happened to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// Not in the base, in the lane.
    Add,
    /// A file or link with other content (mode may differ too).
    Modify,
    /// In the base, not in the lane.
    Delete,
    /// The same content with other permission bits (or other extended attributes).
    Mode,
    /// Another type than in the base (file → directory, link → file, …).
    Retype,
    /// The entry stood at `from` in the base; its mode may differ too (compare `old` and `new`). A renamed
    /// directory stands for everything below it; what differs inside has changes of its own (see the module).
    Rename {
        /// The path in the base.
        from: TreePath,
        /// True where the content differs from the base's content at `from`; false for a directory.
        modified: bool,
    },
}

/// One difference between the base and the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where, in the lane (for `Delete`: in the base).
    pub path: TreePath,
    /// What.
    pub kind: ChangeKind,
    /// The entry in the base (`Rename`: the entry at `from`); `None` for `Add`.
    pub old: Option<Entry>,
    /// The entry in the lane; `None` for `Delete`.
    pub new: Option<Entry>,
}

impl Change {
    /// The path in the base that this change speaks of: `from` for a rename, else `path`.
    pub fn old_path(&self) -> &TreePath {
        match &self.kind {
            ChangeKind::Rename { from, .. } => from,
            _ => &self.path,
        }
    }
}

/// A sorted list of changes, with what could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Sorted by path.
    pub changes: Vec<Change>,
    /// Entries that could not be compared, each with the reason; never silently dropped.
    pub gaps: Vec<(TreePath, String)>,
    /// Files of the lane's own layer have further names in it: a lower layer would not keep them together. Only the
    /// reading of an overlay's layer tells.
    pub linked: bool,
}

impl ChangeSet {
    /// Brings the list into its order.
    pub fn sort(&mut self) {
        self.changes.sort_by(|a, b| a.path.cmp(&b.path));
        self.gaps.sort_by(|a, b| a.0.cmp(&b.0));
    }

    /// True where nothing differs and nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.gaps.is_empty()
    }
}
