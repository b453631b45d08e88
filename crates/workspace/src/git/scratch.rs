//! [`Scratch`]: a bare repository of ours, in which commits are made and foreign objects are looked at before anything
//! reaches the origin's. It reads the origin's objects and writes its own.
//!
//! Invariant: its configuration is ours; whatever is in it when it goes, goes with it. One that a kill left behind is
//! removed by [`Scratch::sweep`], which takes only those that nobody holds.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};

use kernel::error::{Asked as _, path_bytes};
use kernel::lock::{self, Lock};
use tree::TreePath;

use super::names::{alternate, quoted};
use super::repository::{Blobs, Identity, Item, Items, Repository, is_id, listed};
use super::run::{Call, Runner, said};
use crate::error::{Doing as _, Error, Result};

const LOCK: &[u8] = b"lock";

/// A longer file of rules for ignored files is not read by git either.
pub const RULES_LIMIT: u64 = 100 << 20;

/// A repository that goes when this does.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    runner: Runner,
    format: String,
    _lock: Lock,
}

impl Scratch {
    /// Makes one at `dir` (whose parent is made where it is missing) that reads the objects of `origin`.
    pub fn make(dir: &Path, origin: &Repository) -> Result<Scratch> {
        let asked = |step, result: std::io::Result<()>| {
            let result = result.map_err(|error| kernel::Error::from_io("mkdir", path_bytes(dir), &error));
            result.doing(step, dir)
        };
        let mut builder = std::fs::DirBuilder::new();
        asked("make a scratch repository", builder.recursive(true).mode(0o700).create(dir))?;
        let fd = kernel::open::root_dir(dir).doing("open a scratch repository", dir)?;
        let taken = || Error::Exists { path: dir.to_path_buf() };
        let held =
            lock::try_exclusive(&fd, LOCK).doing("hold a scratch repository", dir)?.ok_or_else(taken)?;
        let scratch = Scratch {
            dir: dir.to_path_buf(),
            runner: origin.runner.clone(),
            format: origin.format().to_owned(),
            _lock: held,
        };
        let call = scratch.runner.nowhere(dir, "make a scratch repository");
        let format = format!("--object-format={}", scratch.format);
        call.args(["init", "-q", "--bare", "--template=", &format, "-b", "none"])
            .arg(scratch.git_dir())
            .run()?;
        let line = alternate(path_bytes(&origin.common().join("objects")));
        scratch.write("git/objects/info/alternates", &line)?;
        if let Ok(shallow) = std::fs::read(origin.common().join("shallow")) {
            scratch.write("git/shallow", &shallow)?;
        }
        Ok(scratch)
    }

    /// Removes what kills left below `dir`.
    pub fn sweep(dir: &Path) -> usize {
        let mut swept = 0;
        for at in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let Ok(fd) = kernel::open::root_dir(&at) else { continue };
            if matches!(lock::try_exclusive(&fd, LOCK), Ok(Some(_))) && std::fs::remove_dir_all(&at).is_ok() {
                swept += 1;
            }
        }
        swept
    }

    pub(crate) fn git_dir(&self) -> PathBuf {
        self.dir.join("git")
    }

    /// A place for a file in it.
    pub fn place(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn call(&self, doing: &'static str) -> Call {
        self.runner.on(&self.git_dir(), doing)
    }

    /// Writes a file of its own.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        std::fs::write(&path, bytes).asked("write", path_bytes(&path)).doing("write a scratch file", &path)
    }

    /// Everything in the tree of a commit.
    pub fn tree(&self, commit: &str) -> Result<Items> {
        listed(&self.call("list a tree").args(["ls-tree", "-r", "-z", "--full-tree", commit]).run()?)
    }

    /// Its objects and the origin's, one after the other.
    pub fn blobs(&self) -> Result<Blobs> {
        Blobs::of(self.call("read objects"))
    }

    /// Begins a commit on top of `parent`.
    pub fn commit(&self, parent: Option<&str>) -> Result<NewCommit<'_>> {
        let call = self.call("make a commit").args(["fast-import", "--quiet", "--done", "--force"]);
        let marks = format!("--export-marks={}", self.place("marks").display());
        let mut child = call.arg(marks).talk()?;
        let to = child.stdin.take().map(|to| BufWriter::with_capacity(1 << 16, to));
        Ok(NewCommit {
            scratch: self,
            parent: parent.map(str::to_owned),
            child,
            to,
            blobs: 1,
            changes: Vec::new(),
        })
    }

    /// Hands `origin` everything that `commit` needs and it has not; `but` names what it has.
    pub fn hand_over(&self, commit: &str, but: &[u8], origin: &Repository) -> Result<()> {
        let order = [commit.as_bytes(), b"\n", but].concat();
        let call =
            self.call("pack the objects").args(["pack-objects", "--revs", "-q", "--delta-base-offset"]);
        let out = call.arg(self.place("out")).input(&order)?.run()?;
        let name = String::from_utf8_lossy(&out).trim().to_owned();
        if !is_id(&name) {
            return Err(Error::Git { doing: "pack the objects", said: "it names no pack".to_owned() });
        }
        origin.take(&self.place(&format!("out-{name}.pack")))
    }

    /// Which of `paths` the rules for ignored files cover. `rules` are the `.gitignore` files that count; `dirs` are
    /// those of the paths that are directories.
    pub fn ignored(
        &self,
        origin: &Repository,
        rules: &[(TreePath, Vec<u8>)],
        paths: &[TreePath],
        dirs: &[TreePath],
    ) -> Result<Vec<TreePath>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.place("rules");
        let make = |dir: &Path| {
            std::fs::create_dir_all(dir).asked("mkdir", path_bytes(dir)).doing("write the rules", dir)
        };
        make(&tree)?;
        for dir in dirs {
            make(&tree.join(dir.as_path()))?;
        }
        for (path, bytes) in rules.iter().filter(|(_, bytes)| bytes.len() as u64 <= RULES_LIMIT) {
            let path = tree.join(path.as_path());
            make(path.parent().unwrap_or(&tree))?;
            std::fs::write(&path, bytes).asked("write", path_bytes(&path)).doing("write the rules", &path)?;
        }
        if let Ok(own) = std::fs::read(origin.common().join("info/exclude")) {
            make(&self.git_dir().join("info"))?;
            self.write("git/info/exclude", &own)?;
        }
        let mut call = self.call("tell what is ignored").dir(&tree).env("GIT_WORK_TREE", &tree);
        // What has no settings of ours in front would be taken for the user's.
        let users = origin.users_ignores()?;
        let mut setting = std::ffi::OsString::from("core.excludesFile=");
        setting.push(users.as_deref().unwrap_or(Path::new("/dev/null")));
        call = call.arg("-c").arg(setting).args(["check-ignore", "--no-index", "--stdin", "-z"]);
        let mut input = Vec::new();
        for path in paths {
            // With a dot in front, no name is taken for a pattern.
            input.extend_from_slice(&[b"./", path.as_bytes(), b"\0"].concat());
        }
        let answer = call.input(&input)?.answer()?;
        // 1: none is.
        if answer.status.code() != Some(1) {
            let out = answer.ok()?;
            let found = out.split(|b| *b == 0).filter_map(|path| path.strip_prefix(b"./"));
            return Ok(found.filter_map(|path| TreePath::new(path).ok()).collect());
        }
        Ok(Vec::new())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is swept later.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A commit that is being made: contents first, then what is done with them.
#[derive(Debug)]
pub struct NewCommit<'s> {
    scratch: &'s Scratch,
    parent: Option<String>,
    child: Child,
    to: Option<BufWriter<ChildStdin>>,
    blobs: u64,
    changes: Vec<u8>,
}

impl NewCommit<'_> {
    /// The path is not there any more.
    pub fn remove(&mut self, path: &TreePath) {
        self.change(&[b"D ", &quoted(path.as_bytes())]);
    }

    /// What stands at the path is what another commit has there.
    pub fn set(&mut self, path: &TreePath, item: &Item) {
        self.change(&[format!("M {:06o} {} ", item.mode, item.id).as_bytes(), &quoted(path.as_bytes())]);
    }

    /// These bytes stand at the path.
    pub fn put(&mut self, path: &TreePath, mode: u32, size: u64, content: &mut dyn Read) -> Result<()> {
        self.blobs += 1;
        let mark = self.blobs;
        self.say(format!("blob\nmark :{mark}\ndata {size}\n").as_bytes())?;
        let copied = match &mut self.to {
            Some(to) => std::io::copy(&mut content.take(size), to).ok(),
            None => None,
        };
        if copied != Some(size) {
            return Err(self.failed("the content is not as long as it was said to be"));
        }
        self.say(b"\n")?;
        self.change(&[format!("M {mode:06o} :{mark} ").as_bytes(), &quoted(path.as_bytes())]);
        Ok(())
    }

    /// Makes it; the answer is its name.
    pub fn finish(mut self, who: &Identity, message: &[u8]) -> Result<String> {
        let mut text = b"commit refs/heads/made\nmark :1\nauthor ".to_vec();
        text.extend([who.author.as_slice(), b"\ncommitter ", &who.committer, b"\n"].concat());
        text.extend(format!("data {}\n", message.len()).bytes());
        text.extend_from_slice(message);
        text.push(b'\n');
        if let Some(parent) = &self.parent {
            text.extend(format!("from {parent}\n").bytes());
        }
        text.append(&mut self.changes);
        text.extend_from_slice(b"\ndone\n");
        self.say(&text)?;
        if self.to.as_mut().is_none_or(|to| to.flush().is_err()) {
            return Err(self.failed("it does not listen"));
        }
        drop(self.to.take());
        let status = self.child.wait().map_err(|error| self.failed(&error.to_string()))?;
        if !status.success() {
            return Err(self.failed("it failed"));
        }
        let marks = std::fs::read_to_string(self.scratch.place("marks")).unwrap_or_default();
        let id = marks.lines().find_map(|line| line.strip_prefix(":1 ")).unwrap_or_default();
        if is_id(id) { Ok(id.to_owned()) } else { Err(self.failed("it names no commit")) }
    }

    fn change(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.changes.extend_from_slice(part));
        self.changes.push(b'\n');
    }

    fn say(&mut self, bytes: &[u8]) -> Result<()> {
        match self.to.as_mut().map(|to| to.write_all(bytes)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed("it does not listen")),
        }
    }

    fn failed(&mut self, otherwise: &str) -> Error {
        drop(self.to.take());
        let mut err = Vec::new();
        if let Some(from) = &mut self.child.stderr {
            let _ = from.read_to_end(&mut err);
        }
        let said = if err.is_empty() { otherwise.to_owned() } else { said(&err) };
        Error::Git { doing: "make a commit", said }
    }
}

impl Drop for NewCommit<'_> {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}

/// Copies a file of somebody else's into a scratch repository.
pub(crate) fn copy_in(from: &mut File, to: &Path) -> Result<u64> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .open(to)
        .asked("create", path_bytes(to))
        .doing("copy an object", to)?;
    std::io::copy(from, &mut file).asked("copy", to.as_os_str().as_bytes()).doing("copy an object", to)
}
