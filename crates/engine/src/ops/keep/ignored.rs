//! Which of the paths of a commit git ignores: by the rules as they will be, which are read as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;

use kernel::error::Asked as _;
use review::flat::Pair;
use tree::{Kind, Source, TreePath};
use workspace::git::scratch::RULES_LIMIT;

use super::commit::Bench;
use crate::error::{Doing as _, Result};

/// Which of the new paths git ignores by the rules as they will be, and that nobody named.
pub(super) fn ignored(
    bench: &Bench,
    pairs: &[Pair],
    untracked: &[TreePath],
    asked: &[TreePath],
    base: &dyn Source,
    lane: &dyn Source,
) -> Result<Vec<TreePath>> {
    let new: BTreeSet<&TreePath> = pairs.iter().filter_map(|pair| Some(&pair.new.as_ref()?.0)).collect();
    let moved = pairs.iter().filter(|pair| pair.new.is_none() || pair.is_rename());
    let gone: BTreeSet<&TreePath> = moved.filter_map(|pair| Some(&pair.old.as_ref()?.0)).collect();
    let rules = rules(untracked, &|path| match () {
        () if new.contains(path) => Some(lane),
        () if gone.contains(path) => None,
        () => Some(base),
    })?;
    let asked: Vec<TreePath> = asked.iter().filter(|path| !path.is_root()).cloned().collect();
    let is_dir = |path: &&TreePath| lane.entry(path).unwrap_or(None).is_some_and(|entry| entry.is_dir());
    let asked_dirs: Vec<TreePath> = asked.iter().filter(is_dir).cloned().collect();
    let all: Vec<TreePath> = untracked.iter().chain(&asked).cloned().collect();
    let found = bench.scratch.ignored(&bench.repository, &rules, &all, &asked_dirs)?;
    let found: BTreeSet<TreePath> = found.into_iter().collect();
    let named: Vec<&TreePath> = asked.iter().filter(|path| found.contains(path)).collect();
    let stays = |path: &&TreePath| found.contains(path) && !named.iter().any(|named| path.starts_with(named));
    Ok(untracked.iter().filter(stays).cloned().collect())
}

/// Which paths git ignores by the rules of one tree.
pub(super) fn ignored_in(
    bench: &Bench,
    untracked: &[TreePath],
    tree: &dyn Source,
) -> Result<BTreeSet<TreePath>> {
    let rules = rules(untracked, &|_| Some(tree))?;
    Ok(bench.scratch.ignored(&bench.repository, &rules, untracked, &[])?.into_iter().collect())
}

/// The files of rules in the directories above some paths, each out of the tree that `from` says.
fn rules<'t>(
    paths: &[TreePath],
    from: &dyn Fn(&TreePath) -> Option<&'t dyn Source>,
) -> Result<Vec<(TreePath, Vec<u8>)>> {
    let mut dirs: Vec<TreePath> = paths.iter().filter_map(TreePath::parent).collect();
    let mut found: BTreeMap<TreePath, Vec<u8>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    while let Some(dir) = dirs.pop() {
        if !seen.insert(dir.clone()) {
            continue;
        }
        dirs.extend(dir.parent());
        let path = dir.join(".gitignore");
        let Some(tree) = from(&path) else { continue };
        // Git reads the rules out of a file alone, and so do we.
        if let Some(entry) = tree.entry(&path).unwrap_or(None).filter(|entry| entry.kind == Kind::File) {
            found.insert(path.clone(), content(tree, &path, entry.size.min(RULES_LIMIT + 1))?);
        }
    }
    Ok(found.into_iter().collect())
}

fn content(source: &dyn Source, path: &TreePath, size: u64) -> Result<Vec<u8>> {
    let doing = || format!("read {}", path.as_path().display());
    let file = File::from(source.open(path).doing(doing)?);
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).asked("read", path.as_bytes()).doing(doing)?;
    Ok(bytes)
}
