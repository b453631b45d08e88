//! `lane keep`.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use engine::ops::keep::{Clash, ConflictView, Conflicts, Did, KeepRequest, KeepView, LeftOut, LeftOutWhy};
use engine::selection::{Digest, Selection};
use engine::view::LaneView;

use super::{Context, keep_ask, needs_yes, progress, split_lane};
use crate::error::{CliError, Result};
use crate::escape;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::ui::{Confirm, Ui};
use crate::wire;

mod commit;
mod patch;

/// Bring what a lane changed into the original.
///
/// All of the selection arrives, or nothing of it. Where a file changed in the original meanwhile, the changes of both
/// sides are put together; renames are followed. Where both changed the same lines, or one deleted what the other
/// changed, the file stays as it is in the original and is listed. Files that run by themselves later (hooks, editor
/// tasks, CI, agent settings, new programs) are left out unless their own path is named. What is inside .git is never
/// kept.
///
/// Parts of files: `--hunk ID` keeps single hunks, `-i` asks about each, and what was ticked can be saved and kept later
/// with `--selection FILE`. What is not kept stays in the lane.
///
/// `--as patch` prints a patch that `git apply` takes. `--as commit` makes one commit on the current branch and keeps
/// the files with it, or with `--to BRANCH` on another branch, whose files are not touched. `--as branch NAME` brings
/// the commits that were made in the lane as a new branch; where there are none, or paths are named, it is one commit on
/// what the lane started from. The bytes are committed as the lane has them, ignored files only where they are named.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane (may be left out where only one fits), then paths to keep; all of it where no path is given.
    #[arg(value_name = "LANE|PATH", value_hint = clap::ValueHint::AnyPath)]
    operands: Vec<OsString>,

    /// Print the plan and write nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// As `files`, `patch`, `commit`, or `branch NAME`.
    #[arg(long = "as", value_name = "SHAPE", default_value = "files", value_parser = Shape::parse, hide_default_value = true)]
    shape: Shape,

    /// For `--as commit`: a branch that is not checked out.
    #[arg(long, value_name = "BRANCH")]
    to: Option<String>,

    /// For a commit: its message.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<OsString>,

    /// For `--as commit`: run the original's own hooks pre-commit and commit-msg.
    #[arg(long)]
    hooks: bool,

    /// For `--as patch`: write it to a new file.
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Where original and lane changed the same: `stop` leaves the file as it is in the original; `markers` writes both
    /// versions of the lines between markers (other conflicts stop); `ours` takes the original's side, `theirs` the
    /// lane's. As in git, for a merge into the original.
    #[arg(long, value_name = "HOW", default_value = "stop", value_parser = conflicts)]
    conflicts: Conflicts,

    /// Keep set-user-id and set-group-id bits too.
    #[arg(long)]
    set_id: bool,

    /// Do not ask.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    picked: Picked,
}

/// What of the changes, where it is not all of them or whole paths.
#[derive(Debug, clap::Args)]
struct Picked {
    /// A hunk, by its id in `lane diff`; may be given several times. A path that is named besides is kept whole, but for
    /// a file of which hunks are named. A guarded file needs its path named all the same.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    hunk: Vec<String>,

    /// Ask about each hunk, line by line where wanted (needs a terminal).
    #[arg(short, long, conflicts_with_all = ["hunk", "selection", "yes"])]
    interactive: bool,

    /// What a saved selection ticks (`-` reads it from stdin). Refused, with a list, where its changes moved on since.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "hunk")]
    selection: Option<PathBuf>,

    /// Save what is kept as a selection; with `--dry-run` it is saved and not kept.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    save_selection: Option<PathBuf>,

    /// Only if the changes are still those that `lane diff --json` answered this digest for.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
}

/// What the selection becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Files,
    Patch,
    Commit,
    Branch(String),
}

impl Shape {
    fn parse(text: &str) -> std::result::Result<Shape, String> {
        match text {
            "files" => Ok(Shape::Files),
            "patch" => Ok(Shape::Patch),
            "commit" => Ok(Shape::Commit),
            "branch" => Err("the branch has no name: `--as branch NAME`".to_owned()),
            _ => match text.strip_prefix("branch=") {
                Some(name) => Ok(Shape::Branch(name.to_owned())),
                None => Err("it is `files`, `patch`, `commit` or `branch NAME`".to_owned()),
            },
        }
    }
}

/// Makes one word of `--as branch NAME`, which is two values: the name would be taken for a path.
pub(crate) fn joined(words: &[OsString]) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::with_capacity(words.len());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word.clone());
            out.extend(words.cloned());
            break;
        }
        let is_branch =
            word == "--as=branch" || (word == "branch" && out.last().is_some_and(|last| last == "--as"));
        out.push(word.clone());
        if is_branch
            && let Some(name) = words.peek().filter(|name| !name.as_encoded_bytes().starts_with(b"-"))
        {
            let last = out.last_mut().expect("just pushed");
            last.push("=");
            last.push(name);
            words.next();
        }
    }
    out
}

fn check(args: &Args) -> Result<()> {
    let wrong = |what: &str| Err(CliError::Usage(what.to_owned()));
    let is_commit = args.shape == Shape::Commit;
    if args.to.is_some() && !is_commit {
        return wrong("`--to` goes with `--as commit`");
    }
    if args.hooks && (!is_commit || args.to.is_some()) {
        return wrong(
            "`--hooks` goes with `--as commit` on the current branch: hooks look at the files of that",
        );
    }
    if args.message.is_some() && !is_commit && !matches!(args.shape, Shape::Branch(_)) {
        return wrong("`--message` goes with `--as commit` and `--as branch`");
    }
    if args.picked.save_selection.is_some() && args.shape != Shape::Files {
        return wrong("`--save-selection` goes with files: `--dry-run` saves without keeping");
    }
    if args.output.is_some() && args.shape != Shape::Patch {
        return wrong("`--output` goes with `--as patch`");
    }
    Ok(())
}

/// What a word says about conflicts.
pub(crate) fn conflicts(word: &str) -> std::result::Result<Conflicts, String> {
    let all = [Conflicts::Stop, Conflicts::Markers, Conflicts::Ours, Conflicts::Theirs];
    all.into_iter()
        .find(|how| how.word() == word)
        .ok_or_else(|| "one of: stop, markers, ours, theirs".to_owned())
}

/// Plans, asks, does.
pub(crate) fn run(context: &mut Context, mut args: Args) -> Result<u8> {
    check(&args)?;
    let engine = context.engine()?;
    let dir = context.dir();
    let (lane, paths) = split_lane(&engine, &dir, std::mem::take(&mut args.operands))?;
    let picked = &args.picked;
    let mut request = KeepRequest { dir, lane, paths, set_id: args.set_id, ..KeepRequest::default() };
    request.conflicts = args.conflicts;
    request.hunks.clone_from(&picked.hunk);
    request.record = picked.save_selection.is_some();
    if let Some(text) = &picked.digest {
        let digest = Digest::parse(text);
        request.digest = Some(digest.ok_or_else(|| CliError::Usage(format!("'{text}' is not a digest")))?);
    }
    if let Some(file) = &picked.selection {
        if !request.paths.is_empty() {
            return Err(CliError::Usage("a selection says what is kept; leave the paths away".to_owned()));
        }
        let selection = Selection::from_json(&read(file)?)?;
        request.lane.get_or_insert_with(|| selection.lane_id.clone());
        request.selection = Some(selection);
    }
    if picked.interactive {
        request.selection = Some(keep_ask::ask(context, &engine, &request)?);
        request.paths = Vec::new();
    }
    match args.shape {
        Shape::Files => {}
        Shape::Patch => return patch::run(context, &request, &args),
        Shape::Commit | Shape::Branch(_) => return commit::run(context, &request, &args),
    }
    let prepared = engine::ops::keep::prepare(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    if let (Some(file), Some(selection)) = (&picked.save_selection, prepared.selection()) {
        selection.save(file)?;
    }
    if args.dry_run || prepared.view.steps.is_empty() {
        return answer(context, &prepared.view, args.dry_run);
    }
    prepared.check(&engine, &mut progress::Talk::new(&context.ui))?;
    if !args.yes && !context.ui.json {
        steps(&mut context.ui, &prepared.view)?;
    }
    let question = format!(
        "write {} into {}?",
        paths_word(prepared.view.steps.len()),
        report::path(&prepared.view.lane.origin)
    );
    match context.ui.confirm(&question, args.yes)? {
        Confirm::Yes => {}
        Confirm::No => return Err(CliError::Declined),
        Confirm::NobodyToAsk => return Err(needs_yes("keep")),
    }
    let view = prepared.execute(&engine, &mut progress::Talk::new(&context.ui))?;
    answer(context, &view, false)
}

/// What a file holds that the user named; `-` is stdin.
fn read(file: &Path) -> Result<Vec<u8>> {
    let failed = |error| CliError::Unreadable(file.to_owned(), error);
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(failed)?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(failed)
}

fn answer(context: &mut Context, view: &KeepView, dry_run: bool) -> Result<u8> {
    let ui = &mut context.ui;
    let complete = view.is_complete();
    let code = if complete { exit_code::DONE } else { exit_code::NOT_DONE };
    if ui.json {
        ui.document(&wire::Keep::new(view, dry_run))?;
        return Ok(code);
    }
    if dry_run {
        steps(ui, view)?;
        ui.say(&format!("would write {}, {}", paths_word(view.steps.len()), report::bytes(view.bytes)));
        for check in view.checks.iter().filter(|check| !check.holds) {
            let (command, rule) = (escape::name(&check.command), report::path(&check.file));
            ui.say(&format!("would first check it with {command} (keep.verify of {rule})"));
        }
    } else if view.steps.is_empty() {
        ui.say("nothing to keep");
    } else {
        let lane = &view.lane.name;
        ui.say(&format!("kept {} of lane {lane}", paths_word(view.steps.len())));
        if let Some(id) = &view.id {
            ui.say(&format!(
                "  {} takes it back",
                ui.paint_err(Role::Good, &format!("lane undo --keep {id}"))
            ));
        }
        if view.steps.iter().any(|step| step.part) {
            ui.say(&format!("what was not kept stays in the lane: lane diff {lane}"));
        } else if complete {
            ui.say(&format!("next: lane discard {lane}"));
        }
    }
    merged(ui, view);
    left_out(ui, view);
    for (_, path) in &view.set_id_dropped {
        ui.tell(&format!(
            "  {} kept without its set-id bit; `--set-id` keeps it",
            escape::name(path.as_bytes())
        ));
    }
    if view.git_internal > 0 {
        let stay = if view.git_internal == 1 { "stays" } else { "stay" };
        let paths = paths_word(usize::try_from(view.git_internal).unwrap_or(usize::MAX));
        ui.say(&format!("{paths} in .git {stay} in the lane"));
    }
    Ok(code)
}

pub(super) fn paths_word(n: usize) -> String {
    if n == 1 { "1 path".to_owned() } else { format!("{n} paths") }
}

fn steps(ui: &mut Ui, view: &KeepView) -> Result<()> {
    let part = |guarded: bool| view.steps.iter().filter(move |step| step.guarded.is_some() == guarded);
    for (at, step) in part(false).map(|step| (1, step)).chain(part(true).enumerate()) {
        if at == 0 {
            let head = ui.paint(Role::Warn, "runs by itself later, and was named:");
            ui.line(&head)?;
        }
        let role = match step.what {
            "add" => Role::Add,
            "delete" => Role::Delete,
            _ => Role::Modify,
        };
        let what = ui.paint(role, &format!("{:<7}", step.what));
        let part = if step.part { " (in part)" } else { "" };
        let why = step.guarded.as_ref().map_or_else(String::new, |why| format!("  [{}]", escape::name(why)));
        ui.line(&format!("{what} {}{part}{why}", report::step_place(view, step)))?;
    }
    Ok(())
}

/// What was put together of both sides, and what was settled as the caller wished.
fn merged(ui: &Ui, view: &KeepView) {
    let settled = |path: &tree::TreePath| {
        view.conflicts.iter().any(|at| at.path == *path && at.settled == Some(Conflicts::Markers))
    };
    for at in view.merged.iter().filter(|at| !settled(&at.path)) {
        let path = escape::name(at.path.as_bytes());
        match &at.lane_path {
            Some(lane_path) => {
                ui.say(&format!(
                    "{} goes to {path}, its name in the original",
                    escape::name(lane_path.as_bytes())
                ));
            }
            None => ui.say(&format!("merged with the original's changes: {path}")),
        }
    }
    for at in view.conflicts.iter().filter(|at| at.settled.is_some()) {
        let how = match at.settled {
            Some(Conflicts::Markers) => "both versions of the lines are in it, between markers",
            Some(Conflicts::Theirs) => "the lane's side was taken",
            _ => "the original's side stays",
        };
        let line = format!("conflict in {} ({}): {how}", escape::name(at.path.as_bytes()), clash(&at.clash));
        ui.tell(&ui.paint_err(Role::Warn, &line));
    }
}

/// A conflict in words.
pub(crate) fn clash(clash: &Clash) -> String {
    match clash {
        Clash::BaseUnknown => "what both started from is not known any more".to_owned(),
        Clash::Lines(regions) => {
            let shown = |(first, len): (u32, u32)| match len {
                0 | 1 => first.to_string(),
                len => format!("{first}-{}", first + len - 1),
            };
            let places: Vec<String> = regions.iter().take(5).map(|region| shown(region.ours)).collect();
            let more = if regions.len() > places.len() { ", …" } else { "" };
            format!("the same lines were changed in the original: {}{more}", places.join(", "))
        }
        Clash::Binary => "a binary file that was changed in the original too".to_owned(),
        Clash::Mode => "the original has another new mode".to_owned(),
        Clash::Attributes => "the original has other attributes".to_owned(),
        Clash::Did { lane, original } => {
            format!("{} in the lane, {} in the original", did(*lane), did(*original))
        }
        Clash::Renamed(to) => format!("renamed in the original, to {}", escape::name(to.as_bytes())),
        Clash::RenamedInLane(original) => format!("renamed in the lane, {} in the original", did(*original)),
        Clash::PlaceTaken => "something else stands at its new place".to_owned(),
        Clash::NotInDirectory(dir) => {
            format!("{} is no directory in the original any more", escape::name(dir.as_bytes()))
        }
    }
}

fn did(did: Did) -> &'static str {
    match did {
        Did::Nothing => "unchanged",
        Did::Meta => "given another mode",
        Did::Content => "changed",
        Did::Retype => "replaced by something else",
        Did::Delete => "deleted",
        Did::Add => "made",
    }
}

fn left_out(ui: &Ui, view: &KeepView) {
    if view.left_out.is_empty() {
        return;
    }
    list_left_out(ui, &view.lane, &view.left_out, &view.conflicts);
}

fn list_left_out(ui: &Ui, lane: &LaneView, left_out: &[LeftOut], conflicts: &[ConflictView]) {
    let is_guarded = |left: &&LeftOut| left.why == LeftOutWhy::Guarded;
    let (guarded, others): (Vec<_>, Vec<_>) = left_out.iter().partition(is_guarded);
    for (head, part) in [("left out", others), ("left out, because it runs by itself later", guarded)] {
        if part.is_empty() {
            continue;
        }
        ui.tell(&ui.paint_err(Role::Warn, &format!("{head}: {}", paths_word(part.len()))));
        for left in part {
            let conflict = conflict_of(conflicts, left);
            let detail = match conflict {
                Some(conflict) => format!(": {}", clash(&conflict.clash)),
                // Its own word says it already.
                None if left.detail.is_empty() => String::new(),
                None => format!(": {}", escape::name(&left.detail)),
            };
            let why = if conflict.is_some() { "conflict" } else { reason(left.why) };
            ui.tell(&format!("  {} ({why}{detail})", escape::name(left.path.as_bytes())));
        }
    }
    let first =
        |why| left_out.iter().find(|left| left.why == why).map(|left| escape::name(left.path.as_bytes()));
    if let Some(path) = first(LeftOutWhy::Guarded) {
        ui.say(&format!("hint: name a path to keep it: `lane keep {} {path}`", lane.name));
    }
    let stopped = |at: &&ConflictView| at.settled.is_none();
    if conflicts.iter().any(|at| stopped(&at) && matches!(at.clash, Clash::Lines(_))) {
        ui.say(
            "hint: `--conflicts markers` writes both versions of such lines; `ours` and `theirs` take one",
        );
    }
    if first(LeftOutWhy::Drifted).is_some() || conflicts.iter().any(|at| stopped(&at)) {
        ui.say(&format!("hint: `lane export {}` writes the lane's state beside the original", lane.name));
    }
}

fn conflict_of<'v>(conflicts: &'v [ConflictView], left: &LeftOut) -> Option<&'v ConflictView> {
    conflicts.iter().find(|at| (&at.root, &at.path) == (&left.root, &left.path))
}

/// Why a change stays in the lane, in words.
pub(crate) fn reason(why: LeftOutWhy) -> &'static str {
    match why {
        LeftOutWhy::Guarded => "runs by itself",
        LeftOutWhy::Drifted => "changed in the original meanwhile",
        LeftOutWhy::Conflict => "meets something else in the original",
        LeftOutWhy::CannotCarry => "cannot be kept",
        LeftOutWhy::NothingInside => "nothing inside is kept",
        LeftOutWhy::Ignored => "ignored by git",
        LeftOutWhy::Uncommitted => "not in the lane's last commit",
        LeftOutWhy::Suspect => "may be incomplete after a restart of the machine",
    }
}
