//! Renamed directories of a lane that was mounted as root, made independent of the place they came from.
//!
//! There a rename leaves a redirect in the upper layer: the renamed directory still shows what lies at its old
//! place in the origin. A `keep` moves just that away. So before it does, what shows through is copied into the
//! upper layer, as a rename by an ordinary user does at once.
//!
//! Invariant: at every step the lane shows the same tree. What is copied hides what is equal to it; then the
//! directory is made opaque; then the redirect goes. The innermost directory comes first: one that was renamed
//! in its own directory is found by its old name in what that directory merges with, which an opaque one does not.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Errno, dir, meta, node, open, publish, xattr};
use tree::copy::{CopyOptions, copy_tree};
use tree::dir::{DirTree, entry_at};
use tree::layer::{self, Format, Redirect};
use tree::union::merges_with;
use tree::{Layer, LinkIndex, Source, TreePath};

use crate::error::{Doing as _, Result};
use crate::home::Layers;

/// Name of the copy while it is made, beside the layers.
const DRAFT: &str = "d";

/// What is worked on.
pub(crate) struct Detach<'d> {
    pub(crate) layers: &'d Layers,
    pub(crate) origin: &'d DirTree,
    /// The tree as it is inside.
    pub(crate) lane: &'d dyn Source,
    pub(crate) index: Option<&'d LinkIndex>,
    /// Paths of the origin that are about to change.
    pub(crate) touched: &'d [TreePath],
    /// False where the lane is mounted now: then nothing may be written.
    pub(crate) may_write: bool,
}

impl Detach<'_> {
    /// Makes every renamed directory independent that rests on something that is about to change. False where
    /// that would have to be done and must not.
    pub(crate) fn run(&self, upper: BorrowedFd<'_>) -> Result<bool> {
        self.look(upper, &TreePath::root(), Some(&TreePath::root()), false)
    }

    /// `parts` where this directory is about to stop merging with `base`.
    fn look(
        &self,
        fd: BorrowedFd<'_>,
        path: &TreePath,
        base: Option<&TreePath>,
        parts: bool,
    ) -> Result<bool> {
        let doing = || self.layers.upper.join(path.as_path());
        for item in dir::entries(fd).doing("list", doing())? {
            if !entry_at(fd, &item.name).doing("look at", doing())?.is_some_and(|entry| entry.is_dir()) {
                continue;
            }
            let marks = layer::dir_marks(fd, &item.name, Format::Root).doing("read marks", doing())?;
            let lower = merges_with(&marks, base, &item.name);
            let child = open::dir_beneath(fd, &item.name).doing("open", doing())?;
            let own = path.join(&item.name);
            let rests = lower.as_ref().filter(|from| match &marks.redirect {
                Some(Redirect::Name(_)) => parts || self.changes_under(from, &own),
                Some(Redirect::Path(_)) => self.changes_under(from, &own),
                None => false,
            });
            if rests.is_some() && !self.may_write {
                return Ok(false);
            }
            // What has no redirect parts with its lower when the directory above does.
            let parts_too = rests.is_some() || parts && marks.redirect.is_none();
            if !self.look(child.as_fd(), &own, lower.as_ref(), parts_too)? {
                return Ok(false);
            }
            if let Some(from) = rests {
                self.fill(&child, &own, from)?;
            }
        }
        Ok(true)
    }

    /// True where the directory `own`, which shows `from` of the origin, would show something else afterwards.
    fn changes_under(&self, from: &TreePath, own: &TreePath) -> bool {
        self.touched.iter().any(|at| at.starts_with(from) || from.starts_with(at) || at.starts_with(own))
    }

    /// Copies what shows through from the directory `from` of the origin into `upper`, then cuts it off.
    fn fill(&self, upper: &OwnedFd, own: &TreePath, from: &TreePath) -> Result<()> {
        let doing = || self.layers.upper.join(own.as_path());
        if self.origin.entry(from).doing("look at", doing())?.is_some_and(|entry| entry.is_dir()) {
            let place = self.layers.open_dir()?;
            let draft = self.layers.name(DRAFT);
            // One that a kill left.
            tree::remove::remove_tree(place.as_fd(), &draft).doing("remove an old draft", doing())?;
            let lower = open::dir_beneath(self.origin.fd(), from.as_bytes()).doing("open", doing())?;
            let mut options = CopyOptions { cross_mounts: false, ..CopyOptions::default() };
            hidden(upper, &TreePath::root(), &mut options.skip).doing("list", doing())?;
            let mut linked = Vec::new();
            self.linked(from, &TreePath::root(), &mut linked).doing("list", doing())?;
            linked.retain(|path| !options.skip.iter().any(|skip| path.starts_with(skip)));
            options.skip.extend(linked.iter().cloned());
            node::mkdir_at(&place, &draft, 0o700).doing("make a draft", doing())?;
            let copy = open::dir_beneath(&place, &draft).doing("open", doing())?;
            copy_tree(lower.as_fd(), copy.as_fd(), &options, &mut |_| {}).doing("copy", doing())?;
            absorb(&copy, upper).doing("move", doing())?;
            tree::remove::remove_tree(place.as_fd(), &draft).doing("remove the draft", doing())?;
            for below in linked {
                self.bring(upper, own, &below).doing("copy", doing())?;
            }
        }
        xattr::set(upper, &Format::Root.mark(b"opaque"), b"y").doing("mark", doing())?;
        xattr::remove(upper, &Format::Root.mark(b"redirect")).doing("remove the mark of", doing())?;
        Ok(())
    }

    /// Files of the origin below `from` that are shown with what was written through another name of theirs.
    fn linked(&self, from: &TreePath, below: &TreePath, found: &mut Vec<TreePath>) -> kernel::Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        for (name, entry) in self.origin.list_entries(&from.join_path(below))? {
            let path = below.join(name);
            if entry.is_dir() {
                self.linked(from, &path, found)?;
            } else if index.knows(&entry)? {
                found.push(path);
            }
        }
        Ok(())
    }

    /// Copies one file as the lane shows it.
    fn bring(&self, upper: &OwnedFd, own: &TreePath, below: &TreePath) -> kernel::Result<()> {
        let path = own.join_path(below);
        let Some(entry) = self.lane.entry(&path)?.filter(tree::Entry::is_file) else { return Ok(()) };
        let (parent, name) = open::parent_beneath(upper, below.as_bytes())?;
        let parent = open::dir_beneath(parent, b"")?;
        let before = meta::stat_fd(&parent)?;
        let (file, draft) = publish::temp_file(&parent, 0o600)?;
        kernel::bytes::move_content(self.lane.open(&path)?.as_fd(), file.as_fd(), entry.size)?;
        for (key, value) in self.lane.xattrs(&path)? {
            xattr::set(&file, &key, &value)?;
        }
        meta::set_mode_fd(&file, entry.mode)?;
        meta::set_times_fd(&file, (entry.mtime.sec, entry.mtime.nsec))?;
        publish::rename_noreplace(&parent, &draft, &parent, &name)?;
        meta::set_times_fd(&parent, before.mtime)
    }
}

/// Paths below a directory of the upper that hide what lies under them in the lower.
fn hidden(upper: &OwnedFd, below: &TreePath, found: &mut Vec<TreePath>) -> kernel::Result<()> {
    for item in dir::entries(upper)? {
        let path = below.join(&item.name);
        let merged = match entry_at(upper, &item.name)? {
            Some(entry) if entry.is_dir() => {
                let marks = layer::dir_marks(upper, &item.name, Format::Root)?;
                !marks.opaque && marks.redirect.is_none()
            }
            _ => false,
        };
        if merged {
            hidden(&open::dir_beneath(upper, &item.name)?, &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// Moves everything of `draft` into `upper`, where directories of both may stand under one name.
fn absorb(draft: &OwnedFd, upper: &OwnedFd) -> kernel::Result<()> {
    let before = meta::stat_fd(upper)?;
    for item in dir::entries(draft)? {
        match publish::rename_noreplace(draft, &item.name, upper, &item.name) {
            Err(error) if error.errno == Errno::EXIST => {
                // A name that the upper hides was skipped: only directories of both are left.
                if entry_at(upper, &item.name)?.is_some_and(|entry| entry.is_dir()) {
                    absorb(&open::dir_beneath(draft, &item.name)?, &open::dir_beneath(upper, &item.name)?)?;
                }
            }
            other => other?,
        }
    }
    meta::set_times_fd(upper, before.mtime)
}

/// True where a renamed directory of `layer`, which may be several layers as one, rests on one of these paths.
pub(crate) fn rests_on(layer: &dyn Layer, touched: &[TreePath]) -> kernel::Result<bool> {
    let mut open = vec![TreePath::root()];
    while let Some(dir) = open.pop() {
        for (name, entry) in layer.names(&dir, true)? {
            let path = dir.join(name);
            if !entry.is_some_and(|entry| entry.is_dir()) {
                continue;
            }
            let meets = |from: &TreePath| {
                let near =
                    |at: &&TreePath| at.starts_with(from) || from.starts_with(at) || at.starts_with(&path);
                touched.iter().any(|at| near(&at))
            };
            match layer.marks(&path)?.redirect {
                Some(Redirect::Path(from)) if meets(&from) => return Ok(true),
                Some(Redirect::Name(from)) if meets(&dir.join(&from)) => return Ok(true),
                _ => open.push(path),
            }
        }
    }
    Ok(false)
}
