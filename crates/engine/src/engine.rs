//! [`Engine`]: the façade. Opening it is cheap: it finds the state directory and nothing else; the
//! ledger is opened by the first operation that needs it.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use ledger::{Ledger, NewOperation};
use serde_json::Value;

use crate::clock;
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
    ledger: OnceCell<Ledger>,
}

impl Engine {
    /// Finds or makes the state directory.
    pub fn open(options: &EngineOptions) -> Result<Engine> {
        Ok(Engine { state: StateDir::open(options.state.as_deref())?, ledger: OnceCell::new() })
    }

    /// The state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// The ledger, opened on first use.
    pub fn ledger(&self) -> Result<&Ledger> {
        if let Some(ledger) = self.ledger.get() {
            return Ok(ledger);
        }
        let opened = Ledger::open(&self.state.ledger())?;
        Ok(self.ledger.get_or_init(|| opened))
    }

    /// The project that `dir` belongs to.
    pub fn project(&self, dir: &Path) -> Result<Project> {
        project::find(dir)
    }
}

/// An operation that is done, for the ledger.
pub(crate) fn done(verb: &str, lane: &str, plan: Value) -> NewOperation {
    NewOperation {
        at: clock::now_ms(),
        verb: verb.to_owned(),
        lane: Some(lane.to_owned()),
        plan,
        outcome: "done".to_owned(),
        undo: None,
    }
}
