//! The command line as types: global flags and the verbs. The doc comments are the help and the
//! manual. Parsing is pure; the system is touched later, by the commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands;

const STYLES: Styles = Styles::styled()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(Style::new());

/// Keeps AI coding agents in their lane: runs any command on a copy-on-write view of a real project.
///
/// The original is never written. A lane costs milliseconds and almost no disk; see what it changed, keep the
/// files that are good, drop the rest.
#[derive(Debug, Parser)]
#[command(name = "lane", version, styles = STYLES, disable_help_subcommand = true, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER: &str = "Start with `lane run -- make test` in a project, then `lane diff` and `lane keep`.";

/// Flags that every verb takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// Work on the project of DIR instead of the working directory.
    #[arg(short = 'C', value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// Keep lanes in DIR (also LANE_STATE; default $XDG_STATE_HOME/lanekeeper).
    #[arg(long, value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) state: Option<PathBuf>,

    /// Answer as JSON on stdout; the shapes are in docs/json.md.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Say nothing but what went wrong.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Say more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    #[command(visible_alias = "quick", alias = "mount")]
    Run(Box<commands::run::Args>),
    #[command(alias = "init")]
    New(commands::new::Args),
    Exec(commands::exec::Args),
    Stop(commands::stop::Args),
    #[command(visible_alias = "list")]
    Ls(commands::ls::Args),
    #[command(visible_alias = "status")]
    Show(commands::show::Args),
    Snap(commands::snap::Args),
    Log(commands::log::Args),
    Restore(commands::restore::Args),
    Undo(commands::restore::UndoArgs),
    Redo(commands::restore::RedoArgs),
    Fork(commands::fork::Args),
    Diff(commands::diff::Args),
    Overlap(commands::overlap::Args),
    #[command(visible_alias = "apply")]
    Keep(commands::keep::Args),
    Review(commands::review::Args),
    Export(commands::export::Args),
    Web(commands::web::Args),
    Discard(commands::discard::Args),
    Recover(commands::recover::Args),
    Verify(commands::verify::Args),
    Policy(commands::policy::Args),
    Why(commands::why::Args),
    Ledger(commands::ledger::Args),
    Checkpoint(commands::checkpoint::Args),
    Gc(commands::gc::Args),
    Fsck(commands::fsck::Args),
    Doctor(commands::doctor::Args),
    Bench(commands::bench::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
}

impl Verb {
    /// True for the verbs that pass a command's exit code on.
    pub(crate) fn runs_a_command(&self) -> bool {
        matches!(self, Verb::Run(_) | Verb::Exec(_) | Verb::Verify(_))
    }
}

/// The verbs that are started thousands of times an hour, alone: building the whole tree of verbs costs
/// more than parsing it.
#[derive(Debug, Parser)]
#[command(name = "lane", disable_help_flag = true, disable_help_subcommand = true)]
struct Hot {
    #[command(flatten)]
    global: Global,

    #[command(subcommand)]
    verb: HotVerb,
}

#[derive(Debug, Subcommand)]
enum HotVerb {
    Run(Box<commands::run::Args>),
    Exec(commands::exec::Args),
}

/// Parses the command line. What the short way does not understand, help and errors included, goes the long one.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    if words.get(1).is_some_and(|word| word == "run" || word == "exec")
        && let Ok(hot) = Hot::try_parse_from(words)
    {
        let verb = match hot.verb {
            HotVerb::Run(args) => Verb::Run(args),
            HotVerb::Exec(args) => Verb::Exec(args),
        };
        return Ok(Cli { global: hot.global, verb });
    }
    if words.iter().any(|word| word == "keep" || word == "apply") {
        return Cli::try_parse_from(commands::keep::joined(words));
    }
    Cli::try_parse_from(words)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, parse};

    #[test]
    fn the_short_way_understands_the_same() {
        for line in [
            "lane run -- true",
            "lane run --rm -n x --json -C /p --env A=b --also ../lib -- sh -c true",
            "lane exec x -q -- ls --help",
        ] {
            let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
            let long = Cli::try_parse_from(&words).expect("valid");
            assert_eq!(format!("{:?}", parse(&words).expect("valid")), format!("{long:?}"));
        }
        for line in ["lane run --help", "lane run --nonsense", "lane exec", "lane --version"] {
            let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
            let long = Cli::try_parse_from(&words).map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(parse(&words).map(|_| ()).map_err(|error| error.to_string()), long, "{line}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
