//! What a run printed: its recording as lines, from a place on, also while it grows.
//!
//! Invariant: nothing of a recording is left out. A line begins anew at a carriage return, as on a terminal, but what
//! stood there before stays a line of its own.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use engine::Engine;
use engine::ops::log::LogRequest;
use serde_json::{Value, json};

use super::super::request::Cursor;
use super::super::text::Text;
use crate::error::{CliError, Result};
use crate::render::transcript::{is_cast, output_of, without_colours};

/// Most bytes of a recording in one answer, where no line is longer.
const AT_ONCE: u64 = 1 << 20;

/// How long to wait for something new, and how often to look.
const PATIENCE: Duration = Duration::from_millis(1000);
const LOOK: Duration = Duration::from_millis(40);

/// The lines of a run's recording after `from`.
pub(super) fn output(
    engine: &Engine,
    dir: &Path,
    lane: String,
    run: i64,
    from: Cursor,
    wait: bool,
) -> Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    let request = LogRequest { dir: dir.to_owned(), lane: Some(lane), ..LogRequest::default() };
    loop {
        let runs = engine::ops::log::runs(engine, &request)?;
        let missing = || CliError::Missing(format!("lane {} has no run {run}", runs.lane));
        let view = runs.runs.iter().find(|view| view.id == run).ok_or_else(missing)?;
        let piece = match &view.transcript {
            Some(path) => read(path, from).map_err(|error| CliError::Unreadable(path.clone(), error))?,
            None => Piece { next: from, ..Piece::default() },
        };
        // The end of the run was asked for before its recording was read: nothing can come after both.
        let is_over = view.exit.is_some() && !piece.more;
        if piece.next != from || is_over || !wait || Instant::now() >= deadline {
            return Ok(json!({
                "lines": piece.lines.iter().map(|line| Text::content(line)).collect::<Vec<_>>(),
                "rest": if is_over { None } else { piece.rest.as_deref().map(Text::content) },
                "last": if is_over { piece.rest.as_deref().map(Text::content) } else { None },
                "next": piece.next, "cast": piece.cast, "over": is_over, "end": view.exit.map(crate::render::report::exit),
            }));
        }
        std::thread::sleep(LOOK);
    }
}

/// Some lines of a recording.
#[derive(Debug, Default, PartialEq, Eq)]
struct Piece {
    lines: Vec<Vec<u8>>,
    /// What came after the last whole line.
    rest: Option<Vec<u8>>,
    next: Cursor,
    /// There is more already.
    more: bool,
    /// It was printed on a terminal.
    cast: bool,
}

fn read(path: &Path, from: Cursor) -> std::io::Result<Piece> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        // A recording begins with the first byte.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Piece { next: from, ..Piece::default() });
        }
        Err(error) => return Err(error),
    };
    let mut head = [0; 64];
    let got = file.read(&mut head)?;
    let cast = is_cast(&head[..got]);
    let mut amount = AT_ONCE;
    loop {
        file.seek(SeekFrom::Start(from.at))?;
        let mut bytes = Vec::new();
        (&file).take(amount).read_to_end(&mut bytes)?;
        let piece = cut(&bytes, cast, from, bytes.len() as u64 == amount);
        // A line that is longer than a piece is taken whole.
        if piece.next != from || !piece.more {
            return Ok(piece);
        }
        amount *= 4;
    }
}

/// Cuts bytes of a recording into lines. An entry is a line of a cast, or, of what is recorded as it is, a byte.
fn cut(bytes: &[u8], cast: bool, from: Cursor, more: bool) -> Piece {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut line: Vec<u8> = Vec::new();
    // Where the line that is not whole yet begins, and how many lines ended before it in that entry.
    let mut start = Cursor { at: from.at, skip: 0 };
    let mut was_return = false;
    let mut at = from.at;
    let mut take = |entry: &[u8], entry_at: u64, per_byte: bool| {
        let mut ended = 0;
        for (index, byte) in entry.iter().enumerate() {
            let here = if per_byte { entry_at + index as u64 } else { entry_at };
            if was_return {
                was_return = false;
                // Both bytes of `\r\n` are one ending.
                lines.push(std::mem::take(&mut line));
                ended += 1;
                let after = if *byte == b'\n' { 1 } else { 0 };
                start = if per_byte {
                    Cursor { at: here + after, skip: 0 }
                } else {
                    Cursor { at: here, skip: ended }
                };
                if *byte == b'\n' {
                    continue;
                }
            }
            match byte {
                b'\r' => was_return = true,
                b'\n' => {
                    lines.push(std::mem::take(&mut line));
                    ended += 1;
                    start = if per_byte {
                        Cursor { at: here + 1, skip: 0 }
                    } else {
                        Cursor { at: here, skip: ended }
                    };
                }
                byte => line.push(*byte),
            }
        }
    };
    if cast {
        for entry in bytes.split_inclusive(|byte| *byte == b'\n') {
            // An entry that is being written is not there yet.
            if entry.last() == Some(&b'\n') {
                if let Some(output) = output_of(entry) {
                    take(&output, at, false);
                }
                at += entry.len() as u64;
            }
        }
    } else {
        take(bytes, at, true);
        at += bytes.len() as u64;
    }
    let is_whole = line.is_empty() && !was_return;
    let next = if is_whole { Cursor { at, skip: 0 } } else { start };
    let skip = from.skip.min(lines.len());
    let lines = lines.split_off(skip).iter().map(|line| without_colours(line)).collect();
    Piece { lines, rest: (!is_whole).then(|| without_colours(&line)), next, more, cast }
}

/// The last line that says something.
pub(super) fn last_line(path: &Path) -> Option<Text> {
    const TAIL: u64 = 16 << 10;
    let mut file = File::open(path).ok()?;
    let mut head = [0; 64];
    let got = file.read(&mut head).ok()?;
    let cast = is_cast(&head[..got]);
    let size = file.metadata().ok()?.len();
    let start = size.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    if start > 0 {
        let whole = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        bytes.drain(..whole);
    }
    let piece = cut(&bytes, cast, Cursor::default(), false);
    let says =
        |line: &Vec<u8>| line.iter().any(|byte| !byte.is_ascii_whitespace() && !byte.is_ascii_control());
    let line = piece.lines.into_iter().chain(piece.rest).rfind(says)?;
    Some(Text::content(&line))
}

#[cfg(test)]
mod tests {
    use super::{Cursor, cut};

    fn entry(text: &str) -> Vec<u8> {
        let mut line = serde_json::json!([0.5, "o", text]).to_string().into_bytes();
        line.push(b'\n');
        line
    }

    /// Reads a growing recording piece by piece, as the page does.
    fn follow(pieces: &[Vec<u8>], cast: bool) -> (Vec<String>, Option<String>) {
        let (mut all, mut cursor, mut shown, mut rest) = (Vec::new(), Cursor::default(), Vec::new(), None);
        for piece in pieces {
            all.extend_from_slice(piece);
            let from = usize::try_from(cursor.at).expect("small");
            let got = cut(&all[from..], cast, cursor, false);
            shown.extend(got.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()));
            rest = got.rest.map(|rest| String::from_utf8_lossy(&rest).into_owned());
            cursor = got.next;
        }
        (shown, rest)
    }

    #[test]
    fn a_cast_that_grows_gives_each_line_once_wherever_it_is_cut() {
        let head = b"{\"version\": 2, \"width\": 80, \"height\": 24}\n".to_vec();
        let pieces = [head, entry("one\r\ntw"), entry("o\r\nthr"), entry("ee\r"), entry("\nfour\rfive")];
        let (shown, rest) = follow(&pieces, true);
        assert_eq!(shown, ["one", "two", "three", "four"]);
        assert_eq!(rest.as_deref(), Some("five"));
        let whole: Vec<u8> = pieces.concat();
        for at in 0..whole.len() {
            let (again, rest) = follow(&[whole[..at].to_vec(), whole[at..].to_vec()], true);
            assert_eq!((again, rest.as_deref()), (shown.clone(), Some("five")), "cut at {at}");
        }
    }

    #[test]
    fn raw_output_that_grows_gives_each_line_once_wherever_it_is_cut() {
        let whole = b"a\r\nb\x1b[31mc\x1b[0m\n10%\r20%\r\nrest".to_vec();
        for at in 0..whole.len() {
            let (shown, rest) = follow(&[whole[..at].to_vec(), whole[at..].to_vec()], false);
            assert_eq!(shown, ["a", "bc", "10%", "20%"], "cut at {at}");
            assert_eq!(rest.as_deref(), Some("rest"));
        }
    }

    #[test]
    fn a_torn_entry_waits_until_it_is_whole() {
        let whole = entry("line\n");
        let piece = cut(&whole[..whole.len() - 3], true, Cursor::default(), false);
        assert_eq!((piece.lines.len(), piece.next), (0, Cursor::default()));
    }
}
