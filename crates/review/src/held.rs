//! Content that is taken out of the lane before it is looked at for the last time, so that nobody inside can change it
//! between that look and the keep. It owns the copying; what is looked at, and when, is the caller's.
//!
//! Invariant: what was held is what is kept, byte for byte, whatever becomes of the lane meanwhile. Content too large to be
//! shown by lines is not held: of that, size and times tell whether it is still the same.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::bytes::Mover;
use kernel::publish::Draft;
use tree::{Change, ChangeSet, Entry, Source as _, TreePath};

use crate::composed::Composed;
use crate::error::{Error, Reading as _, Result, Stepping as _};
use crate::read::TEXT_LIMIT;

/// Puts the new content of the changes that `is_asked` picks into files of ours on the file system of `place` (clones,
/// where it can). The set and the tree speak of those from then on. Names of one file stay names of one file.
pub fn hold(
    set: &mut ChangeSet,
    tree: &mut Composed<'_>,
    place: BorrowedFd<'_>,
    is_asked: &dyn Fn(&Change) -> bool,
) -> Result<()> {
    let mut mover = Mover::new();
    let mut groups: BTreeMap<(u64, u64), OwnedFd> = BTreeMap::new();
    for change in set.changes.iter_mut().filter(|change| is_asked(change)) {
        let Some(new) = change.new.as_ref().filter(|new| new.is_file() && new.size <= TEXT_LIMIT) else {
            continue;
        };
        let path = &change.path;
        let xattrs = tree.xattrs(path).reading("lane", path)?;
        let group = (new.dev, new.ino);
        let file = match groups.get(&group).filter(|_| new.nlink > 1) {
            Some(file) => file.try_clone(),
            None => {
                let file = copy(tree, path, new, place, &mut mover)?;
                if new.nlink > 1 {
                    let again = file.try_clone();
                    let again = again.map_err(|error| kernel::Error::from_io("dup", b"", &error));
                    groups.insert(group, again.stepping("hold content", path)?);
                }
                Ok(file)
            }
        };
        let file = file.map_err(|error| kernel::Error::from_io("dup", b"", &error));
        let file = file.stepping("hold content", path)?;
        change.new = Some(tree.put_held(path, file, new, xattrs).stepping("hold content", path)?);
    }
    Ok(())
}

fn copy(
    tree: &Composed<'_>,
    path: &TreePath,
    entry: &Entry,
    place: BorrowedFd<'_>,
    mover: &mut Mover,
) -> Result<OwnedFd> {
    let from = tree.open(path).reading("lane", path)?;
    let to = Draft::begin(place, 0o600).and_then(Draft::into_unnamed).stepping("hold content", path)?;
    let sparse = entry.allocated < entry.size;
    let moved = mover.move_content(from.as_fd(), to.as_fd(), entry.size, sparse);
    let (_, moved) = moved.stepping("hold content", path)?;
    if moved == entry.size { Ok(to) } else { Err(Error::LaneMoved { path: path.clone() }) }
}
