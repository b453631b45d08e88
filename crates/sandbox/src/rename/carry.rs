//! Entries from one directory into another, by hand only where the kernel refuses.
//!
//! Others may work in these directories meanwhile. Invariants: an entry that vanished is no error; where two
//! entries meet under one name, the newer one stays; a directory that somebody keeps filling is closed to
//! everybody else (mode 0) after a few rounds, so that this ends. Runs with CAP_DAC_OVERRIDE: directories
//! that their owner closed are moved without opening them to anybody.

use std::os::fd::OwnedFd;

use kernel::{Errno, Result};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, Timespec, Timestamps};

use super::journal::Open;
use super::moving::unlink;
use super::place::{asked, open_dir, stat};

/// Attributes of a directory before it was touched: its path below the top, mode, atime and mtime.
pub(super) type Noted = (Vec<u8>, u32, [i64; 4]);

/// A move by hand.
pub(super) struct Work<'w, 'j> {
    pub(super) open: &'w mut Open<'j>,
    pub(super) moved: u64,
    pub(super) noted: Vec<Noted>,
}

/// Which of two entries of one name was made later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newer {
    Source,
    Target,
}

/// How often a directory is read again because somebody keeps making entries in it.
const ROUNDS: usize = 8;
/// The end of all patience with one directory.
const MOST_ROUNDS: usize = 1000;

/// Moves every entry of `source` into `target`. What is made in `source` meanwhile may stay there:
/// [`clear_away`] takes it after the real rename.
pub(super) fn fill(work: &mut Work<'_, '_>, source: &OwnedFd, target: &OwnedFd, below: &[u8]) -> Result<()> {
    let before = attributes(source, below)?;
    work.open.dir(&before.0, before.1, before.2)?;
    work.noted.push(before);
    // Renaming while reading skips entries: read again until nothing is left.
    for _ in 0..ROUNDS {
        let names = names(source)?;
        let mut left = false;
        for name in names {
            work.moved += 1;
            left |= !carry(work, source, target, &name, below)?;
            work.open.step();
        }
        if !left && self::names(source)?.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Moves one entry; false where a directory could not be emptied for good.
fn carry(
    work: &mut Work<'_, '_>,
    source: &OwnedFd,
    target: &OwnedFd,
    name: &[u8],
    below: &[u8],
) -> Result<bool> {
    match rustix::fs::renameat_with(source, name, target, name, RenameFlags::NOREPLACE) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        // Made anew after the first of that name was moved.
        Err(Errno::EXIST) => return join(source, name, target, name, Newer::Source).map(|()| true),
        Err(Errno::XDEV) => {}
        Err(errno) => return Err(asked("renameat2", name, errno)),
    }
    let inner_source = match open_dir(source, name) {
        Ok(dir) => dir,
        Err(error) if error.is_not_found() => return Ok(true),
        Err(error) => return Err(error),
    };
    rustix::fs::mkdirat(target, name, Mode::from_raw_mode(0o700))
        .map_err(|errno| asked("mkdirat", name, errno))?;
    work.open.step();
    let inner_target = open_dir(target, name)?;
    let inner: Vec<u8> = if below.is_empty() { name.to_vec() } else { [below, b"/", name].concat() };
    let at = work.noted.len();
    fill(work, &inner_source, &inner_target, &inner)?;
    take_attributes(&inner_source, &inner_target, work.noted.get(at))?;
    work.open.step();
    match rustix::fs::unlinkat(source, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(asked("rmdir", name, errno)),
    }
}

/// After the real rename: the emptied source goes; what was made in it meanwhile moves after.
pub(super) fn clear_away(from: &OwnedFd, name: &[u8], to: &OwnedFd, to_name: &[u8]) -> Result<()> {
    for round in 0..MOST_ROUNDS {
        match rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            // Somebody has put something else in its place: the directory itself is gone.
            Err(Errno::NOTDIR) => return Ok(()),
            Err(errno) => return Err(asked("rmdir", name, errno)),
        }
        let source = open_dir(from, name)?;
        if round >= ROUNDS {
            close_to_others(&source)?;
        }
        match stat(to, to_name) {
            Ok(_) => merge(&source, &open_dir(to, to_name)?, Newer::Source)?,
            // The moved directory was removed already: what came later is all there is of it.
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Err(asked("rmdir", name, Errno::NOTEMPTY))
}

/// Brings the entry `name` of `from` to `to_name` in `to`, where one of that name may stand.
pub(super) fn join(from: &OwnedFd, name: &[u8], to: &OwnedFd, to_name: &[u8], newer: Newer) -> Result<()> {
    match rustix::fs::renameat_with(from, name, to, to_name, RenameFlags::NOREPLACE) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::EXIST | Errno::XDEV) => {}
        Err(errno) => return Err(asked("renameat2", name, errno)),
    }
    let is_dir = |dir: &OwnedFd, name: &[u8]| match stat(dir, name) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode).is_dir())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    };
    match (is_dir(from, name)?, is_dir(to, to_name)?) {
        (None, _) => Ok(()),
        (Some(true), Some(true)) => both_dirs(from, name, to, to_name, newer),
        (Some(true), None) => {
            rustix::fs::mkdirat(to, to_name, Mode::from_raw_mode(0o700))
                .map_err(|e| asked("mkdirat", to_name, e))?;
            let source = open_dir(from, name)?;
            let before = attributes(&source, b"")?;
            both_dirs(from, name, to, to_name, newer)?;
            take_attributes(&source, &open_dir(to, to_name)?, Some(&before))
        }
        _ if newer == Newer::Target => remove(from, name),
        (Some(_), other) => {
            if other.is_some() {
                remove(to, to_name)?;
            }
            rustix::fs::renameat(from, name, to, to_name).map_err(|errno| asked("renameat", name, errno))
        }
    }
}

fn both_dirs(from: &OwnedFd, name: &[u8], to: &OwnedFd, to_name: &[u8], newer: Newer) -> Result<()> {
    for round in 0..MOST_ROUNDS {
        let source = match open_dir(from, name) {
            Ok(source) => source,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if round >= ROUNDS {
            close_to_others(&source)?;
        }
        merge(&source, &open_dir(to, to_name)?, newer)?;
        match rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(asked("rmdir", name, errno)),
        }
    }
    Err(asked("rmdir", name, Errno::NOTEMPTY))
}

fn merge(from: &OwnedFd, to: &OwnedFd, newer: Newer) -> Result<()> {
    for name in names(from)? {
        join(from, &name, to, &name, newer)?;
    }
    Ok(())
}

/// Removes an entry that a newer one of the same name replaces, a directory with what is in it.
fn remove(dir: &OwnedFd, name: &[u8]) -> Result<()> {
    match open_dir(dir, name) {
        Err(error) if matches!(error.errno, Errno::NOTDIR | Errno::LOOP) => return unlink(dir, name),
        Err(error) if error.errno == Errno::NOENT => return Ok(()),
        Err(error) => return Err(error),
        Ok(inner) => {
            for below in names(&inner)? {
                remove(&inner, &below)?;
            }
        }
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(asked("rmdir", name, errno)),
    }
}

fn close_to_others(dir: &OwnedFd) -> Result<()> {
    rustix::fs::fchmod(dir, Mode::empty()).map_err(|errno| asked("fchmod", b"", errno))
}

/// Gives `target` what `source` had before it was emptied: attributes, mode, times.
pub(super) fn take_attributes(source: &OwnedFd, target: &OwnedFd, noted: Option<&Noted>) -> Result<()> {
    let names = kernel::xattr::list(source)?;
    for name in &names {
        if let Some(value) = kernel::xattr::get(source, name)? {
            match kernel::xattr::set(target, name, &value) {
                // A label that the system gives by itself is not ours to give.
                Err(error)
                    if !name.starts_with(b"user.")
                        && matches!(error.errno, Errno::PERM | Errno::OPNOTSUPP) => {}
                other => other?,
            }
        }
    }
    // A new directory may have inherited an access list that the old one does not have.
    for name in kernel::xattr::list(target)? {
        if name.starts_with(b"system.") && !names.contains(&name) {
            kernel::xattr::remove(target, &name)?;
        }
    }
    match noted {
        Some((_, mode, times)) => set_attributes(target, *mode, *times),
        None => Ok(()),
    }
}

pub(super) fn set_attributes(dir: &OwnedFd, mode: u32, times: [i64; 4]) -> Result<()> {
    rustix::fs::fchmod(dir, Mode::from_raw_mode(mode)).map_err(|errno| asked("fchmod", b"", errno))?;
    set_times(dir, times)
}

/// Sets access and modification time.
pub(super) fn set_times(dir: &OwnedFd, times: [i64; 4]) -> Result<()> {
    let at = |sec, nsec| Timespec { tv_sec: sec, tv_nsec: nsec };
    let stamps =
        Timestamps { last_access: at(times[0], times[1]), last_modification: at(times[2], times[3]) };
    rustix::fs::futimens(dir, &stamps).map_err(|errno| asked("futimens", b"", errno))
}

pub(super) fn attributes(dir: &OwnedFd, below: &[u8]) -> Result<Noted> {
    let stat = rustix::fs::fstat(dir).map_err(|errno| asked("fstat", below, errno))?;
    let times = [stat.st_atime, stat.st_atime_nsec as i64, stat.st_mtime, stat.st_mtime_nsec as i64];
    Ok((below.to_vec(), stat.st_mode & 0o7777, times))
}

fn names(dir: &OwnedFd) -> Result<Vec<Vec<u8>>> {
    Ok(kernel::dir::entries(dir)?.into_iter().map(|entry| entry.name).collect())
}
