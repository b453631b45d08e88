//! [`Pool`]: the sealed layers of a state directory. A sealed layer is a former upper that several lanes stand on; nobody
//! writes it any more.
//!
//! ```text
//! <state>/layers/lock          shared while a layer is made that no stack names yet; exclusive while one is given up
//!                <id>          a layer, or a link to it where the lanes' layers stand elsewhere (`<place>/layers/<id>`)
//!                <id>.gone     one that is being deleted
//! <state>/lanes/<lane>/stack.<i>   a link that says which layers a root of the lane stands on, the topmost first
//! ```
//!
//! Invariant: a layer goes with the last stack that names it, of lanes and of those in the trash. Every layer can be
//! found from the state directory, so that one that no stack names (its maker was killed) is found by the next sweep.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::lock::Lock;
use kernel::{Errno, node, publish};

use crate::error::{Doing as _, Error, Result};
use crate::home::{LANES, TRASH, remove_below};
use crate::layer_place::{self, LayerPlace, mkdir_if_absent};
use crate::origin::open_dir;

/// Name of the directory of sealed layers, in the state directory and in places beside projects.
pub const LAYERS: &str = "layers";
/// What the name of a lane's stack begins with; the name of a root or of a part of the home follows.
pub(crate) const STACK: &str = "stack.";
const LOCK: &[u8] = b"lock";
const GONE: &str = ".gone";
/// How long to wait for somebody who makes a layer before a layer that is not needed is left to the next sweep.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a maker of layers may wait for a sweep, which renames a few names.
const SWEEP: Duration = Duration::from_secs(30);

/// The sealed layers of one state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    state: PathBuf,
    path: PathBuf,
}

/// While it is held, layers that no stack names are left alone.
#[derive(Debug)]
pub struct Held {
    dir: OwnedFd,
    _lock: Lock,
}

/// How many stacks name each layer.
pub type Users = HashMap<String, usize>;

impl Pool {
    /// The pool of a state directory.
    pub fn of(state: &Path) -> Pool {
        Pool { state: state.to_path_buf(), path: state.join(LAYERS) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps sweeps away while layers are made. Makes the pool where there is none.
    pub(crate) fn hold(&self) -> Result<Held> {
        let state = open_dir(&self.state)?;
        mkdir_if_absent(&state, LAYERS.as_bytes(), &self.path)?;
        let dir = open_dir(&self.path)?;
        let lock = kernel::lock::shared_blocking(&dir, LOCK, SWEEP).doing("lock layers", &self.path)?;
        Ok(Held { dir, _lock: lock })
    }

    /// Where a layer is.
    pub(crate) fn layer(&self, id: &str) -> Result<PathBuf> {
        let path = self.path.join(id);
        match kernel::meta::read_link_at(rustix::fs::CWD, path.as_os_str().as_bytes()) {
            Ok(target) => Ok(PathBuf::from(std::ffi::OsString::from_vec(target))),
            Err(error) if error.errno == Errno::INVAL => Ok(path),
            Err(error) if error.is_not_found() => Err(Error::LayersGone { path }),
            Err(error) => Err(error).doing("find layer", path),
        }
    }

    /// Makes an empty layer whose root looks like `like`, where the layers of `lane` stand. It is to be named by a
    /// stack before `held` goes.
    pub(crate) fn make(
        &self,
        held: &Held,
        lane: &str,
        place: &LayerPlace,
        like: BorrowedFd<'_>,
    ) -> Result<String> {
        for count in 1_u32.. {
            let id = format!("{lane}-{count}");
            let path = self.path.join(&id);
            let LayerPlace::At(place) = place else {
                match node::mkdir_at(&held.dir, id.as_bytes(), 0o700) {
                    Err(error) if error.errno == Errno::EXIST => continue,
                    other => other.doing("make layer", &path)?,
                }
                dress(&held.dir, id.as_bytes(), like, &path)?;
                return Ok(id);
            };
            // The link first: a layer elsewhere is never made that could not be found again.
            let target = place.join(LAYERS).join(&id);
            match node::symlink_at(target.as_os_str().as_bytes(), &held.dir, id.as_bytes()) {
                Err(error) if error.errno == Errno::EXIST => continue,
                other => other.doing("note layer", &path)?,
            }
            if let Err(error) = layer_place::make_below(place, LAYERS, id.as_bytes()) {
                node::unlink_at(&held.dir, id.as_bytes()).doing("remove note of layer", &path)?;
                return Err(error);
            }
            dress(open_dir(&place.join(LAYERS))?, id.as_bytes(), like, &target)?;
            return Ok(id);
        }
        Err(Error::Exists { path: self.path.clone() })
    }

    /// Which layers are named, and by how many stacks, by a look at every lane.
    pub fn users(&self) -> Result<Users> {
        let mut users = Users::new();
        // A lane that goes to the trash meanwhile is seen at least once; one that comes back holds the pool.
        for dir in [LANES, TRASH] {
            let path = self.state.join(dir);
            let above = match kernel::open::root_dir(&path) {
                Err(error) if error.is_not_found() => continue,
                other => other.doing("list lanes", &path)?,
            };
            for lane in kernel::dir::entries(&above).doing("list lanes", &path)? {
                let home = match kernel::open::dir_beneath(&above, &lane.name) {
                    Err(error) if matches!(error.errno, Errno::NOENT | Errno::NOTDIR) => continue,
                    other => other.doing("look at lane", path.join(OsStr::from_bytes(&lane.name)))?,
                };
                for stack in stacks(&home).doing("look at lane", &path)? {
                    for id in stack {
                        *users.entry(id).or_default() += 1;
                    }
                }
            }
        }
        Ok(users)
    }

    /// Gives up layers that a lane stood on which is gone: those that nobody needs are deleted. Where somebody is
    /// making layers for long, that is left to the next sweep.
    pub(crate) fn release(&self, ids: &[String], is_referenced: &dyn Fn(&str) -> bool) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let dir = match kernel::open::root_dir(&self.path) {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.doing("open layers", &self.path)?,
        };
        let lock = match kernel::lock::exclusive_blocking(&dir, LOCK, PATIENCE) {
            Err(error) if error.errno == Errno::TIMEDOUT => return Ok(()),
            other => other.doing("lock layers", &self.path)?,
        };
        let users = self.users()?;
        let unused = |id: &&String| !users.contains_key(*id) && !is_referenced(id);
        let doomed = self.doom(&dir, ids.iter().filter(unused).map(String::as_str))?;
        drop(lock);
        self.delete(&dir, &doomed)
    }

    /// Deletes layers that no stack names, and ends deletions that were interrupted; the number of layers. Nothing is
    /// looked at where there are none, or where somebody is making one.
    pub fn sweep(&self, is_referenced: &dyn Fn(&str) -> bool) -> Result<usize> {
        let dir = match kernel::open::root_dir(&self.path) {
            Err(error) if error.is_not_found() => return Ok(0),
            other => other.doing("open layers", &self.path)?,
        };
        let names: Vec<String> = kernel::dir::entries(&dir)
            .doing("list layers", &self.path)?
            .into_iter()
            .filter_map(|entry| String::from_utf8(entry.name).ok())
            .filter(|name| name.as_bytes() != LOCK)
            .collect();
        if names.is_empty() {
            return Ok(0);
        }
        let Some(lock) = kernel::lock::try_exclusive(&dir, LOCK).doing("lock layers", &self.path)? else {
            return Ok(0);
        };
        let users = self.users()?;
        let (mut doomed, layers): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.ends_with(GONE));
        let unused = |id: &&String| !users.contains_key(*id) && !is_referenced(id);
        doomed.extend(self.doom(&dir, layers.iter().filter(unused).map(String::as_str))?);
        drop(lock);
        self.delete(&dir, &doomed)?;
        Ok(doomed.len())
    }

    /// Renames layers so that nobody finds them any more; their new names.
    fn doom<'i>(&self, dir: &OwnedFd, ids: impl Iterator<Item = &'i str>) -> Result<Vec<String>> {
        let mut doomed = Vec::new();
        for id in ids {
            let gone = format!("{id}{GONE}");
            match publish::rename_replace(dir, id.as_bytes(), dir, gone.as_bytes()) {
                Err(error) if error.is_not_found() => {}
                other => {
                    other.doing("give up layer", self.path.join(id))?;
                    doomed.push(gone);
                }
            }
        }
        Ok(doomed)
    }

    fn delete(&self, dir: &OwnedFd, doomed: &[String]) -> Result<()> {
        for name in doomed {
            let path = self.path.join(name);
            match kernel::meta::read_link_at(dir, name.as_bytes()) {
                Ok(target) => {
                    let target = PathBuf::from(std::ffi::OsString::from_vec(target));
                    let (place, id) = (target.parent(), target.file_name());
                    if let (Some(layers), Some(id)) = (place, id.and_then(OsStr::to_str)) {
                        layer_place::remove_at(layers, id)?;
                        // The place itself goes with the last that stood in it.
                        if let Some(above) = layers.parent() {
                            layer_place::remove_if_empty(above);
                        }
                    }
                    match node::unlink_at(dir, name.as_bytes()) {
                        Err(error) if error.is_not_found() => {}
                        other => other.doing("remove layer", &path)?,
                    }
                }
                Err(error) if error.is_not_found() => {}
                Err(_) => remove_below(dir, name.as_bytes(), &path)?,
            }
        }
        Ok(())
    }
}

/// Gives a new layer's root the look of another directory, and its name only then has it.
fn dress(dir: impl AsFd, name: &[u8], like: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let made = kernel::open::dir_beneath(dir, name).doing("open layer", path)?;
    crate::overlay::look_like(made.as_fd(), like, path)
}

/// The stacks in the directory of a lane; none where it is removed meanwhile.
pub(crate) fn stacks(home: &OwnedFd) -> kernel::Result<Vec<Vec<String>>> {
    let entries = match kernel::dir::entries(home) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        if !entry.name.starts_with(STACK.as_bytes()) {
            continue;
        }
        match kernel::meta::read_link_at(home, &entry.name) {
            Ok(text) => found.push(parse(&text).unwrap_or_default()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The layers that a stack's link names, the topmost first; `None` where it is no such link.
pub(crate) fn parse(text: &[u8]) -> Option<Vec<String>> {
    let is_id = |id: &str| {
        !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && !id.starts_with('-')
    };
    let ids: Vec<String> = std::str::from_utf8(text).ok()?.split(',').map(str::to_owned).collect();
    ids.iter().all(|id| is_id(id)).then_some(ids)
}

#[cfg(test)]
mod tests;
