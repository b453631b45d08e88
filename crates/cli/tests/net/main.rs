//! The wall around the network: what leaves a lane, what does not, and what is told of it.
//!
//! Every test runs the built `lane` on a street of its own: a network namespace with public, private and local addresses,
//! and servers on them. As root and as an ordinary user, with an empty environment inside unless it says otherwise.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod clients;
mod many;
mod ports;
mod proxies;
mod reach;
mod refusals;
mod street;
