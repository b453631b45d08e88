//! Snapshots in words: one line, a table with the branches drawn, warnings.

use engine::ops::log::SnapshotView;

use super::report;
use super::table::Cell;
use crate::escape;
use crate::style::Role;
use crate::ui::Ui;

/// An id as people are shown it.
pub(crate) fn short(id: impl std::fmt::Display) -> String {
    format!("{id:.12}")
}

/// What it holds.
pub(crate) fn size(snapshot: &SnapshotView) -> String {
    // The layer's own directory is an entry too.
    let entries = snapshot.entries.saturating_sub(1);
    format!("{entries} entries, {}", report::bytes(snapshot.bytes))
}

/// Its id with its name.
pub(crate) fn title(snapshot: &SnapshotView) -> String {
    let text = message(snapshot);
    if text.is_empty() { short(snapshot.id) } else { format!("{} ({text})", short(snapshot.id)) }
}

/// The first line of its text, escaped.
pub(crate) fn message(snapshot: &SnapshotView) -> String {
    let first = snapshot.message.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = match snapshot.kind {
        "start" if first.is_empty() => "before anything was written".to_owned(),
        _ => escape::name(first),
    };
    match text.char_indices().nth(72) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// What a user should know of it.
pub(crate) fn warn(ui: &Ui, snapshot: &SnapshotView) {
    const SHOWN: usize = 5;
    for (_, path, why) in snapshot.gaps.iter().take(SHOWN) {
        ui.warn(&format!("not in the snapshot: {}: {}", escape::name(path.as_bytes()), escape::name(why)));
    }
    if snapshot.gaps.len() > SHOWN {
        ui.warn(&format!("and {} more that are not in it", snapshot.gaps.len() - SHOWN));
    }
    for (_, path) in snapshot.credentials.iter().take(SHOWN) {
        ui.warn(&format!("in the snapshot: {} looks like a credential", escape::name(path.as_bytes())));
    }
    if snapshot.credentials.len() > SHOWN {
        ui.warn(&format!("and {} more that look like credentials", snapshot.credentials.len() - SHOWN));
    }
}

/// How it was taken, where that is not "at rest, as asked".
pub(crate) fn how(snapshot: &SnapshotView) -> String {
    match (snapshot.kind, snapshot.quiescence) {
        ("ceiling", _) => "mid-write".to_owned(),
        (kind, "running") => format!("{kind}, while writing"),
        (kind, _) => kind.to_owned(),
    }
}

/// Rows of a table: newest first, with the branches drawn before the ids.
pub(crate) fn rows(ui: &Ui, snapshots: &[SnapshotView], now: i64) -> Vec<Vec<Cell>> {
    let branches = draw(snapshots);
    snapshots
        .iter()
        .zip(branches)
        .map(|(snapshot, branch)| {
            let id = short(snapshot.id);
            let id = if snapshot.is_position { ui.paint(Role::Good, &id) } else { id };
            let mut text = message(snapshot);
            if !snapshot.credentials.is_empty() {
                text = format!("{text} [{} like credentials]", snapshot.credentials.len()).trim().to_owned();
            }
            let mut cells = vec![
                Cell::new(branch),
                Cell::escaped(id),
                Cell::new(report::age(snapshot.at, now)).right(),
                Cell::new(how(snapshot)),
                Cell::new(size(snapshot)).right(),
            ];
            if let Some(share) = snapshot.share {
                cells.extend([share.added, share.alone].map(|bytes| Cell::new(report::bytes(bytes)).right()));
            }
            cells.push(Cell::escaped(text));
            cells
        })
        .collect()
}

/// One column for each branch: `*` where the lane stands, `o` for another snapshot, `|` for a branch that passes by.
fn draw(snapshots: &[SnapshotView]) -> Vec<String> {
    let mut columns: Vec<Option<String>> = Vec::new();
    let mut lines = Vec::with_capacity(snapshots.len());
    for snapshot in snapshots {
        let id = snapshot.id.to_string();
        let waiting: Vec<usize> =
            (0..columns.len()).filter(|at| columns[*at].as_deref() == Some(id.as_str())).collect();
        let at = waiting.first().copied().unwrap_or_else(|| {
            let free = columns.iter().position(Option::is_none);
            free.unwrap_or_else(|| {
                columns.push(None);
                columns.len() - 1
            })
        });
        let mut line = String::new();
        for (column, branch) in columns.iter().enumerate() {
            line.push(match (column == at, branch) {
                (true, _) if snapshot.is_position => '*',
                (true, _) => 'o',
                // Another branch that began here ends here.
                (false, Some(_)) if waiting.contains(&column) => '/',
                (false, Some(_)) => '|',
                (false, None) => ' ',
            });
        }
        lines.push(line.trim_end().to_owned());
        for column in waiting {
            columns[column] = None;
        }
        columns[at] = snapshot.parent.map(|parent| parent.to_string());
        while columns.last().is_some_and(Option::is_none) {
            columns.pop();
        }
    }
    lines
}
