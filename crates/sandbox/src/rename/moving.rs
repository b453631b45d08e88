//! One move or exchange, journaled: by the kernel where it can, else by hand, with its rollback.
//!
//! Invariant: a move by hand has one step that decides, the real rename of the filled directory to its final
//! name. Before it everything can be put back, after it what is left can only be finished.

use std::os::fd::AsFd;

use kernel::{Errno, Result};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};

use super::carry::{self, Newer, Noted, Work};
use super::journal::{End, Exchange, Journal, Move, Open};
use super::place::{Place, asked, open_dir, same, stat};

/// What came of a move: the entries moved, or the error after which everything is as before. The outer
/// error of the functions that return it means that the journal must stay.
type Outcome = Result<u64>;

/// Moves the directory `from` to `to`. `keep`: an existing target is EEXIST.
pub(super) fn move_dir(
    journal: &Journal,
    call: (u64, u32),
    from: &Place,
    to: &Place,
    keep: bool,
) -> Result<u64> {
    // EXDEV came before the kernel looked at the target: answer for it as it would have.
    match stat(&to.parent, &to.name) {
        Err(error) if error.errno == Errno::NOENT => {}
        Err(error) => return Err(error),
        Ok(_) if keep => return Err(asked("renameat2", &to.name, Errno::EXIST)),
        Ok(target) => {
            if !FileType::from_raw_mode(target.st_mode).is_dir() {
                return Err(asked("renameat2", &to.name, Errno::NOTDIR));
            }
            if !kernel::dir::entries(open_dir(&to.parent, &to.name)?)?.is_empty() {
                return Err(asked("renameat2", &to.name, Errno::NOTEMPTY));
            }
        }
    }
    let mut open = journal.open(call.0, call.1)?;
    let outcome = by_hand(&mut open, from, to, keep, "0");
    ended(journal, open, outcome)
}

/// Exchanges two entries, at least one of them a directory of a lower layer: the second is parked beside the
/// first, the first takes its place, the parked one takes the first's.
pub(super) fn exchange(journal: &Journal, call: (u64, u32), one: &Place, two: &Place) -> Result<u64> {
    let mut open = journal.open(call.0, call.1)?;
    let outcome = exchange_in(&mut open, one, two);
    ended(journal, open, outcome)
}

/// Writes the end into the journal; where the work could be neither done nor undone, the journal stays.
fn ended(journal: &Journal, mut open: Open<'_>, outcome: Result<Outcome>) -> Result<u64> {
    match outcome {
        Ok(outcome) => {
            open.end(outcome.as_ref().map_or_else(|error| End::Failed(error.errno), |_| End::Done))?;
            outcome
        }
        Err(error) => {
            journal.leave();
            Err(error)
        }
    }
}

fn exchange_in(open: &mut Open<'_>, one: &Place, two: &Place) -> Result<Outcome> {
    let parked = temporary_name("x");
    open.exchange(&Exchange {
        parked: parked.clone(),
        one_dir: open.path_of(&one.parent)?,
        one: one.name.clone(),
        two_dir: open.path_of(&two.parent)?,
        two: two.name.clone(),
        ..Exchange::default()
    })?;
    let aside = Place { parent: same(&one.parent)?, name: parked, slashes: false };
    let first = match any_move(open, two, &aside, "1")? {
        Err(error) => return Ok(Err(error)),
        Ok(first) => first,
    };
    open.parked_whole()?;
    match any_move(open, one, two, "2")? {
        Ok(second) => {
            open.placed()?;
            put(&aside, one)?;
            open.step();
            Ok(Ok(first + second))
        }
        Err(error) => {
            // Nothing of the second move is left: put the first one back.
            open.back()?;
            put(&aside, two)?;
            open.step();
            Ok(Err(error))
        }
    }
}

/// Gives what was parked its name. What somebody made under that name meanwhile is newer and stays.
pub(super) fn put(aside: &Place, at: &Place) -> Result<()> {
    match rename(aside, at, RenameFlags::NOREPLACE) {
        Err(error) if error.errno == Errno::EXIST => {
            carry::join(&aside.parent, &aside.name, &at.parent, &at.name, Newer::Target)
        }
        other => other,
    }
}

/// One move of any entry: by the kernel where it can, else by hand.
fn any_move(open: &mut Open<'_>, from: &Place, to: &Place, salt: &str) -> Result<Outcome> {
    match rename(from, to, RenameFlags::NOREPLACE) {
        Err(error) if error.errno == Errno::XDEV => by_hand(open, from, to, true, salt),
        other => {
            open.step();
            Ok(other.map(|()| 1))
        }
    }
}

fn by_hand(open: &mut Open<'_>, from: &Place, to: &Place, keep: bool, salt: &str) -> Result<Outcome> {
    let temporary = temporary_name(salt);
    let to_times = carry::attributes(&to.parent, b"")?.2;
    open.begin(&Move {
        from_dir: open.path_of(&from.parent)?,
        from: from.name.clone(),
        to_dir: open.path_of(&to.parent)?,
        to: to.name.clone(),
        temporary: temporary.clone(),
        to_times,
        ..Move::default()
    })?;
    let at = Place { parent: same(&to.parent)?, name: temporary, slashes: false };
    let made = rustix::fs::mkdirat(&at.parent, &*at.name, Mode::from_raw_mode(0o700));
    if let Err(error) = made.map_err(|errno| asked("mkdirat", &at.name, errno)) {
        return Ok(Err(error));
    }
    open.step();
    let mut work = Work { open, moved: 0, noted: Vec::new() };
    let flags = if keep { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
    let result = open_dir(&from.parent, &from.name).and_then(|source| {
        let target = open_dir(&at.parent, &at.name)?;
        carry::fill(&mut work, &source, &target, b"")?;
        carry::take_attributes(&source, &target, work.noted.first())?;
        work.open.step();
        rename(&at, to, flags)
    });
    let Work { open, moved, noted } = work;
    if let Err(error) = result {
        open.undo()?;
        roll_back(from, &at, &noted, to_times, &mut || open.step())?;
        return Ok(Err(error));
    }
    open.step();
    carry::clear_away(&from.parent, &from.name, &to.parent, &to.name)?;
    open.step();
    Ok(Ok(moved))
}

/// Puts a half-moved directory back: entries from the temporary one, attributes from the notes.
pub(super) fn roll_back(
    from: &Place,
    at: &Place,
    noted: &[Noted],
    to_times: [i64; 4],
    step: &mut dyn FnMut(),
) -> Result<()> {
    if stat(&at.parent, &at.name).is_ok() {
        carry::join(&at.parent, &at.name, &from.parent, &from.name, Newer::Target)?;
        step();
    }
    for (below, mode, times) in noted.iter().rev() {
        let top = open_dir(&from.parent, &from.name)?;
        // Somebody may have removed it meanwhile.
        if let Ok(dir) = kernel::open::dir_beneath(&top, below) {
            carry::set_attributes(&dir, *mode, *times)?;
        }
    }
    if let Ok(parent) = open_dir(&at.parent, b".") {
        carry::set_times(&parent, to_times)?;
    }
    step();
    Ok(())
}

fn rename(from: &Place, to: &Place, flags: RenameFlags) -> Result<()> {
    rustix::fs::renameat_with(&from.parent, &*from.name, &to.parent, &*to.name, flags)
        .map_err(|errno| asked("renameat2", &from.name, errno))
}

/// A name that no project uses, different for each move.
fn temporary_name(salt: &str) -> Vec<u8> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    format!(".lane-rename-{:x}-{:x}-{salt}", now.tv_sec, now.tv_nsec).into_bytes()
}

/// Removes one entry that is no directory.
pub(super) fn unlink(dir: impl AsFd, name: &[u8]) -> Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(asked("unlinkat", name, errno)),
    }
}
