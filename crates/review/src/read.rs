//! Reading content out of a [`Source`]: whole where it is small enough to be shown, streamed where
//! it is not. Never follows a link; what is read is what the entry said, or an error.

use std::os::fd::OwnedFd;

use tree::{Entry, Kind, Source, TreePath};

use crate::error::{Reading as _, Result};

/// The largest piece in which content is handed on.
const LARGEST: usize = 128 << 10;

/// Content up to this size is compared by lines; larger content is treated as binary.
pub(crate) const TEXT_LIMIT: u64 = 64 << 20;

/// The bytes that a patch carries for an entry: a file's content, a link's target.
/// `None` where the content is larger than `limit`.
pub(crate) fn content(
    source: &dyn Source,
    side: &'static str,
    path: &TreePath,
    entry: &Entry,
    limit: u64,
) -> Result<Option<Vec<u8>>> {
    if entry.kind == Kind::Symlink {
        return Ok(Some(entry.target.clone()));
    }
    if entry.kind != Kind::File {
        return Ok(Some(Vec::new()));
    }
    if entry.size > limit {
        return Ok(None);
    }
    let file = source.open(path).reading(side, path)?;
    let (mut bytes, mut len) = (Vec::new(), 0);
    // One byte more than it should be tells that it is all; a file that grew meanwhile is read on.
    while len == bytes.len() && bytes.len() as u64 <= limit {
        let more = if bytes.is_empty() { entry.size + 1 } else { 1 << 20 };
        bytes.resize(len + usize::try_from(more).unwrap_or(1 << 20), 0);
        len += kernel::bytes::read_full_at(&file, &mut bytes[len..], len as u64).reading(side, path)?;
    }
    bytes.truncate(len);
    Ok((len as u64 <= limit).then_some(bytes))
}

/// The first bytes of a regular file.
pub(crate) fn start(source: &dyn Source, side: &'static str, path: &TreePath, most: u64) -> Result<Vec<u8>> {
    let file = source.open(path).reading(side, path)?;
    let mut bytes = vec![0; usize::try_from(most).unwrap_or_default()];
    let got = kernel::bytes::read_full_at(&file, &mut bytes, 0).reading(side, path)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Hands the content of a regular file to `sink` in pieces.
pub(crate) fn stream(
    source: &dyn Source,
    side: &'static str,
    path: &TreePath,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let file = source.open(path).reading(side, path)?;
    let size = kernel::meta::stat_fd(&file).reading(side, path)?.size;
    pieces(&file, size, side, path, sink)
}

/// The same of an open file of about `size` bytes.
pub(crate) fn pieces(
    file: &OwnedFd,
    size: u64,
    side: &'static str,
    path: &TreePath,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    // One byte more than it should be tells that it is all.
    let mut buffer = vec![0; usize::try_from(size.saturating_add(1)).unwrap_or(LARGEST).min(LARGEST)];
    let mut done = 0;
    loop {
        let got = kernel::bytes::read_full_at(file, &mut buffer, done).reading(side, path)?;
        if got > 0 {
            sink(&buffer[..got])?;
        }
        if got < buffer.len() {
            return Ok(());
        }
        done += got as u64;
    }
}
