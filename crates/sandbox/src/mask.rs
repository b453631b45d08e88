//! The mask: a lower layer of whiteouts that makes credential paths absent in a lane's home.
//!
//! It lies between the real home and the lane's own layer, so a hidden path does not exist inside and can be
//! made anew there. It is a small filesystem in memory that is attached nowhere and goes with the lane.
//! Making a whiteout needs no privilege (the kernel's overlayfs document).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::{Errno, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// A path to hide, with the directories above it: the mask's are the ones whose mode shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Below the home.
    pub path: PathBuf,
    /// Its parents below the home, outermost first, each with its mode.
    pub parents: Vec<(PathBuf, u32)>,
}

/// Facts for a mask over `home`. A path whose parent does not exist needs none.
pub fn facts(home: &Path, hidden: &[PathBuf]) -> Result<Vec<Absent>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let home_dir = rustix::fs::open(home, flags, Mode::empty())
        .map_err(|errno| kernel::Error::new("open", kernel::error::path_bytes(home), errno))?;
    let tops = kernel::dir::Tops::of(home);
    let is_at_top = |path: &Path| path.components().nth(1).is_none();
    let hidden = hidden.iter().filter(|path| is_at_top(path) || tops.may_hold(path));
    Ok(hidden.filter_map(|path| absent(&home_dir, path)).collect())
}

fn absent(home: &OwnedFd, path: &Path) -> Option<Absent> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
    above.reverse();
    let mut parents = Vec::with_capacity(above.len());
    for parent in above {
        let stat = rustix::fs::statat(home, parent, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            return None;
        }
        parents.push((parent.to_path_buf(), stat.st_mode & 0o7777));
    }
    Some(Absent { path: path.to_path_buf(), parents })
}

/// Fills an empty filesystem with the whiteouts.
pub(crate) fn build(top: impl AsFd, absent: &[Absent]) -> Result<()> {
    let top = top.as_fd();
    // Like the kernel's own, all are names of one node.
    let mut first: Option<&Path> = None;
    for Absent { path, parents } in absent {
        for (parent, mode) in parents {
            let asked = |errno| kernel::Error::new("mkdirat", kernel::error::path_bytes(parent), errno);
            match rustix::fs::mkdirat(top, parent, Mode::from_raw_mode(0o700)) {
                Ok(()) => {
                    rustix::fs::chmodat(top, parent, Mode::from_raw_mode(mode | 0o700), AtFlags::empty())
                        .map_err(asked)?
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(asked(errno)),
            }
        }
        let made = match first {
            Some(first) => rustix::fs::linkat(top, first, top, path, AtFlags::empty()),
            None => rustix::fs::mknodat(top, path, FileType::CharacterDevice, Mode::empty(), 0),
        };
        match made {
            Ok(()) => first = first.or(Some(path)),
            // A path above it is absent already.
            Err(Errno::EXIST | Errno::NOTDIR) => {}
            Err(errno) => return Err(kernel::Error::new("mknodat", kernel::error::path_bytes(path), errno)),
        }
    }
    Ok(())
}
