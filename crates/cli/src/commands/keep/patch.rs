//! `lane keep --as patch`.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use engine::ops::keep::{KeepRequest, PreparedKeep};

use super::Args;
use super::told::left_out;
use crate::commands::{Context, progress};
use crate::error::{CliError, Result};
use crate::escape::{self, Kind};
use crate::render::report;
use crate::{exit_code, wire};

/// Writes the patch of what would be kept.
pub(super) fn run(context: &mut Context, request: &KeepRequest, args: &Args) -> Result<u8> {
    if context.ui.json && args.output.is_none() {
        return Err(CliError::Usage("with `--json` the patch needs a file: `--output FILE`".to_owned()));
    }
    let engine = context.engine()?;
    let prepared = engine::ops::keep::prepare(&engine, request, &mut progress::Talk::new(&context.ui))?;
    if !args.dry_run {
        prepared.check(&engine, &mut progress::Talk::new(&context.ui))?;
    }
    let mut bytes = Vec::new();
    let lost = prepared.write_patch(&mut bytes)?;
    match &args.output {
        Some(_) if args.dry_run => {}
        Some(path) => write(path, &bytes)?,
        // A patch is for a program. On a terminal its bytes would be the lane's own words to it.
        None if context.ui.out_is_terminal() => {
            for line in bytes.split_inclusive(|b| *b == b'\n') {
                let body = line.strip_suffix(b"\n").unwrap_or(line);
                context.ui.line(&escape::escape(body, Kind::Content).text)?;
            }
        }
        None => context.ui.raw(&bytes)?,
    }
    let complete = prepared.view.is_complete() && !lost.iter().any(|lost| lost.is_whole);
    if context.ui.json {
        let output = args.output.as_deref();
        context.ui.document(&wire::Patch::new(&prepared.view, &lost, output, args.dry_run, complete))?;
    } else {
        told(context, &prepared, args.output.as_deref());
        for lost in &lost {
            let (path, what) = (escape::name(lost.path.as_bytes()), escape::name(&lost.what));
            context.ui.warn(&format!("not in the patch: {path}: {what}"));
        }
    }
    Ok(if complete { exit_code::DONE } else { exit_code::NOT_DONE })
}

fn told(context: &Context, prepared: &PreparedKeep, output: Option<&Path>) {
    let view = &prepared.view;
    if view.steps.is_empty() {
        context.ui.say("nothing to keep");
    } else if let Some(path) = output {
        context.ui.say(&format!(
            "the patch is in {}; next: git apply {}",
            report::path(path),
            report::path(path)
        ));
    }
    left_out(&context.ui, view);
}

/// Writes a file that is not there yet.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| CliError::File(path.to_owned(), error);
    let mut file = File::options().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}
