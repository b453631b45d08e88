//! Tables: columns as wide as what is shown; the last one is cut where a terminal ends.

use crate::escape::{Kind, escape};
use crate::style::Role;
use crate::ui::Ui;

/// A cell: what is shown, how wide it is, and its role.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    width: usize,
    role: Option<Role>,
    right: bool,
}

impl Cell {
    /// Any text; it is escaped.
    pub(crate) fn new(text: impl AsRef<[u8]>) -> Cell {
        let shown = escape(text.as_ref(), Kind::Name);
        Cell { text: shown.text, width: shown.width, role: None, right: false }
    }

    /// Text that went through `escape` already.
    pub(crate) fn escaped(text: String) -> Cell {
        let width = escape(text.as_bytes(), Kind::Content).width;
        Cell { text, width, role: None, right: false }
    }

    /// The same cell in at most `width` columns.
    fn cut(&self, width: usize) -> Cell {
        if self.width <= width {
            return self.clone();
        }
        let mut cell = self.clone();
        while cell.width >= width && cell.text.pop().is_some() {
            cell.width = escape(cell.text.as_bytes(), Kind::Content).width;
        }
        cell.text.push('…');
        cell.width += 1;
        cell
    }

    /// In the colour of a role.
    pub(crate) fn role(mut self, role: Role) -> Cell {
        self.role = Some(role);
        self
    }

    /// Flush right, for numbers.
    pub(crate) fn right(mut self) -> Cell {
        self.right = true;
        self
    }
}

/// Lines of a table under its headings.
pub(crate) fn lines(ui: &Ui, head: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    let heads: Vec<Cell> = head.iter().map(|word| Cell::new(word).role(Role::Dim)).collect();
    let all = || std::iter::once(&heads).filter(|_| !head.is_empty()).chain(rows);
    let columns = all().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| all().filter_map(|row| row.get(at)).map(|cell| cell.width).max().unwrap_or(0))
        .collect();
    let Some(columns) = ui.columns() else { return all().map(|row| line(ui, row, &widths)).collect() };
    let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    // A terminal too narrow for the other columns wraps them; the last one keeps something to read.
    let room = columns.saturating_sub(before + 1).max(16);
    let cut = |row: &Vec<Cell>| -> Vec<Cell> {
        let last = widths.len().saturating_sub(1);
        row.iter()
            .enumerate()
            .map(|(at, cell)| if at == last { cell.cut(room) } else { cell.clone() })
            .collect()
    };
    all().map(|row| line(ui, &cut(row), &widths)).collect()
}

fn line(ui: &Ui, row: &[Cell], widths: &[usize]) -> String {
    let mut out = String::new();
    for (at, cell) in row.iter().enumerate() {
        if at > 0 {
            out.push_str("  ");
        }
        let gap = widths[at].saturating_sub(cell.width);
        if cell.right {
            out.extend(std::iter::repeat_n(' ', gap));
        }
        match cell.role {
            Some(role) => out.push_str(&ui.paint(role, &cell.text)),
            None => out.push_str(&cell.text),
        }
        if !cell.right && at + 1 < row.len() {
            out.extend(std::iter::repeat_n(' ', gap));
        }
    }
    out.truncate(out.trim_end_matches(' ').len());
    out
}
