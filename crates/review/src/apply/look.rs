//! The look ahead: everything that can be known to fail is found before anything is written.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::error::Asked as _;
use kernel::{meta, open};
use tree::{Entry, TreePath};

use super::NoFaults;
use super::journal::Seen;
use super::site::{Closely, Site, differences, is_same};
use super::units::Units;
use crate::error::{Error, Result, Stepping as _};
use crate::plan::KeepPlan;

/// Checks every target and its directory.
pub(crate) fn ahead(units: &Units, origin: BorrowedFd<'_>, stage_parent: &OwnedFd) -> Result<()> {
    let site = Site { origin, stage: None, faults: &NoFaults };
    let device = meta::stat_fd(stage_parent).stepping("stat", &TreePath::root())?.dev;
    let touched = BTreeSet::new();
    let closely = Closely { touched: &touched, moved: false, made: false };
    let mut moved = Vec::new();
    // What stands under a moved directory is looked at where it is now.
    let before = |path: &TreePath| {
        units
            .moved
            .iter()
            .find_map(|(from, to)| path.strip_prefix(to).map(|rest| from.join_path(&rest)))
            .unwrap_or_else(|| path.clone())
    };
    let lifted: BTreeSet<TreePath> = units.lifts.iter().map(|lift| lift.from.clone()).collect();
    for lift in &units.lifts {
        let spot = site.spot(&lift.from)?;
        same_device(&spot.dir, device, &lift.from)?;
        if !spot.entry.as_ref().is_some_and(|found| is_same(found, &known(&lift.old), closely)) {
            moved.push(lift.from.clone());
        }
    }
    for unit in &units.units {
        let is_move = units.moved.iter().any(|(_, to)| *to == unit.path);
        let path = if is_move { unit.path.clone() } else { before(&unit.path) };
        let spot = site.spot(&path)?;
        same_device(&spot.dir, device, &path)?;
        let except: BTreeSet<TreePath> = lifted.iter().filter_map(|from| from.strip_prefix(&path)).collect();
        if except.contains(&TreePath::root()) {
            continue;
        }
        moved.extend(
            differences(&spot, &unit.old, &except, closely)?.iter().map(|below| path.join_path(below)),
        );
    }
    for (path, old, _) in &units.metas {
        let place = units
            .lifts
            .iter()
            .find(|lift| lift.to == *path)
            .map_or_else(|| before(path), |lift| lift.from.clone());
        let spot = site.spot(&place)?;
        if !spot
            .entry
            .as_ref()
            .is_some_and(|found| is_same(found, &known(old), closely) && found.mode == old.mode)
        {
            moved.push(place);
        }
    }
    if moved.is_empty() { Ok(()) } else { Err(Error::OriginMoved { paths: moved }) }
}

/// Something of which what is below it does not matter.
fn known(entry: &Entry) -> Seen {
    Seen::of(TreePath::root(), entry, false)
}

fn same_device(dir: &OwnedFd, device: u64, path: &TreePath) -> Result<()> {
    let here = meta::stat_fd(dir).stepping("stat", path)?.dev;
    if here == device {
        Ok(())
    } else {
        Err(Error::OtherFilesystem { path: path.parent().unwrap_or_default() })
    }
}

/// Checks that there is room, and says how much is missing.
pub(crate) fn room(plan: &KeepPlan, place: &OwnedFd, staging: Option<&Path>) -> Result<()> {
    let stat =
        rustix::fs::fstatvfs(place).asked("fstatvfs", b"").stepping("ask for room", &TreePath::root())?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let short = |what, needed: u64, free: u64| Error::NoRoom {
        what,
        place: staging.map(Path::to_path_buf).unwrap_or_else(|| PathBuf::from(".")),
        needed,
        free,
        missing: needed.saturating_sub(free),
    };
    // A file system that counts no inodes (btrfs) has as many as it has room for.
    let inodes = plan.inodes_needed.saturating_add(2);
    if stat.f_files > 0 && inodes > stat.f_favail {
        return Err(short("inodes", inodes, stat.f_favail));
    }
    if plan.bytes_needed > free && !shares_blocks(place) {
        return Err(short("bytes", plan.bytes_needed, free));
    }
    Ok(())
}

/// True where a clone works here, so that content costs no room. Tried, not guessed, and only where the
/// answer matters.
fn shares_blocks(place: &OwnedFd) -> bool {
    let try_it = || -> kernel::Result<bool> {
        let (a, a_name) = kernel::publish::temp_file(place, 0o600)?;
        kernel::node::unlink_at(place, &a_name)?;
        let (b, b_name) = kernel::publish::temp_file(place, 0o600)?;
        kernel::node::unlink_at(place, &b_name)?;
        Ok(rustix::fs::ioctl_ficlone(&b, &a).is_ok())
    };
    let before = meta::stat_fd(place).ok();
    let answer = try_it().unwrap_or(false);
    if let (Some(before), Ok(dir)) = (before, open::dir_beneath(place, b"")) {
        // The place may be the origin itself; a look leaves no trace.
        let _ = meta::set_times_fd(&dir, before.mtime);
    }
    answer
}
