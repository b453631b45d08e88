//! Listing a directory by descriptor. Owns the reading of `getdents64`; never descends, never stats.
//!
//! Invariant: names are bytes, sorted by bytes, without `.` and `..`, each once.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::error::{Asked, Result};

/// One name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirName {
    /// The name.
    pub name: Vec<u8>,
    /// The type as the directory tells it; `None` where the filesystem does not say.
    pub kind: Option<FileType>,
    /// The inode number as the directory tells it (that of the covered directory at a mount point).
    pub ino: u64,
}

/// The names in `dir`, which must be open for reading (not `O_PATH`). Moves its file offset.
pub fn entries(dir: impl AsFd) -> Result<Vec<DirName>> {
    let dir = dir.as_fd();
    rustix::fs::seek(dir, SeekFrom::Start(0)).asked("lseek", b"")?;
    unread_entries(dir)
}

/// As [`entries`], for a descriptor that was just opened: saves the rewind.
pub fn unread_entries(dir: impl AsFd) -> Result<Vec<DirName>> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
    let mut found = Vec::new();
    let mut raw = RawDir::new(dir.as_fd(), &mut buffer);
    while let Some(item) = raw.next() {
        let item = match item {
            Ok(item) => item,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno).asked("getdents64", b""),
        };
        let name = item.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match item.file_type() {
            FileType::Unknown => None,
            known => Some(known),
        };
        found.push(DirName { name: name.to_vec(), kind, ino: item.ino() });
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    // A directory that changes while it is read may give a name twice.
    found.dedup_by(|a, b| a.name == b.name);
    Ok(found)
}

/// The names at the top of a directory, to rule out at once what lies below one that is not there. Where the directory
/// cannot be listed, nothing is ruled out.
#[derive(Debug)]
pub struct Tops(Option<Vec<DirName>>);

impl Tops {
    /// Lists `path`, following links.
    pub fn of(path: &Path) -> Tops {
        Tops(crate::open::root_dir(path).and_then(|dir| unread_entries(&dir)).ok())
    }

    /// False where nothing of this name, nor below it, can be there.
    pub fn may_hold(&self, path: &Path) -> bool {
        let (Some(names), Some(Component::Normal(top))) = (&self.0, path.components().next()) else {
            return true;
        };
        names.binary_search_by(|entry| entry.name.as_slice().cmp(top.as_bytes())).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn what_lies_below_no_name_is_ruled_out() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(dir.path().join("there")).expect("mkdir");
        let tops = Tops::of(dir.path());
        for (path, may) in
            [("there", true), ("there/x", true), ("not", false), ("not/there", false), ("/", true)]
        {
            assert_eq!(tops.may_hold(Path::new(path)), may, "{path}");
        }
        assert!(Tops::of(&dir.path().join("not")).may_hold(Path::new("x")));
    }

    #[test]
    fn strange_names_come_back_as_bytes_and_sorted() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let long = vec![b'x'; 255];
        let mut names: Vec<&[u8]> =
            vec![b"bad\xff", b"new\nline", b" lead", b"-rf", b"caf\xc3\xa9", b"cafe\xcc\x81", &long];
        for name in &names {
            std::fs::write(dir.path().join(OsStr::from_bytes(name)), b"").expect("write");
        }
        names.sort_unstable();
        let fd = crate::open::root_dir(dir.path()).expect("open");
        for _ in 0..2 {
            let found: Vec<Vec<u8>> =
                entries(&fd).expect("list").into_iter().map(|entry| entry.name).collect();
            assert_eq!(found, names);
        }
    }

    #[test]
    fn a_directory_larger_than_the_buffer_is_read_whole() {
        let dir = tempfile::tempdir().expect("temporary directory");
        for n in 0..3000 {
            std::fs::write(dir.path().join(format!("file-with-a-longer-name-{n:05}")), b"").expect("write");
        }
        let fd = crate::open::root_dir(dir.path()).expect("open");
        let found = entries(&fd).expect("list");
        assert_eq!(found.len(), 3000);
        assert_eq!(found[2999].name, b"file-with-a-longer-name-02999");
    }
}
