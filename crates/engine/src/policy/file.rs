//! One file of rules: TOML in, rules with their lines out. Pure. What is not known is an error that names key and line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use toml::Spanned;

use crate::limits::{self, What};
use crate::room;

/// A rule's value, and the line that it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule<T> {
    /// The value.
    pub value: T,
    /// The line, from 1.
    pub line: usize,
}

/// The rules of one file about keeps.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    /// Nothing else may be kept.
    pub only: Option<Rule<Patterns>>,
    /// None of these may be kept.
    pub deny: Option<Rule<Patterns>>,
    /// The lane has to pass this first.
    pub verify: Option<Rule<Check>>,
    /// Most files of one keep.
    pub max_files: Option<Rule<u64>>,
    /// Most bytes of one keep.
    pub max_bytes: Option<Rule<u64>>,
}

/// A number of a rule about what runs may use: a default where no flag says otherwise, or the most that a flag may say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRule {
    /// Of what; `None` for the time.
    pub what: Option<What>,
    /// The key, as it is written.
    pub key: String,
    /// Bytes, entries, processes, thousandths of a processor, or milliseconds.
    pub value: u64,
    /// No flag goes beyond it.
    pub is_most: bool,
    /// The line, from 1.
    pub line: usize,
}

/// The rules of one file about what runs may use.
pub type Limits = Vec<LimitRule>;

/// A command that a lane has to pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Check {
    /// A line for the shell.
    Line(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

impl Check {
    /// The words that are run.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Check::Line(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
            Check::Words(words) => words.clone(),
        }
    }

    /// As it is written.
    pub fn text(&self) -> String {
        match self {
            Check::Line(line) => line.clone(),
            Check::Words(words) => words.join(" "),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Check::Line(line) => line.trim().is_empty(),
            Check::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }
}

/// Patterns of paths below a root. `*` and `?` stay in one component, `**` crosses them; one that ends with `/` or `/**`
/// is a directory with everything in it.
#[derive(Debug, Clone)]
pub struct Patterns {
    written: Vec<String>,
    set: GlobSet,
}

impl Patterns {
    /// As they are written.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// The same, for a sentence.
    pub(crate) fn words(&self) -> String {
        if self.written.is_empty() { "nothing".to_owned() } else { self.written.join(", ") }
    }

    /// True where one of them means the path.
    pub fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    keep: KeepTable,
    #[serde(default)]
    limits: BTreeMap<Spanned<String>, Spanned<Size>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeepTable {
    only: Option<Spanned<Vec<Spanned<String>>>>,
    deny: Option<Spanned<Vec<Spanned<String>>>>,
    verify: Option<Spanned<Check>>,
    max_files: Option<Spanned<u64>>,
    max_bytes: Option<Spanned<Size>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Part(f64),
    Text(String),
}

/// What is wrong with a file: the line, where it is known, and the cause.
type Wrong = (Option<usize>, String);

/// Reads the rules of one file.
pub(super) fn parse(bytes: &[u8]) -> Result<(Keep, Limits), Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        (Some(line_at(before, before.len())), "it is not UTF-8".to_owned())
    })?;
    let line = |span: Range<usize>| line_at(bytes, span.start);
    let document: Document = toml::from_str(text).map_err(|error| {
        let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        (error.span().map(line), why)
    })?;
    let table = document.keep;
    let rule = |span: Range<usize>| line(span);
    let patterns = |list: Option<Spanned<Vec<Spanned<String>>>>| -> Result<Option<Rule<Patterns>>, Wrong> {
        let Some(list) = list else { return Ok(None) };
        let at = line(list.span());
        let mut set = GlobSetBuilder::new();
        let mut written = Vec::new();
        for pattern in list.into_inner() {
            let at = line(pattern.span());
            let pattern = pattern.into_inner();
            for form in forms(&pattern).map_err(|why| (Some(at), why))? {
                let glob = GlobBuilder::new(&form).literal_separator(true).backslash_escape(true).build();
                set.add(glob.map_err(|error| (Some(at), error.to_string()))?);
            }
            written.push(pattern);
        }
        let set = set.build().map_err(|error| (Some(at), error.to_string()))?;
        Ok(Some(Rule { value: Patterns { written, set }, line: at }))
    };
    let verify = match table.verify {
        Some(check) if check.get_ref().is_empty() => {
            return Err((Some(rule(check.span())), "keep.verify names no command".to_owned()));
        }
        Some(check) => Some(Rule { line: rule(check.span()), value: check.into_inner() }),
        None => None,
    };
    let max_bytes = match table.max_bytes {
        Some(size) => {
            let at = rule(size.span());
            let value = match size.into_inner() {
                Size::Bytes(bytes) => bytes,
                Size::Part(_) => return Err((Some(at), "keep.max_bytes is a whole number".to_owned())),
                Size::Text(text) => room::size(&text).ok_or_else(|| {
                    (Some(at), format!("keep.max_bytes: '{text}' is no size; write 500K, 10M or 1G"))
                })?,
            };
            Some(Rule { value, line: at })
        }
        None => None,
    };
    let mut limits = Limits::new();
    for (key, value) in document.limits {
        let at = line(key.span());
        let key = key.into_inner();
        let (name, is_most) = key.strip_prefix("max_").map_or((key.as_str(), false), |name| (name, true));
        let (what, value) =
            limit(name, value.into_inner()).map_err(|why| (Some(at), format!("limits.{key}: {why}")))?;
        limits.push(LimitRule { what, key, value, is_most, line: at });
    }
    let keep = Keep {
        only: patterns(table.only)?,
        deny: patterns(table.deny)?,
        verify,
        max_files: table.max_files.map(|most| Rule { line: rule(most.span()), value: most.into_inner() }),
        max_bytes,
    };
    Ok((keep, limits))
}

/// What a key of `limits` limits, and the number that it says.
fn limit(name: &str, value: Size) -> Result<(Option<What>, u64), String> {
    let what = match name {
        "memory" => Some(What::Memory),
        "cpus" => Some(What::Cpus),
        "pids" => Some(What::Pids),
        "disk" => Some(What::Disk),
        "inodes" => Some(What::Inodes),
        "time" => None,
        _ => {
            return Err("there are memory, cpus, pids, disk, inodes and time, each also with max_ before it"
                .to_owned());
        }
    };
    let number = match (what, value) {
        (Some(What::Cpus), Size::Bytes(whole)) => whole.checked_mul(1000),
        (Some(What::Cpus), Size::Part(part)) if part > 0.0 && part < 1e6 => {
            Some((part * 1000.0).round() as u64)
        }
        (Some(What::Memory | What::Disk), Size::Text(text)) => room::size(&text),
        (None, Size::Text(text)) => limits::time(&text).and_then(|time| u64::try_from(time.as_millis()).ok()),
        (None, Size::Bytes(secs)) => secs.checked_mul(1000),
        (_, Size::Bytes(whole)) => Some(whole),
        _ => None,
    };
    match number.filter(|number| *number > 0) {
        Some(number) => Ok((what, number)),
        None => Err("it is no such amount; write 4G, 2, 0.5, 500 or \"10m\"".to_owned()),
    }
}

/// The patterns that one pattern stands for: a directory is also meant itself.
fn forms(pattern: &str) -> Result<Vec<String>, String> {
    let inner = pattern.strip_suffix("/**").or_else(|| pattern.strip_suffix('/'));
    if pattern.starts_with('/') || pattern.starts_with("./") || pattern.starts_with("../") {
        return Err(format!("'{pattern}': a pattern is relative to the top of the project"));
    }
    match inner {
        _ if pattern.is_empty() || inner == Some("") => Err(format!("'{pattern}' is no pattern")),
        Some(dir) => Ok(vec![dir.to_owned(), format!("{dir}/**")]),
        None => Ok(vec![pattern.to_owned()]),
    }
}

fn line_at(bytes: &[u8], at: usize) -> usize {
    bytes[..at.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::{Check, parse};

    #[test]
    fn every_key_is_read_with_its_line() {
        let text = "# rules\n[keep]\nonly = [\n  \"src/**\",\n  \"*.md\",\n]\ndeny = [\"src/vendor/\"]\n\
                    verify = \"cargo test\"\nmax_files = 20\nmax_bytes = \"1.5M\"\n";
        let keep = parse(text.as_bytes()).expect("valid").0;
        let (only, deny) = (keep.only.expect("only"), keep.deny.expect("deny"));
        assert_eq!((only.line, deny.line), (3, 7));
        assert_eq!(only.value.written(), ["src/**", "*.md"]);
        let verify = keep.verify.expect("verify");
        assert_eq!(
            (verify.value.argv(), verify.line),
            (vec!["/bin/sh".into(), "-c".into(), "cargo test".into()], 8)
        );
        assert_eq!(keep.max_files.map(|most| (most.value, most.line)), Some((20, 9)));
        assert_eq!(keep.max_bytes.map(|most| (most.value, most.line)), Some((3 << 19, 10)));
        let words = parse(b"[keep]\nverify = [\"make\", \"check\"]\nmax_bytes = 7\n").expect("valid").0;
        assert_eq!(
            words.verify.map(|verify| verify.value),
            Some(Check::Words(vec!["make".into(), "check".into()]))
        );
        assert_eq!(words.max_bytes.map(|most| most.value), Some(7));
        assert!(parse(b"").expect("valid").0.only.is_none());
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let text =
            b"[limits]\nmemory = \"4G\"\ncpus = 0.5\nmax_pids = 500\ntime = \"10m\"\nmax_time = 3600\n";
        let (_, limits) = parse(text).expect("valid");
        let found: Vec<(&str, u64, bool, usize)> =
            limits.iter().map(|limit| (limit.key.as_str(), limit.value, limit.is_most, limit.line)).collect();
        let mut wanted = [
            ("memory", 4 << 30, false, 2),
            ("cpus", 500, false, 3),
            ("max_pids", 500, true, 4),
            ("time", 600_000, false, 5),
            ("max_time", 3_600_000, true, 6),
        ];
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        for bad in [
            "[limits]\nmemroy = 1\n",
            "[limits]\nmemory = \"lots\"\n",
            "[limits]\npids = 0\n",
            "[limits]\npids = 1.5\n",
        ] {
            assert_eq!(parse(bad.as_bytes()).expect_err("refused").0, Some(2), "{bad}");
        }
    }

    #[test]
    fn patterns_mean_whole_paths_of_any_bytes() {
        let keep =
            parse(b"[keep]\nonly = ['src/**', 'docs/', '*.md', '**/x?', '[ab].c']\n").expect("valid").0;
        let only = keep.only.expect("only").value;
        let is = |path: &[u8]| only.matches(Path::new(OsStr::from_bytes(path)));
        for path in [
            &b"src"[..],
            b"src/a",
            b"src/a/b\xff",
            b"docs",
            b"docs/a/b",
            b"a.md",
            b"deep/er/xy",
            b"xy",
            b"a.c",
            b"\xff.md",
        ] {
            assert!(is(path), "{}", path.escape_ascii());
        }
        for path in [&b"srcs/a"[..], b"a/src/b", b"docs2", b"a/b.md", b"x", b"deep/x/y", b"c.c", b"SRC/a"] {
            assert!(!is(path), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn what_is_unknown_or_wrong_is_named_with_its_line() {
        for (text, line, word) in [
            ("[keep]\nonyl = []\n", 2, "onyl"),
            ("\n\n[kept]\nonly = []\n", 3, "kept"),
            ("[keep]\nmax_files = -1\n", 2, "-1"),
            ("[keep]\nonly = \"src\"\n", 2, "sequence"),
            ("[keep]\nonly = [\n'a',\n'[b',\n]\n", 4, "[b"),
            ("[keep]\nonly = ['/etc/**']\n", 2, "relative"),
            ("[keep]\nverify = ' '\n", 2, "no command"),
            ("[keep]\nverify = []\n", 2, "no command"),
            ("[keep]\nmax_bytes = 'lots'\n", 2, "lots"),
            ("[keep\n", 1, ""),
        ] {
            let (at, why) = parse(text.as_bytes()).expect_err(text);
            assert_eq!(at, Some(line), "{text:?}: {why}");
            assert!(why.contains(word), "{text:?}: {why}");
        }
        assert_eq!(parse(b"[keep]\n\xff").expect_err("bytes").0, Some(2));
    }
}
