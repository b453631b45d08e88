//! `cargo xtask tidy`: one check to a file, each a pure function from the files to complaints.

mod cases;
mod docs;
mod files;
mod floors;
mod powers;
mod sizes;
mod words;

use crate::r#gen;
use crate::source::{self, Outcome};

/// Runs every check and answers all complaints together.
pub fn run() -> Outcome {
    let files = source::all()?;
    let mut complaints = Vec::new();
    for check in
        [floors::check, powers::check, sizes::check, files::check, docs::check, cases::check, words::check]
    {
        complaints.extend(check(&files));
    }
    complaints.extend(r#gen::check().err().into_iter().flatten());
    if complaints.is_empty() { Ok(()) } else { Err(complaints) }
}
