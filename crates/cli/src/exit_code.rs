//! The exit codes of `lane`, which are part of its interface.
//!
//! | code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | not done, or not all of it; the reason is on stderr (conflict, drift, refusal) |
//! | 2 | wrong usage |
//! | 124 | `run`: the command was ended by `--timeout` |
//! | 125 | `run`, `exec`, `verify`: lanekeeper itself failed before or after the command |
//! | 126, 127 | `run`, `exec`: the command cannot be executed, is not there |
//! | 128 + n | `run`, `exec`: the command was ended by signal n |
//! | other | `run`, `exec`: the command's own code |

use engine::view::Exit;

/// Done.
pub(crate) const DONE: u8 = 0;
/// Not done, or not all of it.
pub(crate) const NOT_DONE: u8 = 1;
/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// The tool itself failed around a command.
pub(crate) const TOOL_FAILED: u8 = 125;
/// What `timeout(1)` says too.
const TIMED_OUT: u8 = 124;

/// The code that passes a command's end on.
pub(crate) fn of(exit: Exit) -> u8 {
    match exit {
        Exit::Code(code) => u8::try_from(code & 0xff).unwrap_or(NOT_DONE),
        Exit::Signal(signal) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(NOT_DONE),
        Exit::TimedOut => TIMED_OUT,
        Exit::Detached => DONE,
        Exit::Lost => TOOL_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use engine::view::Exit;

    #[test]
    fn a_commands_code_and_signal_are_passed_on() {
        assert_eq!(of(Exit::Code(0)), 0);
        assert_eq!(of(Exit::Code(127)), 127);
        assert_eq!(of(Exit::Code(255)), 255);
        assert_eq!(of(Exit::Signal(9)), 137);
        assert_eq!(of(Exit::TimedOut), 124);
    }
}
