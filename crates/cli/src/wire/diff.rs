//! Changes, hunks, drift and gaps on the wire.

use engine::ops::diff::{FileDiff, FileView, Hunk as HunkView, LineKind};
use engine::view::{DriftView, LaneView};
use serde::Serialize;
use tree::{ChangeKind, Entry, Kind, TreePath};

use super::{hex, path, text};

/// The answer of `diff`.
#[derive(Debug, Serialize)]
pub(crate) struct Diff {
    pub(crate) lane: String,
    pub(crate) lane_id: String,
    /// What `keep --digest` takes; only of the base against now.
    pub(crate) digest: Option<String>,
    pub(crate) files: Vec<File>,
    pub(crate) git_internal: u64,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) drift: Vec<Drift>,
}

impl Diff {
    pub(crate) fn new(lane: &LaneView) -> Diff {
        Diff {
            lane: lane.name.clone(),
            lane_id: lane.id.clone(),
            digest: None,
            files: Vec::new(),
            git_internal: 0,
            gaps: Vec::new(),
            drift: Vec::new(),
        }
    }
}

/// A changed path.
#[derive(Debug, Serialize)]
pub(crate) struct File {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_bytes: Option<String>,
    old: Option<Side>,
    new: Option<Side>,
    guarded: Option<String>,
    drifted: Option<&'static str>,
    /// As a selection names it.
    pub(crate) digest: Option<String>,
    binary: bool,
    added_lines: u64,
    removed_lines: u64,
    hunks: Vec<Hunk>,
}

#[derive(Debug, Serialize)]
struct Side {
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
}

impl Side {
    fn new(entry: &Entry) -> Side {
        let (target, target_bytes) =
            if entry.kind == Kind::Symlink { Some(text(&entry.target)).unzip() } else { (None, None) };
        Side {
            kind: type_word(entry.kind),
            mode: format!("{:04o}", entry.mode),
            size: entry.size,
            target,
            target_bytes: target_bytes.flatten(),
        }
    }
}

/// The word for a type.
pub(crate) fn type_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Dir => "dir",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "char-device",
        Kind::BlockDevice => "block-device",
    }
}

/// The word for a kind of change.
pub(crate) fn kind_word(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Add => "add",
        ChangeKind::Modify => "modify",
        ChangeKind::Delete => "delete",
        ChangeKind::Mode => "mode",
        ChangeKind::Retype => "retype",
        ChangeKind::Rename { .. } => "rename",
    }
}

#[derive(Debug, Serialize)]
struct Hunk {
    id: String,
    old_start: u32,
    old_lines: u32,
    new_start: u32,
    new_lines: u32,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    kind: &'static str,
    /// Of a changed line, as a selection names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    no_newline: bool,
}

impl Hunk {
    fn new(hunk: &HunkView) -> Hunk {
        let mut changed = 0;
        let lines = hunk.lines.iter().map(|line| {
            let number = (line.kind != LineKind::Context).then(|| {
                changed += 1;
                changed
            });
            let body = line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes);
            let (text, bytes) = match std::str::from_utf8(body) {
                Ok(text) => (text.to_owned(), None),
                Err(_) => (String::from_utf8_lossy(body).into_owned(), Some(hex(body))),
            };
            let kind = match line.kind {
                LineKind::Context => "context",
                LineKind::Added => "add",
                LineKind::Removed => "remove",
            };
            Line { kind, number, text, bytes, no_newline: line.lacks_newline() }
        });
        Hunk {
            id: hunk.id.clone(),
            old_start: hunk.old_start,
            old_lines: hunk.old_len,
            new_start: hunk.new_start,
            new_lines: hunk.new_len,
            lines: lines.collect(),
        }
    }
}

impl File {
    /// From a change and its line diff.
    pub(crate) fn new(file: &FileView, content: &FileDiff) -> File {
        let change = &file.change;
        let (path, path_bytes) = text(change.path.as_bytes());
        let (from, from_bytes) = match &change.kind {
            ChangeKind::Rename { from, .. } => Some(text(from.as_bytes())).unzip(),
            _ => (None, None),
        };
        let (added_lines, removed_lines) = content.counts();
        File {
            root: super::path(&file.root).0,
            path,
            path_bytes,
            kind: kind_word(&change.kind),
            from,
            from_bytes: from_bytes.flatten(),
            old: change.old.as_ref().map(Side::new),
            new: change.new.as_ref().map(Side::new),
            guarded: file.guarded.clone(),
            drifted: file.drifted.map(engine::view::DriftKind::word),
            digest: None,
            binary: content.binary,
            added_lines,
            removed_lines,
            hunks: content.hunks.iter().map(Hunk::new).collect(),
        }
    }
}

/// A path of the origin that changed since the base.
#[derive(Debug, Serialize)]
pub(crate) struct Drift {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: &'static str,
}

impl Drift {
    pub(crate) fn new(drift: &DriftView) -> Drift {
        let (path, path_bytes) = text(drift.path.as_bytes());
        Drift { root: super::path(&drift.root).0, path, path_bytes, what: drift.kind.word() }
    }
}

/// Something that was left out, with the reason.
#[derive(Debug, Serialize)]
pub(crate) struct Gap {
    root: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    why: String,
}

impl Gap {
    pub(crate) fn new(root: &std::path::Path, at: &TreePath, why: &str) -> Gap {
        let (inner, path_bytes) = text(at.as_bytes());
        Gap { root: path(root).0, path: inner, path_bytes, why: why.to_owned() }
    }
}
