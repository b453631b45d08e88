//! What files of the origin held that a copy lane has changed, put aside as soon as the change is seen: the origin still
//! holds it then, and a three-way merge needs it later. (Lanes of other kinds have it in their snapshots.)
//!
//! Invariant: a file here has size and modification time of what it is a copy of, set last, so that one that was cut
//! short, or is of another state, is never taken for it. Losing one loses a merge, nothing else.

use std::os::fd::{AsFd as _, OwnedFd};

use kernel::{Errno, bytes, meta, node, open, publish, xattr};
use tree::dir::{DirTree, entry_of, xattrs_at};
use tree::source::Xattr;
use tree::{Entry, Source as _, TreePath};

use crate::error::{Doing as _, Result};
use crate::home::{HomeDir, LaneHome};

/// Larger files are not put aside: nobody merges them by lines.
const LARGEST: u64 = 64 << 20;

/// The mode of a file that has the attributes too, and of one that has not.
const WITH_XATTRS: u32 = 0o600;
const WITHOUT_XATTRS: u32 = 0o400;

fn dir_name(index: usize) -> String {
    format!("old.{index}")
}

fn file_name(path: &TreePath) -> String {
    // A path may be longer than a name. Should two have one name, size and time tell them apart.
    let hash = |seed: u64| {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        path.as_bytes().iter().fold(seed, mix)
    };
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}

/// Puts the content of `path` aside, which is `entry` in `origin` and in the base.
pub fn save(home: &HomeDir, index: usize, origin: &DirTree, path: &TreePath, entry: &Entry) -> Result<()> {
    if !entry.is_file() || entry.size > LARGEST || find(home, index, path, entry)?.is_some() {
        return Ok(());
    }
    let doing = || home.path.join(dir_name(index));
    let dir = place(home, index)?;
    let from = match origin.open(path) {
        // Closed to us, or gone this moment: then there is none.
        Err(_) => return Ok(()),
        Ok(from) => from,
    };
    let (to, temp) = publish::temp_file(&dir, 0o600).doing("put old content aside", doing())?;
    let write = || -> kernel::Result<bool> {
        bytes::move_content(from.as_fd(), to.as_fd(), entry.size)?;
        let after = entry_of(&meta::stat_fd(&from)?);
        if !crate::manifest::is_same_state(entry, &after) {
            return Ok(false);
        }
        // Where attributes cannot be put aside, nothing is said of them.
        let xattrs = origin.xattrs(path)?;
        let all = xattrs.iter().all(|(name, value)| xattr::set(&to, name, value).is_ok());
        meta::set_mode_fd(&to, if all { WITH_XATTRS } else { WITHOUT_XATTRS })?;
        meta::set_times_fd(&to, (entry.mtime.sec, entry.mtime.nsec))?;
        publish::rename_replace(&dir, &temp, &dir, file_name(path).as_bytes())?;
        Ok(true)
    };
    let written = write();
    if !matches!(written, Ok(true)) {
        let _temporary_names_are_cleared = node::unlink_at(&dir, &temp);
    }
    written.map(|_| ()).doing("put old content aside", doing())
}

/// The directory of what was put aside of root `index`; made where it is missing.
fn place(home: &HomeDir, index: usize) -> Result<OwnedFd> {
    let doing = || home.path.join(dir_name(index));
    match node::mkdir_at(&home.fd, dir_name(index).as_bytes(), 0o700) {
        Err(error) if error.errno == Errno::EXIST => {}
        other => other.doing("make a place for old contents", doing())?,
    }
    open::dir_beneath(&home.fd, dir_name(index).as_bytes()).doing("open old contents", doing())
}

/// Lets a new lane have what was put aside of the one that it was forked from: no file of it is ever written to again.
pub(crate) fn share(parent: &LaneHome, child: &LaneHome) -> Result<()> {
    for index in 0..parent.root_count()? {
        let from = match open::dir_beneath(&parent.dir().fd, dir_name(index).as_bytes()) {
            Err(error) if error.is_not_found() => continue,
            other => other.doing("open old contents", parent.path().join(dir_name(index)))?,
        };
        let to = place(child.dir(), index)?;
        let doing = || child.path().join(dir_name(index));
        for entry in kernel::dir::entries(&from).doing("list old contents", doing())? {
            match node::link_at(&from, &entry.name, &to, &entry.name) {
                Err(error) if error.errno == Errno::EXIST => {}
                other => other.doing("share old contents", doing())?,
            }
        }
    }
    Ok(())
}

/// The content that `path` had when it was `entry`, if it was put aside.
pub fn find(home: &HomeDir, index: usize, path: &TreePath, entry: &Entry) -> Result<Option<OwnedFd>> {
    let name = format!("{}/{}", dir_name(index), file_name(path));
    let file = match open::file_beneath(&home.fd, name.as_bytes()) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other.doing("open old content", home.path.join(&name))?,
    };
    let is = entry_of(&meta::stat_fd(&file).doing("look at old content", home.path.join(&name))?);
    Ok((is.size == entry.size && is.mtime == entry.mtime).then_some(file))
}

/// The attributes that a file had whose content [`find`] found; `None` where they could not be put aside.
pub fn xattrs(found: &OwnedFd) -> Result<Option<Vec<Xattr>>> {
    let step = "look at old content";
    let mode = meta::stat_fd(found).doing(step, "")?.permissions();
    match mode {
        WITH_XATTRS => xattrs_at(found, b"").map(Some).doing(step, ""),
        _ => Ok(None),
    }
}
