//! Bringing a commit that was made in a scratch repository into the origin's: its objects, its branch, and with the
//! current branch its files and index entries.
//!
//! Invariant: whoever is killed in between leaves a branch that has not moved. The branch is held when the files have
//! been put in place and can still be taken back; it moves when they stand.

use std::cell::RefCell;

use kernel::Errno;
use kernel::error::Asked as _;
use review::apply::{Faults, NoFaults};
use tree::TreePath;
use workspace::git::repository::{HeadNow, Identity, Item, Items, RefUpdate, Repository};
use workspace::git::scratch::Scratch;

use super::PreparedKeep;
use super::commit::{CommitView, changed, cleaned};
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::monitor::Monitor;

/// The command that takes a commit back, and nothing that came after it.
pub(super) fn undo(view: &CommitView) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let short = String::from_utf8_lossy(view.branch.strip_prefix(b"refs/heads/").unwrap_or(&view.branch));
    let full = String::from_utf8_lossy(&view.branch);
    let made = view.commit.as_deref().unwrap_or_default();
    match (&view.parent, view.with_files) {
        (Some(parent), true) => words(&["git", "reset", "--keep", parent]),
        (None, true) => words(&["git", "update-ref", "-d", &full, made]),
        (Some(parent), false) if !view.is_new_branch => words(&["git", "update-ref", &full, parent, made]),
        _ => words(&["git", "branch", "-D", &short]),
    }
}

/// Who brings a commit into the origin's repository.
pub(super) struct Mover<'m> {
    pub(super) repository: &'m Repository,
    pub(super) scratch: &'m Scratch,
    pub(super) who: &'m Identity,
}

impl Mover<'_> {
    pub(super) fn hand_over(&self, id: &str, parent: Option<&str>) -> Result<()> {
        let but = parent.map_or_else(Vec::new, |parent| format!("^{parent}\n").into_bytes());
        Ok(self.scratch.hand_over(id, &but, self.repository)?)
    }

    /// Gets ready to move a ref; that it is not what it was is told as that.
    pub(super) fn get_ready(
        &self,
        name: &[u8],
        branch: &[u8],
        id: &str,
        old: Option<&str>,
    ) -> Result<RefUpdate> {
        let now = self.repository.commit_of(branch)?;
        let moved = || EngineError::BranchMoved {
            name: String::from_utf8_lossy(branch.strip_prefix(b"refs/heads/").unwrap_or(branch)).into_owned(),
        };
        if now.as_deref() != old {
            return Err(moved());
        }
        self.repository.prepare(name, id, old, self.who, "lane keep").map_err(|error| {
            match self.repository.commit_of(branch) {
                Ok(now) if now.as_deref() != old => moved(),
                _ => error.into(),
            }
        })
    }

    /// Runs the hooks on an index that holds the commit, and commits what they left in it.
    fn hooks(&self, id: &str, view: &CommitView) -> Result<String> {
        let (index, text) = (self.scratch.place("index"), self.scratch.place("COMMIT_EDITMSG"));
        self.repository.index_of(id, &index)?;
        if !self.repository.hook("pre-commit", &[], &index)? {
            return Err(EngineError::HookRefused { hook: "pre-commit" });
        }
        self.scratch.write("COMMIT_EDITMSG", &view.message)?;
        if !self.repository.hook("commit-msg", &[text.as_os_str()], &index)? {
            return Err(EngineError::HookRefused { hook: "commit-msg" });
        }
        let message = std::fs::read(&text).asked("read", kernel::error::path_bytes(&text));
        let message = cleaned(&message.doing(|| "read the message".to_owned())?);
        Ok(self.repository.commit_index(&index, view.parent.as_deref(), self.who, &message)?)
    }

    #[expect(clippy::too_many_arguments, reason = "one call, with everything that was prepared")]
    pub(super) fn with_files(
        &self,
        keep: PreparedKeep,
        tip: &Items,
        hooks: bool,
        id: &str,
        view: &mut CommitView,
        engine: &Engine,
        monitor: &mut dyn Monitor,
    ) -> Result<()> {
        let head = || -> Result<()> {
            match self.repository.head()? {
                HeadNow::Branch(name, now) if name == view.branch && now == view.parent => Ok(()),
                _ => {
                    Err(EngineError::BranchMoved { name: String::from_utf8_lossy(&view.branch).into_owned() })
                }
            }
        };
        head()?;
        let before = self.repository.index()?;
        let act = || -> Result<(String, RefUpdate)> {
            let id = if hooks { self.hooks(id, view)? } else { id.to_owned() };
            let update = self.get_ready(b"HEAD", &view.branch, &id, view.parent.as_deref())?;
            // Held by us from here on: it cannot become another branch any more.
            head()?;
            Ok((id, update))
        };
        let gate = Gate { act: &act, answer: RefCell::new(None) };
        let kept = keep.execute_at(engine, &gate, monitor);
        let (id, update) = match (gate.answer.into_inner(), kept) {
            (Some(Err(error)), _) | (_, Err(error)) => return Err(error),
            (Some(Ok(ready)), Ok(_)) => ready,
            // Nothing had to be written.
            (None, Ok(_)) => act()?,
        };
        update.commit()?;
        view.commit = Some(id.clone());
        let made = self.repository.tree(&id)?;
        view.files = changed(tip, &made);
        let mut entries: Vec<(TreePath, Option<Item>)> = Vec::new();
        for at in &view.files {
            if before.get(&at.path) == tip.get(&at.path) {
                entries.push((at.path.clone(), made.get(&at.path).cloned()));
            } else if before.get(&at.path) != made.get(&at.path) {
                view.index_left.push(at.path.clone());
            }
        }
        // The commit stands; whatever happens here is told, not an error.
        view.index_failed = self.repository.set_index(&entries).err().map(|error| error.to_string());
        Ok(())
    }
}

/// What is done when all files stand and can still be taken back: for whatever else has to come true with them.
struct Gate<'g, T> {
    act: &'g dyn Fn() -> Result<T>,
    answer: RefCell<Option<Result<T>>>,
}

impl<T> Faults for Gate<'_, T> {
    fn at(&self, step: &'static str, path: &TreePath) -> std::result::Result<(), Errno> {
        if step != "commit" || self.answer.borrow().is_some() {
            return NoFaults.at(step, path);
        }
        let answer = (self.act)();
        let refused = answer.is_err();
        *self.answer.borrow_mut() = Some(answer);
        if refused { Err(Errno::CANCELED) } else { Ok(()) }
    }
}
