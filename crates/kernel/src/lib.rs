//! Floor 0: what Linux can do, said safely. No policy and no product words.
//!
//! This is the only crate with `unsafe`. Every call that fails returns an [`Error`] that keeps the
//! question that was asked (call and arguments) beside the answer (errno), so that a pasted error
//! reads like a line of strace.

pub mod borrow;
pub mod bytes;
pub mod cgroup;
pub mod controllers;
pub mod deaf;
pub mod desk;
pub mod dir;
pub mod error;
pub mod fdpass;
pub mod handle;
pub mod landlock;
pub mod line;
pub mod lock;
pub mod mappings;
pub mod meta;
pub mod mount;
pub mod mountspec;
pub mod netif;
pub mod netns;
pub mod node;
pub mod open;
pub mod priority;
pub mod privilege;
pub mod proc;
pub mod process;
pub mod pty;
pub mod publish;
pub mod seccomp;
pub mod signal;
pub mod xattr;

pub use error::{Error, Result};
pub use rustix::io::Errno;
