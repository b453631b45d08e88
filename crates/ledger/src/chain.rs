//! Table `links`: a chain of hashes over the records, so that a record that was changed, removed or slipped in shows.
//!
//! Each record (a lane, a run, an operation, a verdict, a batch of events) gets a link in the transaction that writes it, and
//! another one when it is changed. A link holds the digest of what its rows say (`body`) and a digest over that and the link
//! before (`digest`). A batch of events is one link, so that a hundred thousand of them cost a few hundred links.
//!
//! Invariant: the newest link of a record speaks of the record as it is. What the chain cannot show: that its newest links
//! were removed together with their records. Whoever wants to know that too writes [`Head`] down elsewhere.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::db::{Act, Ledger};
use crate::error::Result;

/// The same of something that comes piece by piece.
#[derive(Debug, Default)]
pub struct Summer(blake3::Hasher);

impl Summer {
    /// The next piece.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    pub fn digest(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// What a link speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A lane, by its id.
    Lane,
    /// A lane that never came to be was removed with all that hung on it.
    Gone,
    /// A run, by its number.
    Run,
    /// An operation, by its number.
    Operation,
    /// A verdict, by its number.
    Verdict,
    /// The events between two numbers.
    Events,
}

const ALL: [What; 6] = [What::Lane, What::Gone, What::Run, What::Operation, What::Verdict, What::Events];

impl What {
    fn word(self) -> &'static str {
        match self {
            What::Lane => "lane",
            What::Gone => "gone",
            What::Run => "run",
            What::Operation => "operation",
            What::Verdict => "verdict",
            What::Events => "events",
        }
    }

    fn from_word(word: &str) -> Option<What> {
        ALL.into_iter().find(|what| what.word() == word)
    }

    /// The rows that a link speaks of, by the columns that are part of the record. ?1 lane, ?2 first, ?3 last.
    fn rows(self) -> Option<&'static str> {
        Some(match self {
            // Name, state, base and place of a lane move on; what it is does not.
            What::Lane => "SELECT id, origin, project, strategy, created_at FROM lanes WHERE id = ?1 AND ?2 = ?3",
            What::Gone => return None,
            What::Run => {
                "SELECT id, lane, argv, cwd, started_at, detached, walls, transcript, ended_at, exit_kind, exit_value
                 FROM runs WHERE id BETWEEN ?2 AND ?3 AND lane = ?1"
            }
            What::Operation => {
                "SELECT id, at, verb, lane, plan, outcome, undo FROM operations WHERE id BETWEEN ?2 AND ?3 AND lane IS ?1"
            }
            What::Verdict => {
                "SELECT id, lane, argv, verdict, exit_kind, exit_value, started_at, ended_at, state, snapshot
                 FROM verdicts WHERE id BETWEEN ?2 AND ?3 AND lane = ?1"
            }
            What::Events => {
                "SELECT id, run, lane, at, kind, path, host, data FROM events WHERE id BETWEEN ?2 AND ?3 AND lane = ?1
                 ORDER BY id"
            }
        })
    }
}

type Digest = [u8; 32];

/// The digest of something that the ledger names and does not keep: BLAKE3 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The newest link: who has written it down elsewhere can tell later whether it is still in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Number of the link.
    pub link: i64,
    /// Its digest, in hexadecimal.
    pub digest: String,
}

/// Where the chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Number of the link; `None` where a record has no link.
    pub link: Option<i64>,
    /// `lane`, `run`, `operation`, `verdict` or `events`.
    pub what: String,
    /// The lane that it speaks of.
    pub lane: Option<String>,
    /// First and last number of the rows.
    pub rows: (i64, i64),
    /// What is wrong.
    pub why: Fault,
}

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not follow from the link before: one of the two was changed, removed or put in.
    Chain,
    /// What it speaks of says something else now.
    Changed,
    /// What it speaks of is not there.
    Missing,
    /// A record that no link speaks of.
    Unlinked,
}

/// What a check of the chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Links that were read.
    pub links: u64,
    /// Records that they speak of; each event counts.
    pub records: u64,
    /// The newest link.
    pub head: Option<Head>,
    /// The first place where the chain does not hold.
    pub broken: Option<Broken>,
}

impl Act<'_> {
    /// Adds a link for rows that were just written.
    pub(crate) fn link(&self, what: What, lane: Option<&str>, first: i64, last: i64) -> Result<()> {
        link(self.db(), what, lane, first, last).map_err(|error| self.wrong("link a record", &error))
    }
}

fn link(db: &Connection, what: What, lane: Option<&str>, first: i64, last: i64) -> rusqlite::Result<()> {
    let (_, body) = body_of(db, what, lane, first, last)?;
    let before: Option<Digest> = db
        .prepare_cached("SELECT digest FROM links ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let digest = digest_of(before.unwrap_or_default(), what.word(), lane, first, last, &body);
    db.prepare_cached(
        "INSERT INTO links (what, lane, first, last, body, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![what.word(), lane, first, last, body, digest])?;
    Ok(())
}

/// How many rows a link speaks of, and the digest of what they say.
fn body_of(
    db: &Connection,
    what: What,
    lane: Option<&str>,
    first: i64,
    last: i64,
) -> rusqlite::Result<(u64, Digest)> {
    let Some(sql) = what.rows() else { return Ok((0, [0; 32])) };
    let mut query = db.prepare_cached(sql)?;
    let columns = query.column_count();
    let mut rows = query.query(params![lane, first, last])?;
    let (mut hasher, mut count) = (blake3::Hasher::new(), 0);
    while let Some(row) = rows.next()? {
        count += 1;
        for column in 0..columns {
            // Type, length, bytes: no two rows of different values read alike.
            let mut part = |kind: u8, bytes: &[u8]| {
                hasher.update(&[kind]);
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            };
            match row.get_ref(column)? {
                ValueRef::Null => part(0, b""),
                ValueRef::Integer(number) => part(1, &number.to_le_bytes()),
                ValueRef::Real(number) => part(2, &number.to_le_bytes()),
                ValueRef::Text(text) => part(3, text),
                ValueRef::Blob(bytes) => part(4, bytes),
            }
        }
    }
    Ok((count, *hasher.finalize().as_bytes()))
}

fn digest_of(before: Digest, what: &str, lane: Option<&str>, first: i64, last: i64, body: &Digest) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before);
    for text in [what, lane.unwrap_or("")] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.update(&[u8::from(lane.is_some())]);
    hasher.update(&first.to_le_bytes());
    hasher.update(&last.to_le_bytes());
    hasher.update(body);
    *hasher.finalize().as_bytes()
}

/// Links everything that older versions recorded, in the order of the tables.
pub(crate) fn link_all(db: &Connection) -> rusqlite::Result<()> {
    let lanes = column::<String>(db, "SELECT id FROM lanes ORDER BY created_at, id")?;
    for lane in lanes {
        link(db, What::Lane, Some(&lane), 0, 0)?;
    }
    for (what, sql) in [
        (What::Run, "SELECT lane, id, id FROM runs ORDER BY id"),
        (What::Operation, "SELECT lane, id, id FROM operations ORDER BY id"),
        (What::Verdict, "SELECT lane, id, id FROM verdicts ORDER BY id"),
        // Numbers of one lane may lie among those of another: each event by itself.
        (What::Events, "SELECT lane, id, id FROM events ORDER BY id"),
    ] {
        let rows: Vec<(Option<String>, i64, i64)> = db
            .prepare(sql)?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (lane, first, last) in rows {
            link(db, what, lane.as_deref(), first, last)?;
        }
    }
    Ok(())
}

fn column<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> rusqlite::Result<Vec<T>> {
    db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// One row of the table.
struct Link {
    id: i64,
    word: String,
    lane: Option<String>,
    first: i64,
    last: i64,
    body: Digest,
    digest: Digest,
}

impl Link {
    fn broken(&self, why: Fault) -> Broken {
        let (what, lane) = (self.word.clone(), self.lane.clone());
        Broken { link: Some(self.id), what, lane, rows: (self.first, self.last), why }
    }
}

impl Ledger {
    /// The newest link.
    pub fn head(&self) -> Result<Option<Head>> {
        let sql = "SELECT id, digest FROM links ORDER BY id DESC LIMIT 1";
        let found = self.db().query_row(sql, [], |row| {
            Ok(Head { link: row.get(0)?, digest: crate::value::hex::to_text(&row.get::<_, Digest>(1)?) })
        });
        found.optional().map_err(|error| self.wrong("read the chain", &error))
    }

    /// Checks every link and every record against each other. The first fault ends it.
    pub fn check_chain(&self) -> Result<Chain> {
        // One state of the file for the whole check, however long others write meanwhile.
        let check = || -> rusqlite::Result<Chain> {
            let act = self.db().unchecked_transaction()?;
            let chain = walk(&act)?;
            act.rollback()?;
            Ok(chain)
        };
        check().map_err(|error| self.wrong("check the chain", &error))
    }
}

fn walk(db: &Connection) -> rusqlite::Result<Chain> {
    let mut chain = Chain { links: 0, records: 0, head: None, broken: None };
    let mut before: Digest = [0; 32];
    let mut query = db.prepare(
        "SELECT id, what, lane, first, last, body, digest,
                what <> 'lane' AND EXISTS (SELECT 1 FROM links AS later WHERE later.what = links.what
                        AND later.first = links.first AND later.id > links.id) AS old,
                lane IS NOT NULL AND what <> 'gone' AND EXISTS
                    (SELECT 1 FROM links AS gone WHERE gone.what = 'gone' AND gone.first = 0 AND gone.lane = links.lane) AS gone
         FROM links ORDER BY id",
    )?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let link = Link {
            id: row.get(0)?,
            word: row.get(1)?,
            lane: row.get(2)?,
            first: row.get(3)?,
            last: row.get(4)?,
            body: row.get(5)?,
            digest: row.get(6)?,
        };
        let expected = digest_of(before, &link.word, link.lane.as_deref(), link.first, link.last, &link.body);
        if expected != link.digest {
            chain.broken = Some(link.broken(Fault::Chain));
            return Ok(chain);
        }
        before = link.digest;
        chain.links += 1;
        chain.head = Some(Head { link: link.id, digest: crate::value::hex::to_text(&link.digest) });
        let (old, gone): (bool, bool) = (row.get(7)?, row.get(8)?);
        let Some(what) = What::from_word(&link.word).filter(|what| *what != What::Gone && !old && !gone)
        else {
            continue;
        };
        let (count, body) = body_of(db, what, link.lane.as_deref(), link.first, link.last)?;
        chain.records += count;
        if body != link.body {
            let why = if count == 0 { Fault::Missing } else { Fault::Changed };
            chain.broken = Some(link.broken(why));
            return Ok(chain);
        }
    }
    chain.broken = unlinked(db)?;
    Ok(chain)
}

/// The first record that no link speaks of.
fn unlinked(db: &Connection) -> rusqlite::Result<Option<Broken>> {
    let broken = |what: What, lane: Option<String>, row: i64| Broken {
        link: None,
        what: what.word().to_owned(),
        lane,
        rows: (row, row),
        why: Fault::Unlinked,
    };
    for (what, sql) in [
        (
            What::Lane,
            "SELECT id, 0 FROM lanes WHERE id NOT IN (SELECT lane FROM links WHERE what = 'lane') LIMIT 1",
        ),
        (
            What::Run,
            "SELECT lane, id FROM runs WHERE id NOT IN (SELECT first FROM links WHERE what = 'run') ORDER BY id LIMIT 1",
        ),
        (
            What::Operation,
            "SELECT lane, id FROM operations WHERE id NOT IN (SELECT first FROM links WHERE what = 'operation') ORDER BY id LIMIT 1",
        ),
        (
            What::Verdict,
            "SELECT lane, id FROM verdicts WHERE id NOT IN (SELECT first FROM links WHERE what = 'verdict') ORDER BY id LIMIT 1",
        ),
    ] {
        let found = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if let Some((lane, row)) = found {
            return Ok(Some(broken(what, lane, row)));
        }
    }
    // Batches are written one after the other: an event outside them all is behind the last or in a gap between two.
    let mut ranges = db.prepare("SELECT first, last FROM links WHERE what = 'events' ORDER BY first")?;
    let mut ranges = ranges.query([])?;
    let mut next = i64::MIN;
    let sql = "SELECT lane, id FROM events WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 1";
    let mut stray = db.prepare(sql)?;
    loop {
        let range: Option<(i64, i64)> = match ranges.next()? {
            Some(row) => Some((row.get(0)?, row.get(1)?)),
            None => None,
        };
        let until = range.map_or(i64::MAX, |(first, _)| first);
        if next < until {
            let found = stray.query_row([next, until], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            if let Some((lane, row)) = found {
                return Ok(Some(broken(What::Events, lane, row)));
            }
        }
        match range {
            Some((_, last)) => next = next.max(last.saturating_add(1)),
            None => return Ok(None),
        }
    }
}
