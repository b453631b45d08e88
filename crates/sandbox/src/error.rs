//! The error of this crate: which stage, which step, and the kernel's answer.

/// Where on the way into the lane something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading facts of the host.
    Facts,
    /// Making the namespaces.
    Namespaces,
    /// Building the view.
    Mounts,
    /// Giving up privilege and installing the filter.
    Walls,
    /// Starting the command.
    Exec,
    /// While it ran.
    Supervise,
}

impl Stage {
    pub(crate) fn code(self) -> u8 {
        match self {
            Stage::Facts => 0,
            Stage::Namespaces => 1,
            Stage::Mounts => 2,
            Stage::Walls => 3,
            Stage::Exec => 4,
            Stage::Supervise => 5,
        }
    }

    pub(crate) fn from_code(code: u8) -> Stage {
        match code {
            0 => Stage::Facts,
            1 => Stage::Namespaces,
            2 => Stage::Mounts,
            3 => Stage::Walls,
            4 => Stage::Exec,
            _ => Stage::Supervise,
        }
    }

    /// A short noun for messages.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Facts => "facts",
            Stage::Namespaces => "namespaces",
            Stage::Mounts => "mounts",
            Stage::Walls => "walls",
            Stage::Exec => "exec",
            Stage::Supervise => "supervision",
        }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step failed: nothing was executed (or, in `Exec`, only the exec itself failed).
    #[error("{} failed at {step}: {cause}", stage.name())]
    Step {
        /// Where.
        stage: Stage,
        /// The step in words, such as `mount overlay on /home/u/p`.
        step: String,
        /// The kernel's answer.
        cause: String,
        /// Its number, 0 where there is none.
        errno: i32,
    },
    /// The inside ended before it said that it was ready.
    #[error("the lane ended while it was being built ({0})")]
    Vanished(String),
    /// A data file of ours does not parse: a defect.
    #[error("built-in data file {file}: {what}")]
    Data {
        /// Which.
        file: &'static str,
        /// Why.
        what: String,
    },
}

/// Attaches stage and step to a kernel error.
pub(crate) trait Step<T> {
    fn step(self, stage: Stage, step: impl Into<String>) -> Result<T>;

    /// The same, for a step whose words are put together only where they are needed.
    fn step_with(self, stage: Stage, step: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Step<T> for kernel::Result<T> {
    fn step(self, stage: Stage, step: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::Step {
            stage,
            step: step.into(),
            errno: error.errno.raw_os_error(),
            cause: error.to_string(),
        })
    }

    fn step_with(self, stage: Stage, step: impl FnOnce() -> String) -> Result<T> {
        match self {
            Ok(done) => Ok(done),
            failed => failed.step(stage, step()),
        }
    }
}
