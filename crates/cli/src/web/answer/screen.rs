//! The screen of a run that has a terminal, as it is now: its recording, played into a terminal of ours that nobody sees.
//! For programs that draw on all of the screen, whose recording says little as lines.
//!
//! Invariant: only characters come out, escaped like any content; what the program asks of a terminal is done to ours
//! alone. A screen is what a terminal shows, so what was overwritten is not on it; all of it is among the lines.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::num::NonZero;
use std::path::Path;

use engine::Engine;
use engine::ops::log::LogRequest;
use serde_json::{Value, json};

use super::super::text::Text;
use crate::error::{CliError, Result};
use crate::render::report;

/// The largest screen that is played; a program may claim any size.
const MOST: u16 = 500;

/// The screen of a run.
pub(super) fn screen(engine: &Engine, dir: &Path, lane: String, run: i64) -> Result<Value> {
    let request = LogRequest { dir: dir.to_owned(), lane: Some(lane), ..LogRequest::default() };
    let runs = engine::ops::log::runs(engine, &request)?;
    let missing = || CliError::Missing(format!("lane {} has no run {run}", runs.lane));
    let view = runs.runs.iter().find(|view| view.id == run).ok_or_else(missing)?;
    let rows = match &view.transcript {
        Some(path) => play(path).map_err(|error| CliError::Unreadable(path.clone(), error))?,
        None => Vec::new(),
    };
    Ok(json!({
        "rows": rows.iter().map(|row| Text::content(row.as_bytes())).collect::<Vec<_>>(),
        "over": view.exit.is_some(),
        "end": view.exit.map(report::exit),
    }))
}

/// Plays a recording; the rows of its last screen, without what is empty at the end.
fn play(path: &Path) -> std::io::Result<Vec<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        // A recording begins with the first byte.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut terminal: Option<vt100::Parser> = None;
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        match &mut terminal {
            None => terminal = Some(begin(&line)),
            Some(terminal) => {
                // An entry that is not whole yet is none.
                let Ok((_, code, data)) = serde_json::from_slice::<(f64, String, String)>(&line) else {
                    continue;
                };
                match code.as_str() {
                    "o" => terminal.process(data.as_bytes()),
                    "r" => {
                        if let Some((rows, columns)) = size_of(&data) {
                            terminal.screen_mut().set_size(rows, columns);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    let Some(terminal) = terminal else { return Ok(Vec::new()) };
    let (_, columns) = terminal.screen().size();
    let mut rows: Vec<String> = terminal.screen().rows(0, columns.get()).collect();
    while rows.last().is_some_and(|row| row.trim().is_empty()) {
        rows.pop();
    }
    Ok(rows)
}

fn begin(head: &[u8]) -> vt100::Parser {
    let head: Value = serde_json::from_slice(head).unwrap_or_default();
    let side = |name: &str, usual: u16| {
        bounded(head[name].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(usual))
    };
    vt100::Parser::new(side("height", 24), side("width", 80), 0)
}

/// `120x40`: columns, rows.
fn size_of(data: &str) -> Option<(NonZero<u16>, NonZero<u16>)> {
    let (columns, rows) = data.split_once('x')?;
    Some((bounded(rows.parse().ok()?), bounded(columns.parse().ok()?)))
}

fn bounded(side: u16) -> NonZero<u16> {
    NonZero::new(side.min(MOST)).unwrap_or(NonZero::<u16>::MIN)
}

#[cfg(test)]
mod tests {
    use super::{play, size_of};

    #[test]
    fn a_screen_is_what_the_last_of_a_recording_left_on_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cast");
        let lines = [
            r#"{"version": 2, "width": 20, "height": 4}"#,
            r#"[0.1, "o", "first line\r\nsecond\u001b[2J\u001b[H"]"#,
            r#"[0.2, "r", "30x5"]"#,
            r#"[0.3, "o", "\u001b[3;4Hthere\u001b[1;1Hhere \u001b[31m<b>\u001b[0m"]"#,
            r#"[0.4, "o", "tor"#,
        ];
        std::fs::write(&path, lines.join("\n")).expect("written");
        assert_eq!(play(&path).expect("played"), ["here <b>", "", "   there"]);
        assert_eq!(play(&dir.path().join("none")).expect("empty"), Vec::<String>::new());
    }

    #[test]
    fn a_size_out_of_all_bounds_is_bounded() {
        let size = |text| size_of(text).map(|(rows, columns)| (rows.get(), columns.get()));
        assert_eq!(size("80x24"), Some((24, 80)));
        assert_eq!(size("60000x0"), Some((1, 500)));
        assert_eq!(size("x"), None);
    }
}
