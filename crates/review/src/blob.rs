//! The name that git gives to content: whether a repository has a file's content can be asked by it.

use tree::{Entry, Kind, Source, TreePath};

use crate::error::Result;
use crate::read;
use crate::sha1::Sha1;

/// The SHA-1 name of a file's content, or of a link's target; `None` for what git has no blob for.
pub fn blob_name(source: &dyn Source, path: &TreePath, entry: &Entry) -> Result<Option<[u8; 20]>> {
    let mut sha = Sha1::blob(entry.size);
    match entry.kind {
        Kind::Symlink => {
            sha = Sha1::blob(entry.target.len() as u64);
            sha.update(&entry.target);
        }
        Kind::File => read::stream(source, "lane", path, &mut |bytes| {
            sha.update(bytes);
            Ok(())
        })?,
        _ => return Ok(None),
    }
    Ok(Some(sha.finish()))
}
