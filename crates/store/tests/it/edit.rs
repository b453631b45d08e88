//! [`Edit`]: what happens to a layer between two snapshots, on a few names, so that edits meet.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use kernel::{node, xattr};

use crate::world::{format, open};

/// One edit of a layer.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    File(usize, usize),
    Dir(usize),
    Symlink(usize),
    Fifo(usize),
    Whiteout(usize),
    Link(usize, usize),
    Remove(usize),
    Mode(usize, u32),
    Xattr(usize, u8),
    Opaque(usize),
    Rename(usize, usize),
    Time(usize, i64),
    Append(usize),
    Sparse(usize),
}

/// Where edits happen.
pub(crate) const NAMES: [&str; 14] = [
    "a",
    "b",
    "d",
    "d/a",
    "d/b",
    "d/e",
    "d/e/a",
    "d/e/b",
    "f",
    "f/a",
    "f/\u{1}\n",
    "f/g",
    "f/g/h",
    "f/g/h/a",
];

/// Does an edit where it can be done, and nothing where it cannot.
pub(crate) fn apply(layer: &Path, edit: &Edit, number: usize) {
    let at = |n: usize| layer.join(NAMES[n]);
    // Nothing happens where a closed directory keeps what is in it.
    let clear = |n: usize| {
        let path = at(n);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        path.symlink_metadata().is_err().then_some(path)
    };
    let fd = open(layer);
    let parent = |n: usize| kernel::open::parent_beneath(&fd, NAMES[n].as_bytes());
    match edit {
        Edit::File(n, len) => {
            let Some(path) = clear(*n) else { return };
            let text = format!("{number}-").repeat(len / 2 + 1);
            let _ = fs::write(path, text.get(..*len).unwrap_or_default());
        }
        Edit::Dir(n) => {
            let _ = clear(*n).map(fs::create_dir_all);
        }
        Edit::Symlink(n) => {
            let _ = clear(*n).map(|path| symlink(format!("../t{number}"), path));
        }
        Edit::Fifo(n) => {
            clear(*n);
            let _ = parent(*n).and_then(|(dir, name)| node::mkfifo_at(dir, &name, 0o640));
        }
        Edit::Whiteout(n) => {
            clear(*n);
            let _ = parent(*n).and_then(|(dir, name)| node::whiteout_at(dir, &name));
        }
        Edit::Link(a, b) => {
            if at(*a).symlink_metadata().is_ok_and(|meta| meta.is_file()) && a != b {
                let _ = clear(*b).map(|path| fs::hard_link(at(*a), path));
            }
        }
        Edit::Remove(n) => {
            clear(*n);
        }
        Edit::Mode(n, mode) => {
            // A directory can be looked into by its owner, so that the naive look at it needs no power.
            if let Some(meta) = at(*n).symlink_metadata().ok().filter(|meta| meta.is_file() || meta.is_dir())
            {
                let mode = if meta.is_dir() { mode | 0o500 } else { mode | 0o600 };
                let _ = fs::set_permissions(at(*n), fs::Permissions::from_mode(mode));
            }
        }
        Edit::Xattr(n, value) => {
            if at(*n).symlink_metadata().is_ok_and(|meta| meta.is_file() || meta.is_dir()) {
                let (dir, name) = parent(*n).expect("there");
                let _ = xattr::set_at(&dir, &name, b"user.x", &[*value; 3]);
                let _ = xattr::set_at(&dir, &name, b"user.overlay.overlay.y", &[*value]);
            }
        }
        Edit::Opaque(n) => {
            if at(*n).symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                let (dir, name) = parent(*n).expect("there");
                let _ = xattr::set_at(&dir, &name, &format().mark(b"opaque"), b"y");
            }
        }
        Edit::Rename(a, b) => {
            let _ = fs::rename(at(*a), at(*b));
        }
        Edit::Time(n, sec) => {
            if let Ok((dir, name)) = parent(*n) {
                let _ = kernel::meta::set_times_at(dir, &name, (*sec, 123_456_789));
            }
        }
        Edit::Append(n) => {
            use std::io::Write as _;
            if at(*n).symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                let mut file = fs::File::options().append(true).open(at(*n)).expect("open");
                write!(file, "more {number}").expect("write");
            }
        }
        Edit::Sparse(n) => {
            use std::os::unix::fs::FileExt as _;
            if let Some(Ok(file)) = clear(*n).map(fs::File::create) {
                file.set_len(3 << 20).expect("set_len");
                file.write_at(&[7; 100], 1 << 20).expect("write");
                file.write_at(format!("{number}").as_bytes(), 2 << 20).expect("write");
            }
        }
    }
}
