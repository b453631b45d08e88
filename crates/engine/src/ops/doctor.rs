//! `doctor`: tries what lanes need on this machine and on this very filesystem.

use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::{EngineError, Result};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckId {
    /// The version of the kernel.
    Kernel,
    /// The state directory.
    State,
    /// The ledger in it.
    Ledger,
    /// A user namespace of one's own.
    UserNamespace,
    /// Mount, pid, ipc, uts, cgroup and network namespaces.
    Namespaces,
    /// An overlay mount with layers where they would go.
    Overlay,
    /// Copy-on-write copies on the project's filesystem.
    Reflink,
    /// A seccomp filter.
    Seccomp,
    /// The rename listener.
    SeccompNotify,
    /// Landlock.
    Landlock,
    /// What stands below the project.
    Project,
    /// The strategy that a lane would get.
    Strategy,
    /// Lanes that a crash left behind.
    Remnants,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Ok,
    /// It works with less.
    Degraded,
    /// It does not work.
    Missing,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Degraded => "degraded",
            Verdict::Missing => "missing",
        }
    }
}

/// One probe and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was tried.
    pub id: CheckId,
    /// How it went.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
}

/// Which directory to try on.
#[derive(Debug, Clone, Default)]
pub struct DoctorRequest {
    /// A directory of the project.
    pub dir: PathBuf,
}

/// Tries everything.
pub fn doctor(_engine: &Engine, _request: &DoctorRequest) -> Result<Vec<Check>> {
    Err(EngineError::NotBuilt("doctor"))
}
