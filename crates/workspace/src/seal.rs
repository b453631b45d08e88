//! Sealing: the upper of a root becomes a layer that nobody writes any more, below a new empty upper. And the way back:
//! everything that a root stands on made one upper again.
//!
//! Invariant: between any two calls the root shows the same tree, so that a kill at any point loses and changes nothing
//! and leaves nothing to be finished. An empty layer is named by the stack first, which shows nothing; then it and the
//! upper are exchanged in one step, which shows the same in another order. The caller holds the lane's lock and nothing
//! is mounted.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use kernel::{Errno, meta, publish};
use tree::copy::{Copied, Progress};
use tree::flatten::flatten;
use tree::layer::Format;
use tree::{DirTree, LinkGroups, Stack};

use crate::error::{Doing as _, Error, Result};
use crate::home::{Layers, remove_below};
use crate::origin::open_dir;
use crate::pool::{Held, Pool};

/// Sealed layers below one upper at most: beyond that they are made one. Each costs a lookup of every name that is not there.
pub const MOST_LAYERS: usize = 16;
/// Where they cannot be made one, so many are still mounted.
const LIMIT: usize = 64;

/// One root whose layers are worked on.
pub(crate) struct Sealing<'s> {
    pub(crate) layers: &'s Layers,
    pub(crate) origin: &'s DirTree,
    pub(crate) format: Format,
    pool: Pool,
    held: Held,
    /// Layers that the root named and does not name any more.
    unneeded: Vec<String>,
    /// What the new upper got of the old one.
    pub(crate) carried: Copied,
}

/// What was made one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Squashed {
    /// Layers before.
    pub layers: usize,
    /// Files that were copied.
    pub files: u64,
    /// Bytes that this took.
    pub allocated: u64,
}

impl<'s> Sealing<'s> {
    pub(crate) fn begin(layers: &'s Layers, origin: &'s DirTree, format: Format) -> Result<Sealing<'s>> {
        let pool = layers.pool();
        let held = pool.hold()?;
        Ok(Sealing { layers, origin, format, pool, held, unneeded: Vec::new(), carried: Copied::default() })
    }

    /// Gives up what is not needed any more. Where this is not reached, the next sweep does it.
    pub(crate) fn end(self) -> Result<()> {
        drop(self.held);
        self.pool.release(&self.unneeded, &|_| false)
    }

    fn lane(&self) -> String {
        self.layers.lane.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or("lane").to_owned()
    }

    fn new_layer(&self, like: BorrowedFd<'_>) -> Result<String> {
        self.pool.make(&self.held, &self.lane(), &self.layers.place(), like)
    }

    /// Exchanges the upper and a layer.
    fn exchange(&self, id: &str) -> Result<()> {
        let layer = self.pool.layer(id)?;
        let (beside, name) =
            (layer.parent().unwrap_or(Path::new("/")), layer.file_name().unwrap_or_default());
        let dir = self.layers.open_dir()?;
        let both = [self.layers.open_layer(&dir, "u")?, open_dir(&layer)?];
        let path = &self.layers.upper;
        let times = both.each_ref().map(meta::stat_fd);
        publish::rename_exchange(&dir, &self.layers.name("u"), open_dir(beside)?, name.as_encoded_bytes())
            .doing("seal", path)?;
        for (fd, time) in both.iter().zip(times) {
            // Some filesystems (xfs) date a directory anew that comes to another parent. It is done by now, whatever
            // becomes of the time.
            let _ = time.and_then(|stat| meta::set_times_fd(fd, stat.mtime));
        }
        Ok(())
    }

    /// Seals the upper; the stack that the root stands on then. One in which nothing is stays: it may be shared as it
    /// is. False where this filesystem or the layer's own mode forbids it, and all is as it was. The new upper holds a copy of
    /// `groups`, so that their names stay together.
    pub(crate) fn seal(&mut self, groups: Option<&LinkGroups>) -> Result<Option<Vec<String>>> {
        let mut ids = self.layers.sealed_ids()?;
        let dir = self.layers.open_dir()?;
        let upper = self.layers.open_layer(&dir, "u")?;
        if kernel::dir::unread_entries(&upper).doing("look at upper layer", &self.layers.upper)?.is_empty() {
            return Ok(Some(ids));
        }
        let before = ids.clone();
        let id = self.new_layer(upper.as_fd())?;
        if let Some(groups) = groups {
            // Below the upper it shows nothing, as the empty one would, since the upper has the same.
            let path = self.pool.layer(&id)?;
            let copied = open_dir(&path).and_then(|into| {
                let copied = groups.copy((upper.as_fd(), into.as_fd()), self.format, &mut |_| {});
                copied.doing("copy hard links", &path)
            });
            match copied {
                Ok(copied) => self.carried = copied,
                Err(error) => {
                    self.unneeded.push(id);
                    return Err(error);
                }
            }
        }
        ids.insert(0, id.clone());
        self.layers.set_sealed(&ids)?;
        match self.exchange(&id) {
            Ok(()) => {}
            Err(Error::Kernel { source, .. }) if is_refusal(source.errno) => {
                self.layers.set_sealed(&before)?;
                self.unneeded.push(id);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // What is left in it speaks of a layer that is not the upper any more.
        remove_below(&dir, &self.layers.name("w"), &self.layers.work)?;
        Ok(Some(ids))
    }

    /// Makes the sealed layers one, where there are too many.
    pub(crate) fn squash_if_many(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Option<Squashed>> {
        let ids = self.layers.sealed_ids()?;
        if ids.len() < MOST_LAYERS {
            return Ok(None);
        }
        match self.squash(&ids, progress) {
            // Something in it refuses its owner, say: as long as it can be mounted, it stays.
            Err(_) if ids.len() < LIMIT => Ok(None),
            other => other.map(Some),
        }
    }

    fn squash(&mut self, ids: &[String], progress: &mut dyn FnMut(Progress)) -> Result<Squashed> {
        let open = |id: &String| {
            let path = self.pool.layer(id)?;
            kernel::open::root_dir(&path).doing("open layer", path)
        };
        let mut fds = ids.iter().map(open).collect::<Result<Vec<_>>>()?;
        let path = || self.pool.path().to_path_buf();
        let top = fds.remove(0);
        let like = kernel::open::dir_beneath(&top, b"").doing("open layer", path())?;
        let stack = Stack::of_dirs(top, fds, self.format).doing("read layers", path())?;
        let id = self.new_layer(like.as_fd())?;
        let target = self.pool.layer(&id)?;
        let into = kernel::open::root_dir(&target).doing("open layer", &target)?;
        let copied = match flatten(&stack, self.origin, into.as_fd(), self.format, progress) {
            Ok(copied) => copied,
            Err(error) => {
                self.unneeded.push(id);
                return Err(error).doing("make layers one", target);
            }
        };
        self.layers.set_sealed(&[id])?;
        self.unneeded.extend_from_slice(ids);
        Ok(Squashed { layers: ids.len(), files: copied.files, allocated: copied.allocated })
    }

    /// Makes everything that the root stands on its upper again; false where that is so.
    pub(crate) fn unite(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<bool> {
        if self.layers.sealed_ids()?.is_empty() {
            return Ok(false);
        }
        let refused = || {
            let source = kernel::Error::new("renameat2", b"", Errno::OPNOTSUPP);
            Error::Kernel { step: "seal", path: self.layers.upper.clone(), source }
        };
        let ids = self.seal(None)?.ok_or_else(refused)?;
        if ids.len() > 1 {
            self.squash(&ids, progress)?;
        }
        let mut id = self.only_layer()?.ok_or_else(refused)?;
        // A copy of it where others stand on it too.
        if self.pool.users()?.get(&id).is_some_and(|users| *users > 1) {
            self.squash(&[id], progress)?;
            id = self.only_layer()?.ok_or_else(refused)?;
        }
        // The upper is empty, but its root may have changed since it was made.
        let (layer, upper) =
            (open_dir(&self.pool.layer(&id)?)?, self.layers.open_layer(self.layers.open_dir()?, "u")?);
        crate::overlay::look_like(layer.as_fd(), upper.as_fd(), &self.layers.upper)?;
        self.exchange(&id)?;
        self.layers.set_sealed(&[])?;
        remove_below(&self.layers.open_dir()?, &self.layers.name("w"), &self.layers.work)?;
        self.unneeded.push(id);
        Ok(true)
    }

    fn only_layer(&self) -> Result<Option<String>> {
        let mut ids = self.layers.sealed_ids()?;
        Ok(if ids.len() == 1 { ids.pop() } else { None })
    }

    /// Where the sealed layers stand.
    pub(crate) fn place(&self) -> PathBuf {
        match self.layers.place() {
            crate::LayerPlace::InState => self.pool.path().to_path_buf(),
            crate::LayerPlace::At(place) => place,
        }
    }
}

/// The filesystem exchanges no names; or the layer's root refuses its owner to move it.
fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::NOSYS | Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::OPNOTSUPP
    )
}
