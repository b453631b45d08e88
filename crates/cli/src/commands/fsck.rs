//! `lane fsck`.

use engine::ops::fsck::{FsckRequest, StoreReport};

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::render::collect as render;
use crate::render::report;
use crate::wire;

/// Check the ledger and every snapshot of every lane, down to the last byte, and name what is damaged and who needs it.
///
/// Goes on past damage. Exit code 1 where something is damaged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Make again what can be made from the rest (indexes), and store again what lanes at rest still hold.
    #[arg(long)]
    repair: bool,
}

/// How many bytes are read between two words about it.
const STRIDE: u64 = 1 << 30;

/// Checks.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let ui = &mut context.ui;
    let mut told = 0;
    let mut progress = |path: &std::path::Path, bytes: u64| {
        if ui.verbose && bytes / STRIDE != told {
            told = bytes / STRIDE;
            ui.say(&format!("{}: {} read", report::path(path), report::bytes(bytes)));
        }
    };
    let reports = engine::ops::fsck::fsck(&engine, &FsckRequest { repair: args.repair }, &mut progress)?;
    let book = engine::ops::fsck::book(&engine)?;
    if ui.json {
        ui.document(&wire::Checked::new(&book, &reports))?;
    } else {
        render::checked_book(ui, &book)?;
        for report in &reports {
            render::checked(ui, report)?;
        }
        if reports.is_empty() {
            ui.say("there are no snapshots");
        }
    }
    let clean = book.is_clean() && reports.iter().all(StoreReport::is_clean);
    Ok(if clean { exit_code::DONE } else { exit_code::NOT_DONE })
}
