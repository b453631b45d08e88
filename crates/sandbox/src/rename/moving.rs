//! The moves themselves, their rollback, and what is made of a journal that a kill left behind.

use std::os::fd::{AsFd, OwnedFd};

use kernel::{Errno, Error, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps};

use super::Place;
use super::journal::{Exchange, Journal, Move, Open};

/// Moves the directory `from` to `to`. `keep`: an existing target is EEXIST.
pub(super) fn move_dir(journal: &Journal, id: u64, from: &Place, to: &Place, keep: bool) -> Result<u64> {
    // EXDEV came before the kernel looked at the target: answer for it as it would have.
    match stat(&to.parent, &to.name) {
        Err(error) if error.errno == Errno::NOENT => {}
        Err(error) => return Err(error),
        Ok(_) if keep => return Err(asked("renameat2", &to.name, Errno::EXIST)),
        Ok(target) => {
            if !FileType::from_raw_mode(target.st_mode).is_dir() {
                return Err(asked("renameat2", &to.name, Errno::NOTDIR));
            }
            if !names(&open_dir(&to.parent, &to.name)?)?.is_empty() {
                return Err(asked("renameat2", &to.name, Errno::NOTEMPTY));
            }
        }
    }
    let mut open = journal.open(id)?;
    let outcome = one_move(&mut open, from, to, keep, b"0")?;
    open.close()?;
    outcome
}

/// Exchanges two entries, at least one of them a directory of a lower layer.
pub(super) fn exchange(journal: &Journal, id: u64, one: &Place, two: &Place) -> Result<u64> {
    let mut open = journal.open(id)?;
    let parked = temporary_name(b"x");
    open.exchange(&Exchange {
        parked: parked.clone(),
        one_dir: open.path_of(&one.parent)?,
        one: one.name.clone(),
        two_dir: open.path_of(&two.parent)?,
        two: two.name.clone(),
    })?;
    let aside = Place { parent: same(&one.parent)?, name: parked };
    let outcome = match any_move(&mut open, two, &aside, b"1")? {
        Err(error) => Err(error),
        Ok(first) => match any_move(&mut open, one, two, b"2")? {
            Ok(second) => rename(&aside, one, RenameFlags::NOREPLACE).map(|()| first + second),
            Err(error) => {
                // Nothing of the second move is left: put the first one back.
                rename(&aside, two, RenameFlags::NOREPLACE)?;
                Err(error)
            }
        },
    };
    open.close()?;
    outcome
}

/// What came of a move: the entries moved, or the error after which everything is as before. The outer
/// error of the functions that return it means that the journal must stay.
type Outcome = Result<u64>;

/// One move of any entry: by the kernel where it can, else by hand.
fn any_move(open: &mut Open<'_>, from: &Place, to: &Place, salt: &[u8]) -> Result<Outcome> {
    match rename(from, to, RenameFlags::NOREPLACE) {
        Err(error) if error.errno == Errno::XDEV => one_move(open, from, to, true, salt),
        other => Ok(other.map(|()| 1)),
    }
}

fn one_move(open: &mut Open<'_>, from: &Place, to: &Place, keep: bool, salt: &[u8]) -> Result<Outcome> {
    let temporary = temporary_name(salt);
    open.begin(&Move {
        from_dir: open.path_of(&from.parent)?,
        from: from.name.clone(),
        to_dir: open.path_of(&to.parent)?,
        to: to.name.clone(),
        temporary: temporary.clone(),
        dirs: Vec::new(),
    })?;
    let at = Place { parent: same(&to.parent)?, name: temporary };
    if let Err(error) = make_dir(&at) {
        return Ok(Err(error));
    }
    let mut moved = 0;
    let mut noted = Vec::new();
    let flags = if keep { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
    let result = open_dir(&from.parent, &from.name).and_then(|source| {
        let target = open_dir(&at.parent, &at.name)?;
        fill(open, &source, &target, b"", &mut moved, &mut noted)?;
        take_attributes(&source, &target, noted.first())?;
        rename(&at, to, flags)
    });
    if let Err(error) = result {
        roll_back(&from.parent, &from.name, &at, &noted)?;
        return Ok(Err(error));
    }
    finish(from, to)?;
    Ok(Ok(moved))
}

/// Attributes of a directory before it was touched: its path below the top, mode, atime and mtime.
type Noted = (Vec<u8>, u32, [i64; 4]);

/// Moves every entry of `source` into `target`, by hand only where the kernel refuses.
fn fill(
    open: &mut Open<'_>,
    source: &OwnedFd,
    target: &OwnedFd,
    below: &[u8],
    moved: &mut u64,
    noted: &mut Vec<Noted>,
) -> Result<()> {
    let before = attributes(source, below)?;
    open.dir(&before.0, before.1, before.2)?;
    noted.push(before.clone());
    // Renaming while reading skips entries: read again until nothing is left.
    loop {
        let names = names(source)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            *moved += 1;
            match rustix::fs::renameat_with(source, &*name, target, &*name, RenameFlags::NOREPLACE) {
                Ok(()) => continue,
                Err(Errno::XDEV) => {}
                Err(errno) => return Err(asked("renameat2", &name, errno)),
            }
            rustix::fs::mkdirat(target, &*name, Mode::from_raw_mode(0o700)).map_err(|e| asked("mkdirat", &name, e))?;
            let (inner_source, inner_target) = (open_dir(source, &name)?, open_dir(target, &name)?);
            let inner: Vec<u8> = if below.is_empty() { name.clone() } else { [below, b"/", &name].concat() };
            let at = noted.len();
            fill(open, &inner_source, &inner_target, &inner, moved, noted)?;
            take_attributes(&inner_source, &inner_target, noted.get(at))?;
            rustix::fs::unlinkat(source, &*name, AtFlags::REMOVEDIR).map_err(|e| asked("rmdir", &name, e))?;
        }
    }
}

/// Gives `target` what `source` had before it was emptied: attributes, mode, times.
fn take_attributes(source: &OwnedFd, target: &OwnedFd, noted: Option<&Noted>) -> Result<()> {
    for name in kernel::xattr::list(source)? {
        if let Some(value) = kernel::xattr::get(source, &name)? {
            kernel::xattr::set(target, &name, &value)?;
        }
    }
    match noted {
        Some((_, mode, times)) => set_attributes(target, *mode, *times),
        None => Ok(()),
    }
}

fn set_attributes(dir: &OwnedFd, mode: u32, times: [i64; 4]) -> Result<()> {
    rustix::fs::fchmod(dir, Mode::from_raw_mode(mode)).map_err(|e| asked("fchmod", b"", e))?;
    let at = |sec, nsec| Timespec { tv_sec: sec, tv_nsec: nsec };
    let stamps = Timestamps { last_access: at(times[0], times[1]), last_modification: at(times[2], times[3]) };
    rustix::fs::futimens(dir, &stamps).map_err(|e| asked("futimens", b"", e))
}

/// After the real rename: the emptied source goes; what was made in it meanwhile moves after.
fn finish(from: &Place, to: &Place) -> Result<()> {
    for _ in 0..100 {
        match rustix::fs::unlinkat(&from.parent, &*from.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(asked("rmdir", &from.name, errno)),
        }
        let (source, target) = (open_dir(&from.parent, &from.name)?, open_dir(&to.parent, &to.name)?);
        merge_into(&source, &target)?;
    }
    // Somebody keeps making files in the old directory: it stays, which is what a rename followed by
    // their next mkdir would look like.
    Ok(())
}

/// Puts a half-moved directory back: entries from the temporary one, attributes from the notes.
fn roll_back(parent: &OwnedFd, name: &[u8], at: &Place, noted: &[Noted]) -> Result<()> {
    if let Ok(temporary) = open_dir(&at.parent, &at.name) {
        let source = open_dir(parent, name)?;
        merge_into(&temporary, &source)?;
        remove_dir(at)?;
    }
    for (below, mode, times) in noted.iter().rev() {
        let path = if below.is_empty() { name.to_vec() } else { [name, b"/", below].concat() };
        if let Ok(dir) = open_dir(parent, &path) {
            set_attributes(&dir, *mode, *times)?;
        }
    }
    Ok(())
}

/// Moves every entry of `from` (a directory of the upper layer) into `to`, joining directories that both have.
fn merge_into(from: &OwnedFd, to: &OwnedFd) -> Result<()> {
    for name in names(from)? {
        match rustix::fs::renameat_with(from, &*name, to, &*name, RenameFlags::NOREPLACE) {
            Ok(()) => continue,
            Err(Errno::EXIST | Errno::XDEV) => {}
            Err(errno) => return Err(asked("renameat2", &name, errno)),
        }
        let Ok(inner_from) = open_dir(from, &name) else {
            return Err(asked("renameat2", &name, Errno::EXIST));
        };
        if open_dir(to, &name).is_err() {
            rustix::fs::mkdirat(to, &*name, Mode::from_raw_mode(0o700)).map_err(|e| asked("mkdirat", &name, e))?;
            let (_, mode, times) = attributes(&inner_from, b"")?;
            let inner_to = open_dir(to, &name)?;
            merge_into(&inner_from, &inner_to)?;
            set_attributes(&inner_to, mode, times)?;
        } else {
            merge_into(&inner_from, &open_dir(to, &name)?)?;
        }
        rustix::fs::unlinkat(from, &*name, AtFlags::REMOVEDIR).map_err(|e| asked("rmdir", &name, e))?;
    }
    Ok(())
}

/// Finishes or rolls back what a killed process left. Returns the id of the call that waited, and its answer.
pub(crate) fn recover(journal: &Journal) -> Result<Option<(u64, std::result::Result<(), Errno>)>> {
    let Some(record) = journal.left_behind()? else { return Ok(None) };
    let done = match (&record.exchange, record.moves.first()) {
        (Some(exchange), _) => recover_exchange(exchange, &record.moves)?,
        (None, Some(step)) => recover_move(step)?,
        (None, None) => false,
    };
    journal.clear()?;
    Ok(Some((record.id, if done { Ok(()) } else { Err(Errno::XDEV) })))
}

fn place(dir: &[u8], name: &[u8]) -> Result<Place> {
    Ok(Place { parent: open_abs(dir)?, name: name.to_vec() })
}

fn there(place: &Place) -> bool {
    stat(&place.parent, &place.name).is_ok()
}

/// True where the real rename of a move was reached: its temporary name is gone and work had begun.
fn reached(step: &Move) -> Result<bool> {
    Ok(!there(&place(&step.to_dir, &step.temporary)?) && !step.dirs.is_empty())
}

/// True where the move is done, false where it was rolled back.
fn recover_move(step: &Move) -> Result<bool> {
    let from = place(&step.from_dir, &step.from)?;
    if reached(step)? {
        finish(&from, &place(&step.to_dir, &step.to)?)?;
        return Ok(true);
    }
    undo(step)?;
    Ok(false)
}

fn undo(step: &Move) -> Result<()> {
    let from = place(&step.from_dir, &step.from)?;
    let at = place(&step.to_dir, &step.temporary)?;
    roll_back(&from.parent, &from.name, &at, &step.dirs)
}

/// Brings an exchange to its end, or back to its start, from where its moves stand.
fn recover_exchange(exchange: &Exchange, moves: &[Move]) -> Result<bool> {
    let one = place(&exchange.one_dir, &exchange.one)?;
    let two = place(&exchange.two_dir, &exchange.two)?;
    let aside = place(&exchange.one_dir, &exchange.parked)?;
    let first = moves.iter().find(|step| step.to == exchange.parked);
    let second = moves.iter().find(|step| step.to != exchange.parked);
    if !there(&aside) {
        if let Some(first) = first
            && !reached(first)?
        {
            undo(first)?;
        }
        return second.map_or(Ok(false), reached);
    }
    let second_done = match second {
        Some(second) if reached(second)? => {
            finish(&one, &two)?;
            true
        }
        Some(second) => {
            undo(second)?;
            false
        }
        None => !there(&one),
    };
    if second_done {
        rename(&aside, &one, RenameFlags::NOREPLACE)?;
        return Ok(true);
    }
    // Back: an emptied directory may still stand under the second name.
    let _ = rustix::fs::unlinkat(&two.parent, &*two.name, AtFlags::REMOVEDIR);
    rename(&aside, &two, RenameFlags::NOREPLACE)?;
    Ok(false)
}

fn rename(from: &Place, to: &Place, flags: RenameFlags) -> Result<()> {
    rustix::fs::renameat_with(&from.parent, &*from.name, &to.parent, &*to.name, flags)
        .map_err(|errno| asked("renameat2", &from.name, errno))
}

/// A name that no project uses, different for each move.
fn temporary_name(salt: &[u8]) -> Vec<u8> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let salt = String::from_utf8_lossy(salt).into_owned();
    format!(".lane-rename-{:x}-{:x}-{salt}", now.tv_sec, now.tv_nsec).into_bytes()
}

fn make_dir(at: &Place) -> Result<()> {
    rustix::fs::mkdirat(&at.parent, &*at.name, Mode::from_raw_mode(0o700)).map_err(|e| asked("mkdirat", &at.name, e))
}

fn remove_dir(at: &Place) -> Result<()> {
    rustix::fs::unlinkat(&at.parent, &*at.name, AtFlags::REMOVEDIR).map_err(|e| asked("rmdir", &at.name, e))
}

fn stat(dir: impl AsFd, name: &[u8]) -> Result<rustix::fs::Stat> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| asked("fstatat", name, e))
}

fn attributes(dir: &OwnedFd, below: &[u8]) -> Result<Noted> {
    let stat = rustix::fs::fstat(dir).map_err(|e| asked("fstat", below, e))?;
    let times = [stat.st_atime, stat.st_atime_nsec as i64, stat.st_mtime, stat.st_mtime_nsec as i64];
    Ok((below.to_vec(), stat.st_mode & 0o7777, times))
}

fn open_dir(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|e| asked("openat", name, e))
}

fn open_abs(path: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|e| asked("open", path, e))
}

fn same(dir: &OwnedFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(dir, 3).map_err(|e| asked("fcntl", b"F_DUPFD_CLOEXEC", e))
}

fn names(dir: &OwnedFd) -> Result<Vec<Vec<u8>>> {
    Ok(kernel::dir::entries(dir)?.into_iter().map(|entry| entry.name).collect())
}

fn asked(call: &'static str, name: &[u8], errno: Errno) -> Error {
    Error::new(call, name, errno)
}
