//! The mask: a lower layer of whiteouts that makes credential paths absent in a lane's home.
//!
//! It lies between the real home and the lane's own layer, so a hidden path does not exist inside and can be
//! made anew there. One mask serves every lane that hides the same paths; it is published by rename and
//! never changed afterwards. Making a whiteout needs no privilege (the kernel's overlayfs document).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kernel::{Errno, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// Makes (or finds) the mask of `hidden` paths (relative to `home`) in `masks`, a directory of ours.
/// Paths whose parent does not exist in the home need no whiteout.
pub fn layer(masks: &Path, home: &Path, hidden: &[PathBuf]) -> Result<PathBuf> {
    let open = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| kernel::Error::new("open", kernel::error::path_bytes(path), errno))
    };
    let home_dir = open(home)?;
    let mut wanted: Vec<(&Path, Vec<(PathBuf, u32)>)> = Vec::new();
    for path in hidden {
        // Every parent below the home, with its mode: the mask's directory is the one whose mode shows.
        let mut parents = Vec::new();
        let mut all_there = true;
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        above.reverse();
        for parent in above {
            match rustix::fs::statat(&home_dir, parent, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {
                    parents.push((parent.to_path_buf(), stat.st_mode & 0o7777));
                }
                _ => {
                    all_there = false;
                    break;
                }
            }
        }
        if all_there {
            wanted.push((path, parents));
        }
    }
    wanted.sort();
    let mut hasher = DefaultHasher::new();
    wanted.hash(&mut hasher);
    home.as_os_str().as_bytes().hash(&mut hasher);
    let name = format!("{:016x}", hasher.finish());
    let made = masks.join(&name);
    if rustix::fs::access(&made, rustix::fs::Access::EXISTS).is_ok() {
        return Ok(made);
    }
    match rustix::fs::mkdir(masks, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(kernel::Error::new("mkdir", kernel::error::path_bytes(masks), errno)),
    }
    let masks_dir = open(masks)?;
    let temporary = format!(".{name}.{}", rustix::process::getpid().as_raw_nonzero());
    mkdir(&masks_dir, Path::new(&temporary), mode_of(&home_dir)?)?;
    let top = open(&masks.join(&temporary))?;
    for (path, parents) in &wanted {
        for (parent, mode) in parents {
            mkdir(&top, parent, *mode)?;
        }
        let whiteout = rustix::fs::mknodat(&top, *path, FileType::CharacterDevice, Mode::empty(), 0);
        if let Err(errno) = whiteout
            && errno != Errno::EXIST
        {
            return Err(kernel::Error::new("mknodat", path.as_os_str().as_bytes(), errno));
        }
    }
    match kernel::publish::rename_noreplace(&masks_dir, temporary.as_bytes(), &masks_dir, name.as_bytes()) {
        Ok(()) => {}
        // Another command made the same one.
        Err(error) if error.errno == Errno::EXIST => remove(&masks_dir, &temporary, &wanted),
        Err(error) => return Err(error),
    }
    Ok(made)
}

fn mode_of(dir: impl AsFd) -> Result<u32> {
    rustix::fs::fstat(dir).map(|stat| stat.st_mode & 0o7777).map_err(|errno| kernel::Error::new("fstat", "", errno))
}

fn mkdir(dir: &OwnedFd, path: &Path, mode: u32) -> Result<()> {
    let asked = |errno| kernel::Error::new("mkdirat", kernel::error::path_bytes(path), errno);
    match rustix::fs::mkdirat(dir, path, Mode::from_raw_mode(0o700)) {
        Ok(()) => kernel::meta::set_mode_at(dir, path.as_os_str().as_bytes(), mode | 0o700),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(asked(errno)),
    }
}

/// Takes away what lost the race; nothing but our own whiteouts and directories is in it.
fn remove(masks: &OwnedFd, temporary: &str, wanted: &[(&Path, Vec<(PathBuf, u32)>)]) {
    let at = |path: &Path| Path::new(temporary).join(path);
    for (path, _) in wanted {
        let _ = rustix::fs::unlinkat(masks, at(path), AtFlags::empty());
    }
    let mut parents: Vec<&PathBuf> = wanted.iter().flat_map(|(_, parents)| parents.iter().map(|(p, _)| p)).collect();
    parents.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for parent in parents {
        let _ = rustix::fs::unlinkat(masks, at(parent), AtFlags::REMOVEDIR);
    }
    let _ = rustix::fs::unlinkat(masks, temporary, AtFlags::REMOVEDIR);
}
