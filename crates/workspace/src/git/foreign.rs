//! [`Foreign`]: the repository that a lane shows, read as data. Its HEAD, its branches and its new objects are looked
//! at byte by byte through the lane's tree; no program ever gets it as a repository, and its configuration, hooks,
//! alternates and indexes are not read at all.
//!
//! Invariant: what is taken over is loose objects and packs alone, under names that are checked; their content is
//! worth nothing until git has read it in a repository of ours ([`Foreign::copy_objects`] and [`new_commits`]).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kernel::error::{Asked as _, path_bytes};
use tree::{Kind, Source, TreePath};

use super::Head;
use super::names::bad_branch;
use super::repository::Repository;
use super::run::line;
use super::scratch::{Scratch, copy_in};
use crate::error::{Doing as _, Error, Result};

/// A pointer file is no longer than this.
const POINTER: u64 = 8 << 10;
/// A file of packed refs is no longer than this.
const PACKED: u64 = 64 << 20;

/// A directory in a tree.
#[expect(missing_debug_implementations, reason = "trees have none")]
#[derive(Clone, Copy)]
pub struct Dir<'s> {
    /// The tree.
    pub tree: &'s dyn Source,
    /// Where in it.
    pub at: &'s TreePath,
}

/// A lane's repository.
#[expect(missing_debug_implementations, reason = "trees have none")]
pub struct Foreign<'s> {
    /// Its private directory.
    pub git_dir: Dir<'s>,
    /// Its directory of objects and refs.
    pub common: Dir<'s>,
}

/// A commit that only the lane has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommitAt {
    /// Its name.
    pub id: String,
    /// Who wrote it.
    pub author: Vec<u8>,
    /// The first line of its message.
    pub subject: Vec<u8>,
}

impl Dir<'_> {
    fn path(&self, below: &str) -> TreePath {
        below.split('/').filter(|name| !name.is_empty()).fold(self.at.clone(), |path, name| path.join(name))
    }

    fn wrong(&self, path: &TreePath, why: &'static str) -> Error {
        Error::Repository { path: path.as_path().to_path_buf(), why }
    }

    fn kind(&self, path: &TreePath) -> Result<Option<Kind>> {
        // A link on the way is no entry below it, and never followed.
        let entry = self.tree.entry(path).doing("look at the lane's repository", path.as_path())?;
        Ok(entry.map(|entry| entry.kind))
    }

    /// The names in a directory, none where there is none; anything else in its place is refused.
    fn names(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        match self.kind(path)? {
            None => Ok(Vec::new()),
            Some(Kind::Dir) => self.tree.list(path).doing("list the lane's repository", path.as_path()),
            Some(_) => Err(self.wrong(path, "the lane has something else than a directory there")),
        }
    }

    fn open(&self, path: &TreePath) -> Result<File> {
        match self.kind(path)? {
            Some(Kind::File) => {
                Ok(File::from(self.tree.open(path).doing("read the lane's repository", path.as_path())?))
            }
            _ => Err(self.wrong(path, "the lane has something else than a file there")),
        }
    }

    /// A small file; `None` where there is none.
    fn read(&self, path: &TreePath, limit: u64) -> Result<Option<Vec<u8>>> {
        if self.kind(path)?.is_none() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = self.open(path)?.take(limit + 1).read_to_end(&mut bytes);
        read.asked("read", path.as_bytes()).doing("read the lane's repository", path.as_path())?;
        if bytes.len() as u64 > limit {
            return Err(self.wrong(path, "the lane's file is too long"));
        }
        Ok(Some(bytes))
    }
}

impl Foreign<'_> {
    /// What HEAD names.
    pub fn head(&self) -> Result<Head> {
        let path = self.git_dir.path("HEAD");
        let text = self.git_dir.read(&path, POINTER)?;
        let text = text.ok_or_else(|| self.git_dir.wrong(&path, "the lane has no such file"))?;
        let text = text.trim_ascii();
        let Some(name) = text.strip_prefix(b"ref:").map(<[u8]>::trim_ascii) else {
            let commit = super::object_id(text);
            let commit =
                commit.ok_or_else(|| self.git_dir.wrong(&path, "the lane's HEAD names no commit"))?;
            return Ok(Head { reference: None, commit: Some(commit) });
        };
        Ok(Head { reference: Some(name.to_vec()), commit: self.branch(name)? })
    }

    /// The commit of a branch, by its full name.
    pub fn branch(&self, name: &[u8]) -> Result<Option<String>> {
        let bad = || self.common.wrong(self.common.at, "a ref of the lane has a name that leads elsewhere");
        let short = name.strip_prefix(b"refs/heads/").ok_or_else(bad)?;
        if bad_branch(short).is_some() {
            return Err(bad());
        }
        let path = TreePath::new([self.common.at.as_bytes(), b"/", name].concat());
        let path = path.or_else(|_| TreePath::new(name)).map_err(|_| bad())?;
        if let Some(text) = self.common.read(&path, POINTER)? {
            // A branch that is itself a pointer is none of an ordinary repository's.
            let commit = super::object_id(text.trim_ascii());
            return commit
                .map(Some)
                .ok_or_else(|| self.common.wrong(&path, "the lane's ref names no commit"));
        }
        Ok(self.packed()?.into_iter().find(|(packed, _)| packed == name).map(|(_, id)| id))
    }

    fn packed(&self) -> Result<Vec<(Vec<u8>, String)>> {
        let path = self.common.path("packed-refs");
        let text = self.common.read(&path, PACKED)?.unwrap_or_default();
        let refs =
            text.split(|b| *b == b'\n').filter(|line| !line.starts_with(b"#") && !line.starts_with(b"^"));
        let read = |line: &[u8]| {
            let space = line.iter().position(|b| *b == b' ')?;
            Some((line[space + 1..].trim_ascii().to_vec(), super::object_id(&line[..space])?))
        };
        Ok(refs.filter_map(read).collect())
    }

    /// Every branch with its commit, but for those that cannot be read.
    pub fn branches(&self) -> Result<Vec<(Vec<u8>, String)>> {
        let mut found: std::collections::BTreeMap<Vec<u8>, String> =
            self.packed()?.into_iter().filter(|(name, _)| name.starts_with(b"refs/heads/")).collect();
        let mut open = vec![(self.common.path("refs/heads"), b"refs/heads".to_vec())];
        while let Some((dir, name)) = open.pop() {
            if self.common.kind(&dir)? != Some(Kind::Dir) {
                continue;
            }
            for part in self.common.names(&dir)? {
                let (path, name) = (dir.join(&part), [name.as_slice(), b"/", &part].concat());
                match self.common.kind(&path)? {
                    Some(Kind::Dir) => open.push((path, name)),
                    Some(Kind::File) => {
                        if let Ok(Some(id)) = self.branch(&name) {
                            found.insert(name, id);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Copies the loose objects and packs that `base` (the same directory as [`Foreign::common`], of the origin) has
    /// not; how many.
    pub fn copy_objects(&self, base: Dir<'_>, scratch: &Scratch) -> Result<u64> {
        let objects = self.common.path("objects");
        let mut copied = 0;
        for fan in self.common.names(&objects)?.iter().filter(|name| name.len() == 2 && is_hex(name)) {
            let dir = objects.join(fan);
            let old = base.names(&base.path("objects").join(fan)).unwrap_or_default();
            for name in self.common.names(&dir)? {
                if !is_hex(&name) || !matches!(name.len(), 38 | 62) || old.binary_search(&name).is_ok() {
                    continue;
                }
                let to = scratch.git_dir().join("objects").join(text(fan));
                std::fs::create_dir_all(&to).asked("mkdir", path_bytes(&to)).doing("copy an object", &to)?;
                copy_in(&mut self.common.open(&dir.join(&name))?, &to.join(text(&name)))?;
                copied += 1;
            }
        }
        let packs = objects.join("pack");
        let old = base.names(&base.path("objects/pack")).unwrap_or_default();
        for name in self.common.names(&packs)? {
            let stem = name.strip_prefix(b"pack-").and_then(|rest| rest.strip_suffix(b".pack"));
            if stem.is_none_or(|stem| !is_hex(stem)) || old.binary_search(&name).is_ok() {
                continue;
            }
            let to = scratch.git_dir().join("objects/pack").join(text(&name));
            copy_in(&mut self.common.open(&packs.join(&name))?, &to)?;
            // Its index is the lane's word; ours is made from the pack itself.
            scratch.call("read the lane's pack").arg("index-pack").arg(&to).run()?;
            copied += 1;
        }
        Ok(copied)
    }
}

/// The commits that lead to `tip` and that `origin` has not, the oldest first. Everything that they need has to be
/// there, in `scratch` or in the origin.
pub fn new_commits(scratch: &Scratch, origin: &Repository, tip: &str) -> Result<Vec<NewCommitAt>> {
    let order = [tip.as_bytes(), b"\n", &origin.but_for_its_refs()?].concat();
    let whole = scratch.call("read the lane's commits").args(["rev-list", "--objects", "--quiet", "--stdin"]);
    whole.input(&order)?.run()?;
    let call =
        scratch.call("list the lane's commits").args(["log", "--no-mailmap", "--no-color", "--reverse"]);
    let out = call.args(["--topo-order", "--format=%H%x00%an%x00%s%x00", "--stdin"]).input(&order)?.run()?;
    let mut commits = Vec::new();
    let mut words = out.split(|b| *b == 0);
    while let (Some(id), Some(author), Some(subject)) = (words.next(), words.next(), words.next()) {
        let id = String::from_utf8_lossy(id.trim_ascii()).into_owned();
        commits.push(NewCommitAt { id, author: author.to_vec(), subject: subject.to_vec() });
    }
    Ok(commits)
}

/// Checks everything that `tip` needs and `origin` has not, in a second scratch repository that holds nothing else,
/// then hands it to the origin: bad objects, forged names and missing ones end here.
pub fn hand_over_checked(scratch: &Scratch, checked: &Scratch, origin: &Repository, tip: &str) -> Result<()> {
    let order = [tip.as_bytes(), b"\n", &origin.but_for_its_refs()?].concat();
    let pack = scratch.call("pack the lane's commits").args(["pack-objects", "--revs", "-q", "--stdout"]);
    let pack = pack.input(&order)?.run()?;
    checked.write("lane.pack", &pack)?;
    let call = checked.call("check the lane's commits").args(["index-pack", "--stdin", "--strict"]);
    call.input(&pack)?.run()?;
    let there = checked.call("check the lane's commits").args(["cat-file", "-t", tip]).run()?;
    if line(&there) != b"commit" {
        return Err(Error::Git { doing: "check the lane's commits", said: "it is no commit".to_owned() });
    }
    let whole =
        checked.call("check the lane's commits").args(["rev-list", "--objects", "--quiet", "--stdin"]);
    whole.input(&order)?.run()?;
    origin.take(&checked.place("lane.pack"))
}

fn is_hex(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_hexdigit)
}

/// A name that was checked to be of plain letters.
fn text(name: &[u8]) -> PathBuf {
    Path::new(&*String::from_utf8_lossy(name)).to_path_buf()
}
