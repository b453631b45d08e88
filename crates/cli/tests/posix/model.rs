//! [`Changes`]: what `diff --json` told, to be held against two trees.

use serde_json::Value;
use testkit::Plain;

/// One change.
#[derive(Debug)]
struct Change {
    path: Vec<u8>,
    from: Option<Vec<u8>>,
    kind: String,
}

/// The changes of a diff.
#[derive(Debug)]
pub(crate) struct Changes(Vec<Change>);

impl Changes {
    /// Out of the answer of `diff --json`.
    pub(crate) fn of(diff: &Value) -> Changes {
        let files = diff["files"].as_array().expect("files");
        assert_eq!(diff["gaps"], serde_json::json!([]), "nothing was left out");
        let change = |file: &Value| Change {
            path: bytes(file, "path").expect("a path"),
            from: bytes(file, "from"),
            kind: file["kind"].as_str().expect("a kind").to_owned(),
        };
        Changes(files.iter().map(change).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is wrong with them, given the trees before and after.
    pub(crate) fn compare(&self, before: &Plain, after: &Plain) -> Vec<String> {
        let mut wrong = Vec::new();
        let differing = before.changed(after);
        for path in &differing {
            let told = self.0.iter().any(|change| {
                let ends = [Some(&change.path), change.from.as_ref()];
                // A directory that came or went is told by what is in it.
                ends.into_iter().flatten().any(|end| below(path, end) || below(end, path))
            });
            if !told {
                wrong.push(format!("not told: {}", path.escape_ascii()));
            }
        }
        for change in &self.0 {
            let ends = [Some(&change.path), change.from.as_ref()];
            if !ends.into_iter().flatten().any(|end| differing.iter().any(|path| below(path, end))) {
                wrong.push(format!("told and not true: {} {}", change.kind, change.path.escape_ascii()));
            }
            wrong.extend(self.ends(change, before, after));
        }
        wrong
    }

    /// Each kind says which of both trees holds the path.
    fn ends(&self, change: &Change, before: &Plain, after: &Plain) -> Option<String> {
        let was = before.items().contains_key(change.from.as_ref().unwrap_or(&change.path));
        let is = after.items().contains_key(&change.path);
        let right = match change.kind.as_str() {
            "add" => !before.items().contains_key(&change.path) && is,
            "delete" => was && !is,
            "modify" | "mode" | "retype" | "rename" => was && is,
            _ => false,
        };
        (!right).then(|| format!("{} {}: before {was}, after {is}", change.kind, change.path.escape_ascii()))
    }
}

/// True where `path` is `top` or lies below it.
fn below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A path field, by its bytes where its text is not they.
pub(crate) fn bytes(file: &Value, field: &str) -> Option<Vec<u8>> {
    if let Some(hex) = file[format!("{field}_bytes")].as_str() {
        let digit =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
        return Some(hex.as_bytes().chunks(2).map(digit).collect());
    }
    file[field].as_str().map(|text| text.as_bytes().to_vec())
}
