//! What a project's git metadata looks like, read by hand: this file runs no git program and obeys no configuration of
//! the project (its neighbours in `git/` do what needs the program). `.git` is a directory, or in a linked worktree and a submodule a file that
//! points to one; a worktree's objects and refs stand in the common directory, often outside the
//! project. See `gitrepository-layout(5)`.
//!
//! Invariant: reads only; never follows a link inside the metadata, never reads more than a few KiB of
//! a pointer file.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

pub mod commit_tree;
pub mod foreign;
pub mod names;
pub mod repository;
pub mod run;
pub mod scratch;
pub mod staged;

/// What `.git` is at the top of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DotGit {
    /// There is none.
    #[default]
    None,
    /// A directory: an ordinary repository.
    Dir,
    /// A file that names the private directory of a worktree or submodule.
    File {
        /// The directory it names, absolute.
        gitdir: PathBuf,
    },
}

/// Git metadata of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitFacts {
    /// The git top level: the project itself or the nearest directory above it with a `.git`.
    pub top: Option<PathBuf>,
    /// What `.git` is there.
    pub dot_git: DotGit,
    /// The private git directory, where it lies outside the project.
    pub outside_gitdir: Option<PathBuf>,
    /// The directory of objects and refs, where it lies outside the project: commits in a lane write
    /// there, so it needs a layer of its own.
    pub common_dir: Option<PathBuf>,
}

/// What HEAD named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// Full name of the branch, such as `refs/heads/main`; `None` where HEAD is detached.
    pub reference: Option<Vec<u8>>,
    /// The commit, in hexadecimal; `None` where the branch has none yet or it cannot be told.
    pub commit: Option<String>,
}

/// The nearest directory at or above `path` that has a `.git`.
pub fn top_level(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|dir| kind_of(&dir.join(".git")).is_some()).map(Path::to_path_buf)
}

/// Facts about the repository that `project` is the top of, or lies in.
pub fn facts(project: &Path) -> GitFacts {
    let Some(top) = top_level(project) else { return GitFacts::default() };
    let dot = top.join(".git");
    let outside = |dir: &Path| (!dir.starts_with(project)).then(|| dir.to_path_buf());
    match kind_of(&dot) {
        Some(FileType::Directory) => GitFacts {
            outside_gitdir: outside(&dot),
            common_dir: outside(&dot),
            top: Some(top),
            dot_git: DotGit::Dir,
        },
        Some(FileType::RegularFile) => match pointer(&dot, &top) {
            Some(gitdir) => {
                let common = common_dir(&gitdir);
                GitFacts {
                    outside_gitdir: outside(&gitdir),
                    common_dir: outside(&common),
                    top: Some(top),
                    dot_git: DotGit::File { gitdir },
                }
            }
            None => GitFacts { top: Some(top), ..GitFacts::default() },
        },
        // Some tools make `.git` a link to a repository elsewhere; git follows it, and so do we, once.
        Some(FileType::Symlink) => match std::fs::canonicalize(&dot) {
            Ok(gitdir) if gitdir.is_dir() => GitFacts {
                outside_gitdir: outside(&gitdir),
                common_dir: outside(&common_dir(&gitdir)),
                top: Some(top),
                dot_git: DotGit::File { gitdir },
            },
            _ => GitFacts { top: Some(top), ..GitFacts::default() },
        },
        _ => GitFacts { top: Some(top), ..GitFacts::default() },
    }
}

/// HEAD of the repository that these facts describe; `None` where there is no repository.
pub fn head(facts: &GitFacts) -> Option<Head> {
    let gitdir = match &facts.dot_git {
        DotGit::None => return None,
        DotGit::Dir => facts.top.as_ref()?.join(".git"),
        DotGit::File { gitdir } => gitdir.clone(),
    };
    let private = open_dir(&gitdir)?;
    let text = read_small(private.as_fd(), b"HEAD")?;
    let line = trim(&text);
    let Some(name) = line.strip_prefix(b"ref:").map(trim) else {
        return Some(Head { reference: None, commit: object_id(line) });
    };
    let common = match facts.dot_git {
        DotGit::File { .. } => open_dir(&common_dir(&gitdir))?,
        _ => private.try_clone().ok()?,
    };
    let commit = resolve(private.as_fd(), name)
        .or_else(|| resolve(common.as_fd(), name))
        .or_else(|| packed(&common, name));
    Some(Head { reference: Some(name.to_vec()), commit })
}

/// A loose ref; a symbolic one is followed a few steps.
fn resolve(gitdir: impl AsFd + Copy, name: &[u8]) -> Option<String> {
    let mut name = name.to_vec();
    for _ in 0..5 {
        // A ref is a relative name with no way upwards; anything else is no ref of this repository.
        if !name.starts_with(b"refs/")
            || name.split(|b| *b == b'/').any(|part| part == b".." || part.is_empty())
        {
            return None;
        }
        let text = read_small(gitdir, &name)?;
        match trim(&text).strip_prefix(b"ref:") {
            Some(next) => name = trim(next).to_vec(),
            None => return object_id(trim(&text)),
        }
    }
    None
}

fn packed(gitdir: &OwnedFd, name: &[u8]) -> Option<String> {
    let file = open_file(gitdir.as_fd(), b"packed-refs")?;
    let mut text = Vec::new();
    file.take(64 << 20).read_to_end(&mut text).ok()?;
    text.split(|b| *b == b'\n').filter(|line| !line.starts_with(b"#") && !line.starts_with(b"^")).find_map(
        |line| {
            let space = line.iter().position(|b| *b == b' ')?;
            if trim(&line[space + 1..]) == name { object_id(&line[..space]) } else { None }
        },
    )
}

/// Reads `gitdir: PATH`; a relative path is relative to the directory of the file.
fn pointer(dot_git: &Path, top: &Path) -> Option<PathBuf> {
    let dir = open_dir(dot_git.parent()?)?;
    let text = read_small(dir.as_fd(), b".git")?;
    let named = trim_newlines(text.strip_prefix(b"gitdir:")?);
    let named = named.strip_prefix(b" ").unwrap_or(named);
    Some(absolute(top, named))
}

/// Where objects and refs are: what `commondir` in the private directory names, or that directory itself.
fn common_dir(gitdir: &Path) -> PathBuf {
    let read = || read_small(open_dir(gitdir)?.as_fd(), b"commondir");
    match read() {
        Some(text) => absolute(gitdir, trim_newlines(&text)),
        None => gitdir.to_path_buf(),
    }
}

/// `named` from `base`, with `.` and `..` taken out of the text (git writes them as text too).
fn absolute(base: &Path, named: &[u8]) -> PathBuf {
    let joined = base.join(PathBuf::from(OsString::from_vec(named.to_vec())));
    let mut out = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

fn object_id(text: &[u8]) -> Option<String> {
    let is_id = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
    is_id.then(|| String::from_utf8_lossy(text).into_owned())
}

fn kind_of(path: &Path) -> Option<FileType> {
    rustix::fs::lstat(path).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

fn open_dir(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn open_file(dir: impl AsFd, name: &[u8]) -> Option<std::fs::File> {
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| file.into())
}

fn read_small(dir: impl AsFd, name: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    open_file(dir, name)?.take(8192).read_to_end(&mut text).ok()?;
    Some(text)
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

fn trim_newlines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|b| *b != b'\n' && *b != b'\r').map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests;
