//! [`Repository`]: the origin's own repository, asked and written through the scrubbed runner.
//!
//! Invariant: nothing here touches a file of the working tree. A ref moves only from the value that the caller saw
//! ([`RefUpdate`]); index entries change only where the caller says what they were.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};

use tree::TreePath;

use super::run::{Call, Runner, line, said};
use super::staged::{self, Said};
use super::{DotGit, common_dir, facts};
use crate::error::{Error, Result};

/// The repository of a project.
#[derive(Debug, Clone)]
pub struct Repository {
    pub(crate) runner: Runner,
    git_dir: PathBuf,
    common: PathBuf,
    top: PathBuf,
    format: String,
}

/// What HEAD names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadNow {
    /// A branch, by its full name; it has no commit yet where there is none.
    Branch(Vec<u8>, Option<String>),
    /// A commit.
    Detached(String),
}

/// What a tree holds at a path: git's mode, and the name of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// As git writes it: `100644`, `100755`, `120000`, `160000`.
    pub mode: u32,
    /// In hexadecimal.
    pub id: String,
}

impl Item {
    /// A submodule: a commit of another repository.
    pub fn is_submodule(&self) -> bool {
        self.mode == 0o160_000
    }

    /// A symbolic link.
    pub fn is_link(&self) -> bool {
        self.mode == 0o120_000
    }
}

/// Paths and what stands there.
pub type Items = BTreeMap<TreePath, Item>;

/// Who commits, as git writes it into a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `Name <address> seconds zone`.
    pub author: Vec<u8>,
    /// The same of who commits.
    pub committer: Vec<u8>,
}

impl Repository {
    /// The repository whose working tree `top` is; `None` where it is none.
    pub fn open(runner: &Runner, top: &Path) -> Result<Option<Repository>> {
        let facts = facts(top);
        let git_dir = match &facts.dot_git {
            _ if facts.top.as_deref() != Some(top) => return Ok(None),
            DotGit::None => return Ok(None),
            DotGit::Dir => top.join(".git"),
            DotGit::File { gitdir } => gitdir.clone(),
        };
        let real = |dir: &Path| {
            std::fs::canonicalize(dir).map_err(|_| Error::Repository {
                path: dir.to_path_buf(),
                why: "a directory of the repository is not there",
            })
        };
        let git_dir = real(&git_dir)?;
        let common = real(&common_dir(&git_dir))?;
        let mut repository = Repository {
            runner: runner.clone(),
            git_dir,
            common,
            top: top.to_path_buf(),
            format: String::new(),
        };
        let format = repository.call("tell its format").args(["rev-parse", "--show-object-format"]).run()?;
        repository.format = String::from_utf8_lossy(line(&format)).into_owned();
        Ok(Some(repository))
    }

    /// Its working tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Its private directory.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory of its objects and refs.
    pub fn common(&self) -> &Path {
        &self.common
    }

    /// `sha1` or `sha256`.
    pub fn format(&self) -> &str {
        &self.format
    }

    pub(crate) fn call(&self, doing: &'static str) -> Call {
        self.runner.on(&self.git_dir, doing)
    }

    /// What HEAD names.
    pub fn head(&self) -> Result<HeadNow> {
        let answer = self.call("tell the branch").args(["symbolic-ref", "-q", "HEAD"]).answer()?;
        if answer.status.success() {
            let name = line(&answer.out).to_vec();
            let commit = self.commit_of(&name)?;
            return Ok(HeadNow::Branch(name, commit));
        }
        self.commit_of(b"HEAD")?.map(HeadNow::Detached).ok_or(Error::Repository {
            path: self.git_dir.join("HEAD"),
            why: "it names neither a branch nor a commit",
        })
    }

    /// The commit that a full ref name, or an id, stands for.
    pub fn commit_of(&self, name: &[u8]) -> Result<Option<String>> {
        let name = OsString::from_vec([name, b"^{commit}"].concat());
        let answer =
            self.call("look a commit up").args(["rev-parse", "-q", "--verify", "--end-of-options"]).arg(name);
        let answer = answer.answer()?;
        let id = String::from_utf8_lossy(line(&answer.out)).into_owned();
        Ok((answer.status.success() && is_id(&id)).then_some(id))
    }

    /// The ref that stands in the way of a new one: above it, below it, or itself.
    pub fn in_the_way(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut at = Some(name);
        while let Some(above) = at.filter(|above| above.len() > b"refs/heads".len()) {
            if self.commit_of(above)?.is_some() {
                return Ok(Some(above.to_vec()));
            }
            at = above.iter().rposition(|b| *b == b'/').map(|slash| &above[..slash]);
        }
        let below = OsString::from_vec([name, b"/"].concat());
        let call = self.call("list the refs").args(["for-each-ref", "--count=1", "--format=%(refname)"]);
        let out = call.arg(below).run()?;
        Ok((!out.is_empty()).then(|| line(&out).to_vec()))
    }

    /// What is half done in it, where something is.
    pub fn in_progress(&self) -> Option<&'static str> {
        let marks = [
            ("MERGE_HEAD", "merge"),
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
            ("sequencer", "cherry-pick"),
        ];
        marks
            .iter()
            .find(|(name, _)| self.git_dir.join(name).symlink_metadata().is_ok())
            .map(|(_, what)| *what)
    }

    /// True where somebody is just writing its index, or was killed at it.
    pub fn is_index_locked(&self) -> bool {
        self.git_dir.join("index.lock").symlink_metadata().is_ok()
    }

    /// The working tree in which a branch is checked out, or being rebased or bisected.
    pub fn checked_out(&self, branch: &[u8]) -> Result<Option<PathBuf>> {
        let out =
            self.call("list the working trees").args(["worktree", "list", "--porcelain", "-z"]).run()?;
        let mut at = PathBuf::new();
        for word in out.split(|b| *b == 0) {
            if let Some(path) = word.strip_prefix(b"worktree ") {
                at = PathBuf::from(OsStr::from_bytes(path));
            } else if word.strip_prefix(b"branch ") == Some(branch) {
                return Ok(Some(at));
            }
        }
        let short = branch.strip_prefix(b"refs/heads/").unwrap_or(branch);
        let others = std::fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        for dir in others.map(|entry| entry.path()).chain([self.common.clone()]) {
            for (name, meant) in [
                ("rebase-merge/head-name", branch),
                ("rebase-apply/head-name", branch),
                ("BISECT_START", short),
            ] {
                if std::fs::read(dir.join(name)).is_ok_and(|text| line(&text) == meant) {
                    return Ok(Some(dir));
                }
            }
        }
        Ok(None)
    }

    /// Everything in the tree of a commit.
    pub fn tree(&self, commit: &str) -> Result<Items> {
        listed(&self.call("list a tree").args(["ls-tree", "-r", "-z", "--full-tree", commit]).run()?)
    }

    /// Everything in the index, but for what is in conflict there.
    pub fn index(&self) -> Result<Items> {
        let out = self.call("list the index").args(["ls-files", "-s", "-z"]).run()?;
        let mut items = Items::new();
        for entry in out.split(|b| *b == 0).filter(|entry| !entry.is_empty()) {
            let Some((head, path)) = split_at(entry, b'\t') else { continue };
            let words: Vec<&[u8]> = head.split(|b| *b == b' ').collect();
            if let [mode, id, b"0"] = words[..]
                && let (Some(item), Ok(path)) = (item(mode, id), TreePath::new(path))
            {
                items.insert(path, item);
            }
        }
        Ok(items)
    }

    /// What an index file says of the file at one path.
    pub(super) fn staged_at(&self, index: &Path, path: &TreePath) -> Result<Option<Said>> {
        let call = self.call("read an index").env("GIT_INDEX_FILE", index).env("GIT_LITERAL_PATHSPECS", "1");
        let call = call.args(["ls-files", "-s", "--debug", "-z", "--"]);
        let out = call.arg(OsStr::from_bytes(path.as_bytes())).run()?;
        Ok(staged::said(&out, path))
    }

    /// True where the attributes of a path name a filter: then its content in the repository is another one.
    pub(super) fn is_filtered(&self, path: &TreePath) -> Result<bool> {
        let call = self.call("read the attributes").dir(&self.top).env("GIT_WORK_TREE", &self.top);
        let call = call.args(["check-attr", "-z", "filter", "--"]);
        let out = call.arg(OsStr::from_bytes(path.as_bytes())).run()?;
        let said = out.split(|byte| *byte == 0).nth(2);
        Ok(!matches!(said, Some(b"unspecified" | b"unset")))
    }

    /// Its objects, one after the other.
    pub fn blobs(&self) -> Result<Blobs> {
        Blobs::of(self.call("read objects"))
    }

    /// Sets and removes index entries. Their files are not looked at.
    pub fn set_index(&self, entries: &[(TreePath, Option<Item>)]) -> Result<()> {
        self.index_info(self.call("write the index"), entries)
    }

    fn index_info(&self, call: Call, entries: &[(TreePath, Option<Item>)]) -> Result<()> {
        let nothing = "0".repeat(if self.format == "sha256" { 64 } else { 40 });
        let mut input = Vec::new();
        for (path, item) in entries {
            let (mode, id) =
                item.as_ref().map_or((0, nothing.as_str()), |item| (item.mode, item.id.as_str()));
            input.extend(format!("{mode:06o} {id}\t").bytes());
            input.extend_from_slice(path.as_bytes());
            input.push(0);
        }
        call.args(["update-index", "-z", "--index-info"]).input(&input)?.run().map(|_| ())
    }

    /// Who commits, by the user's own configuration and environment.
    pub fn identity(&self) -> Result<Identity> {
        let ask = |which| {
            let out = self.runner.users(&self.git_dir, "tell who you are").args(["var", which]).run()?;
            Ok::<_, Error>(line(&out).to_vec())
        };
        Ok(Identity { author: ask("GIT_AUTHOR_IDENT")?, committer: ask("GIT_COMMITTER_IDENT")? })
    }

    /// The user's own list of what is ignored everywhere, where there is one.
    pub fn users_ignores(&self) -> Result<Option<PathBuf>> {
        let ask = || self.runner.users(&self.git_dir, "tell what is ignored");
        let said = ask().args(["config", "--type=path", "-z", "--get", "core.excludesFile"]).answer()?;
        let file = match said.out.strip_suffix(b"\0") {
            Some(path) if said.status.success() => PathBuf::from(OsStr::from_bytes(path)),
            _ => match self.runner.default_ignores() {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        Ok(file.is_file().then_some(file))
    }

    /// All refs' commits, one a line, each behind a `^`.
    pub(crate) fn but_for_its_refs(&self) -> Result<Vec<u8>> {
        self.call("list the refs").args(["for-each-ref", "--format=^%(objectname)"]).run()
    }

    /// Takes the objects of a pack, checked once more.
    pub(crate) fn take(&self, pack: &Path) -> Result<()> {
        let open =
            || File::open(pack).map_err(|error| Error::Git { doing: "read a pack", said: error.to_string() });
        let mut head = [0; 12];
        open()?
            .read_exact(&mut head)
            .map_err(|error| Error::Git { doing: "read a pack", said: error.to_string() })?;
        let count = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let call = self.call("take the objects");
        // A few stand by themselves, as after a small fetch; many stay together.
        let call = if count < 100 {
            call.args(["unpack-objects", "-q", "--strict"])
        } else {
            call.args(["index-pack", "--stdin", "--fix-thin", "--strict"])
        };
        call.input_file(open()?).run().map(|_| ())
    }

    /// Gets ready to move a ref from `old` (`None`: it must not be there) to `new`. `name` may be `HEAD`, which moves
    /// its branch. Until the answer is [`RefUpdate::commit`]ted or dropped, nobody else can move it.
    pub fn prepare(
        &self,
        name: &[u8],
        new: &str,
        old: Option<&str>,
        who: &Identity,
        why: &str,
    ) -> Result<RefUpdate> {
        let zero = "0".repeat(new.len());
        let call = committing(self.call("move the branch"), "COMMITTER", &who.committer)?;
        let mut child = call.args(["update-ref", "-m", why, "--stdin", "-z"]).talk()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Git { doing: "move the branch", said: "it cannot be talked to".to_owned() });
        };
        let mut update = RefUpdate { child, to: Some(to), from: BufReader::new(from) };
        let order = [
            b"start\0update ".as_slice(),
            name,
            b"\0",
            new.as_bytes(),
            b"\0",
            old.unwrap_or(&zero).as_bytes(),
            b"\0prepare\0",
        ];
        update.say(&order.concat())?;
        update.hear("start")?;
        update.hear("prepare")?;
        Ok(update)
    }

    /// Runs a hook of the repository's own, on an index of ours; a hook that is not there agrees.
    pub fn hook(&self, name: &str, args: &[&OsStr], index: &Path) -> Result<bool> {
        let call = Call::with_hooks(&self.runner, &self.git_dir, &self.top, "run a hook");
        let call = call.env("GIT_INDEX_FILE", index).env("GIT_EDITOR", ":");
        let call = call.args(["hook", "run", "--ignore-missing", name, "--"]).args(args);
        Ok(call.told()?.success())
    }

    /// Makes an index file that holds the tree of a commit.
    pub fn index_of(&self, commit: &str, index: &Path) -> Result<()> {
        let call = self.call("read a tree").env("GIT_INDEX_FILE", index);
        call.args(["read-tree", commit]).run().map(|_| ())
    }

    /// The commit of the tree that an index file holds.
    pub fn commit_index(
        &self,
        index: &Path,
        parent: Option<&str>,
        who: &Identity,
        message: &[u8],
    ) -> Result<String> {
        let tree = self
            .call("write a tree")
            .env("GIT_INDEX_FILE", index)
            .args(["write-tree", "--missing-ok"])
            .run()?;
        let tree = OsString::from_vec(line(&tree).to_vec());
        let call = committing(self.call("commit"), "AUTHOR", &who.author)?;
        let mut call = committing(call, "COMMITTER", &who.committer)?.arg("commit-tree").arg(tree);
        if let Some(parent) = parent {
            call = call.args(["-p", parent]);
        }
        let out = call.args(["-F", "-"]).input(message)?.run()?;
        Ok(String::from_utf8_lossy(line(&out)).into_owned())
    }
}

/// A ref that is about to move, and cannot be moved by anybody else.
#[derive(Debug)]
pub struct RefUpdate {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl RefUpdate {
    /// Moves it.
    pub fn commit(mut self) -> Result<()> {
        self.say(b"commit\0")?;
        self.hear("commit")
    }

    fn say(&mut self, words: &[u8]) -> Result<()> {
        let sent = self.to.as_mut().map(|to| to.write_all(words).and_then(|()| to.flush()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed()),
        }
    }

    fn hear(&mut self, what: &str) -> Result<()> {
        let mut answer = String::new();
        match self.from.read_line(&mut answer) {
            Ok(_) if answer.trim_end() == format!("{what}: ok") => Ok(()),
            _ => Err(self.failed()),
        }
    }

    fn failed(&mut self) -> Error {
        drop(self.to.take());
        let mut err = Vec::new();
        if let Some(from) = &mut self.child.stderr {
            let _ = from.read_to_end(&mut err);
        }
        Error::Git { doing: "move the branch", said: said(&err) }
    }
}

impl Drop for RefUpdate {
    fn drop(&mut self) {
        // Without a word more, git lets go of the ref as it was.
        drop(self.to.take());
        let _ = self.child.wait();
    }
}

/// Objects that are read one after the other.
#[derive(Debug)]
pub struct Blobs {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Blobs {
    pub(crate) fn of(call: Call) -> Result<Blobs> {
        let mut child = call.args(["cat-file", "--batch"]).talk()?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let from = from.ok_or(Error::Git { doing: "read objects", said: String::new() })?;
        Ok(Blobs { child, to, from: BufReader::new(from) })
    }

    /// The content of a blob; `None` where there is no such object, or it is larger than `limit`.
    pub fn read(&mut self, id: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let failed = |said: String| Error::Git { doing: "read objects", said };
        let io = |error: std::io::Error| failed(error.to_string());
        let to = self.to.as_mut().ok_or_else(|| failed("it is gone".to_owned()))?;
        to.write_all(format!("{id}\n").as_bytes()).and_then(|()| to.flush()).map_err(io)?;
        let mut head = String::new();
        self.from.read_line(&mut head).map_err(io)?;
        let words: Vec<&str> = head.trim_end().split(' ').collect();
        let [_, "blob", size] = words[..] else {
            return if head.trim_end().ends_with(" missing") { Ok(None) } else { Err(failed(head)) };
        };
        let size: u64 = size.parse().map_err(|_| failed(head.clone()))?;
        let mut bytes = Vec::new();
        if size <= limit {
            let read = self.from.by_ref().take(size).read_to_end(&mut bytes).map_err(io)?;
            if read as u64 != size {
                return Err(failed("it ended too early".to_owned()));
            }
        } else {
            std::io::copy(&mut self.from.by_ref().take(size), &mut std::io::sink()).map_err(io)?;
        }
        let mut newline = [0];
        self.from.read_exact(&mut newline).map_err(io)?;
        Ok((size <= limit).then_some(bytes))
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}

/// A call that commits as somebody.
fn committing(call: Call, which: &str, ident: &[u8]) -> Result<Call> {
    let nobody = || Error::Git { doing: "commit", said: "it does not say who you are".to_owned() };
    let (name, mail, date) = taken_apart(ident).ok_or_else(nobody)?;
    Ok(call
        .env(&format!("GIT_{which}_NAME"), OsStr::from_bytes(name))
        .env(&format!("GIT_{which}_EMAIL"), OsStr::from_bytes(mail))
        .env(&format!("GIT_{which}_DATE"), OsStr::from_bytes(&[b"@".as_slice(), date].concat())))
}

/// `Name <address> seconds zone`, in its parts.
fn taken_apart(ident: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let open = ident.iter().position(|b| *b == b'<')?;
    let close = ident.iter().rposition(|b| *b == b'>')?;
    Some((ident[..open].trim_ascii(), ident.get(open + 1..close)?, ident[close + 1..].trim_ascii()))
}

/// True for the name of an object, in hexadecimal.
pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn split_at(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|b| *b == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

fn item(mode: &[u8], id: &[u8]) -> Option<Item> {
    let mode = u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8).ok()?;
    let id = String::from_utf8_lossy(id).into_owned();
    is_id(&id).then_some(Item { mode, id })
}

/// `git ls-tree -r -z`: a path that is none of ours (`..`, say) is an error, since nothing good made it.
pub(crate) fn listed(out: &[u8]) -> Result<Items> {
    let mut items = Items::new();
    for entry in out.split(|b| *b == 0).filter(|entry| !entry.is_empty()) {
        let read = || {
            let (head, path) = split_at(entry, b'\t')?;
            let mut words = head.split(|b| *b == b' ');
            let (mode, _, id) = (words.next()?, words.next()?, words.next()?);
            Some((TreePath::new(path).ok()?, item(mode, id)?))
        };
        let (path, item) = read().ok_or_else(|| Error::Git {
            doing: "list a tree",
            said: format!("a line that cannot be read: {}", entry.escape_ascii()),
        })?;
        items.insert(path, item);
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::{listed, taken_apart};

    #[test]
    fn a_listing_is_read_by_bytes_and_a_path_that_leads_out_is_refused() {
        let id = "a".repeat(40);
        let out = format!("100755 blob {id}\ta\tb\nc\0120000 blob {id}\tl\0160000 commit {id}\tsub\0");
        let items = listed(out.as_bytes()).expect("read");
        let modes: Vec<(&[u8], u32)> =
            items.iter().map(|(path, item)| (path.as_bytes(), item.mode)).collect();
        assert_eq!(modes, [(&b"a\tb\nc"[..], 0o100_755), (b"l", 0o120_000), (b"sub", 0o160_000)]);
        for bad in ["../x", "a/../b", "/x", ""] {
            assert!(listed(format!("100644 blob {id}\t{bad}\0x").as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn who_commits_is_taken_apart_by_the_address() {
        let parts = taken_apart(b"A < B <a@b> 12 +0100");
        assert_eq!(parts, Some((&b"A"[..], &b" B <a@b"[..], &b"12 +0100"[..])));
        assert_eq!(taken_apart(b"nobody"), None);
    }
}
