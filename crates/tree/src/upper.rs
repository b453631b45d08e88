//! [`Layer`]: one layer as the merge rules see it, whatever it is made of; and [`DirLayer`], a directory as a layer.
//!
//! Invariant: whiteouts are entries here (character device 0:0), and nothing of the layers below shows.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use kernel::{Result, dir, open};
use rustix::fs::FileType;

use crate::dir::{DirTree, entry_at};
use crate::entry::Entry;
use crate::layer::{self, DirMarks, Format};
use crate::path::TreePath;
use crate::source::{Source, Xattr};

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

    /// True where the file at `path` holds no content of its own (`metacopy=on`). Asked only for files that are not empty.
    fn is_metadata_only(&self, path: &TreePath) -> Result<bool> {
        let _ = path;
        Ok(false)
    }

    /// Where `path` stands on disk: the directory and the name in it; `None` for a layer that is no directory.
    fn on_disk(&self, path: &TreePath) -> Result<Option<OnDisk>> {
        let _ = path;
        Ok(None)
    }
}

/// A directory, and a name in it (the empty name: the directory itself).
pub type OnDisk = (Arc<OwnedFd>, Vec<u8>);

impl<T: Layer + ?Sized> Layer for &T {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        (**self).entry(path)
    }

    fn marks(&self, path: &TreePath) -> Result<DirMarks> {
        (**self).marks(path)
    }

    fn names(&self, path: &TreePath, all: bool) -> Result<Vec<LayerName>> {
        (**self).names(path, all)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        (**self).open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        (**self).xattrs(path)
    }

    fn is_xattr_whiteout(&self, path: &TreePath) -> Result<bool> {
        (**self).is_xattr_whiteout(path)
    }

    fn is_metadata_only(&self, path: &TreePath) -> Result<bool> {
        (**self).is_metadata_only(path)
    }

    fn on_disk(&self, path: &TreePath) -> Result<Option<OnDisk>> {
        (**self).on_disk(path)
    }
}

/// What a layer itself holds, whiteouts included, for those that read content by path.
pub(crate) struct Bare<'a>(pub(crate) &'a dyn Layer);

impl Source for Bare<'_> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.0.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        Ok(self.0.names(path, true)?.into_iter().map(|(name, _)| name).collect())
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        self.0.open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        self.0.xattrs(path)
    }
}

/// A directory on disk as a layer.
#[derive(Debug)]
pub(crate) struct DirLayer {
    tree: DirTree,
    format: Format,
    /// The directory that was listed last: most questions are about names in it.
    near: Mutex<Option<(TreePath, Arc<OwnedFd>)>>,
}

impl DirLayer {
    pub(crate) fn new(tree: DirTree, format: Format) -> DirLayer {
        DirLayer { tree, format, near: Mutex::new(None) }
    }

    /// The directory that holds `path`, and the last name.
    fn parent(&self, path: &TreePath) -> Result<OnDisk> {
        let near = self.near.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((dir, fd)) = near
            && path.parent() == Some(dir)
        {
            return Ok((fd, path.name().to_vec()));
        }
        let (dir, name) = open::parent_beneath(&self.tree, path.as_bytes())?;
        Ok((Arc::new(dir), name))
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
        let (dir, name) = self.parent(path)?;
        layer::dir_marks(&*dir, &name, self.format)
    }

    fn names(&self, path: &TreePath, all: bool) -> Result<Vec<LayerName>> {
        let fd = Arc::new(self.tree.open_dir(path)?);
        *self.near.lock().unwrap_or_else(PoisonError::into_inner) = Some((path.clone(), Arc::clone(&fd)));
        let mut found = Vec::new();
        for name in dir::unread_entries(&*fd)? {
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
        let (dir, name) = self.parent(path)?;
        layer::is_xattr_whiteout(&*dir, &name, self.format)
    }

    fn is_metadata_only(&self, path: &TreePath) -> Result<bool> {
        if self.format == Format::User {
            return Ok(false);
        }
        let (dir, name) = self.parent(path)?;
        layer::is_metadata_only(&*dir, &name, self.format)
    }

    fn on_disk(&self, path: &TreePath) -> Result<Option<OnDisk>> {
        if path.is_root() {
            return Ok(Some((Arc::new(self.tree.open_dir(path)?), Vec::new())));
        }
        self.parent(path).map(Some)
    }
}
