//! Text of ours and of lanes, cut to the columns that there are. Everything of a lane comes through `escape` here.
//!
//! Invariant: the cost of a line follows the columns that are shown and how far it is scrolled, and never its length;
//! a cut is marked.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthChar as _;

use super::theme::Token;
use crate::escape::{self, Kind};

/// Columns between tab stops.
const TAB: usize = 4;

/// The mark of a cut.
pub(crate) const CUT: &str = "…";

/// A piece of a line of content: its bytes and what they are.
pub(crate) type Piece = (Range<usize>, Option<Token>);

/// Writes text from column `x` on, at most `room` columns of it; answers the column behind it.
pub(crate) fn put(buf: &mut Buffer, x: u16, y: u16, room: u16, text: &str, style: Style) -> u16 {
    let area = buf.area;
    if room == 0 || y >= area.bottom() || x >= area.right() {
        return x;
    }
    buf.set_stringn(x, y, text, usize::from(room), style).0
}

/// Columns of a text that holds no tabs.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text in at most `room` columns; what is cut off at the end is marked.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut out = front(text, room.saturating_sub(1));
    if room > 0 {
        out.push_str(CUT);
    }
    out
}

/// The text in at most `room` columns; the middle goes first, so that a path keeps its beginning and its name.
pub(crate) fn cut_middle(text: &str, room: usize) -> String {
    let all = width(text);
    if all <= room {
        return text.to_owned();
    }
    if room < 4 {
        return cut(text, room);
    }
    let tail_room = (room - 1) * 2 / 3;
    let head = front(text, room - 1 - tail_room);
    let mut tail_at = text.len();
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > tail_room {
            break;
        }
        tail_at = at;
    }
    format!("{head}{CUT}{}", &text[tail_at..])
}

fn front(text: &str, room: usize) -> String {
    let mut used = 0;
    let mut out = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        out.push(c);
    }
    out
}

/// A line of content as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Painted {
    /// Its pieces, from the first shown column on.
    pub(crate) spans: Vec<Span<'static>>,
    /// Something in what was looked at had to be escaped.
    pub(crate) flagged: bool,
    /// There is more to the left, to the right.
    pub(crate) more: (bool, bool),
}

/// Columns `skip` to `skip + room` of a line without its ending, `plain` where no piece says otherwise, and `marked`
/// over the bytes of `marks`. `style` gives the look of a token.
pub(crate) fn content(
    bytes: &[u8],
    pieces: &[Piece],
    (plain, marked, marks): (Style, Style, &[Range<usize>]),
    style: impl Fn(Token) -> Style,
    (skip, room): (usize, usize),
) -> Painted {
    let whole = [(0..bytes.len(), None)];
    let pieces = if pieces.is_empty() { &whole[..] } else { pieces };
    let parts =
        pieces.iter().flat_map(|(range, token)| cut_at(range.clone(), marks).map(move |part| (part, token)));
    let mut window = Window { skip, end: skip + room, column: 0, spans: Vec::new(), more: (false, false) };
    let mut flagged = false;
    'line: for ((range, is_marked), token) in parts {
        let look = token.map_or(plain, |token| plain.patch(style(token)));
        let look = if is_marked { look.patch(marked) } else { look };
        // No character has more than four bytes: a window of so many bytes fills the columns, but for marks without a
        // width of their own, which take the loop round again.
        let mut at = range.start;
        while at < range.end.min(bytes.len()) {
            let want = (window.end - window.column).saturating_mul(4) + 4;
            let stop = boundary(bytes, at, (at + want).min(range.end).min(bytes.len()));
            let shown = escape::escape(&bytes[at..stop], Kind::Content);
            flagged |= shown.flagged;
            if !window.take(&shown.text, look) {
                break 'line;
            }
            at = stop;
        }
    }
    Painted { spans: window.spans, flagged, more: window.more }
}

/// The parts of a piece, and which of them are marked. Marks are sorted and apart.
fn cut_at(piece: Range<usize>, marks: &[Range<usize>]) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut at = piece.start;
    std::iter::from_fn(move || {
        if at >= piece.end {
            return None;
        }
        let from = at;
        let next = marks.iter().find(|mark| mark.end > from);
        let (end, is_marked) = match next {
            Some(mark) if mark.start <= from => (mark.end, true),
            Some(mark) => (mark.start, false),
            None => (piece.end, false),
        };
        at = end.min(piece.end);
        Some((from..at, is_marked))
    })
}

/// The end of a piece that begins at `from`, put back to where a character begins.
fn boundary(bytes: &[u8], from: usize, to: usize) -> usize {
    if to == bytes.len() {
        return to;
    }
    let mut at = to;
    while at > from && to - at < 3 && bytes[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    if at == from || bytes[at] & 0xc0 == 0x80 { to } else { at }
}

struct Window {
    skip: usize,
    end: usize,
    column: usize,
    spans: Vec<Span<'static>>,
    more: (bool, bool),
}

impl Window {
    /// Takes text in; false where the window is full.
    fn take(&mut self, text: &str, style: Style) -> bool {
        let mut out = String::new();
        let mut full = false;
        for c in text.chars() {
            let columns = if c == '\t' { TAB - self.column % TAB } else { c.width().unwrap_or(0) };
            let next = self.column + columns;
            if next > self.end {
                self.more.1 = true;
                full = true;
                break;
            }
            if columns == 0 {
                if self.column > self.skip {
                    out.push(c);
                }
            } else if self.column >= self.skip && c != '\t' {
                out.push(c);
            } else {
                // A tab, or a wide character that the left edge cuts.
                self.more.0 |= self.column < self.skip;
                out.extend(std::iter::repeat_n(' ', next.saturating_sub(self.skip.max(self.column))));
            }
            self.column = next;
        }
        if !out.is_empty() {
            self.spans.push(Span::styled(out, style));
        }
        !full
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::style::Style;
    use unicode_width::UnicodeWidthChar as _;

    use super::{Painted, content, cut, cut_middle, width};

    fn paint(bytes: &[u8], skip: usize, room: usize) -> Painted {
        content(bytes, &[], (Style::new(), Style::new(), &[]), |_| Style::new(), (skip, room))
    }

    fn text(painted: &Painted) -> String {
        painted.spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn a_path_keeps_its_name_where_it_is_cut() {
        assert_eq!(cut_middle("src/very/long/path/to/name.rs", 16), "src/v…to/name.rs");
        assert_eq!(cut_middle("short", 16), "short");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut_middle("日本語日本語", 5), "日…語");
    }

    #[test]
    fn tabs_reach_the_next_stop_also_where_the_line_is_scrolled() {
        assert_eq!(text(&paint(b"\ta", 0, 20)), "    a");
        assert_eq!(text(&paint(b"ab\tc", 0, 20)), "ab  c");
        assert_eq!(text(&paint(b"ab\tc", 3, 20)), " c");
    }

    #[test]
    fn a_cut_is_told_on_either_side() {
        let painted = paint(b"0123456789", 2, 4);
        assert_eq!((text(&painted).as_str(), painted.more), ("2345", (true, true)));
        assert_eq!(paint(b"0123", 0, 4).more, (false, false));
    }

    #[test]
    fn a_wide_character_on_the_edge_leaves_a_gap_and_no_half() {
        assert_eq!(text(&paint("日本".as_bytes(), 1, 3)), " 本");
        assert_eq!(text(&paint("日本".as_bytes(), 0, 3)), "日");
    }

    #[test]
    fn what_steers_a_terminal_is_spelled_out_and_flagged() {
        let painted = paint(b"a\x1b[2Jb", 0, 40);
        assert_eq!((text(&painted).as_str(), painted.flagged), (r"a\x1b[2Jb", true));
    }

    #[test]
    fn marks_are_laid_over_the_pieces_and_add_no_text() {
        use super::Token;
        let pieces = [(0..3, Some(Token::Keyword)), (3..8, None)];
        let bold = Style::new().add_modifier(ratatui::style::Modifier::BOLD);
        let painted =
            content(b"let a\x1b=1", &pieces, (Style::new(), bold, &[2..5, 6..7]), |_| Style::new(), (0, 40));
        assert_eq!((text(&painted).as_str(), painted.flagged), (r"let a\x1b=1", true));
        let marked: Vec<&str> =
            painted.spans.iter().filter(|span| span.style == bold).map(|span| &*span.content).collect();
        assert_eq!(marked.concat(), "t a=");
    }

    #[test]
    fn a_line_of_many_megabytes_costs_what_is_shown() {
        let line = vec![b'x'; 64 << 20];
        let begun = std::time::Instant::now();
        for _ in 0..1000 {
            assert_eq!(text(&paint(&line, 100, 80)).len(), 80);
        }
        // A thousand looks at all of it would be 64 GiB.
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn a_window_is_what_the_whole_line_shows_there(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'a'), Just(b'\t'), Just(0xc3), Just(0xa9)], 0..60),
            skip in 0usize..40,
            room in 1usize..40,
        ) {
            let all = text(&paint(&bytes, 0, 10_000));
            let mut expected = String::new();
            let mut column = 0;
            for c in all.chars() {
                let next = column + c.width().unwrap_or(0);
                if next > skip + room {
                    break;
                }
                if c.width() == Some(0) {
                    if column > skip { expected.push(c); }
                } else if column >= skip {
                    expected.push(c);
                } else if next > skip {
                    expected.extend(std::iter::repeat_n(' ', next - skip));
                }
                column = next;
            }
            let shown = text(&paint(&bytes, skip, room));
            prop_assert!(width(&shown) <= room);
            // A tab that the right edge cuts is left out whole.
            prop_assert!(expected.starts_with(&shown), "{shown:?} in {expected:?}");
            prop_assert!(expected[shown.len()..].chars().all(|c| c == ' '));
        }
    }
}
