//! `lane log`.

use engine::ops::log::{LogAnswer, LogRequest, Runs};

use super::{Context, show};
use crate::error::Result;
use crate::exit_code;
use crate::render::table::{self, Cell};
use crate::render::{history as render, report};
use crate::wire;

/// Show the history of a lane, newest first, with the place where it stands (`*`).
///
/// A lane gets a snapshot when its command ends, when you ask for one (`lane snap`), and before it is put back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Every branch, not only the one that leads to where the lane stands.
    #[arg(long)]
    all: bool,

    /// Tell what each snapshot takes: what it added, and what no other one needs.
    #[arg(long)]
    usage: bool,

    /// List what ran in the lane instead.
    #[arg(long)]
    runs: bool,

    /// Print the recording of the run with this number (0: the newest), escaped.
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "0")]
    transcript: Option<i64>,
}

/// Lists or prints.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let request =
        LogRequest { dir: context.dir(), lane: args.lane.clone(), all: args.all, usage: args.usage };
    let ran = engine::ops::log::runs(&engine, &request)?;
    if let Some(wanted) = args.transcript {
        return show::transcript(context, &ran.lane, &ran.runs, wanted);
    }
    if args.runs && !context.ui.json {
        return runs(context, &ran);
    }
    let request = LogRequest { lane: Some(ran.lane_id.clone()), ..request };
    let answer = engine::ops::log::log(&engine, &request)?;
    if context.ui.json {
        context.ui.document(&wire::Log::new(&answer, &ran.runs))?;
    } else if answer.snapshots.is_empty() {
        runs(context, &ran)?;
    } else {
        snapshots(context, &answer)?;
    }
    if let Some(missed) = &answer.missed {
        let age = report::age(missed.at, engine::clock::now_ms());
        context.ui.warn(&format!("{age} ago: {}", crate::escape::name(&missed.why)));
    }
    for what in &answer.damaged {
        context.ui.warn(&format!("a part of the history cannot be read: {}", crate::escape::name(what)));
    }
    Ok(if answer.damaged.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE })
}

fn snapshots(context: &mut Context, answer: &LogAnswer) -> Result<()> {
    let ui = &mut context.ui;
    let rows = render::rows(ui, &answer.snapshots, engine::clock::now_ms());
    let mut head = vec!["", "SNAPSHOT", "AGE", "WHY", "HOLDS"];
    if answer.snapshots.iter().any(|snapshot| snapshot.share.is_some()) {
        head.extend(["ADDED", "ALONE"]);
    }
    head.push("TEXT");
    for line in table::lines(ui, &head, &rows) {
        ui.line(&line)?;
    }
    if answer.elsewhere > 0 {
        ui.say(&format!("{} more on other branches: lane log {} --all", answer.elsewhere, answer.lane));
    }
    Ok(())
}

fn runs(context: &mut Context, answer: &Runs) -> Result<u8> {
    let ui = &mut context.ui;
    if answer.runs.is_empty() {
        ui.say(&format!("nothing ran in lane {} yet", answer.lane));
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
