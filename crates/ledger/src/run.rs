//! Table `runs`: one row for each command that was started in a lane.

use rusqlite::{OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::What;
use crate::db::{Act, Ledger};
use crate::error::Result;
use crate::value;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The command's exit code.
    Code(i32),
    /// The signal that ended it.
    Signal(i32),
    /// Nobody saw the end: the supervisor was killed or the machine went down.
    Lost,
}

/// A run that is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    /// Id of its lane.
    pub lane: String,
    /// The command and its arguments, as bytes.
    #[serde(with = "value::hex_list")]
    pub argv: Vec<Vec<u8>>,
    /// Working directory inside.
    #[serde(with = "value::hex")]
    pub cwd: Vec<u8>,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// The lane's first process, as the host numbers it.
    pub pid: Option<u32>,
    /// Start time of that process (field 22 of /proc/PID/stat), which tells a reused number apart.
    pub pid_start: Option<u64>,
    /// What was enforced, as the sandbox reports it.
    pub walls: Value,
    /// Path of the recording of what it printed.
    #[serde(with = "value::hex_or_null")]
    pub transcript: Option<Vec<u8>>,
    /// True where it was left running.
    pub detached: bool,
}

/// A run as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its number, given by the ledger.
    pub id: i64,
    /// What was started.
    pub start: NewRun,
    /// When it ended; `None` while it runs, or where its end was not recorded.
    pub ended_at: Option<i64>,
    /// How it ended.
    pub exit: Option<Exit>,
}

impl Ledger {
    /// One run.
    pub fn run(&self, id: i64) -> Result<Option<Run>> {
        self.one_run("SELECT * FROM runs WHERE id = ?1", params![id])
    }

    /// The newest run of a lane.
    pub fn last_run(&self, lane: &str) -> Result<Option<Run>> {
        self.one_run("SELECT * FROM runs WHERE lane = ?1 ORDER BY id DESC LIMIT 1", params![lane])
    }

    /// The runs of a lane, oldest first.
    pub fn runs(&self, lane: &str) -> Result<Vec<Run>> {
        self.many_runs("SELECT * FROM runs WHERE lane = ?1 ORDER BY id", params![lane])
    }

    /// The runs of all lanes whose end was not recorded, oldest first.
    pub fn open_runs(&self) -> Result<Vec<Run>> {
        self.many_runs("SELECT * FROM runs WHERE ended_at IS NULL ORDER BY id", params![])
    }

    /// [`Act::insert_run`] as an act of its own.
    pub fn insert_run(&self, run: &NewRun) -> Result<i64> {
        self.act(|act| act.insert_run(run))
    }

    /// [`Act::end_run`] as an act of its own.
    pub fn end_run(&self, id: i64, ended_at: i64, exit: Exit) -> Result<()> {
        self.act(|act| act.end_run(id, ended_at, exit))
    }

    fn one_run(&self, sql: &str, values: impl rusqlite::Params) -> Result<Option<Run>> {
        let found = self.db().query_row(sql, values, read).optional();
        found.map_err(|error| self.wrong("read a run", &error))
    }

    fn many_runs(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Run>> {
        let rows =
            || -> rusqlite::Result<Vec<Run>> { self.db().prepare(sql)?.query_map(values, read)?.collect() };
        rows().map_err(|error| self.wrong("list runs", &error))
    }
}

impl Act<'_> {
    /// Records that nobody saw the end of the runs of a lane that have none. For who knows that nothing runs in it.
    pub fn lose_open_runs(&self, lane: &str, ended_at: i64) -> Result<()> {
        let sql = "UPDATE runs SET ended_at = ?2, exit_kind = 'lost', exit_value = NULL
                   WHERE lane = ?1 AND ended_at IS NULL";
        let open = || -> rusqlite::Result<Vec<i64>> {
            let mut query = self.db().prepare("SELECT id FROM runs WHERE lane = ?1 AND ended_at IS NULL")?;
            query.query_map([lane], |row| row.get(0))?.collect()
        };
        let lost = open().and_then(|open| {
            self.db().execute(sql, params![lane, ended_at])?;
            Ok(open)
        });
        for run in lost.map_err(|error| self.wrong("record lost runs", &error))? {
            self.link_run(run)?;
        }
        Ok(())
    }

    /// A run says something else now.
    fn link_run(&self, id: i64) -> Result<()> {
        let lane: String = self
            .db()
            .query_row("SELECT lane FROM runs WHERE id = ?1", [id], |row| row.get(0))
            .map_err(|error| self.wrong("link a run", &error))?;
        self.link(What::Run, Some(&lane), id, id)
    }

    /// Records a run that starts, and gives its number.
    pub fn insert_run(&self, run: &NewRun) -> Result<i64> {
        self.db()
            .execute(
                "INSERT INTO runs (lane, argv, cwd, started_at, pid, pid_start, walls, transcript, detached)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    run.lane,
                    value::pack_argv(&run.argv),
                    run.cwd,
                    run.started_at,
                    run.pid,
                    run.pid_start.map(value::count),
                    run.walls.to_string(),
                    run.transcript,
                    run.detached,
                ],
            )
            .map_err(|error| self.wrong("record a run", &error))?;
        let id = self.db().last_insert_rowid();
        self.link(What::Run, Some(&run.lane), id, id)?;
        Ok(id)
    }

    /// Records what is known only once the command has started.
    pub fn set_started(&self, id: i64, pid: u32, pid_start: u64, walls: &Value) -> Result<()> {
        let sql = "UPDATE runs SET pid = ?2, pid_start = ?3, walls = ?4 WHERE id = ?1";
        let values = params![id, pid, value::count(pid_start), walls.to_string()];
        let rows = self.db().execute(sql, values).map_err(|error| self.wrong("record a start", &error))?;
        self.met_one(rows, "run", id)?;
        self.link_run(id)
    }

    /// Records how a run ended.
    pub fn end_run(&self, id: i64, ended_at: i64, exit: Exit) -> Result<()> {
        let (kind, number) = exit_columns(exit);
        let sql = "UPDATE runs SET ended_at = ?2, exit_kind = ?3, exit_value = ?4 WHERE id = ?1";
        let values = params![id, ended_at, kind, number];
        let rows = self.db().execute(sql, values).map_err(|error| self.wrong("record an end", &error))?;
        self.met_one(rows, "run", id)?;
        self.link_run(id)
    }
}

/// An end as it stands in `exit_kind` and `exit_value`.
pub(crate) fn exit_columns(exit: Exit) -> (&'static str, Option<i32>) {
    match exit {
        Exit::Code(code) => ("code", Some(code)),
        Exit::Signal(signal) => ("signal", Some(signal)),
        Exit::Lost => ("lost", None),
    }
}

/// The reverse of [`exit_columns`]; `None` where no end is recorded.
pub(crate) fn read_exit(row: &Row<'_>) -> rusqlite::Result<Option<Exit>> {
    let number: Option<i32> = row.get("exit_value")?;
    let Some(_) = row.get::<_, Option<String>>("exit_kind")? else { return Ok(None) };
    let exit = value::word(row, "exit_kind", |word| match (word, number) {
        ("code", Some(code)) => Some(Exit::Code(code)),
        ("signal", Some(signal)) => Some(Exit::Signal(signal)),
        ("lost", None) => Some(Exit::Lost),
        _ => None,
    })?;
    Ok(Some(exit))
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    let start = NewRun {
        lane: row.get("lane")?,
        argv: value::unpack_argv(&row.get::<_, Vec<u8>>("argv")?),
        cwd: row.get("cwd")?,
        started_at: row.get("started_at")?,
        pid: row.get("pid")?,
        pid_start: match row.get::<_, Option<i64>>("pid_start")? {
            Some(_) => Some(value::read_count(row, "pid_start")?),
            None => None,
        },
        walls: value::json(row, "walls")?,
        transcript: row.get("transcript")?,
        detached: row.get("detached")?,
    };
    Ok(Run { id: row.get("id")?, start, ended_at: row.get("ended_at")?, exit: read_exit(row)? })
}
