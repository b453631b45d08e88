//! The answer of `overlap`.

use engine::ops::overlap::{Met as MetView, Touched as TouchedView};
use serde::Serialize;

use super::{path, text};

/// What several lanes touch.
#[derive(Debug, Serialize)]
pub(crate) struct Overlaps {
    lanes: Vec<String>,
    paths: Vec<Met>,
}

#[derive(Debug, Serialize)]
struct Met {
    lanes: [String; 2],
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: &'static str,
    clash: bool,
    hunks: Vec<Both>,
}

#[derive(Debug, Serialize)]
struct Both {
    left: Touched,
    right: Touched,
}

#[derive(Debug, Serialize)]
struct Touched {
    id: String,
    start: u32,
    lines: u32,
}

impl Overlaps {
    pub(crate) fn new(lanes: &[String], found: &[MetView]) -> Overlaps {
        let one = |touched: &TouchedView| Touched {
            id: touched.id.clone(),
            start: touched.start,
            lines: touched.lines,
        };
        let met = |met: &MetView| {
            let (inner, path_bytes) = text(met.path.as_bytes());
            Met {
                lanes: met.lanes.clone(),
                root: path(&met.root).0,
                path: inner,
                path_bytes,
                what: met.what.word(),
                clash: met.what.is_clash(),
                hunks: met.hunks.iter().map(|[l, r]| Both { left: one(l), right: one(r) }).collect(),
            }
        };
        Overlaps { lanes: lanes.to_vec(), paths: found.iter().map(met).collect() }
    }
}
