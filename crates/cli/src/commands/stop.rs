//! `lane stop`.

use engine::ops::stop::StopRequest;

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::wire;

/// End every process of a live lane; its changes stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one is live.
    #[arg(value_name = "LANE")]
    lane: Option<String>,
}

/// Stops it.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let answer = engine::ops::stop::stop(&engine, &StopRequest { dir: context.dir(), lane: args.lane })?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Stopped::new(&answer))?;
    } else if answer.was_live {
        ui.say(&format!("lane {} stopped", answer.lane.name));
    } else {
        ui.say(&format!("nothing runs in lane {}", answer.lane.name));
    }
    Ok(exit_code::DONE)
}
