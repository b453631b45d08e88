//! [`CommitTree`]: the tree of a commit as a [`Source`], so that what is in it can be judged like any other tree.
//!
//! Invariant: reads objects through a repository of ours; a submodule is an empty directory.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;

use kernel::error::Asked as _;
use tree::source::Xattr;
use tree::{Entry, Kind, Source, Time, TreePath};

use super::repository::{Blobs, Items};

/// What a commit holds.
#[derive(Debug)]
pub struct CommitTree {
    items: Items,
    blobs: RefCell<Blobs>,
}

impl CommitTree {
    /// Of these items, whose objects `blobs` reads.
    pub fn new(items: Items, blobs: Blobs) -> CommitTree {
        CommitTree { items, blobs: RefCell::new(blobs) }
    }

    /// What it holds.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// The content of a file or the target of a link; `None` where neither is there.
    pub fn content(&self, path: &TreePath) -> kernel::Result<Option<Vec<u8>>> {
        let Some(item) = self.items.get(path).filter(|item| !item.is_submodule()) else { return Ok(None) };
        let read = self.blobs.borrow_mut().read(&item.id, u64::MAX).map_err(std::io::Error::other);
        read.asked("cat-file", path.as_bytes())
    }
}

impl Source for CommitTree {
    fn entry(&self, path: &TreePath) -> kernel::Result<Option<Entry>> {
        let below = || self.items.range(path.clone()..).next().is_some_and(|(at, _)| at.starts_with(path));
        let (kind, mode) = match self.items.get(path) {
            Some(item) if item.is_submodule() => (Kind::Dir, 0o755),
            Some(item) if item.is_link() => (Kind::Symlink, 0o777),
            Some(item) => (Kind::File, item.mode & 0o777),
            None if path.is_root() || below() => (Kind::Dir, 0o755),
            None => return Ok(None),
        };
        let content = if kind == Kind::Dir { None } else { self.content(path)? };
        let size = content.as_ref().map_or(0, |content| content.len() as u64);
        Ok(Some(Entry {
            kind,
            mode,
            uid: 0,
            gid: 0,
            size,
            mtime: Time::default(),
            ctime: Time::default(),
            ino: 0,
            dev: 0,
            nlink: 1,
            allocated: size,
            rdev: 0,
            target: content.filter(|_| kind == Kind::Symlink).unwrap_or_default(),
        }))
    }

    fn list(&self, path: &TreePath) -> kernel::Result<Vec<Vec<u8>>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (at, _) in self.items.range(path.clone()..).take_while(|(at, _)| at.starts_with(path)) {
            let name = at.strip_prefix(path).and_then(|rest| rest.components().next().map(<[u8]>::to_vec));
            if let Some(name) = name.filter(|name| names.last() != Some(name)) {
                names.push(name);
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn open(&self, path: &TreePath) -> kernel::Result<OwnedFd> {
        let content = self.content(path)?.unwrap_or_default();
        let memory = rustix::fs::memfd_create("blob", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = File::from(memory.asked("memfd_create", path.as_bytes())?);
        file.write_all(&content).and_then(|()| file.rewind()).asked("write", path.as_bytes())?;
        Ok(file.into())
    }

    fn xattrs(&self, _: &TreePath) -> kernel::Result<Vec<Xattr>> {
        Ok(Vec::new())
    }
}
