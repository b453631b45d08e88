//! `lane why`.

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::render::ledger as render;
use crate::wire;

/// Tell what was refused last in a lane: what it was, by which rule, and the one flag or line that would allow it.
///
/// Without LANE, of the lane of this project in which something was refused last.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane, by name or id; discarded ones too.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// The last N refusals.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: u64,
}

/// Looks and tells.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let answer = engine::ops::book::why(&engine, &context.dir(), args.lane.as_deref(), args.limit)?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Why::new(&answer))?;
        return Ok(exit_code::DONE);
    }
    if answer.refusals.is_empty() {
        ui.say(&format!("nothing was refused in lane {}", crate::escape::name(&answer.lane)));
        return Ok(exit_code::DONE);
    }
    for line in render::refusals(ui, &answer.refusals, usize::MAX) {
        ui.line(&line)?;
    }
    if answer.more {
        ui.say("there were more; -n takes a larger number");
    }
    Ok(exit_code::DONE)
}
