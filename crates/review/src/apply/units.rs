//! From the steps of a plan to whole objects: a new directory with all that is new in it is one
//! object, a removed directory with all that goes with it is one. Pure.
//!
//! Invariant: objects do not overlap: each path of the origin is touched by at most one of them.

use std::collections::{BTreeMap, BTreeSet};

use tree::{Entry, TreePath};

use super::journal::Seen;
use crate::plan::Step;

/// A new object at a place of its own in the staging directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// Where it is made: `n3`, or inside another new object, `n3/sub/file`.
    pub(crate) slot: TreePath,
    /// Its path in the lane.
    pub(crate) path: TreePath,
    pub(crate) entry: Entry,
    /// What it replaces.
    pub(crate) old: Option<Entry>,
    /// It has that one's content, so it keeps the modification time.
    pub(crate) keeps_time: bool,
}

/// Something of the origin that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lift {
    pub(crate) from: TreePath,
    pub(crate) to: TreePath,
    pub(crate) slot: TreePath,
    pub(crate) old: Entry,
}

/// One exchange with the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) path: TreePath,
    pub(crate) slot: TreePath,
    /// What goes: itself first (relative path of the root), then what is below it.
    pub(crate) old: Vec<Seen>,
    /// Something stands in `slot` to take its place.
    pub(crate) puts: bool,
}

/// The steps of a plan, gathered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) lifts: Vec<Lift>,
    /// Parents first.
    pub(crate) fresh: Vec<Fresh>,
    /// Objects to put in place, parents first, then removals.
    pub(crate) units: Vec<Unit>,
    pub(crate) metas: Vec<(TreePath, Entry, Entry)>,
    /// Moved directories: from, to.
    pub(crate) moved: Vec<(TreePath, TreePath)>,
}

enum Place {
    Root,
    Inside(TreePath),
}

impl Units {
    /// True where something is moved into a new directory, which has to stay open until it is there.
    pub(crate) fn waits(&self) -> bool {
        self.lifts.iter().any(|lift| lift.slot.components().count() > 1)
    }

    /// Gathers the steps.
    pub(crate) fn of(steps: &[Step]) -> Units {
        let mut units = Units::default();
        let mut made: BTreeSet<&TreePath> = BTreeSet::new();
        let mut moved_to: BTreeSet<&TreePath> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Put { path, new, .. } if new.is_dir() => {
                    made.insert(path);
                }
                Step::MoveDir { from, to, .. } => {
                    moved_to.insert(to);
                    units.moved.push((from.clone(), to.clone()));
                }
                _ => {}
            }
        }
        // The outermost new directory that holds a path; what is inside a moved directory waits for it.
        let place = |path: &TreePath| {
            let mut place = Place::Root;
            let mut above = path.parent();
            while let Some(dir) = above {
                if moved_to.contains(&dir) || !made.contains(&dir) {
                    break;
                }
                place = Place::Inside(dir.clone());
                above = dir.parent();
            }
            place
        };
        let mut going: BTreeMap<&TreePath, &Entry> = BTreeMap::new();
        let mut coming: BTreeMap<&TreePath, &Step> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put { path, old, .. } => {
                    coming.insert(path, step);
                    if let Some(old) = old {
                        going.insert(path, old);
                    }
                }
                Step::MoveDir { to, .. } | Step::Move { to, .. } => {
                    coming.insert(to, step);
                }
                Step::Delete { path, old } => {
                    going.insert(path, old);
                }
                Step::Meta { path, old, new } => units.metas.push((path.clone(), old.clone(), new.clone())),
            }
        }
        let mut lists = gone(&going, &moved_to);
        let mut slots: BTreeMap<TreePath, TreePath> = BTreeMap::new();
        for (path, step) in coming {
            let slot = match place(path) {
                Place::Root => {
                    let slot = TreePath::root().join(format!("n{}", slots.len()));
                    slots.insert(path.clone(), slot.clone());
                    let old = lists.remove(path).unwrap_or_default();
                    units.units.push(Unit { path: path.clone(), slot: slot.clone(), old, puts: true });
                    slot
                }
                Place::Inside(root) => {
                    let below = path.strip_prefix(&root).unwrap_or_default();
                    slots.get(&root).cloned().unwrap_or_default().join_path(&below)
                }
            };
            match step {
                Step::MoveDir { from, to, old } | Step::Move { from, to, old } => {
                    units.lifts.push(Lift { from: from.clone(), to: to.clone(), slot, old: old.clone() });
                }
                Step::Put { old, new, same_content, .. } => {
                    let (entry, old, keeps_time) = (new.clone(), old.clone(), *same_content);
                    units.fresh.push(Fresh { slot, path: path.clone(), entry, old, keeps_time });
                }
                Step::Meta { .. } | Step::Delete { .. } => {}
            }
        }
        for (count, (path, old)) in lists.into_iter().enumerate() {
            let slot = TreePath::root().join(format!("o{count}"));
            units.units.push(Unit { path, slot, old, puts: false });
        }
        units
    }
}

/// What goes, by the topmost path that goes with it. What goes from inside a moved directory goes after the move,
/// on its own: not with something that stood above the directory's new place before.
fn gone(
    going: &BTreeMap<&TreePath, &Entry>,
    moved_to: &BTreeSet<&TreePath>,
) -> BTreeMap<TreePath, Vec<Seen>> {
    let mut lists: BTreeMap<TreePath, Vec<Seen>> = BTreeMap::new();
    let mut tops: Vec<&TreePath> = Vec::new();
    for (path, old) in going {
        tops.retain(|top| path.starts_with(top));
        let moved = moved_to.iter().filter(|to| path.starts_with(to)).max_by_key(|to| to.as_bytes().len());
        let is_with = |top: &&TreePath| moved.is_none_or(|to| top.starts_with(to));
        let root = match tops.last().copied().filter(is_with) {
            Some(top) => top,
            None => {
                tops.push(path);
                path
            }
        };
        let below = path.strip_prefix(root).unwrap_or_default();
        lists.entry(root.clone()).or_default().push(Seen::of(below, old, true));
    }
    lists
}

#[cfg(test)]
mod tests {
    use tree::{Kind, Time};

    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).expect("a path")
    }

    fn entry(kind: Kind) -> Entry {
        let time = Time::default();
        Entry {
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: time,
            ctime: time,
            ino: 1,
            dev: 1,
            nlink: 1,
            allocated: 0,
            rdev: 0,
            target: Vec::new(),
        }
    }

    fn put(at: &str, old: Option<Kind>, new: Kind) -> Step {
        Step::Put { path: path(at), old: old.map(entry), new: entry(new), same_content: false }
    }

    fn delete(at: &str, kind: Kind) -> Step {
        Step::Delete { path: path(at), old: entry(kind) }
    }

    /// Each unit as path, slot, what goes, whether something comes.
    fn shown(units: &Units) -> Vec<String> {
        let unit = |unit: &Unit| {
            let old: Vec<String> = unit.old.iter().map(|seen| format!("{:?}", seen.path)).collect();
            format!("{:?} {:?} [{}] {}", unit.path, unit.slot, old.join(" "), unit.puts).replace('"', "")
        };
        units.units.iter().map(unit).collect()
    }

    #[test]
    fn a_new_directory_is_one_object_with_all_that_is_new_in_it() {
        let units = Units::of(&[
            put("a", None, Kind::Dir),
            put("a/b", None, Kind::Dir),
            put("a/b/c", None, Kind::File),
            put("x/y", None, Kind::File),
        ]);
        assert_eq!(shown(&units), ["a n0 [] true", "x/y n1 [] true"]);
        let slots: Vec<&TreePath> = units.fresh.iter().map(|fresh| &fresh.slot).collect();
        assert_eq!(slots, [&path("n0"), &path("n0/b"), &path("n0/b/c"), &path("n1")]);
    }

    #[test]
    fn a_removed_or_retyped_directory_is_one_object_with_all_that_goes_with_it() {
        let units = Units::of(&[
            put("d", Some(Kind::Dir), Kind::File),
            delete("gone/x", Kind::File),
            delete("gone", Kind::Dir),
            delete("d/x", Kind::File),
            delete("gone-too", Kind::File),
        ]);
        assert_eq!(shown(&units), ["d n0 [ x] true", "gone o0 [ x] false", "gone-too o1 [] false"]);
    }

    #[test]
    fn what_goes_from_a_moved_directory_does_not_go_with_what_it_replaces() {
        let units = Units::of(&[
            put("a", Some(Kind::File), Kind::Dir),
            Step::MoveDir { from: path("src"), to: path("a/lib"), old: entry(Kind::Dir) },
            delete("a/lib/gone", Kind::Dir),
            delete("a/lib/gone/x", Kind::File),
            put("a/lib/f", Some(Kind::File), Kind::File),
        ]);
        assert_eq!(shown(&units), ["a n0 [] true", "a/lib/f n1 [] true", "a/lib/gone o0 [ x] false"]);
    }

    #[test]
    fn what_changes_inside_a_moved_directory_waits_for_it() {
        let units = Units::of(&[
            Step::MoveDir { from: path("src"), to: path("new/lib"), old: entry(Kind::Dir) },
            put("new", None, Kind::Dir),
            put("new/lib/f", Some(Kind::File), Kind::File),
        ]);
        assert_eq!(shown(&units), ["new n0 [] true", "new/lib/f n1 [] true"]);
        assert_eq!(units.lifts[0].slot, path("n0/lib"));
    }
}
