//! Records of the ledger and refusals on the wire.

use engine::ops::book::{Entry, WhyAnswer};
use engine::why::{Allow, Refusal};
use serde::Serialize;
use serde_json::Value;

use super::lane::{Ended, Word};
use super::{text, time};

/// One record: a line of `ledger --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'e> {
    kind: &'e str,
    id: i64,
    at: String,
    lane: Option<&'e str>,
    lane_id: Option<&'e str>,
    run: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'e str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    argv: Vec<Word>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<Ended>,
    data: &'e Value,
}

impl<'e> Record<'e> {
    pub(crate) fn new(entry: &'e Entry) -> Record<'e> {
        let (path, path_bytes) = match &entry.path {
            Some(raw) => {
                let (path, bytes) = text(raw);
                (Some(path), bytes)
            }
            None => (None, None),
        };
        Record {
            kind: &entry.kind,
            id: entry.id,
            at: time(entry.at),
            lane: entry.lane.as_deref(),
            lane_id: entry.lane_id.as_deref(),
            run: entry.run,
            path,
            path_bytes,
            host: entry.host.as_deref(),
            argv: entry.argv.iter().map(|word| Word::new(word)).collect(),
            exit: entry.exit.map(Ended::new),
            data: &entry.data,
        }
    }
}

/// The answer of `why`.
#[derive(Debug, Serialize)]
pub(crate) struct Why {
    lane: String,
    refusals: Vec<Refused>,
    more: bool,
}

/// Something that was refused.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    at: String,
    wall: String,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_bytes: Option<String>,
    program: Option<String>,
    times: u64,
    rule: String,
    allow: Option<String>,
    grant: Option<String>,
    advice: Option<String>,
}

impl Refused {
    pub(crate) fn new(refusal: &Refusal) -> Refused {
        let (what, what_bytes) = text(&refusal.what);
        let (allow, grant, advice) = match &refusal.allow {
            Allow::Flag(flag) => (Some(flag.clone()), None, None),
            Allow::Grant { grant, flag } => (Some(flag.clone()), Some(grant.clone()), None),
            Allow::Do(what) | Allow::Nothing(what) => (None, None, Some(what.clone())),
        };
        Refused {
            at: time(refusal.at),
            wall: refusal.wall.clone(),
            what,
            what_bytes,
            program: refusal.program.clone(),
            times: refusal.times,
            rule: refusal.rule.clone(),
            allow,
            grant,
            advice,
        }
    }
}

impl Why {
    pub(crate) fn new(answer: &WhyAnswer) -> Why {
        let refusals = answer.refusals.iter().map(Refused::new).collect();
        Why { lane: answer.lane.clone(), refusals, more: answer.more }
    }
}
