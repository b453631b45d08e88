//! The state directory: where it is, that it is the caller's own, and what lies where in it.
//!
//! Invariant: mode 0700 and owned by the caller; a directory of somebody else's is refused, because
//! whoever can write it can put work of theirs into somebody's project.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind as IoKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::error::{EngineError, Result};

/// The state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Finds it (`given`, else `LANE_STATE`, else `$XDG_STATE_HOME/lanekeeper`, else
    /// `~/.local/state/lanekeeper`) and makes it where it is missing.
    pub fn open(given: Option<&Path>) -> Result<StateDir> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => from_environment()?,
        };
        let path = absolute(path)?;
        let bad = |why: String| EngineError::StateDir { path: path.clone(), why };
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == IoKind::NotFound => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&path)
                    .map_err(|e| bad(e.to_string()))?;
                fs::metadata(&path).map_err(|e| bad(e.to_string()))?
            }
            Err(error) => return Err(bad(error.to_string())),
        };
        if !meta.is_dir() {
            return Err(bad("it is not a directory".to_owned()));
        }
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() != me {
            return Err(bad(format!("it belongs to user {}, not to you ({me})", meta.uid())));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(bad(format!("others can write it (mode {:04o})", meta.mode() & 0o7777)));
        }
        // Links are resolved once: mounts and hidden paths compare by name.
        let path = fs::canonicalize(&path).map_err(|e| bad(e.to_string()))?;
        Ok(StateDir { path })
    }

    /// The directory itself: absolute, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The ledger's file.
    pub fn ledger(&self) -> PathBuf {
        self.path.join("lane.db")
    }

    /// The directory that holds one directory a lane.
    pub fn lanes(&self) -> PathBuf {
        self.path.join("lanes")
    }

    /// Where discarded lanes wait.
    pub fn trash(&self) -> PathBuf {
        self.path.join("trash")
    }
}

fn from_environment() -> Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("LANE_STATE") {
        return Ok(path);
    }
    // The XDG rule: a relative path there is ignored.
    if let Some(base) = set("XDG_STATE_HOME").filter(|base| base.is_absolute()) {
        return Ok(base.join("lanekeeper"));
    }
    set("HOME").map(|home| home.join(".local/state/lanekeeper")).ok_or(EngineError::NoStateDir)
}

fn absolute(path: PathBuf) -> Result<PathBuf> {
    std::path::absolute(&path).map_err(|error| EngineError::StateDir { path, why: error.to_string() })
}
