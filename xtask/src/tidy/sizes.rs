//! How long a file may be, inline tests apart: a word at 400 lines, red at 800.

use crate::source::Source;

const LONG: usize = 400;
const TOO_LONG: usize = 800;

/// Complains about files that are too long, and mentions long ones.
pub fn check(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let length = file.length();
        if length > TOO_LONG {
            complaints.push(format!("{}: {length} lines; split it (at most {TOO_LONG})", file.path));
        } else if length > LONG {
            eprintln!("note: {}: {length} lines; it may be two files (above {LONG})", file.path);
        }
    }
    complaints
}
