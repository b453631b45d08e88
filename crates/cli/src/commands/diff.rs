//! `lane diff`.

use std::ffi::OsString;
use std::path::PathBuf;

use engine::ops::diff::{DiffAnswer, DiffRequest, FileDiff, Opened};
use engine::selection::Selection;
use engine::sides::Side;

use super::{Context, split_lane};
use crate::error::Result;
use crate::exit_code;
use crate::render::diff::Section;
use crate::render::{diff as render, report};
use crate::style::Role;
use crate::wire;

/// Show what a lane changed, or how two of its states differ.
///
/// `lane diff LANE A B` compares `base`, `now`, `origin` or a snapshot (id, front of an id, or name) with another; `lane diff
/// LANE A` compares A with now.
///
/// Reads bytes and runs nothing: no git, no filter, no pager, no configuration. What a terminal would act on is
/// shown escaped, and such a line is marked with `!`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane (may be left out where only one fits), then up to two states, then paths to look at.
    #[arg(value_name = "LANE|STATE|PATH", value_hint = clap::ValueHint::AnyPath)]
    operands: Vec<OsString>,

    /// Only count lines.
    #[arg(long, group = "form")]
    stat: bool,

    /// Only list paths.
    #[arg(long, group = "form")]
    name_only: bool,

    /// A patch that `git apply` takes.
    #[arg(short, long, group = "form")]
    patch: bool,

    /// What changed in the original since the lane began, everywhere in it.
    #[arg(long, group = "form")]
    drift: bool,
}

/// Compares and shows.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let dir = context.dir();
    let (lane, mut paths) = split_lane(&engine, &dir, args.operands)?;
    let paths_only = (args.name_only || args.patch) && !context.ui.json;
    let opened = engine::ops::diff::open(&engine, &dir, lane.as_deref())?;
    let sides = states(&opened, &mut paths)?;
    let request = DiffRequest { dir, sides, paths, all_drift: args.drift, paths_only };
    let answer = opened.diff(&engine, &request)?;
    if args.patch {
        patch(context, &answer)?;
    } else if context.ui.json {
        let shown = if request.sides.is_none() { Some(answer.selection()?) } else { None };
        json(context, &answer, shown.as_ref())?;
        if let Some(shown) = &shown {
            opened.remember(shown);
        }
        return Ok(if answer.gaps.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE });
    } else if args.drift {
        for line in report::drift(&answer.drift, usize::MAX) {
            context.ui.line(&line)?;
        }
    } else if args.name_only {
        for file in &answer.files {
            if context.ui.is_closed() {
                break;
            }
            context.ui.line(&render::bare(file))?;
        }
    } else if args.stat {
        stat(context, &answer)?;
    } else {
        hunks(context, &answer)?;
    }
    afterwards(context, &answer);
    Ok(if answer.gaps.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE })
}

/// Takes the states off the front of the operands. What is both a state and a path is the state; `./` makes it a path.
fn states(opened: &Opened, operands: &mut Vec<PathBuf>) -> Result<Option<(Side, Side)>> {
    let state = |operands: &Vec<PathBuf>, at: usize| match operands.get(at).and_then(|word| word.to_str()) {
        Some(word) => opened.side(word),
        None => Ok(None),
    };
    let Some(left) = state(operands, 0)? else { return Ok(None) };
    let right = state(operands, 1)?;
    operands.drain(..if right.is_some() { 2 } else { 1 });
    Ok(Some((left, right.unwrap_or(Side::Now))))
}

fn json(context: &mut Context, answer: &DiffAnswer<'_>, shown: Option<&Selection>) -> Result<()> {
    let mut document = wire::Diff::new(&answer.lane);
    for (at, file) in answer.files.iter().enumerate() {
        let mut wire = wire::File::new(file, &answer.content(file)?);
        // A selection lists the files in the order of the answer.
        wire.digest = shown.map(|shown| shown.files[at].digest.to_string());
        document.files.push(wire);
    }
    document.digest = shown.map(|shown| shown.digest.to_string());
    document.git_internal = answer.git_internal;
    document.gaps = answer.gaps.iter().map(|(root, path, why)| wire::Gap::new(root, path, why)).collect();
    document.drift = answer.drift.iter().map(wire::Drift::new).collect();
    context.ui.document(&document)?;
    Ok(())
}

fn patch(context: &mut Context, answer: &DiffAnswer<'_>) -> Result<()> {
    // A patch is for a program. On a terminal its bytes would be the lane's own words to it.
    let cannot = if context.ui.out_is_terminal() {
        let mut bytes = Vec::new();
        let cannot = answer.patch(&mut bytes)?;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let body = line.strip_suffix(b"\n").unwrap_or(line);
            context.ui.line(&crate::escape::escape(body, crate::escape::Kind::Content).text)?;
        }
        cannot
    } else {
        answer.patch(&mut context.ui)?
    };
    for lost in cannot {
        let (path, what) = (crate::escape::name(lost.path.as_bytes()), crate::escape::name(&lost.what));
        context.ui.warn(&format!("{path}: {what}"));
    }
    Ok(())
}

fn stat(context: &mut Context, answer: &DiffAnswer<'_>) -> Result<()> {
    let (mut files, mut added, mut removed) = (0u64, 0u64, 0u64);
    for part in render::sections(&answer.files) {
        let Section::File(file) = part else {
            let head = render::guarded_head(&context.ui);
            context.ui.line(&head)?;
            continue;
        };
        let content = answer.content(file)?;
        let (plus, minus) = content.counts();
        files += 1;
        added += plus;
        removed += minus;
        let counts = if content.binary { "binary".to_owned() } else { format!("+{plus} -{minus}") };
        let line =
            format!("{}  {}", render::summary(&context.ui, file), context.ui.paint(Role::Dim, &counts));
        context.ui.line(&line)?;
        if context.ui.is_closed() {
            return Ok(());
        }
    }
    context.ui.line(&format!("{files} paths, {added} lines added, {removed} removed"))?;
    Ok(())
}

fn hunks(context: &mut Context, answer: &DiffAnswer<'_>) -> Result<()> {
    for part in render::sections(&answer.files) {
        if context.ui.is_closed() {
            return Ok(());
        }
        let Section::File(file) = part else {
            let head = render::guarded_head(&context.ui);
            context.ui.line(&head)?;
            continue;
        };
        let content = answer.content(file)?;
        for line in file_lines(context, file, &content) {
            context.ui.line(&line)?;
        }
    }
    Ok(())
}

fn file_lines(context: &Context, file: &engine::ops::diff::FileView, content: &FileDiff) -> Vec<String> {
    let mut lines = vec![render::summary(&context.ui, file)];
    render::hunks(&context.ui, content, &mut lines);
    lines
}

/// What was left out, and why; told on stderr.
fn afterwards(context: &Context, answer: &DiffAnswer<'_>) {
    let ui = &context.ui;
    if answer.files.is_empty() && answer.gaps.is_empty() {
        ui.say(&format!("lane {} changed nothing there", answer.lane.name));
    }
    if answer.git_internal > 0 {
        ui.say(&format!("{} more in .git (never kept)", answer.git_internal));
    }
    for (root, path, why) in &answer.gaps {
        let place = crate::escape::name(path.as_bytes());
        ui.warn(&format!("not compared: {place} in {}: {}", report::path(root), crate::escape::name(why)));
    }
}
