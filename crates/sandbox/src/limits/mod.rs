//! Limits on what a lane uses: what was asked for and what this machine can do become a list of limits, each with the
//! means by which it is held.
//!
//! Invariant: a limit is called enforced only where the kernel holds it; one that is watched says how, and by how much it
//! can be overshot. One that can be neither is refused, never left out.

mod groups;
mod watch;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use groups::{Groups, end, enter};
pub use watch::{Found, Over, Watched};

/// What a lane may use at most; `None` is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processor time, in thousandths of one processor.
    pub cpus: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Bytes that the lane's own layers take on disk.
    pub disk: Option<u64>,
    /// Files and directories in them.
    pub inodes: Option<u64>,
    /// Share of the disk's time, 1 to 10000; others have 100.
    pub io_weight: Option<u64>,
}

impl Wanted {
    /// True where nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Wanted::default()
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Memory.
    Memory,
    /// Processor time.
    Cpus,
    /// Processes and threads.
    Pids,
    /// Bytes on disk.
    Disk,
    /// Files and directories.
    Inodes,
    /// Share of the disk's time.
    IoWeight,
}

impl What {
    /// The flag that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            What::Memory => "--memory",
            What::Cpus => "--cpus",
            What::Pids => "--pids",
            What::Disk | What::Inodes => "--disk",
            What::IoWeight => "--io-weight",
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            What::Memory => "memory",
            What::Cpus => "cpus",
            What::Pids => "pids",
            What::Disk => "disk",
            What::Inodes => "inodes",
            What::IoWeight => "io weight",
        }
    }
}

/// By which means a limit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// A control group of this version.
    Group(u8),
    /// RLIMIT_NPROC, counted in the lane's own user namespace.
    Rlimit,
    /// The largest process id of the lane's own pid namespace.
    PidMax,
    /// The processors that it may run on.
    Affinity,
    /// The share of memory of its processes is added up.
    WatchedMemory,
    /// Its layers are walked; no file grows beyond the limit (RLIMIT_FSIZE).
    WatchedLayers,
}

impl Means {
    /// True where the kernel holds it.
    pub fn is_enforced(self) -> bool {
        !matches!(self, Means::WatchedMemory | Means::WatchedLayers)
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Means::Group(version) => write!(f, "enforced (control group, version {version})"),
            Means::Rlimit => f.write_str("enforced (RLIMIT_NPROC in the lane's user namespace)"),
            Means::PidMax => f.write_str("enforced (pid_max of the lane's pid namespace, which can be overshot by 300)"),
            Means::Affinity => f.write_str("enforced (in whole processors)"),
            Means::WatchedMemory => f.write_str(
                "watched (proportional share of its processes and what lies in its temporary directories, several times a second; what is taken in between overshoots, then its largest process is ended)",
            ),
            Means::WatchedLayers => f.write_str(
                "watched (its layers are walked; what is written between two walks overshoots, then the lane is ended; no single file grows beyond it)",
            ),
        }
    }
}

/// One limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Of what.
    pub what: What,
    /// How much.
    pub most: u64,
    /// By which means.
    pub means: Means,
}

/// What the means depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The lane has a user namespace of its own.
    pub own_users: bool,
    /// The lane has a pid namespace of its own.
    pub own_pids: bool,
    /// The version of the control group that holds memory, where there is one.
    pub memory: Option<u8>,
    /// The same for processor time.
    pub cpu: Option<u8>,
    /// The same for processes.
    pub pids: Option<u8>,
    /// The same for disk time.
    pub io: Option<u8>,
}

/// Plans the means. The error is what can be held by none, and why.
pub fn plan(wanted: &Wanted, facts: Facts) -> Result<Vec<Limit>, (What, &'static str)> {
    let mut limits = Vec::new();
    let mut add = |what, most: Option<u64>, means: Result<Means, &'static str>| {
        let Some(most) = most else { return Ok(()) };
        limits.push(Limit { what, most, means: means.map_err(|why| (what, why))? });
        Ok(())
    };
    let group = |version: Option<u8>| version.map(Means::Group);
    let alone =
        "without a control group it needs a pid namespace of the lane's own, which this level has not";
    let memory = group(facts.memory).or(facts.own_pids.then_some(Means::WatchedMemory)).ok_or(alone);
    add(What::Memory, wanted.memory, memory)?;
    add(What::Cpus, wanted.cpus, Ok(group(facts.cpu).unwrap_or(Means::Affinity)))?;
    let pids = match (facts.own_users, facts.own_pids) {
        _ if facts.pids.is_some() => group(facts.pids).ok_or(alone),
        (true, _) => Ok(Means::Rlimit),
        (_, true) => Ok(Means::PidMax),
        _ => Err(alone),
    };
    add(What::Pids, wanted.pids, pids)?;
    add(What::Disk, wanted.disk, Ok(Means::WatchedLayers))?;
    add(What::Inodes, wanted.inodes, Ok(Means::WatchedLayers))?;
    let io = group(facts.io)
        .ok_or("it needs control groups of version 2 with the io controller, which are not there for us");
    add(What::IoWeight, wanted.io_weight, io)?;
    Ok(limits)
}

/// What a command takes on by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Own {
    /// RLIMIT_NPROC.
    pub processes: Option<u64>,
    /// RLIMIT_FSIZE.
    pub file_size: Option<u64>,
    /// How many processors it may run on; it cannot change that.
    pub processors: Option<u64>,
    /// pid_max of the pid namespace.
    pub pid_max: Option<u64>,
}

impl Own {
    /// Of these limits, what each command takes on.
    pub fn of(limits: &[Limit]) -> Own {
        let mut own = Own::default();
        for limit in limits {
            match limit.means {
                // Pid 1 is one of them.
                Means::Rlimit => own.processes = Some(limit.most.saturating_add(1)),
                // The kernel gives the first 300 numbers once only.
                Means::PidMax => own.pid_max = Some(limit.most.saturating_add(301)),
                Means::Affinity => own.processors = Some(limit.most.div_ceil(1000)),
                Means::WatchedLayers if limit.what == What::Disk => own.file_size = Some(limit.most),
                _ => {}
            }
        }
        own
    }
}

/// A limit that was hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Which.
    pub what: What,
    /// What was allowed.
    pub most: u64,
    /// What was found, where that is known.
    pub found: Option<u64>,
    /// What was done.
    pub done: String,
}

#[cfg(test)]
mod tests {
    use super::{Facts, Means, Own, Wanted, What, plan};

    const NONE: Facts =
        Facts { own_users: true, own_pids: true, memory: None, cpu: None, pids: None, io: None };

    fn all() -> Wanted {
        Wanted {
            memory: Some(1 << 30),
            cpus: Some(1500),
            pids: Some(100),
            disk: Some(1 << 20),
            inodes: Some(10),
            io_weight: None,
        }
    }

    fn means(facts: Facts) -> Vec<Means> {
        plan(&all(), facts).expect("planned").iter().map(|limit| limit.means).collect()
    }

    #[test]
    fn groups_hold_where_there_are_some_and_the_next_best_else() {
        use Means::{Affinity, Group, PidMax, Rlimit, WatchedLayers, WatchedMemory};
        let there = Facts { memory: Some(2), cpu: Some(2), pids: Some(1), ..NONE };
        assert_eq!(means(there), [Group(2), Group(2), Group(1), WatchedLayers, WatchedLayers]);
        assert_eq!(means(NONE), [WatchedMemory, Affinity, Rlimit, WatchedLayers, WatchedLayers]);
        assert_eq!(means(Facts { own_users: false, ..NONE })[2], PidMax);
        let bare = Facts { own_users: false, own_pids: false, ..NONE };
        assert_eq!(plan(&all(), bare).expect_err("refused").0, What::Memory);
        let weight = Wanted { io_weight: Some(50), ..Wanted::default() };
        assert_eq!(plan(&weight, NONE).expect_err("refused").0, What::IoWeight);
        assert_eq!(plan(&weight, Facts { io: Some(2), ..NONE }).expect("planned")[0].means, Group(2));
    }

    #[test]
    fn a_command_takes_on_what_no_group_holds() {
        let own = Own::of(&plan(&all(), NONE).expect("planned"));
        assert_eq!(own.processes, Some(101));
        assert_eq!((own.file_size, own.processors, own.pid_max), (Some(1 << 20), Some(2), None));
        assert_eq!(Own::of(&[]), Own::default());
    }
}
