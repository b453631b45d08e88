//! The background walk that records what the base was: begun after the command, at idle priority, in a
//! process of its own that outlives the run if it has to.
//!
//! Invariant: the walk only reads the origin and publishes one file by rename in the lane's directory; it
//! holds neither the lane's lock nor any stream of the run.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::AtomicBool;

use kernel::process::{self, Child, Forked};
use workspace::{LaneHome, RecordOptions};

use crate::error::{Doing as _, Result};
use crate::lane::OpenLane;

/// A walk in progress.
#[derive(Debug)]
pub struct Walk {
    child: Child,
    /// Closed by the walk when it has let go of everything of the run's, the lane's lock above all.
    holds: OwnedFd,
}

/// Starts the walk over every root that has no record yet; `None` where all have one.
pub fn start(state: &std::path::Path, lane: &OpenLane) -> Result<Option<Walk>> {
    let missing: Vec<usize> = lane
        .roots
        .iter()
        // Nothing of a repository elsewhere is ever kept: nobody asks what it was.
        .filter(|root| {
            !root.view.git && !lane.home.path().join(workspace::manifest::file_name(root.index)).exists()
        })
        .map(|root| root.index)
        .collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let doing = || "start the walk".to_owned();
    let (holds, held) = kernel::fdpass::pair().doing(doing)?;
    match process::fork().doing(doing)? {
        Forked::Parent(child) => {
            drop(held);
            Ok(Some(Walk { child, holds }))
        }
        Forked::Child => {
            let _ = walk(state, lane, &missing);
            process::exit_now(0)
        }
    }
}

fn walk(state: &std::path::Path, lane: &OpenLane, missing: &[usize]) -> Result<()> {
    process::go_alone();
    process::close_others(&[]).doing(|| "let go of the run".to_owned())?;
    let _ = kernel::priority::idle_priority();
    // Nothing that was opened before counts any more: open the lane anew.
    let home = LaneHome::open(state, &lane.row.id)?;
    record(&home, lane, missing)
}

/// Records the base of the given roots now.
pub fn record(home: &LaneHome, lane: &OpenLane, roots: &[usize]) -> Result<()> {
    let stamp = workspace::base::read_stamp(home)?;
    for index in roots {
        let root = &lane.roots[*index];
        let origin =
            kernel::open::root_dir(&root.view.path).doing(|| format!("open {}", root.view.path.display()))?;
        let options =
            RecordOptions { since: Some(stamp.time), skip: &root.skipped, ..RecordOptions::default() };
        let name = workspace::manifest::file_name(*index);
        workspace::record(origin.as_fd(), &options, home.dir(), &name, &AtomicBool::new(false))?;
        // What git knows of the files goes beside it: losing it loses a merge, nothing else.
        let _ = workspace::git::staged::put_aside(&root.view.path, home.dir(), *index);
    }
    Ok(())
}

impl Walk {
    /// Ends the walk: nobody will ask for its result.
    pub fn cancel(self) {
        let _ = process::kill_pidfd(&self.child.pidfd, rustix::process::Signal::KILL);
        let _ = process::wait(process::Which::Pidfd(self.child.pidfd.as_fd()), true, false);
    }

    /// Lets it go on by itself, once it has let go of the run (which a short run on a busy machine does not
    /// wait for otherwise); one that has ended is taken note of.
    pub fn leave(self) {
        let _ = kernel::fdpass::receive(&self.holds, &mut [0u8; 1]);
        let _ = process::wait(process::Which::Pidfd(self.child.pidfd.as_fd()), false, false);
    }
}
