//! The screen of one lane's changes: files with ticks as a tree, those that run by themselves apart, and what could not
//! be compared.
//!
//! Invariant: a file that runs by itself is ticked by a key on its own line and by nothing else.

mod draw;

use std::collections::{BTreeSet, HashMap};

use engine::ops::diff::FileView;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use tree::TreePath;

use super::branches::{Branch, Dir, Leaf, branches};
use super::fact::{Across, Changes, Effect, Want};
use super::frame::{Hint, hint};
use super::list::List;
use super::theme::Role;
use super::ticks::Ticked;
use crate::render::diff as render;

/// The keys.
pub(crate) const HINTS: [Hint; 10] = [
    hint("space", KeyCode::Char(' '), "tick"),
    hint("enter", KeyCode::Enter, "hunks"),
    hint("a", KeyCode::Char('a'), "all"),
    hint("p", KeyCode::Char('p'), "plan"),
    hint("esc", KeyCode::Esc, "lanes"),
    hint("/", KeyCode::Char('/'), "filter"),
    hint("n", KeyCode::Char('n'), "none"),
    hint("c", KeyCode::Char('c'), "compare"),
    hint("z", KeyCode::Char('z'), "fold"),
    hint("q", KeyCode::Char('q'), "quit"),
];

/// Lines of larger files are counted when they are opened, and not in passing: no key is answered meanwhile.
const LARGE: u64 = 4 << 20;

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    /// A heading.
    Head(String),
    /// A directory with changes in it.
    Dir(Dir),
    /// A change, by its number; its depth, and the bytes of its path that lines above show.
    File { number: usize, depth: usize, from: usize },
    /// Something to know that cannot be ticked.
    Note(String),
}

impl Row {
    fn number(&self) -> Option<usize> {
        match self {
            Row::File { number, .. } => Some(*number),
            Row::Dir(dir) => dir.own,
            Row::Head(_) | Row::Note(_) => None,
        }
    }

    fn stands(&self) -> bool {
        matches!(self, Row::File { .. } | Row::Dir(_))
    }
}

/// The screen.
#[derive(Debug)]
pub(crate) struct Files {
    /// What the lane changed.
    pub(crate) changes: Changes,
    /// Lines added and removed, by the number of the file; `None` where it has none.
    pub(crate) counts: HashMap<usize, Option<(u64, u64)>>,
    /// Only paths that hold this.
    pub(crate) filter: String,
    /// Directories that are closed, by root and path.
    shut: BTreeSet<(usize, TreePath)>,
    /// Changes that the filter leaves, those that run by themselves last.
    order: Vec<usize>,
    rows: Vec<Row>,
    list: List,
    body: Rect,
}

impl Files {
    /// A lane was opened.
    pub(crate) fn new(changes: Changes) -> Files {
        let mut files = Files {
            changes,
            counts: HashMap::new(),
            filter: String::new(),
            shut: BTreeSet::new(),
            order: Vec::new(),
            rows: Vec::new(),
            list: List::default(),
            body: Rect::default(),
        };
        files.arrange();
        files
    }

    /// The same lane was read again: the cursor stays on its file, and ticks on what is as it was. Answers how many files
    /// lost theirs.
    pub(crate) fn renew(&mut self, mut changes: Changes) -> usize {
        let under = self.current().map(|at| self.changes.files[at].change.path.clone());
        let lost = self.changes.carry(&mut changes);
        let (filter, list, body) = (std::mem::take(&mut self.filter), self.list, self.body);
        let shut = std::mem::take(&mut self.shut);
        *self = Files { filter, list, body, shut, ..Files::new(changes) };
        self.arrange();
        let at = |path| self.changes.files.iter().position(|file| file.change.path == path);
        if let Some(file) = under.and_then(at) {
            self.select(file);
        }
        lost
    }

    /// The change with this number.
    pub(crate) fn file(&self, number: usize) -> Option<&FileView> {
        self.changes.files.get(number)
    }

    /// The change under the cursor.
    pub(crate) fn current(&self) -> Option<usize> {
        self.rows.get(self.list.cursor).and_then(Row::number)
    }

    /// Puts the cursor on a change; directories that it is in are opened for that.
    pub(crate) fn select(&mut self, number: usize) {
        let Some(file) = self.changes.files.get(number) else { return };
        let is_around = |(root, dir): &(usize, TreePath)| {
            *root == file.root_index && file.change.path != *dir && file.change.path.starts_with(dir)
        };
        if self.shut.iter().any(is_around) {
            self.shut.retain(|at| !is_around(at));
            self.lay_out();
        }
        if let Some(row) = self.rows.iter().position(|row| row.number() == Some(number)) {
            self.go(row);
        }
    }

    fn go(&mut self, row: usize) {
        let rows = &self.rows;
        self.list.go(row, &|at| rows.get(at).is_some_and(Row::stands));
    }

    /// The change after this one in the order of the list, or before it.
    pub(crate) fn beside(&self, number: usize, after: bool) -> Option<usize> {
        let at = self.order.iter().position(|file| *file == number)?;
        if after { self.order.get(at + 1).copied() } else { at.checked_sub(1).map(|at| self.order[at]) }
    }

    /// What asks for a change as another lane has it.
    pub(crate) fn across(&self, number: usize, other: String) -> Option<Effect> {
        let file = self.changes.files.get(number)?;
        let lanes = [self.changes.lane.name.clone(), other];
        let (root, path) = (file.root_index, file.change.path.clone());
        Some(Effect::Across(Box::new(Across { lanes, root, path, number, met: false })))
    }

    /// Everything anew, after the filter changed.
    pub(crate) fn arrange(&mut self) {
        let filter = self.filter.to_lowercase();
        let files = &self.changes.files;
        let fits =
            |at: &usize| filter.is_empty() || render::place(&files[*at]).to_lowercase().contains(&filter);
        let is_guarded = |at: &usize| files[*at].guarded.is_some();
        let (guarded, plain): (Vec<usize>, Vec<usize>) = (0..files.len()).filter(fits).partition(is_guarded);
        self.order = plain;
        self.order.extend(guarded);
        self.lay_out();
    }

    /// Rows anew.
    fn lay_out(&mut self) {
        let under = self.rows.get(self.list.cursor).cloned();
        let files = &self.changes.files;
        let plain = self.order.partition_point(|at| files[*at].guarded.is_none());
        let (plain, guarded) = self.order.split_at(plain);
        let is_narrowed = !self.filter.is_empty();
        let mut rows = Vec::new();
        if !guarded.is_empty() {
            rows.push(Row::Head(format!("changes ({})", plain.len())));
        }
        let leaf = |number: &usize| {
            let file = &files[*number];
            Leaf { number: *number, root: file.root_index, path: &file.change.path }
        };
        let leaves: Vec<Leaf<'_>> = plain.iter().map(leaf).collect();
        // What a search found is seen.
        let shut = |root: usize, dir: &TreePath| !is_narrowed && self.shut.contains(&(root, dir.clone()));
        rows.extend(branches(&leaves, &shut).into_iter().map(|branch| match branch {
            Branch::Dir(dir) => Row::Dir(dir),
            Branch::File { number, depth, from } => Row::File { number, depth, from },
        }));
        if !guarded.is_empty() {
            let words = format!("runs by itself ({}): kept only where ticked one by one", guarded.len());
            rows.push(Row::Head(words));
            rows.extend(guarded.iter().map(|number| Row::File { number: *number, depth: 0, from: 0 }));
        }
        if !self.changes.gaps.is_empty() && !is_narrowed {
            rows.push(Row::Head(format!("not compared ({})", self.changes.gaps.len())));
            rows.extend(self.changes.gaps.iter().cloned().map(Row::Note));
        }
        if self.changes.git_internal > 0 && !is_narrowed {
            rows.push(Row::Note(format!("{} more in .git, which is never kept", self.changes.git_internal)));
        }
        self.rows = rows;
        self.fit(self.list.height);
        let same = |row: &Row| match (row, &under) {
            (Row::Dir(now), Some(Row::Dir(was))) => (now.root, &now.path) == (was.root, &was.path),
            (row, Some(was)) => row.number().is_some() && row.number() == was.number(),
            (_, None) => false,
        };
        if let Some(row) = self.rows.iter().position(same) {
            self.go(row);
        }
    }

    fn fit(&mut self, height: usize) {
        let rows = &self.rows;
        self.list.fit(rows.len(), height, |at| rows.get(at).is_some_and(Row::stands));
    }

    /// Ticks everything that the filter leaves and that does not run by itself; answers how many of the others stay.
    pub(crate) fn tick_all(&mut self) -> usize {
        let mut left = 0;
        for number in &self.order {
            if self.changes.files[*number].guarded.is_none() {
                self.changes.ticks.tick(*number);
            } else if self.changes.ticks.file(*number) != Ticked::All {
                left += 1;
            }
        }
        left
    }

    /// The next file whose lines were not counted: those that are seen first.
    pub(crate) fn want(&self) -> Option<Want> {
        let seen = self.rows.get(self.list.window()).unwrap_or_default().iter().filter_map(Row::number);
        let is_wanted = |at: &usize| !self.counts.contains_key(at) && size(&self.changes.files[*at]) <= LARGE;
        let next = seen.chain(0..self.changes.files.len()).find(is_wanted)?;
        Some(Want::Count(next))
    }

    /// How much is ticked of what is in a directory.
    fn ticked_in(&self, dir: &Dir) -> Ticked {
        let mut all = self.order[dir.inside.clone()].iter().map(|number| self.changes.ticks.file(*number));
        let first = all.next().unwrap_or(Ticked::None);
        if all.all(|ticked| ticked == first) { first } else { Ticked::Some }
    }

    /// Ticks the row under the cursor, or takes its ticks away.
    fn flip(&mut self) {
        match self.rows.get(self.list.cursor) {
            Some(Row::File { number, .. }) => self.changes.ticks.flip(*number),
            Some(Row::Dir(dir)) => {
                let on = self.ticked_in(dir) != Ticked::All;
                for number in &self.order[dir.inside.clone()] {
                    if on != (self.changes.ticks.file(*number) == Ticked::All) {
                        self.changes.ticks.set(*number, on);
                    }
                }
            }
            _ => {}
        }
    }

    /// Opens a directory, or closes it.
    fn fold(&mut self, dir: &Dir) {
        let at = (dir.root, dir.path.clone());
        if dir.open {
            self.shut.insert(at);
        } else {
            self.shut.remove(&at);
        }
        self.lay_out();
    }

    /// One step to the left: an open directory is closed, of what is in a directory the cursor goes to that. False
    /// where there is nothing of the kind.
    pub(crate) fn leave_dir(&mut self) -> bool {
        match self.rows.get(self.list.cursor).cloned() {
            Some(Row::Dir(dir)) if dir.open && self.filter.is_empty() => {
                self.fold(&dir);
                true
            }
            Some(Row::File { depth, .. } | Row::Dir(Dir { depth, .. })) if depth > 0 => {
                let is_above = |at: &usize| matches!(&self.rows[*at], Row::Dir(dir) if dir.depth < depth);
                if let Some(above) = (0..self.list.cursor).rev().find(is_above) {
                    self.go(above);
                }
                true
            }
            _ => false,
        }
    }

    /// Closes all directories, or opens them where all are closed.
    fn fold_all(&mut self) {
        let dirs = |rows: &[Row]| -> Vec<(usize, TreePath)> {
            let open = |row: &Row| match row {
                Row::Dir(dir) if dir.open => Some((dir.root, dir.path.clone())),
                _ => None,
            };
            rows.iter().filter_map(open).collect()
        };
        let open = dirs(&self.rows);
        if open.is_empty() {
            self.shut.clear();
        } else {
            self.shut.extend(open);
        }
        self.lay_out();
    }

    /// Takes a key; what it asks for.
    pub(crate) fn key(&mut self, key: &KeyEvent) -> Option<Effect> {
        let rows = &self.rows;
        if self.list.key(key, |at| rows.get(at).is_some_and(Row::stands)) {
            return None;
        }
        match key.code {
            KeyCode::Char(' ') => {
                self.flip();
                let rows = &self.rows;
                let down = KeyEvent::from(KeyCode::Down);
                self.list.key(&down, |at| rows.get(at).is_some_and(Row::stands));
                None
            }
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => match self.rows.get(self.list.cursor)? {
                Row::Dir(dir) if key.code == KeyCode::Enter || !dir.open => {
                    let dir = dir.clone();
                    self.fold(&dir);
                    None
                }
                Row::File { number, .. } => Some(Effect::Content(*number)),
                _ => None,
            },
            KeyCode::Char('z') => {
                self.fold_all();
                None
            }
            KeyCode::Char('n') => {
                self.changes.ticks.clear();
                None
            }
            KeyCode::Char('r') => Some(Effect::Open(self.changes.lane.name.clone())),
            _ => None,
        }
    }

    /// A click: on a box it ticks, on a directory it folds, on the change under the cursor it opens it.
    pub(crate) fn click(&mut self, x: u16, y: u16) -> Option<Effect> {
        let at = self.list.top + usize::from(y.checked_sub(self.body.y)?);
        let row =
            self.rows.get(at).filter(|row| row.stands() && self.list.window().contains(&at)).cloned()?;
        let was = self.list.cursor;
        self.go(at);
        if x < self.body.x + 4 {
            self.flip();
            return None;
        }
        match row {
            Row::Dir(dir) => {
                self.fold(&dir);
                None
            }
            row => (at == was).then(|| row.number().map(Effect::Content)).flatten(),
        }
    }

    /// The wheel was turned.
    pub(crate) fn wheel(&mut self, down: bool) {
        let rows = &self.rows;
        self.list.wheel(down, |at| rows.get(at).is_some_and(Row::stands));
    }
}

/// Bytes of the larger side.
fn size(file: &FileView) -> u64 {
    let sides = [&file.change.old, &file.change.new].into_iter().flatten();
    sides.map(|entry| entry.size).max().unwrap_or(0)
}

/// The view's role for one of the printed output.
pub(crate) fn role_of(role: crate::style::Role) -> Role {
    use crate::style::Role as Printed;
    match role {
        Printed::Add | Printed::Good => Role::Add,
        Printed::Delete | Printed::Bad => Role::Delete,
        Printed::Modify => Role::Modify,
        Printed::Warn => Role::Warn,
        Printed::Lane | Printed::Head => Role::Head,
        Printed::Dim => Role::Dim,
        Printed::Command => Role::Key,
    }
}
