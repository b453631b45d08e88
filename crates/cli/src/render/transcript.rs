//! A recording as plain lines: an asciicast file, or raw bytes where a run had no terminal.
//!
//! Colours (SGR sequences) are dropped and `\r\n` ends a line; everything else that a program sent
//! to its terminal comes out as it is and has to be escaped by the caller.

/// Turns the lines of a recording into lines of output.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pending: Vec<u8>,
    format: Format,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Format {
    /// The first line decides.
    #[default]
    Unknown,
    /// Output events as JSON arrays, one a line.
    Asciicast,
    /// What was printed, as it is.
    Raw,
}

impl Reader {
    /// Takes one line of the file, without its newline.
    pub(crate) fn take(&mut self, line: &[u8]) {
        if self.format == Format::Unknown {
            self.format = if is_cast(line) { Format::Asciicast } else { Format::Raw };
            if self.format == Format::Asciicast {
                return;
            }
        }
        if self.format == Format::Raw {
            self.pending.extend_from_slice(line);
            self.pending.push(b'\n');
            return;
        }
        if let Some(output) = output_of(line) {
            self.pending.extend_from_slice(&output);
        }
    }

    /// The next whole line of output.
    pub(crate) fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending.iter().position(|b| *b == b'\n')?;
        let mut line: Vec<u8> = self.pending.drain(..=end).collect();
        line.pop();
        while line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(without_colours(&line))
    }

    /// What is left without a newline.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.pending);
        if rest.is_empty() { None } else { Some(without_colours(&rest)) }
    }
}

/// True where a recording that begins with these bytes is an asciicast file.
pub(crate) fn is_cast(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    head.is_some_and(|head| head.get("version").is_some_and(serde_json::Value::is_u64))
}

/// What a line of an asciicast file says that was printed: an event is [time, code, data], and a line that was
/// cut off by a crash is no event.
pub(crate) fn output_of(line: &[u8]) -> Option<Vec<u8>> {
    let (_, code, data) = serde_json::from_slice::<(f64, String, String)>(line).ok()?;
    (code == "o").then(|| data.into_bytes())
}

/// The line without SGR sequences.
pub(crate) fn without_colours(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(inner) = rest.strip_prefix(b"\x1b[") {
            let end = inner.iter().position(|b| !b.is_ascii_digit() && !matches!(b, b';' | b':'));
            if let Some(end) = end.filter(|end| inner[*end] == b'm') {
                rest = &inner[end + 1..];
                continue;
            }
        }
        out.push(byte);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Reader;

    fn lines(file: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut reader = Reader::default();
        let mut lines = Vec::new();
        for line in file {
            reader.take(line);
            while let Some(line) = reader.next_line() {
                lines.push(line);
            }
        }
        lines.extend(reader.rest());
        lines
    }

    #[test]
    fn output_events_become_lines_and_a_torn_one_is_left_out() {
        let cast: [&[u8]; 5] = [
            br#"{"version": 2, "width": 80, "height": 24}"#,
            br#"[0.1, "o", "\u001b[32mhel"]"#,
            br#"[0.2, "i", "typed"]"#,
            br#"[0.3, "o", "lo\u001b[0m\r\nrest"]"#,
            br#"[0.4, "o", "tor"#,
        ];
        assert_eq!(lines(&cast), [b"hello".to_vec(), b"rest".to_vec()]);
    }

    #[test]
    fn raw_output_stays_as_it_is_but_for_colours() {
        assert_eq!(lines(&[b"a\x1b[1;31mb\x1b[2J"]), [b"ab\x1b[2J".to_vec()]);
    }
}
