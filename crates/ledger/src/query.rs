//! Questions to the book: operations, beginnings and ends of runs, verdicts and events as one stream in time.
//!
//! Cost: what a question names (lane, kind, path, host, time) is looked up in an index, and the newest records are read from
//! their end, so that an answer costs what it says and not what the book holds. Each table is read in order of time and the
//! streams are merged; nothing is held in memory but one record of each.

use std::ops::ControlFlow;

use rusqlite::types::ToSql;

use crate::db::Ledger;
use crate::error::Result;
use crate::event::{self, Event};
use crate::operation::{self, Operation};
use crate::run::{self, Run};
use crate::verdict::{self, Verdict};

/// What is asked for. Everything that is named must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Ids of lanes; empty means all.
    pub lanes: Vec<String>,
    /// Only this run.
    pub run: Option<i64>,
    /// Not before this, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before this.
    pub until: Option<i64>,
    /// Kinds of events, and the words `operation`, `run`, `end`, `verdict`; empty means all.
    pub kinds: Vec<String>,
    /// Events about this path or what is below it.
    pub path: Option<Vec<u8>>,
    /// Events about this host or names below it.
    pub host: Option<String>,
    /// Only the newest so many.
    pub newest: Option<u64>,
}

/// One record of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// An act.
    Operation(Operation),
    /// A run began.
    Began(Run),
    /// A run ended.
    Ended(Run),
    /// A check said something.
    Verdict(Verdict),
    /// Something happened in a run.
    Event(Event),
}

impl Record {
    /// When, in milliseconds since 1970.
    pub fn at(&self) -> i64 {
        match self {
            Record::Operation(operation) => operation.act.at,
            Record::Began(run) => run.start.started_at,
            Record::Ended(run) => run.ended_at.unwrap_or(run.start.started_at),
            Record::Verdict(verdict) => verdict.what.ended_at,
            Record::Event(event) => event.what.at,
        }
    }

    /// Id of the lane; `None` for an act that had none.
    pub fn lane(&self) -> Option<&str> {
        match self {
            Record::Operation(operation) => operation.act.lane.as_deref(),
            Record::Began(run) | Record::Ended(run) => Some(&run.start.lane),
            Record::Verdict(verdict) => Some(&verdict.what.lane),
            Record::Event(event) => Some(&event.lane),
        }
    }

    /// What records of the same moment are ordered by.
    fn rank(&self) -> (i64, u8, i64) {
        let (rank, id) = match self {
            Record::Began(run) => (0, run.id),
            Record::Event(event) => (1, event.id),
            Record::Ended(run) => (2, run.id),
            Record::Verdict(verdict) => (3, verdict.id),
            Record::Operation(operation) => (4, operation.id),
        };
        (self.at(), rank, id)
    }
}

/// How far somebody who follows the book has read.
#[derive(Debug, Clone, Default)]
pub struct Cursor {
    event: i64,
    run: i64,
    operation: i64,
    verdict: i64,
    /// Runs that were told and had not ended.
    open: Vec<i64>,
}

/// The tables that are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Operations,
    Began,
    Ended,
    Verdicts,
    Events,
}

const TABLES: [Table; 5] = [Table::Operations, Table::Began, Table::Ended, Table::Verdicts, Table::Events];

/// More rows than this under a path or host, and they are looked for in order of time instead.
const MANY: i64 = 20_000;

impl Ledger {
    /// Tells `each` what was asked for, in order of time.
    pub fn query(&self, query: &Query, each: &mut dyn FnMut(Record) -> ControlFlow<()>) -> Result<()> {
        let mut answer = || -> rusqlite::Result<()> {
            let act = self.db().unchecked_transaction()?;
            self.merge(query, each)?;
            act.rollback()
        };
        answer().map_err(|error| self.wrong("answer a question", &error))
    }

    fn merge(&self, query: &Query, each: &mut dyn FnMut(Record) -> ControlFlow<()>) -> rusqlite::Result<()> {
        let selects: Vec<(Table, Select)> =
            TABLES.into_iter().filter_map(|table| Some((table, self.select(query, table)?))).collect();
        let mut statements = selects
            .iter()
            .map(|(table, select)| {
                Ok((*table, self.db().prepare(&select.sql(*table, query.newest))?, select))
            })
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let mut streams = Vec::new();
        for (table, statement, select) in &mut statements {
            let values: Vec<&dyn ToSql> = select.values.iter().map(|value| &**value).collect();
            streams.push((*table, statement.query(values.as_slice())?));
        }
        let newest_first = query.newest.is_some();
        let mut heads: Vec<Option<Record>> = Vec::new();
        for (table, rows) in &mut streams {
            heads.push(next(*table, rows)?);
        }
        let mut backwards = Vec::new();
        let mut left = query.newest.unwrap_or(u64::MAX);
        while left > 0 {
            let ranked = heads.iter().enumerate().filter_map(|(at, head)| Some((head.as_ref()?.rank(), at)));
            let Some((_, at)) = (if newest_first { ranked.max() } else { ranked.min() }) else { break };
            let following = next(streams[at].0, &mut streams[at].1)?;
            let Some(record) = std::mem::replace(&mut heads[at], following) else { break };
            left -= 1;
            if newest_first {
                backwards.push(record);
            } else if each(record).is_break() {
                return Ok(());
            }
        }
        for record in backwards.into_iter().rev() {
            if each(record).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Where the book ends now.
    pub fn cursor(&self) -> Result<Cursor> {
        let ends = || -> rusqlite::Result<Cursor> {
            let last = |table: &str| -> rusqlite::Result<i64> {
                self.db()
                    .query_row(&format!("SELECT coalesce(max(id), 0) FROM {table}"), [], |row| row.get(0))
            };
            let mut open = self.db().prepare("SELECT id FROM runs WHERE ended_at IS NULL")?;
            Ok(Cursor {
                event: last("events")?,
                run: last("runs")?,
                operation: last("operations")?,
                verdict: last("verdicts")?,
                open: open.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?,
            })
        };
        ends().map_err(|error| self.wrong("read the end", &error))
    }

    /// Takes in what others have written on slips since, and tells `each` what was recorded behind the cursor and was asked
    /// for, in order of time.
    pub fn follow(
        &self,
        query: &Query,
        cursor: &mut Cursor,
        each: &mut dyn FnMut(Record) -> ControlFlow<()>,
    ) -> Result<()> {
        self.take_slips()?;
        let now = self.cursor()?;
        let mut found: Vec<Record> = Vec::new();
        let mut read = || -> rusqlite::Result<()> {
            let act = self.db().unchecked_transaction()?;
            let before = [cursor.operation, cursor.run, 0, cursor.verdict, cursor.event];
            let until = [now.operation, now.run, 0, now.verdict, now.event];
            for ((table, before), until) in TABLES.into_iter().zip(before).zip(until) {
                let Some(mut select) = self.select(query, table) else { continue };
                if table == Table::Ended {
                    // Those that were told as open, and those that came since.
                    let since = cursor.open.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
                    let still = now.open.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
                    select.wheres.push(format!(
                        "(id IN ({since}) OR (id > {} AND id <= {})) AND id NOT IN ({still})",
                        cursor.run, now.run
                    ));
                } else {
                    select.wheres.push(format!("id > {before} AND id <= {until}"));
                }
                let mut statement = self.db().prepare(&select.sql(table, None))?;
                let values: Vec<&dyn ToSql> = select.values.iter().map(|value| &**value).collect();
                let mut rows = statement.query(values.as_slice())?;
                while let Some(record) = next(table, &mut rows)? {
                    found.push(record);
                }
            }
            act.rollback()
        };
        read().map_err(|error| self.wrong("follow the book", &error))?;
        *cursor = now;
        found.sort_by_key(Record::rank);
        for record in found {
            if each(record).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// What a table has to say to the question; `None` where it has nothing.
    fn select(&self, query: &Query, table: Table) -> Option<Select> {
        let mut select = Select::default();
        let word = match table {
            Table::Operations => "operation",
            Table::Began => "run",
            Table::Ended => "end",
            Table::Verdicts => "verdict",
            Table::Events => "",
        };
        let is_event = table == Table::Events;
        let named: Vec<&String> = query
            .kinds
            .iter()
            .filter(|kind| if is_event { !PLAIN.contains(&kind.as_str()) } else { *kind == word })
            .collect();
        if !query.kinds.is_empty() && named.is_empty() {
            return None;
        }
        if !is_event && (query.path.is_some() || query.host.is_some()) {
            return None;
        }
        if let Some(path) = &query.path {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            let below = |end: u8| [path, &[end]].concat();
            let values: [Box<dyn ToSql>; 3] =
                [Box::new(path.to_vec()), Box::new(below(b'/')), Box::new(below(b'/' + 1))];
            self.by_range("path", values, &mut select);
        }
        if let Some(host) = &query.host {
            let turned = event::turned(host);
            let values: [Box<dyn ToSql>; 3] =
                [Box::new(turned.clone()), Box::new(format!("{turned}.")), Box::new(format!("{turned}/"))];
            self.by_range("host", values, &mut select);
        }
        match (table, query.run) {
            (Table::Operations | Table::Verdicts, Some(_)) => return None,
            (Table::Events, Some(run)) => select.add("run", "=", run),
            (Table::Began | Table::Ended, Some(run)) => select.add("id", "=", run),
            _ => {}
        }
        if is_event && !named.is_empty() {
            select.any("kind", &named.into_iter().cloned().collect::<Vec<_>>());
        }
        if !query.lanes.is_empty() {
            select.any("lane", &query.lanes);
        }
        let at = table.time();
        if let Some(since) = query.since {
            select.add(at, ">=", since);
        }
        if let Some(until) = query.until {
            select.add(at, "<", until);
        }
        if table == Table::Ended {
            select.wheres.push("ended_at IS NOT NULL".to_owned());
        }
        Some(select)
    }

    /// One value and all that are below it. Where those are many, the plus keeps the index out of it.
    fn by_range(&self, column: &str, values: [Box<dyn ToSql>; 3], select: &mut Select) {
        let count = format!(
            "SELECT count(*) FROM (SELECT 1 FROM events WHERE {column} IS NOT NULL AND ({column} = ?1 OR ({column} >= ?2 AND {column} < ?3)) LIMIT {MANY})"
        );
        let given: Vec<&dyn ToSql> = values.iter().map(|value| &**value).collect();
        let many = self.db().query_row(&count, given.as_slice(), |row| row.get::<_, i64>(0));
        let is_rare = many.is_ok_and(|many| many < MANY);
        let column = if is_rare && !select.steered { column.to_owned() } else { format!("+{column}") };
        select.steered |= is_rare;
        select
            .wheres
            .push(format!("{column} IS NOT NULL AND ({column} = ? OR ({column} >= ? AND {column} < ?))"));
        select.values.extend(values);
    }
}

/// Words that are no kinds of events.
const PLAIN: [&str; 4] = ["operation", "run", "end", "verdict"];

impl Table {
    fn time(self) -> &'static str {
        match self {
            Table::Operations | Table::Events => "at",
            Table::Began => "started_at",
            Table::Ended | Table::Verdicts => "ended_at",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Table::Operations => "operations",
            Table::Began | Table::Ended => "runs",
            Table::Verdicts => "verdicts",
            Table::Events => "events",
        }
    }
}

/// Conditions with their values, in order.
#[derive(Default)]
struct Select {
    wheres: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
    /// A path or host is rare enough to be looked up: a plus keeps every other index out of it.
    steered: bool,
}

impl Select {
    fn plus(&self) -> &'static str {
        if self.steered { "+" } else { "" }
    }

    fn add(&mut self, column: &str, relation: &str, value: impl ToSql + 'static) {
        self.wheres.push(format!("{}{column} {relation} ?", self.plus()));
        self.values.push(Box::new(value));
    }

    fn any(&mut self, column: &str, words: &[String]) {
        if let [word] = words {
            return self.add(column, "=", word.clone());
        }
        let marks = vec!["?"; words.len()].join(", ");
        self.wheres.push(format!("{}{column} IN ({marks})", self.plus()));
        self.values.extend(words.iter().map(|word| Box::new(word.clone()) as Box<dyn ToSql>));
    }

    fn sql(&self, table: Table, newest: Option<u64>) -> String {
        let wheres = if self.wheres.is_empty() { "1".to_owned() } else { self.wheres.join(" AND ") };
        let time = table.time();
        let order = match newest {
            Some(most) => format!("ORDER BY {time} DESC, id DESC LIMIT {most}"),
            None => format!("ORDER BY {time}, id"),
        };
        format!("SELECT * FROM {} WHERE {wheres} {order}", table.name())
    }
}

fn next(table: Table, rows: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<Record>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(match table {
        Table::Operations => Record::Operation(operation::read(row)?),
        Table::Began => Record::Began(run::read(row)?),
        Table::Ended => Record::Ended(run::read(row)?),
        Table::Verdicts => Record::Verdict(verdict::read(row)?),
        Table::Events => Record::Event(event::read(row)?),
    }))
}
