//! One line for each changed entry: how many lines came and went. It owns the reading of both sides
//! for a line diff; what a binary or very large file holds is never loaded whole.

use std::collections::BTreeSet;

use tree::{ChangeSet, Entry, Kind, Source, TreePath};

use crate::diff::{self, FileDiff};
use crate::error::Result;
use crate::flat::{self, Pair};
use crate::read::{TEXT_LIMIT, content};

/// What changed in one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// Where (for a deletion: in the base).
    pub path: TreePath,
    /// Where it stood in the base, if elsewhere.
    pub from: Option<TreePath>,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// Not compared by lines: binary, or very large.
    pub binary: bool,
    /// Size in the base.
    pub old_size: u64,
    /// Size in the lane.
    pub new_size: u64,
}

/// The line diff of both sides of a pair. A side that is no file has no lines; a link is compared by
/// its target. Hunk ids include the path.
pub fn pair_diff(pair: &Pair, base: &dyn Source, lane: &dyn Source) -> Result<FileDiff> {
    pair_diff_in(b"", pair, base, lane)
}

/// As [`pair_diff`], with hunk ids that also tell roots apart: `root` is the root's path, empty for the first one.
pub fn pair_diff_in(root: &[u8], pair: &Pair, base: &dyn Source, lane: &dyn Source) -> Result<FileDiff> {
    let side = |source, name, side: &Option<(TreePath, Entry)>| match side {
        Some((path, entry)) if matches!(entry.kind, Kind::File | Kind::Symlink) => {
            // Too large for lines reads as binary.
            content(source, name, path, entry, TEXT_LIMIT).map(|bytes| (true, bytes))
        }
        _ => Ok((false, None)),
    };
    if !pair.content_differs {
        return Ok(FileDiff::default());
    }
    let (had, old) = side(base, "base", &pair.old)?;
    let (has, new) = side(lane, "lane", &pair.new)?;
    if (had && old.is_none()) || (has && new.is_none()) {
        return Ok(FileDiff { binary: true, ..FileDiff::default() });
    }
    // No path holds a NUL.
    let name = match root {
        b"" => pair.path().as_bytes().to_vec(),
        _ => [root, b"\0", pair.path().as_bytes()].concat(),
    };
    Ok(diff::named_diff(&name, old.as_deref(), new.as_deref()))
}

/// The statistics of a change set: files, links and pipes, in the order of [`flat::flatten`].
pub fn stat(set: &ChangeSet, base: &dyn Source, lane: &dyn Source) -> Result<Vec<FileStat>> {
    let mut stats = Vec::new();
    for pair in flat::flatten(set, base, lane, &BTreeSet::new())? {
        let is_dir = |side: &Option<(TreePath, Entry)>| side.as_ref().is_none_or(|side| side.1.is_dir());
        if is_dir(&pair.old) && is_dir(&pair.new) {
            continue;
        }
        let diff = pair_diff(&pair, base, lane)?;
        let (added, removed) = diff.counts();
        let size = |side: &Option<(TreePath, Entry)>| {
            side.as_ref().filter(|side| !side.1.is_dir()).map_or(0, |side| side.1.size)
        };
        stats.push(FileStat {
            path: pair.path().clone(),
            from: pair.old.as_ref().filter(|_| pair.is_rename()).map(|side| side.0.clone()),
            added,
            removed,
            binary: diff.binary,
            old_size: size(&pair.old),
            new_size: size(&pair.new),
        });
    }
    Ok(stats)
}
