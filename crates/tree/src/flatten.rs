//! Several layers into one on disk: a copy of what a [`crate::Stack`] shows, with marks that say the same over the same
//! lower tree.
//!
//! Invariant: all or nothing. What cannot be read ends it; the caller removes what was made.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kernel::{Error, Result, dir::DirName, meta, node, open, xattr};

use crate::copy::{Between, Copied, Copier, CopyOptions, Failed, Progress};
use crate::entry::Entry;
use crate::layer::{self, DirMarks, Format, Redirect};
use crate::layer_copy::Marks;
use crate::path::TreePath;
use crate::source::Source;
use crate::union::merges_with;
use crate::upper::{Layer, OnDisk};

/// Why two layers cannot be made one.
const NOT_ON_DISK: kernel::Errno = kernel::Errno::OPNOTSUPP;

/// Copies everything in `layer`, which stands over `lower`, into the empty directory `to`, which also takes its root's
/// mode, times and attributes.
pub fn flatten(
    layer: &dyn Layer,
    lower: &dyn Source,
    to: BorrowedFd<'_>,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied> {
    let options = CopyOptions { layer: Some(Marks::Whiteouts(format)), ..CopyOptions::default() };
    let mut copier = Copier::new(to, &options, progress);
    let root = TreePath::root();
    let mut dirs = vec![(root.clone(), Some(root))];
    let mut next = 0;
    while let Some((path, through)) = dirs.get(next).cloned() {
        next += 1;
        let here = open::dir_beneath(to, path.as_bytes())?;
        let mut merges: Option<bool> = None;
        for (name, entry) in layer.names(&path, true)? {
            let below = path.join(&name);
            if entry.as_ref().is_some_and(Entry::is_dir) {
                node::mkdir_at(&here, &name, 0o700)?;
                copier.copied.dirs += 1;
                let through = merges_with(&layer.marks(&below)?, through.as_ref(), &name);
                dirs.push((below, through));
                continue;
            }
            if entry.as_ref().is_some_and(Entry::is_whiteout) {
                let known = match merges {
                    Some(known) => known,
                    None => is_dir(lower, through.as_ref())?,
                };
                merges = Some(known);
                if !known {
                    // Nothing is below for it to hide. The kernel leaves whiteouts out of a listing only where
                    // directories merge.
                    continue;
                }
            }
            let (from, stored) = place(layer, &below)?;
            let at = Between { from: from.as_fd(), to: here.as_fd() };
            debug_assert_eq!(stored, name, "only directories are redirected");
            copier.leaf(at, DirName { name, kind: None, ino: 0 }, &below).map_err(|failed| match failed {
                Failed::Source(error) | Failed::Target(error) => {
                    Error::new(error.call, below.as_bytes(), error.errno)
                }
            })?;
            copier.tell(false);
        }
    }
    // What is in a directory changes its times.
    for (path, _) in dirs.iter().rev() {
        let new = open::dir_beneath(to, path.as_bytes())?;
        let old = opened(place(layer, path)?)?;
        copier.dress(old.as_fd(), new.as_fd(), &meta::stat_fd(&old)?, true)?;
        if !path.is_root() {
            mark(&new, &layer.marks(path)?, format)?;
        }
    }
    copier.tell(true);
    match copier.copied.skipped.first() {
        Some((path, _)) => Err(Error::new("copy", path.as_bytes(), NOT_ON_DISK)),
        None => Ok(copier.copied),
    }
}

fn is_dir(lower: &dyn Source, path: Option<&TreePath>) -> Result<bool> {
    Ok(match path {
        Some(path) => lower.entry(path)?.is_some_and(|entry| entry.is_dir()),
        None => false,
    })
}

fn place(layer: &dyn Layer, path: &TreePath) -> Result<OnDisk> {
    layer.on_disk(path)?.ok_or_else(|| Error::new("copy", path.as_bytes(), NOT_ON_DISK))
}

fn opened((dir, name): OnDisk) -> Result<Arc<OwnedFd>> {
    if name.is_empty() { Ok(dir) } else { open::dir_beneath(&*dir, &name).map(Arc::new) }
}

/// The marks of a directory; an attribute changes no time but the status change's.
fn mark(dir: &OwnedFd, marks: &DirMarks, format: Format) -> Result<()> {
    let stat = meta::stat_fd(dir)?;
    let value: (&[u8], Vec<u8>) = match &marks.redirect {
        _ if marks.opaque => (b"opaque", b"y".to_vec()),
        Some(Redirect::Path(path)) => (b"redirect", layer::redirect_to(path)),
        Some(Redirect::Name(name)) => (b"redirect", name.clone()),
        None => return Ok(()),
    };
    let closed = format == Format::User && stat.permissions() & 0o200 == 0;
    if closed {
        meta::set_mode_fd(dir, stat.permissions() | 0o200)?;
    }
    xattr::set(dir, &format.mark(value.0), &value.1)?;
    if closed {
        meta::set_mode_fd(dir, stat.permissions())?;
    }
    Ok(())
}
