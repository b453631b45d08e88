//! Floor 2: which hosts a lane may reach, and the way there.
//!
//! Reading order: [`name`] and [`address`] (what is spoken of, in one spelling) → [`policy`] (the one decision) →
//! [`preset`] (hosts by purpose, as data) → [`event`] (what is told of it) → [`dns`] (names inside) → `names` → `inspect` (what a
//! client says first) → `relay`, `proxy` (bytes on their way) → `call`, `inside` (a connect of the lane's, carried out) →
//! [`serve`] (the process that does all this).
//!
//! Invariants: everything that leaves a lane was judged by [`policy::Policy::decide`], with the very address that is then
//! connected to; a lane's own network namespace has no way out, so that what is not carried out here does not happen.

pub mod address;
mod book;
mod call;
pub mod dns;
pub mod event;
mod inside;
mod inspect;
pub mod name;
mod names;
pub mod policy;
pub mod preset;
mod proxy;
mod reactor;
mod relay;
pub mod serve;

pub use policy::{Mode, Policy};
