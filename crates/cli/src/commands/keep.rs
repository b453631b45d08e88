//! `lane keep`.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use engine::ops::keep::{Conflicts, KeepRequest, With};
use engine::selection::{Digest, Selection};

use super::{Context, keep_ask, needs_yes, progress, split_lane};
use crate::error::{CliError, Result};
use crate::escape;
use crate::render::report;
use crate::ui::Confirm;

mod commit;
mod patch;
mod told;

pub(super) use told::paths_word;
use told::{answer, steps};
pub(crate) use told::{clash, reason};

/// Bring what a lane changed into the original.
///
/// All of the selection arrives, or nothing of it. Where a file changed in the original meanwhile, the changes of both
/// sides are put together; renames are followed. Where both changed the same lines, or one deleted what the other
/// changed, the file stays as it is in the original and is listed. Files that run by themselves later (hooks, editor
/// tasks, CI, agent settings, new programs) are left out unless their own path is named. What is inside .git is never
/// kept.
///
/// `--with LANE` keeps further lanes in one go, as one keep that is undone as one. What only one of them touched is taken
/// from it; where several changed a file, their changes are put together, and where those do not go together, the file
/// stays as it is in the original.
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

    /// Keep this lane too; may be given several times.
    #[arg(long, value_name = "LANE")]
    with: Vec<String>,

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
    /// lane's. As in git, for a merge into the original. Of several lanes, those before one are the original's side.
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

    /// What a saved selection ticks (`-` reads it from stdin). Refused, with a list, where its changes moved on since. One
    /// of each lane, where several are kept.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "hunk")]
    selection: Vec<PathBuf>,

    /// Save what is kept as a selection; with `--dry-run` it is saved and not kept.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    save_selection: Option<PathBuf>,

    /// Only if the changes are still those that `lane diff --json` answered this digest for. One for each lane, in their
    /// order, where several are kept.
    #[arg(long, value_name = "DIGEST")]
    digest: Vec<String>,
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
    lanes(&mut request, &args)?;
    if picked.interactive {
        ask_about_each(context, &engine, &mut request)?;
    }
    match args.shape {
        Shape::Files => {}
        Shape::Patch => return patch::run(context, &request, &args),
        Shape::Commit | Shape::Branch(_) => return commit::run(context, &request, &args),
    }
    let prepared = engine::ops::keep::prepare(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    if let Some(file) = &picked.save_selection {
        Selection::save_all(&prepared.selections(), file)?;
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

/// Which lanes, with what was picked of each.
fn lanes(request: &mut KeepRequest, args: &Args) -> Result<()> {
    let mut named: Vec<With> =
        request.lane.take().into_iter().chain(args.with.iter().cloned()).map(of).collect();
    for file in &args.picked.selection {
        if !request.paths.is_empty() {
            return Err(CliError::Usage("a selection says what is kept; leave the paths away".to_owned()));
        }
        for selection in Selection::all_from_json(&read(file)?)? {
            let is_it = |with: &With| {
                with.selection.is_none()
                    && (with.lane == selection.lane || selection.lane_id.starts_with(&with.lane))
            };
            let at = match named.iter().position(is_it) {
                Some(at) => at,
                // Another lane than the one that was named is refused by name.
                None if args.with.is_empty() && named.iter().any(|with| with.selection.is_none()) => 0,
                None => {
                    named.push(of(selection.lane_id.clone()));
                    named.len() - 1
                }
            };
            named[at].selection = Some(selection);
        }
    }
    let digests = &args.picked.digest;
    if !digests.is_empty() && digests.len() != named.len().max(1) {
        return Err(CliError::Usage(
            "of several lanes each has a digest: one for each, in their order".to_owned(),
        ));
    }
    let mut parsed = Vec::with_capacity(digests.len());
    for text in digests {
        let digest = Digest::parse(text);
        parsed.push(digest.ok_or_else(|| CliError::Usage(format!("'{text}' is not a digest")))?);
    }
    if named.is_empty() {
        request.digest = parsed.pop();
        return Ok(());
    }
    for (with, digest) in named.iter_mut().zip(parsed) {
        with.digest = Some(digest);
    }
    let first = named.remove(0);
    (request.lane, request.selection, request.digest) = (Some(first.lane), first.selection, first.digest);
    request.with = named;
    Ok(())
}

fn of(lane: String) -> With {
    With { lane, ..With::default() }
}

/// Asks about the changes of one lane after the other.
fn ask_about_each(context: &mut Context, engine: &engine::Engine, request: &mut KeepRequest) -> Result<()> {
    request.selection = Some(keep_ask::ask(context, engine, request)?);
    for with in &mut request.with {
        let (dir, paths) = (request.dir.clone(), request.paths.clone());
        let one = KeepRequest { dir, paths, lane: Some(with.lane.clone()), ..KeepRequest::default() };
        context.ui.say(&format!("lane {}", escape::name(with.lane.as_bytes())));
        with.selection = Some(keep_ask::ask(context, engine, &one)?);
    }
    request.paths = Vec::new();
    Ok(())
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
