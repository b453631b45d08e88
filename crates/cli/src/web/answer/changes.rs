//! What a lane changed: the list of paths at once, lines and hunks of a file when they are looked at.

use std::path::{Path, PathBuf};

use engine::Engine;
use engine::ops::diff::{DiffAnswer, DiffRequest, FileDiff, FileView, LineKind, Opened};
use serde_json::{Value, json};
use tree::{ChangeKind, Entry, Kind};

use super::super::request::Place;
use super::super::text::Text;
use super::{hex, tree_path};
use crate::error::{CliError, Result};
use crate::render::diff as render;
use crate::wire;

/// The changed paths.
pub(super) fn list(engine: &Engine, dir: &Path, lane: &str) -> Result<Value> {
    let opened = engine::ops::diff::open(engine, dir, Some(lane))?;
    let answer = opened.diff(engine, &DiffRequest { dir: dir.to_owned(), ..DiffRequest::default() })?;
    let roots = answer.lane.roots.iter().map(|root| Text::path(&root.path)).collect::<Vec<_>>();
    let gaps = answer.gaps.iter().map(|(root, path, why)| {
        json!({ "root": Text::path(root), "path": Text::name(path.as_bytes()), "why": Text::name(why) })
    });
    Ok(json!({
        "lane": super::lanes::view(&answer.lane),
        "roots": roots,
        "files": answer.files.iter().map(file).collect::<Vec<_>>(),
        "git_internal": answer.git_internal,
        "gaps": gaps.collect::<Vec<_>>(),
    }))
}

/// Lines that came and went, in the order of `places`.
pub(super) fn counts(engine: &Engine, dir: &Path, lane: &str, places: &[Place]) -> Result<Value> {
    let opened = engine::ops::diff::open(engine, dir, Some(lane))?;
    let answer = narrowed(engine, &opened, dir, places)?;
    let mut all = Vec::with_capacity(places.len());
    for place in places {
        let content = answer.content(find(&answer, place)?)?;
        let (added, removed) = content.counts();
        all.push(json!({ "added": added, "removed": removed, "binary": content.binary }));
    }
    Ok(json!({ "counts": all }))
}

/// The hunks of one file, and what it is that they are of.
pub(super) fn hunks(engine: &Engine, dir: &Path, lane: &str, place: &Place) -> Result<Value> {
    let opened = engine::ops::diff::open(engine, dir, Some(lane))?;
    let answer = narrowed(engine, &opened, dir, std::slice::from_ref(place))?;
    let view = find(&answer, place)?;
    // Before the content: where that changes meanwhile, what is shown is no longer this, and is not kept.
    let selection = answer.selection()?;
    let digest = selection.file(&view.root, &view.change.path).map(|file| file.digest.to_string());
    let mut found = content_value(&answer.content(view)?);
    found["file"] = file(view);
    found["digest"] = json!(digest);
    Ok(found)
}

/// The diff of these places alone.
fn narrowed<'o>(engine: &Engine, opened: &'o Opened, dir: &Path, places: &[Place]) -> Result<DiffAnswer<'o>> {
    let roots = opened.roots();
    let mut paths: Vec<PathBuf> = Vec::with_capacity(places.len());
    for place in places {
        let unknown = || CliError::Usage("a root of the request is none".to_owned());
        paths.push(roots.get(place.root).ok_or_else(unknown)?.join(tree_path(place)?.as_path()));
    }
    let request = DiffRequest { dir: dir.to_owned(), paths, ..DiffRequest::default() };
    Ok(opened.diff(engine, &request)?)
}

fn find<'a>(answer: &'a DiffAnswer<'_>, place: &Place) -> Result<&'a FileView> {
    let path = tree_path(place)?;
    let view = answer.files.iter().find(|file| file.root_index == place.root && file.change.path == path);
    view.ok_or_else(|| CliError::Missing("the lane has no such change any more".to_owned()))
}

/// A changed path.
pub(super) fn file(file: &FileView) -> Value {
    let change = &file.change;
    let from = match &change.kind {
        ChangeKind::Rename { from, .. } => Some(Text::name(from.as_bytes())),
        _ => None,
    };
    json!({
        "root": file.root_index,
        "path": hex(change.path.as_bytes()),
        "name": Text::name(change.path.as_bytes()),
        "from": from,
        "kind": wire::kind_word(&change.kind),
        "old": change.old.as_ref().map(side),
        "new": change.new.as_ref().map(side),
        "guarded": file.guarded.as_ref().map(Text::name),
        "drifted": file.drifted.map(engine::view::DriftKind::word),
    })
}

/// One side of a change.
pub(super) fn side(entry: &Entry) -> Value {
    let target = (entry.kind == Kind::Symlink).then(|| Text::name(&entry.target));
    json!({
        "type": wire::type_word(entry.kind),
        "mode": format!("{:04o}", entry.mode),
        "size": entry.size,
        "target": target,
    })
}

/// A line diff. Each hunk has one character for each line's kind, and one for what is to be known of the line:
/// `0` nothing, `1` it holds characters that were escaped, `2` it lacks a newline, `3` both.
pub(super) fn content_value(content: &FileDiff) -> Value {
    let hunks = content.hunks.iter().map(|hunk| {
        let mut kinds = String::with_capacity(hunk.lines.len());
        let mut marks = String::with_capacity(hunk.lines.len());
        let mut lines = Vec::with_capacity(hunk.lines.len());
        for line in &hunk.lines {
            kinds.push(match line.kind {
                LineKind::Context => ' ',
                LineKind::Added => '+',
                LineKind::Removed => '-',
            });
            let shown = render::content_line(&line.bytes);
            marks.push(match (shown.flagged, line.lacks_newline()) {
                (false, false) => '0',
                (true, false) => '1',
                (false, true) => '2',
                (true, true) => '3',
            });
            lines.push(Text::of(shown));
        }
        json!({
            "id": hunk.id, "old_start": hunk.old_start, "old_len": hunk.old_len,
            "new_start": hunk.new_start, "new_len": hunk.new_len,
            "kinds": kinds, "marks": marks, "lines": lines,
        })
    });
    json!({
        "binary": content.binary,
        "notes": content.notes.iter().map(|note| render::note_words(*note)).collect::<Vec<_>>(),
        "hunks": hunks.collect::<Vec<_>>(),
    })
}
