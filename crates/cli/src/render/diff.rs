//! Changes and hunks as lines. Every byte of the lane goes through `escape`, and a content line in
//! which something had to be escaped is flagged with `!` in the margin.

use engine::ops::diff::{FileDiff, FileView, Hunk, Line, LineKind, Note};
use tree::{ChangeKind, Entry, Kind};

use crate::escape::{self, Kind as Text, Shown};
use crate::style::Role;
use crate::ui::Ui;
use crate::wire;

/// The letter, role and words of a change.
pub(crate) fn sign(kind: &ChangeKind) -> (&'static str, Role) {
    match kind {
        ChangeKind::Add => ("A", Role::Add),
        ChangeKind::Modify => ("M", Role::Modify),
        ChangeKind::Delete => ("D", Role::Delete),
        ChangeKind::Mode => ("X", Role::Modify),
        ChangeKind::Retype => ("T", Role::Warn),
        ChangeKind::Rename { .. } => ("R", Role::Modify),
    }
}

/// The path as it is shown: with the root in front where it is not the origin, `/` behind a directory.
pub(crate) fn place(file: &FileView) -> String {
    let entry = file.change.new.as_ref().or(file.change.old.as_ref());
    let slash = if entry.is_some_and(Entry::is_dir) { "/" } else { "" };
    let inner = format!("{}{slash}", escape::name(file.change.path.as_bytes()));
    let prefix =
        if file.root_index == 0 { String::new() } else { format!("{}/", super::report::path(&file.root)) };
    match &file.change.kind {
        ChangeKind::Rename { from, .. } => {
            format!("{prefix}{}{slash} → {prefix}{inner}", escape::name(from.as_bytes()))
        }
        _ => format!("{prefix}{inner}"),
    }
}

/// The path alone; absolute where it is not the origin's.
pub(crate) fn bare(file: &FileView) -> String {
    let prefix =
        if file.root_index == 0 { String::new() } else { format!("{}/", super::report::path(&file.root)) };
    format!("{prefix}{}", escape::name(file.change.path.as_bytes()))
}

/// The changes that a blanket keep takes, then those that run by themselves later.
pub(crate) fn sections(files: &[FileView]) -> impl Iterator<Item = Section<'_>> {
    let part = |guarded: bool| files.iter().filter(move |file| file.guarded.is_some() == guarded);
    let head = files.iter().any(|file| file.guarded.is_some()).then_some(Section::RunByThemselves);
    part(false).map(Section::File).chain(head).chain(part(true).map(Section::File))
}

/// A piece of a list of changes.
#[derive(Debug)]
pub(crate) enum Section<'f> {
    /// A change.
    File(&'f FileView),
    /// From here on follow those that run by themselves.
    RunByThemselves,
}

/// The line above changes that run by themselves later.
pub(crate) fn guarded_head(ui: &Ui) -> String {
    ui.paint(Role::Warn, "runs by itself later (each is kept only where its path is named):")
}

/// One line for a change: sign, path and what else is to be known about it.
pub(crate) fn summary(ui: &Ui, file: &FileView) -> String {
    let (letter, role) = sign(&file.change.kind);
    let mut line = format!("{} {}", ui.paint(role, letter), place(file));
    for note in notes(file) {
        line.push_str(&format!("  {}", ui.paint(Role::Dim, &format!("({note})"))));
    }
    if let Some(kind) = file.drifted {
        line.push_str(&format!("  {}", ui.paint(Role::Warn, &format!("[drifted: {}]", kind.word()))));
    }
    if let Some(why) = &file.guarded {
        line.push_str(&format!("  {}", ui.paint(Role::Warn, &format!("[{}]", escape::name(why)))));
    }
    line
}

/// What else is to be known about a change.
pub(crate) fn notes(file: &FileView) -> Vec<String> {
    let mut notes = Vec::new();
    let (old, new) = (file.change.old.as_ref(), file.change.new.as_ref());
    if let (Some(old), Some(new)) = (old, new) {
        if old.kind != new.kind {
            notes.push(format!("{} → {}", wire::type_word(old.kind), wire::type_word(new.kind)));
        } else if old.mode != new.mode && old.kind != Kind::Symlink {
            notes.push(format!("mode {:04o} → {:04o}", old.mode, new.mode));
        }
    }
    match new {
        Some(new) if new.kind == Kind::Symlink => notes.push(format!("→ {}", escape::name(&new.target))),
        Some(new) if !matches!(new.kind, Kind::File | Kind::Dir) && old.is_none() => {
            notes.push(wire::type_word(new.kind).to_owned());
        }
        Some(new) if old.is_none() && new.is_file() && new.mode & 0o111 != 0 => {
            notes.push("executable".to_owned())
        }
        _ => {}
    }
    notes
}

/// What an eye on the lines would miss, in words.
pub(crate) fn note_words(note: Note) -> &'static str {
    match note {
        Note::ToCrLf => "line endings changed: LF → CRLF",
        Note::ToLf => "line endings changed: CRLF → LF",
        Note::MarkAdded => "byte-order mark added",
        Note::MarkRemoved => "byte-order mark removed",
    }
}

/// What is to be known about a file's lines before they are looked at.
pub(crate) fn remarks(ui: &Ui, content: &FileDiff) -> Vec<String> {
    let mut lines = Vec::new();
    if is_flagged(content) {
        let words = "  lines marked ! hold characters that a terminal hides or acts on";
        lines.push(ui.paint(Role::Warn, words));
    }
    for note in &content.notes {
        lines.push(format!("  {}", ui.paint(Role::Warn, note_words(*note))));
    }
    lines
}

/// The hunks of one file, after what is to be known about them.
pub(crate) fn hunks(ui: &Ui, content: &FileDiff, out: &mut Vec<String>) {
    out.extend(remarks(ui, content));
    if content.binary {
        out.push(ui.paint(Role::Dim, "  binary content differs"));
    }
    for hunk in &content.hunks {
        out.push(head(ui, hunk));
        out.extend(hunk.lines.iter().flat_map(|line| content_lines(ui, line)));
    }
}

/// The head of a hunk, with its id.
pub(crate) fn head(ui: &Ui, hunk: &Hunk) -> String {
    let head = format!(
        "@@ -{},{} +{},{} @@ {}",
        hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len, hunk.id
    );
    ui.paint(Role::Dim, &head)
}

/// A line of a hunk, and a second one where it has no ending.
pub(crate) fn content_lines(ui: &Ui, line: &Line) -> Vec<String> {
    let (sign, role) = match line.kind {
        LineKind::Context => (' ', None),
        LineKind::Added => ('+', Some(Role::Add)),
        LineKind::Removed => ('-', Some(Role::Delete)),
    };
    let shown = content_line(&line.bytes);
    let text = format!("{}{sign}{}", if shown.flagged { "!" } else { " " }, shown.text);
    let mut lines = vec![role.map_or_else(|| text.clone(), |role| ui.paint(role, &text))];
    if line.lacks_newline() {
        lines.push(ui.paint(Role::Dim, "  \\ no newline at the end"));
    }
    lines
}

/// A line of content without its ending. A carriage return that belongs to the ending is shown, so that
/// two endings differ, and is no reason for a flag.
pub(crate) fn content_line(bytes: &[u8]) -> Shown {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let (body, is_crlf) = match body.strip_suffix(b"\r") {
        Some(body) if bytes.ends_with(b"\n") => (body, true),
        _ => (body, false),
    };
    let mut shown = escape::escape(body, Text::Content);
    if is_crlf {
        shown.push_return();
    }
    shown
}

/// Whether any shown line of a file had to be escaped.
fn is_flagged(content: &FileDiff) -> bool {
    content.hunks.iter().flat_map(|hunk| &hunk.lines).any(|line| content_line(&line.bytes).flagged)
}

#[cfg(test)]
mod tests {
    use super::content_line;

    #[test]
    fn a_crlf_ending_is_shown_and_not_flagged_and_a_bare_return_is() {
        let crlf = content_line(b"a\r\n");
        assert_eq!((crlf.text.as_str(), crlf.flagged), ("a\\r", false));
        assert!(content_line(b"a\rb\n").flagged);
        assert!(content_line(b"a\r").flagged);
    }
}
