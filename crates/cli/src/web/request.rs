//! What the page can ask for, as data. Lanes are named by their ids and places by the bytes of their paths, so that
//! nothing depends on how a name looks.

use serde::Deserialize;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Every lane at a glance, and the trash.
    Lanes,
    /// One lane in full.
    Lane { lane: String },
    /// The changed paths of a lane, without their content.
    Changes { lane: String },
    /// Lines that came and went, for some of the changed files.
    Counts { lane: String, files: Vec<Place> },
    /// The hunks of one changed file.
    Hunks { lane: String, file: Place },
    /// The snapshots of a lane.
    History { lane: String },
    /// What a run printed, from a place on; waits a moment where there is nothing new.
    Output { lane: String, run: i64, from: Cursor, wait: bool },
    /// What stands on the terminal of a run now.
    Screen { lane: String, run: i64 },
    /// What a keep of the ticked things would do.
    PlanKeep {
        lane: String,
        ticks: Vec<Tick>,
        conflicts: String,
        shape: Shape,
        #[serde(default)]
        with: Vec<With>,
    },
    /// Do it; each tick has the digest that its plan answered.
    Keep {
        lane: String,
        ticks: Vec<Tick>,
        conflicts: String,
        shape: Shape,
        #[serde(default)]
        with: Vec<With>,
    },
    /// What was kept, and can be undone.
    Kept,
    /// What undoing a keep would do.
    PlanUndoKeep { keep: String },
    /// Undo it.
    UndoKeep { keep: String },
    /// Where an export would go.
    PlanExport { lane: String },
    /// Write the result to where the plan said (bytes in hexadecimal).
    Export { lane: String, target: String },
    /// What a discard would drop.
    PlanDiscard { lane: String },
    /// Drop a lane into the trash; `stop` ends what runs in it.
    Discard { lane: String, stop: bool },
    /// Take a lane out of the trash.
    Recover { lane: String },
    /// Put a lane back (or forth); `yes` also where that removes most of what it holds.
    GoBack { lane: String, to: To, yes: bool },
    /// End what runs in a lane.
    Stop { lane: String },
    /// The paths that either of two lanes changed.
    Compare { left: String, right: String },
    /// One file as two lanes have it.
    CompareFile { left: String, right: String, file: Place },
    /// What several lanes both touch; all of the project where none is named.
    Overlap { lanes: Vec<String> },
    /// The commands that a lane can be checked with.
    PlanVerify { lane: String },
    /// Check it with one of these: its words in hexadecimal.
    Verify { lane: String, command: Vec<String> },
}

/// What becomes of the ticked things.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "as", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Shape {
    /// Files of the original.
    Files,
    /// A patch for `git apply`, which the answer holds.
    Patch,
    /// One commit: on the branch that is checked out, with its files, or on another one. An empty message is made from the
    /// lane's name and what is committed.
    Commit { to: Option<String>, message: String },
    /// A new branch with one commit of what is ticked.
    Branch { name: String, message: String },
    /// A new branch with the commits that were made in the lane, whatever is ticked; `tip` is the last of them, once it
    /// was planned.
    Commits { name: String, tip: Option<String> },
}

impl Request {
    /// The lanes that it names, and whether they are looked for in the trash.
    pub(crate) fn lanes(&self) -> (Vec<&str>, bool) {
        let lanes: Vec<&str> = match self {
            Request::Lanes | Request::Kept | Request::PlanUndoKeep { .. } | Request::UndoKeep { .. } => {
                vec![]
            }
            Request::Lane { lane }
            | Request::Changes { lane }
            | Request::Counts { lane, .. }
            | Request::Hunks { lane, .. }
            | Request::History { lane }
            | Request::Output { lane, .. }
            | Request::Screen { lane, .. }
            | Request::PlanExport { lane }
            | Request::Export { lane, .. }
            | Request::PlanDiscard { lane }
            | Request::Discard { lane, .. }
            | Request::Recover { lane }
            | Request::GoBack { lane, .. }
            | Request::Stop { lane }
            | Request::PlanVerify { lane }
            | Request::Verify { lane, .. } => vec![lane],
            Request::Compare { left, right } | Request::CompareFile { left, right, .. } => vec![left, right],
            Request::PlanKeep { lane, with, .. } | Request::Keep { lane, with, .. } => {
                std::iter::once(lane).chain(with.iter().map(|with| &with.lane)).map(String::as_str).collect()
            }
            Request::Overlap { lanes } => lanes.iter().map(String::as_str).collect(),
        };
        (lanes, matches!(self, Request::Recover { .. }))
    }
}

/// Where a lane is put back to.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum To {
    /// One step back.
    Back,
    /// To where the last step back was taken from.
    Forth,
    /// A snapshot, by its id.
    Snapshot(String),
}

/// A changed path: number of its root, bytes of its path in hexadecimal.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub(crate) root: usize,
    pub(crate) path: String,
}

/// What is ticked in a further lane, to be kept in one go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct With {
    pub(crate) lane: String,
    pub(crate) ticks: Vec<Tick>,
}

/// What is taken of a changed path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tick {
    pub(crate) root: usize,
    pub(crate) path: String,
    /// What the file was when it was looked at, where it was.
    pub(crate) digest: Option<String>,
    /// All of it; else what follows.
    pub(crate) whole: bool,
    #[serde(default)]
    pub(crate) rename: bool,
    #[serde(default)]
    pub(crate) mode: bool,
    #[serde(default)]
    pub(crate) hunks: Vec<TickedHunk>,
}

/// What is taken of a hunk: these of its changed lines, or all of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TickedHunk {
    pub(crate) id: String,
    pub(crate) lines: Option<Vec<u32>>,
}

/// A place in a recording: the start of an entry of the file, and how many of its lines are known already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cursor {
    pub(crate) at: u64,
    pub(crate) skip: usize,
}

/// The bytes behind a hexadecimal text.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let digits =
                std::str::from_utf8(pair).ok().filter(|digits| digits.len() == 2 && !digits.contains('+'))?;
            u8::from_str_radix(digits, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Request, unhex};

    #[test]
    fn bytes_come_out_of_hexadecimal_and_nothing_else() {
        assert_eq!(unhex("00ff41"), Some(vec![0, 255, b'A']));
        assert_eq!(unhex(""), Some(Vec::new()));
        for bad in ["0", "0g", "+1", "é"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_request_with_an_unknown_field_or_name_is_none() {
        assert!(serde_json::from_str::<Request>(r#"{"what":"lanes"}"#).is_ok());
        assert!(serde_json::from_str::<Request>(r#"{"what":"lane","lane":"a","now":true}"#).is_err());
        assert!(serde_json::from_str::<Request>(r#"{"what":"shell"}"#).is_err());
        let free = r#"{"what":"verify","lane":"a","command":[],"line":"make"}"#;
        assert!(serde_json::from_str::<Request>(free).is_err());
    }
}
