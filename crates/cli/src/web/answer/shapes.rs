//! `keep` from the page, in every shape: files, a patch, a commit, a branch. A plan first, then the same again to be
//! carried out.
//!
//! Invariant: what is carried out was planned: ticks by their digests, commits of a lane by the last one's id.

use engine::Engine;
use engine::ops::keep::commit::{Note, PreparedCommit, prepare_commit};
use engine::ops::keep::{CommitRequest, CommitView, KeepRequest, Lost, PreparedKeep, Target};
use serde_json::{Value, json};

use super::super::request::Shape;
use super::super::text::Text;
use super::hex;
use super::keep::{Said, Wish, left_out, shown};
use crate::error::{CliError, Result};

/// The longest patch that the page hands on.
const LONGEST: usize = 32 << 20;

/// What a keep of the ticked things would do, and what each ticked file is now.
pub(super) fn plan(engine: &Engine, wish: &Wish<'_>, shape: &Shape) -> Result<Value> {
    let mut said = Said::default();
    if let Shape::Commits { name, .. } = shape {
        let prepared = commits(engine, wish, name, &mut said)?;
        return Ok(committed(&prepared.view, &said));
    }
    let (request, digests) = wish.request(engine)?;
    let mut value = match commit_of(shape) {
        Some(commit) => committed(&prepare_commit(engine, &request, &commit, &mut said)?.view, &said),
        None => {
            let prepared = engine::ops::keep::prepare(engine, &request, &mut said)?;
            let mut value = shown(&prepared.view, &said);
            if *shape == Shape::Patch {
                let mut count = Count(0);
                let lost = prepared.write_patch(&mut count)?;
                value["lost"] = json!(lost.iter().map(lost_value).collect::<Vec<_>>());
                value["bytes"] = json!(crate::render::report::bytes(count.0));
                value["too_long"] = json!(count.0 > LONGEST as u64);
            }
            value
        }
    };
    value["digests"] = json!(digests.own);
    value["with_digests"] = json!(digests.with);
    Ok(value)
}

/// Does it.
pub(super) fn keep(engine: &Engine, wish: &Wish<'_>, shape: &Shape) -> Result<Value> {
    let mut said = Said::default();
    if let Shape::Commits { name, tip } = shape {
        let prepared = commits(engine, wish, name, &mut said)?;
        if prepared.view.commit != *tip || tip.is_none() {
            let words = "the lane has other commits than those that were looked at; plan it again";
            return Err(CliError::Missing(words.to_owned()));
        }
        return made(engine, prepared, said);
    }
    wish.is_planned()?;
    let (request, _) = wish.request(engine)?;
    if let Some(commit) = commit_of(shape) {
        let prepared = prepare_commit(engine, &request, &commit, &mut said)?;
        return made(engine, prepared, said);
    }
    let prepared = engine::ops::keep::prepare(engine, &request, &mut said)?;
    if *shape == Shape::Patch {
        return patch(engine, &prepared, said);
    }
    let view = prepared.execute(engine, &mut said)?;
    Ok(shown(&view, &said))
}

/// The commits of the lane itself. Ticks choose nothing of them.
fn commits(engine: &Engine, wish: &Wish<'_>, name: &str, said: &mut Said) -> Result<PreparedCommit> {
    let request =
        KeepRequest { dir: wish.dir.to_owned(), lane: Some(wish.lane.to_owned()), ..KeepRequest::default() };
    let commit = CommitRequest { target: Target::New(name.to_owned()), message: None, hooks: false };
    let prepared = prepare_commit(engine, &request, &commit, said)?;
    if prepared.view.commits.is_empty() {
        return Err(CliError::Missing("no commit was made in the lane that the original has not".to_owned()));
    }
    Ok(prepared)
}

/// The commit that a shape means.
fn commit_of(shape: &Shape) -> Option<CommitRequest> {
    let (target, message) = match shape {
        Shape::Commit { to: None, message } => (Target::Current, message),
        Shape::Commit { to: Some(branch), message } => (Target::Branch(branch.clone()), message),
        Shape::Branch { name, message } => (Target::New(name.clone()), message),
        Shape::Files | Shape::Patch | Shape::Commits { .. } => return None,
    };
    let message = (!message.trim().is_empty()).then(|| message.clone().into_bytes());
    Some(CommitRequest { target, message, hooks: false })
}

fn made(engine: &Engine, prepared: PreparedCommit, mut said: Said) -> Result<Value> {
    let view = prepared.execute(engine, &mut said)?;
    Ok(committed(&view, &said))
}

/// The patch itself, with what it cannot say.
fn patch(engine: &Engine, prepared: &PreparedKeep, mut said: Said) -> Result<Value> {
    prepared.check(engine, &mut said)?;
    let mut bytes = Vec::new();
    let lost = prepared.write_patch(&mut bytes)?;
    if bytes.len() > LONGEST {
        let words = "the patch is too long for the page: `lane keep --as patch --output FILE` writes it";
        return Err(CliError::Missing(words.to_owned()));
    }
    let mut value = shown(&prepared.view, &said);
    value["patch"] = json!(hex(&bytes));
    value["lost"] = json!(lost.iter().map(lost_value).collect::<Vec<_>>());
    Ok(value)
}

/// Counts what is written to it.
struct Count(u64);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lost_value(lost: &Lost) -> Value {
    json!({ "name": Text::name(lost.path.as_bytes()), "what": Text::name(&lost.what) })
}

/// A commit, planned or made, in the words of a plan.
fn committed(view: &CommitView, said: &Said) -> Value {
    let origin = &view.lane.origin;
    let branch = view.branch.strip_prefix(b"refs/heads/").unwrap_or(&view.branch);
    let short = |id: &String| id.get(..12).unwrap_or(id).to_owned();
    let steps = view.files.iter().map(|file| {
        json!({ "what": file.what, "name": Text::name(file.path.as_bytes()), "root": null, "part": false, "from": null })
    });
    let commits =
        view.commits.iter().map(|at| json!({ "id": short(&at.id), "subject": Text::name(&at.subject) }));
    let notes = view.notes.iter().map(|(path, note)| {
        let words = match note {
            Note::LineEndings => {
                "the branch has it with other line endings; it is committed as the lane has it"
            }
            Note::WasUntracked => "the branch did not have it: all of it is committed",
        };
        json!({ "name": Text::name(path.as_bytes()), "what": words })
    });
    let index = view.index_left.iter().map(|path| {
        json!({ "name": Text::name(path.as_bytes()), "what": "the index has another version of it, which is left" })
    });
    let mut lost: Vec<Value> = view.cannot_carry.iter().map(lost_value).collect();
    lost.extend(notes.chain(index));
    if let Some(why) = &view.index_failed {
        lost.push(json!({ "name": "index", "what": Text::name(why) }));
    }
    let undo: Option<Vec<Text>> = view.undo.as_ref().map(|words| words.iter().map(Text::name).collect());
    json!({
        "id": null,
        "branch": Text::name(branch),
        "commit": view.commit.as_ref().map(short),
        "tip": view.commit,
        "message": Text::content(view.message.split(|b| *b == b'\n').next().unwrap_or_default()),
        "commits": commits.collect::<Vec<_>>(),
        "other_branches": view.other_branches.iter().map(Text::name).collect::<Vec<_>>(),
        "with_files": view.with_files,
        "undo": undo,
        "lost": lost,
        "conflicts": [],
        "merged": [],
        "checks": [],
        "origin": Text::path(origin),
        "steps": steps.collect::<Vec<_>>(),
        "left_out": left_out(&view.left_out, origin),
        "set_id_dropped": [],
        "git_internal": view.git_internal,
        "bytes": null,
        "said": said.0,
    })
}
