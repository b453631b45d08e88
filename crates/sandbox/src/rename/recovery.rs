//! What is made of a journal that a kill left behind: the rename is finished or put back.
//!
//! Invariant: every step may itself be cut by a kill; the next start comes to the same end. What is put back
//! announces that first, because its last steps look like those of a rename that was done.

use kernel::Result;

use super::carry;
use super::journal::{End, Exchange, Journal, Move, Open};
use super::moving::{put, roll_back};
use super::place::{Place, open_abs, stat};

/// Finishes or rolls back what a killed process left. Returns the id of the call that waited, and what became
/// of it. The journal stays until [`Journal::clear`].
pub(crate) fn recover(journal: &Journal) -> Result<Option<(u64, End)>> {
    let Some(record) = journal.left_behind()? else { return Ok(None) };
    let mut open = journal.reopen()?;
    if let Some(end) = record.end {
        return Ok(Some((record.id, end)));
    }
    let done = match (&record.exchange, record.moves.first()) {
        (Some(exchange), _) => recover_exchange(&mut open, exchange, &record.moves),
        (None, Some(step)) => recover_move(&mut open, step),
        (None, None) => Ok(false),
    };
    let done = done.inspect_err(|_| journal.leave())?;
    let end = if done { End::Done } else { End::Undone };
    open.end(end)?;
    Ok(Some((record.id, end)))
}

fn place(dir: &[u8], name: &[u8]) -> Result<Place> {
    Ok(Place { parent: open_abs(dir)?, name: name.to_vec(), slashes: false })
}

fn there(place: &Place) -> bool {
    stat(&place.parent, &place.name).is_ok()
}

/// True where the real rename of a move was reached: its temporary name is gone and work had begun.
fn reached(step: &Move) -> Result<bool> {
    Ok(!step.undone && !step.dirs.is_empty() && !there(&place(&step.to_dir, &step.temporary)?))
}

/// True where the move is done, false where it was rolled back.
fn recover_move(open: &mut Open<'_>, step: &Move) -> Result<bool> {
    if reached(step)? {
        finish(open, step)?;
        return Ok(true);
    }
    undo(open, step)?;
    Ok(false)
}

fn finish(open: &Open<'_>, step: &Move) -> Result<()> {
    let (from, to) = (place(&step.from_dir, &step.from)?, place(&step.to_dir, &step.to)?);
    carry::clear_away(&from.parent, &from.name, &to.parent, &to.name)?;
    open.step();
    Ok(())
}

fn undo(open: &mut Open<'_>, step: &Move) -> Result<()> {
    if !step.undone {
        open.undo()?;
    }
    let (from, at) = (place(&step.from_dir, &step.from)?, place(&step.to_dir, &step.temporary)?);
    roll_back(&from, &at, &step.dirs, step.to_times, &mut || open.step())
}

/// Brings an exchange to its end, or back to its start, from where its moves stand. True where it is done.
fn recover_exchange(open: &mut Open<'_>, exchange: &Exchange, moves: &[Move]) -> Result<bool> {
    let one = place(&exchange.one_dir, &exchange.one)?;
    let two = place(&exchange.two_dir, &exchange.two)?;
    let aside = place(&exchange.one_dir, &exchange.parked)?;
    let first = moves.iter().find(|step| step.to == exchange.parked);
    let second = moves.iter().find(|step| step.to != exchange.parked);
    if !there(&aside) {
        // Either nothing was parked yet, or what was parked has its last name already.
        if let Some(first) = first
            && !exchange.parked_whole
        {
            undo(open, first)?;
        }
        return Ok(exchange.placed);
    }
    if let Some(first) = first
        && !exchange.parked_whole
    {
        finish(open, first)?;
    }
    let placed = exchange.placed
        || match second {
            _ if exchange.back => false,
            Some(second) if reached(second)? => {
                finish(open, second)?;
                true
            }
            Some(second) => {
                undo(open, second)?;
                false
            }
            None => exchange.parked_whole && !there(&one),
        };
    if placed {
        if !exchange.placed {
            open.placed()?;
        }
        put(&aside, &one)?;
    } else {
        if !exchange.back {
            open.back()?;
        }
        put(&aside, &two)?;
    }
    open.step();
    Ok(placed)
}
