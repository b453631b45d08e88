//! [`Needles`]: whether content holds the value of a secret, told without having the value at hand.
//!
//! A value is looked for as it is, and in the forms that programs give it: base 64 in both alphabets at each of the three
//! places where it can begin, hexadecimal, escaped for a URL or for JSON, and line by line where it has long lines. Of each
//! form a number of its first bytes (a rolling sum under a secret key) and a keyed BLAKE3 of the whole are kept: the
//! first finds candidates in one pass, the second tells whether they are it. The values themselves are kept nowhere.
//!
//! Invariant: what is found is the whole of a form; a part of a value, or a form that is not in the list (compressed,
//! encrypted, turned round), is not found. Pure but for reading. The digests lie under a key that lies beside them: they hide a long random
//! value, and not a short word from somebody who tries all words.

use std::collections::HashMap;
use std::io::Read;

use serde::{Deserialize, Serialize};

/// A value that is shorter than this is not looked for: it would be found everywhere.
pub const SHORTEST: usize = 6;
/// Lines of a value that are at least so long are looked for by themselves.
const LONG_LINE: usize = 20;
/// How many of a form's first bytes make its rolling sum, where it has so many.
const WINDOW: usize = 16;
/// The modulus of rolling sums: 2^61 - 1.
const MODULUS: u64 = (1 << 61) - 1;
/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// One form of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Form {
    /// Name of the secret.
    name: String,
    /// Bytes of the form.
    length: usize,
    /// Rolling sum of its first bytes.
    sum: u64,
    /// Keyed BLAKE3 of all of it, in hexadecimal.
    digest: String,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needles {
    /// Key of the digests, in hexadecimal; the base of the rolling sums comes from it.
    key: String,
    forms: Vec<Form>,
}

impl Needles {
    /// None yet, under a key of 32 random bytes in hexadecimal.
    pub fn new(key: String) -> Needles {
        Needles { key, forms: Vec::new() }
    }

    /// True where nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Looks for a value too. False where it is too short to be looked for.
    pub fn add(&mut self, name: &str, value: &[u8]) -> bool {
        let value = value.trim_ascii();
        if value.len() < SHORTEST {
            return false;
        }
        let mut forms = forms_of(value);
        if value.contains(&b'\n') {
            let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            // Heads of keys are no secret.
            lines.filter(|line| line.len() >= LONG_LINE && !line.starts_with(b"-----")).for_each(|line| {
                forms.push(line.to_vec());
            });
        }
        forms.sort();
        forms.dedup();
        let (base, key) = (self.base(), self.digest_key());
        for form in forms.into_iter().filter(|form| form.len() >= SHORTEST) {
            let sum = form[..form.len().min(WINDOW)].iter().fold(0, |sum, byte| push(sum, base, *byte));
            let digest = blake3::keyed_hash(&key, &form).to_hex().to_string();
            let form = Form { name: name.to_owned(), length: form.len(), sum, digest };
            if !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        true
    }

    fn digest_key(&self) -> [u8; 32] {
        *blake3::hash(self.key.as_bytes()).as_bytes()
    }

    fn base(&self) -> u64 {
        let bytes = blake3::hash(format!("base {}", self.key).as_bytes());
        let (eight, _) = bytes.as_bytes().split_first_chunk::<8>().unwrap_or((&[1; 8], &[]));
        u64::from_le_bytes(*eight) % (MODULUS - 512) + 256
    }

    /// The name of a secret whose value is in these bytes.
    pub fn in_bytes(&self, bytes: &[u8]) -> Option<&str> {
        self.finder().find(bytes)
    }

    /// The name of a secret whose value is in what is read.
    pub fn in_content(&self, mut content: impl Read) -> std::io::Result<Option<&str>> {
        let finder = self.finder();
        let longest = self.forms.iter().map(|form| form.length).max().unwrap_or(0);
        let mut held: Vec<u8> = Vec::with_capacity(CHUNK + longest);
        let mut buffer = vec![0; CHUNK];
        loop {
            let got = match content.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if got == 0 {
                return Ok(None);
            }
            held.extend_from_slice(&buffer[..got]);
            if let Some(name) = finder.find(&held) {
                return Ok(Some(name));
            }
            // What may be the beginning of one that goes on in the next piece.
            let keep = held.len().min(longest.saturating_sub(1));
            held.drain(..held.len() - keep);
        }
    }

    fn finder(&self) -> Finder<'_> {
        let mut by_window: HashMap<usize, HashMap<u64, Vec<&Form>>> = HashMap::new();
        for form in &self.forms {
            let window = form.length.min(WINDOW);
            by_window.entry(window).or_default().entry(form.sum).or_default().push(form);
        }
        Finder { by_window, base: self.base(), key: self.digest_key() }
    }
}

/// The needles, sorted by the length of their windows.
struct Finder<'n> {
    by_window: HashMap<usize, HashMap<u64, Vec<&'n Form>>>,
    base: u64,
    key: [u8; 32],
}

impl<'n> Finder<'n> {
    fn find(&self, bytes: &[u8]) -> Option<&'n str> {
        self.by_window.iter().find_map(|(window, sums)| self.find_in(bytes, *window, sums))
    }

    fn find_in(&self, bytes: &[u8], window: usize, sums: &HashMap<u64, Vec<&'n Form>>) -> Option<&'n str> {
        if bytes.len() < window {
            return None;
        }
        // What the byte that leaves the window weighs.
        let weight = (1..window).fold(1, |weight, _| multiply(weight, self.base));
        let mut sum = bytes[..window].iter().fold(0, |sum, byte| push(sum, self.base, *byte));
        for at in 0.. {
            if let Some(forms) = sums.get(&sum) {
                for form in forms {
                    let whole = bytes.get(at..at + form.length);
                    if whole.is_some_and(|whole| {
                        blake3::keyed_hash(&self.key, whole).to_hex().as_str() == form.digest
                    }) {
                        return Some(&form.name);
                    }
                }
            }
            let Some(next) = bytes.get(at + window) else { break };
            let gone = multiply(weight, u64::from(bytes[at]) + 1);
            sum = push((sum + MODULUS - gone) % MODULUS, self.base, *next);
        }
        None
    }
}

fn multiply(one: u64, other: u64) -> u64 {
    (u128::from(one) * u128::from(other) % u128::from(MODULUS)) as u64
}

fn push(sum: u64, base: u64, byte: u8) -> u64 {
    (multiply(sum, base) + u64::from(byte) + 1) % MODULUS
}

/// A value in every form that is looked for.
fn forms_of(value: &[u8]) -> Vec<Vec<u8>> {
    let hex = |digits: &[u8; 16]| -> Vec<u8> {
        value
            .iter()
            .flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]])
            .collect()
    };
    let mut forms = vec![value.to_vec(), hex(b"0123456789abcdef"), hex(b"0123456789ABCDEF")];
    for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
        forms.push(
            value
                .iter()
                .flat_map(|byte| match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => vec![*byte],
                    byte => vec![b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]],
                })
                .collect(),
        );
    }
    if let Ok(text) = std::str::from_utf8(value)
        && let Ok(json) = serde_json::to_string(text)
    {
        forms.push(json.as_bytes()[1..json.len() - 1].to_vec());
    }
    for last in [b"+/", b"-_"] {
        for before in 0..3 {
            forms.push(base64(value, before, last));
        }
    }
    forms
}

/// What base 64 makes of a value that stands behind `before` other bytes, without the characters at both ends that others
/// have a part in.
fn base64(value: &[u8], before: usize, last: &[u8; 2]) -> Vec<u8> {
    let alphabet = |six: u8| match six {
        0..26 => b'A' + six,
        26..52 => b'a' + six - 26,
        52..62 => b'0' + six - 52,
        62 => last[0],
        _ => last[1],
    };
    let mut bits = vec![0u8; before];
    bits.extend_from_slice(value);
    let mut all = Vec::with_capacity(bits.len() * 4 / 3 + 4);
    for three in bits.chunks(3) {
        let word =
            three.iter().enumerate().fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        all.extend((0..=three.len()).map(|at| alphabet((word >> (18 - 6 * at) & 63) as u8)));
    }
    // Of the last group of one or two bytes, the last character also holds what follows.
    let ragged = usize::from(!bits.len().is_multiple_of(3));
    let from = (before * 8).div_ceil(6);
    all.get(from..all.len() - ragged).map(<[u8]>::to_vec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{CHUNK, Needles};

    const VALUE: &[u8] = b"s3cr3t/Value+with \"quotes\" & \xc3\xa4";

    fn needles() -> Needles {
        let mut needles = Needles::new("00ff".repeat(16));
        assert!(needles.add("TOKEN", VALUE));
        needles
    }

    /// Plain base 64, by the book.
    fn base64(bytes: &[u8]) -> Vec<u8> {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = Vec::new();
        for three in bytes.chunks(3) {
            let mut word = [0u8; 3];
            word[..three.len()].copy_from_slice(three);
            let word = u32::from_be_bytes([0, word[0], word[1], word[2]]);
            for at in 0..4 {
                let six = (word >> (18 - 6 * at)) & 63;
                out.push(if at <= three.len() { alphabet[six as usize] } else { b'=' });
            }
        }
        out
    }

    #[test]
    fn every_form_is_found_wherever_it_stands_and_nothing_else_is() {
        let needles = needles();
        let text = std::str::from_utf8(VALUE).expect("text");
        let hex: String = VALUE.iter().map(|byte| format!("{byte:02x}")).collect();
        let url: String = VALUE
            .iter()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(*byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect();
        let json = serde_json::json!({ "token": format!("Bearer {text}!") }).to_string();
        let mut all: Vec<Vec<u8>> =
            vec![VALUE.to_vec(), hex.to_uppercase().into(), hex.into(), url.into(), json.into()];
        for before in 0..5 {
            let mut with = vec![b'u'; before];
            with.extend_from_slice(VALUE);
            with.extend_from_slice(b" and more");
            all.push(base64(&with));
            let safe = base64(&with)
                .iter()
                .map(|c| match c {
                    b'+' => b'-',
                    b'/' => b'_',
                    c => *c,
                })
                .collect();
            all.push(safe);
        }
        for form in all {
            for before in [0, 1, 15, 16, 17, CHUNK - 3, CHUNK, 2 * CHUNK - 20] {
                let mut content = vec![b'x'; before];
                content.extend_from_slice(&form);
                content.extend_from_slice(b"tail");
                let found = needles.in_content(content.as_slice()).expect("read");
                assert_eq!(found, Some("TOKEN"), "{} at {before}", form.escape_ascii());
            }
        }
        for other in [&VALUE[1..], &VALUE[..VALUE.len() - 1], b"", b"s3cr3t", b"xxxxxxxxxxxxxxxxxxxxxxxxxxx"]
        {
            assert_eq!(needles.in_bytes(other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn a_key_of_several_lines_is_found_by_any_of_them_but_not_by_its_head() {
        let mut needles = Needles::new("ab".repeat(32));
        let key = b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n";
        assert!(needles.add("KEY", key));
        assert_eq!(needles.in_bytes(b"x = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC'"), Some("KEY"));
        assert_eq!(needles.in_bytes(b"-----BEGIN PRIVATE KEY-----"), None);
        assert!(!needles.add("PIN", b"1234\n"), "too short to be looked for");
    }

    #[test]
    fn what_is_written_down_holds_no_value_and_comes_back_the_same() {
        let needles = needles();
        let text = serde_json::to_string(&needles).expect("text");
        assert!(!text.contains("s3cr3t") && !text.contains("quotes"), "{text}");
        let back: Needles = serde_json::from_str(&text).expect("read");
        assert_eq!(back, needles);
        assert_eq!(back.in_bytes(VALUE), Some("TOKEN"));
    }

    #[test]
    fn a_reader_that_gives_a_byte_at_a_time_is_searched_all_the_same() {
        struct Slow<'b>(&'b [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
                (buffer[0], self.0) = (*first, rest);
                Ok(1)
            }
        }
        let content = [b"before ".as_slice(), VALUE, b" behind"].concat();
        assert_eq!(needles().in_content(Slow(&content)).expect("read"), Some("TOKEN"));
    }
}
