//! `lane keep --as commit` and `--as branch`.

use std::os::unix::ffi::OsStrExt as _;

use engine::ops::keep::commit::Note;
use engine::ops::keep::{CommitRequest, CommitView, KeepRequest, LeftOut, LeftOutWhy, Target};

use super::told::{self, list_left_out, words_of};
use super::{Args, Shape};
use crate::commands::{Context, needs_yes, progress};
use crate::error::{CliError, Result};
use crate::escape;
use crate::exit_code;
use crate::style::Role;
use crate::ui::{Confirm, Ui};
use crate::wire;

/// Plans, asks, commits.
pub(super) fn run(context: &mut Context, request: &KeepRequest, args: &Args) -> Result<u8> {
    let target = match (&args.shape, &args.to) {
        (Shape::Branch(name), _) => Target::New(name.clone()),
        (_, Some(branch)) => Target::Branch(branch.clone()),
        _ => Target::Current,
    };
    let message = args.message.as_ref().map(|text| text.as_bytes().to_vec());
    let wish = CommitRequest { target, message, hooks: args.hooks };
    let engine = context.engine()?;
    let mut talk = progress::Talk::new(&context.ui);
    let prepared = engine::ops::keep::commit::prepare_commit(&engine, request, &wish, &mut talk)?;
    if args.dry_run || prepared.is_empty() {
        return answer(context, &prepared.view, args.dry_run);
    }
    if !args.yes && !context.ui.json {
        listed(&mut context.ui, &prepared.view)?;
    }
    let view = &prepared.view;
    let question = if view.commits.is_empty() {
        format!("commit {} to {}?", super::paths_word(view.files.len()), branch(view))
    } else {
        format!("bring {} as branch {}?", commits_word(view.commits.len()), branch(view))
    };
    match context.ui.confirm(&question, args.yes)? {
        Confirm::Yes => {}
        Confirm::No => return Err(CliError::Declined),
        Confirm::NobodyToAsk => return Err(needs_yes("keep")),
    }
    let view = prepared.execute(&engine, &mut progress::Talk::new(&context.ui))?;
    answer(context, &view, false)
}

fn branch(view: &CommitView) -> String {
    escape::name(view.branch.strip_prefix(b"refs/heads/").unwrap_or(&view.branch))
}

fn commits_word(n: usize) -> String {
    if n == 1 { "1 commit".to_owned() } else { format!("{n} commits") }
}

fn listed(ui: &mut Ui, view: &CommitView) -> Result<()> {
    for commit in &view.commits {
        let id = ui.paint(Role::Dim, &commit.id[..12.min(commit.id.len())]);
        ui.line(&format!("{id} {}", escape::name(&commit.subject)))?;
    }
    for file in &view.files {
        let role = match file.what {
            "add" => Role::Add,
            "delete" => Role::Delete,
            _ => Role::Modify,
        };
        let what = ui.paint(role, &format!("{:<7}", file.what));
        ui.line(&format!("{what} {}", escape::name(file.path.as_bytes())))?;
    }
    Ok(())
}

fn answer(context: &mut Context, view: &CommitView, dry_run: bool) -> Result<u8> {
    let ui = &mut context.ui;
    let code = if view.is_complete() { exit_code::DONE } else { exit_code::NOT_DONE };
    if ui.json {
        ui.document(&wire::Commit::new(view, dry_run))?;
        return Ok(code);
    }
    let (name, lanes) = (branch(view), words_of(&view.lane, &view.with));
    match &view.commit {
        None => ui.say("nothing to commit"),
        Some(_) if dry_run => {
            listed(ui, view)?;
            ui.say(&format!("would change {} on branch {name}", super::paths_word(view.files.len())));
        }
        Some(id) => {
            let short = &id[..12.min(id.len())];
            if view.commits.is_empty() {
                let paths = super::paths_word(view.files.len());
                ui.say(&format!("committed {paths} of {lanes} to {name} as {short}"));
            } else {
                ui.say(&format!("{} of {lanes}: branch {name} at {short}", commits_word(view.commits.len())));
            }
            if let Some(undo) = &view.undo {
                let words: Vec<String> = undo.iter().map(escape::name).collect();
                ui.say(&format!("to take it back: {}", words.join(" ")));
            }
        }
    }
    remarks(ui, view);
    Ok(code)
}

/// What is not as one might think.
fn remarks(ui: &Ui, view: &CommitView) {
    let (ignored, left): (Vec<LeftOut>, Vec<LeftOut>) =
        view.left_out.iter().cloned().partition(|left| left.why == LeftOutWhy::Ignored);
    if !left.is_empty() {
        list_left_out(ui, &view.lane, &left, &view.conflicts);
    }
    for at in &view.merged {
        ui.say(&format!("put together with what is there: {}", escape::name(at.path.as_bytes())));
    }
    told::settled(ui, &view.conflicts);
    if left.iter().any(|left| left.why == LeftOutWhy::Uncommitted) {
        ui.say(&format!(
            "hint: `lane keep {}` keeps them as files; committed in the lane, they come along",
            view.lane.name
        ));
    }
    if let Some(first) = ignored.first() {
        let (paths, path) = (super::paths_word(ignored.len()), escape::name(first.path.as_bytes()));
        ui.say(&format!("{paths} ignored by git: name a path to commit it, such as {path}"));
    }
    for lost in &view.cannot_carry {
        let (path, what) = (escape::name(lost.path.as_bytes()), escape::name(&lost.what));
        ui.warn(&format!("not in the commit: {path}: {what}"));
    }
    for (path, note) in &view.notes {
        let said = match note {
            Note::LineEndings => {
                "the branch has it with other line endings; it is committed as the lane has it"
            }
            Note::WasUntracked => "the branch did not have it: all of it is committed",
        };
        ui.warn(&format!("{}: {said}", escape::name(path.as_bytes())));
    }
    for path in &view.index_left {
        ui.warn(&format!(
            "{}: the index has another version of it, which was left",
            escape::name(path.as_bytes())
        ));
    }
    if let Some(why) = &view.index_failed {
        ui.warn(&format!("the commit stands, but the index is as before: {}", escape::name(why)));
        ui.say("hint: `git reset -q` brings the index after it");
    }
    for other in &view.other_branches {
        let name = other.strip_prefix(b"refs/heads/").unwrap_or(other);
        ui.warn(&format!(
            "the lane's branch {} has commits, too; only those of its HEAD came",
            escape::name(name)
        ));
    }
    if view.git_internal > 0 && view.commits.is_empty() {
        let paths = super::paths_word(usize::try_from(view.git_internal).unwrap_or(usize::MAX));
        let stay = if view.git_internal == 1 { "stays" } else { "stay" };
        ui.say(&format!("{paths} in .git {stay} in the lane"));
    }
}
