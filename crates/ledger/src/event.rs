//! Table `events`: what happened inside a run, in order. Kinds are words of the crate that reports them.

use rusqlite::{Row, params};
use serde_json::Value;

use crate::db::{Act, Ledger};
use crate::error::Result;
use crate::value;

/// An event to record.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The run it belongs to.
    pub run: i64,
    /// Milliseconds since 1970.
    pub at: i64,
    /// What happened, in one word.
    pub kind: String,
    /// The details.
    pub data: Value,
}

/// A recorded event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number, given by the ledger; rises with time.
    pub id: i64,
    /// What happened.
    pub what: NewEvent,
}

impl Ledger {
    /// The events of a run, in order.
    pub fn events(&self, run: i64) -> Result<Vec<Event>> {
        let rows = || -> rusqlite::Result<Vec<Event>> {
            let mut query = self.db().prepare("SELECT * FROM events WHERE run = ?1 ORDER BY id")?;
            query.query_map([run], read)?.collect()
        };
        rows().map_err(|error| self.wrong("list events", &error))
    }
}

impl Act<'_> {
    /// Records an event and gives its number.
    pub fn insert_event(&self, event: &NewEvent) -> Result<i64> {
        let sql = "INSERT INTO events (run, at, kind, data) VALUES (?1, ?2, ?3, ?4)";
        let values = params![event.run, event.at, event.kind, event.data.to_string()];
        self.db().execute(sql, values).map_err(|error| self.wrong("record an event", &error))?;
        Ok(self.db().last_insert_rowid())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Event> {
    let what = NewEvent {
        run: row.get("run")?,
        at: row.get("at")?,
        kind: row.get("kind")?,
        data: value::json(row, "data")?,
    };
    Ok(Event { id: row.get("id")?, what })
}
