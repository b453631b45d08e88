//! Git's base 85 and the line form of `GIT binary patch`: each line holds a letter for its length
//! (A–Z are 1–26 bytes, a–z are 27–52) and then groups of five characters for four bytes.
//! The alphabet is git's own (`base85.c`), not that of RFC 1924 tools with other padding.

use std::io::{self, Write};

const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Bytes on a full line.
const LINE: usize = 52;

/// Writes what it is given as lines of base 85.
pub(crate) struct Lines<W: Write> {
    out: W,
    pending: Vec<u8>,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: W) -> Lines<W> {
        Lines { out, pending: Vec::with_capacity(LINE) }
    }

    /// Writes the last, short line and gives the writer back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.pending.is_empty() {
            self.line()?;
        }
        Ok(self.out)
    }

    fn line(&mut self) -> io::Result<()> {
        let len = self.pending.len();
        let mut text = Vec::with_capacity(2 + LINE / 4 * 5);
        // `len` is 1..=52 here, so both sums stay inside ASCII.
        text.push(if len <= 26 { b'A' + (len as u8 - 1) } else { b'a' + (len as u8 - 27) });
        for group in self.pending.chunks(4) {
            let mut four = [0; 4];
            four[..group.len()].copy_from_slice(group);
            let mut value = u32::from_be_bytes(four);
            let mut five = [0; 5];
            for digit in five.iter_mut().rev() {
                *digit = ALPHABET[(value % 85) as usize];
                value /= 85;
            }
            text.extend_from_slice(&five);
        }
        text.push(b'\n');
        self.pending.clear();
        self.out.write_all(&text)
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(LINE - self.pending.len());
        self.pending.extend_from_slice(&bytes[..take]);
        if self.pending.len() == LINE {
            self.line()?;
        }
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::Lines;

    #[test]
    fn an_empty_zlib_stream_reads_as_git_writes_it() {
        let mut lines = Lines::new(Vec::new());
        lines.write_all(&[0x78, 0x01, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01]).expect("in memory");
        assert_eq!(lines.finish().expect("in memory"), b"HcmV?d00001\n");
    }
}
