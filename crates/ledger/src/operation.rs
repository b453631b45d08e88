//! Table `operations`: every act that changed something, with its plan, its outcome and the way back.
//!
//! The column `chain` is kept for a hash over the row and its forerunner; nothing writes it yet.

use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::What;
use crate::db::{Act, Ledger};
use crate::error::Result;
use crate::value;

/// An act to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewOperation {
    /// Milliseconds since 1970.
    pub at: i64,
    /// `new`, `run`, `keep`, `export`, `discard`, …
    pub verb: String,
    /// Id of the lane it was about.
    pub lane: Option<String>,
    /// The plan that was carried out.
    pub plan: Value,
    /// `done`, or what stopped it.
    pub outcome: String,
    /// What is needed to take it back.
    pub undo: Option<Value>,
}

/// A recorded act.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Its number, given by the ledger; rises with time.
    pub id: i64,
    /// What was done.
    pub act: NewOperation,
}

impl Ledger {
    /// The newest `limit` operations (of one lane, or of all), newest first.
    pub fn ops(&self, lane: Option<&str>, limit: u32) -> Result<Vec<Operation>> {
        let rows = || -> rusqlite::Result<Vec<Operation>> {
            let mut query = self.db().prepare(
                "SELECT * FROM operations WHERE ?1 IS NULL OR lane = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            query.query_map(params![lane, limit], read)?.collect()
        };
        rows().map_err(|error| self.wrong("list operations", &error))
    }

    /// [`Act::insert_op`] as an act of its own.
    pub fn insert_op(&self, operation: &NewOperation) -> Result<i64> {
        self.act(|act| act.insert_op(operation))
    }
}

impl Act<'_> {
    /// Records an operation and gives its number.
    pub fn insert_op(&self, operation: &NewOperation) -> Result<i64> {
        self.db()
            .execute(
                "INSERT INTO operations (at, verb, lane, plan, outcome, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    operation.at,
                    operation.verb,
                    operation.lane,
                    operation.plan.to_string(),
                    operation.outcome,
                    operation.undo.as_ref().map(Value::to_string),
                ],
            )
            .map_err(|error| self.wrong("record an operation", &error))?;
        let id = self.db().last_insert_rowid();
        self.link(What::Operation, operation.lane.as_deref(), id, id)?;
        Ok(id)
    }

    /// Records how an operation that was begun came out.
    pub fn finish_op(&self, id: i64, outcome: &str, undo: Option<&Value>) -> Result<()> {
        let sql = "UPDATE operations SET outcome = ?2, undo = ?3 WHERE id = ?1";
        let values = params![id, outcome, undo.map(Value::to_string)];
        let rows =
            self.db().execute(sql, values).map_err(|error| self.wrong("finish an operation", &error))?;
        self.met_one(rows, "operation", id)?;
        let lane: Option<String> = self
            .db()
            .query_row("SELECT lane FROM operations WHERE id = ?1", [id], |row| row.get(0))
            .map_err(|error| self.wrong("finish an operation", &error))?;
        self.link(What::Operation, lane.as_deref(), id, id)
    }
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Operation> {
    let act = NewOperation {
        at: row.get("at")?,
        verb: row.get("verb")?,
        lane: row.get("lane")?,
        plan: value::json(row, "plan")?,
        outcome: row.get("outcome")?,
        undo: value::json_or_null(row, "undo")?,
    };
    Ok(Operation { id: row.get("id")?, act })
}
