//! From what is to be kept to what that means on top of a commit: what is put, what goes, and what cannot be said there.
//!
//! Invariant: where the commit has something else than the lane's change was made for, the three are put together as files
//! are, so that nobody's work in the branch is undone by it; where they do not go together, the path is not taken, unless
//! the caller said who wins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;

use kernel::error::Asked as _;
use review::flat::{Pair, Side};
use review::merge::{self, Merged, Names, Three};
use review::table::Did;
use review::threeway::{Clash, Conflicts};
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
    /// Content that is neither side's own stands there, with this mode.
    Made(TreePath, u32, Vec<u8>),
}

/// What does not go together with the commit.
#[derive(Debug, Clone)]
pub(super) struct Met {
    pub(super) path: TreePath,
    pub(super) clash: Clash,
    pub(super) settled: Option<Conflicts>,
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
    pub(super) conflicts: Vec<Met>,
    /// Paths in which lines of both sides are.
    pub(super) merged: Vec<TreePath>,
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
    /// What the lane started from held; nothing where that is not known.
    pub(super) was: &'g Items,
    pub(super) how: Conflicts,
    pub(super) names: &'g Names,
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

fn did(lane: Did, original: Did) -> Clash {
    Clash::Did { lane, original }
}

/// Git's mode of what comes: a bit that the lane did not touch stays what the branch says.
fn mode_of(had: Option<&Item>, was: Option<&Entry>, entry: &Entry) -> u32 {
    let runs = |entry: &Entry| entry.mode & 0o100 != 0;
    match (had, was) {
        (Some(item), Some(was)) if was.kind == entry.kind && runs(was) == runs(entry) => item.mode,
        _ if entry.kind == Kind::Symlink => 0o120_000,
        _ if runs(entry) => 0o100_755,
        _ => 0o100_644,
    }
}

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
        // Where the commit has what the base had at the old path.
        let mut from = old.map(|(path, _)| path.clone());
        let mut met = false;
        if let Some((path, entry)) = old {
            match self.tip.get(path).cloned() {
                None if is_above(path, self.tip) => {
                    return Ok(self.stop(pair, did(Did::Content, Did::Retype), settled));
                }
                None => match (self.was.get(path), new) {
                    // The branch took it away as well.
                    (Some(_), None) => {}
                    (Some(was), Some(_)) => match self.moved(was) {
                        Some((to, item)) => {
                            (from, had, met) =
                                (Some(to), Some(item.clone()), !self.is_base(path, entry, &item)?);
                        }
                        None => return Ok(self.unsettled(pair, did(Did::Content, Did::Delete), settled)),
                    },
                    (None, Some((new, _))) if new == path => {
                        settled.notes.push((path.clone(), Note::WasUntracked));
                    }
                    (None, _) => {}
                },
                Some(item) => {
                    match self.compare(path, entry, &item)? {
                        Same::Yes => {}
                        Same::ButLineEndings if new.is_some() => {
                            settled.notes.push((path.clone(), Note::LineEndings));
                        }
                        Same::ButLineEndings => {}
                        Same::No => met = true,
                    }
                    had = Some(item);
                }
            }
        }
        if met && let (Some((path, entry)), Some(item)) = (old, &had) {
            let is_type =
                |entry: &Entry| item.is_submodule() || item.is_link() != (entry.kind == Kind::Symlink);
            if is_type(entry) {
                let lane = if new.is_some() { Did::Content } else { Did::Delete };
                return Ok(self.unsettled(pair, did(lane, Did::Retype), settled));
            }
            let Some((at, new)) = new else {
                return Ok(self.unsettled(pair, did(Did::Delete, Did::Content), settled));
            };
            if new.kind != entry.kind {
                return Ok(self.unsettled(pair, did(Did::Retype, Did::Content), settled));
            }
            if pair.content_differs {
                return self.merge(pair, (path, entry), (at, new), item, from.as_ref(), settled);
            }
            // Mode or place alone: the commit's own content stays.
        }
        let mut acts = Vec::new();
        let Some((lane_path, entry)) = new else {
            acts.extend(from.filter(|_| had.is_some()).map(Act::Remove));
            return Ok(Ok(acts));
        };
        // What stayed at its place in the lane stays where the commit has it.
        let path = match (old, &from) {
            (Some((old, _)), Some(from)) if old == lane_path => from,
            _ => lane_path,
        };
        if had.is_some()
            && let Some(from) = from.as_ref().filter(|from| *from != path)
        {
            acts.push(Act::Remove(from.clone()));
        }
        if from.as_ref() != Some(path) {
            if let Some(item) = self.tip.get(path).cloned()
                && !free.contains(path)
            {
                return Ok(match self.compare_new(lane_path, entry, &item)? {
                    Same::Yes => Ok(acts),
                    _ if old.is_some() => self.stop(pair, Clash::PlaceTaken, settled),
                    _ => self.unsettled(pair, did(Did::Add, Did::Add), settled),
                });
            }
            let below = self.tip.range(path.clone()..).take_while(|(at, _)| at.starts_with(path));
            if below.filter(|(at, _)| *at != path).any(|(at, _)| !gone.contains(at)) {
                return Ok(self.stop(pair, did(Did::Add, Did::Add), settled));
            }
            let mut above = path.parent();
            while let Some(at) = above.filter(|at| !at.is_root()) {
                if self.tip.contains_key(&at) && !gone.contains(&at) {
                    return Ok(self.stop(pair, Clash::NotInDirectory(at), settled));
                }
                above = at.parent();
            }
            if !self.tip.contains_key(path) {
                settled.untracked.push(path.clone());
            }
        } else if had.is_none() {
            settled.untracked.push(path.clone());
        }
        let mode = mode_of(had.as_ref(), old.map(|(_, was)| was), entry);
        acts.push(match had {
            Some(item) if !pair.content_differs => Act::Set(path.clone(), Item { mode, id: item.id }),
            // It goes where the commit has it.
            _ if path != lane_path && entry.kind == Kind::Symlink => {
                Act::Made(path.clone(), mode, entry.target.clone())
            }
            _ if path != lane_path => Act::Made(path.clone(), mode, self.read(false, lane_path)?),
            _ => Act::Put(path.clone(), mode, entry.clone()),
        });
        Ok(Ok(acts))
    }

    /// The path is not taken.
    fn stop(&self, pair: &Pair, clash: Clash, settled: &mut Settled) -> Judged {
        let word = clash.word();
        settled.conflicts.push(Met { path: pair.path().clone(), clash, settled: None });
        refuse(LeftOutWhy::Conflict, word)
    }

    /// Both want something else and nothing is to be put together.
    fn unsettled(&self, pair: &Pair, clash: Clash, settled: &mut Settled) -> Judged {
        let settle = |settled: &mut Settled, clash| {
            settled.conflicts.push(Met { path: pair.path().clone(), clash, settled: Some(self.how) });
        };
        let blob = |side: &Option<Side>| side.clone().filter(is_blob);
        match self.how {
            Conflicts::Ours => {
                settle(settled, clash);
                Ok(Vec::new())
            }
            Conflicts::Theirs => {
                let (old, new) = (blob(&pair.old), blob(&pair.new));
                if new.as_ref().is_some_and(|(path, _)| is_above(path, self.tip)) {
                    return self.stop(pair, clash, settled);
                }
                settle(settled, clash);
                let goes = old.as_ref().map(|(path, _)| path.clone());
                let goes = goes.filter(|path| new.as_ref().is_none_or(|(new, _)| new != path));
                let mut acts: Vec<Act> =
                    goes.filter(|path| self.tip.contains_key(path)).map(Act::Remove).into_iter().collect();
                acts.extend(new.map(|(path, entry)| {
                    let had =
                        self.tip.get(&path).filter(|item| item.is_link() == (entry.kind == Kind::Symlink));
                    let mode = mode_of(had, old.as_ref().map(|(_, was)| was), &entry);
                    Act::Put(path, mode, entry)
                }));
                Ok(acts)
            }
            Conflicts::Stop | Conflicts::Markers => self.stop(pair, clash, settled),
        }
    }

    /// The contents of lane and commit, by lines.
    fn merge(
        &mut self,
        pair: &Pair,
        (base_path, base): (&TreePath, &Entry),
        (lane_path, lane): (&TreePath, &Entry),
        item: &Item,
        from: Option<&TreePath>,
        settled: &mut Settled,
    ) -> Result<Judged> {
        if lane.kind == Kind::Symlink {
            return Ok(self.unsettled(pair, did(Did::Content, Did::Content), settled));
        }
        let ours = match self.blobs.read(&item.id, TEXT)? {
            Some(ours) if base.size <= TEXT && lane.size <= TEXT => ours,
            _ => return Ok(self.unsettled(pair, Clash::Binary, settled)),
        };
        let (base_bytes, theirs) = (self.read(true, base_path)?, self.read(false, lane_path)?);
        let three = Three { base: &base_bytes, ours: &ours, theirs: &theirs };
        let (content, clash) = match merge::merge(three) {
            Merged::Clean(content) => (content, None),
            Merged::Binary => return Ok(self.unsettled(pair, Clash::Binary, settled)),
            Merged::Conflict(regions) => {
                let clash = Clash::Lines(regions);
                let content = match self.how {
                    Conflicts::Stop => None,
                    Conflicts::Markers => merge::with_markers(three, self.names),
                    Conflicts::Ours => merge::settle(three, false),
                    Conflicts::Theirs => merge::settle(three, true),
                };
                match content {
                    Some(content) => (content, Some(clash)),
                    None => return Ok(self.stop(pair, clash, settled)),
                }
            }
        };
        let stays = lane_path == base_path;
        let place = if stays { from.unwrap_or(lane_path) } else { lane_path }.clone();
        if !stays && self.tip.contains_key(&place) {
            return Ok(self.stop(pair, Clash::PlaceTaken, settled));
        }
        let mut acts: Vec<Act> =
            from.filter(|from| **from != place).cloned().map(Act::Remove).into_iter().collect();
        let mode = mode_of(Some(item), Some(base), lane);
        match clash {
            Some(clash) => {
                settled.conflicts.push(Met { path: pair.path().clone(), clash, settled: Some(self.how) });
            }
            None => settled.merged.push(place.clone()),
        }
        acts.push(if content == ours {
            Act::Set(place, Item { mode, id: item.id.clone() })
        } else {
            Act::Made(place, mode, content)
        });
        Ok(Ok(acts))
    }

    /// Where the commit has the object that the base had, where it stands there anew and nowhere else.
    fn moved(&self, was: &Item) -> Option<(TreePath, Item)> {
        let is_new = |path: &TreePath| !self.was.contains_key(path);
        let mut found = self.tip.iter().filter(|(path, item)| item.id == was.id && is_new(path));
        match (found.next(), found.next()) {
            (Some((path, item)), None) => Some((path.clone(), item.clone())),
            _ => None,
        }
    }

    /// True where the commit's object is what the lane's change was made for.
    fn is_base(&mut self, path: &TreePath, entry: &Entry, item: &Item) -> Result<bool> {
        Ok(self.compare(path, entry, item)? != Same::No)
    }

    fn read(&self, base: bool, path: &TreePath) -> Result<Vec<u8>> {
        let doing = || format!("read {}", path.as_path().display());
        let tree = if base { self.base } else { self.lane };
        let file = tree.open(path).doing(doing)?;
        kernel::bytes::read_all(&file).doing(doing)
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
