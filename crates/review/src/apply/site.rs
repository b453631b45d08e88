//! [`Site`]: the two directories that a keep works between, and the questions it asks of them:
//! what stands there, and is it still what we know?
//!
//! Invariant: every look goes through a directory descriptor that was opened beneath its root without
//! following links, and the act that follows uses that same descriptor.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::{Errno, open};
use tree::{Entry, Kind, TreePath};

use super::journal::Seen;
use super::{Faults, digest};
use crate::error::{Error, Result, Stepping as _};

/// A name in an open directory, and what stands under it.
pub(crate) struct Spot {
    pub(crate) dir: OwnedFd,
    pub(crate) name: Vec<u8>,
    pub(crate) entry: Option<Entry>,
}

impl Spot {
    pub(crate) fn ino(&self) -> Option<u64> {
        self.entry.as_ref().map(|entry| entry.ino)
    }
}

pub(crate) struct Site<'a> {
    pub(crate) origin: BorrowedFd<'a>,
    /// The staging directory; `None` where it is gone already.
    pub(crate) stage: Option<BorrowedFd<'a>>,
    pub(crate) faults: &'a dyn Faults,
}

impl Site<'_> {
    /// Where a test lets things go wrong.
    pub(crate) fn fault(&self, step: &'static str, path: &TreePath) -> Result<()> {
        self.faults.at(step, path).map_err(|errno| Error::Step {
            step,
            path: path.clone(),
            source: kernel::Error::new("fault", path.as_bytes(), errno),
        })
    }

    /// The place `path` in the origin. Its directory must be there and reachable without links.
    pub(crate) fn spot(&self, path: &TreePath) -> Result<Spot> {
        spot(self.origin, path)
    }

    /// As [`Site::spot`]; `None` where its directory is gone or is none.
    pub(crate) fn spot_if_reachable(&self, path: &TreePath) -> Result<Option<Spot>> {
        match spot(self.origin, path) {
            Ok(spot) => Ok(Some(spot)),
            Err(Error::NotBeneath { .. }) => Ok(None),
            Err(Error::Step { source, .. }) if source.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The place `slot` in the staging directory; `None` where there is no such place.
    pub(crate) fn slot(&self, slot: &TreePath) -> Result<Option<Spot>> {
        let Some(stage) = self.stage else { return Ok(None) };
        match spot(stage, slot) {
            Ok(spot) => Ok(Some(spot)),
            Err(Error::NotBeneath { .. }) => Ok(None),
            Err(Error::Step { source, .. }) if source.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The place `slot`, which must be there.
    pub(crate) fn need_slot(&self, slot: &TreePath) -> Result<Spot> {
        let gone = || kernel::Error::new("openat2", slot.as_bytes(), Errno::NOENT);
        self.slot(slot)?.ok_or_else(|| Error::Step {
            step: "staging directory",
            path: slot.clone(),
            source: gone(),
        })
    }
}

fn spot(root: BorrowedFd<'_>, path: &TreePath) -> Result<Spot> {
    if path.is_root() {
        let dir = open::dir_beneath(root, b"").stepping("open", path)?;
        let entry = tree::dir::entry_at(&dir, b"").stepping("stat", path)?;
        return Ok(Spot { dir, name: Vec::new(), entry });
    }
    let (dir, name) = match open::parent_beneath(root, path.as_bytes()) {
        Err(error) if matches!(error.errno, Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {
            return Err(Error::NotBeneath { path: path.clone() });
        }
        answer => answer.stepping("open the directory of", path)?,
    };
    let entry = tree::dir::entry_at(&dir, &name).stepping("stat", path)?;
    Ok(Spot { dir, name, entry })
}

/// How closely an entry must be what it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closely<'a> {
    /// Inodes whose status change time we have changed ourselves (through another of their names).
    pub(crate) touched: &'a BTreeSet<u64>,
    /// It was moved by us, which changes the status change time.
    pub(crate) moved: bool,
    /// It was made by us: where only times differ (a backup, a further name), its digest decides.
    pub(crate) made: bool,
}

/// True where `found` is the very entry `old`, unchanged.
pub(crate) fn is_same(found: &Entry, old: &Seen, closely: Closely<'_>) -> bool {
    is_alike(found, old) && (found.is_dir() || closely.moved || is_unmoved(found, old, closely))
}

/// True where all but the status change time is as it was.
fn is_alike(found: &Entry, old: &Seen) -> bool {
    is_like_made(found, old) && (found.is_dir() || found.mtime == old.mtime)
}

/// True where all but the times is as it was.
fn is_like_made(found: &Entry, old: &Seen) -> bool {
    found.kind == old.kind
        && found.ino == old.ino
        && (found.is_dir() || (found.size == old.size && found.mode == old.mode))
}

fn is_unmoved(found: &Entry, old: &Seen, closely: Closely<'_>) -> bool {
    // What only goes back to where it stood brings along whatever became of it.
    found.ctime == old.ctime || closely.touched.contains(&old.ino) || (closely.made && !old.ours)
}

/// Compares an object in place with what is known of it (itself first, then all that is below)
/// and returns what is different, by path below the object. `except` may be there or not.
pub(crate) fn differences<'a>(
    spot: &Spot,
    old: impl IntoIterator<Item = &'a Seen>,
    except: &BTreeSet<TreePath>,
    closely: Closely<'_>,
) -> Result<Vec<TreePath>> {
    compare(spot, old, except, closely).map(|compared| compared.different)
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// What is not as it was, by path below the object.
    pub(crate) different: Vec<TreePath>,
    /// What is as it was, as it is now.
    pub(crate) now: Vec<Seen>,
}

/// As [`differences`], with what was found.
pub(crate) fn compare<'a>(
    spot: &Spot,
    old: impl IntoIterator<Item = &'a Seen>,
    except: &BTreeSet<TreePath>,
    closely: Closely<'_>,
) -> Result<Compared> {
    let mut comparing = Comparing {
        expected: old.into_iter().map(|seen| (&seen.path, seen)).collect(),
        except,
        closely,
        found: Compared::default(),
    };
    let root = TreePath::root();
    match (&spot.entry, comparing.expected.remove(&root)) {
        (Some(found), Some(old)) if comparing.is_same(&spot.dir, &spot.name, found, old)? => {
            comparing.note(found, old);
            if found.is_dir() && old.ours {
                comparing.enter(&spot.dir, &spot.name, &root)?;
            }
        }
        (None, None) => {}
        _ => comparing.found.different.push(root),
    }
    let Comparing { expected, mut found, .. } = comparing;
    found.different.extend(expected.into_keys().cloned());
    Ok(found)
}

struct Comparing<'a, 'b> {
    expected: BTreeMap<&'a TreePath, &'a Seen>,
    except: &'b BTreeSet<TreePath>,
    closely: Closely<'b>,
    found: Compared,
}

impl<'a> Comparing<'a, '_> {
    fn is_same(&self, dir: &OwnedFd, name: &[u8], found: &Entry, old: &Seen) -> Result<bool> {
        if is_same(found, old, self.closely) {
            return Ok(true);
        }
        if self.closely.made && old.kind != Kind::File && is_like_made(found, old) {
            // It has nothing that could be edited.
            return Ok(true);
        }
        match old.digest {
            Some(known) if self.closely.made && is_like_made(found, old) => {
                Ok(digest::at(dir, name, &old.path)? == Some(known))
            }
            _ => Ok(false),
        }
    }

    fn note(&mut self, found: &Entry, old: &Seen) {
        self.found.now.push(Seen { ctime: found.ctime, mtime: found.mtime, ..old.clone() });
    }

    fn enter(&mut self, dir: &OwnedFd, name: &[u8], at: &TreePath) -> Result<()> {
        match open::dir_beneath(dir, name) {
            Ok(inside) => self.below(&inside, at),
            // A directory that its own owner may not read is as we made it: nobody could change it.
            Err(error) if error.errno == Errno::ACCESS && self.closely.made => {
                let inside = |path: &TreePath| path != at && path.starts_with(at);
                let all: Vec<&'a TreePath> =
                    self.expected.keys().copied().filter(|path| inside(path)).collect();
                for path in all {
                    self.found.now.extend(self.expected.remove(path).cloned());
                }
                Ok(())
            }
            Err(error) => Err(error).stepping("open", at),
        }
    }

    fn below(&mut self, dir: &OwnedFd, at: &TreePath) -> Result<()> {
        for name in kernel::dir::entries(dir).stepping("list", at)? {
            let path = at.join(&name.name);
            if self.except.contains(&path) {
                continue;
            }
            let Some(found) = tree::dir::entry_at(dir, &name.name).stepping("stat", &path)? else { continue };
            match self.expected.remove(&path) {
                Some(old) if self.is_same(dir, &name.name, &found, old)? => {
                    self.note(&found, old);
                    if found.is_dir() && old.ours {
                        self.enter(dir, &name.name, &path)?;
                    }
                }
                _ => self.found.different.push(path),
            }
        }
        Ok(())
    }
}

/// True where an object that we put in place is as we made it.
pub(crate) fn untouched(spot: &Spot, new: &[Seen]) -> Result<bool> {
    let expected: BTreeMap<&TreePath, &Seen> = new.iter().map(|seen| (&seen.path, seen)).collect();
    let root = TreePath::root();
    let (Some(found), Some(seen)) = (&spot.entry, expected.get(&root)) else { return Ok(false) };
    if !as_made(found, seen) {
        return Ok(false);
    }
    if !(found.is_dir() && seen.ours) {
        return Ok(true);
    }
    let mut count = 1;
    let whole = match open::dir_beneath(&spot.dir, &spot.name) {
        Ok(inside) => untouched_below(&inside, &root, &expected, &mut count)?,
        // A directory that its own owner may not read is as we made it: nobody could change it.
        Err(error) if error.errno == Errno::ACCESS => return Ok(true),
        Err(error) => return Err(error).stepping("open", &root),
    };
    Ok(whole && count == expected.len())
}

fn untouched_below(
    dir: &OwnedFd,
    at: &TreePath,
    expected: &BTreeMap<&TreePath, &Seen>,
    count: &mut usize,
) -> Result<bool> {
    for name in kernel::dir::entries(dir).stepping("list", at)? {
        let path = at.join(&name.name);
        let found = tree::dir::entry_at(dir, &name.name).stepping("stat", &path)?;
        let (Some(found), Some(seen)) = (found, expected.get(&path)) else { return Ok(false) };
        if !as_made(&found, seen) {
            return Ok(false);
        }
        *count += 1;
        if found.is_dir() && seen.ours {
            match open::dir_beneath(dir.as_fd(), &name.name) {
                Ok(inside) => {
                    if !untouched_below(&inside, &path, expected, count)? {
                        return Ok(false);
                    }
                }
                Err(error) if error.errno == Errno::ACCESS => {
                    *count +=
                        expected.keys().filter(|other| ***other != path && other.starts_with(&path)).count();
                }
                Err(error) => return Err(error).stepping("open", &path),
            }
        }
    }
    Ok(true)
}

fn as_made(found: &Entry, seen: &Seen) -> bool {
    found.kind == seen.kind
        && found.ino == seen.ino
        && (found.is_dir() || !seen.ours || (found.size == seen.size && found.mtime == seen.mtime))
}
