//! Taking an advance of the base back: what a manifest said of the paths of a keep, set aside before the keep and put
//! back when it is undone.
//!
//! Invariant: a path says again what it said before. Where what stands there now is what it spoke of, brought back, it says
//! so of it as it is now; where the origin had drifted before the keep, it has drifted afterwards.

use std::collections::{BTreeMap, BTreeSet};

use tree::dir::DirTree;
use tree::{Entry, TreePath};

use super::{Draft, Manifest, Recorded, file_name, is_same_state, path_of};
use crate::error::{Doing as _, Result};
use crate::home::HomeDir;

impl Manifest {
    /// Sets aside, under `name` in the lane's directory, what is recorded of `paths`, of everything below them and of
    /// the directories above.
    pub fn set_aside(&self, paths: &[TreePath], home: &HomeDir, name: &str) -> Result<()> {
        let mut wanted: BTreeMap<TreePath, Recorded> = BTreeMap::new();
        for path in paths {
            for at in with_parents(path) {
                if wanted.contains_key(&at) {
                    break;
                }
                if let Some(recorded) = self.get(&at)? {
                    wanted.insert(at, recorded);
                }
            }
            if wanted.get(path).is_some_and(|was| was.entry.is_dir()) {
                for told in self.below(path)? {
                    let (below, recorded) = told?;
                    wanted.insert(below, recorded);
                }
            }
        }
        let mut draft = Draft::begin(home)?;
        for (path, recorded) in &wanted {
            draft.push(path, &recorded.entry, recorded.is_later)?;
        }
        draft.publish(name)
    }

    /// What was set aside under `name`.
    pub fn aside(home: &HomeDir, name: &str) -> Result<Option<Manifest>> {
        Manifest::load_named(home, name)
    }

    /// Publishes, as the manifest of root `index`, this one with what `aside` says of `paths`, of what is below and of the
    /// directories above. `before` is what stood there before the keep.
    pub fn retreat(
        &self,
        aside: &Manifest,
        paths: &[TreePath],
        before: &[(TreePath, Entry)],
        origin: &DirTree,
        home: &HomeDir,
        index: usize,
    ) -> Result<()> {
        let mut domain: BTreeSet<TreePath> = paths.iter().flat_map(with_parents).collect();
        let mut back: BTreeMap<TreePath, Recorded> = BTreeMap::new();
        let before: BTreeMap<&TreePath, &Entry> = before.iter().map(|(path, was)| (path, was)).collect();
        for told in aside.iter() {
            let (path, recorded) = told?;
            back.insert(path.clone(), now(&path, recorded, before.get(&path).copied(), origin)?);
            domain.insert(path);
        }
        // What came with the keep goes with it.
        let new: Vec<&TreePath> =
            paths.iter().filter(|path| !back.get(path).is_some_and(|was| was.entry.is_dir())).collect();
        let goes = |path: &TreePath| {
            domain.contains(path)
                || std::iter::successors(path.parent(), TreePath::parent)
                    .any(|above| new.binary_search(&&above).is_ok())
        };
        let mut draft = Draft::begin(home)?;
        let mut back = back.into_iter().peekable();
        for told in self.iter() {
            let (path, recorded) = told?;
            while let Some((other, was)) = back.next_if(|(other, _)| *other <= path) {
                draft.push(&other, &was.entry, was.is_later)?;
            }
            if !goes(&path) {
                draft.push(&path, &recorded.entry, recorded.is_later)?;
            }
        }
        for (path, was) in back {
            draft.push(&path, &was.entry, was.is_later)?;
        }
        for gap in self.unread() {
            draft.push_unread(&gap);
        }
        draft.publish(&file_name(index))
    }

    /// The same where nothing was set aside, because the manifest does not speak of what was done: what it has recorded of
    /// `before`, which was away for a while, is no drift; nor is what has other metadata than `paths` had for a while.
    pub fn renew(
        &self,
        paths: &[TreePath],
        before: &[(TreePath, Entry)],
        origin: &DirTree,
        home: &HomeDir,
        index: usize,
    ) -> Result<()> {
        let mut is_known = false;
        for path in paths.iter().chain(before.iter().map(|(path, _)| path)) {
            is_known |= self.get(path)?.is_some();
        }
        if !is_known {
            return Ok(());
        }
        let paths: BTreeSet<&TreePath> = paths.iter().collect();
        let before: BTreeMap<&TreePath, &Entry> = before.iter().map(|(path, was)| (path, was)).collect();
        let mut draft = Draft::begin(home)?;
        for told in self.iter() {
            let (path, recorded) = told?;
            let recorded = match before.get(&path).copied() {
                None if !paths.contains(&path) => recorded,
                was => now(&path, recorded, was, origin)?,
            };
            draft.push(&path, &recorded.entry, recorded.is_later)?;
        }
        for gap in self.unread() {
            draft.push_unread(&gap);
        }
        draft.publish(&file_name(index))
    }
}

fn with_parents(path: &TreePath) -> impl Iterator<Item = TreePath> + use<> {
    std::iter::successors(Some(path.clone()), TreePath::parent)
}

/// What is to be said of a path of which `recorded` was said before the keep; `was` stood there then.
fn now(path: &TreePath, recorded: Recorded, was: Option<&Entry>, origin: &DirTree) -> Result<Recorded> {
    let there = tree::Source::entry(origin, path).doing("look at", path_of(path.as_bytes()))?;
    let Some(there) = there else { return Ok(recorded) };
    let is_back =
        there.kind == recorded.entry.kind && was.is_some_and(|was| is_same_state(&recorded.entry, was));
    // Of what was not displaced only the status change time may be another one.
    let was_here = is_same_state(&recorded.entry, &Entry { ctime: recorded.entry.ctime, ..there.clone() })
        || there.is_dir() && (there.ino, there.mode) == (recorded.entry.ino, recorded.entry.mode);
    Ok(if is_back || was_here { Recorded { entry: there, ..recorded } } else { recorded })
}
