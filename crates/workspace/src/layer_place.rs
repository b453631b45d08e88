//! Where a lane's layers stand. In the state directory where that is on the origin's own mount, or
//! where nothing is gained by moving; beside the project (`.lanekeeper`) where the project's filesystem
//! clones files and the state directory is elsewhere: copy-up of any file is then free.
//!
//! Invariant: nothing is ever made inside the origin or inside a git tree. Whether a filesystem clones
//! is found by cloning on it, in unnamed files that leave no trace even when we are killed, and
//! remembered per filesystem in the state directory.

use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::error::{Asked as _, path_bytes};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use crate::error::{Doing as _, Error, Result};
use crate::origin::{OriginFacts, caller, open_dir};

/// Name of the directory beside projects.
pub const BESIDE: &str = ".lanekeeper";

/// Where the layers of one root stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerPlace {
    /// In the lane's own directory below the state directory.
    InState,
    /// In a directory of ours elsewhere: `DIR/<lane>`. It is removed with its last lane.
    At(PathBuf),
}

/// Why layers stand where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceWhy {
    /// The state directory is on the origin's mount.
    SameMount,
    /// The origin's filesystem does not clone files.
    NoReflink,
    /// The origin's filesystem clones files and the state directory is elsewhere.
    Reflink,
    /// It would have been better beside the project, but no directory there is ours and outside every git tree.
    NoRoomBeside,
    /// The user asked for it.
    AskedFor,
}

/// A place, why, and what was learnt on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The place.
    pub place: LayerPlace,
    /// Why.
    pub why: PlaceWhy,
    /// Whether the origin's filesystem clones files, where that was asked or remembered.
    pub reflinks: Option<bool>,
}

impl LayerPlace {
    /// The directory that has to be hidden inside a lane, beside the state directory.
    pub fn hidden(&self) -> Option<&Path> {
        match self {
            LayerPlace::InState => None,
            LayerPlace::At(dir) => Some(dir),
        }
    }
}

/// Decides where the layers of a lane of this origin go. `wish` names a directory of the user's choice
/// (such as one in memory).
pub fn place(facts: &OriginFacts, state: &Path, wish: Option<&Path>) -> Result<Placed> {
    if let Some(dir) = wish {
        return Ok(Placed {
            place: LayerPlace::At(dir.to_path_buf()),
            why: PlaceWhy::AskedFor,
            reflinks: None,
        });
    }
    let state_dir = open_dir(state)?;
    let remembered = remembered(state_dir.as_fd(), &facts.fs_id);
    if mount_id(state_dir.as_fd(), state)? == facts.mount_id {
        return Ok(Placed { place: LayerPlace::InState, why: PlaceWhy::SameMount, reflinks: remembered });
    }
    if remembered == Some(false) {
        return Ok(Placed { place: LayerPlace::InState, why: PlaceWhy::NoReflink, reflinks: remembered });
    }
    let Some(dir) = highest_own_dir(facts)? else {
        return Ok(Placed { place: LayerPlace::InState, why: PlaceWhy::NoRoomBeside, reflinks: remembered });
    };
    let clones = match remembered {
        Some(known) => known,
        None => {
            let clones = clones_files(open_dir(&dir)?.as_fd());
            remember(state_dir.as_fd(), &facts.fs_id, clones, state)?;
            clones
        }
    };
    Ok(if clones {
        Placed { place: LayerPlace::At(dir.join(BESIDE)), why: PlaceWhy::Reflink, reflinks: Some(true) }
    } else {
        Placed { place: LayerPlace::InState, why: PlaceWhy::NoReflink, reflinks: Some(false) }
    })
}

/// Tries to clone between two unnamed files of this directory's filesystem. The directory is not changed.
pub fn clones_files(dir: BorrowedFd<'_>) -> bool {
    let unnamed = || -> rustix::io::Result<std::fs::File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(dir, c".", flags, Mode::RUSR | Mode::WUSR).map(Into::into)
    };
    let (Ok(mut from), Ok(to)) = (unnamed(), unnamed()) else { return false };
    from.write_all(&[1; 4096]).is_ok() && rustix::fs::ioctl_ficlone(&to, &from).is_ok()
}

/// The highest directory above the origin, on its mount, that is the caller's and outside every git tree.
fn highest_own_dir(facts: &OriginFacts) -> Result<Option<PathBuf>> {
    let mut from_the_top: Vec<&Path> = facts.path.ancestors().skip(1).collect();
    from_the_top.reverse();
    let (uid, _) = caller();
    for dir in from_the_top {
        if rustix::fs::lstat(dir.join(".git")).is_ok() {
            return Ok(None);
        }
        if !dir.starts_with(&facts.mount_point) {
            continue;
        }
        let Ok(opened) = open_dir(dir) else { continue };
        let stat = rustix::fs::fstat(&opened).asked("fstat", path_bytes(dir)).doing("look at", dir)?;
        let writable =
            rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
        if stat.st_uid == uid && writable && mount_id(opened.as_fd(), dir)? == facts.mount_id {
            return Ok(Some(dir.to_path_buf()));
        }
    }
    Ok(None)
}

fn mount_id(dir: BorrowedFd<'_>, path: &Path) -> Result<u64> {
    rustix::fs::statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        .map(|stat| stat.stx_mnt_id)
        .asked("statx", path_bytes(path))
        .doing("look at", path)
}

fn memory_name(fs_id: &str) -> String {
    format!("reflink-{fs_id}")
}

fn remembered(state: BorrowedFd<'_>, fs_id: &str) -> Option<bool> {
    let file = kernel::open::file_beneath(state, memory_name(fs_id).as_bytes()).ok()?;
    let mut word = [0; 4];
    let read = rustix::io::read(&file, &mut word).ok()?;
    match &word[..read] {
        b"yes\n" => Some(true),
        b"no\n" => Some(false),
        _ => None,
    }
}

fn remember(state: BorrowedFd<'_>, fs_id: &str, clones: bool, path: &Path) -> Result<()> {
    let word: &[u8] = if clones { b"yes\n" } else { b"no\n" };
    kernel::publish::write_file(state, memory_name(fs_id).as_bytes(), word, 0o600)
        .doing("remember what was tried", path)
}

/// Makes (or finds) the layer directory of a lane below a place of ours.
pub(crate) fn make_at(place: &Path, lane: &str) -> Result<()> {
    again_and_again(place, || try_make_at(place, lane))
}

/// Makes `place/dir`, where it is not there, and a new directory in it; taken is an error.
pub(crate) fn make_below(place: &Path, dir: &str, name: &[u8]) -> Result<()> {
    again_and_again(place, || {
        try_make_at(place, dir)?;
        let path = place.join(dir);
        kernel::node::mkdir_at(open_dir(&path)?, name, 0o700).doing("make layer", path)
    })
}

/// Another lane's removal may take the shared directory away between two of our steps.
fn again_and_again(place: &Path, make: impl Fn() -> Result<()>) -> Result<()> {
    for _ in 0..16 {
        match make() {
            Err(error) if error.is_not_found() && place.parent().is_some_and(Path::is_dir) => continue,
            other => return other,
        }
    }
    Err(Error::LayersGone { path: place.to_path_buf() })
}

fn try_make_at(place: &Path, lane: &str) -> Result<()> {
    let name = place.file_name().map(|name| name.as_encoded_bytes().to_vec()).unwrap_or_default();
    let above = open_dir(place.parent().unwrap_or(Path::new("/")))?;
    mkdir_if_absent(&above, &name, place)?;
    let shared = kernel::open::dir_beneath(&above, &name).doing("open layer directory", place)?;
    let stat = kernel::meta::stat_fd(&shared).doing("look at", place)?;
    // Someone else's directory of that name is not a place for anyone's files.
    if stat.uid != caller().0 {
        let source = kernel::Error::new("statx", path_bytes(place), kernel::Errno::PERM);
        return Err(Error::Kernel {
            step: "use layer directory of another owner",
            path: place.to_path_buf(),
            source,
        });
    }
    mkdir_if_absent(&shared, lane.as_bytes(), place)
}

pub(crate) fn mkdir_if_absent(dir: &OwnedFd, name: &[u8], path: &Path) -> Result<()> {
    match kernel::node::mkdir_at(dir, name, 0o700) {
        Err(error) if error.errno == kernel::Errno::EXIST => Ok(()),
        other => other.doing("make layer directory", path),
    }
}

/// Removes a lane's layers below a place of ours, and the place itself with its last lane.
pub(crate) fn remove_at(place: &Path, lane: &str) -> Result<()> {
    let shared = match kernel::open::root_dir(place) {
        Err(error) if error.is_not_found() => return Ok(()),
        other => other.doing("open layer directory", place)?,
    };
    crate::home::remove_below(&shared, lane.as_bytes(), &place.join(lane))?;
    remove_if_empty(place);
    Ok(())
}

/// Removes a directory that lanes share once nothing is in it; another lane's layers keep it.
pub(crate) fn remove_if_empty(place: &Path) {
    if let (Some(above), Some(name)) = (place.parent(), place.file_name())
        && let Ok(above) = open_dir(above)
    {
        let _still_used = kernel::node::rmdir_at(&above, name.as_encoded_bytes());
    }
}

#[cfg(test)]
mod tests;
