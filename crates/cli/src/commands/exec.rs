//! `lane exec`.

use std::ffi::OsString;

use engine::ops::exec::ExecRequest;

use super::{Context, progress, run};
use crate::error::Result;

/// Run a command in a lane that is there, joining it where it is live.
///
/// A lane that is not live is started for the command and is at rest again when it ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Set a variable inside; without a value it is taken from here (may be given again).
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,

    /// The command and its arguments; a shell where there is none.
    #[arg(last = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Joins, reports, passes the exit code on.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let request = ExecRequest {
        dir: context.dir(),
        lane: args.lane,
        argv: args.command,
        env: args.env.iter().map(run::variable).collect::<Result<Vec<_>>>()?,
        on_record: context.ui.json,
    };
    let engine = context.engine()?;
    run::keep_stdout_for_the_answer(context)?;
    let answer = engine::ops::exec::exec(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    run::report(context, &answer)
}
