//! [`After`]: a tree as it will be once a plan is carried out, and two lists of changes, one made on top of the other, as
//! one: what several lanes bring together is planned with it. Nothing is written.
//!
//! Invariant: what the pairs do not speak of is what stands below, entry and content; of what they bring, entry, listing,
//! content and attributes are those of the tree that the plan is carried out from. Carrying out the composed list is
//! carrying out the first and then the second.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use kernel::{Errno, Error, Result};
use tree::source::Xattr;
use tree::{ChangeSet, Entry, Source, TreePath};

use crate::flat::{self, Pair};
use crate::threeway::changes_of;

/// A tree after a plan.
pub struct After {
    under: Rc<dyn Source>,
    from: Rc<dyn Source>,
    /// What comes, with the mode that it gets.
    new: BTreeMap<TreePath, u32>,
    gone: BTreeSet<TreePath>,
}

impl std::fmt::Debug for After {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("After").field("new", &self.new).field("gone", &self.gone).finish_non_exhaustive()
    }
}

impl After {
    /// `under` after a plan that is carried out from the tree `from` and comes to `pairs` ([`crate::outcome::pairs`]).
    pub fn new(under: Rc<dyn Source>, from: Rc<dyn Source>, pairs: &[Pair]) -> After {
        let new: BTreeMap<TreePath, u32> = pairs
            .iter()
            .filter_map(|pair| pair.new.as_ref())
            .map(|(path, entry)| (path.clone(), entry.mode))
            .collect();
        let gone = pairs
            .iter()
            .filter_map(|pair| pair.old.as_ref())
            .filter(|(path, _)| !new.contains_key(path))
            .map(|(path, _)| path.clone())
            .collect();
        After { under, from, new, gone }
    }

    /// The tree that answers for `path`; none where nothing is there.
    fn tree(&self, path: &TreePath) -> Option<&dyn Source> {
        if self.new.contains_key(path) {
            Some(&*self.from)
        } else if self.gone.contains(path) {
            None
        } else {
            Some(&*self.under)
        }
    }

    fn there(&self, call: &'static str, path: &TreePath) -> Result<&dyn Source> {
        self.tree(path).ok_or_else(|| Error::new(call, path.as_bytes(), Errno::NOENT))
    }
}

impl Source for After {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        let Some(tree) = self.tree(path) else { return Ok(None) };
        let entry = tree.entry(path)?;
        Ok(entry.map(|entry| match self.new.get(path) {
            Some(mode) => Entry { mode: *mode, ..entry },
            None => entry,
        }))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        let is_new = self.new.contains_key(path);
        if is_new && !self.from.entry(path)?.is_some_and(|entry| entry.is_dir()) {
            return Err(Error::new("openat2", path.as_bytes(), Errno::NOTDIR));
        }
        if self.gone.contains(path) {
            return Err(Error::new("openat2", path.as_bytes(), Errno::NOENT));
        }
        // A directory that comes may have stood there before. One that came from elsewhere has all that is in it in the list.
        let stood = !is_new || matches!(self.under.entry(path), Ok(Some(entry)) if entry.is_dir());
        let names = if stood { self.under.list(path)? } else { Vec::new() };
        let mut names: BTreeSet<Vec<u8>> = names.into_iter().collect();
        let is_child = |at: &&TreePath| at.parent().as_ref() == Some(path);
        for at in self.gone.range(path.clone()..).take_while(|at| at.starts_with(path)).filter(is_child) {
            names.remove(at.name());
        }
        let new = self.new.range(path.clone()..).map(|(at, _)| at);
        for at in new.take_while(|at| at.starts_with(path)).filter(is_child) {
            names.insert(at.name().to_vec());
        }
        Ok(names.into_iter().collect())
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        self.there("openat2", path)?.open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        self.there("lgetxattr", path)?.xattrs(path)
    }
}

/// Two lists of pairs as one: `then` was made for what `first` comes to.
pub fn compose(first: Vec<Pair>, then: &[Pair]) -> Vec<Pair> {
    let place = |pair: &Pair| pair.new.as_ref().map(|(path, _)| path.clone());
    let mut came: BTreeMap<TreePath, Pair> = BTreeMap::new();
    let mut gone: BTreeMap<TreePath, Pair> = BTreeMap::new();
    for pair in first {
        match place(&pair) {
            Some(path) => drop(came.insert(path, pair)),
            None => drop(gone.insert(pair.path().clone(), pair)),
        }
    }
    let mut second = Vec::with_capacity(then.len());
    for pair in then {
        let earlier = pair.old.as_ref().and_then(|(path, _)| came.remove(path));
        second.push(match earlier {
            Some(earlier) => Pair {
                content_differs: earlier.content_differs || pair.content_differs || earlier.old.is_none(),
                old: earlier.old,
                new: pair.new.clone(),
            },
            None => pair.clone(),
        });
    }
    for pair in second {
        match (place(&pair), &pair.old) {
            (Some(path), _) => drop(came.insert(path, pair)),
            (None, Some((path, _))) => drop(gone.insert(path.clone(), pair)),
            // It came with the first and went with the second.
            (None, None) => {}
        }
    }
    // What went and came again at its place was changed.
    for (path, pair) in &mut came {
        if pair.old.is_none()
            && let Some(was) = gone.remove(path)
        {
            pair.old = was.old;
        }
    }
    let is_nothing = |pair: &Pair| match (&pair.old, &pair.new) {
        (Some((from, old)), Some((to, new))) => {
            from == to && old.is_dir() && new.is_dir() && old.mode == new.mode
        }
        _ => false,
    };
    let mut pairs: Vec<Pair> = came.into_values().chain(gone.into_values()).collect();
    pairs.retain(|pair| !(pair.content_differs && is_nothing(pair)));
    pairs.sort_by(|a, b| a.path().cmp(b.path()).then(a.new.is_none().cmp(&b.new.is_none())));
    pairs
}

/// Pairs as a set of changes, in which no directory is renamed as a whole.
pub fn as_set(pairs: Vec<Pair>) -> ChangeSet {
    let mut set =
        ChangeSet { changes: pairs.into_iter().flat_map(changes_of).collect(), ..ChangeSet::default() };
    set.sort();
    set
}

/// The directories that a set renames: from, to.
pub fn renamed_dirs(set: &ChangeSet) -> Vec<(TreePath, TreePath)> {
    flat::dir_renames(set).into_iter().map(|(from, to)| (from.clone(), to.clone())).collect()
}

#[cfg(test)]
mod tests;
