//! [`Monitor`]: where the engine says what happens while it works. One closed list of events, so that
//! every face can show the same facts and tests can assert on them.

use std::path::{Path, PathBuf};

use sandbox::limits::Hit;

use crate::view::{Cost, DriftView, LaneView, Net};

/// Something worth telling while an operation runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A lane stands and its command is about to start.
    Ready {
        /// The lane.
        lane: &'a LaneView,
        /// What making it cost; `None` for a lane that was there already.
        cost: Option<Cost>,
        /// The network of this run.
        net: &'a Net,
        /// Paths bound read-write: writes to them go directly to the original.
        direct: &'a [PathBuf],
        /// What is shared with the host for the programs inside, as `(preset, what)`.
        shared: &'a [(String, String)],
    },
    /// A copy is being made.
    Copying {
        /// Files so far.
        files: u64,
        /// Bytes so far.
        bytes: u64,
    },
    /// A check that a rule asks for is about to run.
    Checking {
        /// The command, as it is written.
        command: &'a str,
        /// The file that holds the rule.
        rule: &'a Path,
    },
    /// The origin changed below a lane.
    Drifted(&'a [DriftView]),
    /// Something crashed earlier and was put right: what, and on what.
    Repaired(&'a str, &'a str),
    /// A limit of the lane was hit.
    LimitHit(&'a Hit),
    /// Something did not go as it should, and the operation went on.
    Warning(&'a str),
}

/// Listens to events.
pub trait Monitor {
    /// Takes one event.
    fn event(&mut self, event: Event<'_>);
}

/// Listens to nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn event(&mut self, _event: Event<'_>) {}
}
