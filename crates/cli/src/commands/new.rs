//! `lane new`.

use engine::ops::new::NewRequest;

use super::run::Make;
use super::{Context, progress};
use crate::error::Result;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::wire;

/// Make lanes without running anything.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names of the lanes; one name is made up where none is given.
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    make: Make,
}

/// Makes them one after the other; what was made stays when a later one fails.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let mut made = Vec::new();
    let names = if args.names.is_empty() { vec![None] } else { args.names.into_iter().map(Some).collect() };
    for name in names {
        let request = NewRequest {
            dir: context.dir(),
            name,
            also: args.make.also.clone(),
            strategy: args.make.strategy.0,
            for_run: false,
        };
        let lane = engine::ops::new::new(&engine, &request, &mut progress::Talk::new(&context.ui))?;
        let ui = &mut context.ui;
        if !ui.json {
            ui.line(&lane.name)?;
            ui.say(&format!(
                "{} · {} · {} · original protected",
                ui.paint_err(Role::Lane, &format!("lane {}", lane.name)),
                lane.strategy.word(),
                report::cost(lane.strategy, lane.cost)
            ));
        }
        made.push(wire::Lane::new(&lane));
    }
    if context.ui.json {
        context.ui.document(&made)?;
    }
    Ok(exit_code::DONE)
}
