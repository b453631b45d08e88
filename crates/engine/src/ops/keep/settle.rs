//! From what is to be kept to what that means on top of a commit: what is put, what goes, and what cannot be said there.
//!
//! Invariant: a path is taken only where the commit has what the lane's change was made against, so that nobody's work
//! in the branch is undone by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;

use kernel::error::Asked as _;
use review::flat::{Pair, Side};
use tree::{Entry, Kind, Source, TreePath};
use workspace::git::repository::{Blobs, Item, Items};

use super::LeftOutWhy;
use crate::error::{Doing as _, Result};

/// Content up to this size is looked at as text.
const TEXT: u64 = 64 << 20;

/// What is done on top of the commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The path goes.
    Remove(TreePath),
    /// What the commit had elsewhere stands there.
    Set(TreePath, Item),
    /// The lane's content stands there, with this mode.
    Put(TreePath, u32, Entry),
}

/// What is to be known of a path that is taken all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The branch has the file with other line endings than the working tree; the lane's bytes are committed as they are.
    LineEndings,
    /// The branch did not have the file, so that all of it is committed.
    WasUntracked,
}

impl Note {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Note::LineEndings => "line-endings",
            Note::WasUntracked => "was-untracked",
        }
    }
}

/// The answer.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) acts: Vec<Act>,
    pub(super) refused: Vec<(TreePath, LeftOutWhy, String)>,
    pub(super) notes: Vec<(TreePath, Note)>,
    /// New paths that the commit has not, for which the rules of ignored files count.
    pub(super) untracked: Vec<TreePath>,
}

/// The two trees, and the commit.
pub(super) struct Ground<'g> {
    pub(super) tip: &'g Items,
    pub(super) blobs: &'g mut Blobs,
    pub(super) base: &'g dyn Source,
    pub(super) lane: &'g dyn Source,
    pub(super) nested: BTreeMap<TreePath, bool>,
}

pub(super) fn is_blob(side: &Side) -> bool {
    matches!(side.1.kind, Kind::File | Kind::Symlink)
}

/// Settles all pairs.
pub(super) fn settle(pairs: &[Pair], ground: &mut Ground<'_>) -> Result<Settled> {
    let old = |pair: &'_ Pair| pair.old.as_ref().filter(|side| is_blob(side)).map(|side| side.0.clone());
    let new = |pair: &'_ Pair| pair.new.as_ref().filter(|side| is_blob(side)).map(|side| side.0.clone());
    let stays: BTreeSet<TreePath> = pairs.iter().filter_map(new).collect();
    let gone: BTreeSet<TreePath> =
        pairs.iter().filter_map(old).filter(|path| !stays.contains(path)).collect();
    let mut settled = Settled::default();
    let free: BTreeSet<TreePath> = pairs.iter().filter(|pair| pair.is_rename()).filter_map(old).collect();
    for pair in pairs {
        match ground.pair(pair, &gone, &free, &mut settled)? {
            Ok(acts) => settled.acts.extend(acts),
            Err((why, detail)) => {
                let sides = [pair.old.as_ref(), pair.new.as_ref()].into_iter().flatten();
                let paths: BTreeSet<&TreePath> = sides.map(|side| &side.0).collect();
                settled.refused.extend(paths.into_iter().map(|path| (path.clone(), why, detail.clone())));
            }
        }
    }
    Ok(settled)
}

type Judged = std::result::Result<Vec<Act>, (LeftOutWhy, String)>;

fn refuse(why: LeftOutWhy, detail: &str) -> Judged {
    Err((why, detail.to_owned()))
}

impl Ground<'_> {
    fn pair(
        &mut self,
        pair: &Pair,
        gone: &BTreeSet<TreePath>,
        free: &BTreeSet<TreePath>,
        settled: &mut Settled,
    ) -> Result<Judged> {
        let old = pair.old.as_ref().filter(|side| is_blob(side));
        let new = pair.new.as_ref().filter(|side| is_blob(side));
        for (path, _) in [old, new].into_iter().flatten() {
            if path.components().any(is_gits_own) {
                return Ok(refuse(LeftOutWhy::CannotCarry, "git keeps such a name for itself"));
            }
            let mut above = Some(path.clone());
            while let Some(at) = above.filter(|at| !at.is_root()) {
                if self.tip.get(&at).is_some_and(Item::is_submodule) {
                    return Ok(refuse(LeftOutWhy::CannotCarry, "it lies in a submodule"));
                }
                if at != *path && self.is_nested(&at)? {
                    return Ok(refuse(LeftOutWhy::CannotCarry, "it lies in a repository of its own"));
                }
                above = at.parent();
            }
        }
        let mut had: Option<Item> = None;
        if let Some((path, entry)) = old {
            match self.tip.get(path).cloned() {
                None if is_above(path, self.tip) => {
                    return Ok(refuse(LeftOutWhy::Conflict, "the branch has a directory there"));
                }
                None => {
                    if new.is_some_and(|(new, _)| new == path) {
                        settled.notes.push((path.clone(), Note::WasUntracked));
                    }
                }
                Some(item) => match self.compare(path, entry, &item)? {
                    Same::Yes => had = Some(item),
                    Same::ButLineEndings => {
                        if new.is_some() {
                            settled.notes.push((path.clone(), Note::LineEndings));
                        }
                        had = Some(item);
                    }
                    Same::No => {
                        return Ok(refuse(LeftOutWhy::Conflict, "the branch has another content there"));
                    }
                },
            }
        }
        let mut acts = Vec::new();
        if let (Some((path, _)), true) = (old, had.is_some())
            && new.is_none_or(|(new, _)| new != path)
        {
            acts.push(Act::Remove(path.clone()));
        }
        let Some((path, entry)) = new else { return Ok(Ok(acts)) };
        if old.is_none_or(|(old, _)| old != path) {
            if let Some(item) = self.tip.get(path).cloned()
                && !free.contains(path)
            {
                return Ok(match self.compare_new(path, entry, &item)? {
                    Same::Yes => Ok(acts),
                    _ => refuse(LeftOutWhy::Conflict, "the branch has something else there already"),
                });
            }
            let below = self.tip.range(path.clone()..).take_while(|(at, _)| at.starts_with(path));
            if below.filter(|(at, _)| *at != path).any(|(at, _)| !gone.contains(at)) {
                return Ok(refuse(LeftOutWhy::Conflict, "the branch has a directory there"));
            }
            let mut above = path.parent();
            while let Some(at) = above.filter(|at| !at.is_root()) {
                if self.tip.contains_key(&at) && !gone.contains(&at) {
                    return Ok(refuse(
                        LeftOutWhy::Conflict,
                        "the branch has a file where a directory would be",
                    ));
                }
                above = at.parent();
            }
            if !self.tip.contains_key(path) {
                settled.untracked.push(path.clone());
            }
        } else if had.is_none() {
            settled.untracked.push(path.clone());
        }
        let runs = |entry: &Entry| entry.mode & 0o100 != 0;
        let mode = match (&had, old) {
            // A bit that the lane did not touch stays what the branch says.
            (Some(item), Some((_, was))) if was.kind == entry.kind && runs(was) == runs(entry) => item.mode,
            _ if entry.kind == Kind::Symlink => 0o120_000,
            _ if runs(entry) => 0o100_755,
            _ => 0o100_644,
        };
        acts.push(match had {
            Some(item) if !pair.content_differs => Act::Set(path.clone(), Item { mode, id: item.id }),
            _ => Act::Put(path.clone(), mode, entry.clone()),
        });
        Ok(Ok(acts))
    }

    /// True for a directory that is the top of another repository, in the origin or in the lane.
    fn is_nested(&mut self, dir: &TreePath) -> Result<bool> {
        if let Some(known) = self.nested.get(dir) {
            return Ok(*known);
        }
        let dot_git = dir.join(".git");
        let mut nested = false;
        for tree in [self.base, self.lane] {
            // Below a path that is no directory there is nothing.
            nested |= tree.entry(&dot_git).unwrap_or(None).is_some();
        }
        self.nested.insert(dir.clone(), nested);
        Ok(nested)
    }

    fn compare(&mut self, path: &TreePath, entry: &Entry, item: &Item) -> Result<Same> {
        same(self.base, path, entry, item, self.blobs)
    }

    fn compare_new(&mut self, path: &TreePath, entry: &Entry, item: &Item) -> Result<Same> {
        same(self.lane, path, entry, item, self.blobs)
    }
}

/// Whether two contents are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    Yes,
    ButLineEndings,
    No,
}

/// Compares an entry of a tree with an object.
pub(super) fn same(
    tree: &dyn Source,
    path: &TreePath,
    entry: &Entry,
    item: &Item,
    blobs: &mut Blobs,
) -> Result<Same> {
    if item.is_submodule() || item.is_link() != (entry.kind == Kind::Symlink) {
        return Ok(Same::No);
    }
    let Some(blob) = blobs.read(&item.id, entry.size.max(entry.target.len() as u64))? else {
        return Ok(Same::No);
    };
    if entry.kind == Kind::Symlink {
        return Ok(if blob == entry.target { Same::Yes } else { Same::No });
    }
    if blob.len() as u64 != entry.size && entry.size > TEXT {
        return Ok(Same::No);
    }
    let doing = || format!("read {}", path.as_path().display());
    let mut content = Vec::new();
    File::from(tree.open(path).doing(doing)?)
        .read_to_end(&mut content)
        .asked("read", path.as_bytes())
        .doing(doing)?;
    Ok(if content == blob {
        Same::Yes
    } else if without_returns(&content).eq(blob.iter().copied()) {
        Same::ButLineEndings
    } else {
        Same::No
    })
}

/// The bytes without each carriage return that stands before a newline.
fn without_returns(content: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let is_ending = |at: usize| content[at] == b'\r' && content.get(at + 1) == Some(&b'\n');
    (0..content.len()).filter(move |at| !is_ending(*at)).map(|at| content[at])
}

/// True where the commit has something below `path`.
fn is_above(path: &TreePath, tip: &Items) -> bool {
    tip.range(path.clone()..).take_while(|(at, _)| at.starts_with(path)).any(|(at, _)| at != path)
}

/// Names that some filesystems take for `.git`; git refuses them in a tree.
fn is_gits_own(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b"git~1")
}

#[cfg(test)]
mod tests {
    use super::{is_gits_own, without_returns};

    #[test]
    fn only_returns_before_newlines_are_left_away() {
        assert!(without_returns(b"a\r\nb\rc\n\r\n\r").eq(*b"a\nb\rc\n\n\r"));
    }

    #[test]
    fn names_that_mean_dot_git_somewhere_are_git_s_own() {
        for name in [&b".git"[..], b".GIT", b"git~1", b"GIT~1"] {
            assert!(is_gits_own(name));
        }
        assert!(!is_gits_own(b".gitignore") && !is_gits_own(b"git"));
    }
}
