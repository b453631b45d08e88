//! What was truly enforced, wall by wall, as data for the ledger and for people.
//!
//! Invariant: a wall is `Full` only where the step that builds it returned success in this very run.

use kernel::landlock::Access;
use serde::{Deserialize, Serialize};

use crate::limits::{Limit, What};
use crate::plan::{self, Mode, Plan, Walls};

/// How far a wall stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As described.
    Full,
    /// In part; the note says which.
    Partial,
    /// Not at all.
    None,
}

/// One wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// Its name.
    pub name: String,
    /// How far it stands.
    pub state: State,
    /// What that means here.
    pub note: String,
}

/// The walls of a run whose plan was carried out without an error.
pub fn enforced(plan: &Plan) -> Vec<Wall> {
    let wall = |name: &str, state, note: &str| Wall { name: name.into(), state, note: note.into() };
    let full = |name: &str, note: &str| wall(name, State::Full, note);
    if plan.walls.bare {
        return bare(plan);
    }
    let mut walls = vec![
        full("view", "the project is a lane, the system is read-only, credentials are absent"),
        match plan.mode {
            Mode::User if plan.walls.nest => wall(
                "user namespace",
                State::Partial,
                "the caller's own uid, no capabilities; --nest: who makes one below has them there, and more of the kernel to try",
            ),
            Mode::User => full("user namespace", "the caller's own uid, no capabilities, no namespace below"),
            Mode::Root => wall(
                "user namespace",
                State::None,
                "started by root: capabilities dropped, bounding set empty, securebits locked instead",
            ),
        },
        full("namespaces", "mount, pid, ipc, uts, cgroup"),
    ];
    walls.push(if plan.own_network() {
        full("network", "its own, without a way out but by the gate")
    } else {
        wall("network", State::None, "the host's network")
    });
    walls.push(full("no_new_privs", "no program gains privilege"));
    walls.push(if plan.walls.nest {
        wall(
            "seccomp",
            State::Partial,
            "keyrings, bpf, io_uring, foreign ABIs and terminal injection refused; --nest allows mounts and namespaces",
        )
    } else {
        full(
            "seccomp",
            "what docs/syscalls.md does not allow is refused: mounts, namespaces, keyrings, bpf, io_uring, foreign ABIs, typing into terminals",
        )
    });
    walls.push(match (plan.own_network(), plan.walls.fence.abstract_sockets) {
        (true, _) => full("abstract sockets", "a network namespace of its own holds none of the host"),
        (false, true) => full("abstract sockets", "those of the host are out of reach"),
        (false, false) => wall(
            "abstract sockets",
            State::None,
            "those of the host can be reached: this kernel has no Landlock scopes",
        ),
    });
    walls.push(if plan.walls.doors.is_empty() {
        full("host doors", "no socket of a session bus, agent, keyring, container engine or display")
    } else {
        let open = plan.walls.doors.join(", ");
        wall("host doors", State::Partial, &format!("open by name: {open}; every other is shut"))
    });
    walls.push(landlock(&plan.walls));
    walls.push(limits(&plan.walls.limits));
    walls
}

/// The walls of a command without namespaces.
fn bare(plan: &Plan) -> Vec<Wall> {
    let wall = |name: &str, state, note: &str| Wall { name: name.into(), state, note: note.into() };
    vec![
        wall(
            "view",
            State::Partial,
            "a copy in the lane's own directory, a home and temporary directories of its own; names, sizes, modes, times and attributes of other files are not hidden, and those of your own can be changed",
        ),
        wall("user namespace", State::None, "level landlock-only"),
        wall(
            "namespaces",
            State::None,
            "level landlock-only: what is left when the supervisor is killed survives",
        ),
        wall("network", State::None, "the host's network"),
        wall("no_new_privs", State::Full, "no program gains privilege"),
        wall(
            "seccomp",
            State::Full,
            "what docs/syscalls.md does not allow is refused; besides: unix sockets, System V and POSIX queues, priorities and limits of other processes",
        ),
        wall("abstract sockets", State::Full, "those of the host are out of reach"),
        wall("signals", State::Full, "none to processes outside; tracing neither"),
        wall("host doors", State::Full, "no unix socket is had at all"),
        landlock(&plan.walls),
        limits(&plan.walls.limits),
    ]
}

/// Each limit with what it allows and how it is held.
fn limits(limits: &[Limit]) -> Wall {
    let state = match limits {
        [] => State::None,
        _ if limits.iter().all(|limit| limit.means.is_enforced()) => State::Full,
        _ => State::Partial,
    };
    let one = |limit: &Limit| {
        let most = match limit.what {
            What::Memory | What::Disk => format!("{} bytes", limit.most),
            What::Cpus => format!("{}.{:03}", limit.most / 1000, limit.most % 1000),
            What::Pids | What::Inodes | What::IoWeight => limit.most.to_string(),
        };
        format!("{} {most}: {}", limit.what.word(), limit.means)
    };
    let note = match limits {
        [] => "none asked for (--memory, --cpus, --pids, --disk)".to_owned(),
        _ => limits.iter().map(one).collect::<Vec<_>>().join("; "),
    };
    Wall { name: "limits".into(), state, note }
}

/// The outer fence, with what it handles and what it grants.
fn landlock(walls: &Walls) -> Wall {
    let abi = kernel::landlock::abi();
    let fence = &walls.fence;
    let (state, note) = if fence.files {
        let granted = |access: Access| {
            let places = fence.rules.iter().filter(move |(_, granted)| *granted == access);
            places.map(|(path, _)| plan::shown(path)).collect::<Vec<_>>().join(" ")
        };
        let note = format!(
            "ABI {abi}, one ruleset; handled: {}; granted: read and execute: {}; also write to what is there: {}; also commands to devices: {}; everything: {}",
            kernel::landlock::handled(abi).join(" "),
            granted(Access::Read),
            granted(Access::Touch),
            granted(Access::Devices),
            granted(Access::Write),
        );
        (State::Full, note)
    } else if abi == 0 {
        (
            State::None,
            "this kernel has none, or it is switched off: no fence around files behind the mounts".into(),
        )
    } else {
        (State::None, "no fence around files: nested sandboxes (--nest) could not mount behind it".into())
    };
    Wall { name: "landlock".into(), state, note }
}
