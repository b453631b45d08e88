//! What programs see of a lane against what they see of a plain directory, and whether the lane's layers are
//! read back exactly: POSIX behaviours one by one, directory renames with kills at every step, random work.
//!
//! The programs in `programs/` are Python, joined and handed over with `-c`, so that nothing of the test lies in
//! the project.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod behaviours;
mod ground;
mod kills;
mod model;
mod random;
mod rename;
