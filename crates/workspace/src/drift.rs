//! What changed in the origin since the base: told by stats alone, for the paths that matter.
//!
//! Whether a path still is what it was:
//!
//! | recorded in the manifest | now in the origin | answer |
//! |---|---|---|
//! | yes, same state | same | as it was |
//! | yes | same inode, other state | modified |
//! | yes | another inode or kind | replaced |
//! | yes | nothing | deleted |
//! | yes, but changed before it was recorded | anything | base unknown |
//! | no | something | created |
//! | no | nothing | as it was |
//! | no manifest yet | ctime not after the base | as it was |
//! | no manifest yet | ctime after the base | base unknown |
//!
//! All of it holds only where the directories above are the ones that the base had. A directory is surely
//! the same one where its ctime is not after the base (a rename sets it), or where the directory above is
//! the same and has no later ctime (a rename into it sets that). Below any other one: base unknown.
//!
//! Invariant: a host edit is never called "as it was"; in doubt the answer is base unknown.

use std::collections::HashMap;

use tree::dir::{DirTree, Neighbours};
use tree::walk::{Visit, walk};
use tree::{Change, ChangeKind, Entry, Source as _, Time, TreePath};

use crate::base::Base;
use crate::error::{Doing as _, Result};
use crate::manifest::{Manifest, Recorded, is_same_state};

/// In which way a path is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drift {
    /// The same file or directory, written to or with other metadata.
    Modified,
    /// It is gone.
    Deleted,
    /// It was not there.
    Created,
    /// Another file or directory stands there.
    Replaced,
    /// It changed after the base and what it was is not recorded.
    BaseUnknown,
}

/// One path of the origin that drifted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drifted {
    /// Where, in the origin.
    pub path: TreePath,
    /// How.
    pub what: Drift,
}

/// Drift of the paths that `changes` speaks of: they and the directories above them are looked at,
/// nothing else (below a directory that the lane moved or removed, everything).
pub fn drift<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
    base: &Base,
    origin: &DirTree,
) -> Result<Vec<Drifted>> {
    drift_of(changes, false, base, origin)
}

/// As [`drift`], for changes whose `old` is what stood in `origin` when they were found, a moment ago: it is not
/// looked at again.
pub fn drift_seen<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
    base: &Base,
    origin: &DirTree,
) -> Result<Vec<Drifted>> {
    drift_of(changes, true, base, origin)
}

fn drift_of<'c>(
    changes: impl IntoIterator<Item = &'c Change>,
    seen: bool,
    base: &Base,
    origin: &DirTree,
) -> Result<Vec<Drifted>> {
    let mut judge = Judge::new(base, origin)?;
    let mut found = Vec::new();
    for change in changes {
        judge.change(change, seen, &mut found)?;
    }
    found.sort();
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// Drift of the whole origin. Without a manifest, everything with a later ctime is base unknown.
pub fn drift_all(base: &Base, origin: &DirTree, skip: &[TreePath]) -> Result<Vec<Drifted>> {
    let mut judge = Judge::new(base, origin)?;
    let mut found = judge.below(&TreePath::root(), skip)?;
    found.sort();
    Ok(found)
}

/// What stands in the origin under a path.
#[derive(PartialEq)]
enum Looked {
    At(Option<Entry>),
    /// The host closed a directory above it.
    Closed,
}

struct Judge<'a> {
    base: &'a Base,
    origin: &'a DirTree,
    entries: Neighbours<'a>,
    /// Whether a directory is surely the one that the base had under this path.
    same_dir: HashMap<TreePath, bool>,
    ctimes: HashMap<TreePath, Option<Time>>,
    /// The same by the manifest: whether a directory was the base's when the walk came by.
    had_dir: HashMap<TreePath, bool>,
}

impl<'a> Judge<'a> {
    fn new(base: &'a Base, origin: &'a DirTree) -> Result<Judge<'a>> {
        let root = kernel::meta::stat_fd(origin.fd()).doing("look at the project", "")?;
        // A lane whose stamp knows no inode (0) predates the record; its root is taken on trust.
        let is_same = base.root_ino == 0 || base.root_ino == root.ino;
        let mut judge = Judge {
            base,
            origin,
            entries: Neighbours::new(origin),
            same_dir: HashMap::new(),
            ctimes: HashMap::new(),
            had_dir: HashMap::new(),
        };
        judge.same_dir.insert(TreePath::root(), is_same);
        Ok(judge)
    }

    fn manifest(&self) -> Option<&'a Manifest> {
        self.base.manifest.as_ref()
    }

    fn change(&mut self, change: &Change, seen: bool, found: &mut Vec<Drifted>) -> Result<()> {
        if let ChangeKind::Rename { from, .. } = &change.kind {
            // The lane's name must be free, and everything that moved must be what it was.
            self.note(&change.path, false, found)?;
            self.note(from, true, found)?;
            if change.old.as_ref().is_some_and(Entry::is_dir) {
                found.extend(self.below(from, &[])?);
            }
            return Ok(());
        }
        let path = &change.path;
        if let (true, Some(old)) = (seen, &change.old) {
            // Of a directory that went, every name that it has now has a change of its own.
            let what = self.judge(path, Some(old), true)?;
            found.extend(what.map(|what| Drifted { path: path.clone(), what }));
            return Ok(());
        }
        let had_it = change.kind != ChangeKind::Add;
        let now = self.look(path)?;
        if change.kind == ChangeKind::Delete && now == Looked::At(None) {
            // Both sides deleted it.
            return Ok(());
        }
        self.say(path, &now, had_it, found)?;
        let takes_dir = matches!(change.kind, ChangeKind::Delete | ChangeKind::Retype);
        if takes_dir && change.old.as_ref().is_some_and(Entry::is_dir) {
            self.new_names(path, found)?;
        }
        Ok(())
    }

    fn note(&mut self, path: &TreePath, had_it: bool, found: &mut Vec<Drifted>) -> Result<()> {
        let now = self.look(path)?;
        self.say(path, &now, had_it, found)
    }

    fn look(&mut self, path: &TreePath) -> Result<Looked> {
        match self.entries.entry(path) {
            Err(error) if error.errno == kernel::Errno::ACCESS => Ok(Looked::Closed),
            other => Ok(Looked::At(other.doing("look at", to_path(path))?)),
        }
    }

    fn say(&mut self, path: &TreePath, now: &Looked, had_it: bool, found: &mut Vec<Drifted>) -> Result<()> {
        let what = match now {
            // Nothing can be said, and nothing must be written.
            Looked::Closed => Some(Drift::BaseUnknown),
            Looked::At(now) => self.judge(path, now.as_ref(), had_it)?,
        };
        found.extend(what.map(|what| Drifted { path: path.clone(), what }));
        Ok(())
    }

    /// How `path`, which is `now` in the origin, differs from the base; `had_it`: the lane's change says
    /// that the base had it.
    fn judge(&mut self, path: &TreePath, now: Option<&Entry>, had_it: bool) -> Result<Option<Drift>> {
        let Some(manifest) = self.manifest() else { return self.judge_by_time(path, now, had_it) };
        let Some(was) = manifest.get(path)? else {
            // Below what could not be read anything may have been.
            let is_blind = manifest.unread().any(|dir| path.starts_with(&dir));
            return Ok(match now {
                Some(_) if is_blind => Some(Drift::BaseUnknown),
                Some(_) => Some(Drift::Created),
                None => None,
            });
        };
        self.judge_recorded(path, &was, now, manifest)
    }

    fn judge_recorded(
        &mut self,
        path: &TreePath,
        was: &Recorded,
        now: Option<&Entry>,
        manifest: &Manifest,
    ) -> Result<Option<Drift>> {
        if !self.was_same_place(path, manifest)? || (was.is_later && !was.entry.is_dir()) {
            return Ok(Some(Drift::BaseUnknown));
        }
        let Some(now) = now else { return Ok(Some(Drift::Deleted)) };
        Ok(match () {
            () if was.entry.kind != now.kind || was.entry.ino != now.ino => Some(Drift::Replaced),
            // Names come and go in a directory; each name is judged by itself.
            () if now.is_dir() && was.entry.mode != now.mode => Some(Drift::Modified),
            () if now.is_dir() && was.is_later && !self.base_had_dir(path, manifest)? => {
                Some(Drift::BaseUnknown)
            }
            () if now.is_dir() || is_same_state(&was.entry, now) => None,
            () => Some(Drift::Modified),
        })
    }

    /// Without a manifest only times tell.
    fn judge_by_time(&mut self, path: &TreePath, now: Option<&Entry>, had_it: bool) -> Result<Option<Drift>> {
        let Some(now) = now else { return Ok(had_it.then_some(Drift::Deleted)) };
        if !had_it {
            return Ok(Some(Drift::Created));
        }
        let parent = path.parent().unwrap_or_default();
        let is_known = !self.base.stamp.is_later(now.ctime) && self.is_same_dir(&parent)?;
        Ok((!is_known).then_some(Drift::BaseUnknown))
    }

    /// By the manifest: when `path` was recorded, were the directories above it the base's own?
    fn was_same_place(&mut self, path: &TreePath, manifest: &Manifest) -> Result<bool> {
        path.parent().map_or(Ok(true), |parent| self.base_had_dir(&parent, manifest))
    }

    fn base_had_dir(&mut self, dir: &TreePath, manifest: &Manifest) -> Result<bool> {
        if let Some(known) = self.had_dir.get(dir) {
            return Ok(*known);
        }
        let had = self.find_base_dir(dir, manifest)?;
        self.had_dir.insert(dir.clone(), had);
        Ok(had)
    }

    fn find_base_dir(&mut self, dir: &TreePath, manifest: &Manifest) -> Result<bool> {
        let Some(parent) = dir.parent() else {
            let recorded = manifest.get(dir)?.map(|root| root.entry.ino);
            return Ok(self.base.root_ino == 0 || recorded.is_none_or(|ino| ino == self.base.root_ino));
        };
        let is_later = |dir: &TreePath| -> Result<bool> {
            Ok(manifest.get(dir)?.is_none_or(|recorded| recorded.is_later))
        };
        Ok((!is_later(dir)? || !is_later(&parent)?) && self.base_had_dir(&parent, manifest)?)
    }

    /// By the times of today: is this directory the one that the base had?
    fn is_same_dir(&mut self, dir: &TreePath) -> Result<bool> {
        if let Some(known) = self.same_dir.get(dir) {
            return Ok(*known);
        }
        let parent = dir.parent().unwrap_or_default();
        let is_quiet = self.is_quiet(dir)? || self.is_quiet(&parent)?;
        let is_same = is_quiet && self.is_same_dir(&parent)?;
        self.same_dir.insert(dir.clone(), is_same);
        Ok(is_same)
    }

    /// True where the directory is there and nothing happened to it since the base.
    fn is_quiet(&mut self, dir: &TreePath) -> Result<bool> {
        let ctime = match self.ctimes.get(dir) {
            Some(known) => *known,
            None => {
                let ctime = match self.look(dir)? {
                    Looked::Closed => None,
                    Looked::At(now) => now.map(|entry| entry.ctime),
                };
                self.ctimes.insert(dir.clone(), ctime);
                ctime
            }
        };
        Ok(ctime.is_some_and(|ctime| !self.base.stamp.is_later(ctime)))
    }

    /// Names that the host made in a directory that the lane takes away.
    fn new_names(&mut self, dir: &TreePath, found: &mut Vec<Drifted>) -> Result<()> {
        let Some(manifest) = self.manifest() else { return Ok(()) };
        let names = match self.origin.list(dir) {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.errno == kernel::Errno::ACCESS => {
                found.push(Drifted { path: dir.clone(), what: Drift::BaseUnknown });
                return Ok(());
            }
            other => other.doing("list", to_path(dir))?,
        };
        let known = manifest.names_in(dir)?;
        for name in names.iter().filter(|name| known.binary_search(name).is_err()) {
            self.note(&dir.join(name), false, found)?;
        }
        Ok(())
    }

    /// Everything strictly below `top`, by a walk of the origin against the manifest.
    fn below(&mut self, top: &TreePath, skip: &[TreePath]) -> Result<Vec<Drifted>> {
        let mut there: Vec<(TreePath, Entry)> = Vec::new();
        let dir = match self.origin.open_dir(top) {
            Err(error) if error.is_not_found() => None,
            Err(error) if error.errno == kernel::Errno::ACCESS => {
                return Ok(vec![Drifted { path: top.clone(), what: Drift::BaseUnknown }]);
            }
            other => Some(other.doing("open", to_path(top))?),
        };
        if let Some(dir) = dir {
            use std::os::fd::AsFd as _;
            // What cannot be read now is judged by what is recorded of it: it shows as deleted or not at all.
            let _gaps = walk(dir.as_fd(), &mut |path, entry| {
                let path = top.join_path(path);
                if skip.contains(&path) {
                    return Visit::SkipBelow;
                }
                there.push((path, entry.clone()));
                Visit::Enter
            });
        }
        let mut found = Vec::new();
        let Some(manifest) = self.manifest() else {
            // Without a record a later directory says only that names came and went.
            for (path, now) in there.iter().filter(|(_, now)| !now.is_dir()) {
                let what = self.judge_by_time(path, Some(now), true)?;
                found.extend(what.map(|what| Drifted { path: path.clone(), what }));
            }
            return Ok(found);
        };
        // Both are sorted: what is in one alone was made, or is gone.
        let mut there = there.into_iter().peekable();
        for told in manifest.below(top)? {
            let (path, was) = told?;
            while let Some((new, now)) = there.next_if(|(new, _)| *new < path) {
                self.say(&new, &Looked::At(Some(now)), false, &mut found)?;
            }
            let now = there.next_if(|(there, _)| *there == path).map(|(_, now)| now);
            let what = match &now {
                Some(now) => self.judge_recorded(&path, &was, Some(now), manifest)?,
                None => (!skip.iter().any(|skip| path.starts_with(skip))).then_some(Drift::Deleted),
            };
            found.extend(what.map(|what| Drifted { path, what }));
        }
        for (new, now) in there {
            self.say(&new, &Looked::At(Some(now)), false, &mut found)?;
        }
        Ok(found)
    }
}

fn to_path(path: &TreePath) -> std::path::PathBuf {
    path.as_path().to_path_buf()
}

#[cfg(test)]
mod tests;
