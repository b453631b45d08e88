//! A lane's own layer as a tree to be copied: what of its marks and nodes belongs to it.
//!
//! Invariant: a copy of a layer shows the same over the same lower tree. Two marks are left behind, which name one
//! layer on disk and one mount.

use std::os::fd::BorrowedFd;

use kernel::{Result, xattr};

use crate::copy::{Between, Copied, Copier, CopyOptions, Progress};
use crate::layer::{self, Format};

/// What of the marks of a layer a copy of it takes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// All of them, for the same place over the same lower tree.
    All(Format),
    /// Whiteouts and what the lane itself had set; directories are marked by somebody else.
    Whiteouts(Format),
}

impl Marks {
    /// True where a copy has an attribute of this name too.
    fn takes(self, name: &[u8]) -> bool {
        let (Marks::All(format) | Marks::Whiteouts(format)) = self;
        let Some(mark) = name.strip_prefix(format.mark(b"").as_slice()) else { return layer::is_users(name) };
        match self {
            // These two name one layer and one mount.
            Marks::All(_) => mark != b"upper" && mark != b"uuid",
            Marks::Whiteouts(_) => layer::is_escaped(mark),
        }
    }
}

/// Copies a lane's own layer, with the index of an overlay that keeps hard links together, each into an empty
/// directory. The copy stands for the layer over the same lower tree.
pub fn copy_layer(
    upper: (BorrowedFd<'_>, BorrowedFd<'_>),
    index: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied> {
    let options = CopyOptions { layer: Some(Marks::All(format)), ..CopyOptions::default() };
    let mut copier = Copier::new(upper.1, &options, progress);
    copier.run(upper.0, upper.1)?;
    if let Some((from, to)) = index {
        copier.run(from, to)?;
    }
    copier.tell(true);
    Ok(copier.copied)
}

/// The attributes as they are stored, as far as a copy of a layer takes them.
pub(crate) fn stored(
    names: Vec<Vec<u8>>,
    marks: Marks,
    get: impl Fn(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| marks.takes(name)) {
        found.extend(get(&name)?.map(|value| (name, value)));
    }
    Ok(found)
}

/// The same for what cannot be opened.
pub(crate) fn copy_marks(at: Between<'_>, name: &[u8], marks: Marks) -> Result<()> {
    let names = xattr::list_at(at.from, name)?;
    let stored = stored(names, marks, |mark| xattr::get_at(at.from, name, mark))?;
    stored.iter().try_for_each(|(mark, value)| xattr::set_at(at.to, name, mark, value))
}
