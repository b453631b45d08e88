//! `recover`: takes a lane out of the trash.

use std::path::PathBuf;

use serde_json::json;
use workspace::home::LaneHome;

use crate::describe;
use crate::engine::{Engine, done};
use crate::error::{EngineError, Result};
use crate::find;
use crate::names;
use crate::view::LaneView;

/// Which lane to take out.
#[derive(Debug, Clone, Default)]
pub struct RecoverRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// The lane's name or id; `None` where only one is in the trash.
    pub lane: Option<String>,
    /// A new name for it.
    pub rename: Option<String>,
}

/// Takes a lane out of the trash. Where several of one name lie there, the newest is taken.
pub fn recover(engine: &Engine, request: &RecoverRequest) -> Result<LaneView> {
    let project = engine.project(&request.dir)?.top;
    let mut rows = find::discarded(engine, Some(&project))?;
    let mut row = match &request.lane {
        Some(asked) => {
            let have = rows.iter().map(|row| row.name.clone()).collect();
            let missing = EngineError::NotInTrash { name: asked.clone(), have };
            let anywhere = || -> Result<Option<ledger::Lane>> {
                Ok(find::discarded(engine, None)?.into_iter().find(|row| row.id == *asked))
            };
            match rows.iter().position(|row| row.name == *asked || row.id == *asked) {
                Some(at) => rows.swap_remove(at),
                None => anywhere()?.ok_or(missing)?,
            }
        }
        None if rows.len() == 1 => rows.remove(0),
        None if rows.is_empty() => return Err(EngineError::TrashEmpty { project }),
        None => return Err(EngineError::WhichLane { names: rows.into_iter().map(|row| row.name).collect() }),
    };
    if let Some(name) = &request.rename {
        names::check(name)?;
        row.name.clone_from(name);
    }
    let ledger = engine.ledger()?;
    if ledger.lane_by_name(&row.origin, &row.name)?.is_some() {
        return Err(EngineError::NameTaken { name: row.name });
    }
    LaneHome::restore(engine.state().path(), &row.id)?;
    let operation = done("recover", &row.id, json!({ "name": row.name }));
    let recorded = ledger.act(|act| -> ledger::Result<()> {
        act.recover_lane(&row.id, &row.name)?;
        act.insert_op(&operation)?;
        Ok(())
    });
    if let Err(error) = recorded {
        // Somebody took the name in between: back to where it can be found.
        LaneHome::open(engine.state().path(), &row.id)?.trash(engine.state().path())?;
        return Err(error.into());
    }
    let row = ledger.lane(&row.id)?.ok_or(EngineError::NoLane { project })?;
    describe::lane(engine, &row)
}
