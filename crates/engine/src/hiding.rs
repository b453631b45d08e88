//! Credentials and directories of ours by every name that they have: a link of the home leads to them, or their
//! filesystem is mounted a second time.
//!
//! Invariant: the list only grows. What is hidden under one name is hidden under each name that the mount table and
//! the links of the home give it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kernel::Errno;
use rustix::fs::{Access, Mode, OFlags, ResolveFlags};
use sandbox::credentials::{CredentialPath, Credentials};
use tree::{ChangeKind, TreePath};
use workspace::{MountMode, MountTable};

use crate::error::{Doing as _, EngineError, Result};
use crate::lane::{OpenLane, OpenRoot, mount_mode};
use crate::view::Strategy;

/// The list with what its paths below `home` lead to, and with the further places where both are mounted.
pub(crate) fn followed(
    mut credentials: Credentials,
    home: Option<&Path>,
    mounts: &MountTable,
) -> Credentials {
    let Some(home) = home else { return credentials };
    let Ok(dir) = kernel::open::root_dir(home) else { return credentials };
    let has_aliases = !mounts.aliases(home).is_empty() || !mounts.below(home).is_empty();
    let tops = kernel::dir::Tops::of(home);
    let mut more = Vec::new();
    for path in credentials.in_home() {
        let mut places = vec![home.join(&path.at)];
        let real = if tops.may_hold(Path::new(&path.at)) { behind_links(&dir, &places[0]) } else { None };
        if let Some(real) = real {
            more.push(named(path, home, &real));
            places.push(real);
        }
        if has_aliases || places.len() > 1 {
            let aliases = places.iter().flat_map(|place| mounts.aliases(place));
            more.extend(aliases.map(|alias| named(path, home, &alias)));
        }
    }
    credentials.path.extend(more.into_iter().flatten());
    credentials
}

/// Where a path really lies, if a link is on the way to it.
fn behind_links(home: &std::os::fd::OwnedFd, path: &Path) -> Option<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(home, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Where a link leads nowhere, nothing is to be hidden.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {
            std::fs::canonicalize(path).ok().filter(|real| real != path)
        }
        _ => None,
    }
}

/// The same entry of the list under another name.
fn named(path: &CredentialPath, home: &Path, at: &Path) -> Option<CredentialPath> {
    let at = at.strip_prefix(home).unwrap_or(at).to_str()?.to_owned();
    Some(CredentialPath { at, ..path.clone() })
}

/// What of the absolute paths has to be covered: for root all, for a user what he could read or connect to.
pub(crate) fn in_system(credentials: &Credentials, is_root: bool, home: Option<&Path>) -> Vec<PathBuf> {
    let could = |path: &Path| {
        let can = |access| rustix::fs::access(path, access).is_ok();
        is_root || can(Access::READ_OK) || can(Access::WRITE_OK)
    };
    let applies = credentials.in_system().filter(|path| home.is_none_or(|home| path.applies_in(home)));
    applies.map(|path| PathBuf::from(&path.at)).filter(|path| could(path)).collect()
}

/// Where hidden paths of the lane's roots stand by now: a directory above one may have been renamed inside, which
/// takes along what is hidden below it. One that is nowhere to be found in a copy is an error: it may be anywhere.
pub(crate) fn moved(lane: &OpenLane, hide: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for root in &lane.roots {
        let is_overlay = root.view.strategy == Strategy::Overlay;
        if is_overlay && mount_mode() == MountMode::User {
            // The kernel renames no directory of the origin, and we none that holds a mount.
            continue;
        }
        let inner = |path: &PathBuf| {
            TreePath::new(path.strip_prefix(&root.view.path).ok()?.as_os_str().as_bytes()).ok()
        };
        let below: Vec<TreePath> = hide.iter().filter_map(inner).filter(|path| !path.is_root()).collect();
        if below.is_empty() {
            continue;
        }
        for path in not_in_their_place(root, below)? {
            let moves = renamed(root, &path)?;
            if moves.is_empty() && !is_overlay {
                return Err(EngineError::HiddenMoved { path: root.view.path.join(path.as_path()) });
            }
            found.extend(moves.iter().map(|to| root.view.path.join(to.as_path())));
        }
    }
    Ok(found)
}

/// Those that the base has and the lane has not.
fn not_in_their_place(root: &OpenRoot, paths: Vec<TreePath>) -> Result<Vec<TreePath>> {
    let doing = || format!("look for hidden paths in {}", root.view.path.display());
    let (base, inside) = (root.workspace.base_tree()?, root.workspace.lane_tree()?);
    let mut gone = Vec::new();
    for path in paths {
        if inside.entry(&path).doing(doing)?.is_none() && base.entry(&path).doing(doing)?.is_some() {
            gone.push(path);
        }
    }
    Ok(gone)
}

/// Where the lane's renames have brought a path.
fn renamed(root: &OpenRoot, path: &TreePath) -> Result<Vec<TreePath>> {
    let changes = root.workspace.changes()?.changes;
    let renames = changes.iter().filter(|change| matches!(change.kind, ChangeKind::Rename { .. }));
    let brought = |change: &tree::Change| Some(change.path.join_path(&path.strip_prefix(change.old_path())?));
    Ok(renames.filter_map(brought).collect())
}

/// The further names of directories of ours.
pub(crate) fn aliases_of<'d>(dirs: impl Iterator<Item = &'d PathBuf>, mounts: &MountTable) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = dirs.flat_map(|dir| mounts.aliases(dir)).collect();
    found.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    found.dedup();
    found
}
