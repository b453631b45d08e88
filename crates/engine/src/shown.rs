//! What was shown last of a lane: for each digest that a diff answered, which changes it stands for. It makes it possible
//! to say later what has moved, by the digest alone.
//!
//! Invariant: this is a memory, not a record: what is missing or damaged costs an answer its detail and nothing else.
//! At most [`MOST`] diffs are remembered; they lie in the lane's directory and go with it.

use std::os::fd::OwnedFd;

use kernel::{dir, meta, node, open, publish};
use workspace::LaneHome;

use crate::selection::{Digest, Selection};

/// Its directory in that of the lane.
const DIR: &[u8] = b"shown";
/// The most that are remembered.
const MOST: usize = 16;

/// Remembers a diff. What goes wrong is left: the diff itself has been made.
pub(crate) fn remember(home: &LaneHome, seen: &Selection) {
    let work = || -> kernel::Result<()> {
        let dir = match open::dir_beneath(&home.dir().fd, DIR) {
            Err(error) if error.is_not_found() => {
                node::mkdir_at(&home.dir().fd, DIR, 0o700)?;
                open::dir_beneath(&home.dir().fd, DIR)?
            }
            other => other?,
        };
        let document = seen.to_json();
        publish::write_passing_file(&dir, name(&seen.digest).as_bytes(), document.as_bytes(), 0o600)?;
        forget_oldest(&dir)
    };
    let _ = work();
}

/// What a digest stands for, if it is remembered.
pub(crate) fn recall(home: &LaneHome, digest: &Digest) -> Option<Selection> {
    let dir = open::dir_beneath(&home.dir().fd, DIR).ok()?;
    let file = open::file_beneath(&dir, name(digest).as_bytes()).ok()?;
    let selection = Selection::from_json(&kernel::bytes::read_all(&file).ok()?).ok()?;
    (selection.digest == *digest).then_some(selection)
}

fn name(digest: &Digest) -> String {
    digest.to_string()
}

fn forget_oldest(dir: &OwnedFd) -> kernel::Result<()> {
    let names = dir::entries(dir)?;
    if names.len() <= MOST {
        return Ok(());
    }
    let mut dated = Vec::new();
    for entry in names {
        if let Some(stat) = meta::stat_at_if_there(dir, &entry.name)? {
            dated.push((stat.mtime, entry.name));
        }
    }
    dated.sort();
    let too_many = dated.len().saturating_sub(MOST);
    for (_, name) in dated.into_iter().take(too_many) {
        node::unlink_at(dir, &name)?;
    }
    Ok(())
}
