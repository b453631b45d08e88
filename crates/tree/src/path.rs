//! [`TreePath`]: a relative path as bytes, with the one sort order of the project.
//!
//! Invariant: no empty component, no `.`, no `..`, no NUL, no leading or trailing slash. The empty
//! path is the root of the tree. Order is by components, so a directory stands directly before
//! everything below it.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A relative byte path inside a tree. See the module for its invariant.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct TreePath(Vec<u8>);

/// Why bytes are not a [`TreePath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATreePath;

impl fmt::Display for NotATreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("path is absolute, or has an empty, '.', '..' or NUL component")
    }
}

impl std::error::Error for NotATreePath {}

impl TreePath {
    /// The root of a tree (the empty path).
    pub fn root() -> TreePath {
        TreePath(Vec::new())
    }

    /// Checks bytes and takes them as a tree path.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<TreePath, NotATreePath> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Ok(TreePath::root());
        }
        for name in bytes.split(|b| *b == b'/') {
            if !is_name(name) {
                return Err(NotATreePath);
            }
        }
        Ok(TreePath(bytes.to_vec()))
    }

    /// True for the empty path.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for path-taking calls; the root is `.`.
    pub fn as_path(&self) -> &Path {
        if self.0.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(&self.0)) }
    }

    /// This path with one more component. Panics in debug builds where `name` is no component.
    #[must_use]
    pub fn join(&self, name: impl AsRef<[u8]>) -> TreePath {
        let name = name.as_ref();
        debug_assert!(is_name(name), "not a component: {}", name.escape_ascii());
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        TreePath(bytes)
    }

    /// This path with all components of `below` appended.
    #[must_use]
    pub fn join_path(&self, below: &TreePath) -> TreePath {
        if below.is_root() {
            return self.clone();
        }
        if self.is_root() {
            return below.clone();
        }
        let mut bytes = self.0.clone();
        bytes.push(b'/');
        bytes.extend_from_slice(&below.0);
        TreePath(bytes)
    }

    /// The directory that holds this entry; `None` for the root.
    pub fn parent(&self) -> Option<TreePath> {
        if self.is_root() {
            return None;
        }
        let cut = self.0.iter().rposition(|b| *b == b'/').unwrap_or(0);
        Some(TreePath(self.0[..cut].to_vec()))
    }

    /// True where `dir` is the directory that holds this entry.
    pub fn is_in(&self, dir: &TreePath) -> bool {
        !self.is_root() && self.0[..self.0.iter().rposition(|b| *b == b'/').unwrap_or(0)] == dir.0
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &[u8] {
        match self.0.iter().rposition(|b| *b == b'/') {
            Some(cut) => &self.0[cut + 1..],
            None => &self.0,
        }
    }

    /// The components from the top down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|name| !name.is_empty())
    }

    /// True where this path is `other` or lies below it.
    pub fn starts_with(&self, other: &TreePath) -> bool {
        other.is_root()
            || (self.0.starts_with(&other.0)
                && (self.0.len() == other.0.len() || self.0[other.0.len()] == b'/'))
    }

    /// What is left of this path below `prefix`; `None` where it is not below.
    pub fn strip_prefix(&self, prefix: &TreePath) -> Option<TreePath> {
        if !self.starts_with(prefix) {
            return None;
        }
        if prefix.is_root() {
            return Some(self.clone());
        }
        Some(TreePath(self.0[prefix.0.len()..].strip_prefix(b"/").unwrap_or(b"").to_vec()))
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && !name.contains(&b'/')
}

impl Ord for TreePath {
    fn cmp(&self, other: &TreePath) -> Ordering {
        // '/' sorts before every other byte, which is the order by components.
        let key = |b: &u8| if *b == b'/' { 0u8 } else { *b };
        // A lane decides how long its paths are: what they begin with in common is passed over in pieces.
        const PIECE: usize = 8;
        let (ones, rest) = self.0.as_chunks::<PIECE>();
        let (others, other_rest) = other.0.as_chunks::<PIECE>();
        let common = ones.iter().zip(others).take_while(|(one, other)| one == other).count();
        // A name cannot hold NUL, so mapping '/' to 0 keeps the order strict.
        match (ones.get(common), others.get(common)) {
            (Some(one), Some(other)) => one.iter().map(key).cmp(other.iter().map(key)),
            _ if common == ones.len() && common == others.len() => {
                rest.iter().map(key).cmp(other_rest.iter().map(key))
            }
            _ => {
                let at = PIECE * common;
                self.0[at..].iter().map(key).cmp(other.0[at..].iter().map(key))
            }
        }
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &TreePath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::TreePath;

    #[test]
    fn a_directory_sorts_directly_before_what_is_below_it() {
        let mut paths: Vec<TreePath> = ["a.b", "a/c", "a", "b", "a/c/d", "a-b"]
            .iter()
            .map(|p| TreePath::new(p).expect("valid"))
            .collect();
        paths.sort();
        let names: Vec<&[u8]> = paths.iter().map(TreePath::as_bytes).collect();
        assert_eq!(names, [b"a" as &[u8], b"a/c", b"a/c/d", b"a-b", b"a.b", b"b"]);
    }

    #[test]
    fn the_order_is_by_components_wherever_two_paths_part() {
        let front = "d0000000/e0000000/f";
        let mut paths = Vec::new();
        for cut in 0..=front.len() {
            for end in ["", "a", "a/b", "a-b", "a.b", "a/b/c", "\u{7f}"] {
                paths.extend(TreePath::new(format!("{}{end}", &front[..cut])));
            }
        }
        for one in &paths {
            for other in &paths {
                assert_eq!(one.cmp(other), one.components().cmp(other.components()), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn dots_empty_components_and_nul_are_refused() {
        for bad in ["/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a\0b"] {
            assert!(TreePath::new(bad).is_err(), "{bad:?}");
        }
    }
}
