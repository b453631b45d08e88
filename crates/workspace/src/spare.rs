//! Spare lane directories: what is left of lanes that were removed in passing, for the next lanes to be made from.
//!
//! On ext4 a directory costs about 0.1 ms when it is made and again when it is removed, and a lane has five of
//! them; a rename costs a tenth of that. So the directory of a lane that goes with its run is emptied and put by, as
//! `<state>/spare/<id>`, with its lock file, an upper and a work directory in which nothing is, and its old stamp.
//!
//! Invariant: a spare directory holds nothing that anybody wrote, and is nobody's: its stamp has another name, so
//! that at each step, whatever interrupts it, it is a half-made lane or a spare one. There are never more than
//! [`MOST`], but for those that put one by at the same moment.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use kernel::{Errno, publish, xattr};

use crate::error::{Doing as _, Error, Result};
use crate::home::{LaneHome, remove_below};
use crate::layer_place::mkdir_if_absent;
use crate::origin::open_dir;

/// Name of the directory of spare ones in the state directory.
const SPARE: &str = "spare";
/// The old stamp of one.
pub(crate) const OLD_STAMP: &[u8] = b"base.old";
/// The most that are kept.
const MOST: usize = 2;

/// Empties the directory of a lane in which no process is left, and takes its stamp from it; false where it has
/// anything of its own.
pub(crate) fn empty(home: &LaneHome) -> Result<bool> {
    let path = home.path();
    let is_plain = |name: &Vec<u8>| {
        [b"lock".as_slice(), b"s", crate::base::STAMP, b"0.u", b"0.w"].contains(&name.as_slice())
    };
    if !home.names()?.iter().all(is_plain) || !is_empty(home, b"0.u")? {
        return Ok(false);
    }
    publish::rename_replace(&home.dir().fd, crate::base::STAMP, &home.dir().fd, OLD_STAMP)
        .doing("empty lane", path)?;
    let work = kernel::open::dir_beneath(&home.dir().fd, b"0.w").doing("empty lane", path)?;
    if clear_volatile(&work).is_err() {
        for entry in kernel::dir::entries(&work).doing("empty lane", path)? {
            remove_below(&work, &entry.name, path)?;
        }
    }
    Ok(true)
}

/// Puts the emptied directory of a lane by, whose lock the caller holds; gives it back where there are enough.
/// The next lane mounts its layers at once, so the kernel must have let go of them.
pub(crate) fn put_by(home: LaneHome, state: &Path) -> Result<Option<LaneHome>> {
    let path = home.path().to_path_buf();
    let spare = spare_dir(state)?;
    if kernel::dir::entries(&spare).doing("list spare directories", &path)?.len() >= MOST {
        return Ok(Some(home));
    }

    match publish::rename_noreplace(home.above(), home.id().as_bytes(), &spare, home.id().as_bytes()) {
        Ok(()) => Ok(None),
        Err(error) if error.errno == Errno::EXIST => Ok(Some(home)),
        Err(error) => Err(error).doing("put lane directory by", &path),
    }
}

/// Takes away what a volatile mount leaves in a work directory (the kernel's ovl_create_volatile_dirty), in the fewest
/// calls. The kernel makes these directories with no mode at all. An error where anything else is there.
fn clear_volatile(work: &OwnedFd) -> kernel::Result<()> {
    use kernel::{meta, node};

    for dir in [b"work".as_slice(), b"work/incompat", b"work/incompat/volatile"] {
        meta::set_mode_at(work, dir, 0o700)?;
    }
    node::unlink_at(work, b"work/incompat/volatile/dirty")?;
    for dir in [b"work/incompat/volatile".as_slice(), b"work/incompat", b"work"] {
        node::rmdir_at(work, dir)?;
    }
    Ok(())
}

/// True where the layer has no entry, and no attribute but the mount's own, which are taken away.
fn is_empty(home: &LaneHome, layer: &[u8]) -> Result<bool> {
    let dir = match kernel::open::dir_beneath(&home.dir().fd, layer) {
        Err(error) if error.is_not_found() => return Ok(false),
        other => other.doing("look at layer", home.path())?,
    };
    let names = kernel::dir::entries(&dir).doing("look at layer", home.path())?;
    if !names.is_empty() {
        return Ok(false);
    }
    for name in xattr::list(&dir).doing("look at layer", home.path())? {
        if !tree::layer::private_xattr(&name) {
            return Ok(false);
        }
        xattr::remove(&dir, &name).doing("empty lane", home.path())?;
    }
    Ok(true)
}

/// Makes lane directory `id` of a spare one; `false` where there is none.
pub(crate) fn take(state: &Path, lanes: &OwnedFd, id: &str) -> Result<bool> {
    let path = state.join(SPARE);
    let spare = match open_dir(&path) {
        Err(error) if error.is_not_found() => return Ok(false),
        other => other?,
    };
    for entry in kernel::dir::entries(&spare).doing("list spare directories", &path)? {
        match publish::rename_noreplace(&spare, &entry.name, lanes.as_fd(), id.as_bytes()) {
            Ok(()) => return Ok(true),
            // Somebody else was quicker.
            Err(error) if error.is_not_found() => {}
            Err(error) if error.errno == Errno::EXIST => return Err(Error::Exists { path: path.join(id) }),
            Err(error) => return Err(error).doing("make lane directory", &path),
        }
    }
    Ok(false)
}

fn spare_dir(state: &Path) -> Result<OwnedFd> {
    let path = state.join(SPARE);
    match open_dir(&path) {
        Err(error) if error.is_not_found() => {
            mkdir_if_absent(&open_dir(state)?, SPARE.as_bytes(), &path)?;
            open_dir(&path)
        }
        other => other,
    }
}
