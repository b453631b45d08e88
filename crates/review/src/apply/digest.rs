//! Digests of files that we made: content, attributes and owner, so that a later look can tell an edit from a mere change
//! of status (a backup, a further name).
//!
//! Invariant: equal digests mean that nothing of a file that a keep carries differs. Reading for one follows no link.

use std::os::fd::{AsFd, OwnedFd};

use kernel::{Errno, bytes, meta, open};
use tree::TreePath;

use super::journal::Digest;
use super::undo::carried_xattrs;
use crate::error::{Result, Stepping as _};

/// Larger files have none: reading them once more would cost more than it tells.
const LARGEST: u64 = 16 << 20;

/// The digest of the regular file `name` in `dir`; `None` where there can be none.
pub(crate) fn at(dir: &OwnedFd, name: &[u8], path: &TreePath) -> Result<Option<Digest>> {
    match open::file_beneath(dir, name) {
        Ok(file) => of(&file, dir, name, path),
        Err(error) if matches!(error.errno, Errno::ACCESS | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error).stepping("open", path),
    }
}

/// The same of an open file that stands there.
pub(crate) fn of(file: impl AsFd, dir: &OwnedFd, name: &[u8], path: &TreePath) -> Result<Option<Digest>> {
    let file = file.as_fd();
    let stat = meta::stat_fd(file).stepping("stat", path)?;
    if stat.size > LARGEST {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(&[stat.uid.to_le_bytes(), stat.gid.to_le_bytes()].concat());
    for (name, value) in carried_xattrs(dir, name, path)? {
        part(&name);
        part(&value);
    }
    let mut buffer = vec![0; usize::try_from(stat.size.min(256 << 10)).unwrap_or_default() + 1];
    let mut done = 0;
    loop {
        let got = bytes::read_full_at(file, &mut buffer, done).stepping("read", path)?;
        if got == 0 {
            break;
        }
        hasher.update(&buffer[..got]);
        done += got as u64;
    }
    Ok(Some(*hasher.finalize().as_bytes()))
}
