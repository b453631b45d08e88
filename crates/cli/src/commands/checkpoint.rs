//! `lane checkpoint`.

use super::Context;
use crate::error::Result;
use crate::exit_code;

/// From inside a lane: ask for a snapshot.
///
/// All that comes of it is a snapshot with TEXT as its message. From inside nothing can be read, changed or removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What has been done.
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
}

/// Asks.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let text = args.text.join(" ");
    let id = engine::ops::checkpoint::checkpoint(text.as_bytes())?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&crate::wire::Checkpointed::new(&id))?;
    } else {
        ui.say(&format!("checkpoint {}", crate::escape::name(&id)));
    }
    Ok(exit_code::DONE)
}
