//! [`Layer`]: one layer as the merge rules see it, whatever it is made of; and [`DirLayer`], a directory as a layer.
//!
//! Invariant: whiteouts are entries here (character device 0:0), and nothing of the layers below shows.

use std::os::fd::{AsFd as _, OwnedFd};

use kernel::{Result, dir, open};
use rustix::fs::FileType;

use crate::dir::{DirTree, entry_at};
use crate::entry::Entry;
use crate::layer::{self, DirMarks, Format};
use crate::path::TreePath;
use crate::source::{Source as _, Xattr};

/// A name of a layer's directory; without an entry where nobody looked because it can be no whiteout.
pub type LayerName = (Vec<u8>, Option<Entry>);

/// A layer that can be read.
pub trait Layer {
    /// The entry at `path`, a whiteout too; `None` where the layer has none.
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>>;

    /// The marks of the directory at `path`.
    fn marks(&self, path: &TreePath) -> Result<DirMarks>;

    /// The names in the directory at `path`, sorted by bytes. Without `all` an entry may be left out where it is no
    /// whiteout.
    fn names(&self, path: &TreePath, all: bool) -> Result<Vec<LayerName>>;

    /// The regular file at `path`, opened for reading.
    fn open(&self, path: &TreePath) -> Result<OwnedFd>;

    /// The attributes of `path` that a user may see, as [`crate::Source::xattrs`] wants them.
    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>>;

    /// True where the empty file at `path` is a whiteout by attribute. Asked only in directories that are marked so.
    fn is_xattr_whiteout(&self, path: &TreePath) -> Result<bool>;
}

/// A directory on disk as a layer.
#[derive(Debug)]
pub(crate) struct DirLayer {
    tree: DirTree,
    format: Format,
}

impl DirLayer {
    pub(crate) fn new(tree: DirTree, format: Format) -> DirLayer {
        DirLayer { tree, format }
    }
}

impl Layer for DirLayer {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.tree.entry(path)
    }

    fn marks(&self, path: &TreePath) -> Result<DirMarks> {
        if path.is_root() {
            return layer::dir_marks(self.tree.fd(), b"", self.format);
        }
        let (dir, name) = open::parent_beneath(&self.tree, path.as_bytes())?;
        layer::dir_marks(&dir, &name, self.format)
    }

    fn names(&self, path: &TreePath, all: bool) -> Result<Vec<LayerName>> {
        let fd = self.tree.open_dir(path)?;
        let mut found = Vec::new();
        for name in dir::unread_entries(&fd)? {
            let plain = !matches!(name.kind, None | Some(FileType::CharacterDevice));
            if plain && !all {
                found.push((name.name, None));
                continue;
            }
            if let Some(entry) = entry_at(fd.as_fd(), &name.name)? {
                found.push((name.name, Some(entry)));
            }
        }
        Ok(found)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        self.tree.open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        self.tree.xattrs(path)
    }

    fn is_xattr_whiteout(&self, path: &TreePath) -> Result<bool> {
        let (dir, name) = open::parent_beneath(&self.tree, path.as_bytes())?;
        layer::is_xattr_whiteout(&dir, &name, self.format)
    }
}
