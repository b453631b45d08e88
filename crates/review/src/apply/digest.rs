//! Digests of files that we made: content, attributes and owner, so that a later look can tell an edit from a mere change
//! of status (a backup, a further name).
//!
//! Invariant: equal digests mean that nothing of a file that a keep carries differs. Reading for one follows no link.

use std::os::fd::OwnedFd;

use kernel::{Errno, bytes, meta, open};
use tree::TreePath;

use super::journal::Digest;
use super::undo::carried_xattrs_of;
use crate::error::{Result, Stepping as _};

/// Larger files have none: reading them once more would cost more than it tells.
const LARGEST: u64 = 16 << 20;

/// The digest of the regular file `name` in `dir`; `None` where there can be none.
pub(crate) fn at(dir: &OwnedFd, name: &[u8], path: &TreePath) -> Result<Option<Digest>> {
    match open::file_beneath(dir, name) {
        Ok(file) => of(&file, path),
        Err(error) if matches!(error.errno, Errno::ACCESS | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error).stepping("open", path),
    }
}

/// The same of an open file.
fn of(file: &OwnedFd, path: &TreePath) -> Result<Option<Digest>> {
    let stat = meta::stat_fd(file).stepping("stat", path)?;
    if stat.size > LARGEST {
        return Ok(None);
    }
    let mut hasher = begin((stat.uid, stat.gid), carried_xattrs_of(file, path)?);
    let mut buffer = vec![0; usize::try_from(stat.size.min(256 << 10)).unwrap_or_default() + 1];
    let mut done = 0;
    loop {
        let got = bytes::read_full_at(file, &mut buffer, done).stepping("read", path)?;
        if got == 0 {
            break;
        }
        hasher.update(&buffer[..got]);
        done += got as u64;
        if got < buffer.len() {
            break;
        }
    }
    Ok(Some(*hasher.finalize().as_bytes()))
}

/// The same of an open file of this owner. `content`: what was written to it a moment ago, where that is at hand;
/// `is_bare`: it has no attributes.
pub(crate) fn of_made(
    file: &OwnedFd,
    owner: (u32, u32),
    is_bare: bool,
    content: Option<&[u8]>,
    path: &TreePath,
) -> Result<Option<Digest>> {
    let Some(content) = content.filter(|content| content.len() as u64 <= LARGEST) else {
        return of(file, path);
    };
    let xattrs = if is_bare { Vec::new() } else { carried_xattrs_of(file, path)? };
    let mut hasher = begin(owner, xattrs);
    hasher.update(content);
    Ok(Some(*hasher.finalize().as_bytes()))
}

/// The same of a file of this owner without attributes.
pub(crate) fn of_content(owner: (u32, u32), content: &[u8]) -> Digest {
    *begin(owner, Vec::new()).update(content).finalize().as_bytes()
}

/// Everything but the content.
fn begin(owner: (u32, u32), xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(&[owner.0.to_le_bytes(), owner.1.to_le_bytes()].concat());
    for (name, value) in xattrs {
        part(&name);
        part(&value);
    }
    hasher
}
