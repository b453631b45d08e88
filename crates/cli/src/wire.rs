//! The JSON shapes of `--json`, as docs/json.md describes them. Types made for nothing else: the
//! engine's own may change, these may only grow.
//!
//! Invariant: a path is its own text; where its bytes are not UTF-8 it is the escaped form, and a
//! second field `…_bytes` holds the bytes in hexadecimal. Times are RFC 3339 in UTC.

mod bench;
mod collect;
mod commit;
mod diff;
mod history;
mod lane;
mod ledger;
mod overlap;
mod page;
mod policy;
mod undo_keep;
mod work;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Serialize;

pub(crate) use bench::Bench;
pub(crate) use collect::{Checked, Collected};
pub(crate) use commit::{Commit, Patch};
pub(crate) use diff::{Diff, Drift, File, Gap, kind_word, type_word};
pub(crate) use history::{Checkpointed, Forked, Log, Restored, Snapped};
pub(crate) use lane::{Lane, Listed, Show, Verified};
pub(crate) use ledger::{Record, Why};
pub(crate) use overlap::Overlaps;
pub(crate) use page::Web;
pub(crate) use policy::{Rules, RulesChecked, RulesCompared};
pub(crate) use undo_keep::{KeepUndone, Keeps};
pub(crate) use work::{Discarded, Doctor, Exported, Keep, Plan, Probe, Ran, Stopped};

/// Text of bytes, with the bytes themselves where the text is not they.
pub(crate) fn text(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (crate::escape::name(bytes), Some(hex(bytes))),
    }
}

/// [`text`] of a host path.
pub(crate) fn path(path: &Path) -> (String, Option<String>) {
    text(path.as_os_str().as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Milliseconds since the epoch as RFC 3339.
pub(crate) fn time(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |at| format!("{at:.3}"))
}

/// `{"error": …}`: what a verb answers when it fails before it has an answer.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    error: FailureBody,
}

#[derive(Debug, Serialize)]
struct FailureBody {
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// From an error in words.
    pub(crate) fn new(kind: &'static str, message: &str, causes: &[String], hint: Option<&str>) -> Failure {
        Failure {
            error: FailureBody {
                kind,
                message: message.to_owned(),
                causes: causes.to_vec(),
                hint: hint.map(str::to_owned),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{text, time};

    #[test]
    fn bytes_that_are_no_text_come_twice() {
        assert_eq!(text(b"a\x1bb"), ("a\x1bb".to_owned(), None));
        assert_eq!(text(b"bad\xff"), ("bad\\xff".to_owned(), Some("626164ff".to_owned())));
    }

    #[test]
    fn a_time_is_rfc_3339_with_milliseconds() {
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
    }
}
