//! The keys of each screen, as the help box lists them.

use super::app::Screen;
use super::frame::wrapped;
use super::paint::width;

/// Keys and what they do.
type Keys = &'static [(&'static str, &'static str)];

const EVERYWHERE: Keys = &[
    ("↑ ↓ PgUp PgDn Home End", "move; also j k g G, ^D ^U and the wheel"),
    ("click", "move; on a box: tick; on a key in the last line: press it"),
    ("^L ^Z q", "draw anew, suspend, quit"),
    ("↑ ↓ or any other key", "move in this box, close it"),
];

fn of(screen: Screen) -> Keys {
    match screen {
        Screen::Lanes => &[
            ("enter →", "see what the lane changed"),
            ("/", "only lanes with this in their name"),
            ("c", "compare with another lane, file by file"),
            ("u", "what was kept: take any of it back"),
            ("p n", "plan a keep of all that is ticked, in one go; tick none"),
            ("x", "export: write the lane beside the original"),
            ("D", "discard the lane; `lane recover` brings it back"),
            ("r", "read the list again"),
        ],
        Screen::Files => &[
            ("space", "tick the file or all of a directory, or take the ticks away"),
            ("a n", "tick all but what runs by itself; tick none"),
            ("enter →", "its hunks and lines; a directory: open or close it"),
            ("z", "close all directories; open them again"),
            ("p", "plan: what a keep of the ticks would do, with those in other lanes"),
            ("c", "compare the file with the same one in another lane"),
            ("/", "only paths with this in them"),
            ("x D", "export, discard"),
            ("r", "read the lane again"),
            ("esc ←", "back to the lanes; ← first leaves the directory"),
        ],
        Screen::Hunks => &[
            ("space", "tick the line or the hunk under the cursor"),
            ("enter", "tick the whole hunk"),
            ("a", "tick the whole file"),
            ("] [", "next hunk, hunk before"),
            ("tab shift-tab", "next file, file before"),
            ("→ ← 0", "scroll long lines"),
            ("/ n N", "find, next, before"),
            ("c", "compare with the same file in another lane"),
            ("p", "plan: what a keep of the ticks would do"),
            ("esc", "back to the files"),
        ],
        Screen::Two => &[
            ("enter →", "how the file differs, line by line"),
            ("b", "only paths that both lanes changed; all again"),
            ("/", "only paths with this in them"),
            ("r", "compare again"),
            ("esc ←", "back to the lanes"),
        ],
        Screen::Plan => &[
            ("y", "keep: write it into the original"),
            ("m o t s", "conflicts: markers, ours, theirs, stop; as `--conflicts` of lane keep"),
            ("esc", "back; nothing was written"),
        ],
        Screen::Done => &[
            ("u", "take the keep back; `lane undo --keep` does it later, too"),
            ("D", "discard the lane"),
            ("enter", "back to the files"),
        ],
        Screen::Back => &[("enter", "back to the files")],
    }
}

/// The lines of the box, in at most `room` columns.
pub(crate) fn lines(screen: Screen, room: usize) -> Vec<String> {
    let all = || of(screen).iter().chain(EVERYWHERE);
    let column = all().map(|(key, _)| width(key)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (key, what) in all() {
        if room >= 60 {
            let gap = " ".repeat(column - width(key) + 2);
            lines.extend(wrapped(&format!("{key}{gap}{what}"), room));
        } else {
            lines.extend(wrapped(&format!("{key}: {what}"), room));
        }
    }
    lines
}
