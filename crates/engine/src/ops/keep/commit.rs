//! `keep --as commit` and `keep --as branch`: the selection as one commit, made in a scratch repository of ours; on the
//! current branch together with the files, on another one without touching the working tree.
//!
//! Invariant: a branch moves only from the commit that was looked at, and on the current branch only when the files
//! stand; the index and other edits stay as they are. The bytes are the lane's: no filter and no conversion runs. No
//! hook runs but the repository's own where that was asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use review::flat::Pair;
use review::patch::Lost;
use serde_json::json;
use tree::{Kind, TreePath};
use workspace::git::names::bad_branch;
use workspace::git::repository::{HeadNow, Identity, Items, Repository};
use workspace::git::run::Runner;
use workspace::git::scratch::Scratch;

use super::bring::{Mover, undo};
use super::one_commit::one_commit;
pub use super::settle::Note;
use super::settle::{self, Act, Settled};
use super::{ConflictView, KeepRequest, KeepView, LeftOut, LeftOutWhy, MergedView, PreparedKeep, agents};
use crate::clock;
use crate::engine::{Engine, done};
use crate::error::{Doing as _, EngineError, Result};
use crate::monitor::Monitor;
use crate::view::LaneView;

/// Where the commit goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The branch that is checked out; the files are kept, too.
    Current,
    /// A branch that is there; the working tree is not touched.
    Branch(String),
    /// A branch that is made: the lane's own commits, or one on top of what the lane started from.
    New(String),
}

/// How to commit.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// Where to.
    pub target: Target,
    /// The message; made from the lane's name and what is committed where not given.
    pub message: Option<Vec<u8>>,
    /// Run the repository's own `pre-commit` and `commit-msg` hooks; on the current branch alone.
    pub hooks: bool,
}

/// One path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedPath {
    /// Where.
    pub path: TreePath,
    /// `add`, `modify`, `delete` or `mode`.
    pub what: &'static str,
}

/// A commit, planned or made.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitView {
    /// The lane; of several the first.
    pub lane: LaneView,
    /// The others.
    pub with: Vec<LaneView>,
    /// The branch's full name.
    pub branch: Vec<u8>,
    /// The commit; none where nothing is to be committed.
    pub commit: Option<String>,
    /// What it stands on; none for a first commit.
    pub parent: Option<String>,
    /// Its message.
    pub message: Vec<u8>,
    /// What it changes.
    pub files: Vec<CommittedPath>,
    /// The lane's own commits that are brought over, the oldest first; none where one was made.
    pub commits: Vec<workspace::git::foreign::NewCommitAt>,
    /// Branches of the lane that hold commits which are not brought over.
    pub other_branches: Vec<Vec<u8>>,
    /// What stays in the lane.
    pub left_out: Vec<LeftOut>,
    /// What git has no words for.
    pub cannot_carry: Vec<Lost>,
    /// What does not go together with the files as they are now, or with the branch.
    pub conflicts: Vec<ConflictView>,
    /// What was put together with the one or the other.
    pub merged: Vec<MergedView>,
    /// What is to be known of some paths.
    pub notes: Vec<(TreePath, Note)>,
    /// Paths whose index entry differed from the branch and was left.
    pub index_left: Vec<TreePath>,
    /// The commit stands, but the index could not be brought after it: why.
    pub index_failed: Option<String>,
    /// Changes below `.git`.
    pub git_internal: u64,
    /// The working tree has the files, too.
    pub with_files: bool,
    /// The branch is made by it.
    pub is_new_branch: bool,
    /// The command that takes it back.
    pub undo: Option<Vec<String>>,
}

impl CommitView {
    /// True where nothing of what was asked for is missing. What git ignores was not asked for.
    pub fn is_complete(&self) -> bool {
        let lost = !self.with_files && self.cannot_carry.iter().any(|lost| lost.is_whole);
        !lost
            && !self.conflicts.iter().any(ConflictView::is_open)
            && self.index_failed.is_none()
            && self.left_out.iter().all(|left| left.why == LeftOutWhy::Ignored)
    }
}

/// A commit that can be made once.
#[derive(Debug)]
pub struct PreparedCommit {
    /// What it would be.
    pub view: CommitView,
    pub(super) repository: Repository,
    pub(super) scratch: Scratch,
    pub(super) who: Identity,
    pub(super) road: Road,
}

/// How it gets there.
#[derive(Debug)]
pub(super) enum Road {
    /// With the files, on the branch that is checked out.
    Files { keep: Box<PreparedKeep>, tip: Items, hooks: bool },
    /// Alone.
    Alone { keep: Box<PreparedKeep>, old: Option<String> },
    /// Commits of the lane's own, checked in this scratch repository first.
    Agents { checked: Scratch, rules: Box<agents::Rules> },
}

/// The repository of a lane's project, and the scratch beside it.
pub(super) struct Bench {
    pub(super) repository: Repository,
    pub(super) scratch: Scratch,
    pub(super) who: Identity,
}

/// Where scratch repositories stand.
pub(crate) fn scratch_place(engine: &Engine) -> PathBuf {
    engine.state().path().join("scratch")
}

impl Bench {
    fn open(engine: &Engine, request: &KeepRequest) -> Result<Bench> {
        let project = engine.project(&request.dir)?;
        let row = crate::find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
        let top = crate::describe::roots(&row).into_iter().next().map_or(project.top, |root| root.path);
        let runner = Runner::find(std::env::vars_os())?;
        let none = || EngineError::NoRepository { path: top.clone() };
        let repository = Repository::open(&runner, &top)?.ok_or_else(none)?;
        let who = repository.identity()?;
        Scratch::sweep(&scratch_place(engine));
        let scratch = another_scratch(engine, &repository)?;
        Ok(Bench { repository, scratch, who })
    }
}

pub(super) fn another_scratch(engine: &Engine, repository: &Repository) -> Result<Scratch> {
    Ok(Scratch::make(&scratch_place(engine).join(clock::new_id()), repository)?)
}

/// Makes the commit where nobody sees it; writes nothing of the origin's.
pub fn prepare_commit(
    engine: &Engine,
    request: &KeepRequest,
    wish: &CommitRequest,
    monitor: &mut dyn Monitor,
) -> Result<PreparedCommit> {
    let bench = Bench::open(engine, request)?;
    let (branch, parent) = target(&bench.repository, &wish.target)?;
    let bench = match &wish.target {
        Target::New(name) => match agents::prepare(engine, request, name, bench, monitor)? {
            agents::Found::Commits(prepared) => return Ok(*prepared),
            agents::Found::None(bench) => *bench,
        },
        _ => bench,
    };
    let parent = match &wish.target {
        Target::New(_) => {
            let row = crate::find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
            match &row.git_head {
                Some(head) => bench.repository.commit_of(head.as_bytes())?,
                None => None,
            }
        }
        _ => parent,
    };
    one_commit(engine, request, wish, bench, branch, parent, monitor)
}

/// The branch that is meant, by its full name, and its commit.
fn target(repository: &Repository, target: &Target) -> Result<(Vec<u8>, Option<String>)> {
    let path = || repository.top().to_owned();
    let full = |name: &str| match bad_branch(name.as_bytes()) {
        Some(why) => Err(EngineError::BadBranch { name: name.to_owned(), why }),
        None => Ok([b"refs/heads/", name.as_bytes()].concat()),
    };
    match target {
        Target::Current => {
            if let Some(what) = repository.in_progress() {
                return Err(EngineError::HalfDone { path: path(), what });
            }
            if repository.is_index_locked() {
                return Err(EngineError::IndexLocked { path: path() });
            }
            match repository.head()? {
                HeadNow::Branch(name, commit) => Ok((name, commit)),
                HeadNow::Detached(_) => Err(EngineError::Detached { path: path() }),
            }
        }
        Target::Branch(name) => {
            let branch = full(name)?;
            let missing = || EngineError::NoSuchBranch { name: name.clone(), path: path() };
            let commit = repository.commit_of(&branch)?.ok_or_else(missing)?;
            if let Some(at) = repository.checked_out(&branch)? {
                return Err(EngineError::CheckedOut { name: name.clone(), at });
            }
            Ok((branch, Some(commit)))
        }
        Target::New(name) => {
            let branch = full(name)?;
            if let Some(other) = repository.in_the_way(&branch)? {
                let short = other.strip_prefix(b"refs/heads/").unwrap_or(&other);
                return Err(EngineError::BranchTaken { name: String::from_utf8_lossy(short).into_owned() });
            }
            Ok((branch, None))
        }
    }
}

/// What a commit becomes.
pub(super) struct Shape<'w> {
    pub(super) wish: &'w CommitRequest,
    pub(super) branch: Vec<u8>,
    pub(super) parent: Option<String>,
    pub(super) tip: Items,
}

/// Makes it where nobody sees it.
pub(super) fn finish(
    mut keep: PreparedKeep,
    pairs: &[Pair],
    settled: Settled,
    bench: Bench,
    shape: Shape<'_>,
) -> Result<PreparedCommit> {
    let inside = Rc::clone(&keep.roots[0].inside);
    let lane = &*inside;
    let mut commit = bench.scratch.commit(shape.parent.as_deref())?;
    for act in settled.acts.iter().filter(|act| matches!(act, Act::Remove(_))) {
        if let Act::Remove(path) = act {
            commit.remove(path);
        }
    }
    for act in &settled.acts {
        match act {
            Act::Remove(_) => {}
            Act::Set(path, item) => commit.set(path, item),
            Act::Put(path, mode, entry) if entry.kind == Kind::Symlink => {
                commit.put(path, *mode, entry.target.len() as u64, &mut entry.target.as_slice())?;
            }
            Act::Made(path, mode, content) => {
                commit.put(path, *mode, content.len() as u64, &mut content.as_slice())?;
            }
            Act::Put(path, mode, entry) => {
                let doing = || format!("read {}", path.as_path().display());
                let mut file = File::from(lane.open(path).doing(doing)?);
                commit.put(path, *mode, entry.size, &mut file)?;
                let now = lane.entry(path).doing(doing)?;
                let key = |entry: &tree::Entry| (entry.ino, entry.size, entry.mtime, entry.ctime);
                if now.is_none_or(|now| key(&now) != key(entry)) {
                    return Err(review::Error::LaneMoved { path: path.clone() }.into());
                }
            }
        }
    }
    let message = match &shape.wish.message {
        Some(message) => cleaned(message),
        None => default_message(&keep.view, pairs),
    };
    let id = commit.finish(&bench.who, &message)?;
    let made = bench.scratch.tree(&id)?;
    let files = changed(&shape.tip, &made);
    let with_files = shape.wish.target == Target::Current;
    let cannot_carry = review::patch::cannot_carry(pairs, lane)?;
    let (conflicts, merged) = met(&mut keep, &settled, with_files, short(&shape.branch));
    let view = CommitView {
        lane: keep.view.lane.clone(),
        with: keep.view.with.clone(),
        branch: shape.branch,
        commit: (!files.is_empty()).then_some(id),
        parent: shape.parent.clone(),
        message,
        files,
        commits: Vec::new(),
        other_branches: Vec::new(),
        left_out: with_their_directories(std::mem::take(&mut keep.view.left_out)),
        cannot_carry,
        notes: settled.notes,
        conflicts,
        merged,
        index_left: Vec::new(),
        index_failed: None,
        git_internal: keep.view.git_internal,
        with_files,
        is_new_branch: matches!(shape.wish.target, Target::New(_)),
        undo: None,
    };
    let road = if with_files {
        Road::Files { keep: Box::new(keep), tip: shape.tip, hooks: shape.wish.hooks }
    } else {
        let old = if matches!(shape.wish.target, Target::New(_)) { None } else { shape.parent };
        Road::Alone { keep: Box::new(keep), old }
    };
    Ok(PreparedCommit { view, repository: bench.repository, scratch: bench.scratch, who: bench.who, road })
}

/// A branch as a person names it.
pub(super) fn short(branch: &[u8]) -> &[u8] {
    branch.strip_prefix(b"refs/heads/").unwrap_or(branch)
}

/// What does not go together with the files or with the branch, and what was put together.
fn met(
    keep: &mut PreparedKeep,
    settled: &Settled,
    with_files: bool,
    branch: &[u8],
) -> (Vec<ConflictView>, Vec<MergedView>) {
    let root = keep.roots[0].path.clone();
    let mut conflicts = std::mem::take(&mut keep.view.conflicts);
    conflicts.extend(settled.conflicts.iter().map(|met| ConflictView {
        root: root.clone(),
        path: met.path.clone(),
        clash: met.clash.clone(),
        settled: met.settled,
        lane: None,
        with: Vec::new(),
        branch: Some(String::from_utf8_lossy(branch).into_owned()),
    }));
    conflicts.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
    let mut merged = if with_files { std::mem::take(&mut keep.view.merged) } else { Vec::new() };
    for path in &settled.merged {
        if !merged.iter().any(|at| at.path == *path) {
            let (root, path) = (root.clone(), path.clone());
            merged.push(MergedView { root, path, lane_path: None, content: true });
        }
    }
    (conflicts, merged)
}

/// A new directory that is left out because all that is in it is ignored is ignored, too.
fn with_their_directories(mut left_out: Vec<LeftOut>) -> Vec<LeftOut> {
    let others: Vec<(TreePath, LeftOutWhy)> = left_out
        .iter()
        .filter(|left| left.why != LeftOutWhy::NothingInside)
        .map(|left| (left.path.clone(), left.why))
        .collect();
    for left in left_out.iter_mut().filter(|left| left.why == LeftOutWhy::NothingInside) {
        let mut inside = others.iter().filter(|(path, _)| path.starts_with(&left.path)).peekable();
        if inside.peek().is_some() && inside.all(|(_, why)| *why == LeftOutWhy::Ignored) {
            left.why = LeftOutWhy::Ignored;
        }
    }
    left_out
}

/// What differs between two trees.
pub(super) fn changed(old: &Items, new: &Items) -> Vec<CommittedPath> {
    let mut found: BTreeMap<&TreePath, &'static str> = BTreeMap::new();
    for (path, item) in new {
        match old.get(path) {
            None => found.insert(path, "add"),
            Some(was) if was.id != item.id => found.insert(path, "modify"),
            Some(was) if was.mode != item.mode => found.insert(path, "mode"),
            Some(_) => None,
        };
    }
    found.extend(old.keys().filter(|path| !new.contains_key(path)).map(|path| (path, "delete")));
    found.into_iter().map(|(path, what)| CommittedPath { path: path.clone(), what }).collect()
}

/// Without blanks at the ends of lines, and with one newline at the end.
pub(super) fn cleaned(message: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = message.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end).collect();
    let text = lines.join(&b'\n');
    let start = text.iter().take_while(|b| **b == b'\n').count();
    let mut text = text[start..].trim_ascii_end().to_vec();
    if !text.is_empty() {
        text.push(b'\n');
    }
    text
}

fn default_message(view: &KeepView, pairs: &[Pair]) -> Vec<u8> {
    let (mut added, mut changed, mut gone) = (0u64, 0u64, 0u64);
    for pair in pairs {
        let old = pair.old.as_ref().filter(|side| settle::is_blob(side));
        let new = pair.new.as_ref().filter(|side| settle::is_blob(side));
        match (old, new) {
            (None, Some(_)) => added += 1,
            (Some(_), Some(_)) => changed += 1,
            (Some(_), None) => gone += 1,
            (None, None) => {}
        }
    }
    let mut parts = Vec::new();
    for (count, word) in [(added, "added"), (changed, "changed"), (gone, "deleted")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    let names: Vec<&str> =
        std::iter::once(&view.lane).chain(&view.with).map(|lane| lane.name.as_str()).collect();
    let word = if names.len() == 1 { "lane" } else { "lanes" };
    format!("Keep {word} {}: {}\n", names.join(", "), parts.join(", ")).into_bytes()
}

impl PreparedCommit {
    /// True where there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.view.commit.is_none()
    }

    /// Makes it.
    pub fn execute(self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<CommitView> {
        let PreparedCommit { mut view, repository, scratch, who, road } = self;
        let Some(id) = view.commit.clone() else { return Ok(view) };
        let mover = Mover { repository: &repository, scratch: &scratch, who: &who };
        match road {
            Road::Alone { keep, old } => {
                keep.check(engine, monitor)?;
                mover.hand_over(&id, view.parent.as_deref())?;
                mover.get_ready(&view.branch, &view.branch, &id, old.as_deref())?.commit()?;
            }
            Road::Agents { checked, rules } => {
                rules.check(engine, monitor)?;
                workspace::git::foreign::hand_over_checked(&scratch, &checked, &repository, &id)?;
                mover.get_ready(&view.branch, &view.branch, &id, None)?.commit()?;
            }
            Road::Files { keep, tip, hooks } => {
                keep.check(engine, monitor)?;
                mover.hand_over(&id, view.parent.as_deref())?;
                mover.with_files(*keep, &tip, hooks, &id, &mut view, engine, monitor)?;
            }
        }
        view.undo = Some(undo(&view));
        let summary = json!({
            "name": view.lane.name,
            "branch": String::from_utf8_lossy(&view.branch),
            "commit": view.commit,
            "parent": view.parent,
            "files": view.files.len(),
            "left_out": view.left_out.len(),
        });
        let undo = view.undo.as_ref().map(|words| json!(words));
        engine
            .ledger()?
            .insert_op(&ledger::NewOperation { undo, ..done("commit", &view.lane.id, summary) })?;
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::cleaned;

    #[test]
    fn a_message_is_cleaned_as_git_would() {
        assert_eq!(cleaned(b"\n\nA thing  \n\nwhy\t\n\n\n"), b"A thing\n\nwhy\n");
        assert_eq!(cleaned(b"A"), b"A\n");
        assert_eq!(cleaned(b" \n"), b"");
    }
}
