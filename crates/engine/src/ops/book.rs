//! `ledger` and `why`: questions to the record.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ledger::{Cursor, Happened, LaneFilter, Operation, Query, Record};
use serde_json::{Value, json};

use crate::describe;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::happened::kind;
use crate::lane::lexical;
use crate::redact::Redaction;
use crate::view::Exit;
use crate::why::{self, Refusal};

/// What is asked of the record.
#[derive(Debug, Clone, Default)]
pub struct LedgerRequest {
    /// A directory of the project.
    pub dir: PathBuf,
    /// A lane by name or id, discarded ones too; `None` for all lanes of all projects.
    pub lane: Option<String>,
    /// Only this run.
    pub run: Option<i64>,
    /// Not before this, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before this.
    pub until: Option<i64>,
    /// Kinds of records; empty means all.
    pub kinds: Vec<String>,
    /// About this path or what is below it.
    pub path: Option<PathBuf>,
    /// About this host or names below it.
    pub host: Option<String>,
    /// Only the newest so many.
    pub newest: Option<u64>,
}

/// A record, as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number among those of its kind of record.
    pub id: i64,
    /// Milliseconds since 1970.
    pub at: i64,
    /// `operation`, `run`, `end`, `verdict`, or a kind of happening.
    pub kind: String,
    /// Name of its lane.
    pub lane: Option<String>,
    /// Id of its lane.
    pub lane_id: Option<String>,
    /// Number of its run.
    pub run: Option<i64>,
    /// The path that it is about.
    pub path: Option<Vec<u8>>,
    /// The host that it is about.
    pub host: Option<String>,
    /// The command, where there is one.
    pub argv: Vec<Vec<u8>>,
    /// How the run or check ended.
    pub exit: Option<Exit>,
    /// Everything else.
    pub data: Value,
}

impl Entry {
    fn new(record: Record, lane: Option<String>) -> Entry {
        let (at, lane_id) = (record.at(), record.lane().map(str::to_owned));
        let bare = |kind: &str, id| Entry {
            id,
            at,
            kind: kind.to_owned(),
            lane: lane.clone(),
            lane_id: lane_id.clone(),
            run: None,
            path: None,
            host: None,
            argv: Vec::new(),
            exit: None,
            data: json!({}),
        };
        match record {
            Record::Operation(Operation { id, act }) => {
                let data =
                    json!({ "verb": act.verb, "outcome": act.outcome, "plan": act.plan, "undo": act.undo });
                Entry { data, ..bare("operation", id) }
            }
            Record::Began(run) => {
                let cwd = String::from_utf8_lossy(&run.start.cwd).into_owned();
                let data = json!({ "cwd": cwd, "detached": run.start.detached });
                Entry { run: Some(run.id), argv: run.start.argv, data, ..bare("run", run.id) }
            }
            Record::Ended(run) => {
                let (exit, argv) = (run.exit.map(describe::exit), run.start.argv);
                Entry { run: Some(run.id), argv, exit, ..bare("end", run.id) }
            }
            Record::Verdict(verdict) => {
                let (id, what) = (verdict.id, verdict.what);
                let data = json!({ "verdict": what.word.word(), "snapshot": what.snapshot });
                Entry { argv: what.argv, exit: what.exit.map(describe::exit), data, ..bare("verdict", id) }
            }
            Record::Event(event) => {
                let what = event.what;
                let bare = bare(&what.kind, event.id);
                Entry { run: Some(event.run), path: what.path, host: what.host, data: what.data, ..bare }
            }
        }
    }

    /// The same without tokens, and whatever else the redaction takes out.
    pub fn redacted(mut self, redaction: &Redaction) -> Entry {
        self.path = self.path.map(|path| redaction.bytes(&path));
        self.argv = redaction.arguments(&self.argv);
        self.data = redaction.value(&self.data);
        self
    }

    /// The refusal that it tells of.
    pub fn refusal(&self) -> Option<Refusal> {
        let (path, host, data) = (self.path.clone(), self.host.clone(), self.data.clone());
        why::of(&Happened { at: self.at, kind: self.kind.clone(), path, host, data })
    }
}

/// A question that is ready to be asked, and asked again.
#[derive(Debug)]
pub struct Asked<'e> {
    engine: &'e Engine,
    query: Query,
    names: HashMap<String, String>,
    cursor: Cursor,
}

/// Makes a question of a request.
pub fn ask<'e>(engine: &'e Engine, request: &LedgerRequest) -> Result<Asked<'e>> {
    let known: Vec<&str> = kind::ALL.into_iter().chain(["operation", "run", "end", "verdict"]).collect();
    if let Some(unknown) = request.kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
        let have = known.iter().map(|kind| (*kind).to_owned()).collect();
        return Err(EngineError::NoSuchKind { kind: unknown.clone(), have });
    }
    let lanes = match &request.lane {
        Some(asked) => lanes(engine, &request.dir, asked)?,
        None => Vec::new(),
    };
    let path = request.path.as_ref().map(|path| {
        let dir = std::path::absolute(&request.dir).unwrap_or_else(|_| request.dir.clone());
        lexical(&dir, path).as_os_str().as_bytes().to_vec()
    });
    let query = Query {
        lanes,
        run: request.run,
        since: request.since,
        until: request.until,
        kinds: request.kinds.clone(),
        path,
        host: request.host.clone(),
        newest: request.newest,
    };
    let cursor = engine.ledger()?.cursor()?;
    Ok(Asked { engine, query, names: HashMap::new(), cursor })
}

/// Ids of the lanes that a name means: those of the project that have or had it, else the one with that id.
fn lanes(engine: &Engine, dir: &Path, asked: &str) -> Result<Vec<String>> {
    let project = engine.project(dir)?.top;
    let all = LaneFilter { discarded: true, ..LaneFilter::default() };
    let rows = engine.ledger()?.lanes(all)?;
    let here = project.as_os_str().as_bytes();
    let mut found: Vec<String> =
        rows.iter().filter(|row| row.name == asked && row.origin == here).map(|row| row.id.clone()).collect();
    if found.is_empty() && asked.len() >= 4 {
        found = rows.iter().filter(|row| row.id.starts_with(asked)).map(|row| row.id.clone()).collect();
    }
    if found.is_empty() {
        let have = rows
            .into_iter()
            .filter(|row| row.origin == here && row.state != ledger::LaneState::Discarded)
            .map(|row| row.name)
            .collect();
        return Err(EngineError::NoSuchLane { name: asked.to_owned(), project, have });
    }
    Ok(found)
}

impl Asked<'_> {
    /// Tells `each` the answer, in order of time.
    pub fn answer(&mut self, each: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<()> {
        let (engine, query, names) = (self.engine, &self.query, &mut self.names);
        let mut named = |record| each(entry(engine, names, record));
        Ok(engine.ledger()?.query(query, &mut named)?)
    }

    /// Tells `each` what was recorded since, or since the question was made.
    pub fn follow(&mut self, each: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<()> {
        let (engine, query, names) = (self.engine, &self.query, &mut self.names);
        let mut named = |record| each(entry(engine, names, record));
        Ok(engine.ledger()?.follow(query, &mut self.cursor, &mut named)?)
    }
}

fn entry(engine: &Engine, names: &mut HashMap<String, String>, record: Record) -> Entry {
    let lane = record.lane().map(|id| {
        names
            .entry(id.to_owned())
            .or_insert_with(|| {
                let row = engine.ledger().ok().and_then(|ledger| ledger.lane(id).ok()).flatten();
                row.map_or_else(|| id.to_owned(), |row| row.name)
            })
            .clone()
    });
    Entry::new(record, lane)
}

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhyAnswer {
    /// The lane.
    pub lane: String,
    /// The refusals, oldest first, each once.
    pub refusals: Vec<Refusal>,
    /// There were older ones.
    pub more: bool,
}

/// The last refusals of a lane; without a name, of the lane of this project in which something was refused last.
pub fn why(engine: &Engine, dir: &Path, lane: Option<&str>, most: u64) -> Result<WhyAnswer> {
    let wanted = match lane {
        Some(asked) => lanes(engine, dir, asked)?,
        None => {
            let project = engine.project(dir)?.top;
            let origin = Some(project.as_os_str().as_bytes());
            let rows =
                engine.ledger()?.lanes(LaneFilter { origin, discarded: true, ..LaneFilter::default() })?;
            let ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
            match newest(engine, &ids, 1)?.pop() {
                Some(Record::Event(event)) => vec![event.lane],
                _ => {
                    let row = crate::find::lane(engine, dir, None, |_| true)?;
                    vec![row.id]
                }
            }
        }
    };
    let name = match (lane, wanted.first()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(id)) => engine.ledger()?.lane(id)?.map_or_else(|| id.clone(), |row| row.name),
        (None, None) => String::new(),
    };
    // One more than is told: then it is known that there are more.
    let mut records = newest(engine, &wanted, most + 1)?;
    let more = records.len() as u64 > most;
    if more {
        records.remove(0);
    }
    let mut refusals: Vec<Refusal> = Vec::new();
    for record in records {
        let Record::Event(event) = record else { continue };
        let Some(refusal) = why::of(&event.what) else { continue };
        match refusals.iter_mut().find(|known| {
            (&known.wall, &known.what, &known.rule) == (&refusal.wall, &refusal.what, &refusal.rule)
        }) {
            Some(known) => {
                known.times += refusal.times;
                known.at = refusal.at;
            }
            None => refusals.push(refusal),
        }
    }
    refusals.sort_by_key(|refusal| refusal.at);
    Ok(WhyAnswer { lane: name, refusals, more })
}

fn newest(engine: &Engine, lanes: &[String], most: u64) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    if lanes.is_empty() {
        return Ok(found);
    }
    let query = Query {
        lanes: lanes.to_vec(),
        kinds: vec![kind::REFUSED.to_owned(), kind::LIMIT.to_owned()],
        newest: Some(most),
        ..Query::default()
    };
    let mut each = |record| {
        found.push(record);
        ControlFlow::Continue(())
    };
    engine.ledger()?.query(&query, &mut each)?;
    Ok(found)
}
