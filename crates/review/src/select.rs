//! [`Selection`]: what a person asked to keep. Pure: paths in, yes or no out.

use tree::TreePath;

use crate::guard::Reason;

/// What is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything that is not guarded.
    All,
    /// These paths, and everything at and below them.
    Paths(Vec<TreePath>),
}

impl Selection {
    /// The selection of a list of arguments: none means everything.
    pub fn of(paths: Vec<TreePath>) -> Selection {
        if paths.is_empty() { Selection::All } else { Selection::Paths(paths) }
    }

    /// True where `path` is asked for.
    pub fn covers(&self, path: &TreePath) -> bool {
        match self {
            Selection::All => true,
            Selection::Paths(paths) => paths.iter().any(|asked| path.starts_with(asked)),
        }
    }

    /// True where a guarded `path` was named: itself, or the guarded directory that it lies in (or a
    /// directory below that one). A directory further up does not name it.
    pub fn names(&self, path: &TreePath, reason: &Reason) -> bool {
        match self {
            Selection::All => false,
            Selection::Paths(paths) => paths.iter().any(|asked| {
                asked == path
                    || (path.starts_with(asked)
                        && reason.dir.as_ref().is_some_and(|dir| asked.starts_with(dir)))
            }),
        }
    }

    /// The asked paths for which `matches` finds nothing.
    pub fn unmatched(&self, matches: impl Fn(&TreePath) -> bool) -> Vec<TreePath> {
        match self {
            Selection::All => Vec::new(),
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
