//! `lane discard`.

use engine::only_here::{OnlyHere, shown};
use engine::ops::discard::DiscardRequest;
use engine::ops::show::ShowRequest;
use engine::view::LaneState;

use std::path::Path;

use super::{Context, needs_yes, progress};
use crate::error::{CliError, Result};
use crate::escape;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::ui::Confirm;
use crate::wire;

/// Commits that are named.
const MOST_COMMITS: usize = 5;

/// Drop lanes. `lane recover` brings one back until the trash is emptied.
///
/// What a lane holds that exists nowhere else is told, unless `--yes` answers beforehand: what was not kept, is in no export that is still there, and in no commit of
/// the original.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lanes; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lanes: Vec<String>,

    /// Delete at once and for good.
    #[arg(long)]
    now: bool,

    /// Do not ask; end what still runs in them.
    #[arg(short, long)]
    yes: bool,
}

/// Drops one after the other; a lane that cannot be dropped does not save the rest.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let lanes = if args.lanes.is_empty() { vec![None] } else { args.lanes.into_iter().map(Some).collect() };
    let mut documents = Vec::new();
    let mut code = exit_code::DONE;
    let many = lanes.len() > 1;
    for lane in lanes {
        // Who answers beforehand does not wait for it.
        let tell = context.ui.json || !(context.global.quiet || args.yes);
        let request = DiscardRequest { dir: context.dir(), lane, now: args.now, stop: args.yes, tell };
        let done = ask(context, &engine, &request, args.yes)
            .and_then(|()| Ok(engine::ops::discard::discard(&engine, &request)?));
        let answer = match done {
            Ok(answer) => answer,
            Err(error) if many => {
                code = error.report(&mut context.ui.without_json(), false);
                continue;
            }
            Err(error) => return Err(error),
        };
        documents.push(wire::Discarded::new(&answer, args.now));
        let ui = &context.ui;
        let name = &answer.lane.name;
        if !ui.json && args.now {
            ui.say(&format!("lane {name} deleted"));
        } else if !ui.json {
            ui.say(&format!("lane {name} discarded; `lane recover {name}` brings it back"));
        }
        if let Some(lost) = answer.only_here.as_ref().filter(|_| !ui.json) {
            for line in lost_lines(&answer.lane.origin, lost) {
                ui.say(&format!("  {line}"));
            }
        }
        if !answer.left.is_empty() {
            code = exit_code::NOT_DONE;
            ui.tell(&ui.paint_err(Role::Warn, "could not be deleted:"));
            for (path, why) in &answer.left {
                ui.tell(&format!("  {} ({})", report::path(path), crate::escape::name(why)));
            }
        }
    }
    if context.ui.json {
        context.ui.document(&documents)?;
    }
    Ok(code)
}

/// What exists nowhere else, a line each.
pub(crate) fn lost_lines(origin: &Path, lost: &OnlyHere) -> Vec<String> {
    let mut lines = Vec::new();
    if lost.changes > 0 {
        let named = lost.first.iter().map(|(root, path)| report::path(&shown(origin, root, path)));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match lost.changes - lost.first.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let word = if lost.changes == 1 { "1 change" } else { &format!("{} changes", lost.changes) };
        lines.push(format!("nowhere else: {word} ({named}{more})"));
    }
    for (name, id) in lost.commits.iter().take(MOST_COMMITS) {
        let id = id.get(..12).unwrap_or(id);
        lines.push(format!("nowhere else: commit {id} ({})", escape::name(name)));
    }
    if lost.commits.len() > MOST_COMMITS {
        lines.push(format!("nowhere else: {} more commits", lost.commits.len() - MOST_COMMITS));
    }
    if lost.home > 0 {
        lines.push(format!("nowhere else: {} in its $HOME", lost.home));
    }
    lines
}

/// Only what cannot be taken back is asked about.
fn ask(context: &mut Context, engine: &engine::Engine, request: &DiscardRequest, yes: bool) -> Result<()> {
    if yes || !request.now {
        return Ok(());
    }
    let asked = ShowRequest { dir: request.dir.clone(), lane: request.lane.clone() };
    let answer = engine::ops::show::show(engine, &asked)?;
    if answer.lane.state == LaneState::Live {
        return Ok(());
    }
    let changes = progress::change_lines(&answer.changes, answer.home_changes).join("; ");
    let lost = engine::ops::discard::would_lose(engine, request)?;
    for line in lost_lines(&answer.lane.origin, &lost) {
        context.ui.tell(&line);
    }
    match context.ui.confirm(&format!("delete lane {} for good ({changes})?", answer.lane.name), false)? {
        Confirm::Yes => Ok(()),
        Confirm::No => Err(CliError::Declined),
        Confirm::NobodyToAsk => Err(needs_yes("deleting a lane for good")),
    }
}
