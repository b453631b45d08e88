//! [`Selection`]: what a person asked to keep. Pure: paths in, yes or no out.

use std::collections::BTreeSet;

use tree::{Change, ChangeSet, TreePath};

use crate::flat::Pair;
use crate::guard::Reason;

/// What is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything that is not guarded.
    All,
    /// These paths, and everything at and below them.
    Paths(Vec<TreePath>),
    /// These changes, each by its own path.
    Exact(Exact),
}

/// Changes that were ticked one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exact {
    /// The paths of the ticked changes.
    pub paths: BTreeSet<TreePath>,
    /// Guarded paths that were named.
    pub named: Vec<TreePath>,
    /// The ticked renames of directories: from, to.
    pub moved: Vec<(TreePath, TreePath)>,
    /// Every path that a change of its own speaks of, in the base or in the lane.
    pub own: BTreeSet<TreePath>,
}

impl Exact {
    /// True where `path` is a ticked change, or only goes along with a ticked rename of a directory.
    fn covers(&self, path: &TreePath) -> bool {
        self.paths.contains(path) || self.is_along(path)
    }

    fn is_along(&self, path: &TreePath) -> bool {
        !self.own.contains(path)
            && self.moved.iter().any(|(from, to)| path.starts_with(from) || path.starts_with(to))
    }

    /// True where a change other than this one speaks of `at`.
    pub(crate) fn own_other(&self, set: &ChangeSet, this: &Change, at: &TreePath) -> bool {
        set.changes.iter().any(|change| change.path != this.path && change.path == *at)
    }
}

impl Selection {
    /// The selection of a list of arguments: none means everything.
    pub fn of(paths: Vec<TreePath>) -> Selection {
        if paths.is_empty() { Selection::All } else { Selection::Paths(paths) }
    }

    /// The same with further paths: where the original has what was asked for under other names.
    pub fn also(self, further: Vec<TreePath>) -> Selection {
        match self {
            Selection::All => Selection::All,
            Selection::Paths(mut paths) => {
                paths.extend(further);
                Selection::Paths(paths)
            }
            Selection::Exact(mut exact) => {
                exact.own.extend(further.iter().cloned());
                exact.paths.extend(further);
                Selection::Exact(exact)
            }
        }
    }

    /// True where `path` is asked for.
    pub fn covers(&self, path: &TreePath) -> bool {
        match self {
            Selection::All => true,
            Selection::Paths(paths) => paths.iter().any(|asked| path.starts_with(asked)),
            Selection::Exact(exact) => exact.covers(path),
        }
    }

    /// True where a change is asked for.
    pub fn asks_for(&self, change: &Change) -> bool {
        self.asks(&crate::chosen::pair_of(change), &TreePath::clone)
    }

    /// True where the change of `pair` is asked for. `before` says where a path of it stood before directories moved.
    pub(crate) fn asks(&self, pair: &Pair, before: &dyn Fn(&TreePath) -> TreePath) -> bool {
        let Selection::Exact(exact) = self else {
            let sides = [pair.old.as_ref(), pair.new.as_ref()].into_iter().flatten();
            return sides.into_iter().any(|(path, _)| self.covers(path) || self.covers(&before(path)));
        };
        // By the path that a list of changes shows, and no other: another change may come to stand where this one left.
        match (&pair.old, &pair.new) {
            (_, Some((path, _))) if exact.own.contains(path) => exact.paths.contains(path),
            (Some((old, _)), Some((path, _))) => exact.is_along(path) && !exact.own.contains(&before(old)),
            (None, Some((path, _))) => exact.is_along(path),
            (Some((path, _)), None) => {
                let path = &before(path);
                exact.paths.contains(path) || exact.is_along(path)
            }
            (None, None) => false,
        }
    }

    /// True where a guarded `path` was named: itself, or the guarded directory that it lies in (or a
    /// directory below that one). A directory further up does not name it.
    pub fn names(&self, path: &TreePath, reason: &Reason) -> bool {
        match self {
            Selection::All => false,
            Selection::Paths(named) | Selection::Exact(Exact { named, .. }) => named.iter().any(|asked| {
                asked == path
                    || (path.starts_with(asked)
                        && reason.dir.as_ref().is_some_and(|dir| asked.starts_with(dir)))
            }),
        }
    }

    /// The asked paths for which `matches` finds nothing.
    pub fn unmatched(&self, matches: impl Fn(&TreePath) -> bool) -> Vec<TreePath> {
        match self {
            Selection::All | Selection::Exact(_) => Vec::new(),
            Selection::Paths(paths) => paths.iter().filter(|path| !matches(path)).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Selection;
    use crate::guard::Reason;
    use tree::TreePath;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).expect("a path")
    }

    #[test]
    fn a_path_selects_itself_and_what_is_below_it() {
        let selection = Selection::of(vec![path("src")]);
        assert!(selection.covers(&path("src")) && selection.covers(&path("src/a/b")));
        assert!(!selection.covers(&path("src2")) && !selection.covers(&path("a")));
        assert!(Selection::of(vec![]).covers(&path("a")));
    }

    #[test]
    fn a_guarded_path_is_named_by_itself_or_by_its_guarded_directory_only() {
        let plain = Reason { text: String::new(), dir: None };
        let in_dir = Reason { text: String::new(), dir: Some(path(".github/workflows")) };
        let file = path(".github/workflows/ci.yml");
        assert!(Selection::of(vec![file.clone()]).names(&file, &plain));
        assert!(Selection::of(vec![path(".github/workflows")]).names(&file, &in_dir));
        assert!(!Selection::of(vec![path(".github/workflows")]).names(&file, &plain));
        assert!(!Selection::of(vec![path(".github")]).names(&file, &in_dir));
        assert!(!Selection::of(vec![TreePath::root()]).names(&file, &in_dir));
        assert!(!Selection::All.names(&file, &in_dir));
    }
}
