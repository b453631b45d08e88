//! How a toolchain that lies in a place of its own ([`crate::tools`]) appears in a lane: the caller's as a private
//! layer over it, somebody else's read-only; in either case without its credentials.
//!
//! Invariant: what the credential list names is absent below such a directory, whether it is a part of a home, is
//! a home itself, or has the name of one of a home's directories.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kernel::mountspec::Overlay;
use sandbox::credentials::Credentials;
use sandbox::view::Home;
use workspace::{MountMode, MountTable};

use crate::error::{Doing as _, Result};
use crate::lane::{OpenLane, mount_mode};
use crate::launch::{self, Layering};
use crate::tools::{self, ToolDir};

/// The toolchains that the environment names. `home` is shown anyway, and so are the lane's roots.
pub(crate) fn shown(
    lane: &OpenLane,
    credentials: &Credentials,
    home: Option<&Path>,
    mounts: &MountTable,
    layering: Layering<'_>,
) -> Result<Vec<Home>> {
    let mut seen: Vec<PathBuf> = lane.roots.iter().map(|root| root.view.path.clone()).collect();
    seen.extend(home.map(Path::to_path_buf));
    let uid = rustix::process::geteuid().as_raw();
    let mut shown = Vec::new();
    for dir in tools::find(std::env::vars_os(), &seen) {
        let Ok(meta) = std::fs::metadata(&dir.at) else { continue };
        if !meta.is_dir() || !mounts.below(&dir.at).is_empty() {
            // No layer can be put over it. A part of it that holds credentials is not shown at all.
            if absent(&dir, credentials).iter().all(|path| !dir.at.join(path).exists()) {
                shown.push(Home::Parts { parts: launch::read_only(dir.at).into_iter().collect() });
            }
            continue;
        }
        let absent = sandbox::mask::facts(&dir.at, &absent(&dir, credentials))
            .doing(|| format!("look at {}", dir.at.display()))?;
        let own = meta.uid() == uid;
        let overlay = if own {
            let part = format!("{:x}", launch::fingerprint(dir.at.as_os_str().as_encoded_bytes()));
            launch::overlay(lane, &part, &dir.at, None, layering)?
        } else {
            let user_xattr = mount_mode() == MountMode::User;
            Overlay {
                lowers: vec![dir.at.clone()],
                upper: None,
                work: None,
                user_xattr,
                volatile: false,
                redirect_dir: false,
                index: false,
            }
        };
        shown.push(Home::Overlay { at: dir.at, overlay, absent, in_memory: own && layering.in_memory });
    }
    Ok(shown)
}

/// What is hidden below a toolchain's directory, relative to it.
fn absent(dir: &ToolDir, credentials: &Credentials) -> Vec<PathBuf> {
    let inner = dir.home.as_ref().and_then(|home| dir.at.strip_prefix(home).ok());
    let named = inner.or_else(|| dir.at.file_name().map(Path::new));
    let mut absent: Vec<PathBuf> = Vec::new();
    for path in credentials.in_home() {
        let as_part = named.and_then(|named| Path::new(&path.at).strip_prefix(named).ok());
        absent.extend(as_part.map(Path::to_path_buf));
        absent.push(PathBuf::from(&path.at));
    }
    let logins = tools::cargo_logins();
    absent.extend(logins.iter().filter_map(|path| path.strip_prefix(&dir.at).ok()).map(Path::to_path_buf));
    absent.retain(|path| !path.as_os_str().is_empty());
    absent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_in_a_part_of_a_home_in_a_home_and_in_what_has_the_name_of_a_part() {
        let list = Credentials::built_in().expect("parses");
        let hides = |at: &str, home: Option<&str>, path: &str| {
            let dir = ToolDir { at: at.into(), home: home.map(PathBuf::from) };
            absent(&dir, &list).iter().any(|hidden| hidden == Path::new(path))
        };
        assert!(hides("/home/a/.cargo", Some("/home/a"), "credentials.toml"));
        assert!(hides("/tmp/a/.cargo", None, "credentials.toml"));
        assert!(hides("/tmp/a", None, ".cargo/credentials.toml"));
        assert!(hides("/tmp/a", None, ".ssh"));
        assert!(!hides("/tmp/bin", None, "gh"));
    }
}
