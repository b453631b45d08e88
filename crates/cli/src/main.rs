//! `lane`: the only crate that prints, prompts and listens to people. This file owns the first and
//! the last millisecond of the process.

mod args;
mod commands;
mod error;
mod escape;
mod exit_code;
mod network;
mod render;
mod style;
mod tui;
mod ui;
mod web;
mod wire;

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Answered before anything is built: scripts ask for it often.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "--version" || word == "-V") && words.next().is_none() {
        let said = std::io::stdout().write_all(concat!("lane ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
        return ExitCode::from(if said.is_ok() { exit_code::DONE } else { exit_code::NOT_DONE });
    }
    // A file size limit is an error to report (`EFBIG`), not a reason to die in the middle of a keep.
    engine::without_size_signal();
    commands::main()
}
