//! `checkpoint`: from inside a lane, asks the watch outside for a snapshot. Nothing else can be asked for there.

use std::time::Duration;

use sandbox::channel;

use crate::error::{Doing as _, EngineError, Result};

/// How long the watch may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks for a snapshot with this text; gives the front of its id, or says why there is none.
pub fn checkpoint(text: &[u8]) -> Result<String> {
    // An empty message would be an end of the stream.
    let text = if text.is_empty() { b"checkpoint" } else { text };
    let cut = &text[..text.len().min(channel::LONGEST)];
    let answer = channel::ask_inside(cut, PATIENCE).doing(|| "ask for a snapshot".to_owned())?;
    let answer = answer.ok_or(EngineError::NotInside)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.strip_prefix("ok") {
        Some(id) => Ok(id.trim().to_owned()),
        None => Err(EngineError::NotTaken { name: "here".to_owned(), why: answer }),
    }
}
