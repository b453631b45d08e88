//! Two trees in lock step → [`ChangeSet`].

use kernel::Result;

use crate::change::ChangeSet;
use crate::entry::Entry;
use crate::path::TreePath;
use crate::source::Source;

/// Says that two entries of the same path are equal, content included, without reading them.
pub type QuickEqual<'a> = &'a dyn Fn(&TreePath, &Entry, &Entry) -> bool;

/// What [`compare`] may leave out.
#[derive(Default, Clone, Copy)]
pub struct CompareOptions<'a> {
    /// Paths (with everything below) that are not looked at, e.g. what a copy could not take.
    pub skip: &'a [TreePath],
    /// Asked before two files are read: (path, base, lane).
    pub quick_equal: Option<QuickEqual<'a>>,
}

/// All differences between two trees; renames are not looked for.
pub fn compare(_base: &dyn Source, _lane: &dyn Source, _options: CompareOptions<'_>) -> Result<ChangeSet> {
    todo!()
}
