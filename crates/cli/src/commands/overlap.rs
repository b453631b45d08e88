//! `lane overlap`.

use engine::ops::overlap::{Met, Touched};

use super::Context;
use crate::error::{CliError, Result};
use crate::escape;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::wire;

/// Show what several lanes both touch, before any of it is kept.
///
/// A line for each path and pair of lanes: `same` (both did the same), `apart` (other lines of one file), `lines` (the same
/// lines, or lines that touch), `whole` (the file as a whole), `below` (one works where the other one removed or moved
/// something). Lines are those of the original.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lanes; all of the project where none is named.
    #[arg(value_name = "LANE")]
    lanes: Vec<String>,
}

/// Compares and shows.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    if args.lanes.len() == 1 {
        return Err(CliError::Usage("an overlap needs two lanes, or none for all".to_owned()));
    }
    let engine = context.engine()?;
    let dir = context.dir();
    let (lanes, found) = engine::ops::overlap::overlap(&engine, &dir, &args.lanes)?;
    if context.ui.json {
        context.ui.document(&wire::Overlaps::new(&lanes, &found))?;
        return Ok(exit_code::DONE);
    }
    let top = engine.project(&dir)?.top;
    for met in &found {
        let role = if met.what.is_clash() { Role::Warn } else { Role::Dim };
        let what = context.ui.paint(role, &format!("{:<5}", met.what.word()));
        let root = if met.root == top { String::new() } else { format!("{}/", report::path(&met.root)) };
        let path = escape::name(met.path.as_bytes());
        let [left, right] = &met.lanes;
        context.ui.line(&format!("{what}  {root}{path}  {left} {right}{}", places(met)))?;
    }
    let clashes = found.iter().filter(|met| met.what.is_clash()).count();
    if found.is_empty() {
        context.ui.say("no path is touched by two lanes");
    } else {
        context.ui.say(&format!(
            "{} touched by two lanes, {clashes} of them not apart",
            super::keep::paths_word(found.len())
        ));
    }
    Ok(exit_code::DONE)
}

fn places(met: &Met) -> String {
    let place = |touched: &Touched| match touched.lines {
        0 => format!("before {}", touched.start),
        1 => format!("{}", touched.start),
        lines => format!("{}-{}", touched.start, touched.start + lines - 1),
    };
    let all: Vec<String> =
        met.hunks.iter().map(|[left, right]| format!("{} / {}", place(left), place(right))).collect();
    if all.is_empty() { String::new() } else { format!("  lines {}", all.join(", ")) }
}
