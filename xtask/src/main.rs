//! The project's own chores: `cargo xtask tidy` checks what the compiler cannot, `cargo xtask gen`
//! rewrites what is generated.

mod attacks;
mod r#gen;
mod source;
mod syscalls;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | gen [--check]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["gen"] => r#gen::write(),
        ["gen", "--check"] => r#gen::check(),
        _ => Err(vec![USAGE.to_owned()]),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaints) => {
            for complaint in &complaints {
                eprintln!("{complaint}");
            }
            eprintln!("{} to mend", complaints.len());
            ExitCode::FAILURE
        }
    }
}
