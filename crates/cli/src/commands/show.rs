//! `lane show`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use engine::ops::show::{ShowAnswer, ShowRequest};
use engine::view::RunView;

use super::{Context, progress};
use crate::error::{CliError, Result};
use crate::escape::{self, Kind};
use crate::exit_code;
use crate::render::table::{self, Cell};
use crate::render::{self, report, transcript};
use crate::style::Role;
use crate::wire;

/// Show one lane in full: base, drift, changes, walls truly enforced, runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Print what the newest run (or, with `=verdict`, the newest check) wrote to the terminal, escaped.
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "run", value_parser = ["run", "verdict"])]
    transcript: Option<String>,
}

/// Shows it.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let answer = engine::ops::show::show(&engine, &ShowRequest { dir: context.dir(), lane: args.lane })?;
    match args.transcript.as_deref() {
        Some("verdict") => return verdict_transcript(context, &answer),
        Some(_) => return transcript(context, &answer.lane.name, &answer.runs, 0),
        None => {}
    }
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Show::new(&answer))?;
        return Ok(exit_code::DONE);
    }
    let lane = &answer.lane;
    let now = engine::clock::now_ms();
    let title = ui.paint(Role::Lane, &format!("lane {}", lane.name));
    let state = ui.paint(report::state_role(lane.state), lane.state.word());
    ui.line(&format!("{title} · {state} · {} old", report::age(lane.created_at, now)))?;
    let mut facts = vec![
        ("id", lane.id.clone()),
        ("origin", report::path(&lane.origin)),
        ("strategy", format!("{} ({})", lane.strategy.word(), escape::name(&lane.why))),
        ("made", report::cost(lane.strategy, lane.cost)),
        ("base", base(&answer)),
    ];
    if let Some(other) = &lane.forked_from {
        facts.push(("forked", format!("from {other}")));
    }
    for root in lane.roots.iter().skip(1) {
        facts.push(("also", format!("{} ({})", report::path(&root.path), root.strategy.word())));
    }
    facts.push(("changes", progress::change_lines(&answer.changes, answer.home_changes).join("; ")));
    facts.push(("disk", format!("{} of its own", report::bytes(answer.exclusive))));
    if let Some(history) = &answer.history {
        facts.push(("history", report::history(history)));
    }
    facts.push(("layers", report::path(&lane.dir)));
    for (name, fact) in facts {
        let name = ui.paint(Role::Dim, &format!("{name:<9}"));
        ui.line(&format!("{name} {fact}"))?;
    }
    if !answer.drift.is_empty() {
        for line in report::drift(&answer.drift, if ui.verbose { usize::MAX } else { 10 }) {
            ui.line(&line)?;
        }
    }
    guarded(context, &answer)?;
    if let Some(run) = answer.runs.first() {
        walls(context, run)?;
        let ui = &mut context.ui;
        let end = run.exit.map_or_else(|| "running".to_owned(), report::exit);
        let head = ui.paint(Role::Head, "last run");
        ui.line(&format!(
            "{head}  {} · {end} · {} ago",
            report::argv(&run.argv),
            report::age(run.started_at, now)
        ))?;
    }
    if let Some(verdict) = &answer.verdict {
        let ui = &mut context.ui;
        let (head, word) = (ui.paint(Role::Head, "verdict"), verdict.now());
        let of =
            if verdict.fresh { String::new() } else { format!(" ({} when it was checked)", verdict.word) };
        let word = ui.paint(report::verdict_role(word), word);
        let ago = report::age(verdict.ended_at, now);
        ui.line(&format!("{head}   {word}{of} · {} · {ago} ago", report::verdict(verdict)))?;
    }
    if let Some(missed) = &answer.missed {
        context.ui.warn(&format!("{} ago: {}", report::age(missed.at, now), escape::name(&missed.why)));
    }
    let next: Vec<String> = answer.next.iter().take(3).map(report::command).collect();
    if !next.is_empty() {
        context.ui.say(&format!("next: {}", next.join(" · ")));
    }
    Ok(exit_code::DONE)
}

/// Changes that run by themselves later, a section of their own.
fn guarded(context: &mut Context, answer: &ShowAnswer) -> Result<()> {
    const MOST: usize = 20;
    if answer.guarded.is_empty() {
        return Ok(());
    }
    let ui = &mut context.ui;
    let head = render::diff::guarded_head(ui);
    ui.line(&head)?;
    let most = if ui.verbose { usize::MAX } else { MOST };
    for change in answer.guarded.iter().take(most) {
        let root = match change.root == answer.lane.origin {
            true => String::new(),
            false => format!("{}/", report::path(&change.root)),
        };
        let (path, why) = (escape::name(change.path.as_bytes()), escape::name(&change.why));
        ui.line(&format!("  {root}{path}  ({why})"))?;
    }
    if answer.guarded.len() > most {
        ui.line(&format!("  … and {} more: `lane show -v` lists all", answer.guarded.len() - most))?;
    }
    Ok(())
}

fn base(answer: &ShowAnswer) -> String {
    let base = &answer.lane.base;
    let at = wire::time(base.sec.saturating_mul(1000).saturating_add(i64::from(base.nsec / 1_000_000)));
    let head = base
        .git_head
        .as_deref()
        .map_or_else(String::new, |head| format!(", HEAD {}", escape::name(head.get(..12).unwrap_or(head))));
    let suspect = if base.other_boot {
        "; the machine was restarted since, the newest writes may be incomplete"
    } else {
        ""
    };
    format!("live, {at}{head}{suspect}")
}

fn walls(context: &mut Context, run: &engine::view::RunView) -> Result<()> {
    if run.walls.is_empty() {
        return Ok(());
    }
    let ui = &mut context.ui;
    let head = ui.paint(Role::Head, "walls");
    ui.line(&head)?;
    let rows: Vec<Vec<Cell>> = run
        .walls
        .iter()
        .map(|wall| {
            let role = if wall.status == "full" { Role::Good } else { Role::Warn };
            vec![Cell::new(&wall.name), Cell::new(&wall.status).role(role), Cell::new(&wall.detail)]
        })
        .collect();
    for line in table::lines(ui, &[], &rows) {
        ui.line(&format!("  {line}"))?;
    }
    Ok(())
}

/// Prints the recording of a run, line by line.
pub(crate) fn transcript(context: &mut Context, lane: &str, runs: &[RunView], wanted: i64) -> Result<u8> {
    let recorded = runs.iter().filter(|run| wanted == 0 || run.id == wanted);
    let Some((run, path)) = recorded.filter_map(|run| Some((run, run.transcript.as_ref()?))).next() else {
        let what = if wanted == 0 { "no run".to_owned() } else { format!("no run {wanted}") };
        return Err(CliError::Missing(format!("lane {lane} has {what} with a recording")));
    };
    context.ui.say(&format!("run {} · {}", run.id, report::argv(&run.argv)));
    recording(context, path)
}

fn verdict_transcript(context: &mut Context, answer: &ShowAnswer) -> Result<u8> {
    let Some(verdict) = &answer.verdict else {
        return Err(CliError::Missing(format!("lane {} was never checked", answer.lane.name)));
    };
    context.ui.say(&format!("{} · {}", verdict.word, report::verdict(verdict)));
    match &verdict.transcript {
        Some(path) => recording(context, path),
        None => {
            context.ui.say("it printed nothing");
            Ok(exit_code::DONE)
        }
    }
}

fn recording(context: &mut Context, path: &Path) -> Result<u8> {
    let ui = &mut context.ui;
    let failed = |error| CliError::Unreadable(path.to_owned(), error);
    let file = match fs::File::open(path) {
        Ok(file) => file,
        // A recording begins with the first byte.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            ui.say("it printed nothing");
            return Ok(exit_code::DONE);
        }
        Err(error) => return Err(failed(error)),
    };
    let mut reader = transcript::Reader::default();
    for line in BufReader::new(file).split(b'\n') {
        reader.take(&line.map_err(failed)?);
        while let Some(shown) = reader.next_line() {
            ui.line(&escape::escape(&shown, Kind::Content).text)?;
        }
        if ui.is_closed() {
            return Ok(exit_code::DONE);
        }
    }
    if let Some(shown) = reader.rest() {
        ui.line(&escape::escape(&shown, Kind::Content).text)?;
    }
    Ok(exit_code::DONE)
}
