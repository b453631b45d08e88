//! The one function that untrusted text passes before a person sees it: names, link targets, file
//! content, commands, messages. Whatever came from a lane may try to drive the terminal or to make
//! text read differently than it is.
//!
//! Invariant: what comes out holds no C0 but, in content, the tab; no DEL, no C1, no bidirectional
//! control, nothing invisible, and is valid UTF-8. A name's form is reversible: every backslash in
//! the output begins an escape. Width is that of the output.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// Text that is fit to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The text.
    pub(crate) text: String,
    /// Terminal columns of it (a tab counts as one).
    pub(crate) width: usize,
    /// True where something had to be escaped.
    pub(crate) flagged: bool,
    /// Where the escapes stand in the text; neighbours are one.
    pub(crate) marks: Vec<std::ops::Range<usize>>,
}

/// What kind of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name, path, target or message on one line: nothing passes, and a backslash is doubled.
    Name,
    /// One line of content: the tab passes, and a backslash stands for itself.
    Content,
}

/// Makes bytes fit to be shown.
pub(crate) fn escape(bytes: &[u8], kind: Kind) -> Shown {
    let mut shown =
        Shown { text: String::with_capacity(bytes.len()), width: 0, flagged: false, marks: Vec::new() };
    let last = bytes.len().saturating_sub(1);
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            // A space at either end of a name is seen by nobody.
            let edge = c == ' ' && kind == Kind::Name && (at == 0 || at == last);
            shown.push(c, kind, edge);
            at += c.len_utf8();
        }
        for byte in chunk.invalid() {
            shown.escaped(format_args!("\\x{byte:02x}"));
            at += 1;
        }
    }
    shown
}

/// A name, path, target or message, fit to be shown.
pub(crate) fn name(bytes: impl AsRef<[u8]>) -> String {
    escape(bytes.as_ref(), Kind::Name).text
}

impl Shown {
    fn push(&mut self, c: char, kind: Kind, edge: bool) {
        match c {
            '\t' if kind == Kind::Content => {
                self.text.push('\t');
                self.width += 1;
            }
            '\\' if kind == Kind::Name => {
                self.text.push_str("\\\\");
                self.width += 2;
            }
            '\n' => self.escaped(format_args!("\\n")),
            '\r' => self.escaped(format_args!("\\r")),
            '\t' => self.escaped(format_args!("\\t")),
            c if edge || c.is_ascii_control() => self.escaped(format_args!("\\x{:02x}", u32::from(c))),
            c if is_hostile(c) => self.escaped(format_args!("\\u{{{:x}}}", u32::from(c))),
            c => {
                self.text.push(c);
                self.width += c.width().unwrap_or(0);
            }
        }
    }

    fn escaped(&mut self, what: std::fmt::Arguments<'_>) {
        let before = self.text.len();
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(what);
        self.width += self.text.len() - before;
        self.flagged = true;
        self.mark(before);
    }

    /// What was added from `from` on stands for something else.
    fn mark(&mut self, from: usize) {
        match self.marks.last_mut() {
            Some(last) if last.end == from => last.end = self.text.len(),
            _ => self.marks.push(from..self.text.len()),
        }
    }

    /// The carriage return of a line's own ending: seen, so that two endings differ, and no reason for a flag.
    pub(crate) fn push_return(&mut self) {
        let before = self.text.len();
        self.text.push_str("\\r");
        self.width += 2;
        self.mark(before);
    }
}

/// Characters that steer a terminal, reorder text or cannot be seen.
pub(crate) fn is_hostile(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Soft hyphen, combining grapheme joiner, Arabic letter mark, Hangul and Khmer fillers.
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        // Mongolian selectors and vowel separator.
        | '\u{180b}'..='\u{180f}'
        // Zero width, marks, line and paragraph separators, embeddings, isolates, invisible operators.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        // Braille blank, Hangul filler, selectors without a picture to select, byte order mark.
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
        // Annotation marks, musical format controls, tags, further selectors.
        | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The same JSON text with every hostile character as a `\u` escape. Such a character can only
/// stand inside a string there, so that the meaning stays.
pub(crate) fn json(text: &str) -> String {
    if text.is_ascii() && !text.contains('\u{7f}') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthChar as _;

    use super::{Kind, escape, is_hostile, json, name};

    #[test]
    fn terminal_sequences_and_bidi_controls_are_spelled_out() {
        assert_eq!(name(b"a\x1b]0;PWNED\x07\x1b[2Jb"), r"a\x1b]0;PWNED\x07\x1b[2Jb");
        assert_eq!(name(b"ok\r+ harmless"), r"ok\r+ harmless");
        assert_eq!(name("x\u{202e}txt.exe"), r"x\u{202e}txt.exe");
        assert_eq!(name("c1\u{9b}31m"), r"c1\u{9b}31m");
        assert_eq!(name(b"bad\xff"), r"bad\xff");
        assert_eq!(name(b"raw c1 \x9b"), r"raw c1 \x9b");
    }

    #[test]
    fn neighbouring_escapes_are_marked_as_one_and_a_doubled_backslash_is_not() {
        let shown = escape(b"a\x1b\xffb\\c\x07", Kind::Name);
        let marked: Vec<&str> = shown.marks.iter().map(|at| &shown.text[at.clone()]).collect();
        assert_eq!(marked, [r"\x1b\xff", r"\x07"]);
    }

    #[test]
    fn a_space_at_the_ends_of_a_name_is_seen() {
        assert_eq!(name(" lead"), r"\x20lead");
        assert_eq!(name("trail "), r"trail\x20");
        assert_eq!(name("in side"), "in side");
    }

    #[test]
    fn a_literal_escape_and_the_byte_that_it_names_look_different() {
        assert_ne!(name(b"\x1b"), name(br"\x1b"));
    }

    #[test]
    fn both_unicode_forms_and_wide_letters_pass_and_are_measured() {
        assert_eq!(name("caf\u{e9}"), "caf\u{e9}");
        assert_eq!(escape("cafe\u{301}".as_bytes(), Kind::Name).width, 4);
        assert_eq!(escape("日本".as_bytes(), Kind::Name).width, 4);
        assert_eq!(escape(b"\x1b", Kind::Name).width, 4);
    }

    #[test]
    fn json_with_hostile_characters_parses_to_the_same_value() {
        let value = serde_json::json!({"a": "x\u{202e}\u{9b}\u{7f}\u{e0041}\u{1b}é"});
        let text = json(&value.to_string());
        assert!(!text.chars().any(is_hostile), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("parses"), value);
    }

    fn unescape(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text;
        while let Some(cut) = rest.find('\\') {
            out.extend_from_slice(&rest.as_bytes()[..cut]);
            rest = &rest[cut + 1..];
            let taken = match rest.as_bytes()[0] {
                b'\\' => (out.push(b'\\'), 1).1,
                b'n' => (out.push(b'\n'), 1).1,
                b'r' => (out.push(b'\r'), 1).1,
                b't' => (out.push(b'\t'), 1).1,
                b'x' => (out.push(u8::from_str_radix(&rest[1..3], 16).expect("hex")), 3).1,
                b'u' => {
                    let end = rest.find('}').expect("closed");
                    let code = u32::from_str_radix(&rest[2..end], 16).expect("hex");
                    let c = char::from_u32(code).expect("a character");
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    end + 1
                }
                other => panic!("unknown escape {other}"),
            };
            rest = &rest[taken..];
        }
        out.extend_from_slice(rest.as_bytes());
        out
    }

    /// Bytes with many of the characters that matter.
    fn nasty() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<u8>().prop_map(|b| vec![b]),
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            prop::sample::select(vec![
                "\u{202e}",
                "\u{200b}",
                "\u{9b}",
                "\u{1b}[2J",
                "\\",
                "\\x1b",
                " ",
                "\t",
                "\n",
                "\r"
            ])
            .prop_map(|s| s.as_bytes().to_vec()),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn nothing_hostile_ever_comes_out(bytes in nasty()) {
            for kind in [Kind::Name, Kind::Content] {
                let shown = escape(&bytes, kind);
                for c in shown.text.chars() {
                    prop_assert!(!is_hostile(c) || (kind == Kind::Content && c == '\t'), "{:?}", shown.text);
                }
                let width: usize = shown.text.chars().map(|c| if c == '\t' { 1 } else { c.width().unwrap_or(0) }).sum();
                prop_assert_eq!(width, shown.width);
            }
        }

        #[test]
        fn a_shown_name_can_be_read_back(bytes in nasty()) {
            prop_assert_eq!(unescape(&name(&bytes)), bytes);
        }
    }
}
