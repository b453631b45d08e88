//! `lane completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Context;
use crate::args::Cli;
use crate::error::Result;
use crate::exit_code;

/// Print the completion script for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// bash, zsh, fish, elvish or powershell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints it.
pub(crate) fn run(context: &mut Context, args: &Args) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lane", &mut script);
    context.ui.raw(&script)?;
    Ok(exit_code::DONE)
}
