//! The answer of `bench`.

use serde::Serialize;

use crate::commands::bench::{Figure as Measured, Row as Found, Unit};

/// One suite, measured.
#[derive(Debug, Serialize)]
pub(crate) struct Bench {
    suite: &'static str,
    machine: String,
    filesystem: String,
    holds: bool,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    what: &'static str,
    unit: &'static str,
    ours: Option<f64>,
    peer: Option<Figure>,
    floor: Option<Figure>,
    ratio: Option<Ratio>,
    target: f64,
    rounds: usize,
    verdict: &'static str,
    note: String,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
}

#[derive(Debug, Serialize)]
struct Ratio {
    value: f64,
    low: f64,
    high: f64,
}

impl Bench {
    pub(crate) fn new(
        suite: &'static str,
        machine: &str,
        filesystem: &str,
        holds: bool,
        rows: &[Found],
    ) -> Bench {
        Bench {
            suite,
            machine: machine.to_owned(),
            filesystem: filesystem.to_owned(),
            holds,
            rows: rows.iter().map(row).collect(),
        }
    }
}

fn row(found: &Found) -> Row {
    Row {
        id: found.id.clone(),
        what: found.what,
        unit: match found.unit {
            Unit::Ms => "ms",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
        },
        ours: found.ours,
        peer: found.peer.as_ref().map(figure),
        floor: found.floor.as_ref().map(figure),
        ratio: found.ratio.map(|ratio| Ratio { value: ratio.value, low: ratio.low, high: ratio.high }),
        target: found.target,
        rounds: found.rounds,
        verdict: found.verdict.word(),
        note: found.note.clone(),
    }
}

fn figure(measured: &Measured) -> Figure {
    Figure { name: measured.name.clone(), value: measured.value }
}
