//! Table `lanes`: one row for each lane that was ever made. A discarded lane keeps its row.

use std::str::FromStr;

use rusqlite::{OptionalExtension as _, Row, named_params, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chain::What;
use crate::db::{Act, Ledger};
use crate::error::{Error, Result, is_unique_violation};
use crate::value;

/// Where a lane is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneState {
    /// Made; nothing has run in it yet.
    New,
    /// Nothing runs in it now.
    Idle,
    /// Its mounts and its first process are up.
    Live,
    /// Dropped; kept in the trash until the retention time.
    Discarded,
}

impl LaneState {
    /// The word in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            LaneState::New => "new",
            LaneState::Idle => "idle",
            LaneState::Live => "live",
            LaneState::Discarded => "discarded",
        }
    }
}

impl FromStr for LaneState {
    type Err = ();

    fn from_str(word: &str) -> std::result::Result<LaneState, ()> {
        match word {
            "new" => Ok(LaneState::New),
            "idle" => Ok(LaneState::Idle),
            "live" => Ok(LaneState::Live),
            "discarded" => Ok(LaneState::Discarded),
            _ => Err(()),
        }
    }
}

/// One lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Its id, chosen by the caller; also the name of its directory.
    pub id: String,
    /// Its name, unique among the origin's undiscarded lanes.
    pub name: String,
    /// Absolute path of the directory it is a view of.
    #[serde(with = "value::hex")]
    pub origin: Vec<u8>,
    /// Absolute path of the project's top (equal to `origin` where there is no git).
    #[serde(with = "value::hex")]
    pub project: Vec<u8>,
    /// `overlay` or `copy`.
    pub strategy: String,
    /// Why this strategy.
    pub why: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// The base time: ctime of the stamp file, whole seconds.
    pub base_sec: i64,
    /// The base time, nanoseconds.
    pub base_nsec: u32,
    /// The boot in which it was last mounted.
    pub boot_id: String,
    /// Commit that HEAD named at the base time.
    pub git_head: Option<String>,
    /// Where it is in its life.
    pub state: LaneState,
    /// Absolute path of the directory with its layers.
    #[serde(with = "value::hex")]
    pub layers: Vec<u8>,
    /// Further roots, as the engine writes them.
    pub roots: Value,
    /// Options that later runs inherit, as the engine writes them.
    pub options: Value,
    /// Milliseconds that making it took.
    pub cost_ms: f64,
    /// Bytes that making it allocated.
    pub cost_bytes: u64,
    /// When it was discarded.
    pub discarded_at: Option<i64>,
}

/// Which lanes to list. `default()` lists all undiscarded ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneFilter<'a> {
    /// Only lanes of this project.
    pub project: Option<&'a [u8]>,
    /// Only lanes of this origin.
    pub origin: Option<&'a [u8]>,
    /// Also discarded ones.
    pub discarded: bool,
}

impl Ledger {
    /// The lane with this id, discarded or not.
    pub fn lane(&self, id: &str) -> Result<Option<Lane>> {
        self.db()
            .query_row("SELECT * FROM lanes WHERE id = ?1", [id], read)
            .optional()
            .map_err(|error| self.wrong("read a lane", &error))
    }

    /// The undiscarded lane of `origin` with this name.
    pub fn lane_by_name(&self, origin: &[u8], name: &str) -> Result<Option<Lane>> {
        self.db()
            .query_row(
                "SELECT * FROM lanes WHERE origin = ?1 AND name = ?2 AND state <> 'discarded'",
                params![origin, name],
                read,
            )
            .optional()
            .map_err(|error| self.wrong("read a lane", &error))
    }

    /// The lanes that the filter lets through, oldest first.
    pub fn lanes(&self, filter: LaneFilter<'_>) -> Result<Vec<Lane>> {
        let rows = || -> rusqlite::Result<Vec<Lane>> {
            let mut query = self.db().prepare(
                "SELECT * FROM lanes
                 WHERE (:project IS NULL OR project = :project) AND (:origin IS NULL OR origin = :origin)
                   AND (:discarded OR state <> 'discarded')
                 ORDER BY created_at, id",
            )?;
            let asked = named_params! {
                ":project": filter.project, ":origin": filter.origin, ":discarded": filter.discarded,
            };
            query.query_map(asked, read)?.collect()
        };
        rows().map_err(|error| self.wrong("list lanes", &error))
    }

    /// [`Act::insert_lane`] as an act of its own.
    pub fn insert_lane(&self, lane: &Lane) -> Result<()> {
        self.act(|act| act.insert_lane(lane))
    }

    /// [`Act::set_state`] as an act of its own.
    pub fn set_state(&self, id: &str, state: LaneState) -> Result<()> {
        self.act(|act| act.set_state(id, state))
    }

    /// [`Act::rename_lane`] as an act of its own.
    pub fn rename_lane(&self, id: &str, name: &str) -> Result<()> {
        self.act(|act| act.rename_lane(id, name))
    }

    /// [`Act::discard_lane`] as an act of its own.
    pub fn discard_lane(&self, id: &str, at: i64) -> Result<()> {
        self.act(|act| act.discard_lane(id, at))
    }
}

impl Act<'_> {
    /// Records a new lane. [`Error::NameTaken`] where an undiscarded lane of the origin has the name.
    pub fn insert_lane(&self, lane: &Lane) -> Result<()> {
        self.db()
            .execute(
                "INSERT INTO lanes (id, name, origin, project, strategy, why, created_at, base_sec, base_nsec,
                    boot_id, git_head, state, layers, roots, options, cost_ms, cost_bytes, discarded_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
                params![
                    lane.id,
                    lane.name,
                    lane.origin,
                    lane.project,
                    lane.strategy,
                    lane.why,
                    lane.created_at,
                    lane.base_sec,
                    lane.base_nsec,
                    lane.boot_id,
                    lane.git_head,
                    lane.state.as_str(),
                    lane.layers,
                    lane.roots.to_string(),
                    lane.options.to_string(),
                    lane.cost_ms,
                    value::count(lane.cost_bytes),
                    lane.discarded_at,
                ],
            )
            .map_err(|error| self.name_or(&error, &lane.name, &lane.origin, "record a lane"))?;
        self.link(What::Lane, Some(&lane.id), 0, 0)
    }

    /// Moves a lane to another state of its life.
    pub fn set_state(&self, id: &str, state: LaneState) -> Result<()> {
        self.change_lane(id, "UPDATE lanes SET state = ?2 WHERE id = ?1", params![id, state.as_str()])
    }

    /// Gives a lane another name.
    pub fn rename_lane(&self, id: &str, name: &str) -> Result<()> {
        let renamed = self.db().execute("UPDATE lanes SET name = ?2 WHERE id = ?1", params![id, name]);
        match renamed {
            Ok(rows) => self.met_one(rows, "lane", id),
            Err(error) => {
                let origin = self
                    .db()
                    .query_row("SELECT origin FROM lanes WHERE id = ?1", [id], |row| row.get::<_, Vec<u8>>(0))
                    .map_err(|error| self.wrong("rename a lane", &error))?;
                Err(self.name_or(&error, name, &origin, "rename a lane"))
            }
        }
    }

    /// Records that a lane was mounted in this boot, with this base time (a fresh stamp).
    pub fn set_base(&self, id: &str, sec: i64, nsec: u32, boot_id: &str) -> Result<()> {
        let sql = "UPDATE lanes SET base_sec = ?2, base_nsec = ?3, boot_id = ?4 WHERE id = ?1";
        self.change_lane(id, sql, params![id, sec, nsec, boot_id])
    }

    /// Records in which boot a lane was last mounted.
    pub fn set_boot(&self, id: &str, boot_id: &str) -> Result<()> {
        self.change_lane(id, "UPDATE lanes SET boot_id = ?2 WHERE id = ?1", params![id, boot_id])
    }

    /// Replaces the options that later runs inherit, and the further roots.
    pub fn set_options(&self, id: &str, options: &Value, roots: &Value) -> Result<()> {
        let sql = "UPDATE lanes SET options = ?2, roots = ?3 WHERE id = ?1";
        self.change_lane(id, sql, params![id, options.to_string(), roots.to_string()])
    }

    /// Records where a lane's layers stand now (they move when it is discarded or recovered).
    pub fn set_layers(&self, id: &str, layers: &[u8]) -> Result<()> {
        self.change_lane(id, "UPDATE lanes SET layers = ?2 WHERE id = ?1", params![id, layers])
    }

    /// Records what making the lane cost.
    pub fn set_cost(&self, id: &str, millis: f64, bytes: u64) -> Result<()> {
        let sql = "UPDATE lanes SET cost_ms = ?2, cost_bytes = ?3 WHERE id = ?1";
        self.change_lane(id, sql, params![id, millis, value::count(bytes)])
    }

    /// Marks a lane as dropped; its name is free from then on.
    pub fn discard_lane(&self, id: &str, at: i64) -> Result<()> {
        let sql = "UPDATE lanes SET state = 'discarded', discarded_at = ?2 WHERE id = ?1";
        self.change_lane(id, sql, params![id, at])
    }

    /// Brings a discarded lane back as idle, under `name`.
    pub fn recover_lane(&self, id: &str, name: &str) -> Result<()> {
        self.rename_lane(id, name)?;
        let back = self
            .db()
            .execute("UPDATE lanes SET state = 'idle', discarded_at = NULL WHERE id = ?1", [id])
            .map_err(|error| {
                let origin = self
                    .db()
                    .query_row("SELECT origin FROM lanes WHERE id = ?1", [id], |row| row.get::<_, Vec<u8>>(0))
                    .unwrap_or_default();
                self.name_or(&error, name, &origin, "recover a lane")
            })?;
        self.met_one(back, "lane", id)
    }

    /// Removes the row of a lane that never came to be (its making failed), with its runs and their events.
    pub fn delete_lane(&self, id: &str) -> Result<()> {
        for sql in [
            "DELETE FROM events WHERE run IN (SELECT id FROM runs WHERE lane = ?1)",
            "DELETE FROM runs WHERE lane = ?1",
            "DELETE FROM lanes WHERE id = ?1",
        ] {
            self.db().execute(sql, [id]).map_err(|error| self.wrong("delete a lane", &error))?;
        }
        self.link(What::Gone, Some(id), 0, 0)
    }

    fn change_lane(&self, id: &str, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        let rows = self.db().execute(sql, values).map_err(|error| self.wrong("change a lane", &error))?;
        self.met_one(rows, "lane", id)
    }

    fn name_or(&self, error: &rusqlite::Error, name: &str, origin: &[u8], doing: &'static str) -> Error {
        if is_unique_violation(error) {
            return Error::NameTaken { name: name.to_owned(), origin: origin.to_vec() };
        }
        self.wrong(doing, error)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Lane> {
    Ok(Lane {
        id: row.get("id")?,
        name: row.get("name")?,
        origin: row.get("origin")?,
        project: row.get("project")?,
        strategy: row.get("strategy")?,
        why: row.get("why")?,
        created_at: row.get("created_at")?,
        base_sec: row.get("base_sec")?,
        base_nsec: row.get("base_nsec")?,
        boot_id: row.get("boot_id")?,
        git_head: row.get("git_head")?,
        state: value::word(row, "state", |word| word.parse().ok())?,
        layers: row.get("layers")?,
        roots: value::json(row, "roots")?,
        options: value::json(row, "options")?,
        cost_ms: row.get("cost_ms")?,
        cost_bytes: value::read_count(row, "cost_bytes")?,
        discarded_at: row.get("discarded_at")?,
    })
}
