//! `stop`: ends every process of a lane.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ledger::LaneState;
use sandbox::control;

use crate::describe;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::find;
use crate::lane;
use crate::monitor::Silent;
use crate::recover;
use crate::view::LaneView;

/// Which lane to stop.
#[derive(Debug, Clone, Default)]
pub struct StopRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one is live.
    pub lane: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct StopAnswer {
    /// The lane, as it is now.
    pub lane: LaneView,
    /// False where nothing ran.
    pub was_live: bool,
}

/// How long a lane may take to end after it was asked to: two seconds of grace and some.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the processes of a lane and waits until they are gone.
pub fn stop(engine: &Engine, request: &StopRequest) -> Result<StopAnswer> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |row| row.state == LaneState::Live)?;
    let lane = lane::open(engine, row)?;
    let was_live = lane.home.try_lock()?.is_none();
    if was_live {
        let asked = control::stop(lane.home.dir().fd.as_fd(), PATIENCE).map_err(EngineError::Sandbox)?;
        // The connection closes when the supervisor ends; pid 1 holds the lock until its mounts are gone. Where
        // nobody was there to be asked, it may just be ending.
        let deadline = Instant::now() + if asked { PATIENCE } else { Duration::ZERO };
        loop {
            match lane::hold(&lane.home, &lane.row.name) {
                Ok(_lock) => break,
                // It went with its run.
                Err(EngineError::Workspace(error)) if error.is_not_found() => break,
                Err(busy) if Instant::now() >= deadline => return Err(busy),
                Err(_) => {}
            }
        }
    }
    let mut rows = vec![lane.row.clone()];
    recover::settle_all(engine, &mut rows, &mut Silent)?;
    // One that goes with its run may be gone by now.
    let row = rows.pop().unwrap_or(lane.row);
    let row = engine.ledger()?.lane(&row.id)?.unwrap_or(row);
    Ok(StopAnswer { lane: describe::lane(engine, &row)?, was_live })
}
