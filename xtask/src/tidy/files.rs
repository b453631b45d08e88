//! Every Rust file opens with a `//!` head that says what it owns (a `tests.rs` has its neighbour's), and
//! no name is a catch-all.

use crate::source::Source;

const CATCH_ALLS: &[&str] = &["util", "utils", "helper", "helpers", "manager", "common", "misc"];

/// Complains about missing heads and names that say nothing.
pub fn check(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let first = file.text.lines().next().unwrap_or_default();
        let headless = !first.starts_with("//! ") || first.contains("Placeholder");
        if headless && !file.path.ends_with("/tests.rs") {
            complaints.push(format!("{}: it must open with a `//!` line that says what it owns", file.path));
        }
        let steps = file.path.trim_end_matches(".rs").split('/');
        for step in steps.filter(|step| CATCH_ALLS.contains(step)) {
            complaints.push(format!("{}: the name `{step}` says nothing", file.path));
        }
    }
    complaints
}
