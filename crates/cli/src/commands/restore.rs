//! `lane restore`, `lane undo` and `lane redo`.

use engine::EngineError;
use engine::ops::restore::{RestoreAnswer, RestoreRequest, Target};

use super::{Context, needs_yes, undo_keep};
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::render::{history as render, report};
use crate::style::Role;
use crate::ui::Confirm;
use crate::wire;

/// Put a lane back to a snapshot.
///
/// The state that is left is a snapshot first, so nothing is lost: the answer says how to return to it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane.
    #[arg(value_name = "LANE")]
    lane: String,

    /// A snapshot's id (or the front of one), its name, or `base`.
    #[arg(value_name = "REF")]
    reference: String,

    /// Do not ask, even where most of what the lane holds goes.
    #[arg(short, long)]
    yes: bool,
}

/// Put a lane one step back in its history, or undo a keep.
///
/// What was done since the last snapshot is one step; each further `undo` goes to the snapshot before. `lane redo` takes
/// an undo back.
///
/// With `--keep` the original is put back to what it was before a keep, in all places that the keep wrote to, or not at
/// all: where a file that was kept has been edited since, it is named and nothing is changed. A keep can be undone for 14
/// days, whatever becomes of its lane.
#[derive(Debug, clap::Args)]
pub(crate) struct UndoArgs {
    /// The lane; may be left out where only one fits. With `--keep`: the keep (or the front of its id), else the last one.
    #[arg(value_name = "LANE|KEEP")]
    lane: Option<String>,

    /// Undo a keep.
    #[arg(long)]
    keep: bool,

    /// List the keeps that can be undone, and those that were.
    #[arg(long, requires = "keep")]
    list: bool,

    /// Print what would be put back, and write nothing.
    #[arg(short = 'n', long, requires = "keep")]
    dry_run: bool,

    /// Do not ask, even where most of what the lane holds goes.
    #[arg(short, long)]
    yes: bool,
}

/// Take the last undo of a lane back.
#[derive(Debug, clap::Args)]
pub(crate) struct RedoArgs {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Do not ask, even where most of what the lane holds goes.
    #[arg(short, long)]
    yes: bool,
}

/// Puts it back.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    go(context, Some(args.lane), Target::Reference(args.reference), args.yes)
}

/// One step back.
pub(crate) fn undo(context: &mut Context, args: UndoArgs) -> Result<u8> {
    if args.list {
        return undo_keep::list(context);
    }
    if args.keep {
        return undo_keep::run(context, args.lane, args.dry_run, args.yes);
    }
    go(context, args.lane, Target::Back, args.yes)
}

/// One step forth.
pub(crate) fn redo(context: &mut Context, args: RedoArgs) -> Result<u8> {
    go(context, args.lane, Target::Forth, args.yes)
}

fn go(context: &mut Context, lane: Option<String>, target: Target, yes: bool) -> Result<u8> {
    let engine = context.engine()?;
    let mut request = RestoreRequest { dir: context.dir(), lane, target, yes };
    let answer = match engine::ops::restore::restore(&engine, &request) {
        Err(error @ EngineError::RemovesMuch { .. }) => {
            let ui = &mut context.ui;
            ui.warn(&error.to_string());
            match ui.confirm("go back all the same?", false)? {
                Confirm::NobodyToAsk => return Err(needs_yes("a restore that removes so much")),
                Confirm::No => return Err(CliError::Declined),
                Confirm::Yes => {}
            }
            request.yes = true;
            engine::ops::restore::restore(&engine, &request)?
        }
        other => other?,
    };
    show(context, &answer)
}

fn show(context: &mut Context, answer: &RestoreAnswer) -> Result<u8> {
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Restored::new(answer))?;
    } else {
        let counts = (answer.restored.changed, answer.restored.removed);
        let what = match counts {
            (0, 0) => "nothing had to be changed".to_owned(),
            (changed, removed) => format!("{changed} put back, {removed} removed"),
        };
        ui.say(&format!("lane {} is at {} · {what}", answer.lane, render::title(&answer.to)));
        let back = format!("lane restore {} {}", answer.lane, render::short(answer.from.id));
        ui.say(&format!("  {} returns to the state before", ui.paint_err(Role::Good, &back)));
    }
    for (root, path, why) in &answer.restored.left {
        let place = crate::escape::name(path.as_bytes());
        ui.warn(&format!("not put back: {place} in {}: {}", report::path(root), crate::escape::name(why)));
    }
    Ok(if answer.restored.left.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE })
}
