//! A layer as a plain map, read by the standard library alone: what a restore has to bring back.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Everything about one entry that a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    content: Vec<u8>,
    /// Bytes of a file, of which no more than a hash is kept where they are many.
    len: u64,
    /// Blocks of 64 KiB that are not empty: shows holes, and not how a filesystem lays out what is small.
    filled: u64,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first name of the same inode.
    first: Option<Vec<u8>>,
}

/// Bytes of which a test that remembers hundreds of layers does not remember each.
const MANY: usize = 4096;

/// A layer by path.
pub(crate) type Model = BTreeMap<Vec<u8>, Row>;

/// Reads a directory and everything below it. Sockets are left out, as a snapshot leaves them.
pub(crate) fn read(top: &Path) -> Model {
    let mut model = Model::new();
    let mut names: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    visit(top, b"", &mut model, &mut names);
    settle(&mut model);
    for mut paths in names.into_values().filter(|paths| paths.len() > 1) {
        paths.sort();
        for path in &paths {
            model.get_mut(path).expect("known").first = Some(paths[0].clone());
        }
    }
    model
}

/// Takes away marks that say nothing: a directory below one that shows nothing of the base is opaque in any case.
fn settle(model: &mut Model) {
    let mut paths: Vec<Vec<u8>> = model.keys().cloned().collect();
    paths.sort_by_key(|path| path.iter().filter(|byte| **byte == b'/').count());
    let mut merges: HashMap<Vec<u8>, bool> = HashMap::new();
    for path in paths {
        let row = model.get_mut(&path).expect("known");
        if row.kind != "dir" {
            continue;
        }
        let above = path.iter().rposition(|byte| *byte == b'/').map_or(b"".as_slice(), |at| &path[..at]);
        let shows = path.is_empty() || merges[above];
        let is = |name: &[u8], what: &[u8]| name.ends_with(&[b".overlay.", what].concat());
        if !shows {
            row.xattrs.retain(|name, _| !is(name, b"opaque"));
        }
        let has = |what: &[u8]| row.xattrs.keys().any(|name| is(name, what));
        let own = has(b"redirect") || shows && !has(b"opaque");
        merges.insert(path, own);
    }
}

fn visit(top: &Path, path: &[u8], model: &mut Model, names: &mut HashMap<u64, Vec<Vec<u8>>>) {
    let at = top.join(OsStr::from_bytes(path));
    let meta = fs::symlink_metadata(&at).expect("stat");
    let kind = meta.file_type();
    if kind.is_socket() {
        return;
    }
    let mut row = Row {
        kind: "file",
        mode: meta.mode() & 0o7777,
        owner: (meta.uid(), meta.gid()),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        content: Vec::new(),
        len: 0,
        filled: 0,
        xattrs: BTreeMap::new(),
        first: None,
    };
    if kind.is_symlink() {
        (row.kind, row.mode) = ("symlink", 0);
        row.content = fs::read_link(&at).expect("read link").into_os_string().as_bytes().to_vec();
    } else if kind.is_fifo() {
        row.kind = "fifo";
    } else if kind.is_char_device() {
        assert_eq!(meta.rdev(), 0, "{}", at.display());
        (row.kind, row.mode, row.owner, row.mtime) = ("whiteout", 0, (0, 0), (0, 0));
    } else if kind.is_dir() {
        row.kind = "dir";
        row.xattrs = xattrs(&at);
    } else {
        row.content = fs::read(&at).expect("read");
        row.len = row.content.len() as u64;
        if row.content.len() > MANY {
            row.content = blake3::hash(&row.content).as_bytes().to_vec();
        }
        row.xattrs = xattrs(&at);
        row.filled = filled(&at, meta.len());
    }
    if !kind.is_dir() && row.kind != "whiteout" {
        names.entry(meta.ino()).or_default().push(path.to_vec());
    }
    model.insert(path.to_vec(), row);
    if kind.is_dir() {
        for item in fs::read_dir(&at).expect("list") {
            let name = item.expect("item").file_name();
            let mut below = path.to_vec();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(name.as_bytes());
            visit(top, &below, model, names);
        }
    }
}

fn filled(path: &Path, len: u64) -> u64 {
    if len < 1 << 20 {
        return 0;
    }
    let file = fs::File::open(path).expect("open");
    let extents = kernel::bytes::extents(&file, len).expect("extents");
    extents.into_iter().map(|(start, end)| end.div_ceil(1 << 16) - start / (1 << 16)).sum()
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).expect("list attributes");
    let wanted = |name: &&[u8]| {
        let mark = name.ends_with(b".overlay.origin") || name.ends_with(b".overlay.impure");
        !name.is_empty() && !name.starts_with(b"security.") && !mark
    };
    names[..length]
        .split(|byte| *byte == 0)
        .filter(wanted)
        .map(|name| {
            let mut value = vec![0; 65536];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("read attribute");
            (name.to_vec(), value[..length].to_vec())
        })
        .collect()
}

/// What differs, a line for each path.
pub(crate) fn difference(one: &Model, two: &Model) -> Vec<String> {
    let paths: std::collections::BTreeSet<&Vec<u8>> = one.keys().chain(two.keys()).collect();
    let short = |row: Option<&Row>| {
        row.map(|row| {
            let Row { kind, mode, owner, mtime, content, len, filled, xattrs, first } = row;
            let hash = content
                .iter()
                .fold(content.len() as u64, |sum, b| sum.wrapping_mul(31).wrapping_add((*b).into()));
            format!("{kind} {mode:o} {owner:?} {mtime:?} {len}:{hash:x} {filled} {xattrs:?} {first:?}")
        })
    };
    paths
        .into_iter()
        .filter(|path| one.get(*path) != two.get(*path))
        .map(|path| {
            format!("{}: {:?} != {:?}", path.escape_ascii(), short(one.get(path)), short(two.get(path)))
        })
        .collect()
}

/// Fails with a line for each path that differs.
pub(crate) fn assert_same(one: &Model, two: &Model) {
    let lines = difference(one, two);
    assert!(lines.is_empty(), "{lines:#?}");
}
