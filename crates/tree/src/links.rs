//! [`LinkIndex`]: the hard links that an overlay with `index=on` keeps together.
//!
//! There a write through one name of a lower file with several names makes one new inode, which is shown under
//! all of them, although the upper directory holds only the names that were touched. The inode is also named in
//! `<workdir>/index`, by the file handle of the lower inode. Rests on fs/overlayfs (`struct ovl_fb`).
//!
//! Invariant: an inode of the lower tree that the index knows is never read where the index has its successor.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Error, Result, dir, handle, open, xattr};
use rustix::fs::OFlags;

use crate::compare::{Differs, Side, differs};
use crate::dir::{DirTree, entry_at};
use crate::entry::Entry;
use crate::layer;
use crate::path::TreePath;
use crate::recall::Recall;
use crate::source::{Source, Xattr};

/// Device and inode of a lower file.
pub(crate) type Inode = (u64, u64);

/// The index of one overlay.
#[derive(Debug)]
pub struct LinkIndex {
    files: DirTree,
    lower: OwnedFd,
    by_inode: HashMap<Inode, Known>,
}

#[derive(Debug)]
struct Known {
    /// The name in the index directory.
    name: TreePath,
    handle: Handle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Handle {
    kind: i32,
    bytes: Vec<u8>,
}

impl LinkIndex {
    /// The index below `work` (the directory that was given as `workdir`) of a mount over `lower`; `None` where
    /// it has none or nothing is in it.
    pub fn read(work: BorrowedFd<'_>, lower: BorrowedFd<'_>) -> Result<Option<LinkIndex>> {
        let files = match open::dir_beneath(work, b"index") {
            Ok(fd) => fd,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut by_inode = HashMap::new();
        for item in dir::unread_entries(&files)? {
            let Some(handle) = parse(&item.name) else { continue };
            let Some(entry) = entry_at(&files, &item.name)? else { continue };
            // Directories are indexed for other ends (nfs_export), and a whiteout marks what is gone.
            if entry.is_dir() || entry.is_whiteout() {
                continue;
            }
            let Ok(fd) = handle.open(lower, OFlags::PATH) else { continue };
            let old = kernel::meta::stat_fd(&fd)?;
            by_inode.insert(old.identity(), Known { name: TreePath::root().join(&item.name), handle });
        }
        if by_inode.is_empty() {
            return Ok(None);
        }
        let lower = open::dir_beneath(lower, b"")?;
        Ok(Some(LinkIndex { files: DirTree::from_fd(files), lower, by_inode }))
    }

    /// What is shown instead of a lower entry, and its name in the index.
    pub(crate) fn successor(&self, old: &Entry) -> Result<Option<(TreePath, Entry)>> {
        if old.is_dir() || old.nlink < 2 {
            return Ok(None);
        }
        let Some(known) = self.by_inode.get(&(old.dev, old.ino)) else { return Ok(None) };
        Ok(self.files.entry(&known.name)?.map(|entry| (known.name.clone(), entry)))
    }

    /// True where something else is shown instead of a lower entry.
    pub fn knows(&self, old: &Entry) -> Result<bool> {
        Ok(self.successor(old)?.is_some())
    }

    /// The tree that the names of the index stand in.
    pub(crate) fn files(&self) -> &DirTree {
        &self.files
    }

    /// The lower inodes whose successor differs, each with its number of names. Those that were only unlinked or
    /// opened do not.
    pub(crate) fn changed(&self, recall: Option<&Recall>) -> Result<HashMap<Inode, u64>> {
        let mut changed = HashMap::new();
        for (inode, known) in &self.by_inode {
            let old = ByHandle { index: self, handle: &known.handle };
            let root = TreePath::root();
            let (Some(before), Some(after)) = (old.entry(&root)?, self.files.entry(&known.name)?) else {
                continue;
            };
            let same = before.kind == after.kind
                && differs(
                    Side { source: &old, path: &root, entry: &before },
                    Side { source: &self.files, path: &known.name, entry: &after },
                    false,
                    recall,
                )? == Differs::Not;
            if !same {
                changed.insert(*inode, before.nlink);
            }
        }
        Ok(changed)
    }
}

impl Handle {
    fn open(&self, lower: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        handle::open_by_handle(lower, self.kind, &self.bytes, flags)
    }
}

/// One lower file, reached by its handle, as a tree that consists of it.
struct ByHandle<'a> {
    index: &'a LinkIndex,
    handle: &'a Handle,
}

impl ByHandle<'_> {
    fn inode(&self) -> Result<OwnedFd> {
        self.handle.open(self.index.lower.as_fd(), OFlags::PATH)
    }
}

impl Source for ByHandle<'_> {
    fn entry(&self, _path: &TreePath) -> Result<Option<Entry>> {
        entry_at(&self.inode()?, b"")
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        Err(Error::new("getdents64", path.as_bytes(), kernel::Errno::NOTDIR))
    }

    fn open(&self, _path: &TreePath) -> Result<OwnedFd> {
        self.handle.open(self.index.lower.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    fn xattrs(&self, _path: &TreePath) -> Result<Vec<Xattr>> {
        let fd = self.inode()?;
        let mut found = Vec::new();
        for stored in xattr::list(&fd)? {
            if let (Some(shown), Some(value)) = (layer::shown_xattr(&stored), xattr::get(&fd, &stored)?) {
                found.push((shown, value));
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Names of inodes, counted while an upper directory is read.
#[derive(Default)]
pub(crate) struct Covered(HashMap<Inode, HashSet<TreePath>>);

impl Covered {
    /// The base entry at `path` is answered for by the upper.
    pub(crate) fn note(&mut self, path: &TreePath, old: &Entry) {
        if !old.is_dir() && old.nlink > 1 {
            self.0.entry((old.dev, old.ino)).or_default().insert(path.clone());
        }
    }

    /// True where every name of `inode` is answered for.
    pub(crate) fn all(&self, inode: Inode, names: u64) -> bool {
        self.0.get(&inode).is_some_and(|paths| paths.len() as u64 >= names)
    }
}

/// Reads a name of the index: the hexadecimal form of `struct ovl_fb` (version, magic, length, flags, type of the
/// handle, UUID of the filesystem, handle).
fn parse(name: &[u8]) -> Option<Handle> {
    const HEAD: usize = 5 + 16;
    let bytes: Vec<u8> = name
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()))
        .collect::<Option<_>>()?;
    let [0, 0xfb, len, _, kind, ..] = bytes[..] else { return None };
    (usize::from(len) == bytes.len() && bytes.len() > HEAD)
        .then(|| Handle { kind: i32::from(kind), bytes: bytes[HEAD..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_index_holds_a_file_handle() {
        let mut name = b"00fb1d0001".to_vec();
        name.extend_from_slice(&[b'a'; 32]);
        name.extend_from_slice(b"0102030405060708");
        assert_eq!(parse(&name), Some(Handle { kind: 1, bytes: vec![1, 2, 3, 4, 5, 6, 7, 8] }));
        for bad in [b"" as &[u8], b"00fb", b"#12", b"01fb1d0001aa", &name[..name.len() - 2]] {
            assert_eq!(parse(bad), None, "{}", bad.escape_ascii());
        }
    }
}
