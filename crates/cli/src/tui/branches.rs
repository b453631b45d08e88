//! Changed paths as a tree: which directories have a line of their own, and what stands in them. Pure; it knows paths and
//! numbers.
//!
//! Invariant: every path has exactly one line in an open tree. A directory has a line where it holds more than one path;
//! directories that hold nothing but one another share one.

use std::ops::Range;

use tree::TreePath;

/// A changed path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf<'f> {
    /// Its number.
    pub(crate) number: usize,
    /// Number of its root.
    pub(crate) root: usize,
    /// Where.
    pub(crate) path: &'f TreePath,
}

/// A directory with a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dir {
    /// Number of its root.
    pub(crate) root: usize,
    /// Where.
    pub(crate) path: TreePath,
    /// Directories above it that have a line.
    pub(crate) depth: usize,
    /// Bytes of the path that those show.
    pub(crate) from: usize,
    /// Its own change, where it has one.
    pub(crate) own: Option<usize>,
    /// What is in it, with its own change, by places in the list of leaves.
    pub(crate) inside: Range<usize>,
    /// What is in it has lines, too.
    pub(crate) open: bool,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Branch {
    /// A directory.
    Dir(Dir),
    /// A path: its number, its depth, and how many bytes of it the lines above show.
    File {
        /// Its number.
        number: usize,
        /// Directories above it that have a line.
        depth: usize,
        /// Bytes of the path that those show.
        from: usize,
    },
}

/// The lines of these paths, which are sorted by root and path. `shut` tells which directories are closed.
pub(crate) fn branches(leaves: &[Leaf<'_>], shut: &dyn Fn(usize, &TreePath) -> bool) -> Vec<Branch> {
    let mut lines = Vec::with_capacity(leaves.len());
    grow(leaves, 0..leaves.len(), (0, 0), shut, &mut lines);
    lines
}

fn grow(
    leaves: &[Leaf<'_>],
    range: Range<usize>,
    (depth, from): (usize, usize),
    shut: &dyn Fn(usize, &TreePath) -> bool,
    lines: &mut Vec<Branch>,
) {
    let mut at = range.start;
    while at < range.end {
        let Leaf { number, root, path } = leaves[at];
        let bytes = path.as_bytes();
        let name = bytes[from..].iter().position(|b| *b == b'/').map_or(bytes.len(), |end| from + end);
        let below = |leaf: &Leaf<'_>| {
            let other = leaf.path.as_bytes();
            leaf.root == root
                && other.starts_with(&bytes[..name])
                && matches!(other.get(name), None | Some(b'/'))
        };
        let end = (at + 1..range.end).find(|next| !below(&leaves[*next])).unwrap_or(range.end);
        if end == at + 1 {
            lines.push(Branch::File { number, depth, from });
            at = end;
            continue;
        }
        let dir = common(path, leaves[end - 1].path);
        let own = (*path == dir).then_some(number);
        let open = !shut(root, &dir);
        let next = dir.as_bytes().len() + 1;
        lines.push(Branch::Dir(Dir { root, path: dir, depth, from, own, inside: at..end, open }));
        if open {
            grow(leaves, at + usize::from(own.is_some())..end, (depth + 1, next), shut, lines);
        }
        at = end;
    }
}

/// The directory that both stand in, or are. Of sorted paths the first and the last one tell it for all between.
fn common(first: &TreePath, last: &TreePath) -> TreePath {
    let both = first.components().zip(last.components()).take_while(|(a, b)| a == b);
    both.fold(TreePath::root(), |dir, (name, _)| dir.join(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tree::TreePath;

    use super::{Branch, Leaf, branches};

    fn paths(names: &[&str]) -> Vec<TreePath> {
        let mut paths: Vec<TreePath> =
            names.iter().map(|name| TreePath::new(name).expect("a path")).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    fn lines(paths: &[TreePath], shut: &[&str]) -> Vec<String> {
        let leaves: Vec<Leaf<'_>> =
            paths.iter().enumerate().map(|(number, path)| Leaf { number, root: 0, path }).collect();
        let is_shut = |_: usize, dir: &TreePath| shut.iter().any(|name| name.as_bytes() == dir.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        branches(&leaves, &is_shut)
            .iter()
            .map(|line| match line {
                Branch::Dir(dir) => {
                    let sign = if dir.own.is_some() { "*" } else { "" };
                    let name = text(&dir.path.as_bytes()[dir.from..]);
                    format!("{}{name}/{sign} {}", " ".repeat(dir.depth), dir.inside.len())
                }
                Branch::File { number, depth, from } => {
                    " ".repeat(*depth) + &text(&paths[*number].as_bytes()[*from..])
                }
            })
            .collect()
    }

    #[test]
    fn a_directory_with_one_path_has_no_line_and_chains_share_one() {
        let all = paths(&["a", "doc/x", "src/deep/er/one", "src/deep/er/two"]);
        assert_eq!(lines(&all, &[]), ["a", "doc/x", "src/deep/er/ 2", " one", " two"]);
        assert_eq!(lines(&all, &["src/deep/er"]), ["a", "doc/x", "src/deep/er/ 2"]);
    }

    #[test]
    fn a_directory_that_is_a_change_itself_has_one_line() {
        let all = paths(&["new", "new/a", "new/b/c", "new/b/d", "newer"]);
        assert_eq!(lines(&all, &[]), ["new/* 4", " a", " b/ 2", "  c", "  d", "newer"]);
    }

    #[test]
    fn a_name_that_begins_like_a_directory_is_not_in_it() {
        let all = paths(&["a-b", "a/x", "a/y", "a.c"]);
        let mut found = lines(&all, &[]);
        found.sort();
        assert_eq!(found, [" x", " y", "a-b", "a.c", "a/ 2"]);
    }

    proptest! {
        #[test]
        fn every_path_has_one_line(
            names in prop::collection::btree_set(prop::collection::vec(0u8..3, 1..5), 0..40),
        ) {
            let name = |parts: &Vec<u8>| parts.iter().map(|n| ["a", "b", "c-"][usize::from(*n)]).collect::<Vec<_>>().join("/");
            let names: Vec<String> = names.iter().map(name).collect();
            let all = paths(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let leaves: Vec<Leaf<'_>> =
                all.iter().enumerate().map(|(number, path)| Leaf { number, root: 0, path }).collect();
            let mut seen: Vec<usize> = Vec::new();
            for line in branches(&leaves, &|_, _| false) {
                match line {
                    Branch::File { number, .. } => seen.push(number),
                    Branch::Dir(dir) => {
                        prop_assert!(dir.inside.len() > 1, "{dir:?}");
                        prop_assert!(dir.inside.clone().all(|at| leaves[at].path.starts_with(&dir.path)));
                        seen.extend(dir.own);
                    }
                }
            }
            prop_assert_eq!(seen, (0..all.len()).collect::<Vec<_>>());
        }
    }
}
