//! [`Engine`]: the façade. Opening it is cheap: it finds the state directory and nothing else; the
//! ledger is opened by the first operation that needs it.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::project::{self, Project};
use crate::state_dir::StateDir;

/// Where the engine works.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// The state directory; found from the environment where not given.
    pub state: Option<PathBuf>,
}

/// The product without a face.
#[derive(Debug)]
pub struct Engine {
    state: StateDir,
}

impl Engine {
    /// Finds or makes the state directory.
    pub fn open(options: &EngineOptions) -> Result<Engine> {
        Ok(Engine { state: StateDir::open(options.state.as_deref())? })
    }

    /// The state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// The project that `dir` belongs to.
    pub fn project(&self, dir: &Path) -> Result<Project> {
        project::find(dir)
    }
}
