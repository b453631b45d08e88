//! What every screen has around it: the title above, the keys below, boxes in front. Pure drawing.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::paint::{cut, cut_middle, put, width};
use super::theme::{Role, Theme};

/// A key that can be pressed now, and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The key as it is shown.
    pub(crate) key: &'static str,
    /// The key as it comes.
    pub(crate) code: KeyCode,
    /// What it does.
    pub(crate) what: &'static str,
}

/// A hint.
pub(crate) const fn hint(key: &'static str, code: KeyCode, what: &'static str) -> Hint {
    Hint { key, code, what }
}

/// The smallest terminal that anything is drawn on.
pub(crate) const SMALLEST: (u16, u16) = (20, 6);

/// Where the parts of a screen are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The title.
    pub(crate) title: Rect,
    /// The screen's own part.
    pub(crate) body: Rect,
    /// One line of talk.
    pub(crate) note: Rect,
    /// The keys.
    pub(crate) keys: Rect,
}

/// Divides the terminal.
pub(crate) fn divide(area: Rect) -> Parts {
    let line = |y: u16| Rect { y, height: 1, ..area };
    Parts {
        title: line(area.y),
        body: Rect { y: area.y + 1, height: area.height.saturating_sub(3), ..area },
        note: line(area.bottom().saturating_sub(2)),
        keys: line(area.bottom().saturating_sub(1)),
    }
}

/// Fills an area with a style and nothing else.
pub(crate) fn clear(buf: &mut Buffer, area: Rect, style: Style) {
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
    buf.set_style(area, style);
}

/// The line above: where one is, and a sum at the right.
pub(crate) fn title(buf: &mut Buffer, area: Rect, theme: Theme, left: &str, right: &str) {
    clear(buf, area, theme.bar());
    let right = cut(right, usize::from(area.width / 2));
    let taken = width(&right) as u16;
    let room = area.width.saturating_sub(taken + 3);
    put(
        buf,
        area.x + 1,
        area.y,
        room,
        &cut_middle(left, usize::from(room)),
        Style::new().add_modifier(Modifier::BOLD),
    );
    put(buf, area.right().saturating_sub(taken + 1), area.y, taken, &right, Style::new());
}

/// The line below: as many keys as fit, `?` always among them. Answers where each one stands, for the mouse.
pub(crate) fn keys(buf: &mut Buffer, area: Rect, theme: Theme, hints: &[Hint]) -> Vec<(Range<u16>, KeyCode)> {
    const HELP: Hint = hint("?", KeyCode::Char('?'), "help");
    clear(buf, area, theme.bar());
    let mut places = Vec::new();
    let wide = |hint: &Hint| (width(hint.key) + 1 + width(hint.what)) as u16;
    let end = area.right().saturating_sub(wide(&HELP) + 1);
    let mut draw = |hint: &Hint, x: u16| {
        let next = put(buf, x, area.y, area.width, hint.key, theme.role(Role::Key));
        let next = put(buf, next + 1, area.y, area.width, hint.what, Style::new());
        places.push((x..next, hint.code));
        next
    };
    let mut x = area.x + 1;
    for hint in hints {
        if x + wide(hint) + 2 > end {
            break;
        }
        x = draw(hint, x) + 2;
    }
    draw(&HELP, end);
    places
}

/// A box in the middle with lines in it; answers its inside. Lines that do not fit are cut at the end.
pub(crate) fn boxed(
    buf: &mut Buffer,
    area: Rect,
    theme: Theme,
    title: &str,
    lines: &[(String, Style)],
) -> Rect {
    let widest =
        lines.iter().map(|(line, _)| width(line)).chain([width(title) + 2]).max().unwrap_or(0) as u16;
    let (w, h) = ((widest + 4).min(area.width), (lines.len() as u16 + 2).min(area.height));
    let place =
        Rect { x: area.x + (area.width - w) / 2, y: area.y + (area.height - h) / 2, width: w, height: h };
    clear(buf, place, Style::new());
    let rim = theme.role(Role::Dim);
    let across = "─".repeat(usize::from(w.saturating_sub(2)));
    put(buf, place.x, place.y, w, &format!("┌{across}┐"), rim);
    put(buf, place.x, place.bottom() - 1, w, &format!("└{across}┘"), rim);
    for y in place.y + 1..place.bottom() - 1 {
        put(buf, place.x, y, 1, "│", rim);
        put(buf, place.right() - 1, y, 1, "│", rim);
    }
    put(buf, place.x + 2, place.y, w.saturating_sub(4), &format!(" {title} "), theme.role(Role::Head));
    let inside =
        Rect { x: place.x + 2, y: place.y + 1, width: w.saturating_sub(4), height: h.saturating_sub(2) };
    for (y, (line, style)) in (inside.y..inside.bottom()).zip(lines) {
        put(buf, inside.x, y, inside.width, &cut(line, usize::from(inside.width)), *style);
    }
    inside
}

/// Breaks text into lines of at most `room` columns, at spaces where there are any.
pub(crate) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        while width(&line) > room {
            let mut head = String::new();
            for c in line.chars() {
                if width(&head) + width(c.encode_utf8(&mut [0; 4])) > room {
                    break;
                }
                head.push(c);
            }
            line.drain(..head.len());
            lines.push(head);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{boxed, divide, keys, wrapped};
    use crate::tui::theme::{Depth, Ground, Theme};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    const THEME: Theme = Theme { depth: Depth::Plain, ground: Ground::Dark };

    #[test]
    fn help_is_offered_however_narrow_the_terminal_is() {
        for columns in [20, 40, 80] {
            let area = Rect::new(0, 0, columns, 1);
            let mut buf = Buffer::empty(area);
            let hints = [super::hint("enter", ratatui::crossterm::event::KeyCode::Enter, "open the lane"); 5];
            let places = keys(&mut buf, area, THEME, &hints);
            let text: String = buf.content().iter().map(|cell| cell.symbol()).collect();
            assert!(text.ends_with("? help "), "{text:?}");
            assert!(places.iter().all(|(range, _)| range.end <= columns));
        }
    }

    #[test]
    fn long_text_is_broken_at_spaces_and_a_long_word_anywhere() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("0123456789abc", 8), ["01234567", "89abc"]);
        assert_eq!(wrapped("", 8), [""]);
    }

    #[test]
    fn boxes_and_parts_fit_into_any_terminal() {
        for (w, h) in [(1, 1), (3, 3), (20, 6), (200, 60)] {
            let area = Rect::new(0, 0, w, h);
            let parts = divide(area);
            assert!(parts.keys.bottom() <= h && parts.body.bottom() <= h.max(1));
            if w >= 20 && h >= 6 {
                let mut buf = Buffer::empty(area);
                let inside =
                    boxed(&mut buf, area, THEME, "title", &vec![("x".repeat(300), Style::new()); 100]);
                assert!(inside.right() < w && inside.bottom() < h);
            }
        }
    }
}
