//! [`Source`]: a tree that can be listed and read, whatever it is made of (a directory, the union of
//! layers, later a snapshot). `review` compares and keeps through it and knows nothing else.
//!
//! Invariant: no implementation ever follows a symbolic link inside the tree, blocks on a FIFO, or
//! writes.

use std::os::fd::OwnedFd;

use kernel::Result;

use crate::entry::Entry;
use crate::path::TreePath;

/// An extended attribute: name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: OwnedFd,
    /// What it is: of the open file itself, whatever becomes of its name.
    pub entry: Entry,
    /// Its attributes, as [`Source::xattrs`] answers for it.
    pub xattrs: Vec<Xattr>,
}

/// A readable tree.
pub trait Source {
    /// The entry at `path`; `None` where there is none.
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>>;

    /// The names in the directory at `path`, sorted by bytes.
    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>>;

    /// The regular file at `path`, opened for reading (never blocks, never follows a link).
    fn open(&self, path: &TreePath) -> Result<OwnedFd>;

    /// The extended attributes of `path` that a user may see (`user.*`, ACLs), without the layer
    /// format's own, sorted by name. One that the layer format had escaped comes back under the name that was
    /// meant, so a writer must still refuse those that [`crate::layer::private_xattr`] knows.
    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>>;

    /// The names in the directory at `path` with their entries, sorted by bytes: [`Source::list`] and
    /// [`Source::entry`] in one, for those that walk. A name that vanishes meanwhile is left out.
    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        let mut found = Vec::new();
        for name in self.list(path)? {
            if let Some(entry) = self.entry(&path.join(&name))? {
                found.push((name, entry));
            }
        }
        Ok(found)
    }

    /// [`Source::open`] and [`Source::xattrs`] in one, for those that carry files.
    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        let file = self.open(path)?;
        let entry = crate::dir::entry_of(&kernel::meta::stat_fd(&file)?);
        Ok(Opened { file, entry, xattrs: self.xattrs(path)? })
    }

    /// The entries of some names in one directory, each as [`Source::entry`] answers for it, in their order.
    fn entries_in(&self, dir: &TreePath, names: &[&[u8]]) -> Vec<Result<Option<Entry>>> {
        names.iter().map(|name| self.entry(&dir.join(name))).collect()
    }
}

impl<T: Source + ?Sized> Source for &T {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        (**self).entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        (**self).list(path)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        (**self).open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        (**self).xattrs(path)
    }

    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        (**self).list_entries(path)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        (**self).open_seen(path)
    }

    fn entries_in(&self, dir: &TreePath, names: &[&[u8]]) -> Vec<Result<Option<Entry>>> {
        (**self).entries_in(dir, names)
    }
}

impl<T: Source + ?Sized> Source for std::rc::Rc<T> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        (**self).entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        (**self).list(path)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        (**self).open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        (**self).xattrs(path)
    }

    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        (**self).list_entries(path)
    }

    fn entries_in(&self, dir: &TreePath, names: &[&[u8]]) -> Vec<Result<Option<Entry>>> {
        (**self).entries_in(dir, names)
    }
}
