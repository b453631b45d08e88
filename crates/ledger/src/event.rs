//! Table `events`: what happened inside a run, in order. Kinds are words of the crate that reports them.
//!
//! Path and host of an event stand in columns of their own, so that a question about them needs no look at a million others. A
//! host stands there with its labels turned round (`com.example.api`), so that a domain with all that is below it is one range.

use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::What;
use crate::db::{Act, Ledger};
use crate::error::Result;
use crate::value;

/// Something that happened, before it is known by which run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    /// Milliseconds since 1970.
    pub at: i64,
    /// What happened, in one word.
    pub kind: String,
    /// The path that it is about, as bytes.
    #[serde(default, with = "value::hex_or_null", skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<u8>>,
    /// The host that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The details.
    pub data: Value,
}

/// An event to record.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The run it belongs to.
    pub run: i64,
    /// What happened.
    pub what: Happened,
}

/// A recorded event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number, given by the ledger; rises in the order of recording.
    pub id: i64,
    /// The run it belongs to.
    pub run: i64,
    /// Id of the lane.
    pub lane: String,
    /// What happened.
    pub what: Happened,
}

impl Ledger {
    /// The events of a run, in the order of recording.
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
        self.insert_events(event.run, std::slice::from_ref(&event.what))?;
        Ok(self.db().last_insert_rowid())
    }

    /// Records what happened in a run, as one link of the chain.
    pub fn insert_events(&self, run: i64, events: &[Happened]) -> Result<()> {
        let lane = || self.db().query_row("SELECT lane FROM runs WHERE id = ?1", [run], |row| row.get(0));
        let lane: String = lane().map_err(|error| self.wrong("record an event", &error))?;
        let all = || -> rusqlite::Result<Option<(i64, i64)>> {
            let mut query = self.db().prepare_cached(
                "INSERT INTO events (run, lane, at, kind, path, host, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let mut range = None;
            for event in events {
                let host = event.host.as_deref().map(turned);
                let data = event.data.to_string();
                query.execute(params![run, lane, event.at, event.kind, event.path, host, data])?;
                let id = self.db().last_insert_rowid();
                range = Some((range.map_or(id, |(first, _)| first), id));
            }
            Ok(range)
        };
        match all().map_err(|error| self.wrong("record an event", &error))? {
            Some((first, last)) => self.link(What::Events, Some(&lane), first, last),
            None => Ok(()),
        }
    }
}

/// A host name with its labels turned round; an address stays as it is. Its own reverse.
pub(crate) fn turned(host: &str) -> String {
    if host.parse::<std::net::IpAddr>().is_ok() {
        return host.to_owned();
    }
    let labels: Vec<&str> = host.rsplit('.').collect();
    labels.join(".").to_ascii_lowercase()
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Event> {
    let what = Happened {
        at: row.get("at")?,
        kind: row.get("kind")?,
        path: row.get("path")?,
        host: row.get::<_, Option<String>>("host")?.as_deref().map(turned),
        data: value::json(row, "data")?,
    };
    Ok(Event { id: row.get("id")?, run: row.get("run")?, lane: row.get("lane")?, what })
}
