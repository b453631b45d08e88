//! `lane recover`.

use engine::ops::recover_lane::RecoverRequest;

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::wire;

/// Bring a discarded lane back from the trash.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane's name or id; may be left out where only one is in the trash.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Give it another name, where its own was taken meanwhile.
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
}

/// Brings it back.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let request = RecoverRequest { dir: context.dir(), lane: args.lane, rename: args.name };
    let lane = engine::ops::recover_lane::recover(&engine, &request)?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Lane::new(&lane))?;
    } else {
        ui.say(&format!("lane {} is back; `lane diff {0}` shows its changes", lane.name));
    }
    Ok(exit_code::DONE)
}
