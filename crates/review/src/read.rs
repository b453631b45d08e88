//! Reading content out of a [`Source`]: whole where it is small enough to be shown, streamed where
//! it is not. Never follows a link; what is read is what the entry said, or an error.

use std::fs::File;
use std::io::Read as _;

use kernel::error::Asked as _;
use tree::{Entry, Kind, Source, TreePath};

use crate::error::{Reading as _, Result};

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
    let file = File::from(source.open(path).reading(side, path)?);
    let mut bytes = Vec::with_capacity(usize::try_from(entry.size).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes).asked("read", path.as_bytes()).reading(side, path)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// The first bytes of a regular file.
pub(crate) fn start(source: &dyn Source, side: &'static str, path: &TreePath, most: u64) -> Result<Vec<u8>> {
    let file = File::from(source.open(path).reading(side, path)?);
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).asked("read", path.as_bytes()).reading(side, path)?;
    Ok(bytes)
}

/// Hands the content of a regular file to `sink` in pieces.
pub(crate) fn stream(
    source: &dyn Source,
    side: &'static str,
    path: &TreePath,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut file = File::from(source.open(path).reading(side, path)?);
    let mut buffer = vec![0; 128 << 10];
    loop {
        let got = match file.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other.asked("read", path.as_bytes()).reading(side, path)?,
        };
        if got == 0 {
            return Ok(());
        }
        sink(&buffer[..got])?;
    }
}
