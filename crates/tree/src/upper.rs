//! [`Layer`]: one layer as the merge rules see it, whatever it is made of; and [`DirLayer`], a directory as a layer.
//!
//! Invariant: whiteouts are entries here (character device 0:0), and nothing of the layers below shows.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use kernel::{Result, dir, open};
use rustix::fs::FileType;

use crate::dir::{DirTree, entry_at, entry_of, is_absent, open_seen_at, xattrs_at};
use crate::entry::Entry;
use crate::layer::{self, DirMarks, Format};
use crate::path::TreePath;
use crate::source::{Opened, Source, Xattr};

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

    /// [`Layer::open`] and [`Layer::xattrs`] in one.
    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        let file = self.open(path)?;
        let entry = entry_of(&kernel::meta::stat_fd(&file)?);
        Ok(Opened { file, entry, xattrs: self.xattrs(path)? })
    }

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

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        (**self).open_seen(path)
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
    /// The directory that was asked about last: most questions are about names in it.
    near: Mutex<Option<(TreePath, Arc<OwnedFd>)>>,
}

impl DirLayer {
    pub(crate) fn new(tree: DirTree, format: Format) -> DirLayer {
        DirLayer { tree, format, near: Mutex::new(None) }
    }

    /// The directory that holds `path`, and the last name. Its neighbours are asked about next: it stays open.
    fn parent(&self, path: &TreePath) -> Result<OnDisk> {
        let mut near = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((dir, fd)) = &*near
            && path.is_in(dir)
        {
            return Ok((Arc::clone(fd), path.name().to_vec()));
        }
        let (dir, name) = open::parent_beneath(&self.tree, path.as_bytes())?;
        let dir = Arc::new(dir);
        *near = Some((path.parent().unwrap_or_default(), Arc::clone(&dir)));
        Ok((dir, name))
    }

    /// True for what stands right below the top, which is open anyway.
    fn is_at_top(path: &TreePath) -> bool {
        !path.as_bytes().contains(&b'/')
    }
}

impl Layer for DirLayer {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        if DirLayer::is_at_top(path) {
            return self.tree.entry(path);
        }
        match self.parent(path) {
            Ok((dir, name)) => entry_at(&*dir, &name),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
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
        if DirLayer::is_at_top(path) {
            return self.tree.open(path);
        }
        let (dir, name) = self.parent(path)?;
        open::file_beneath(&*dir, &name)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        if DirLayer::is_at_top(path) {
            return self.tree.xattrs(path);
        }
        let (dir, name) = self.parent(path)?;
        xattrs_at(&*dir, &name)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        if DirLayer::is_at_top(path) {
            return self.tree.open_seen(path);
        }
        let (dir, name) = self.parent(path)?;
        open_seen_at(&*dir, &name)
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
