//! A filesystem in an image file, mounted in this process's own mount namespace.
//!
//! Invariant: the image lies in a benchmark's scratch directory and goes with it; the mount is seen by nobody else and
//! goes with the process, whatever happens to that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::ground::Ground;
use super::process::{self, Job, Outcome, Trouble};

/// Set for the process that has a mount namespace of its own, in which it may mount an image.
const PRIVATE: &str = "LANE_BENCH_PRIVATE";

/// A mounted image.
pub(crate) struct Image<'g> {
    outer: &'g Ground,
    kind: &'static str,
    at: PathBuf,
}

/// The same program once more in a mount namespace of its own, where this one has none and root can make it: its exit code.
pub(crate) fn in_private(args: impl Iterator<Item = OsString>) -> Option<Outcome<u8>> {
    if std::env::var_os(PRIVATE).is_some() {
        return None;
    }
    let (Ok(unshare), Ok(own)) = (process::program("unshare"), std::env::current_exe()) else { return None };
    let again = Job::new(unshare, Path::new("."))
        .args(["-m", "--propagation", "private"])
        .args([own])
        .args(args)
        .env(PRIVATE, "1");
    Some(again.hand_over())
}

impl<'g> Image<'g> {
    /// Makes and mounts one of `kind`: btrfs or xfs.
    pub(crate) fn mount(outer: &'g Ground, kind: &'static str) -> Outcome<Image<'g>> {
        let mkfs = process::program(&format!("mkfs.{kind}"))?;
        if std::env::var_os(PRIVATE).is_none() {
            return Err(process::program("unshare")
                .err()
                .unwrap_or(Trouble::Failed("no mount namespace".to_owned())));
        }
        let script = format!(
            "truncate -s 8G {kind}.img && '{}' -q {kind}.img && mkdir {kind} && mount -o loop {kind}.img {kind}",
            mkfs.display()
        );
        outer.shell(outer.scratch(), &script).run()?;
        Ok(Image { outer, kind, at: outer.scratch().join(kind) })
    }

    /// The ground on it.
    pub(crate) fn ground(&self) -> Outcome<Ground> {
        Ground::new(self.outer.corpora(), &self.at)
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = self.outer.shell(self.outer.scratch(), &format!("umount {}", self.kind)).run();
    }
}
