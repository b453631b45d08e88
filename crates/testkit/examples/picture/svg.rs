//! Screens of a terminal as one SVG, one below the other. It owns the look of the pictures: colours, size, font.

use std::fmt::Write as _;

const CELL: (f64, f64) = (8.43, 19.0);
const EDGE: f64 = 16.0;
const INK: &str = "#e6edf3";
const PAPER: &str = "#0d1117";

/// How a piece of text looks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    ink: String,
    paper: Option<String>,
    bold: bool,
}

/// The screens as an SVG; empty rows at the end of each are left out.
pub(crate) fn draw(screens: &[&vt100::Screen]) -> String {
    let (mut body, mut row, mut columns) = (String::new(), 0usize, 0u16);
    for screen in screens {
        let (rows, across) = screen.size();
        let (rows, across) = (rows.get(), across.get());
        columns = columns.max(across);
        let is_used = |row: &u16| {
            !screen.contents_between(*row, 0, *row, across).trim().trim_end_matches('$').is_empty()
        };
        let used = (0..rows).filter(is_used).max().map_or(0, |last| last + 1);
        for line in 0..used {
            draw_line(&mut body, screen, line, row);
            row += 1;
        }
        row += 1;
    }
    let (width, height) =
        (f64::from(columns) * CELL.0 + 2.0 * EDGE, row.saturating_sub(1) as f64 * CELL.1 + 2.0 * EDGE);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{INK}\">\n\
         {body}</g>\n</svg>\n"
    )
}

fn draw_line(body: &mut String, screen: &vt100::Screen, line: u16, row: usize) {
    let columns = screen.size().1.get();
    // Pieces of one look, each with its first column.
    let mut pieces: Vec<(u16, u16, Look, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(line, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let look = look(cell);
        let text = if cell.contents().is_empty() { " " } else { cell.contents() };
        let wide = if cell.is_wide() { 2 } else { 1 };
        match pieces.last_mut() {
            Some((from, across, same, so_far)) if *same == look && *from + *across == column => {
                *across += wide;
                so_far.push_str(text);
            }
            _ => pieces.push((column, wide, look, text.to_owned())),
        }
    }
    let top = EDGE + row as f64 * CELL.1;
    let mut texts = String::new();
    for (from, across, look, text) in pieces {
        let x = EDGE + f64::from(from) * CELL.0;
        if let Some(paper) = &look.paper {
            let across = f64::from(across) * CELL.0;
            let _ = writeln!(
                body,
                "<rect x=\"{x:.2}\" y=\"{top:.2}\" width=\"{across:.2}\" height=\"{}\" fill=\"{paper}\"/>",
                CELL.1
            );
        }
        if text.trim().is_empty() {
            continue;
        }
        let ink = if look.ink == INK { String::new() } else { format!(" fill=\"{}\"", look.ink) };
        let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
        let _ = write!(texts, "<tspan x=\"{x:.2}\"{ink}{weight}>{}</tspan>", escaped(text.trim_end()));
    }
    if !texts.is_empty() {
        let _ = writeln!(body, "<text y=\"{:.2}\" xml:space=\"preserve\">{texts}</text>", top + 14.0);
    }
}

fn look(cell: &vt100::Cell) -> Look {
    let mut ink =
        colour(cell.fgcolor()).unwrap_or_else(|| if cell.dim() { "#8b949e" } else { INK }.to_owned());
    let mut paper = colour(cell.bgcolor());
    if cell.inverse() {
        (ink, paper) = (paper.unwrap_or_else(|| PAPER.to_owned()), Some(ink));
    }
    Look { ink, paper, bold: cell.bold() }
}

fn colour(colour: vt100::Color) -> Option<String> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        vt100::Color::Idx(index @ 0..=15) => Some(own(index).to_owned()),
        vt100::Color::Idx(index @ 16..=231) => {
            let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            let cube = index - 16;
            let (red, green, blue) = (level(cube / 36), level(cube / 6 % 6), level(cube % 6));
            Some(format!("#{red:02x}{green:02x}{blue:02x}"))
        }
        vt100::Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
    }
}

fn own(index: u8) -> &'static str {
    match index % 8 {
        0 => "#8b949e",
        1 => "#ff7b72",
        2 => "#7ee787",
        3 => "#e3b341",
        4 => "#79c0ff",
        5 => "#d2a8ff",
        6 => "#56d4dd",
        _ => INK,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
