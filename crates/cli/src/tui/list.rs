//! [`List`]: a cursor in a long list of which a window is shown. Pure; it knows numbers of rows and nothing of them.
//!
//! Invariant: the cursor is a row that is there and that can be stood on, if there is any, and it is in the window.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Rows that the wheel moves by.
const WHEEL: usize = 3;

/// A cursor and the window around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// The row under the cursor.
    pub(crate) cursor: usize,
    /// The first row of the window.
    pub(crate) top: usize,
    /// Rows of the window.
    pub(crate) height: usize,
    /// Rows of the list.
    pub(crate) len: usize,
}

impl List {
    /// The rows that are shown.
    pub(crate) fn window(&self) -> std::ops::Range<usize> {
        self.top..self.len.min(self.top + self.height)
    }

    /// The list has so many rows, and the window shows so many of them; `stands` tells which can be stood on.
    pub(crate) fn fit(&mut self, len: usize, height: usize, stands: impl Fn(usize) -> bool) {
        (self.len, self.height) = (len, height.max(1));
        self.settle(true, &stands);
    }

    /// Takes a key that moves; false where it is none.
    pub(crate) fn key(&mut self, key: &KeyEvent, stands: impl Fn(usize) -> bool) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let page = self.height.saturating_sub(1).max(1);
        match key.code {
            KeyCode::Down | KeyCode::Char('j') if !control => self.step(true, 1, &stands),
            KeyCode::Up | KeyCode::Char('k') if !control => self.step(false, 1, &stands),
            KeyCode::PageDown => self.step(true, page, &stands),
            KeyCode::PageUp => self.step(false, page, &stands),
            KeyCode::Char('d') if control => self.step(true, page.div_ceil(2), &stands),
            KeyCode::Char('u') if control => self.step(false, page.div_ceil(2), &stands),
            KeyCode::Home | KeyCode::Char('g') if !control => self.go(0, &stands),
            KeyCode::End | KeyCode::Char('G') if !control => {
                self.cursor = self.len.saturating_sub(1);
                self.settle(false, &stands);
            }
            _ => return false,
        }
        true
    }

    /// Moves the cursor to a row, or to the next one that can be stood on.
    pub(crate) fn go(&mut self, row: usize, stands: &impl Fn(usize) -> bool) {
        self.cursor = row;
        self.settle(true, stands);
    }

    /// The wheel was turned: the window moves, and the cursor stays in it.
    pub(crate) fn wheel(&mut self, down: bool, stands: impl Fn(usize) -> bool) {
        let last = self.len.saturating_sub(self.height);
        self.top = if down { (self.top + WHEEL).min(last) } else { self.top.saturating_sub(WHEEL) };
        let window = self.window();
        if !window.contains(&self.cursor) {
            let inside = |row: &usize| stands(*row);
            let found = if down { window.clone().find(inside) } else { window.clone().rev().find(inside) };
            // A window of headings alone: the cursor stays outside of it rather than on one of them.
            self.cursor = found.unwrap_or(self.cursor);
        }
    }

    fn step(&mut self, down: bool, by: usize, stands: &impl Fn(usize) -> bool) {
        let before = self.cursor;
        self.cursor = if down {
            (self.cursor + by).min(self.len.saturating_sub(1))
        } else {
            self.cursor.saturating_sub(by)
        };
        self.settle(down, stands);
        if down && self.cursor < before {
            self.cursor = before;
        }
        // What stands above the first row can be seen, too.
        if !down && (0..self.cursor).all(|row| !stands(row)) {
            self.top = 0;
            self.show();
        }
    }

    /// Puts the cursor where it can stand, in the direction of the move first, and the window around it.
    fn settle(&mut self, down: bool, stands: &impl Fn(usize) -> bool) {
        if self.len == 0 {
            (self.cursor, self.top) = (0, 0);
            return;
        }
        self.cursor = self.cursor.min(self.len - 1);
        if !stands(self.cursor) {
            let after = || (self.cursor..self.len).find(|row| stands(*row));
            let before = || (0..self.cursor).rev().find(|row| stands(*row));
            let found = if down { after().or_else(before) } else { before().or_else(after) };
            self.cursor = found.unwrap_or(self.cursor);
        }
        self.show();
    }

    fn show(&mut self) {
        self.top = self.top.min(self.len.saturating_sub(self.height));
        self.top = self.top.clamp((self.cursor + 1).saturating_sub(self.height), self.cursor);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    use super::List;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::from(code)
    }

    #[test]
    fn the_cursor_passes_over_headings() {
        let stands = |row: usize| row != 0 && row != 3;
        let mut list = List::default();
        list.fit(6, 4, stands);
        assert_eq!(list.cursor, 1);
        list.key(&key(KeyCode::Down), stands);
        list.key(&key(KeyCode::Down), stands);
        assert_eq!(list.cursor, 4);
        list.key(&key(KeyCode::Up), stands);
        list.key(&key(KeyCode::Up), stands);
        assert_eq!((list.cursor, list.top), (1, 0));
    }

    #[test]
    fn a_list_that_got_shorter_keeps_a_cursor_in_it() {
        let mut list = List::default();
        list.fit(100, 10, |_| true);
        list.key(&key(KeyCode::End), |_| true);
        assert_eq!((list.cursor, list.top), (99, 90));
        list.fit(5, 10, |_| true);
        assert_eq!((list.cursor, list.top), (4, 0));
    }

    proptest! {
        #[test]
        fn the_cursor_is_always_in_the_window(
            len in 0usize..50,
            height in 1usize..20,
            moves in prop::collection::vec(0u8..9, 0..40),
            headings in prop::collection::btree_set(0usize..50, 0..10),
        ) {
            let stands = |row: usize| !headings.contains(&row);
            let any = (0..len).any(stands);
            let mut list = List::default();
            list.fit(len, height, stands);
            for step in moves {
                let wheel = step >= 7;
                match step {
                    0 => { list.key(&key(KeyCode::Down), stands); }
                    1 => { list.key(&key(KeyCode::Up), stands); }
                    2 => { list.key(&key(KeyCode::PageDown), stands); }
                    3 => { list.key(&key(KeyCode::PageUp), stands); }
                    4 => { list.key(&key(KeyCode::Home), stands); }
                    5 => { list.key(&key(KeyCode::End), stands); }
                    6 => { list.fit(len, height, stands); }
                    _ => list.wheel(step == 7, stands),
                }
                if any {
                    prop_assert!(list.cursor < len && stands(list.cursor), "{list:?}");
                    prop_assert!(wheel || list.window().contains(&list.cursor), "{list:?}");
                }
                prop_assert!(list.window().end <= len);
            }
        }
    }
}
