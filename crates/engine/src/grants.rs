//! What an agent wrote into its own login inside a lane: there for that agent's next run, absent for every
//! other program, as the login of the host is.
//!
//! The mask of a home hides what the host has, not what the lane's own layer holds above it. So while the lane is
//! at rest, what the coming run is not granted is set aside beside that layer, and what it is granted is put back.
//! Invariants: only while the lane's lock is held and nothing of it is mounted; never through a link of the lane.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use kernel::{Errno, open, publish};
use sandbox::preset;
use workspace::Layers;

use crate::error::{Doing as _, EngineError, Result};

/// Makes the layer over `below` (a path below the home, empty for the home itself) hold what `granted` names and
/// nothing else of what presets can show.
pub(crate) fn settle(layers: &Layers, below: &Path, granted: &[String]) -> Result<()> {
    let doing = || format!("settle logins in {}", layers.upper.display());
    let upper = open::root_dir(&layers.upper).doing(doing)?;
    let aside_at = layers.dir.join(format!("{}.aside", layers.stem));
    let is_empty = kernel::dir::entries(&upper).doing(doing)?.is_empty();
    let has_aside = aside_at.is_dir();
    if is_empty && !has_aside {
        return Ok(());
    }
    let all = preset::all().map_err(EngineError::Sandbox)?;
    for shown in all.iter().flat_map(|preset| &preset.shows) {
        let Ok(path) = Path::new(shown).strip_prefix(below) else { continue };
        if path.as_os_str().is_empty() {
            continue;
        }
        // A directory above it is not there, or is something else by now: then it is not there either.
        let Ok((parent, name)) = open::parent_beneath(&upper, path.as_os_str().as_bytes()) else { continue };
        let stands = stands(&parent, &name).doing(doing)?;
        let kept_as = shown.replace('/', "\\").into_bytes();
        if !granted.contains(shown) {
            if stands {
                let aside = aside_dir(&aside_at)?;
                drop_it(aside.as_fd(), &kept_as)?;
                publish::rename_replace(&parent, &name, &aside, &kept_as).doing(doing)?;
            }
        } else if has_aside {
            let aside = aside_dir(&aside_at)?;
            if stands {
                // Written since the other was set aside.
                drop_it(aside.as_fd(), &kept_as)?;
            } else {
                put_back(&aside, &kept_as, &parent, &name).doing(doing)?;
            }
        }
    }
    Ok(())
}

/// True where something stands there that is not a whiteout.
fn stands(parent: &OwnedFd, name: &[u8]) -> kernel::Result<bool> {
    Ok(kernel::meta::stat_at_if_there(parent, name)?.is_some_and(|stat| !stat.is_whiteout()))
}

fn put_back(aside: &OwnedFd, kept_as: &[u8], parent: &OwnedFd, name: &[u8]) -> kernel::Result<()> {
    match publish::rename_noreplace(aside, kept_as, parent, name) {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        // A whiteout: the agent's login was removed after it was set aside; it stays removed.
        Err(error) if error.errno == Errno::EXIST => Ok(()),
        Err(error) => Err(error),
    }
}

fn aside_dir(at: &Path) -> Result<OwnedFd> {
    let doing = || format!("open {}", at.display());
    let (Some(parent), Some(name)) = (at.parent(), at.file_name().map(OsStr::as_bytes)) else {
        return open::root_dir(at).doing(doing);
    };
    let parent = open::root_dir(parent).doing(doing)?;
    match kernel::node::mkdir_at(&parent, name, 0o700) {
        Ok(()) => {}
        Err(error) if error.errno == Errno::EXIST => {}
        Err(error) => return Err(error).doing(doing),
    }
    open::dir_beneath(&parent, name).doing(doing)
}

fn drop_it(aside: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    tree::remove::remove_tree(aside, name).map(|_| ()).doing(|| "drop an older login".into())
}
