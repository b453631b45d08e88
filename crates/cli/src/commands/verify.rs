//! `lane verify`.

use std::ffi::OsString;
use std::time::Duration;

use engine::ops::verify::VerifyRequest;
use engine::view::Net;

use super::{Context, progress, run};
use crate::error::Result;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::wire;

/// Check a lane with a command: tests, a linter, a build.
///
/// The command runs behind the lane's walls on a view of the lane that is gone afterwards: it changes nothing in the lane,
/// its history or the original. What it said is recorded with what it printed: `pass` where it ended with 0, else `fail`, or
/// `timeout`. `lane ls` shows it, as `stale` once the lane has changed. Exits with 0 for pass, 1 for anything else, and 125
/// where there is no verdict. While it runs, nobody can run anything in a lane at rest; of a live lane a snapshot is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// The verdict is `timeout` after this time, such as 90s, 10m, 1h30m.
    #[arg(long, value_name = "TIME", value_parser = run::duration)]
    timeout: Option<Duration>,

    /// The network, as `lane run` has it.
    #[arg(long, value_name = "NET", default_value = "open", value_parser = run::net)]
    net: Net,

    /// Set a variable inside; without a value it is taken from here (may be given again).
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,

    /// The command and its arguments.
    #[arg(last = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Checks, and says what was said.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let request = VerifyRequest {
        dir: context.dir(),
        lane: args.lane,
        argv: args.command,
        env: args.env.iter().map(run::variable).collect::<Result<Vec<_>>>()?,
        timeout: args.timeout,
        net: args.net,
        unattended: false,
    };
    let engine = context.engine()?;
    run::keep_stdout_for_the_answer(context)?;
    let answer = engine::ops::verify::verify(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    let ui = &mut context.ui;
    let verdict = &answer.verdict;
    if ui.json {
        ui.document(&wire::Verified::new(&answer))?;
    } else {
        let name = ui.paint_err(Role::Lane, &format!("lane {}", answer.lane.name));
        let word = ui.paint_err(report::verdict_role(verdict.word), verdict.word);
        ui.say(&format!("{name} · {word} · {}", report::verdict(verdict)));
        if !verdict.fresh {
            ui.say("the lane has changed meanwhile: it speaks of what it was");
        }
    }
    Ok(if verdict.word == "pass" { exit_code::DONE } else { exit_code::NOT_DONE })
}
