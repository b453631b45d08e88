//! `lane export`.

use std::path::PathBuf;

use engine::ops::export::ExportRequest;

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::wire;

/// Write the result of a lane beside the original; never overwrites.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane; may be left out where only one fits.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// The directory to make; `../<project>-<lane>` where not given.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    target: Option<PathBuf>,

    /// Take .git along as the lane has it; its hooks and configuration may be the lane's own.
    #[arg(long)]
    git: bool,
}

/// Writes it.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let request = ExportRequest { dir: context.dir(), lane: args.lane, target: args.target, git: args.git };
    let answer = engine::ops::export::export(&engine, &request)?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Exported::new(&answer))?;
    } else {
        for target in std::iter::once(&answer.target).chain(&answer.further) {
            ui.line(&report::path(target))?;
        }
        let git = if request.git { "" } else { ", without .git" };
        ui.say(&format!("{} files, {}{git}", answer.files, report::bytes(answer.bytes)));
    }
    if !answer.guarded.is_empty() && !ui.json {
        let count = answer.guarded.len();
        let paths = if count == 1 { "1 path".to_owned() } else { format!("{count} paths") };
        ui.tell(&ui.paint_err(Role::Warn, &format!("in it, by the lane, and run by itself later: {paths}")));
        for at in &answer.guarded {
            let root = if at.root == answer.lane.origin {
                String::new()
            } else {
                format!("{}/", report::path(&at.root))
            };
            let (path, why) = (crate::escape::name(at.path.as_bytes()), crate::escape::name(&at.why));
            ui.tell(&format!("  {root}{path} ({why})"));
        }
    }
    if answer.left_out.is_empty() {
        return Ok(exit_code::DONE);
    }
    ui.tell(&ui.paint_err(Role::Warn, &format!("left out: {}", answer.left_out.len())));
    for (path, why) in &answer.left_out {
        ui.tell(&format!("  {} ({})", crate::escape::name(path.as_bytes()), crate::escape::name(why)));
    }
    Ok(exit_code::NOT_DONE)
}
