//! `lane gc`.

use engine::ops::gc::{GcRequest, StoreView};

use super::{Context, needs_yes};
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::render::collect as render;
use crate::ui::Confirm;
use crate::wire;

/// Thin automatic snapshots out and free what no snapshot needs.
///
/// All of a day stay, one an hour of a week, one a day of a quarter, and the newest twenty of each lane; so do snapshots that
/// you asked for, and where a lane stands. No lane is removed. Keeps can be undone for 14 days; what older ones displaced
/// goes. Shows the plan and asks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show the plan; do nothing.
    #[arg(long)]
    dry_run: bool,

    /// What each store may take, such as 5G (default: 10 GiB, or a fifth of the filesystem where that is less).
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,

    /// Thin automatic snapshots out, the oldest first, until so much of the filesystem is free.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    keep_free: Option<u64>,

    /// Collect a damaged store, too: what only its damaged parts need may go.
    #[arg(long)]
    despite_damage: bool,

    /// Forget all keeps: what they displaced is deleted, and none can be undone any more.
    #[arg(long)]
    forget_keeps: bool,

    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

fn size(text: &str) -> std::result::Result<u64, String> {
    engine::room::size(text).ok_or_else(|| "a size is a number with K, M, G or T behind it".to_owned())
}

/// Plans, asks, does; exit code 1 where something could not be done, or not as far as was asked for.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let request = GcRequest {
        budget: args.budget,
        keep_free: args.keep_free,
        despite_damage: args.despite_damage,
        forget_keeps: args.forget_keeps,
    };
    let plan = engine::ops::gc::plan(&engine, &request)?;
    let ui = &mut context.ui;
    if args.dry_run || plan.is_empty() {
        let views: Vec<StoreView> = plan.stores().cloned().collect();
        if ui.json {
            ui.document(&wire::Collected::new(&views, plan.keeps(), args.dry_run))?;
        } else {
            render::show(ui, &views, render::Tense::Plan)?;
            render::keeps(ui, plan.keeps(), render::Tense::Plan)?;
        }
        return Ok(code(&views, &args));
    }
    if !args.yes {
        if !ui.json {
            render::show(ui, &plan.stores().cloned().collect::<Vec<_>>(), render::Tense::Plan)?;
            render::keeps(ui, plan.keeps(), render::Tense::Plan)?;
        }
        match ui.confirm("do that?", false)? {
            Confirm::Yes => {}
            Confirm::No => return Err(CliError::Declined),
            Confirm::NobodyToAsk => return Err(needs_yes("thinning snapshots out")),
        }
    }
    let (views, keeps) = engine::ops::gc::execute(&engine, plan)?;
    if ui.json {
        ui.document(&wire::Collected::new(&views, keeps, false))?;
    } else {
        render::show(ui, &views, render::Tense::Done)?;
        render::keeps(ui, keeps, render::Tense::Done)?;
    }
    Ok(code(&views, &args))
}

fn code(views: &[StoreView], args: &Args) -> u8 {
    let failed = |view: &StoreView| {
        view.problem.is_some() && !args.despite_damage
            || view.short > 0
            || args.budget.is_some() && view.over > 0
    };
    if views.iter().any(failed) { exit_code::NOT_DONE } else { exit_code::DONE }
}
