//! `discard`: drops lanes, into the trash or for good.
//!
//! Into the trash is one rename and one row, and nothing is copied for it: the lane lies there as it was, with its layers and
//! its history, until the retention time, and is its own last snapshot. The rename comes first, so that a crash between the
//! two leaves a lane that `recover` (the module) can tell. For good, the history goes too. What exists nowhere else is looked
//! for before, where somebody is to be told.

use std::path::PathBuf;

use serde_json::json;
use workspace::home::LaneHome;

use crate::clock;
use crate::describe;
use crate::engine::{Engine, Noting, done};
use crate::error::{EngineError, Result};
use crate::find;
use crate::lane;
use crate::only_here::OnlyHere;
use crate::ops::stop::{self, StopRequest};
use crate::recover;
use crate::stores;
use crate::view::LaneView;

/// Which lane to drop.
#[derive(Debug, Clone, Default)]
pub struct DiscardRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane; `None` where only one fits.
    pub lane: Option<String>,
    /// Delete at once instead of keeping it in the trash.
    pub now: bool,
    /// End its processes first where it is live.
    pub stop: bool,
    /// Find out what exists nowhere else.
    pub tell: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscardAnswer {
    /// The lane.
    pub lane: LaneView,
    /// What exists nowhere else, where that was asked for and could be found out.
    pub only_here: Option<OnlyHere>,
    /// What could not be deleted, each with the reason (`now` only).
    pub left: Vec<(PathBuf, String)>,
}

/// What would be lost with a lane for good.
pub fn would_lose(engine: &Engine, request: &DiscardRequest) -> Result<OnlyHere> {
    let row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    OnlyHere::of(engine, &lane::open(engine, row)?, true)
}

/// Drops a lane.
pub fn discard(engine: &Engine, request: &DiscardRequest) -> Result<DiscardAnswer> {
    let mut row = find::lane(engine, &request.dir, request.lane.as_deref(), |_| true)?;
    if row.state == ledger::LaneState::Live {
        let pid = engine.ledger()?.last_run(&row.id)?.and_then(|run| run.start.pid);
        if !request.stop {
            return Err(EngineError::Live {
                name: row.name,
                pid: pid.and_then(|pid| i32::try_from(pid).ok()),
            });
        }
        stop::stop(engine, &StopRequest { dir: request.dir.clone(), lane: Some(row.id.clone()) })?;
    }
    // What is damaged is dropped all the same.
    let told = request
        .tell
        .then(|| lane::open(engine, row.clone()).and_then(|lane| OnlyHere::of(engine, &lane, request.now)));
    let only_here = told.and_then(Result::ok);
    let mut left = Vec::new();
    match LaneHome::open(engine.state().path(), &row.id) {
        Ok(home) => {
            if request.now {
                crate::watch::await_last(&home);
            }
            // Into the trash it goes with whoever is still recording what it was: nothing is lost by that.
            let _lock = lane::hold(&home, &row.name)?;
            if request.now {
                let path = home.path().to_owned();
                if let Err(error) = stores::remove_lane(engine.state().path(), home) {
                    left.push((path, error.with_causes()));
                }
            } else {
                home.trash(engine.state().path())?;
            }
        }
        // Its directory is gone already; what is left is the row.
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    if left.is_empty() {
        let operation = done("discard", &row.id, json!({ "name": row.name, "now": request.now }));
        engine.ledger()?.act(|act| -> ledger::Result<()> {
            act.discard_lane(&row.id, operation.at)?;
            act.insert_op(&operation)?;
            Ok(())
        })?;
        row.state = ledger::LaneState::Discarded;
        row.discarded_at = Some(clock::now_ms());
    }
    recover::empty_trash(engine, &mut Noting(engine))?;
    Ok(DiscardAnswer { lane: describe::lane(engine, &row)?, only_here, left })
}
