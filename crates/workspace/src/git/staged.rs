//! What a file of the origin held, by an index of its repository: the one of now, or one that was put aside when a lane
//! began. The index says of each file with which size, time and inode it had which content.
//!
//! Invariant: what is answered is the content of just that state of the file, or nothing: size, modification time and inode
//! are those of the index, the file was not written in the moment in which the index was, no filter stands between the
//! two, and the content has the file's size.

use std::os::fd::AsFd as _;
use std::path::Path;

use kernel::meta;
use tree::dir::entry_of;
use tree::{Entry, Time, TreePath};

use super::repository::{Blobs, Repository};
use crate::error::{Doing as _, Result};
use crate::home::HomeDir;

/// Where a lane has the index of root `index` as it was when the lane began.
fn file_name(index: usize) -> String {
    format!("index.{index}")
}

/// Puts the index of the repository that a root is aside, with its time. Where there is none, or it cannot be read, nothing
/// is put aside.
pub fn put_aside(origin: &Path, home: &HomeDir, index: usize) -> Result<()> {
    let facts = super::facts(origin);
    if facts.top.as_deref() != Some(origin) {
        return Ok(());
    }
    let git_dir = match &facts.dot_git {
        super::DotGit::None => return Ok(()),
        super::DotGit::Dir => origin.join(".git"),
        super::DotGit::File { gitdir } => gitdir.clone(),
    };
    let name = file_name(index);
    let doing = || home.path.join(&name);
    let Ok(dir) = kernel::open::root_dir(&git_dir) else { return Ok(()) };
    let Ok(from) = kernel::open::file_beneath(&dir, b"index") else { return Ok(()) };
    let step = "put an index aside";
    let entry = entry_of(&meta::stat_fd(&from).doing(step, doing())?);
    let (to, temp) = kernel::publish::temp_file(&home.fd, 0o600).doing(step, doing())?;
    let write = || -> kernel::Result<()> {
        kernel::bytes::move_content(from.as_fd(), to.as_fd(), entry.size)?;
        meta::set_times_fd(&to, (entry.mtime.sec, entry.mtime.nsec))?;
        kernel::publish::rename_replace(&home.fd, &temp, &home.fd, name.as_bytes())
    };
    let written = write();
    if written.is_err() {
        let _temporary_names_are_cleared = kernel::node::unlink_at(&home.fd, &temp);
    }
    written.doing(step, doing())
}

/// What indexes of a repository say.
#[derive(Debug)]
pub struct Staged {
    repository: Repository,
    /// The index that was put aside first.
    indexes: Vec<std::path::PathBuf>,
    blobs: Blobs,
}

impl Staged {
    /// The indexes of a repository and of root `index` of a lane.
    pub fn open(repository: Repository, home: &HomeDir, index: usize) -> Result<Staged> {
        let indexes = vec![home.path.join(file_name(index)), repository.git_dir().join("index")];
        let blobs = repository.blobs()?;
        Ok(Staged { repository, indexes, blobs })
    }

    /// The content that the file at `path` had when it was `entry`.
    pub fn content(&mut self, path: &TreePath, entry: &Entry) -> Result<Option<Vec<u8>>> {
        if !entry.is_file() {
            return Ok(None);
        }
        for index in &self.indexes {
            let Some(written) = written(index) else { continue };
            let Some(said) = self.repository.staged_at(index, path)? else { continue };
            let is_it = (said.size, said.ino) == (entry.size & 0xffff_ffff, entry.ino & 0xffff_ffff)
                && said.mtime == entry.mtime
                && said.mtime < written;
            if !is_it || self.repository.is_filtered(path)? {
                continue;
            }
            let content = self.blobs.read(&said.id, entry.size)?;
            if let Some(content) = content.filter(|content| content.len() as u64 == entry.size) {
                return Ok(Some(content));
            }
        }
        Ok(None)
    }
}

fn written(index: &Path) -> Option<Time> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(index).ok()?;
    Some(Time { sec: meta.mtime(), nsec: u32::try_from(meta.mtime_nsec()).ok()? })
}

/// An entry of an index with what it says of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) id: String,
    mtime: Time,
    /// The lower 32 bits.
    ino: u64,
    /// The lower 32 bits.
    size: u64,
}

/// Reads what `git ls-files -s --debug -z` says of one file.
pub(super) fn said(out: &[u8], path: &TreePath) -> Option<Said> {
    let end = out.iter().position(|byte| *byte == 0)?;
    let (head, rest) = (&out[..end], std::str::from_utf8(&out[end + 1..]).ok()?);
    let tab = head.iter().position(|byte| *byte == b'\t')?;
    if &head[tab + 1..] != path.as_bytes() {
        return None;
    }
    let mut words = std::str::from_utf8(&head[..tab]).ok()?.split(' ');
    let (mode, id, stage) = (words.next()?, words.next()?.to_owned(), words.next()?);
    if !mode.starts_with("100") || stage != "0" {
        return None;
    }
    let after = |key: &str| {
        let at = rest.find(key)? + key.len();
        rest[at..].split(['\n', '\t']).next().map(str::trim)
    };
    let (sec, nsec) = after("mtime:")?.split_once(':')?;
    Some(Said {
        id,
        mtime: Time { sec: sec.parse().ok()?, nsec: nsec.parse().ok()? },
        ino: after("ino:")?.parse().ok()?,
        size: after("size:")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::said;
    use tree::TreePath;

    #[test]
    fn an_entry_is_read_and_one_in_conflict_or_of_another_path_is_none() {
        let path = TreePath::new("e/x").expect("a path");
        let text = b"100644 a9ee56 0\te/x\0  ctime: 17:84\n  mtime: 1796058134:806685470\n  dev: 65024\tino: 10381171\n  uid: 0\tgid: 0\n  size: 79\tflags: 0\n";
        let found = said(text, &path).expect("an entry");
        assert_eq!((found.id.as_str(), found.ino, found.size), ("a9ee56", 10_381_171, 79));
        assert_eq!((found.mtime.sec, found.mtime.nsec), (1_796_058_134, 806_685_470));
        assert_eq!(said(text, &TreePath::new("e").expect("a path")), None);
        assert_eq!(said(&text.map(|byte| if byte == b'0' { b'1' } else { byte }), &path), None);
        for cut in 0..text.len() - 12 {
            assert_eq!(said(&text[..cut], &path), None, "{cut}");
        }
    }
}
