//! Text for the page: what [`crate::escape`] made fit to be shown, with what it escaped kept apart, so that the page
//! can draw a box around it.
//!
//! Invariant: none of the strings holds a character that steers or hides anything; the page needs no rules of its own.

use serde::Serialize;

use crate::escape::{self, Kind, Shown};

/// Shown text: one string, or plain and escaped parts in turn, beginning with a plain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Text {
    /// Nothing was escaped.
    Plain(String),
    /// Plain, escaped, plain, …
    Parts(Vec<String>),
}

impl Text {
    /// A name, path, target, message or command on one line.
    pub(super) fn name(bytes: impl AsRef<[u8]>) -> Text {
        // The box tells an escape from the same letters; the doubled backslash need not.
        let single = |part: String| part.replace(r"\\", r"\");
        match Text::of(escape::escape(bytes.as_ref(), Kind::Name)) {
            Text::Plain(text) => Text::Plain(single(text)),
            Text::Parts(parts) => {
                let each = parts.into_iter().enumerate();
                Text::Parts(each.map(|(at, part)| if at % 2 == 0 { single(part) } else { part }).collect())
            }
        }
    }

    /// One line of content or output.
    pub(super) fn content(bytes: &[u8]) -> Text {
        Text::of(escape::escape(bytes, Kind::Content))
    }

    /// A host path.
    pub(super) fn path(path: &std::path::Path) -> Text {
        use std::os::unix::ffi::OsStrExt as _;
        Text::name(path.as_os_str().as_bytes())
    }

    /// From shown text.
    pub(super) fn of(shown: Shown) -> Text {
        if shown.marks.is_empty() {
            return Text::Plain(shown.text);
        }
        let mut parts = Vec::with_capacity(shown.marks.len() * 2 + 1);
        let mut at = 0;
        for mark in shown.marks {
            parts.push(shown.text[at..mark.start].to_owned());
            parts.push(shown.text[mark.clone()].to_owned());
            at = mark.end;
        }
        parts.push(shown.text[at..].to_owned());
        Text::Parts(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn escaped_parts_stand_at_odd_places() {
        let parts = |list: &[&str]| Text::Parts(list.iter().map(|part| (*part).to_owned()).collect());
        assert_eq!(Text::name("plain <b>"), Text::Plain("plain <b>".to_owned()));
        assert_eq!(Text::name("a\x1b\u{202e}b"), parts(&["a", r"\x1b\u{202e}", "b"]));
        assert_eq!(Text::name(r"a\x1b\\c"), Text::Plain(r"a\x1b\\c".to_owned()));
        assert_eq!(Text::name(b"a\\\x1b"), parts(&["a\\", r"\x1b", ""]));
        assert_eq!(Text::name("\u{200b}"), parts(&["", r"\u{200b}", ""]));
        assert_eq!(Text::content(b"\tx\xff"), parts(&["\tx", r"\xff", ""]));
    }
}
