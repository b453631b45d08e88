//! [`DirTree`]: a plain directory as a [`Source`], and the reading of one entry by descriptor and name.
//!
//! Invariant: everything goes through the one directory descriptor; no path of the outside is used again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::meta::RawStat;
use kernel::{Result, dir, meta, open, xattr};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::entry::{Entry, Kind, Time};
use crate::layer;
use crate::path::TreePath;
use crate::source::{Opened, Source, Xattr};

/// A directory on disk.
#[derive(Debug)]
pub struct DirTree {
    root: OwnedFd,
}

impl DirTree {
    /// The directory at the user's own path (links in it are followed).
    pub fn open(path: &Path) -> Result<DirTree> {
        Ok(DirTree { root: open::root_dir(path)? })
    }

    /// A directory that is open already.
    pub fn from_fd(root: OwnedFd) -> DirTree {
        DirTree { root }
    }

    /// The directory itself.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The directory at `path`, open for reading.
    pub fn open_dir(&self, path: &TreePath) -> Result<OwnedFd> {
        open::dir_beneath(&self.root, path.as_bytes())
    }
}

impl AsFd for DirTree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

impl Source for DirTree {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        // A single name needs no walk, and `stat` by name does not follow it.
        if !path.as_bytes().contains(&b'/') {
            return entry_at(&self.root, path.as_bytes());
        }
        match open::path_beneath(&self.root, path.as_bytes()) {
            Ok(fd) => entry_at(&fd, b""),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        let fd = self.open_dir(path)?;
        Ok(dir::unread_entries(&fd)?.into_iter().map(|entry| entry.name).collect())
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        open::file_beneath(&self.root, path.as_bytes())
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        if !path.as_bytes().contains(&b'/') {
            return xattrs_at(&self.root, path.as_bytes());
        }
        let (parent, name) = open::parent_beneath(&self.root, path.as_bytes())?;
        xattrs_at(&parent, &name)
    }

    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        let fd = self.open_dir(path)?;
        let mut found = Vec::new();
        for name in dir::unread_entries(&fd)? {
            if let Some(entry) = entry_at(&fd, &name.name)? {
                found.push((name.name, entry));
            }
        }
        Ok(found)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        open_seen_at(&self.root, path.as_bytes())
    }

    fn entries_in(&self, dir: &TreePath, names: &[&[u8]]) -> Vec<Result<Option<Entry>>> {
        // One walk to the directory, and no right to read it is needed.
        match open::path_beneath(&self.root, dir.as_bytes()) {
            Ok(fd) => names.iter().map(|name| entry_at(&fd, name)).collect(),
            Err(error) if is_absent(&error) => names.iter().map(|_| Ok(None)).collect(),
            Err(_) => names.iter().map(|name| self.entry(&dir.join(name))).collect(),
        }
    }
}

/// Entries of one tree, asked for in the order of paths: the directory of the last one stays open, so that its
/// neighbours cost one call each.
#[derive(Debug)]
pub struct Neighbours<'a> {
    tree: &'a DirTree,
    /// The directory of the last path; no descriptor where there is no such directory.
    last: Option<(TreePath, Option<OwnedFd>)>,
}

impl<'a> Neighbours<'a> {
    /// Nothing is open yet.
    pub fn new(tree: &'a DirTree) -> Neighbours<'a> {
        Neighbours { tree, last: None }
    }

    /// As [`Source::entry`].
    pub fn entry(&mut self, path: &TreePath) -> Result<Option<Entry>> {
        let Some(parent) = path.parent() else { return self.tree.entry(path) };
        if self.last.as_ref().is_none_or(|(dir, _)| *dir != parent) {
            let fd = match open::path_beneath(&self.tree.root, parent.as_bytes()) {
                Ok(fd) => Some(fd),
                Err(error) if is_absent(&error) => None,
                Err(error) => return Err(error),
            };
            self.last = Some((parent, fd));
        }
        match &self.last {
            Some((_, Some(dir))) => entry_at(dir, path.name()),
            _ => Ok(None),
        }
    }
}

/// The entry `name` in `dir` (the empty name: `dir` itself, for which `O_PATH` is enough); `None` where there is none.
pub fn entry_at(dir: impl AsFd, name: &[u8]) -> Result<Option<Entry>> {
    let dir = dir.as_fd();
    let Some(stat) = meta::stat_at_if_there(dir, name)? else { return Ok(None) };
    let mut entry = entry_of(&stat);
    if entry.kind == Kind::Symlink {
        entry.target = match meta::read_link_at(dir, name) {
            Ok(target) => target,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
    }
    Ok(Some(entry))
}

/// An entry from what statx said; the target of a link stays empty.
pub fn entry_of(stat: &RawStat) -> Entry {
    let kind = match stat.file_type() {
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => Kind::File,
    };
    Entry {
        kind,
        mode: stat.permissions(),
        uid: stat.uid,
        gid: stat.gid,
        size: stat.size,
        mtime: Time { sec: stat.mtime.0, nsec: stat.mtime.1 },
        ctime: Time { sec: stat.ctime.0, nsec: stat.ctime.1 },
        ino: stat.ino,
        dev: stat.dev,
        nlink: stat.nlink,
        allocated: stat.blocks * 512,
        rdev: stat.rdev,
        target: Vec::new(),
    }
}

/// The attributes of `name` in `dir` as [`Source::xattrs`] wants them.
pub fn xattrs_at(dir: impl AsFd, name: &[u8]) -> Result<Vec<Xattr>> {
    let dir = dir.as_fd();
    shown_xattrs(xattr::list_at(dir, name)?, |stored| xattr::get_at(dir, name, stored))
}

/// The regular file at `path` beneath `dir`, with what it is and has.
pub(crate) fn open_seen_at(dir: impl AsFd, path: &[u8]) -> Result<Opened> {
    let (file, stat) = open::file_seen_beneath(dir, path)?;
    let xattrs = shown_xattrs(xattr::list(&file)?, |stored| xattr::get(&file, stored))?;
    Ok(Opened { file, entry: entry_of(&stat), xattrs })
}

fn shown_xattrs(names: Vec<Vec<u8>>, value: impl Fn(&[u8]) -> Result<Option<Vec<u8>>>) -> Result<Vec<Xattr>> {
    let mut found = Vec::new();
    for stored in names {
        let Some(shown) = layer::shown_xattr(&stored) else { continue };
        if let Some(value) = value(&stored)? {
            found.push((shown, value));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// True where an error says that no entry stands at a path: a component is missing, or is no directory
/// but a file or a link.
pub(crate) fn is_absent(error: &kernel::Error) -> bool {
    error.is_not_found() || error.errno == Errno::LOOP
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).expect("valid path")
    }

    #[test]
    fn a_path_through_a_link_or_a_file_has_no_entry() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(dir.path().join("d")).expect("mkdir");
        std::fs::write(dir.path().join("d/f"), b"x").expect("write");
        symlink("d", dir.path().join("l")).expect("symlink");
        let tree = DirTree::open(dir.path()).expect("open");
        assert_eq!(tree.entry(&path("l/f")).expect("entry"), None);
        assert_eq!(tree.entry(&path("d/f/x")).expect("entry"), None);
        assert_eq!(tree.entry(&path("d/none")).expect("entry"), None);
        assert!(tree.entry(&path("d/f")).expect("entry").expect("there").is_file());
        assert_eq!(tree.entry(&path("l")).expect("entry").expect("there").target, b"d");
        assert!(tree.entry(&TreePath::root()).expect("entry").expect("there").is_dir());
        assert!(tree.open(&path("l/f")).is_err());
        assert!(tree.list(&path("l")).is_err());
    }

    #[test]
    fn neighbours_are_the_entries_of_the_tree_in_any_order() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir_all(dir.path().join("d/e")).expect("mkdir");
        std::fs::write(dir.path().join("d/f"), b"x").expect("write");
        symlink("d", dir.path().join("l")).expect("symlink");
        let tree = DirTree::open(dir.path()).expect("open");
        let mut neighbours = Neighbours::new(&tree);
        for at in ["", "d", "d/e", "d/f", "l", "l/f", "d/f/x", "d/none", "none/x", "none/y", "d/f", ""] {
            let at = path(at);
            assert_eq!(neighbours.entry(&at).expect("entry"), tree.entry(&at).expect("entry"), "{at:?}");
        }
    }

    #[test]
    fn attributes_of_the_layer_format_are_hidden_and_escaped_ones_shown_as_meant() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("f"), b"x").expect("write");
        let tree = DirTree::open(dir.path()).expect("open");
        for name in ["user.a", "user.overlay.opaque", "user.overlay.overlay.opaque", "user.zebra"] {
            xattr::set_at(&tree, b"f", name.as_bytes(), b"y").expect("set");
        }
        let names: Vec<Vec<u8>> =
            tree.xattrs(&path("f")).expect("xattrs").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [b"user.a".to_vec(), b"user.overlay.opaque".to_vec(), b"user.zebra".to_vec()]);
    }
}
