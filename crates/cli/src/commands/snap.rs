//! `lane snap`.

use engine::ops::snap::SnapRequest;

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::render::history as render;
use crate::wire;

/// Record the state of a lane, to go back to.
///
/// When the id is printed the snapshot is whole and on disk. It costs what changed since the last one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Its name: a reference to it; a snapshot with a name is never thinned out.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

/// Takes it.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let request = SnapRequest { dir: context.dir(), lane: args.lane, message: args.message };
    let answer = engine::ops::snap::snap(&engine, &request)?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Snapped::new(&answer))?;
    } else {
        ui.line(&render::short(answer.snapshot.id))?;
        ui.say(&format!("lane {} · {}", answer.lane, render::size(&answer.snapshot)));
    }
    render::warn(ui, &answer.snapshot);
    Ok(if answer.snapshot.gaps.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE })
}
