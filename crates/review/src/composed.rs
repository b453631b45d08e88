//! [`Composed`]: the lane's tree in which chosen paths show something else: content made up by us, what the base
//! holds, or nothing. It owns what was made up, and forgets it with the last descriptor.
//!
//! Invariant: entry, listing, content and attributes of a path agree with one another, so that a plan, a keep, a
//! patch and an export work on it as on any lane. Neither tree is written. Where a name is shown, the
//! directories above it are there: those that the lane removed as they are in the base.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::publish::Draft;
use kernel::{Errno, Result, bytes, meta, open};
use tree::source::{Opened, Xattr};
use tree::{Entry, Kind, Source, TreePath};

/// Content of ours: a file without a name.
#[derive(Debug)]
pub struct Made(OwnedFd);

impl Made {
    /// A file with these bytes on the file system of `dir`, which should be a directory of ours. Not synced: it only
    /// has to outlive the plan that it was made for.
    pub fn write(dir: BorrowedFd<'_>, content: &[u8]) -> Result<Made> {
        let file = Draft::begin(dir, 0o600)?.into_unnamed()?;
        bytes::write_all_at(&file, content, 0)?;
        Ok(Made(file))
    }

    /// A file with these bytes in memory, for content that is small.
    pub fn in_memory(content: &[u8]) -> Result<Made> {
        let file = bytes::memory_file()?;
        bytes::write_all_at(&file, content, 0)?;
        Ok(Made(file))
    }
}

/// What a path shows instead of what the lane has there.
#[derive(Debug)]
enum Shown {
    /// Content of ours.
    Made { file: OwnedFd, entry: Box<Entry>, xattrs: Vec<Xattr> },
    /// What the base has at this path; mode and attributes are those of the lane's path where one is given.
    Base { at: TreePath, dress: Option<TreePath> },
    /// The lane's own content with mode and attributes of the base's path.
    Undressed { base: TreePath },
    /// What a tree has at `at`, with this mode and these attributes where they are given.
    As { tree: Tree, at: TreePath, dress: Option<(u32, Vec<Xattr>)> },
    /// Nothing.
    Gone,
}

/// One of the two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// The lane's.
    Lane,
    /// The base, or whatever was given as that.
    Base,
}

/// A lane's tree with other content in places.
pub struct Composed<'a> {
    lane: Box<dyn Source + 'a>,
    base: Box<dyn Source + 'a>,
    shown: BTreeMap<TreePath, Shown>,
}

impl std::fmt::Debug for Composed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Composed").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl<'a> Composed<'a> {
    /// The lane as it is, over the base that it is compared with.
    pub fn new(lane: Box<dyn Source + 'a>, base: Box<dyn Source + 'a>) -> Composed<'a> {
        Composed { lane, base, shown: BTreeMap::new() }
    }

    /// True where every path shows what the lane has.
    pub fn is_plain(&self) -> bool {
        self.shown.is_empty()
    }

    /// `path` is a regular file with this content, with mode, owner and attributes as in `like` and `xattrs`. Answers
    /// the entry that it shows from now on: this is what a change of the path must name as its new side.
    pub fn put(&mut self, path: &TreePath, content: Made, like: &Entry, xattrs: Vec<Xattr>) -> Result<Entry> {
        // One name: it is never taken for another name of a lane's file.
        self.insert(path, content.0, &Entry { nlink: 1, ..like.clone() }, xattrs)
    }

    /// As [`Composed::put`], with as many names as `like` has: the same file may be put at several paths.
    pub(crate) fn put_held(
        &mut self,
        path: &TreePath,
        file: OwnedFd,
        like: &Entry,
        xattrs: Vec<Xattr>,
    ) -> Result<Entry> {
        self.insert(path, file, like, xattrs)
    }

    fn insert(&mut self, path: &TreePath, file: OwnedFd, like: &Entry, xattrs: Vec<Xattr>) -> Result<Entry> {
        let is = tree::dir::entry_of(&meta::stat_fd(&file)?);
        let entry = Entry {
            kind: Kind::File,
            mode: like.mode,
            uid: like.uid,
            gid: like.gid,
            nlink: like.nlink,
            rdev: 0,
            target: Vec::new(),
            ..is
        };
        self.bring_dirs(path)?;
        let made = Shown::Made { file, entry: Box::new(entry.clone()), xattrs };
        self.shown.insert(path.clone(), made);
        Ok(entry)
    }

    /// `path` shows what the base has at `at`, and the directories above it are there; with mode and attributes of the
    /// lane's `dress` where that is given. Answers the entry.
    pub fn show_base(
        &mut self,
        path: &TreePath,
        at: &TreePath,
        dress: Option<&TreePath>,
    ) -> Result<Option<Entry>> {
        self.bring_dirs(path)?;
        self.shown.insert(path.clone(), Shown::Base { at: at.clone(), dress: dress.cloned() });
        self.entry(path)
    }

    /// The directories above `path` that the lane does not have any more are there as in the base.
    fn bring_dirs(&mut self, path: &TreePath) -> Result<()> {
        let mut above = path.parent();
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            if self.entry(&dir)?.is_some_and(|entry| entry.is_dir()) {
                break;
            }
            self.shown.insert(dir.clone(), Shown::Base { at: dir.clone(), dress: None });
            above = dir.parent();
        }
        Ok(())
    }

    /// `path` keeps the lane's content and shows mode and attributes of the base's `at`. Answers the entry.
    pub fn undress(&mut self, path: &TreePath, at: &TreePath) -> Result<Option<Entry>> {
        self.shown.insert(path.clone(), Shown::Undressed { base: at.clone() });
        self.entry(path)
    }

    /// `path` shows what one of the trees has at `at`, with another mode and other attributes where they are given. A
    /// directory shows what is put into it and nothing else. Answers the entry.
    pub fn show_as(
        &mut self,
        path: &TreePath,
        tree: Tree,
        at: &TreePath,
        dress: Option<(u32, Vec<Xattr>)>,
    ) -> Result<Option<Entry>> {
        // What the lane shows at `at` may be made up itself.
        let again = match (tree, self.shown.get(at)) {
            (Tree::Lane, Some(Shown::Made { file, entry, xattrs })) => Some(Shown::Made {
                file: open::again(file.as_fd())?,
                entry: Box::new(Entry {
                    mode: dress.as_ref().map_or(entry.mode, |(mode, _)| *mode),
                    ..(**entry).clone()
                }),
                xattrs: dress.as_ref().map_or_else(|| xattrs.clone(), |(_, own)| own.clone()),
            }),
            _ => None,
        };
        let shown = again.unwrap_or_else(|| Shown::As { tree, at: at.clone(), dress });
        self.shown.insert(path.clone(), shown);
        self.entry(path)
    }

    /// There is nothing at `path`.
    pub fn hide(&mut self, path: &TreePath) {
        self.shown.insert(path.clone(), Shown::Gone);
    }

    /// The lane's tree was put into other files with the same content: it is read from there from now on.
    pub fn stand_on(&mut self, lane: Box<dyn Source + 'a>) {
        self.lane = lane;
    }

    fn tree(&self, tree: Tree) -> &(dyn Source + 'a) {
        match tree {
            Tree::Lane => &*self.lane,
            Tree::Base => &*self.base,
        }
    }

    /// What is shown at `path`, if it is not the lane's own; what is below a hidden path is hidden as well.
    fn shown(&self, path: &TreePath) -> Option<&Shown> {
        if self.shown.is_empty() {
            return None;
        }
        if let Some(shown) = self.shown.get(path) {
            return Some(shown);
        }
        let hidden = |dir: &TreePath| matches!(self.shown.get(dir), Some(Shown::Gone));
        let mut above = path.parent();
        while let Some(dir) = above {
            if hidden(&dir) {
                return self.shown.get(&dir);
            }
            above = dir.parent();
        }
        None
    }
}

fn dressed(content: Option<Entry>, like: Option<Entry>) -> Option<Entry> {
    let (content, like) = (content?, like?);
    Some(Entry { mode: like.mode, uid: like.uid, gid: like.gid, ..content })
}

impl Source for Composed<'_> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        match self.shown(path) {
            None => self.lane.entry(path),
            Some(Shown::Made { entry, .. }) => Ok(Some((**entry).clone())),
            Some(Shown::Base { at, dress: None }) => self.base.entry(at),
            Some(Shown::Base { at, dress: Some(like) }) => {
                Ok(dressed(self.base.entry(at)?, self.lane.entry(like)?))
            }
            Some(Shown::Undressed { base }) => Ok(dressed(self.lane.entry(path)?, self.base.entry(base)?)),
            Some(Shown::As { tree, at, dress }) => {
                let mut entry = self.tree(*tree).entry(at)?;
                if let (Some(entry), Some((mode, _))) = (&mut entry, dress) {
                    entry.mode = *mode;
                }
                Ok(entry)
            }
            Some(Shown::Gone) => Ok(None),
        }
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        let mut names = match self.shown(path) {
            None | Some(Shown::Undressed { .. }) => self.lane.list(path)?,
            // A directory that the lane does not have: it holds what is shown in it and nothing else.
            Some(Shown::Base { .. } | Shown::As { .. }) => Vec::new(),
            Some(Shown::Made { .. }) => {
                return Err(kernel::Error::new("openat2", path.as_bytes(), Errno::NOTDIR));
            }
            Some(Shown::Gone) => return Err(kernel::Error::new("openat2", path.as_bytes(), Errno::NOENT)),
        };
        let before = names.len();
        let inside = self.shown.range(path.clone()..).take_while(|(at, _)| at.starts_with(path));
        let mut gone = Vec::new();
        for (at, shown) in inside.filter(|(at, _)| at.parent().as_ref() == Some(path)) {
            match shown {
                Shown::Gone => gone.push(at.name()),
                _ => names.push(at.name().to_vec()),
            }
        }
        if names.len() != before || !gone.is_empty() {
            names.sort();
            names.dedup();
            names.retain(|name| !gone.contains(&name.as_slice()));
        }
        Ok(names)
    }

    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        let own = self.shown(path).is_none();
        let mut inside = self.shown.range(path.clone()..).take_while(|(at, _)| at.starts_with(path));
        if own && inside.next().is_none() {
            return self.lane.list_entries(path);
        }
        let mut found = Vec::new();
        for name in self.list(path)? {
            if let Some(entry) = self.entry(&path.join(&name))? {
                found.push((name, entry));
            }
        }
        Ok(found)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        if self.shown(path).is_none() {
            return self.lane.open_seen(path);
        }
        let file = self.open(path)?;
        let entry = tree::dir::entry_of(&meta::stat_fd(&file)?);
        Ok(Opened { file, entry, xattrs: self.xattrs(path)? })
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        match self.shown(path) {
            None | Some(Shown::Undressed { .. }) => self.lane.open(path),
            Some(Shown::Made { file, .. }) => open::again(file.as_fd()),
            Some(Shown::Base { at, .. }) => self.base.open(at),
            Some(Shown::As { tree, at, .. }) => self.tree(*tree).open(at),
            Some(Shown::Gone) => Err(kernel::Error::new("openat2", path.as_bytes(), Errno::NOENT)),
        }
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        match self.shown(path) {
            None => self.lane.xattrs(path),
            Some(Shown::Made { xattrs, .. }) => Ok(xattrs.clone()),
            Some(Shown::Base { at, dress: None }) => self.base.xattrs(at),
            Some(Shown::Base { dress: Some(like), .. }) => self.lane.xattrs(like),
            Some(Shown::Undressed { base }) => self.base.xattrs(base),
            Some(Shown::As { dress: Some((_, xattrs)), .. }) => Ok(xattrs.clone()),
            Some(Shown::As { tree, at, dress: None }) => self.tree(*tree).xattrs(at),
            Some(Shown::Gone) => Err(kernel::Error::new("lgetxattr", path.as_bytes(), Errno::NOENT)),
        }
    }
}
