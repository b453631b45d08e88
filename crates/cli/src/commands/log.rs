//! `lane log`.

use engine::ops::show::ShowRequest;

use super::{Context, show};
use crate::error::Result;
use crate::exit_code;
use crate::render::report;
use crate::render::table::{self, Cell};
use crate::wire;

/// List what ran in a lane, newest first, or print what it wrote to the terminal.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Print the recording of the run with this number (0: the newest), escaped.
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "0")]
    transcript: Option<i64>,
}

/// Lists or prints.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let answer = engine::ops::show::show(&engine, &ShowRequest { dir: context.dir(), lane: args.lane })?;
    if let Some(wanted) = args.transcript {
        return show::transcript(context, &answer, wanted);
    }
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Log::new(&answer.lane.name, &answer.lane.id, &answer.runs))?;
        return Ok(exit_code::DONE);
    }
    if answer.runs.is_empty() {
        ui.say(&format!("nothing ran in lane {} yet", answer.lane.name));
        return Ok(exit_code::DONE);
    }
    let now = engine::clock::now_ms();
    let rows: Vec<Vec<Cell>> = answer
        .runs
        .iter()
        .map(|run| {
            let took =
                run.ended_at.map_or_else(String::new, |end| report::millis((end - run.started_at) as f64));
            vec![
                Cell::new(run.id.to_string()).right(),
                Cell::new(report::age(run.started_at, now)).right(),
                Cell::new(took).right(),
                Cell::new(run.exit.map_or_else(|| "running".to_owned(), report::exit)),
                Cell::new(if run.transcript.is_some() { "recorded" } else { "" }),
                Cell::escaped(report::argv(&run.argv)),
            ]
        })
        .collect();
    for line in table::lines(ui, &["RUN", "AGE", "TOOK", "END", "", "COMMAND"], &rows) {
        ui.line(&line)?;
    }
    Ok(exit_code::DONE)
}
