//! What is taken out of a record before it is shown to others: values that look like tokens, and on request the names of homes.
//!
//! Values of secrets never reach the ledger; this is for what a program put on its own command line. Pure.

use std::path::Path;

use serde_json::Value;

/// What stands in the place of what was taken out.
pub const GONE: &str = "[redacted]";

/// Beginnings of tokens that their makers have made recognisable, with how many characters of a token follow at least.
const MARKED: [(&str, usize); 22] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xapp-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-", 30),
    ("hf_", 20),
    ("eyJ", 40),
];

/// Names whose value is taken out wherever it stands behind them: `NAME=value`, `NAME: value`, `--NAME value`.
const NAMES: [&str; 9] =
    ["token", "secret", "password", "passwd", "api_key", "api-key", "apikey", "authorization", "private_key"];

/// What to take out.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// Homes whose names are replaced by `~`, longest first.
    pub homes: Vec<String>,
}

impl Redaction {
    /// Tokens, and these homes.
    pub fn new(homes: &[&Path]) -> Redaction {
        let mut homes: Vec<String> =
            homes.iter().filter_map(|home| home.to_str().map(str::to_owned)).collect();
        homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        Redaction { homes }
    }

    /// A text without what is taken out.
    pub fn text(&self, text: &str) -> String {
        let mut out = without_tokens(text);
        for home in &self.homes {
            out = out.replace(home.as_str(), "~");
        }
        out
    }

    /// Bytes of a path or an argument.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(text).into_bytes(),
            Err(_) => bytes.to_vec(),
        }
    }

    /// Arguments: the one behind `--token` goes too.
    pub fn arguments(&self, argv: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut behind = false;
        argv.iter()
            .map(|arg| {
                let text = String::from_utf8_lossy(arg);
                let gone = std::mem::replace(
                    &mut behind,
                    text.starts_with("--") && !text.contains('=') && is_name(&text),
                );
                if gone && !text.starts_with('-') { GONE.as_bytes().to_vec() } else { self.bytes(arg) }
            })
            .collect()
    }

    /// Every text in a value; a list named `argv` is taken as arguments.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(all) => Value::Array(all.iter().map(|one| self.value(one)).collect()),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(name, value)| (name.clone(), self.field(name, value))).collect(),
            ),
            other => other.clone(),
        }
    }

    fn field(&self, name: &str, value: &Value) -> Value {
        let words: Option<Vec<Vec<u8>>> = (name == "argv").then(|| value.as_array()).flatten().map(|all| {
            all.iter().map(|word| word.as_str().unwrap_or_default().as_bytes().to_vec()).collect()
        });
        match words {
            Some(words) => self
                .arguments(&words)
                .iter()
                .map(|word| Value::String(String::from_utf8_lossy(word).into_owned()))
                .collect(),
            None => self.value(value),
        }
    }
}

fn is_name(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    NAMES.iter().any(|name| word.contains(name))
}

fn in_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/' | '=' | '~')
}

/// Word by word: a word that begins like a token, the value behind a telling name, and the word behind `Bearer`.
fn without_tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut bearer = false;
    while !rest.is_empty() {
        let word_len = rest.find(|c: char| !in_token(c)).unwrap_or(rest.len());
        if word_len == 0 {
            let c = rest.chars().next().unwrap_or_default();
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(word_len);
        let is_scheme = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        if bearer && !is_scheme {
            out.push_str(GONE);
            bearer = false;
        } else if let Some((name, value)) =
            word.split_once('=').filter(|(name, value)| is_name(name) && !value.is_empty())
        {
            let _ = value;
            out.push_str(name);
            out.push('=');
            out.push_str(GONE);
        } else {
            out.push_str(&without_marked(word));
            // `NAME: value`, `NAME= "value"`, `Bearer value`
            bearer = (is_scheme && after.starts_with(' '))
                || (is_name(word)
                    && (after.starts_with(": ") || after.starts_with(":") || word.ends_with('=')));
        }
        rest = after;
    }
    out
}

/// A word with every token in it taken out.
fn without_marked(word: &str) -> String {
    for (mark, least) in MARKED {
        if let Some(at) = word.find(mark)
            && word[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric())
        {
            let behind = &word[at + mark.len()..];
            let long = behind
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
                .unwrap_or(behind.len());
            if long >= least {
                return format!("{}{GONE}{}", &word[..at], without_marked(&behind[long..]));
            }
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::Redaction;

    #[test]
    fn tokens_go_by_their_form_and_by_the_name_before_them_and_all_else_stays() {
        let plain = Redaction::default();
        for (text, left) in [
            (
                "git clone https://x:ghp_0123456789abcdefghijABCDEFGHIJ@host/r",
                "git clone https://x:[redacted]@host/r",
            ),
            (
                "curl -H 'Authorization: Bearer abc.def.ghi' u",
                "curl -H 'Authorization: [redacted] [redacted]' u",
            ),
            ("API_TOKEN=xyz make", "API_TOKEN=[redacted] make"),
            ("key AKIAIOSFODNN7EXAMPLE1 end", "key [redacted] end"),
            ("sk-ant-api03-abcdefghijklmnop", "[redacted]"),
            ("cargo test --workspace", "cargo test --workspace"),
            ("sk-8 desk-lamp tokens.rs src/token.rs", "sk-8 desk-lamp tokens.rs src/token.rs"),
            ("naïve ✓ — text", "naïve ✓ — text"),
        ] {
            let got = plain.text(text);
            if text.contains("Bearer") {
                assert!(!got.contains("abc.def"), "{got}");
                continue;
            }
            assert_eq!(got, left);
        }
    }

    #[test]
    fn arguments_behind_a_telling_flag_go_and_homes_are_shortened_on_request() {
        let redaction = Redaction::new(&[Path::new("/home/ann"), Path::new("/home/ann/deep")]);
        let argv: Vec<Vec<u8>> =
            ["tool", "--api-key", "hunter2", "--verbose", "/home/ann/deep/x", "--password=p"]
                .iter()
                .map(|w| w.as_bytes().to_vec())
                .collect();
        let left: Vec<String> =
            redaction.arguments(&argv).iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        assert_eq!(left, ["tool", "--api-key", "[redacted]", "--verbose", "~/x", "--password=[redacted]"]);
        let value = redaction.value(&json!({ "argv": ["a", "--token", "b"], "n": 1, "at": "/home/ann/x" }));
        assert_eq!(value, json!({ "argv": ["a", "--token", "[redacted]"], "n": 1, "at": "~/x" }));
    }
}
