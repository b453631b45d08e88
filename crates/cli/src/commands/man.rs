//! `lane man`: the manual from the same text as the help.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_mangen::Man;

use super::Context;
use crate::args::Cli;
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::render::report;

/// Print the manual page, or write all pages into DIR.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to write lane.1 and one page for each verb.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,

    /// Print the reference of all verbs as Markdown.
    #[arg(long, hide = true, conflicts_with = "dir")]
    markdown: bool,
}

/// Prints or writes it.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let mut root = Cli::command();
    root.build();
    if args.markdown {
        context.ui.raw(reference(&mut root).as_bytes())?;
        return Ok(exit_code::DONE);
    }
    let Some(dir) = args.dir else {
        let mut page = Vec::new();
        Man::new(root).render(&mut page)?;
        context.ui.raw(&page)?;
        return Ok(exit_code::DONE);
    };
    let failed = |error| CliError::File(dir.clone(), error);
    fs::create_dir_all(&dir).map_err(failed)?;
    for verb in root.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("lane-{}", verb.get_name());
        // `build` put the full invocation in the display name; the page is called after it.
        write_page(&dir.join(format!("{name}.1")), Man::new(verb.clone().display_name(name.clone())))?;
    }
    write_page(&dir.join("lane.1"), Man::new(root))?;
    context.ui.say(&format!("manual pages written to {}", report::path(&dir)));
    Ok(exit_code::DONE)
}

fn write_page(path: &std::path::Path, man: Man) -> Result<()> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    let failed = |error| CliError::File(path.to_owned(), error);
    File::create(path).and_then(|mut file| file.write_all(&page)).map_err(failed)
}

/// The reference in Markdown: the long help of every verb.
fn reference(root: &mut clap::Command) -> String {
    let mut out = String::from(
        "# The command line of `lane`\n\nMade by `lane man --markdown`; a test keeps it in step.\n",
    );
    let mut push = |title: &str, command: &mut clap::Command| {
        let help = command.clone().styles(clap::builder::Styles::plain()).term_width(100).render_long_help();
        let help = help.to_string();
        let text: Vec<&str> = help.lines().map(str::trim_end).collect();
        out.push_str(&format!("\n## `{title}`\n\n```text\n{}\n```\n", text.join("\n").trim_end()));
    };
    push("lane", root);
    for verb in root.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        push(&format!("lane {}", verb.get_name()), &mut verb.clone());
    }
    out
}
