//! Answers of `keep` in other shapes than files.

use std::path::Path;

use engine::ops::keep::{CommitView, KeepView, Lost as LostView};
use serde::Serialize;

use super::work::{Conflict, Left, Merged, Step, With};
use super::{path, text};

/// The answer of `keep --as commit` and `keep --as branch`.
#[derive(Debug, Serialize)]
pub(crate) struct Commit {
    lane: String,
    lane_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    with: Vec<With>,
    dry_run: bool,
    complete: bool,
    branch: String,
    new_branch: bool,
    commit: Option<String>,
    parent: Option<String>,
    message: String,
    with_files: bool,
    files: Vec<Committed>,
    commits: Vec<Made>,
    other_branches: Vec<String>,
    left_out: Vec<Left>,
    merged: Vec<Merged>,
    conflicts: Vec<Conflict>,
    cannot_carry: Vec<Lost>,
    notes: Vec<Noted>,
    index_left: Vec<String>,
    index_failed: Option<String>,
    git_internal: u64,
    undo: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
struct Committed {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: &'static str,
}

#[derive(Debug, Serialize)]
struct Made {
    id: String,
    author: String,
    subject: String,
}

#[derive(Debug, Serialize)]
struct Noted {
    path: String,
    what: &'static str,
}

#[derive(Debug, Serialize)]
struct Lost {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: String,
    whole: bool,
}

impl Lost {
    fn new(lost: &LostView) -> Lost {
        let (path, path_bytes) = text(lost.path.as_bytes());
        Lost { path, path_bytes, what: lost.what.clone(), whole: lost.is_whole }
    }
}

impl Commit {
    pub(crate) fn new(view: &CommitView, dry_run: bool) -> Commit {
        let files = view.files.iter().map(|file| {
            let (path, path_bytes) = text(file.path.as_bytes());
            Committed { path, path_bytes, what: file.what }
        });
        let commits = view.commits.iter().map(|commit| Made {
            id: commit.id.clone(),
            author: text(&commit.author).0,
            subject: text(&commit.subject).0,
        });
        Commit {
            lane: view.lane.name.clone(),
            lane_id: view.lane.id.clone(),
            with: With::all(&view.with),
            dry_run,
            complete: view.is_complete(),
            branch: text(&view.branch).0,
            new_branch: view.is_new_branch,
            commit: view.commit.clone(),
            parent: view.parent.clone(),
            message: text(&view.message).0,
            with_files: view.with_files,
            files: files.collect(),
            commits: commits.collect(),
            other_branches: view.other_branches.iter().map(|name| text(name).0).collect(),
            left_out: view.left_out.iter().map(Left::new).collect(),
            merged: view.merged.iter().map(Merged::new).collect(),
            conflicts: view.conflicts.iter().map(Conflict::new).collect(),
            cannot_carry: view.cannot_carry.iter().map(Lost::new).collect(),
            notes: view
                .notes
                .iter()
                .map(|(at, note)| Noted { path: text(at.as_bytes()).0, what: note.word() })
                .collect(),
            index_left: view.index_left.iter().map(|at| text(at.as_bytes()).0).collect(),
            index_failed: view.index_failed.clone(),
            git_internal: view.git_internal,
            undo: view.undo.clone(),
        }
    }
}

/// The answer of `keep --as patch`.
#[derive(Debug, Serialize)]
pub(crate) struct Patch {
    lane: String,
    lane_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    with: Vec<With>,
    dry_run: bool,
    complete: bool,
    output: Option<String>,
    kept: Vec<Step>,
    left_out: Vec<Left>,
    cannot_carry: Vec<Lost>,
    git_internal: u64,
}

impl Patch {
    pub(crate) fn new(
        view: &KeepView,
        lost: &[LostView],
        output: Option<&Path>,
        dry_run: bool,
        complete: bool,
    ) -> Patch {
        Patch {
            lane: view.lane.name.clone(),
            lane_id: view.lane.id.clone(),
            with: With::all(&view.with),
            dry_run,
            complete,
            output: output.map(|output| path(output).0),
            kept: view.steps.iter().map(Step::new).collect(),
            left_out: view.left_out.iter().map(Left::new).collect(),
            cannot_carry: lost.iter().map(Lost::new).collect(),
            git_internal: view.git_internal,
        }
    }
}
