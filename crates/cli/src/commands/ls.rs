//! `lane ls`.

use engine::ops::list::{ListRequest, ListedLane};
use engine::view::VerdictView;

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::render::report;
use crate::render::table::{self, Cell};
use crate::style::Role;
use crate::wire;

/// List the lanes of this project at a glance.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lanes of every project.
    #[arg(short, long)]
    all: bool,

    /// The lanes in the trash, which `lane recover` brings back.
    #[arg(long)]
    discarded: bool,
}

/// Lists them.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let request = ListRequest { dir: context.dir(), all: args.all, discarded: args.discarded };
    let lanes = engine::ops::list::list(&engine, &request)?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&lanes.iter().map(wire::Listed::new).collect::<Vec<_>>())?;
        return Ok(exit_code::DONE);
    }
    if lanes.is_empty() {
        ui.say(match (args.all, args.discarded) {
            (_, true) => "no discarded lane",
            (true, false) => "no lane anywhere; `lane run -- CMD` makes one",
            (false, false) => {
                "no lane for this project; `lane run -- CMD` makes one, `lane ls --all` lists all"
            }
        });
        return Ok(exit_code::DONE);
    }
    let now = engine::clock::now_ms();
    let is_live = lanes.iter().any(|listed| listed.memory.is_some());
    let is_checked = lanes.iter().any(|listed| listed.verdict.is_some());
    let shown = Columns { memory: is_live, verdict: is_checked, origin: args.all };
    let rows: Vec<Vec<Cell>> = lanes.iter().map(|listed| row(listed, now, shown)).collect();
    let mut head = vec!["NAME", "STATE", "STRATEGY", "CHANGES", "SIZE"];
    if is_live {
        head.push("MEMORY");
    }
    if is_checked {
        head.push("VERDICT");
    }
    head.extend(["AGE", "LAST RUN"]);
    if args.all {
        head.push("ORIGIN");
    }
    for line in table::lines(ui, &head, &rows) {
        ui.line(&line)?;
    }
    for listed in &lanes {
        if let Some(problem) = &listed.problem {
            ui.warn(&format!("lane {}: {}", listed.lane.name, crate::escape::name(problem)));
        }
    }
    Ok(exit_code::DONE)
}

/// Columns that are not always there.
#[derive(Debug, Clone, Copy)]
struct Columns {
    memory: bool,
    verdict: bool,
    origin: bool,
}

fn row(listed: &ListedLane, now: i64, shown: Columns) -> Vec<Cell> {
    let lane = &listed.lane;
    let run = lane.last_run.as_ref().map_or_else(String::new, |run| {
        let end = run.exit.map_or_else(String::new, |exit| format!(" ({})", report::exit(exit)));
        format!(
            "{}{end}",
            run.argv.iter().take(3).map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
        )
    });
    let mut cells = vec![
        Cell::new(&lane.name).role(Role::Lane),
        Cell::new(lane.state.word()).role(report::state_role(lane.state)),
        Cell::new(lane.strategy.word()),
        Cell::new(listed.counts.as_ref().map_or_else(|| "?".to_owned(), report::counts)),
        Cell::new(listed.exclusive.map_or_else(|| "?".to_owned(), report::bytes)).right(),
    ];
    if shown.memory {
        cells.push(Cell::new(listed.memory.map_or_else(String::new, report::bytes)).right());
    }
    if shown.verdict {
        let word = listed.verdict.as_ref().map_or("", VerdictView::now);
        cells.push(Cell::new(word).role(report::verdict_role(word)));
    }
    cells.extend([Cell::new(report::age(lane.created_at, now)).right(), Cell::new(run)]);
    if shown.origin {
        use std::os::unix::ffi::OsStrExt as _;
        cells.push(Cell::new(lane.origin.as_os_str().as_bytes()));
    }
    cells
}
