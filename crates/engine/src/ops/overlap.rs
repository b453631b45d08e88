//! `overlap`: what two lanes of one project both touch, told before any of it is kept.
//!
//! Invariant: it only reads. What is not told was touched by one of the lanes alone.

use std::path::{Path, PathBuf};

use review::diff::{FileDiff, Hunk};
use review::flat::Pair;
use tree::{Change, ChangeKind, Source, TreePath};

use super::compare::{self, Meeting, Two};
use crate::engine::Engine;
use crate::error::Result;

/// How two lanes meet at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Both did the same to it.
    Same,
    /// Both changed it, in lines that are apart.
    Apart,
    /// Both changed the same lines, or lines that touch.
    Lines,
    /// Both changed it, and not in lines.
    Whole,
    /// One changed something at or below a place that the other one removed, moved or replaced.
    Below,
}

impl Overlap {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Overlap::Same => "same",
            Overlap::Apart => "apart",
            Overlap::Lines => "lines",
            Overlap::Whole => "whole",
            Overlap::Below => "below",
        }
    }

    /// True where not both can be kept as they are.
    pub fn is_clash(self) -> bool {
        !matches!(self, Overlap::Same | Overlap::Apart)
    }
}

/// Lines of the base that a hunk changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The hunk's id.
    pub id: String,
    /// The first line, from 1; where lines are only added, the one before which they stand.
    pub start: u32,
    /// How many.
    pub lines: u32,
}

/// A path that two lanes touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Met {
    /// The two lanes.
    pub lanes: [String; 2],
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// How.
    pub what: Overlap,
    /// The hunks that meet.
    pub hunks: Vec<[Touched; 2]>,
}

/// What the lanes both touch, pair by pair. Without names, all lanes of the project.
pub fn overlap(engine: &Engine, dir: &Path, names: &[String]) -> Result<(Vec<String>, Vec<Met>)> {
    let names = if names.is_empty() { super::list::names(engine, dir)? } else { names.to_vec() };
    let mut found = Vec::new();
    for (at, left) in names.iter().enumerate() {
        for right in names.iter().skip(at + 1).filter(|right| *right != left) {
            let two = compare::open(engine, dir, [left, right])?;
            pair(&two, &mut found)?;
        }
    }
    Ok((names, found))
}

fn pair(two: &Two, found: &mut Vec<Met>) -> Result<()> {
    let files = two.files()?;
    let lanes = [two.views[0].name.clone(), two.views[1].name.clone()];
    for met in &files {
        let (what, hunks) = match (&met.meeting, &met.changes) {
            (Meeting::Same, _) => (Overlap::Same, Vec::new()),
            (Meeting::Different, [Some(left), Some(right)]) => {
                let (left_base, right_base) = two.base_trees(met.root_index)?;
                let (left_now, right_now) = two.lane_trees(met.root_index)?;
                let left_diff = diff(left, &*left_base, &*left_now)?;
                let right_diff = diff(right, &*right_base, &*right_now)?;
                different(left, right, &left_diff, &right_diff)
            }
            (meeting, changes) => {
                let side = usize::from(*meeting == Meeting::Right);
                let gone = |other: &compare::Met| {
                    let change = other.changes[1 - side].as_ref();
                    other.root_index == met.root_index && change.is_some_and(|gone| takes(gone, &met.path))
                };
                let from = changes[side].as_ref().map(Change::old_path);
                let moved = |other: &compare::Met| {
                    let change = other.changes[1 - side].as_ref();
                    other.root_index == met.root_index
                        && from
                            .is_some_and(|from| *from != met.path && other.path == *from && change.is_some())
                };
                if !files.iter().any(|other| gone(other) || moved(other)) {
                    continue;
                }
                (Overlap::Below, Vec::new())
            }
        };
        let (root, path) = (met.root.clone(), met.path.clone());
        found.push(Met { lanes: lanes.clone(), root, path, what, hunks });
    }
    Ok(())
}

/// True where `change` removes, moves or replaces `path` or a directory above it.
fn takes(change: &Change, path: &TreePath) -> bool {
    let was_dir = change.old.as_ref().is_some_and(tree::Entry::is_dir);
    match &change.kind {
        ChangeKind::Rename { from, .. } => path.starts_with(from),
        ChangeKind::Delete | ChangeKind::Retype => {
            was_dir && *path != change.path && path.starts_with(&change.path)
        }
        // A file where the other one has a directory.
        ChangeKind::Add => {
            change.new.as_ref().is_some_and(|new| !new.is_dir())
                && *path != change.path
                && path.starts_with(&change.path)
        }
        ChangeKind::Modify | ChangeKind::Mode => false,
    }
}

fn diff(change: &Change, base: &dyn Source, lane: &dyn Source) -> Result<FileDiff> {
    let side =
        |path: &TreePath, entry: &Option<tree::Entry>| entry.clone().map(|entry| (path.clone(), entry));
    let old = side(change.old_path(), &change.old);
    let pair = Pair { old, new: side(&change.path, &change.new), content_differs: true };
    Ok(review::stat::pair_diff(&pair, base, lane)?)
}

fn different(
    left: &Change,
    right: &Change,
    left_diff: &FileDiff,
    right_diff: &FileDiff,
) -> (Overlap, Vec<[Touched; 2]>) {
    let is_file = |change: &Change| {
        let both = [change.old.as_ref(), change.new.as_ref()];
        both.iter().all(|entry| entry.is_some_and(tree::Entry::is_file)) && change.old_path() == &change.path
    };
    let modes = |change: &Change| change.old.as_ref().map(|e| e.mode) != change.new.as_ref().map(|e| e.mode);
    if !is_file(left)
        || !is_file(right)
        || left_diff.binary
        || right_diff.binary
        || (modes(left) && modes(right))
    {
        return (Overlap::Whole, Vec::new());
    }
    let meeting = review::overlap::meeting(left_diff, right_diff);
    // The same hunk in both is no clash.
    let hunks: Vec<[Touched; 2]> = meeting
        .into_iter()
        .map(|(l, r)| (&left_diff.hunks[l], &right_diff.hunks[r]))
        .filter(|(l, r)| l.id != r.id)
        .map(|(l, r)| [touched(l), touched(r)])
        .collect();
    (if hunks.is_empty() { Overlap::Apart } else { Overlap::Lines }, hunks)
}

fn touched(hunk: &Hunk) -> Touched {
    let runs = review::overlap::changed_lines(hunk);
    let (start, end) = (runs.first().map_or(0, |run| run.0), runs.last().map_or(0, |run| run.1));
    Touched { id: hunk.id.clone(), start: start + 1, lines: end - start }
}
