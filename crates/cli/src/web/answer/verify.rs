//! Checking a lane from the page.
//!
//! Invariant: a page never says what is run. It chooses among commands that the policy names, which stands on the host
//! where no lane writes, and the one that the lane's last verdict was made with, which somebody typed in a shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use engine::Engine;
use engine::ops::verify::{self, VerifyRequest};
use serde_json::{Value, json};

use super::super::request::unhex;
use super::super::text::Text;
use super::keep::Said;
use super::{hex, lanes, output};
use crate::error::{CliError, Result};

/// How long a check from the page may take: nobody sits at a terminal to end it.
const LONGEST: Duration = Duration::from_secs(3600);

/// The commands that can be chosen from.
pub(super) fn plan(engine: &Engine, dir: &Path, lane: &str) -> Result<Value> {
    let known = verify::known(engine, dir, Some(lane))?;
    let known = known.iter().map(|check| {
        json!({
            "command": check.argv.iter().map(|word| hex(word)).collect::<Vec<_>>(),
            "words": Text::name(lanes::command(&check.argv)),
            "file": check.rule.as_ref().map(|(file, line)| json!({ "path": Text::path(file), "line": line })),
        })
    });
    Ok(json!({ "known": known.collect::<Vec<_>>() }))
}

/// Runs one of them.
pub(super) fn verify(engine: &Engine, dir: &Path, lane: String, command: &[String]) -> Result<Value> {
    let words: Option<Vec<Vec<u8>>> = command.iter().map(|word| unhex(word)).collect();
    let known = verify::known(engine, dir, Some(&lane))?;
    let named = |words: &Vec<Vec<u8>>| !words.is_empty() && known.iter().any(|check| check.argv == *words);
    let words = words.filter(named).ok_or_else(|| {
        let words = "neither the policy nor the last verdict of the lane names that command";
        CliError::Missing(words.to_owned())
    })?;
    let request = VerifyRequest {
        dir: engine.project(dir)?.top,
        lane: Some(lane),
        argv: words.into_iter().map(OsString::from_vec).collect(),
        timeout: Some(LONGEST),
        unattended: true,
        ..VerifyRequest::default()
    };
    let mut said = Said::default();
    let answer = verify::verify(engine, &request, &mut said)?;
    let last = answer.verdict.transcript.as_deref().and_then(output::last_line);
    Ok(
        json!({ "lane": lanes::view(&answer.lane), "verdict": lanes::verdict(&answer.verdict), "last": last, "said": said.0 }),
    )
}
