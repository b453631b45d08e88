//! The picker: a pure function from facts to a [`Choice`]. It reads nothing and mounts nothing; what
//! this machine can do arrives as [`Abilities`], which were found by trying.
//!
//! Invariant: every strategy that was passed over stands in `rejected` with its [`Reason`], and a
//! strategy that was asked for by name is given or refused, never silently replaced.

use std::fmt;
use std::path::PathBuf;

use crate::origin::OriginFacts;

/// How a lane's view is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// A kernel overlay over the origin: made in O(1), writes go to a layer of the lane.
    Overlay,
    /// A copy of the origin (by reflink where the filesystem can).
    Copy,
}

impl Strategy {
    /// The word for it, as users type it.
    pub fn word(self) -> &'static str {
        match self {
            Strategy::Overlay => "overlay",
            Strategy::Copy => "copy",
        }
    }

    /// The strategy that a word names.
    pub fn from_word(word: &str) -> Option<Strategy> {
        [Strategy::Overlay, Strategy::Copy].into_iter().find(|strategy| strategy.word() == word)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What was found by trying, on the filesystem where the layers would stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// The caller is uid 0 in the initial user namespace and needs no namespace to mount.
    pub is_root: bool,
    /// Mounting an overlay in a user namespace of our own, with the upper on that filesystem.
    pub overlay_user: Result<(), String>,
    /// Mounting an overlay as root, with the upper on that filesystem.
    pub overlay_root: Result<(), String>,
    /// Files can be cloned from the origin to where the lane's files would stand.
    pub reflink: bool,
}

/// Why a strategy cannot serve, or was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Something is mounted below the project: an overlay would not show it.
    Submounts(Vec<PathBuf>),
    /// Files belong to owners that a user namespace of one id does not know: they could not be written.
    ForeignOwners {
        /// Some of them.
        examples: Vec<PathBuf>,
        /// Their owners, as (uid, gid).
        owners: Vec<(u32, u32)>,
    },
    /// Names on this filesystem are compared without regard to case, which overlayfs refuses.
    Casefold {
        /// Its type.
        fs_type: String,
    },
    /// Times on this filesystem are set by another machine or program, so that drift could not be told.
    RemoteTimes {
        /// Its type.
        fs_type: String,
    },
    /// A mount was tried and the kernel refused.
    MountRefused {
        /// Type of the origin's filesystem.
        fs_type: String,
        /// The kernel's answer.
        answer: String,
    },
    /// A cheaper strategy comes first in the order.
    LaterInOrder,
    /// Another one was asked for by name.
    NotAskedFor,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Submounts(points) => {
                f.write_str("mounted below the project: ")?;
                write_some(f, points)
            }
            Reason::ForeignOwners { examples, owners } => {
                f.write_str("files of other owners (")?;
                for (index, (uid, gid)) in owners.iter().take(3).enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{uid}:{gid}")?;
                }
                f.write_str("): ")?;
                write_some(f, examples)
            }
            Reason::Casefold { fs_type } => write!(f, "names on this {fs_type} ignore case"),
            Reason::RemoteTimes { fs_type } => write!(f, "times on {fs_type} are not set by this kernel"),
            Reason::MountRefused { fs_type, answer } => {
                write!(f, "overlay over {fs_type} was refused: {answer}")
            }
            Reason::LaterInOrder => f.write_str("a cheaper strategy comes first"),
            Reason::NotAskedFor => f.write_str("another strategy was asked for"),
        }
    }
}

fn write_some(f: &mut fmt::Formatter<'_>, paths: &[PathBuf]) -> fmt::Result {
    use std::os::unix::ffi::OsStrExt as _;
    for (index, path) in paths.iter().take(3).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{}", path.as_os_str().as_bytes().escape_ascii())?;
    }
    if paths.len() > 3 { write!(f, " and {} more", paths.len() - 3) } else { Ok(()) }
}

/// What would make a refused strategy possible. The words for people are another floor's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Take this strategy.
    Use(Strategy),
    /// Unmount these first (then the strategy works).
    Unmount(Vec<PathBuf>),
    /// Give these files to the caller.
    TakeOver(Vec<PathBuf>),
}

/// A strategy was asked for by name and cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which.
    pub strategy: Strategy,
    /// Every reason against it, the decisive one first.
    pub reasons: Vec<Reason>,
    /// What can be done, best first; never empty.
    pub remedies: Vec<Remedy>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strategy {} cannot serve this origin", self.strategy)?;
        for (index, reason) in self.reasons.iter().enumerate() {
            write!(f, "{} {reason}", if index == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// The answer of the picker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The strategy to take.
    pub strategy: Strategy,
    /// Why, as a fragment.
    pub why: String,
    /// The others, each with its reason.
    pub rejected: Vec<(Strategy, Reason)>,
}

/// Picks the strategy: the one wished for, or else the first of overlay, copy that can serve.
pub fn choose(facts: &OriginFacts, can: &Abilities, wish: Option<Strategy>) -> Result<Choice, Refusal> {
    let against = against_overlay(facts, can);
    match wish {
        Some(Strategy::Copy) => Ok(Choice {
            strategy: Strategy::Copy,
            why: "asked for".to_owned(),
            rejected: vec![(Strategy::Overlay, against.into_iter().next().unwrap_or(Reason::NotAskedFor))],
        }),
        Some(Strategy::Overlay) => {
            // Remote times only make drift uncertain; whoever names the strategy accepts that.
            let hard: Vec<Reason> =
                against.into_iter().filter(|reason| !matches!(reason, Reason::RemoteTimes { .. })).collect();
            if hard.is_empty() {
                let rejected = vec![(Strategy::Copy, Reason::NotAskedFor)];
                return Ok(Choice { strategy: Strategy::Overlay, why: "asked for".to_owned(), rejected });
            }
            Err(Refusal { strategy: Strategy::Overlay, remedies: remedies(&hard), reasons: hard })
        }
        None => Ok(match against.into_iter().next() {
            None => Choice {
                strategy: Strategy::Overlay,
                why: format!("works on this {}", facts.fs_type),
                rejected: vec![(Strategy::Copy, Reason::LaterInOrder)],
            },
            Some(reason) => Choice {
                strategy: Strategy::Copy,
                why: format!("no overlay: {reason}{}", if can.reflink { "; files are cloned" } else { "" }),
                rejected: vec![(Strategy::Overlay, reason)],
            },
        }),
    }
}

fn against_overlay(facts: &OriginFacts, can: &Abilities) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let fs_type = || facts.fs_type.clone();
    if !facts.submounts.is_empty() {
        reasons.push(Reason::Submounts(facts.submounts.clone()));
    }
    // Root mounts in the initial namespaces, where every owner is known.
    if !can.is_root && facts.foreign.found() {
        reasons.push(Reason::ForeignOwners {
            examples: facts.foreign.examples.clone(),
            owners: facts.foreign.owners.clone(),
        });
    }
    if facts.casefold {
        reasons.push(Reason::Casefold { fs_type: fs_type() });
    }
    if has_remote_times(&facts.fs_type) {
        reasons.push(Reason::RemoteTimes { fs_type: fs_type() });
    }
    let tried = if can.is_root { &can.overlay_root } else { &can.overlay_user };
    if let Err(answer) = tried {
        reasons.push(Reason::MountRefused { fs_type: fs_type(), answer: answer.clone() });
    }
    reasons
}

fn has_remote_times(fs_type: &str) -> bool {
    matches!(
        fs_type,
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "afs" | "lustre" | "virtiofs" | "vboxsf"
    ) || fs_type == "fuse"
        || fs_type.starts_with("fuse.")
}

fn remedies(reasons: &[Reason]) -> Vec<Remedy> {
    let mut out = vec![Remedy::Use(Strategy::Copy)];
    for reason in reasons {
        match reason {
            Reason::Submounts(points) => out.push(Remedy::Unmount(points.clone())),
            Reason::ForeignOwners { examples, .. } => out.push(Remedy::TakeOver(examples.clone())),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
