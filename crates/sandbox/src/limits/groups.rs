//! [`Groups`]: the control groups that hold a lane's limits, one for each controller that has a place of its own.
//!
//! Invariant: their paths stand in the lane's directory before they are made, so that whoever comes after a kill removes
//! them; whoever joins the lane goes into all of them or not at all.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use kernel::controllers::{Controller, Limiting, Place, place};
use kernel::{Errno, node, publish};

use super::{Facts, Hit, Wanted, What};
use crate::error::{Result, Stage, Step as _};

/// The file with their paths, a line each, before each the version of its kind.
const NAME: &[u8] = b"limits";

/// The groups of a lane that is being started. Dropped, they are removed.
#[derive(Debug)]
pub struct Groups {
    lane: OwnedFd,
    held: Vec<(Controller, Limiting)>,
    wanted: Wanted,
}

impl Groups {
    /// Makes what is wanted and can be; `None` where that is nothing. The caller holds the lane's lock.
    pub fn make(lane: &OwnedFd, id: &str, wanted: &Wanted) -> Option<Groups> {
        end(lane);
        let places = places(wanted);
        if places.is_empty() {
            return None;
        }
        // The group that makes a lane stand still has the same name without the ending, and is another's business.
        let name = format!("lane-{id}-limits");
        let mut lines = Vec::new();
        for (_, place) in &places {
            lines.extend_from_slice(format!("{} ", place.version).as_bytes());
            lines.extend_from_slice(place.dir.join(&name).as_os_str().as_bytes());
            lines.push(b'\n');
        }
        publish::write_passing_file(lane, NAME, &lines, 0o600).ok()?;
        let mut groups = Groups { lane: lane.try_clone().ok()?, held: Vec::new(), wanted: wanted.clone() };
        for (controller, place) in &places {
            // One that cannot be made is held by other means.
            if let Ok(group) = Limiting::make(place, &name)
                && set(&group, *controller, wanted).is_ok()
            {
                groups.held.push((*controller, group));
            }
        }
        Some(groups)
    }

    /// What the means of limits depend on.
    pub fn facts(groups: Option<&Groups>, facts: Facts) -> Facts {
        let version = |controller| {
            let held = groups?.held.iter().find(|(of, _)| *of == controller);
            held.map(|(_, group)| group.version)
        };
        Facts {
            memory: version(Controller::Memory),
            cpu: version(Controller::Cpu),
            pids: version(Controller::Pids),
            io: version(Controller::Io),
            ..facts
        }
    }

    /// The same where nothing is to be made: what would be tried.
    pub fn would(wanted: &Wanted, facts: Facts) -> Facts {
        let places = places(wanted);
        let version =
            |controller| places.iter().find(|(of, _)| *of == controller).map(|(_, place)| place.version);
        Facts {
            memory: version(Controller::Memory),
            cpu: version(Controller::Cpu),
            pids: version(Controller::Pids),
            io: version(Controller::Io),
            ..facts
        }
    }

    /// Takes pid 1 in, which has started nobody yet.
    pub fn take(&self, pid: i32) -> Result<()> {
        for (_, group) in &self.held {
            group.take(pid).step(Stage::Walls, "put the lane into its control group")?;
        }
        Ok(())
    }

    /// What was hit, by the kernel's own count.
    pub fn hits(&self) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (controller, group) in &self.held {
            match controller {
                Controller::Memory if group.memory_kills() > 0 => {
                    let waited = group.pressure(Controller::Memory).map_or(String::new(), |micros| {
                        format!("; {} ms were spent waiting for memory", micros / 1000)
                    });
                    let done = format!("the kernel ended {} of its processes{waited}", group.memory_kills());
                    hits.push(Hit {
                        what: What::Memory,
                        most: self.wanted.memory.unwrap_or(0),
                        found: None,
                        done,
                    });
                }
                Controller::Pids if group.pids_refused() > 0 => {
                    let done =
                        format!("{} times a process or thread could not be made", group.pids_refused());
                    hits.push(Hit {
                        what: What::Pids,
                        most: self.wanted.pids.unwrap_or(0),
                        found: None,
                        done,
                    });
                }
                _ => {}
            }
        }
        hits
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        end(&self.lane);
    }
}

fn places(wanted: &Wanted) -> Vec<(Controller, Place)> {
    let asked = [
        (Controller::Memory, wanted.memory),
        (Controller::Cpu, wanted.cpus),
        (Controller::Pids, wanted.pids),
        (Controller::Io, wanted.io_weight),
    ];
    let asked = asked.into_iter().filter(|(_, most)| most.is_some());
    asked.filter_map(|(controller, _)| Some((controller, place(controller)?))).collect()
}

fn set(group: &Limiting, controller: Controller, wanted: &Wanted) -> kernel::Result<()> {
    match controller {
        Controller::Memory => wanted.memory.map_or(Ok(()), |most| group.memory(most)),
        Controller::Cpu => wanted.cpus.map_or(Ok(()), |most| group.cpu(most)),
        // Pid 1 is one of them.
        Controller::Pids => wanted.pids.map_or(Ok(()), |most| group.pids(most.saturating_add(1))),
        Controller::Io => wanted.io_weight.map_or(Ok(()), |weight| group.io(weight)),
    }
}

/// The caller goes into the groups of a lane that is live. Before it enters the lane, where they cannot be seen.
pub fn enter(lane: impl AsFd) -> Result<()> {
    for group in named(lane) {
        match group.take(0) {
            // It was never made, and its limit is held by other means.
            Err(error) if error.is_not_found() => {}
            other => other.step(Stage::Walls, "join the lane's control group")?,
        }
    }
    Ok(())
}

/// Removes the groups of a lane in which nobody is any more. Costs one look at a name where there are none.
pub fn end(lane: impl AsFd) {
    let lane = lane.as_fd();
    let groups = named(lane);
    if groups.is_empty() {
        return;
    }
    for group in &groups {
        for _ in 0..200 {
            match Limiting::remove(&group.path) {
                // Somebody who was in it is just ending.
                Err(error) if error.errno == Errno::BUSY => std::thread::sleep(Duration::from_millis(1)),
                Err(error) if error.errno != Errno::NOENT => return,
                _ => break,
            }
        }
    }
    if groups.iter().all(|group| !group.path.exists()) {
        let _ = node::unlink_at(lane, NAME);
    }
}

fn named(lane: impl AsFd) -> Vec<Limiting> {
    let Ok(file) = kernel::open::file_beneath(lane, NAME) else { return Vec::new() };
    let Ok(text) = kernel::bytes::read_all(&file) else { return Vec::new() };
    // What a power failure left of it is no path of a group.
    let is_one = |path: &PathBuf| {
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        path.starts_with("/sys/fs/cgroup") && name.starts_with(b"lane-") && name.ends_with(b"-limits")
    };
    let one = |line: &[u8]| {
        let (version, path) = match line {
            [b'1', b' ', path @ ..] => (1, path),
            [b'2', b' ', path @ ..] => (2, path),
            _ => return None,
        };
        Some(PathBuf::from(OsStr::from_bytes(path))).filter(is_one).map(|path| Limiting { path, version })
    };
    let mut groups: Vec<Limiting> = text.split(|byte| *byte == b'\n').filter_map(one).collect();
    // In version 2 one group holds several controllers.
    groups.dedup();
    groups
}
