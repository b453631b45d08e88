//! Floor 0: what Linux can do, said safely. No policy and no product words.
//!
//! This is the only crate with `unsafe`. Every call that fails returns an [`Error`] that keeps the
//! question that was asked (call and arguments) beside the answer (errno), so that a pasted error
//! reads like a line of strace.

pub mod error;
pub mod open;
pub mod dir;
pub mod meta;
pub mod xattr;
pub mod node;
pub mod bytes;
pub mod publish;
pub mod landlock;
pub mod lock;
pub mod handle;
pub mod signal;
pub mod seccomp;
pub mod pty;
pub mod process;
pub mod privilege;
pub mod netif;
pub mod mount;
pub mod fdpass;
pub mod mountspec;
pub mod priority;

pub use error::{Error, Result};
pub use rustix::io::Errno;
