//! [`Engine`]: the façade. Opening it is cheap: it finds the state directory and nothing else; the
//! ledger is opened by the first operation that needs it.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};

use ledger::{Ledger, NewOperation};
use serde_json::Value;
use workspace::Pool;
use workspace::pool::Users;

use crate::clock;
use crate::error::Result;
use crate::monitor::{Event, Monitor};
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
    users: OnceCell<Users>,
    repaired: RefCell<Vec<(String, String)>>,
}

impl Engine {
    /// Finds or makes the state directory.
    pub fn open(options: &EngineOptions) -> Result<Engine> {
        // A caller that ignores its children hands that on; then nobody could learn how one ended.
        kernel::signal::default(rustix::process::Signal::CHILD.as_raw());
        Ok(Engine {
            state: StateDir::open(options.state.as_deref())?,
            ledger: OnceCell::new(),
            users: OnceCell::new(),
            repaired: RefCell::default(),
        })
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

    /// How many lanes stand on each sealed layer, as it was when somebody first asked.
    pub(crate) fn layer_users(&self) -> Result<&Users> {
        if let Some(users) = self.users.get() {
            return Ok(users);
        }
        let users = self.layer_pool().users()?;
        Ok(self.users.get_or_init(|| users))
    }

    /// The sealed layers.
    pub(crate) fn layer_pool(&self) -> Pool {
        Pool::of(self.state.path())
    }

    /// Writes a fact down without opening the ledger: whoever opens it next finds it there.
    pub fn note(&self, slip: &ledger::Slip) -> Result<()> {
        if ledger::slips::append(&self.state.ledger(), slip)? > ledger::slips::MANY {
            drop(Ledger::open(&self.state.ledger())?);
        }
        Ok(())
    }

    /// What a crash had left and was put right on the way, as `(what, on what)`; each is told once.
    pub fn take_repaired(&self) -> Vec<(String, String)> {
        self.repaired.take()
    }

    /// The project that `dir` belongs to.
    pub fn project(&self, dir: &Path) -> Result<Project> {
        project::find(dir)
    }
}

/// Notes repairs that happen while something else is asked for; whoever holds the engine tells them.
pub(crate) struct Noting<'e>(pub(crate) &'e Engine);

impl Monitor for Noting<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Repaired(what, on) = event {
            self.0.repaired.borrow_mut().push((what.to_owned(), on.to_owned()));
        }
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
