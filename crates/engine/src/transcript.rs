//! The recording of what a run printed, outside the lane: an asciicast file where it had a terminal, plain
//! bytes where it had pipes.
//!
//! Invariants: a recording never grows past its limit (what is left out is said in it), and a recording that
//! cannot be written never ends a run. Format: asciicast v2, one JSON value a line.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandbox::supervise::Tape;

/// Most bytes in one recording, but for the last piece of output.
pub const LIMIT: u64 = 16 << 20;

/// A recording in progress.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    file: Option<File>,
    began: Instant,
    cast: bool,
    started: bool,
    size: (u16, u16),
    /// Bytes in the file.
    taken: u64,
    /// The limit is reached, and said.
    full: bool,
    /// Bytes of a character that is not whole yet.
    partial: Vec<u8>,
}

impl Transcript {
    /// Starts a recording at `path`; the file is made with the first output. `None` records nothing.
    pub fn new(path: Option<&Path>, cast: bool) -> Transcript {
        let file = path.and_then(|path| File::create(path).ok());
        Transcript {
            path: path.map(Path::to_path_buf).unwrap_or_default(),
            file,
            began: Instant::now(),
            cast,
            started: false,
            size: (80, 24),
            taken: 0,
            full: false,
            partial: Vec::new(),
        }
    }

    /// Writes out what is pending; an empty recording is removed. The path, where something was recorded.
    pub fn finish(mut self) -> Option<PathBuf> {
        if !self.partial.is_empty() {
            let rest = std::mem::take(&mut self.partial);
            self.event("o", &String::from_utf8_lossy(&rest));
        }
        self.file.take()?;
        if self.taken == 0 {
            let _ = std::fs::remove_file(&self.path);
            return None;
        }
        Some(self.path)
    }

    fn event(&mut self, kind: &str, text: &str) {
        let mut lines = String::new();
        if !self.started {
            self.started = true;
            let (width, height) = self.size;
            lines = format!("{}\n", serde_json::json!({ "version": 2, "width": width, "height": height }));
        }
        let at = self.began.elapsed().as_secs_f64();
        lines.push_str(&serde_json::json!([at, kind, text]).to_string());
        lines.push('\n');
        self.write(lines.as_bytes());
    }

    /// One write for each piece, so that the recording of a run that goes on can be read.
    fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file {
            self.taken += bytes.len() as u64;
            let _ = file.write_all(bytes);
        }
    }
}

impl Tape for Transcript {
    fn output(&mut self, bytes: &[u8]) {
        if self.file.is_none() || self.full {
            return;
        }
        if self.cast {
            self.partial.extend_from_slice(bytes);
            // Text is passed on up to the last whole character; invalid bytes become replacement characters.
            let whole = match std::str::from_utf8(&self.partial) {
                Ok(_) => self.partial.len(),
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Err(_) => self.partial.len(),
            };
            let rest = self.partial.split_off(whole);
            let text = String::from_utf8_lossy(&std::mem::replace(&mut self.partial, rest)).into_owned();
            self.event("o", &text);
        } else {
            self.write(bytes);
        }
        if self.taken > LIMIT {
            self.full = true;
            self.partial.clear();
            if self.cast {
                self.event("o", "\r\n[the recording ends here: it has reached its limit]\r\n");
            } else {
                self.write(b"\n[the recording ends here: it has reached its limit]\n");
            }
        }
    }

    fn resized(&mut self, columns: u16, rows: u16) {
        self.size = (columns, rows);
        if self.started && self.cast && !self.full {
            self.event("r", &format!("{columns}x{rows}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(cast: bool, parts: &[&[u8]]) -> Option<String> {
        let path = std::env::temp_dir().join(format!("lane-transcript-{}", crate::clock::new_id()));
        let mut tape = Transcript::new(Some(&path), cast);
        parts.iter().for_each(|part| tape.output(part));
        let made = tape.finish()?;
        let text = std::fs::read_to_string(&made).expect("utf-8");
        std::fs::remove_file(made).expect("removed");
        Some(text)
    }

    #[test]
    fn a_character_that_arrives_in_two_pieces_stays_whole() {
        let text = recorded(true, &[b"caf\xc3", b"\xa9!"]).expect("recorded");
        let all: String = text
            .lines()
            .skip(1)
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).expect("json")[2]
                    .as_str()
                    .expect("text")
                    .to_owned()
            })
            .collect();
        assert_eq!(all, "café!");
    }

    #[test]
    fn a_recording_stops_at_its_limit_and_says_so() {
        let chunk = vec![b'x'; 1 << 20];
        let parts: Vec<&[u8]> = (0..20).map(|_| chunk.as_slice()).collect();
        let text = recorded(false, &parts).expect("recorded");
        assert!(text.len() as u64 <= LIMIT + (1 << 20) + 100);
        assert!(text.ends_with("it has reached its limit]\n"));
    }

    #[test]
    fn nothing_printed_leaves_no_file() {
        assert_eq!(recorded(false, &[]), None);
    }
}
