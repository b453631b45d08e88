//! `lane review`.

use std::io::IsTerminal as _;

use super::Context;
use crate::error::{CliError, Result};
use crate::tui::{self, Ground, Theme};

/// Look at lanes on the terminal: files, hunks and lines; tick what is good, see the plan, keep it.
///
/// The plan shows what is put together with the original's own changes and what conflicts, which a key settles; what was
/// kept can be taken back, also later, from the list of lanes. Two lanes are compared path by path.
///
/// Reads bytes and runs nothing of a lane. Every screen shows its keys in the last line, `?` lists all of them. Files that
/// run by themselves later stand apart and are ticked one by one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane to begin with; all of them where not given.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// What the terminal's text stands on; `auto` asks COLORFGBG, and takes dark where that says nothing.
    #[arg(long, value_name = "GROUND", default_value = "auto")]
    ground: GroundArg,
}

/// `--ground`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GroundArg {
    /// As the terminal says.
    Auto,
    /// Light text on a dark ground.
    Dark,
    /// Dark text on a light ground.
    Light,
}

/// Shows them until the person leaves.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    if context.ui.json {
        return Err(CliError::NeedsTerminal("`lane review` has no JSON answer"));
    }
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(CliError::NeedsTerminal("`lane review` needs a terminal that it can draw on"));
    }
    let ground = match args.ground {
        GroundArg::Auto => None,
        GroundArg::Dark => Some(Ground::Dark),
        GroundArg::Light => Some(Ground::Light),
    };
    let theme = Theme::of(|name| std::env::var(name).ok(), ground);
    let options = engine::EngineOptions { state: context.global.state.clone() };
    context.ui.finish()?;
    let mut repaired = Vec::new();
    let code = tui::run(&options, context.dir(), args.lane, theme, &mut repaired);
    for (what, on) in repaired {
        context.ui.say(&format!("repaired: {what} ({})", crate::escape::name(on)));
    }
    code
}
