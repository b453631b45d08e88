//! Finds the project of a directory: the git top level, or the directory itself.
//!
//! Invariant: looks, never runs git. A `.git` counts where git would count it: a file, or a
//! directory with a `HEAD`. The search stops at a filesystem boundary, as git's does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{EngineError, Result};

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The directory that lanes stand on: absolute, without links.
    pub top: PathBuf,
    /// The directory that was asked about: `top` or below it.
    pub asked: PathBuf,
}

/// The project that `dir` belongs to.
pub fn find(dir: &Path) -> Result<Project> {
    let bad = |why: String| EngineError::BadOrigin { path: dir.to_owned(), why };
    let asked = fs::canonicalize(dir).map_err(|error| bad(error.to_string()))?;
    let meta = fs::metadata(&asked).map_err(|error| bad(error.to_string()))?;
    if !meta.is_dir() {
        return Err(bad("it is not a directory".to_owned()));
    }
    let top = git_top(&asked, meta.dev()).unwrap_or_else(|| asked.clone());
    if top == Path::new("/") {
        return Err(bad("the root directory cannot be a project".to_owned()));
    }
    Ok(Project { top, asked })
}

fn git_top(start: &Path, dev: u64) -> Option<PathBuf> {
    for dir in start.ancestors() {
        if dir != start && fs::symlink_metadata(dir).map(|m| m.dev()).ok() != Some(dev) {
            return None;
        }
        let dot_git = dir.join(".git");
        match fs::symlink_metadata(&dot_git) {
            Ok(meta) if meta.is_file() => return Some(dir.to_owned()),
            Ok(meta)
                if (meta.is_dir() || meta.is_symlink())
                    && fs::symlink_metadata(dot_git.join("HEAD")).is_ok() =>
            {
                return Some(dir.to_owned());
            }
            _ => {}
        }
    }
    None
}

/// The name that an export and a list show for a project.
pub fn short_name(top: &Path) -> &OsStr {
    top.file_name().unwrap_or(OsStr::new("project"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::find;

    #[test]
    fn the_git_top_is_found_from_below_and_an_empty_dot_git_is_not_one() {
        let tmp = std::env::temp_dir().join(format!("lane-project-{}", std::process::id()));
        let below = tmp.join("p/a/b");
        fs::create_dir_all(&below).expect("made");
        fs::create_dir_all(tmp.join("p/a/.git")).expect("made");
        fs::create_dir_all(tmp.join("p/.git")).expect("made");
        fs::write(tmp.join("p/.git/HEAD"), "ref: refs/heads/main\n").expect("written");
        let found = find(&below).expect("found");
        assert_eq!(found.top, fs::canonicalize(tmp.join("p")).expect("there"));
        assert!(found.asked.ends_with("a/b"));
        fs::remove_dir_all(&tmp).expect("removed");
    }
}
