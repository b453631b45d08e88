//! Two ways to write down a tree. [`Listing`] holds identity (inode, ctime, …) and shows whether anybody
//! touched anything; [`Plain`] holds what a user sees (content, mode, attributes) and shows whether two
//! trees are equal. Neither opens a file for writing, follows a link or opens a FIFO.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identity of every entry of a tree, by relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing(BTreeMap<Vec<u8>, Item>);

/// Identity of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Device and inode.
    pub inode: (u64, u64),
    /// Type and permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Hard links.
    pub nlink: u64,
    /// Bytes; of a directory too, because an entry that came and went may have grown it.
    pub size: u64,
    /// Content time in nanoseconds.
    pub mtime_ns: i128,
    /// Status time in nanoseconds.
    pub ctime_ns: i128,
}

impl Listing {
    /// Writes down `top` and everything below it.
    pub fn of(top: &Path) -> Listing {
        Listing::without(top, &[])
    }

    /// The same without the named entries (paths relative to `top`) and what is below them.
    pub fn without(top: &Path, left_out: &[&str]) -> Listing {
        let mut items = BTreeMap::new();
        each(top, Path::new(""), left_out, &mut |name, _, meta| {
            let ns = |sec: i64, nsec: i64| i128::from(sec) * 1_000_000_000 + i128::from(nsec);
            let item = Item {
                inode: (meta.dev(), meta.ino()),
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                nlink: meta.nlink(),
                size: meta.size(),
                mtime_ns: ns(meta.mtime(), meta.mtime_nsec()),
                ctime_ns: ns(meta.ctime(), meta.ctime_nsec()),
            };
            items.insert(name.to_vec(), item);
        });
        Listing(items)
    }

    /// The entries.
    pub fn items(&self) -> &BTreeMap<Vec<u8>, Item> {
        &self.0
    }

    /// The test is red unless both are equal; it names what differs.
    pub fn assert_same(&self, later: &Listing) {
        let differences = differences(&self.0, &later.0);
        assert!(differences.is_empty(), "the tree was touched:\n{}", differences.join("\n"));
    }
}

/// What a user sees of every entry of a tree, by relative path.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain(BTreeMap<Vec<u8>, Seen>);

/// What a user sees of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Type and permission bits.
    pub mode: u32,
    /// Content of a file, target of a link, empty for the rest. `None` where it could not be read.
    pub content: Option<Vec<u8>>,
    /// Extended attributes in the `user` namespace.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Plain {
    /// Writes down everything below `top` (not `top` itself).
    pub fn of(top: &Path) -> Plain {
        Plain::without(top, &[])
    }

    /// The same without the named entries (paths relative to `top`) and what is below them.
    pub fn without(top: &Path, left_out: &[&str]) -> Plain {
        let mut items = BTreeMap::new();
        each(top, Path::new(""), left_out, &mut |name, path, meta| {
            if name.is_empty() {
                return;
            }
            let content = if meta.is_file() {
                fs::read(path).ok()
            } else if meta.is_symlink() {
                fs::read_link(path).ok().map(|target| target.into_os_string().into_vec())
            } else {
                Some(Vec::new())
            };
            let xattrs = if meta.is_symlink() { BTreeMap::new() } else { user_xattrs(path) };
            items.insert(name.to_vec(), Seen { mode: meta.mode(), content, xattrs });
        });
        Plain(items)
    }

    /// The entries.
    pub fn items(&self) -> &BTreeMap<Vec<u8>, Seen> {
        &self.0
    }

    /// The paths that differ between both, sorted.
    pub fn changed(&self, other: &Plain) -> Vec<Vec<u8>> {
        let all: std::collections::BTreeSet<&Vec<u8>> = self.0.keys().chain(other.0.keys()).collect();
        all.into_iter().filter(|path| self.0.get(*path) != other.0.get(*path)).cloned().collect()
    }

    /// The test is red unless both are equal; it names what differs.
    pub fn assert_same(&self, other: &Plain) {
        let differences = differences(&self.0, &other.0);
        assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.keys().map(|name| name.escape_ascii().to_string());
        f.debug_list().entries(names).finish()
    }
}

fn differences<T: fmt::Debug + PartialEq>(
    old: &BTreeMap<Vec<u8>, T>,
    new: &BTreeMap<Vec<u8>, T>,
) -> Vec<String> {
    let all: std::collections::BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    let short = |item: &T| {
        let text = format!("{item:?}");
        if text.len() > 400 { format!("{}…", text.chars().take(400).collect::<String>()) } else { text }
    };
    all.into_iter()
        .filter_map(|path| {
            let name = path.escape_ascii();
            match (old.get(path), new.get(path)) {
                (Some(old), Some(new)) if old == new => None,
                (Some(old), Some(new)) => Some(format!("~ {name}\n    {}\n    {}", short(old), short(new))),
                (Some(old), None) => Some(format!("- {name} {}", short(old))),
                (None, new) => Some(format!("+ {name} {}", new.map(short).unwrap_or_default())),
            }
        })
        .collect()
}

fn each(top: &Path, below: &Path, left_out: &[&str], visit: &mut dyn FnMut(&[u8], &Path, &fs::Metadata)) {
    if left_out.iter().any(|name| Path::new(name) == below) {
        return;
    }
    let path = if below.as_os_str().is_empty() { top.to_path_buf() } else { top.join(below) };
    let meta = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("stat {}: {error}", path.display()));
    visit(below.as_os_str().as_bytes(), &path, &meta);
    if !meta.is_dir() {
        return;
    }
    // A directory that this person may not read stands for itself alone.
    let Ok(entries) = fs::read_dir(&path) else { return };
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    for name in names {
        each(top, &below.join(OsStr::from_bytes(name.as_bytes())), left_out, visit);
    }
}

fn user_xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let mut value = vec![0; 65536];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap_or(0);
            (name.to_vec(), value[..length].to_vec())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Listing, Plain};

    #[test]
    fn a_file_rewritten_with_equal_bytes_shows_in_the_listing_and_not_in_the_plain_tree() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("a"), "x").expect("written");
        let (listing, plain) = (Listing::of(dir.path()), Plain::of(dir.path()));
        listing.assert_same(&Listing::of(dir.path()));
        fs::remove_file(dir.path().join("a")).expect("removed");
        fs::write(dir.path().join("a"), "x").expect("written");
        assert_ne!(listing, Listing::of(dir.path()));
        plain.assert_same(&Plain::of(dir.path()));
        fs::write(dir.path().join("a"), "y").expect("written");
        assert_eq!(plain.changed(&Plain::of(dir.path())), [b"a".to_vec()]);
        Listing::without(dir.path(), &["a"]).items().iter().for_each(|(name, _)| assert!(name.is_empty()));
    }
}
