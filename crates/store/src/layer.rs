//! [`ManifestLayer`]: a stored layer for the merge rules of `tree`, so that a snapshot can be looked at over its base
//! like any other tree.
//!
//! Invariant: two entries of the same path have the same inode here exactly when their content is the same, whatever
//! snapshots they are of; so comparing two snapshots reads no content. Nothing is handed out unchecked.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;

use kernel::bytes;
use kernel::publish::Draft;
use kernel::{Errno, Result};
use tree::layer::DirMarks;
use tree::source::Xattr;
use tree::union::over_layer;
use tree::upper::LayerName;
use tree::{Entry, Kind, Layer, Source, TreePath};

use crate::content::Content;
use crate::error::Error;
use crate::manifest::item::{Item, ItemKind};
use crate::manifest::read::Manifest;

/// The device that entries of snapshots are on: none that a kernel gives out.
pub const DEVICE: u64 = u64::MAX;
/// Content up to this size is opened in memory.
const IN_MEMORY: u64 = 16 << 20;

/// A manifest as a layer.
#[derive(Debug)]
pub struct ManifestLayer<'s> {
    manifest: Manifest<'s>,
    /// Names of each file that has several, by the first.
    groups: OnceLock<HashMap<TreePath, u64>>,
}

impl<'s> Manifest<'s> {
    /// The manifest as a layer.
    pub fn layer(&self) -> ManifestLayer<'s> {
        ManifestLayer { manifest: *self, groups: OnceLock::new() }
    }

    /// What a mount of this layer over `lower` would show.
    pub fn over<'a>(&self, lower: Box<dyn Source + 'a>) -> Box<dyn Source + 'a>
    where
        's: 'a,
    {
        over_layer(Box::new(self.layer()), lower)
    }

    /// The tree that this manifest describes by itself.
    pub fn tree<'a>(&self) -> Box<dyn Source + 'a>
    where
        's: 'a,
    {
        self.over(Box::new(Nothing))
    }
}

impl ManifestLayer<'_> {
    fn item(&self, path: &TreePath) -> Result<Option<Item>> {
        self.manifest.get(path).map_err(told)
    }

    fn require(&self, path: &TreePath) -> Result<Item> {
        self.item(path)?.ok_or_else(|| kernel::Error::new("snapshot", path.as_bytes(), Errno::NOENT))
    }

    fn entry_of(&self, path: &TreePath, item: &Item) -> Result<Entry> {
        let nlink = match &item.group {
            Some(first) => self.names_of(first)?,
            None => 1,
        };
        let rdev = 0;
        let (kind, target) = match &item.kind {
            ItemKind::Symlink(target) => (Kind::Symlink, target.clone()),
            ItemKind::File(_) => (Kind::File, Vec::new()),
            ItemKind::Dir { .. } => (Kind::Dir, Vec::new()),
            ItemKind::Fifo => (Kind::Fifo, Vec::new()),
            ItemKind::Whiteout => (Kind::CharDevice, Vec::new()),
        };
        Ok(Entry {
            kind,
            mode: if kind == Kind::Symlink { 0o777 } else { item.mode },
            uid: item.uid,
            gid: item.gid,
            size: item.size(),
            mtime: item.mtime,
            ctime: item.mtime,
            ino: inode(path, item),
            dev: DEVICE,
            nlink,
            allocated: item.size().next_multiple_of(512),
            rdev,
            target,
        })
    }

    fn names_of(&self, first: &TreePath) -> Result<u64> {
        let groups = match self.groups.get() {
            Some(groups) => groups,
            None => {
                let mut groups = HashMap::new();
                for entry in self.manifest.iter().map_err(told)? {
                    if let Some(first) = entry.map_err(told)?.1.group {
                        *groups.entry(first).or_insert(0) += 1;
                    }
                }
                self.groups.get_or_init(|| groups)
            }
        };
        Ok(groups.get(first).copied().unwrap_or(1))
    }

    fn open_content(&self, content: &Content) -> crate::error::Result<OwnedFd> {
        let store = self.manifest.store;
        let unnamed = |made: Result<OwnedFd>| {
            made.map_err(|source| Error::Kernel { step: "make", what: "file for content".to_owned(), source })
        };
        let fd = if content.size() <= IN_MEMORY {
            unnamed(bytes::memory_file())?
        } else {
            unnamed(Draft::begin(&store.large, 0o600).and_then(Draft::into_unnamed))?
        };
        store.copy_into(content, fd.as_fd())?;
        Ok(fd)
    }
}

impl Layer for ManifestLayer<'_> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.item(path)?.map(|item| self.entry_of(path, &item)).transpose()
    }

    fn marks(&self, path: &TreePath) -> Result<DirMarks> {
        Ok(match self.item(path)?.map(|item| item.kind) {
            Some(ItemKind::Dir { opaque, redirect }) => DirMarks { opaque, redirect, xattr_whiteouts: false },
            _ => DirMarks::default(),
        })
    }

    fn names(&self, path: &TreePath, _all: bool) -> Result<Vec<LayerName>> {
        let mut found = Vec::new();
        let mut entries = self.manifest.below(path).map_err(told)?;
        while let Some(entry) = entries.next() {
            let (at, item) = entry.map_err(told)?;
            let Some(below) = at.strip_prefix(path).filter(|below| !below.is_root()) else { continue };
            if at.parent().as_ref() == Some(path) {
                let entry = self.entry_of(&at, &item)?;
                found.push((at.name().to_vec(), Some(entry)));
                continue;
            }
            // Past everything below this directory: no name holds a byte between '/' and 1.
            let child = below.components().next().unwrap_or_default();
            entries.skip_to(&path.join([child, b"\x01"].concat())).map_err(told)?;
        }
        Ok(found)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        match self.require(path)?.kind {
            ItemKind::File(content) => self.open_content(&content).map_err(told),
            _ => Err(kernel::Error::new("snapshot", path.as_bytes(), Errno::INVAL)),
        }
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        Ok(self.require(path)?.xattrs)
    }

    fn is_xattr_whiteout(&self, _path: &TreePath) -> Result<bool> {
        Ok(false)
    }
}

/// A number that stands for the content of an entry under its path, or under the first of its names.
fn inode(path: &TreePath, item: &Item) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(item.group.as_ref().unwrap_or(path).as_bytes());
    let mut content = vec![0];
    if let ItemKind::File(body) = &item.kind {
        body.put(&mut content);
    }
    hasher.update(&content);
    let mut front = [0; 8];
    front.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(front)
}

/// The store's errors in the words that trees use.
fn told(error: Error) -> kernel::Error {
    match error {
        Error::Kernel { source, .. } => source,
        other => kernel::Error::new("store", other.to_string(), Errno::IO),
    }
}

/// A tree without anything.
struct Nothing;

impl Source for Nothing {
    fn entry(&self, _path: &TreePath) -> Result<Option<Entry>> {
        Ok(None)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        Err(absent(path))
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        Err(absent(path))
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        Err(absent(path))
    }
}

fn absent(path: &TreePath) -> kernel::Error {
    kernel::Error::new("snapshot", path.as_bytes(), Errno::NOENT)
}
