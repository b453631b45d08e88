//! What the base holds under the paths that a lane has changed, stored as a manifest of its own, so that a three-way merge
//! has its base after the origin has moved on.
//!
//! Invariant: what was stored for a path once stays: the base of a path is what stood there when the lane first
//! changed it. Only where the caller knows that the base has become another one (by a keep) it is stored anew.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;

use tree::compare::not_portable;
use tree::{Entry, Kind, Source, TreePath};

use super::entry::item;
use crate::error::{Error, Result};
use crate::id::ManifestId;
use crate::manifest::item::{Item, ItemKind};
use crate::writer::Writer;

/// The base of some paths.
#[derive(Debug)]
pub struct BaseContents {
    /// What stands under them; a path that the base does not have is not in it.
    pub manifest: ManifestId,
    /// What could not be stored, with the reason.
    pub gaps: Vec<(TreePath, String)>,
}

impl Writer<'_> {
    /// Stores what `base` holds under `paths`, beside what `previous` has already, and under those that are `stale` again.
    /// Nothing below a path is looked at.
    pub fn base_contents(
        &mut self,
        base: &dyn Source,
        previous: Option<ManifestId>,
        paths: BTreeSet<TreePath>,
        stale: &BTreeSet<TreePath>,
    ) -> Result<BaseContents> {
        let previous = match previous {
            Some(previous) => previous,
            None => self.manifest([])?,
        };
        let mut gaps = Vec::new();
        let mut edits = Vec::new();
        for path in paths {
            // An empty manifest of this writer is not in the store yet.
            if !stale.contains(&path) && self.manifest_item(previous, &path)?.is_some() {
                continue;
            }
            match self.base_item(base, &path) {
                Ok(Some(item)) => edits.push((path, Some(item))),
                Ok(None) => {}
                Err(Error::Unreadable(error)) if error.is_not_found() => {}
                Err(Error::Unreadable(error)) => gaps.push((path, error.to_string())),
                Err(Error::Malformed { why, .. }) => gaps.push((path, why.to_owned())),
                Err(error) => return Err(error),
            }
        }
        Ok(BaseContents { manifest: self.edit(previous, edits)?, gaps })
    }

    fn base_item(&mut self, base: &dyn Source, path: &TreePath) -> Result<Option<Item>> {
        let Some(entry) = base.entry(path).map_err(Error::Unreadable)? else { return Ok(None) };
        let (kind, entry): (ItemKind, Entry) = match entry.kind {
            Kind::File => {
                let fd = base.open(path).map_err(Error::Unreadable)?;
                let taken = self.file(fd.as_fd(), &entry)?;
                if !taken.steady {
                    return Err(Error::malformed("base", "changed while it was read"));
                }
                (ItemKind::File(taken.content), taken.entry)
            }
            Kind::Dir => (ItemKind::Dir { opaque: false, redirect: None }, entry),
            Kind::Symlink => (ItemKind::Symlink(entry.target.clone()), entry),
            Kind::Fifo => (ItemKind::Fifo, entry),
            Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                return Err(Error::malformed("base", not_portable(entry.kind)));
            }
        };
        let has_xattrs = matches!(kind, ItemKind::File(_) | ItemKind::Dir { .. });
        let mut item = item(kind, &entry);
        if has_xattrs {
            item.xattrs = base.xattrs(path).map_err(Error::Unreadable)?;
        }
        Ok(Some(item))
    }
}
