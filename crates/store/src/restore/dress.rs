//! Owner, attributes, marks, mode and time of one entry, set exactly.
//!
//! Invariant: in an order in which none undoes another: a new owner drops set-id bits, an access list changes the mode,
//! and everything changes times.

use std::os::fd::BorrowedFd;

use kernel::{Errno, Result, meta, xattr};
use tree::TreePath;
use tree::layer::{self, Format, Redirect};

use crate::manifest::item::{Item, ItemKind};

/// The bits that let an owner read and write attributes.
const OPEN: u32 = 0o600;

/// Makes `name` in `dir` what `item` says, but for its content. Answers what could not be set, and why.
pub(super) fn dress(
    dir: BorrowedFd<'_>,
    name: &[u8],
    item: &Item,
    format: Format,
) -> Result<Option<&'static str>> {
    if item.kind == ItemKind::Whiteout {
        return Ok(None);
    }
    let mut kept = None;
    let stat = meta::stat_at(dir, name)?;
    let mut mode = stat.permissions();
    if (stat.uid, stat.gid) != (item.uid, item.gid) {
        match meta::set_owner_at(dir, name, item.uid, item.gid) {
            Ok(()) => mode = meta::stat_at(dir, name)?.permissions(),
            Err(error) if matches!(error.errno, Errno::PERM | Errno::INVAL) => {
                kept = Some("its owner could not be set");
            }
            Err(error) => return Err(error),
        }
    }
    let is_link = matches!(item.kind, ItemKind::Symlink(_));
    if !is_link && !matches!(item.kind, ItemKind::Fifo) {
        mode = attributes(dir, name, item, format, mode)?;
    }
    if !is_link && mode != item.mode {
        meta::set_mode_at(dir, name, item.mode)?;
    }
    let mtime = (item.mtime.sec, item.mtime.nsec);
    if meta::stat_at(dir, name)?.mtime != mtime {
        meta::set_times_at(dir, name, mtime)?;
    }
    Ok(kept)
}

/// Sets the attributes that a user sees, and the marks of a directory. Answers the mode that the entry then has.
fn attributes(dir: BorrowedFd<'_>, name: &[u8], item: &Item, format: Format, mode: u32) -> Result<u32> {
    let wanted = wanted(item, format);
    let there = xattr::list_at(dir, name)?;
    if there.is_empty() && wanted.is_empty() {
        return Ok(mode);
    }
    if mode & OPEN != OPEN && !rustix::process::geteuid().is_root() {
        meta::set_mode_at(dir, name, mode | OPEN)?;
    }
    let ours = |stored: &[u8]| {
        layer::shown_xattr(stored).is_some()
            || stored == format.mark(b"opaque")
            || stored == format.mark(b"redirect")
    };
    for stored in there.iter().filter(|stored| ours(stored)) {
        if !wanted.iter().any(|(name, _)| name == stored) {
            xattr::remove_at(dir, name, stored)?;
        }
    }
    for (stored, value) in &wanted {
        let same = there.contains(stored) && xattr::get_at(dir, name, stored)?.as_ref() == Some(value);
        if !same {
            xattr::set_at(dir, name, stored, value)?;
        }
    }
    Ok(meta::stat_at(dir, name)?.permissions())
}

/// Attributes under the names that the layer keeps them by.
fn wanted(item: &Item, format: Format) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut wanted: Vec<(Vec<u8>, Vec<u8>)> = item
        .xattrs
        .iter()
        // A manifest is not believed: nothing but a user's attributes is set.
        .filter(|(shown, _)| layer::is_users(shown))
        .map(|(shown, value)| (layer::stored_xattr(shown), value.clone()))
        .collect();
    if let ItemKind::Dir { opaque, redirect } = &item.kind {
        if *opaque {
            wanted.push((format.mark(b"opaque"), b"y".to_vec()));
        }
        // An ordinary user's mount follows no redirects, and writes none.
        if let (Format::Root, Some(redirect)) = (format, redirect) {
            wanted.push((format.mark(b"redirect"), redirect_value(redirect)));
        }
    }
    wanted
}

fn redirect_value(redirect: &Redirect) -> Vec<u8> {
    match redirect {
        Redirect::Name(name) => name.clone(),
        Redirect::Path(path) => absolute(path),
    }
}

fn absolute(path: &TreePath) -> Vec<u8> {
    [b"/", path.as_bytes()].concat()
}
