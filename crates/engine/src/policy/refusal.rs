//! [`Refusal`]: a rule that a keep breaks, with where it stands and what it meets.

use std::fmt;
use std::path::PathBuf;

use tree::TreePath;

/// Paths that are named; the rest is counted.
const NAMED: usize = 3;

/// Why the policy does not allow a keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The lane.
    pub lane: String,
    /// The file that holds the rule.
    pub file: PathBuf,
    /// In which line.
    pub line: usize,
    /// The rule.
    pub broken: Broken,
}

/// The rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// Paths that no pattern of `keep.only` means.
    Only {
        /// The patterns.
        patterns: String,
        /// The paths.
        paths: Vec<TreePath>,
    },
    /// Paths that a pattern of `keep.deny` means.
    Deny {
        /// The patterns.
        patterns: String,
        /// The paths.
        paths: Vec<TreePath>,
    },
    /// More than `keep.max_files`.
    Files {
        /// What there is.
        has: u64,
        /// What may be.
        most: u64,
    },
    /// More than `keep.max_bytes`.
    Bytes {
        /// What there is.
        has: u64,
        /// What may be.
        most: u64,
    },
    /// `keep.verify` has not passed on what is to be kept.
    Check {
        /// The command, as it is written.
        command: String,
        /// What it said.
        said: Said,
    },
}

/// What a check said that does not let a keep pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It failed.
    Fail,
    /// Its time limit ended it.
    Timeout,
    /// It passed, on something else than what is to be kept.
    Stale,
    /// It has not run on what is to be kept, and cannot be started from a program with several threads.
    NotRun,
}

impl Broken {
    /// The rule's name.
    pub fn rule(&self) -> &'static str {
        match self {
            Broken::Only { .. } => "keep.only",
            Broken::Deny { .. } => "keep.deny",
            Broken::Files { .. } => "keep.max_files",
            Broken::Bytes { .. } => "keep.max_bytes",
            Broken::Check { .. } => "keep.verify",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.broken.rule();
        write!(f, "{rule} of {} (line {}) does not allow ", self.file.display(), self.line)?;
        match &self.broken {
            Broken::Only { patterns, paths } => write!(f, "{}: only {patterns} may be kept", first(paths)),
            Broken::Deny { patterns, paths } => {
                write!(f, "{}: nothing of {patterns} may be kept", first(paths))
            }
            Broken::Files { has, most } => {
                write!(f, "this keep: it has {has} files, and {most} at most may be kept at once")
            }
            Broken::Bytes { has, most } => {
                write!(f, "this keep: it has {has} bytes, and {most} at most may be kept at once")
            }
            Broken::Check { command, said } => {
                let said = match said {
                    Said::Fail => "failed",
                    Said::Timeout => "was ended by its time limit",
                    Said::NotRun => "has not passed on what the lane is now",
                    Said::Stale => "passed, but lane or original were written meanwhile",
                };
                write!(f, "this keep: `{command}` {said}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// The first of some paths, with how many more there are.
fn first(paths: &[TreePath]) -> String {
    let shown = |path: &TreePath| path.as_bytes().escape_ascii().to_string();
    let named = paths.iter().take(NAMED).map(shown).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
