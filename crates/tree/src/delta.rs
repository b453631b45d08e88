//! An overlay's upper directory and its lower tree → [`ChangeSet`].

use std::os::fd::BorrowedFd;

use kernel::Result;

use crate::change::ChangeSet;
use crate::layer::Format;
use crate::source::Source;

/// How the upper was mounted.
#[derive(Debug, Clone, Copy)]
pub struct DeltaOptions {
    /// The namespace of its marks.
    pub format: Format,
    /// Mounted with `index=on`: a write through one name of a hard link shows under all of them, though
    /// the upper holds one.
    pub index: bool,
}

/// What the lane changed. Exact renames of directories (root mode) are in it; for those of files see
/// [`crate::rename::find_renames`].
pub fn overlay_delta(_upper: BorrowedFd<'_>, _lower: &dyn Source, _options: DeltaOptions) -> Result<ChangeSet> {
    todo!()
}
